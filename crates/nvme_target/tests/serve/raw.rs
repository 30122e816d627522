//! A connection driven byte by byte, for what the library initiator would never send.

use std::net::SocketAddr;
use std::time::Duration;

use access::TlsPsk;
use block::Buffer;
use nvme::fabrics::{Configuration, Connect, ConnectData, Property, PropertyOffset};
use nvme::pdu::{
    CommandCapsule, CommonHeader, InitializeRequest, InitializeResponse, PduType, ResponseCapsule,
};
use nvme::{CompletionEntry, SubmissionEntry};
use reactor::net::{SendBatch, SocketOptions, TcpStream};
use tls::{Stream, TlsError};
use zerocopy::{FromBytes, IntoBytes};

use crate::{HOST, SUBSYSTEM};

pub(crate) struct Raw {
    pub(crate) stream: Stream,
}

impl Raw {
    /// Connects the socket only.
    pub(crate) async fn open(address: SocketAddr) -> Raw {
        let options = SocketOptions::default();
        let stream = TcpStream::connect(address, &options).await.unwrap();
        Raw {
            stream: Stream::plain(stream),
        }
    }

    /// Connects the socket, under TLS with this key.
    pub(crate) async fn secured(address: SocketAddr, psk: &TlsPsk) -> Result<Raw, TlsError> {
        let options = SocketOptions::default();
        let stream = TcpStream::connect(address, &options).await.unwrap();
        let stream = Stream::connect(stream, psk).await?;
        Ok(Raw { stream })
    }

    /// Connects and initializes.
    pub(crate) async fn initialized(address: SocketAddr) -> Raw {
        Raw::open(address).await.initialize().await
    }

    pub(crate) async fn initialize(self) -> Raw {
        let raw = self;
        raw.send(InitializeRequest::new(0, 0, 0).as_bytes()).await;
        let response = raw.receive(size_of::<InitializeResponse>()).await.unwrap();
        assert_eq!(response[0], PduType::INITIALIZE_RESPONSE.0);
        raw
    }

    pub(crate) async fn send(&self, bytes: &[u8]) {
        let mut batch = SendBatch::new();
        batch.push_bytes(bytes);
        self.stream.send(batch).await.1.unwrap();
    }

    /// Exactly this many bytes; `None` when the connection ends before.
    pub(crate) async fn receive(&self, bytes: usize) -> Option<Vec<u8>> {
        let (buffer, result) = self.stream.recv_exact(Buffer::new(bytes), 0..bytes).await;
        result.ok().map(|()| buffer.to_vec())
    }

    /// True when the target closes the connection within this time.
    pub(crate) async fn closes_within(&self, time: Duration) -> bool {
        let ended = async {
            loop {
                let (_, result) = self.stream.recv(Buffer::new(4096), 0..4096).await;
                if !matches!(result, Ok(count) if count > 0) {
                    return;
                }
            }
        };
        reactor::timeout(time, ended).await.is_ok()
    }

    pub(crate) async fn command(&self, entry: &SubmissionEntry, data: &[u8]) -> CompletionEntry {
        self.send(&capsule(entry, data)).await;
        let response = self.receive(size_of::<ResponseCapsule>()).await.unwrap();
        ResponseCapsule::read_from_bytes(&response).unwrap().entry
    }

    /// An admin queue with this KATO, whose controller is enabled; gives its identifier too.
    pub(crate) async fn enabled(address: SocketAddr, keep_alive_ms: u32) -> (Raw, u16) {
        let raw = Raw::initialized(address).await;
        let connect = Connect::new(0, 31, keep_alive_ms);
        let connected = raw.connect(&connect, &connect_data(0xffff)).await;
        assert!(connected.status().is_success());
        raw.configure(Configuration::ENABLE).await;
        (raw, connected.result.get() as u16)
    }

    /// Writes CC.
    pub(crate) async fn configure(&self, configuration: Configuration) {
        let set = Property::set(PropertyOffset::CONFIGURATION, configuration.0);
        assert!(self.command(set.entry(), &[]).await.status().is_success());
    }

    pub(crate) async fn connect(&self, connect: &Connect, data: &ConnectData) -> CompletionEntry {
        self.command(connect.entry(), data.as_bytes()).await
    }
}

pub(crate) fn capsule(entry: &SubmissionEntry, data: &[u8]) -> Vec<u8> {
    let mut common = CommonHeader::new(PduType::COMMAND_CAPSULE, 72);
    common.pdu_bytes = (72 + data.len() as u32).into();
    common.data_offset = if data.is_empty() { 0 } else { 72 };
    let capsule = CommandCapsule {
        common,
        entry: *entry,
    };
    [capsule.as_bytes(), data].concat()
}

/// The data of a Connect to the test's subsystem.
pub(crate) fn connect_data(controller_id: u16) -> ConnectData {
    ConnectData::new([1; 16], controller_id, SUBSYSTEM, HOST)
}

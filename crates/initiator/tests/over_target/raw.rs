//! A host that speaks bytes.

use std::net::SocketAddr;
use std::time::Duration;

use block::Buffer;
use nvme::fabrics::{CONTROLLER_ID_DYNAMIC, Connect, ConnectData};
use nvme::pdu::{
    CommandCapsule, CommonHeader, InitializeRequest, PduType, TerminateRequest, flags,
};
use nvme::{FatalError, SubmissionEntry, digest};
use reactor::net::{SendBatch, SocketOptions, TcpStream};
use reactor::timeout;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use crate::{HOST, SUBSYSTEM};

/// How a connection ended, as its host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The controller named the offence and closed.
    Terminated(FatalError),
    /// The controller closed without a word.
    Closed,
    /// It is still open.
    Open,
}

pub(crate) struct RawHost {
    stream: TcpStream,
    received: Vec<u8>,
}

impl RawHost {
    pub(crate) async fn open(address: SocketAddr) -> RawHost {
        let stream = TcpStream::connect(address, &SocketOptions::default())
            .await
            .unwrap();
        RawHost {
            stream,
            received: Vec::new(),
        }
    }

    /// A connection that has been initialized, with digests as given.
    pub(crate) async fn initialized(address: SocketAddr, digests: u8) -> RawHost {
        let mut host = RawHost::open(address).await;
        host.send(InitializeRequest::new(0, digests, 0).as_bytes())
            .await;
        assert_eq!(
            host.next_pdu().await.unwrap()[0],
            PduType::INITIALIZE_RESPONSE.0
        );
        host
    }

    /// A connection to the admin queue, with a controller behind it.
    pub(crate) async fn connected(address: SocketAddr) -> RawHost {
        let mut host = RawHost::initialized(address, 0).await;
        let data = ConnectData::new([1; 16], CONTROLLER_ID_DYNAMIC, SUBSYSTEM, HOST);
        let connect = Connect::new(0, 31, 0);
        host.send(&capsule(connect.entry(), data.as_bytes())).await;
        let answer = host.next_pdu().await.unwrap();
        assert_eq!(answer[0], PduType::RESPONSE_CAPSULE.0);
        assert_eq!(answer[22..24], [0, 0], "success");
        host
    }

    pub(crate) async fn send(&self, bytes: &[u8]) {
        let mut batch = SendBatch::new();
        batch.push_bytes(bytes);
        // The controller may close while this is under way, which is for the test to see.
        drop(self.stream.send(batch).await);
    }

    async fn more(&mut self) -> bool {
        let (buffer, result) = self.stream.recv(Buffer::new(65_536), 0..65_536).await;
        let bytes = result.unwrap_or(0);
        self.received.extend_from_slice(&buffer[..bytes]);
        bytes > 0
    }

    /// The next whole PDU; `None` when the connection ends first.
    pub(crate) async fn next_pdu(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Ok((header, _)) = CommonHeader::ref_from_prefix(&self.received) {
                let total = header.pdu_bytes.get() as usize;
                if self.received.len() >= total {
                    return Some(self.received.drain(..total).collect());
                }
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Reads until the connection ends, or for a while if it does not.
    pub(crate) async fn end(&mut self, limit: Duration) -> End {
        let reading = async {
            let mut last = None;
            while let Some(pdu) = self.next_pdu().await {
                last = Some(pdu);
            }
            last
        };
        match timeout(limit, reading).await {
            Err(_) => End::Open,
            Ok(Some(pdu)) if pdu[0] == PduType::CONTROLLER_TERMINATE.0 => {
                let (request, _) = TerminateRequest::ref_from_prefix(&pdu).unwrap();
                End::Terminated(request.error())
            }
            Ok(_) => End::Closed,
        }
    }

    /// Ends this end without a word.
    pub(crate) fn vanish(self) {
        reactor::sim::reset(&self.stream);
    }
}

/// A command with data in its capsule, without digests.
pub(crate) fn capsule(entry: &SubmissionEntry, data: &[u8]) -> Vec<u8> {
    let mut common = CommonHeader::new(PduType::COMMAND_CAPSULE, 72);
    if !data.is_empty() {
        common.data_offset = 72;
        common.pdu_bytes = U32::new(72 + data.len() as u32);
    }
    let mut bytes = CommandCapsule {
        common,
        entry: *entry,
    }
    .as_bytes()
    .to_vec();
    bytes.extend_from_slice(data);
    bytes
}

/// The same with a header digest, spoilt if asked for.
pub(crate) fn digested_capsule(entry: &SubmissionEntry, spoilt: bool) -> Vec<u8> {
    let mut common = CommonHeader::new(PduType::COMMAND_CAPSULE, 72);
    common.flags = flags::HEADER_DIGEST;
    common.pdu_bytes = U32::new(76);
    let mut bytes = CommandCapsule {
        common,
        entry: *entry,
    }
    .as_bytes()
    .to_vec();
    let mut trailer = digest(&bytes);
    trailer[3] ^= u8::from(spoilt);
    bytes.extend_from_slice(&trailer);
    bytes
}

//! [`Peer`]: a stranger on the network that says what no host would.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use nvme::authentication::Authentication;
use nvme::fabrics::{CONTROLLER_ID_DYNAMIC, Connect, ConnectData, DISCOVERY_NQN};
use nvme::fabrics::{Configuration, Property, PropertyOffset};
use nvme::pdu::{
    CommandCapsule, CommonHeader, InitializeRequest, InitializeResponse, PduType, ResponseCapsule,
};
use nvme::{SglDescriptor, SubmissionEntry};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use zerocopy::{FromBytes, IntoBytes};

/// Longer than any answer takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What Connect says of itself.
pub struct Claim<'a> {
    pub host_nqn: &'a str,
    pub host_id: [u8; 16],
    pub subsystem_nqn: &'a str,
    pub controller_id: u16,
    pub queue_id: u16,
    pub queue_entries: u16,
    pub keep_alive_ms: u32,
}

impl Default for Claim<'_> {
    fn default() -> Self {
        Claim {
            host_nqn: "nqn.2026-11.example:stranger",
            host_id: [9; 16],
            subsystem_nqn: DISCOVERY_NQN,
            controller_id: CONTROLLER_ID_DYNAMIC,
            queue_id: 0,
            queue_entries: 32,
            keep_alive_ms: 0,
        }
    }
}

pub struct Peer {
    pub stream: TcpStream,
}

impl Peer {
    /// A connection that has been initialized; `None` when the node does not have it.
    pub fn initialized(address: SocketAddr) -> Option<Peer> {
        Peer::initialized_over(TcpStream::connect(address).ok()?)
    }

    /// The same over a connection that there is.
    pub fn initialized_over(stream: TcpStream) -> Option<Peer> {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut peer = Peer { stream };
        peer.send(InitializeRequest::new(0, 0, 0).as_bytes());
        let response = peer.receive(size_of::<InitializeResponse>())?;
        assert_eq!(response[0], PduType::INITIALIZE_RESPONSE.0);
        Some(peer)
    }

    /// A connection to the discovery controller, ready for commands.
    pub fn discovering(address: SocketAddr, keep_alive_ms: u32) -> Option<Peer> {
        Peer::initialized(address)?.discover(keep_alive_ms)
    }

    /// Connects to the discovery controller.
    pub fn discover(mut self, keep_alive_ms: u32) -> Option<Peer> {
        let claim = Claim {
            keep_alive_ms,
            ..Claim::default()
        };
        let answer = self.connect(&claim)?;
        assert_eq!(status(&answer), 0, "discovery is for everybody");
        let enable = Property::set(PropertyOffset::CONFIGURATION, Configuration::ENABLE.0);
        self.command(enable.entry(), &[])?;
        Some(self)
    }

    /// The node may have closed: that is for what comes next to see.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Exactly this many bytes; `None` when the connection ends before.
    pub fn receive(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut received = vec![0; bytes];
        self.stream.read_exact(&mut received).ok()?;
        Some(received)
    }

    /// The next whole PDU; `None` when the connection ends before.
    pub fn next_pdu(&mut self) -> Option<Vec<u8>> {
        let mut pdu = self.receive(size_of::<CommonHeader>())?;
        let (header, _) = CommonHeader::read_from_prefix(&pdu).unwrap();
        let rest = header.pdu_bytes.get() as usize - pdu.len();
        pdu.extend(self.receive(rest)?);
        Some(pdu)
    }

    /// The answer to a command, data left out.
    pub fn command(&mut self, entry: &SubmissionEntry, data: &[u8]) -> Option<ResponseCapsule> {
        self.send(&capsule(entry, data));
        loop {
            let pdu = self.next_pdu()?;
            if pdu[0] == PduType::RESPONSE_CAPSULE.0 {
                return Some(ResponseCapsule::read_from_bytes(&pdu).unwrap());
            }
        }
    }

    pub fn connect(&mut self, claim: &Claim) -> Option<ResponseCapsule> {
        let mut connect = Connect::new(claim.queue_id, claim.queue_entries - 1, 0);
        connect.keep_alive_ms = claim.keep_alive_ms.into();
        let data = ConnectData::new(
            claim.host_id,
            claim.controller_id,
            claim.subsystem_nqn,
            claim.host_nqn,
        );
        self.command(connect.entry(), data.as_bytes())
    }

    /// Everything up to the connection's end, by PDU; the node ends it.
    pub fn all_until_closed(&mut self) -> Vec<PduType> {
        let mut kinds = Vec::new();
        while let Some(pdu) = self.next_pdu() {
            kinds.push(PduType(pdu[0]));
        }
        kinds
    }
}

/// A connection that comes from this address of the machine's.
pub fn connected_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC;
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, flags, Some(ipproto::TCP))?;
    // Ports of connections that have just ended are taken again.
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket.into())
}

/// The status of an answer, without its phase.
pub fn status(answer: &ResponseCapsule) -> u16 {
    answer.entry.status.get() >> 1
}

/// A command with data in its capsule.
/// Authentication Send of a message that comes in the capsule: other data is not taken before a
/// proof.
pub fn authentication(message: &[u8]) -> Authentication {
    let bytes = message.len() as u32;
    let mut send = Authentication::send(bytes);
    send.data = SglDescriptor::in_capsule(bytes);
    send
}

pub fn capsule(entry: &SubmissionEntry, data: &[u8]) -> Vec<u8> {
    let mut common = CommonHeader::new(PduType::COMMAND_CAPSULE, 72);
    common.pdu_bytes = (72 + data.len() as u32).into();
    common.data_offset = if data.is_empty() { 0 } else { 72 };
    let capsule = CommandCapsule {
        common,
        entry: *entry,
    };
    [capsule.as_bytes(), data].concat()
}

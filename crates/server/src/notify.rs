//! systemd's readiness protocol: one datagram to the socket that `NOTIFY_SOCKET` names.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long systemd may take to take it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Tells systemd that the node serves.
pub fn ready() {
    send("READY=1");
}

/// Tells systemd that the node is stopping.
pub fn stopping() {
    send("STOPPING=1");
}

fn send(state: &str) {
    let named = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
    let Some(socket) = named else {
        return;
    };
    if let Err(error) = send_to(socket.as_encoded_bytes(), state) {
        tracing::warn!("systemd was not told {state}: {error}");
    }
}

fn send_to(socket: &[u8], state: &str) -> io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => {
            let path = std::str::from_utf8(socket).map_err(io::Error::other)?;
            SocketAddr::from_pathname(path)?
        }
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_write_timeout(Some(TIMEOUT))?;
    sender.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_arrives_at_a_path_and_at_an_abstract_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send_to(path.as_os_str().as_encoded_bytes(), "READY=1").unwrap();
        let mut received = [0; 32];
        let length = socket.recv(&mut received).unwrap();
        assert_eq!(&received[..length], b"READY=1");

        let name = format!("flashyard-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        send_to(format!("@{name}").as_bytes(), "STOPPING=1").unwrap();
        let length = socket.recv(&mut received).unwrap();
        assert_eq!(&received[..length], b"STOPPING=1");
    }
}

//! Addresses of receivers by name. The system's resolver may take long, and takes a thread
//! meanwhile: not one of those that wait for the disk, so that changes do not wait for a name
//! server.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use tokio::sync::{Semaphore, oneshot};

/// Names that are resolved at once: one for each receiver that there may be.
const AT_ONCE: usize = 2;

static RESOLVING: Semaphore = Semaphore::const_new(AT_ONCE);

/// The addresses of `HOST:PORT`, of which there is at least one.
pub async fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let turn = RESOLVING.try_acquire().map_err(|_| {
        io::Error::new(
            io::ErrorKind::TimedOut,
            "the name server has not answered yet",
        )
    })?;
    let (found, answer) = oneshot::channel();
    let name = address.to_owned();
    std::thread::Builder::new()
        .name("names".to_owned())
        .spawn(move || {
            let _turn = turn;
            // Whoever asked may have stopped waiting.
            let _ = found.send(name.to_socket_addrs());
        })?;
    let addresses: Vec<SocketAddr> = answer.await.map_err(io::Error::other)??.collect();
    match addresses.is_empty() {
        false => Ok(addresses),
        true => Err(io::Error::other("the name has no address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_server_that_is_silent_holds_up_nobody_else() {
        let known = resolve("localhost:2003").await.unwrap();
        let is_here = |found: &SocketAddr| found.ip().is_loopback() && found.port() == 2003;
        assert!(known.iter().all(is_here), "{known:?}");
        let resolved = tokio::time::timeout(std::time::Duration::from_secs(60), async {
            RESOLVING.acquire_many(AT_ONCE as u32).await.unwrap()
        });
        let _silent = resolved.await.unwrap();
        let refused = resolve("localhost:2003").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        // An address needs no server.
        assert_eq!(resolve("[::1]:2003").await.unwrap().len(), 1);
    }
}

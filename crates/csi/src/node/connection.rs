//! What publishing a volume tells the host that is to connect to it.

use std::collections::HashMap;

use api::SecretText;
use tonic::Status;

use crate::parameters::{self, queues};

/// The subsystem's NQN.
pub const NQN: &str = "nqn";
/// The namespace in it.
pub const NSID: &str = "nsid";
/// Addresses of the node, the better paths first.
pub const ADDRESSES: &str = "addresses";
/// How the host connects to them; without a word, over TCP.
pub const TRANSPORT: &str = parameters::TRANSPORT;
/// What the host has to prove.
pub const SECRET: &str = "hostSecret";
/// The key by which the host connects under TLS.
pub const TLS_KEY: &str = "tlsKey";

/// How a volume is reached.
pub struct Connection {
    /// Every path, as `flashyard attach` takes it.
    pub targets: Vec<String>,
    /// What the host has to prove.
    pub secret: Option<SecretText>,
    /// The key of TLS, for a host that connects under it.
    pub tls_key: Option<SecretText>,
    /// I/O queues to ask for.
    pub queues: Option<u16>,
}

impl Connection {
    /// What the contexts of a call say.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when the volume was not published.
    pub fn of(
        published: &HashMap<String, String>,
        volume: &HashMap<String, String>,
    ) -> Result<Connection, Status> {
        let part = |key: &str| {
            let value = published.get(key).filter(|value| !value.is_empty());
            let message = || format!("publish_context has no {key}: the volume is not published");
            value.ok_or_else(|| Status::invalid_argument(message()))
        };
        let (nqn, nsid) = (part(NQN)?, part(NSID)?);
        let paths = part(ADDRESSES)?.split_whitespace();
        let transport = published
            .get(TRANSPORT)
            .map(|word| parameters::transport(word));
        let scheme = transport.transpose()?.unwrap_or_default().word();
        let secret = |key: &str| published.get(key).map(|text| text.as_str().into());
        let queues = volume.get("queues").map(|text| queues(text)).transpose()?;
        Ok(Connection {
            targets: paths
                .map(|path| format!("{scheme}://{path}/{nqn}?nsid={nsid}"))
                .collect(),
            secret: secret(SECRET),
            tls_key: secret(TLS_KEY),
            queues,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_a_target() {
        let pairs = [
            (NQN, "nqn.2026-11.example:v"),
            (NSID, "1"),
            (ADDRESSES, "192.0.2.1:4420 [2001:db8::1]:4420"),
        ];
        let mut published: HashMap<_, _> = pairs
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let found = Connection::of(&published, &HashMap::new()).unwrap();
        assert_eq!(found.targets.len(), 2);
        assert_eq!((found.secret, found.tls_key), (None, None));
        assert_eq!(
            found.targets[1],
            "tcp://[2001:db8::1]:4420/nqn.2026-11.example:v?nsid=1"
        );
        published.insert(TRANSPORT.to_owned(), "rdma".to_owned());
        let over_rdma = Connection::of(&published, &HashMap::new()).unwrap();
        assert_eq!(
            over_rdma.targets[0],
            "rdma://192.0.2.1:4420/nqn.2026-11.example:v?nsid=1"
        );
        published.remove(ADDRESSES);
        let refused = Connection::of(&published, &HashMap::new()).err().unwrap();
        assert!(refused.message().contains(ADDRESSES), "{refused}");
    }
}

//! [`TargetAddress`]: where a namespace is, as one word on a command line.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// `tcp://HOST:PORT/SUBSYSTEM-NQN?nsid=N`, with HOST an IPv4 address or an IPv6 address in
/// brackets; `?nsid=N` may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetAddress {
    /// Where the controller listens.
    pub address: SocketAddr,
    /// Which subsystem.
    pub subsystem_nqn: String,
    /// Which namespace, if the address says.
    pub namespace_id: Option<u32>,
}

/// Why a text is no [`TargetAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no target address: {reason}; expected tcp://HOST:PORT/SUBSYSTEM-NQN?nsid=N")]
pub struct AddressError {
    text: String,
    reason: &'static str,
}

impl FromStr for TargetAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<TargetAddress, AddressError> {
        let refuse = |reason| AddressError {
            text: text.to_owned(),
            reason,
        };
        let rest = text
            .strip_prefix("tcp://")
            .ok_or(refuse("it does not start with tcp://"))?;
        let (host, path) = rest
            .split_once('/')
            .ok_or(refuse("the subsystem NQN is missing"))?;
        let address = host
            .parse::<SocketAddr>()
            .map_err(|_| refuse("the host is no IP address with a port (IPv6 in brackets)"))?;
        let (nqn, query) = match path.split_once('?') {
            Some((nqn, query)) => (nqn, Some(query)),
            None => (path, None),
        };
        if nqn.parse::<access::Nqn>().is_err() {
            return Err(refuse("what follows the port is no NQN"));
        }
        let namespace_id = match query.map(|query| query.strip_prefix("nsid=")) {
            None => None,
            Some(None) => return Err(refuse("only nsid may follow the question mark")),
            Some(Some(number)) => match number.parse::<u32>() {
                Ok(number) if number > 0 && number < u32::MAX => Some(number),
                _ => return Err(refuse("nsid is not from 1 to 4294967294")),
            },
        };
        Ok(TargetAddress {
            address,
            subsystem_nqn: nqn.to_owned(),
            namespace_id,
        })
    }
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "tcp://{}/{}", self.address, self.subsystem_nqn)?;
        match self.namespace_id {
            Some(namespace_id) => write!(formatter, "?nsid={namespace_id}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_read_back() {
        for text in [
            "tcp://127.0.0.1:4420/nqn.2014-08.org.example:vol1?nsid=1",
            "tcp://[::1]:4420/nqn.2014-08.org.example:vol1",
        ] {
            assert_eq!(text.parse::<TargetAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("127.0.0.1:4420/nqn.2014-08.org.example:v", "tcp://"),
            ("tcp://127.0.0.1:4420", "NQN is missing"),
            (
                "tcp://localhost:4420/nqn.2014-08.org.example:v",
                "no IP address",
            ),
            ("tcp://::1:4420/nqn.2014-08.org.example:v", "brackets"),
            ("tcp://127.0.0.1:4420/vol1", "no NQN"),
            (
                "tcp://127.0.0.1:4420/nqn.2014-08.org.example:v?nsid=0",
                "nsid",
            ),
            (
                "tcp://127.0.0.1:4420/nqn.2014-08.org.example:v?size=1",
                "question mark",
            ),
        ];
        for (text, expected) in cases {
            let error = text.parse::<TargetAddress>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

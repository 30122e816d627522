//! [`TargetName`] and [`TargetAddress`]: where a namespace is, as one word on a command line.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use reactor::net::{display_address, parse_address, resolve};

/// How a host comes to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// NVMe/TCP.
    Tcp,
    /// NVMe/RDMA.
    Rdma,
}

impl Transport {
    /// As the kernel, nvme-cli and the beginning of an address have it.
    pub fn word(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Rdma => "rdma",
        }
    }

    /// The longest data that a command's descriptor can tell of.
    pub(crate) fn data_bytes_max(self) -> u64 {
        match self {
            Transport::Tcp => u64::from(u32::MAX),
            Transport::Rdma => u64::from(nvme::rdma::DATA_BYTES_MAX),
        }
    }
}

/// `tcp://HOST:PORT/SUBSYSTEM-NQN?nsid=N`, or `rdma://` with the same. HOST is an IPv4 address, an
/// IPv6 address in brackets, with `%INTERFACE` where it is a link's, or a host's name. `?nsid=N`
/// may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetName {
    /// How it is reached.
    pub transport: Transport,
    /// HOST:PORT.
    host: String,
    /// Which subsystem.
    pub subsystem_nqn: String,
    /// Which namespace, if the name says.
    pub namespace_id: Option<u32>,
}

/// A [`TargetName`] whose host is an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetAddress {
    /// How it is reached.
    pub transport: Transport,
    /// Where the controller listens.
    pub address: SocketAddr,
    /// Which subsystem.
    pub subsystem_nqn: String,
    /// Which namespace, if the address says.
    pub namespace_id: Option<u32>,
}

/// Where controllers are connected to. An address alone is one over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// How it is reached.
    pub transport: Transport,
    /// Where it listens.
    pub address: SocketAddr,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        let transport = Transport::Tcp;
        Endpoint { transport, address }
    }
}

impl From<&TargetAddress> for Endpoint {
    fn from(target: &TargetAddress) -> Endpoint {
        Endpoint {
            transport: target.transport,
            address: target.address,
        }
    }
}

/// Why a text is no [`TargetName`] or no [`TargetAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no target address: {reason}; expected tcp://HOST:PORT/SUBSYSTEM-NQN?nsid=N, \
     or rdma:// instead of tcp://"
)]
pub struct AddressError {
    text: String,
    reason: &'static str,
}

const NO_HOST: &str = "the host is no name or IP address with a port (IPv6 in brackets)";
const NO_ADDRESS: &str = "the host is no IP address with a port (IPv6 in brackets)";

impl TargetName {
    /// The target at each address that the host has, as this machine resolves its name now.
    ///
    /// # Errors
    /// The resolver's; there is at least one address otherwise.
    pub fn resolve(&self) -> io::Result<Vec<TargetAddress>> {
        let addresses = resolve(&self.host)?.into_iter();
        Ok(addresses.map(|address| self.at(address)).collect())
    }

    /// HOST:PORT, as it was written.
    pub fn host(&self) -> &str {
        &self.host
    }

    fn at(&self, address: SocketAddr) -> TargetAddress {
        TargetAddress {
            transport: self.transport,
            address,
            subsystem_nqn: self.subsystem_nqn.clone(),
            namespace_id: self.namespace_id,
        }
    }
}

/// Whether a text is a host's name with a port.
fn is_named(host: &str) -> bool {
    let Some((name, port)) = host.rsplit_once(':') else {
        return false;
    };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // Digits and dots alone were to be an address.
    let is_name = name.bytes().all(letter) && name.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_name && port.parse::<u16>().is_ok()
}

impl FromStr for TargetName {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<TargetName, AddressError> {
        let refuse = |reason| AddressError {
            text: text.to_owned(),
            reason,
        };
        let begins = |transport: Transport| {
            let rest = text.strip_prefix(transport.word())?.strip_prefix("://")?;
            Some((transport, rest))
        };
        let (transport, rest) = [Transport::Tcp, Transport::Rdma]
            .into_iter()
            .find_map(begins)
            .ok_or(refuse("it starts neither with tcp:// nor with rdma://"))?;
        let (host, path) = rest
            .split_once('/')
            .ok_or(refuse("the subsystem NQN is missing"))?;
        if !is_named(host) && parse_address(host).is_none() {
            return Err(refuse(NO_HOST));
        }
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
        Ok(TargetName {
            transport,
            host: host.to_owned(),
            subsystem_nqn: nqn.to_owned(),
            namespace_id,
        })
    }
}

impl FromStr for TargetAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<TargetAddress, AddressError> {
        let name: TargetName = text.parse()?;
        let address = parse_address(&name.host).ok_or_else(|| AddressError {
            text: text.to_owned(),
            reason: NO_ADDRESS,
        })?;
        Ok(name.at(address))
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, nqn) = (&self.host, &self.subsystem_nqn);
        display(formatter, self.transport, host, (nqn, self.namespace_id))
    }
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, nqn) = (display_address(&self.address), &self.subsystem_nqn);
        display(formatter, self.transport, &host, (nqn, self.namespace_id))
    }
}

fn display(
    formatter: &mut fmt::Formatter<'_>,
    transport: Transport,
    host: &str,
    (nqn, namespace_id): (&str, Option<u32>),
) -> fmt::Result {
    write!(formatter, "{}://{host}/{nqn}", transport.word())?;
    match namespace_id {
        Some(namespace_id) => write!(formatter, "?nsid={namespace_id}"),
        None => Ok(()),
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
            "tcp://[fe80::1%lo]:4420/nqn.2014-08.org.example:vol1",
            "rdma://192.0.2.1:4420/nqn.2014-08.org.example:vol1?nsid=7",
        ] {
            assert_eq!(text.parse::<TargetAddress>().unwrap().to_string(), text);
            let name: TargetName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(name.resolve().unwrap(), [text.parse().unwrap()]);
        }
    }

    #[test]
    fn names_of_hosts_are_resolved_when_asked() {
        let text = "tcp://localhost:4420/nqn.2014-08.org.example:vol1?nsid=2";
        let name: TargetName = text.parse().unwrap();
        assert_eq!(
            (name.to_string(), name.host()),
            (text.into(), "localhost:4420")
        );
        let loopback = "tcp://127.0.0.1:4420/nqn.2014-08.org.example:vol1?nsid=2";
        let found = name.resolve().unwrap();
        assert!(found.contains(&loopback.parse().unwrap()), "{found:?}");
        for host in [
            "",
            "localhost",
            "localhost:99999",
            "a b:1",
            "1.2.3:4420",
            "::1:4420",
            ":1",
        ] {
            let text = format!("tcp://{host}/nqn.2014-08.org.example:vol1");
            let error = text.parse::<TargetName>().unwrap_err().to_string();
            assert!(error.contains("no name or IP address"), "{error}");
        }
        let nowhere: TargetName = "tcp://nowhere.invalid:4420/nqn.2014-08.org.example:v"
            .parse()
            .unwrap();
        assert!(nowhere.resolve().is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("127.0.0.1:4420/nqn.2014-08.org.example:v", "tcp://"),
            ("udp://127.0.0.1:4420/nqn.2014-08.org.example:v", "rdma://"),
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

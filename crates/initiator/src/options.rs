//! How to connect.

use std::time::Duration;

use access::{Nqn, TlsKey, TlsPsk};

use crate::{Credentials, Error, Transport};

/// How a controller is connected to, and what happens when the connection is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Who connects.
    pub host_nqn: String,
    /// HOSTID: must be the same on every connection of one host.
    pub host_id: [u8; 16],
    /// I/O queues to ask for; the controller may grant fewer.
    pub io_queues: u16,
    /// Commands in flight on each I/O queue; the controller may allow fewer.
    pub queue_depth: u16,
    /// Ask for header digests.
    pub header_digest: bool,
    /// Ask for data digests.
    pub data_digest: bool,
    /// Send write data inside the command capsule as far as the controller takes it.
    pub in_capsule: bool,
    /// Keep alive timeout (KATO); `None` turns keep alive off.
    pub keep_alive: Option<Duration>,
    /// Time for a connection to be established, all its commands included.
    pub connect_timeout: Duration,
    /// `None`: a lost connection fails what is in flight and everything after it. Otherwise the
    /// controller reconnects, and I/O through a [`Namespace`](crate::Namespace) waits for it.
    pub reconnect: Option<Reconnect>,
    /// Keep asynchronous event requests outstanding.
    pub async_events: bool,
    /// What to prove to controllers that ask for it, and what they have to prove.
    pub credentials: Option<Credentials>,
    /// Connect under TLS, with this key.
    pub tls_key: Option<TlsKey>,
}

/// How long and how often to try to get a lost controller back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// Pause between attempts.
    pub delay: Duration,
    /// Give up, and fail all waiting I/O, after this time without a controller, or with a namespace
    /// that is not ready.
    pub controller_loss_timeout: Duration,
    /// Pause between attempts once the controller was given up: I/O fails meanwhile, and works
    /// again when the controller is back. `None`: it stays lost.
    pub afterwards: Option<Duration>,
}

impl Default for Reconnect {
    /// Every second for ten minutes, and then no more.
    fn default() -> Reconnect {
        Reconnect {
            delay: Duration::from_secs(1),
            controller_loss_timeout: Duration::from_secs(600),
            afterwards: None,
        }
    }
}

impl ConnectOptions {
    /// One I/O queue of 128 commands, no digests, in-capsule data, keep alive of 5 s, no reconnect,
    /// no credentials, no TLS.
    pub fn new(host_nqn: impl Into<String>) -> ConnectOptions {
        let host_nqn = host_nqn.into();
        ConnectOptions {
            host_id: host_id_of(&host_nqn),
            host_nqn,
            io_queues: 1,
            queue_depth: 128,
            header_digest: false,
            data_digest: false,
            in_capsule: true,
            keep_alive: Some(Duration::from_secs(5)),
            connect_timeout: Duration::from_secs(10),
            reconnect: None,
            async_events: true,
            credentials: None,
            tls_key: None,
        }
    }

    /// The key of TLS for connections to `subsystem_nqn`, if there is to be TLS.
    ///
    /// # Errors
    /// [`Error::Option`] when a name is no NQN.
    pub fn psk(&self, subsystem_nqn: &str) -> Result<Option<TlsPsk>, Error> {
        let Some(key) = &self.tls_key else {
            return Ok(None);
        };
        let name = |option, text: &str| {
            text.parse::<Nqn>().map_err(|_| Error::Option {
                option,
                found: text.to_owned(),
                allowed: "an NQN is required",
            })
        };
        let host = name("host NQN", &self.host_nqn)?;
        let subsystem = name("subsystem NQN", subsystem_nqn)?;
        Ok(key.psks(&host, &subsystem).into_iter().next())
    }

    /// Checks that the options can be used, before anything is sent.
    ///
    /// # Errors
    /// [`Error::Option`] names the first option that cannot be used.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |option, found: String, allowed| {
            Err(Error::Option {
                option,
                found,
                allowed,
            })
        };
        if let Err(error) = self.host_nqn.parse::<Nqn>() {
            let found = format!("'{}' ({error})", self.host_nqn);
            return refuse("host NQN", found, "an NQN is required");
        }
        if self.queue_depth == 0 || self.queue_depth > 4096 {
            return refuse("queue depth", self.queue_depth.to_string(), "1 to 4096");
        }
        if self.io_queues > 128 {
            return refuse("I/O queues", self.io_queues.to_string(), "0 to 128");
        }
        match self.keep_alive {
            Some(time) if time.as_millis() == 0 || time.as_millis() > u128::from(u32::MAX) => {
                refuse(
                    "keep alive",
                    format!("{time:?}"),
                    "1 ms to 49 days, or none",
                )
            }
            _ => Ok(()),
        }
    }
}

impl ConnectOptions {
    /// Checks that `transport` has what the options ask for; the error names what it lacks.
    pub(crate) fn check_for(&self, transport: Transport) -> Result<(), Error> {
        let asked = [
            ("header digests", self.header_digest),
            ("data digests", self.data_digest),
            ("TLS", self.tls_key.is_some()),
        ];
        match asked.into_iter().find(|(_, asked)| *asked) {
            Some((option, _)) if transport == Transport::Rdma => Err(Error::Option {
                option,
                found: "a connection over RDMA".to_owned(),
                allowed: "only connections over TCP have it",
            }),
            _ => Ok(()),
        }
    }
}

/// A host identifier that is the same whenever the NQN is: the UUID in it, where there is one
/// ("nqn.2014-08.org.nvmexpress:uuid:..."), else two digests of the name.
fn host_id_of(host_nqn: &str) -> [u8; 16] {
    if let Some(uuid) = host_nqn
        .rsplit_once(":uuid:")
        .and_then(|(_, text)| uuid_bytes(text))
    {
        return uuid;
    }
    let mut id = [0; 16];
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for half in id.chunks_exact_mut(8) {
        for byte in host_nqn.bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        half.copy_from_slice(&state.to_be_bytes());
    }
    id
}

fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|digit| *digit != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 32).then_some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_id_follows_from_the_name() {
        let nqn = "nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(ConnectOptions::new(nqn).host_id[..3], [0x00, 0x11, 0x22]);
        let one = ConnectOptions::new("nqn.2014-08.org.example:one").host_id;
        let other = ConnectOptions::new("nqn.2014-08.org.example:two").host_id;
        assert_ne!(one, other);
        assert_eq!(
            one,
            ConnectOptions::new("nqn.2014-08.org.example:one").host_id
        );
        assert_ne!(one[..8], one[8..]);
    }

    #[test]
    fn what_rdma_has_not_is_named() {
        let good = ConnectOptions::new("nqn.2014-08.org.example:host");
        assert!(good.check_for(Transport::Rdma).is_ok());
        let digests = ConnectOptions {
            data_digest: true,
            ..good.clone()
        };
        assert!(digests.check_for(Transport::Tcp).is_ok());
        let refused = digests.check_for(Transport::Rdma).unwrap_err().to_string();
        assert!(refused.starts_with("data digests: "), "{refused}");
    }

    #[test]
    fn options_that_cannot_be_used_are_named() {
        let good = ConnectOptions::new("nqn.2014-08.org.example:host");
        assert!(good.check().is_ok());
        let cases = [
            (
                ConnectOptions {
                    host_nqn: "host".into(),
                    ..good.clone()
                },
                "host NQN",
            ),
            (
                ConnectOptions {
                    queue_depth: 0,
                    ..good.clone()
                },
                "queue depth",
            ),
            (
                ConnectOptions {
                    io_queues: 1000,
                    ..good.clone()
                },
                "I/O queues",
            ),
            (
                ConnectOptions {
                    keep_alive: Some(Duration::ZERO),
                    ..good.clone()
                },
                "keep alive",
            ),
        ];
        for (options, expected) in cases {
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}

//! Which address of a port somebody can use who asks for it. An unspecified address is never one.

use std::net::{IpAddr, SocketAddr};

use reactor::net::canonical;

/// Both ends of the connection over which somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    local: SocketAddr,
    remote: SocketAddr,
}

impl Asker {
    /// The asker at `remote`, by whom we were reached at `local`.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Asker {
        Asker {
            local: canonical(local),
            remote: canonical(remote),
        }
    }

    /// Somebody on this machine, who asks over no network.
    pub fn here() -> Asker {
        let loopback = SocketAddr::new([127, 0, 0, 1].into(), 0);
        Asker::new(loopback, loopback)
    }

    /// Where it asks from.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Whether it asks from this machine.
    pub fn is_here(&self) -> bool {
        self.local.ip().is_loopback() || self.local.ip() == self.remote.ip()
    }
}

/// The address at which `asker` reaches a port that listens at `bound` and is to be announced as
/// `advertise`. None if the port serves no address that is known to be within the asker's reach: it
/// listens everywhere, for the other family alone; or it listens on this machine alone, or on a
/// link, and the asker is elsewhere.
pub fn address_for(
    bound: SocketAddr,
    advertise: Option<SocketAddr>,
    asker: &Asker,
) -> Option<SocketAddr> {
    if advertise.is_some() {
        return advertise;
    }
    let local = asker.local;
    if bound.ip().is_unspecified() {
        let mut reached = local;
        reached.set_port(bound.port());
        return (local.is_ipv4() == bound.is_ipv4()).then_some(reached);
    }
    let within_reach = if bound.ip().is_loopback() {
        asker.is_here()
    } else if is_link_local(bound.ip()) {
        asker.is_here() || local.ip() == bound.ip()
    } else {
        true
    };
    within_reach.then_some(bound)
}

/// Whether an address means something on one link alone.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where it listens, as what it is announced, where it was reached, from where; what is said.
    const CASES: &str = "
        # A port with an address of its own says that to everybody.
        192.0.2.1:1       -  192.0.2.1:9       192.0.2.9:5       192.0.2.1:1
        192.0.2.1:1       -  [2001:db8::1]:9   [2001:db8::9]:5   192.0.2.1:1
        [2001:db8::1]:1   -  192.0.2.1:9       192.0.2.9:5       [2001:db8::1]:1
        192.0.2.1:1       -  127.0.0.1:9       127.0.0.1:5       192.0.2.1:1
        # One that listens everywhere says where it was reached, in its own family.
        0.0.0.0:1         -  192.0.2.1:9       192.0.2.9:5       192.0.2.1:1
        0.0.0.0:1         -  198.51.100.1:9    192.0.2.9:5       198.51.100.1:1
        0.0.0.0:1         -  [2001:db8::1]:9   [2001:db8::9]:5   -
        [::]:1            -  [2001:db8::1]:9   [2001:db8::9]:5   [2001:db8::1]:1
        [::]:1            -  192.0.2.1:9       192.0.2.9:5       -
        [::]:1            -  [fe80::1%7]:9     [fe80::9%7]:5     [fe80::1%7]:1
        0.0.0.0:1         -  127.0.0.1:9       127.0.0.1:5       127.0.0.1:1
        # IPv4 on a socket of IPv6.
        0.0.0.0:1         -  [::ffff:192.0.2.1]:9  [::ffff:192.0.2.9]:5  192.0.2.1:1
        [::]:1            -  [::ffff:192.0.2.1]:9  [::ffff:192.0.2.9]:5  -
        # The announced address stands above all.
        0.0.0.0:1    203.0.113.1:7  [2001:db8::1]:9   [2001:db8::9]:5   203.0.113.1:7
        127.0.0.1:1  203.0.113.1:7  192.0.2.1:9       192.0.2.9:5       203.0.113.1:7
        # Loopback is for this machine, by whatever address it asks.
        127.0.0.1:1       -  192.0.2.1:9       192.0.2.9:5       -
        127.0.0.1:1       -  192.0.2.1:9       192.0.2.1:5       127.0.0.1:1
        [::1]:1           -  127.0.0.1:9       127.0.0.1:5       [::1]:1
        # A link's address is for that link.
        [fe80::1%7]:1     -  192.0.2.1:9       192.0.2.9:5       -
        [fe80::1%7]:1     -  [fe80::1%7]:9     [fe80::9%7]:5     [fe80::1%7]:1
        [fe80::1%7]:1     -  127.0.0.1:9       127.0.0.1:5       [fe80::1%7]:1";

    #[test]
    fn a_port_is_announced_as_the_asker_reaches_it() {
        let cases = CASES.lines().map(str::trim);
        for case in cases.filter(|case| !case.is_empty() && !case.starts_with('#')) {
            let words = case.split_whitespace().map(|word| word.parse().ok());
            let [bound, advertise, local, remote, expected] = *words.collect::<Vec<_>>() else {
                panic!("five addresses in {case}");
            };
            let asker = Asker::new(local.unwrap(), remote.unwrap());
            assert_eq!(
                address_for(bound.unwrap(), advertise, &asker),
                expected,
                "{case}"
            );
        }
    }
}

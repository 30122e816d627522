//! [`Standing`]: what the responder was given, and what has become of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use mdns_sd::DaemonEvent;
use tokio::time::Instant;

use super::instances::Instance;

/// What is worth telling of announcements.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// Hosts are told of an instance, under this name.
    Announced(String),
    /// The addresses of this machine are others now.
    Addresses,
}

/// Instances that the responder was given.
#[derive(Default)]
pub struct Standing {
    given: BTreeMap<Instance, Given>,
    new_links: bool,
}

struct Given {
    addresses: BTreeSet<IpAddr>,
    name: String,
    since: Instant,
    announced: bool,
}

impl Standing {
    /// Notes that the responder was given an instance, with these addresses.
    pub fn give(&mut self, instance: Instance, addresses: &BTreeSet<IpAddr>, name: String) {
        let given = self.given.entry(instance).or_insert_with(|| Given {
            addresses: BTreeSet::new(),
            name,
            since: Instant::now(),
            announced: false,
        });
        given.addresses.clone_from(addresses);
    }

    /// Whether the responder has an instance with these addresses.
    pub fn has(&self, instance: Instance, addresses: &BTreeSet<IpAddr>) -> bool {
        let given = self.given.get(&instance);
        given.is_some_and(|given| given.addresses == *addresses)
    }

    /// Forgets the other instances; gives their names.
    pub fn keep_only(&mut self, is_kept: impl Fn(&Instance) -> bool) -> Vec<String> {
        let gone = self.given.extract_if(.., |instance, _| !is_kept(instance));
        gone.map(|(_, given)| given.name).collect()
    }

    /// Whether there are links since the last question on which instances are not announced.
    pub fn take_new_links(&mut self) -> bool {
        std::mem::take(&mut self.new_links)
    }

    /// Whether hosts are told of any instance.
    pub fn is_any_announced(&self) -> bool {
        self.given.values().any(|given| given.announced)
    }

    /// Which instances were given so long ago, and are not announced.
    pub fn late(&self, patience: Duration) -> Option<String> {
        let late = |given: &Given| !given.announced && given.since.elapsed() >= patience;
        let late = self.given.iter().filter(|(_, given)| late(given));
        let late = late.map(|(instance, given)| {
            let addresses: Vec<_> = given.addresses.iter().map(IpAddr::to_string).collect();
            format!("port {} at {}", instance.port, addresses.join(", "))
        });
        let late: Vec<_> = late.collect();
        (!late.is_empty()).then(|| format!("no link takes {}", late.join("; ")))
    }

    /// Notes what the responder says; gives what is worth telling of it.
    pub fn take(&mut self, event: DaemonEvent) -> Option<News> {
        match event {
            DaemonEvent::Announce(name, _) => {
                let mut given = self.given.values_mut();
                let given = given.find(|given| given.name == name && !given.announced)?;
                given.announced = true;
                Some(News::Announced(name))
            }
            DaemonEvent::IpAdd(_) => {
                self.new_links = true;
                Some(News::Addresses)
            }
            DaemonEvent::IpDel(_) => Some(News::Addresses),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::super::instances::{Instances, Offer, instances};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Two instances, of ports 1 and 2.
    fn two() -> (Standing, Instances) {
        let offers = [1, 2].map(|port| Offer {
            transport: api::PortTransport::Tcp,
            bound: ([192, 0, 2, 1], port).into(),
            advertise: None,
        });
        let both = instances(offers, &[]);
        let mut standing = Standing::default();
        for (instance, addresses) in &both {
            standing.give(*instance, addresses, format!("{}.x.", instance.port));
        }
        (standing, both)
    }

    fn announce(name: &str) -> DaemonEvent {
        DaemonEvent::Announce(name.to_owned(), String::new())
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_that_no_link_takes_is_told_after_a_while() {
        let (mut standing, both) = two();
        assert_eq!(
            standing.take(announce("1.x.")),
            Some(News::Announced("1.x.".into()))
        );
        assert_eq!(standing.take(announce("1.x.")), None);
        assert_eq!(standing.late(PATIENCE), None);
        advance(PATIENCE).await;
        let said = standing.late(PATIENCE);
        assert_eq!(said.as_deref(), Some("no link takes port 2 at 192.0.2.1"));
        // Given once more, it has not waited less.
        let (instance, addresses) = both.last_key_value().unwrap();
        standing.give(*instance, addresses, "2.x.".to_owned());
        assert!(standing.late(PATIENCE).is_some());
        assert!(standing.take(announce("2.x.")).is_some());
        assert_eq!(standing.late(PATIENCE), None);
    }

    #[tokio::test]
    async fn an_instance_that_goes_is_withdrawn_by_its_name() {
        let (mut standing, _) = two();
        assert_eq!(standing.keep_only(|instance| instance.port == 2), ["1.x."]);
        assert_eq!(standing.take(announce("1.x.")), None);
        assert!(!standing.is_any_announced());
    }

    #[tokio::test]
    async fn a_new_link_is_one_to_announce_on() {
        let (mut standing, both) = two();
        assert!(
            both.iter()
                .all(|(instance, addresses)| standing.has(*instance, addresses))
        );
        assert!(!standing.take_new_links());
        let address = [192, 0, 2, 9].into();
        assert_eq!(
            standing.take(DaemonEvent::IpDel(address)),
            Some(News::Addresses)
        );
        assert!(!standing.take_new_links());
        assert_eq!(
            standing.take(DaemonEvent::IpAdd(address)),
            Some(News::Addresses)
        );
        assert!(standing.take_new_links() && !standing.take_new_links());
    }
}

//! What the node tells about itself by multicast DNS.

use std::sync::Arc;
use std::time::Duration;

use api::Severity;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::control::Control;
use crate::control::operating::problems::Means;
use crate::interfaces::global_addresses_or_none;
use crate::mdns::{Announced, Announcer, Instances, News, Offer, instances};

/// How often it is looked which addresses there are to announce.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(10);

impl Control {
    /// Announces the ports that hosts can connect to, until `stopping` says something. Returns when
    /// everybody has been told that the node goes, or could not be told.
    pub async fn announce(self: Arc<Self>, mut stopping: oneshot::Receiver<()>) {
        let mut announcer = Announcer::new(Announced {
            name: self.identity.name.clone(),
            uuid: self.identity.uuid,
            discovery_nqn: node::discovery_nqn(self.identity.uuid),
        });
        loop {
            announcer.announce(&self.announced());
            self.note_problem(Means::Announcements, announcer.problem());
            tokio::select! {
                _ = &mut stopping => return announcer.end().await,
                news = announcer.news() => self.tell_of_announcement(&news),
                () = sleep(LOOKED_AT_EVERY) => {}
            }
        }
    }

    fn announced(&self) -> Instances {
        let offers = self.open_ports().map(|(_, bound, port)| Offer {
            transport: port.transport,
            bound,
            advertise: port.advertise.map(|address| address.0),
        });
        instances(offers, &global_addresses_or_none())
    }

    fn tell_of_announcement(&self, news: &News) {
        if let News::Announced(name) = news {
            let message = format!("announced by mDNS as {name}");
            self.events.record(Severity::Info, "node", &message);
        }
    }
}

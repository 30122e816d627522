//! What one core has counted.

use nvme_target::NamespaceCounters;

use crate::core::Core;
use crate::counts::{CoreMeasure, DriveCounts};

/// What one core tells.
pub struct Part {
    pub core: CoreMeasure,
    pub namespaces: Vec<NamespaceCounters>,
    pub drives: Vec<(String, DriveCounts)>,
}

impl Core {
    pub fn measure(&self) -> Part {
        let counters = self.target().counters();
        let sessions = self.sessions();
        Part {
            core: CoreMeasure {
                usage: reactor::usage(),
                connections: counters.connections,
                connections_accepted: counters.connections_accepted,
                sessions: sessions.len() as u64,
                queue_pairs: sessions.iter().map(|s| 1 + u64::from(s.queues)).sum(),
                protocol_errors: counters.protocol_errors,
                keep_alive_expirations: counters.keep_alive_expirations,
                connections_refused: counters.connections_refused,
                connections_displaced: counters.connections_displaced,
                hosts_refused: counters.hosts_refused,
            },
            namespaces: counters.namespaces,
            drives: self.drive_counts(),
        }
    }
}

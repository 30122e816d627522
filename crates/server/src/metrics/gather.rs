//! [`Sample`]: everything that is counted, at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use api::{DriveHealth, Job, Name};
use node::{Measures, PoolFacts, Rates, VolumeCounts};

use super::recorder::HistoryCounts;

/// What the control plane knows of the node's objects.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Volumes by name.
    pub volumes: BTreeMap<Name, KnownVolume>,
    /// Drives by name: whether they are open.
    pub drives: BTreeMap<Name, bool>,
    /// Pools by name.
    pub pools: BTreeMap<Name, KnownPool>,
    /// What tenants with limits or minimums may do and are promised, by name.
    pub tenants: BTreeMap<Name, KnownLimits>,
    /// Schedules of snapshots by name.
    pub schedules: BTreeMap<Name, KnownSchedule>,
    /// Replications by name.
    pub replications: BTreeMap<Name, KnownReplication>,
    /// What drives said of their health when they were last asked.
    pub health: BTreeMap<Name, DriveHealth>,
    /// What pools said last that volumes hold and no snapshot does, by volume.
    pub unique_bytes: Arc<BTreeMap<Name, u64>>,
}

/// A volume.
#[derive(Clone, Debug)]
pub struct KnownVolume {
    /// Its subsystem.
    pub nqn: String,
    /// Its namespace.
    pub nsid: u32,
    /// Its size.
    pub capacity_bytes: u64,
    /// Whether hosts can use it.
    pub online: bool,
    /// The pool that holds it.
    pub pool: Option<Name>,
    /// Whose it is.
    pub tenant: Option<Name>,
    /// What it may do and is promised.
    pub limits: KnownLimits,
}

/// Limits as they come to, and a minimum.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownLimits {
    /// The limits, for the size that there is.
    pub rates: Rates,
    /// Commands a second that are promised.
    pub minimum_iops: Option<u64>,
}

/// A schedule.
#[derive(Clone, Copy, Debug)]
pub struct KnownSchedule {
    /// When it took snapshots last, in seconds since 1970.
    pub last: Option<u64>,
    /// Whether it does not take or delete what it should.
    pub has_problem: bool,
}

/// A replication.
#[derive(Clone, Copy, Debug)]
pub struct KnownReplication {
    /// As when the replica is, in seconds since 1970.
    pub copied: Option<u64>,
    /// Whether the last copy failed.
    pub has_problem: bool,
}

/// A pool.
#[derive(Clone, Debug)]
pub struct KnownPool {
    /// What it says of itself; nothing when it is not open.
    pub facts: Option<PoolFacts>,
    /// What its members are called, by identifier.
    pub members: BTreeMap<String, Name>,
}

/// Everything that is counted, at one moment.
#[derive(Debug)]
pub struct Sample {
    /// When, by the calendar.
    pub time: SystemTime,
    /// When, by a clock that does not jump.
    pub taken: Instant,
    /// When the node started.
    pub started: SystemTime,
    /// What the cores counted.
    pub measures: Measures,
    /// The node's objects.
    pub known: Known,
    /// Jobs that run.
    pub jobs: Vec<Job>,
    /// Events since the node started: for the record, warnings, errors.
    pub events: [u64; 3],
    /// Messages for the syslog receiver: sent, left out.
    pub syslog: (u64, u64),
    /// Batches for the Graphite receiver: sent, given up.
    pub graphite: (u64, u64),
    /// What became of figures that are recorded.
    pub history: HistoryCounts,
    /// Lines of the log that were not written.
    pub log_left_out: u64,
    /// Whether the state can be written.
    pub state_written: bool,
    /// Entries of the audit log: waiting to be written, given up.
    pub audit_unwritten: (u64, u64),
}

impl Sample {
    /// Every volume that is served, with what was counted of it.
    pub fn volumes(&self) -> impl Iterator<Item = (&Name, &KnownVolume, &VolumeCounts)> {
        let counted = &self.measures.volumes;
        let counted: BTreeMap<(&str, u32), &VolumeCounts> = counted
            .iter()
            .map(|((nqn, nsid), counts)| ((nqn.as_str(), *nsid), counts))
            .collect();
        let volumes = self.known.volumes.iter();
        volumes.filter_map(move |(name, volume)| {
            let counts = counted.get(&(volume.nqn.as_str(), volume.nsid))?;
            Some((name, volume, *counts))
        })
    }
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use api::{DriveHealth, JobKind, Severity};
    use node::{Counters, DriveCounts, DriveId, DriveStatus, Level, PoolId, PoolState, PoolStatus};

    use super::*;
    use crate::events::Events;
    use crate::jobs::Jobs;
    use crate::syslog::Syslog;

    pub fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// A node with one of everything.
    pub fn sample() -> Sample {
        let events = Events::new(Arc::new(Syslog::new().0));
        events.record(Severity::Error, "node", "test");
        let jobs = Jobs::default();
        jobs.start(JobKind::Scrub, "pool/fast");
        let mut measures = Measures::default();
        measures.cores.resize(2, node::CoreMeasure::default());
        measures.drives.insert("d0".into(), DriveCounts::default());
        let mut known = Known::default();
        known.drives.insert(name("d0"), true);
        known.tenants.insert(name("acme"), limits());
        let schedule = KnownSchedule {
            last: Some(1_795_716_450),
            has_problem: false,
        };
        known.schedules.insert(name("nightly"), schedule);
        let replication = KnownReplication {
            copied: Some(1_795_716_450),
            has_problem: true,
        };
        known.replications.insert(name("away"), replication);
        known.health.insert(name("d0"), health());
        let pool = KnownPool {
            facts: Some(pool_facts()),
            members: BTreeMap::new(),
        };
        known.pools.insert(name("fast"), pool);
        let mut sample = Sample {
            time: SystemTime::now(),
            taken: Instant::now(),
            started: SystemTime::now(),
            measures,
            known,
            jobs: jobs.all(),
            events: events.counts(),
            syslog: (2, 1),
            graphite: (2, 1),
            history: HistoryCounts::default(),
            log_left_out: 0,
            state_written: true,
            audit_unwritten: (0, 0),
        };
        add_volume(&mut sample, "v");
        sample
    }

    pub fn add_volume(sample: &mut Sample, volume: &str) {
        let nqn: node::Nqn = format!("nqn.2026-11.example:{volume}").parse().unwrap();
        let known = KnownVolume {
            nqn: nqn.to_string(),
            nsid: 1,
            capacity_bytes: 1 << 30,
            online: true,
            pool: Some(name("fast")),
            tenant: Some(name("acme")),
            limits: limits(),
        };
        sample.known.volumes.insert(name(volume), known);
        let counts = VolumeCounts::default();
        sample.measures.volumes.insert((nqn, 1), counts);
    }

    fn limits() -> KnownLimits {
        let rate = node::Rate {
            iops: Some(5000),
            bytes_per_second: Some(1 << 20),
        };
        KnownLimits {
            rates: Rates {
                read: rate,
                write: rate,
                total: rate,
                ..Rates::default()
            },
            minimum_iops: Some(500),
        }
    }

    fn health() -> DriveHealth {
        DriveHealth {
            model: "test".into(),
            available_spare_percent: 100,
            percentage_used: 3,
            data_units_read: 1,
            data_units_written: 2,
            host_read_commands: 3,
            host_write_commands: 4,
            endurance_estimate_billions: 5,
            media_written_billions: 6,
            write_amplification_thousandths: 1500,
            completed: 7,
            completed_late: 1,
        }
    }

    fn pool_facts() -> PoolFacts {
        let id = DriveId([7; 16]);
        let member = DriveStatus {
            id,
            index: 0,
            bytes: 1 << 30,
            free_bytes: 1 << 29,
            active: true,
            health: node::DriveHealth::default(),
        };
        let status = PoolStatus {
            id: PoolId([1; 16]),
            name: "fast".into(),
            level: "raid1".parse::<Level>().unwrap(),
            width: 2,
            state: PoolState::Online,
            reason: None,
            drives_to_spare: 1,
            usable_bytes: 1 << 30,
            unreserved_bytes: 1 << 30,
            used_bytes: 1 << 20,
            deleted_bytes: 0,
            removing: false,
            reserved_bytes: 0,
            quarantined_bytes: 0,
            map_bytes: 4096,
            map_cache_bytes: 2048,
            map_cache_bytes_max: 1 << 20,
            segments: node::Occupancy {
                free: 5,
                closed: [1, 0, 0, 0, 0, 0, 0, 0, 0, 2],
                ..node::Occupancy::default()
            },
            drives: vec![member],
        };
        PoolFacts {
            status,
            counters: Counters::default(),
            names: BTreeMap::from([(id, "d0".to_owned())]),
            busy: None,
            fault: None,
        }
    }
}

//! What drives carry that neither a volume nor an open pool uses, in words, and what to do.

use api::{CarriedLabel, Name};
use node::{DamagedLabel, Label};

use super::found::{Found, free};
use super::{pool_of, works_in};
use crate::control::{Control, Objects};
use crate::words::hexadecimal;

impl Control {
    /// What drives carry that neither a volume nor an open pool uses, by drive.
    pub async fn carried_labels(&self) -> Vec<CarriedLabel> {
        let objects = self.look().await;
        let works = |name: &Name| {
            let pool = pool_of(&objects, name);
            pool.is_some_and(|pool| works_in(&objects, pool, name))
        };
        let Found {
            labels,
            damaged,
            newer,
            blank,
            unreadable,
            ..
        } = self.labels_in_time(free(&objects, works)).await;
        let labels = labels.into_iter();
        let mut all: Vec<CarriedLabel> = labels
            .map(|(drive, label)| whole(&objects, drive, &label))
            .collect();
        let damaged = damaged.into_iter();
        all.extend(damaged.map(|(drive, label)| hurt(drive, &label)));
        all.extend(newer.into_iter().map(|(drive, newer)| CarriedLabel {
            drive,
            importable: false,
            carries: newer.to_string(),
            advice: "import it on a node that reads that".to_owned(),
        }));
        let look = |drive: &Name| {
            let (node, drive) = (self.node.clone(), drive.clone());
            async move { node.drive_contents(drive.as_str()).await }
        };
        for (drive, contents) in self.looks.at(blank, look).await {
            // One that cannot be read says so when it is to be taken.
            if let Some(Ok(Some(carries))) = contents {
                all.push(foreign(drive, carries));
            }
        }
        all.extend(unreadable.into_iter().map(|(drive, why)| CarriedLabel {
            drive,
            importable: false,
            carries: format!("it cannot be read: {why}"),
            advice: "see to the drive".to_owned(),
        }));
        all.sort_by(|left, right| left.drive.cmp(&right.drive));
        all
    }
}

fn whole(objects: &Objects, drive: Name, label: &Label) -> CarriedLabel {
    let member = format!("member {} of pool {}", label.index, label.pool_name);
    let id = hexadecimal(&label.pool.0);
    let mut pools = objects.pools.iter();
    let here = pools.find(|(_, entry)| entry.record.id == id);
    let (carries, advice) = match here {
        None => (member, format!("pool import {}", label.pool_name)),
        Some((pool, entry)) if entry.offline.is_some() => (
            format!("{member}, which is offline"),
            format!("pool show {pool} says why"),
        ),
        Some((pool, _)) => (
            format!("{member}, which has gone on without it: what it holds is of the past"),
            format!(
                "pool add-drive {pool} {drive} takes it as a new one, drive wipe {drive} frees it"
            ),
        ),
    };
    let open = here.is_some_and(|(_, entry)| entry.offline.is_none());
    CarriedLabel {
        drive,
        importable: !open,
        carries,
        advice,
    }
}

fn foreign(drive: Name, carries: String) -> CarriedLabel {
    CarriedLabel {
        importable: false,
        carries,
        advice: format!(
            "drive wipe {drive}, or --force where a pool or a volume takes it, and it is gone"
        ),
        drive,
    }
}

fn hurt(drive: Name, label: &DamagedLabel) -> CarriedLabel {
    let (index, pool) = (label.index, &label.pool_name);
    CarriedLabel {
        importable: false,
        carries: format!(
            "a damaged label{}, which names member {index} of pool {pool:?}",
            label.why()
        ),
        advice: format!(
            "import the pool without it, with --degraded; drive wipe {drive} frees the drive"
        ),
        drive,
    }
}

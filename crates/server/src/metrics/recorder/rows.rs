//! What there is to record between two samples.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Flow, HistoryKind, Name};
use node::{DriveCounts, VolumeCounts};

use super::super::Sample;
use super::super::gather::KnownPool;
use super::super::history::flows;
use super::values::Values;

/// An object that there is, and its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub kind: HistoryKind,
    /// What it is called.
    pub name: Name,
    /// Its figures since the sample before.
    pub values: Values,
}

/// Every object of a node, which is called `node`.
pub fn rows(node: &Name, before: &Sample, now: &Sample) -> Vec<Row> {
    let elapsed = now.taken.saturating_duration_since(before.taken);
    let earlier: BTreeMap<&Name, &VolumeCounts> = before
        .volumes()
        .map(|(name, _, counts)| (name, counts))
        .collect();
    let nothing = VolumeCounts::default();
    let mut of_node = Load::default();
    let mut of_pools: BTreeMap<&Name, Load> = BTreeMap::new();
    let mut of_volumes: BTreeMap<&Name, Values> = BTreeMap::new();
    for (name, volume, counts) in now.volumes() {
        let earlier = earlier.get(name).copied().unwrap_or(&nothing);
        of_node.add(earlier, counts);
        if let Some(pool) = &volume.pool {
            of_pools.entry(pool).or_default().add(earlier, counts);
        }
        of_volumes.insert(name, load(&flows(earlier, counts, elapsed)));
    }
    let mut rows = vec![row(HistoryKind::Node, node, load(&of_node.flows(elapsed)))];
    for name in now.known.volumes.keys() {
        let values = of_volumes.get(name).copied().unwrap_or_default();
        rows.push(row(HistoryKind::Volume, name, values));
    }
    for (name, known) in &now.known.pools {
        let flows = of_pools.remove(name).unwrap_or_default().flows(elapsed);
        rows.push(row(HistoryKind::Pool, name, pool(known, &flows)));
    }
    for (name, online) in &now.known.drives {
        rows.push(row(
            HistoryKind::Drive,
            name,
            drive(name, *online, before, now),
        ));
    }
    rows
}

fn row(kind: HistoryKind, name: &Name, values: Values) -> Row {
    Row {
        kind,
        name: name.clone(),
        values,
    }
}

/// What hosts did to several volumes, before and now.
#[derive(Default)]
struct Load {
    before: VolumeCounts,
    now: VolumeCounts,
}

impl Load {
    fn add(&mut self, before: &VolumeCounts, now: &VolumeCounts) {
        self.before.add(before);
        self.now.add(now);
    }

    fn flows(&self, elapsed: Duration) -> [Flow; 2] {
        flows(&self.before, &self.now, elapsed)
    }
}

fn load([read, write]: &[Flow; 2]) -> Values {
    // Without commands there is no latency.
    let latency =
        |flow: &Flow| Some(flow.latency_p99_us).filter(|_| flow.operations_per_second > 0.0);
    [
        Some(read.operations_per_second),
        Some(write.operations_per_second),
        Some(read.bytes_per_second),
        Some(write.bytes_per_second),
        latency(read),
        latency(write),
    ]
}

fn pool(known: &KnownPool, [read, write]: &[Flow; 2]) -> Values {
    let Some(facts) = &known.facts else {
        return Values::default();
    };
    let status = &facts.status;
    let missing = status.drives.iter().filter(|drive| !drive.active).count();
    [
        Some(status.used_bytes as f64),
        Some(status.usable_bytes as f64),
        Some(read.bytes_per_second),
        Some(write.bytes_per_second),
        Some(read.operations_per_second + write.operations_per_second),
        Some(missing as f64),
    ]
}

fn drive(name: &Name, online: bool, before: &Sample, now: &Sample) -> Values {
    let health = now.known.health.get(name);
    let counts = |sample: &Sample| sample.measures.drives.get(name.as_str()).copied();
    let seconds = now
        .taken
        .saturating_duration_since(before.taken)
        .as_secs_f64()
        .max(1e-3);
    let counted = counts(now);
    let earlier = counts(before).unwrap_or_default();
    let since = |of: fn(&DriveCounts) -> u64| {
        counted.map(|counted| of(&counted).saturating_sub(of(&earlier)) as f64)
    };
    [
        Some(f64::from(u8::from(online))),
        health.map(|health| f64::from(health.percentage_used)),
        health.map(|health| f64::from(health.available_spare_percent)),
        since(|counts| counts.errors),
        since(|counts| counts.read_bytes).map(|bytes| bytes / seconds),
        since(|counts| counts.write_bytes).map(|bytes| bytes / seconds),
    ]
}

//! What the demonstration found.

use api::Size;
use lab::load::{DirectionReport, Report};
use serde::Serialize;

use crate::output::table;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Results {
    pub measurements: Vec<Measurement>,
    pub survival: Survival,
    pub damage: Damage,
}

/// One measured run. A mixed run has the figures of both directions together, and the slower
/// one's percentiles.
#[derive(Debug, Serialize)]
pub struct Measurement {
    pub name: String,
    pub iops: f64,
    pub megabytes_per_second: f64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub node_cpu_percent: f64,
}

/// What the kill left.
#[derive(Debug, Serialize)]
pub struct Survival {
    pub acknowledged_blocks: u64,
    pub verified_blocks: u64,
    pub restart_ms: f64,
}

/// What the loss of one drive and random bytes on another left.
#[derive(Debug, Serialize)]
pub struct Damage {
    pub corrupted_bytes: u64,
    pub verified_blocks: u64,
    pub rebuilt_ms: f64,
    pub moved_bytes: u64,
    pub reconstructed_blocks: u64,
    pub repaired_blocks: u64,
}

impl Measurement {
    pub fn new(name: &str, report: &Report, node_cpu_percent: f64) -> Measurement {
        let directions: Vec<&DirectionReport> = [&report.read, &report.write]
            .into_iter()
            .flatten()
            .collect();
        let sum = |of: fn(&DirectionReport) -> f64| directions.iter().map(|d| of(d)).sum::<f64>();
        let worst = |of: fn(&DirectionReport) -> f64| {
            directions
                .iter()
                .map(|direction| of(direction))
                .fold(0.0, f64::max)
        };
        let ios = sum(|direction| direction.ios as f64).max(1.0);
        let waited = sum(|direction| direction.ios as f64 * direction.latency.mean_us);
        Measurement {
            name: name.to_owned(),
            iops: sum(|direction| direction.iops),
            megabytes_per_second: sum(|direction| direction.bytes_per_second) / 1e6,
            mean_us: waited / ios,
            p50_us: worst(|direction| direction.latency.p50_us),
            p99_us: worst(|direction| direction.latency.p99_us),
            p99_9_us: worst(|direction| direction.latency.p99_9_us),
            node_cpu_percent,
        }
    }
}

impl Results {
    /// The table, and what to do next.
    pub fn text(&self) -> String {
        let row = |run: &Measurement| {
            vec![
                run.name.clone(),
                format!("{:.0}", run.iops),
                format!("{:.0}", run.megabytes_per_second),
                format!("{:.0}", run.mean_us),
                format!("{:.0}", run.p50_us),
                format!("{:.0}", run.p99_us),
                format!("{:.0}", run.p99_9_us),
                format!("{:.0}%", run.node_cpu_percent),
            ]
        };
        let header = [
            "verified I/O",
            "iops",
            "mb/s",
            "mean us",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "node cpu",
        ];
        let table = table(&header, self.measurements.iter().map(row));
        let (survival, damage) = (&self.survival, &self.damage);
        format!(
            "\n{table}\n\n\
             Killed with SIGKILL under load: all {} acknowledged blocks were read back right.\n\
             Then one drive deleted, and {} of random bytes written over another: all {} blocks\n\
             were read back right, {} of them rebuilt from the other drives. After {:.1} s {} had\n\
             been moved to the drives that are left, and {} blocks were repaired.\n\n\
             Try it with a Linux host. On this machine:\n  \
             flashyard serve --dev /var/tmp/flashyard --listen ADDRESS:4420\n\
             On the host, as root, with nvme-cli:\n  \
             modprobe nvme-tcp\n  \
             nvme connect-all -t tcp -a ADDRESS -s 4420\n  \
             nvme list",
            survival.verified_blocks,
            Size(damage.corrupted_bytes),
            damage.verified_blocks,
            damage.reconstructed_blocks,
            damage.rebuilt_ms / 1e3,
            Size(damage.moved_bytes),
            damage.repaired_blocks
        )
    }
}

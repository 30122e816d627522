//! `flashyard top`: the node's figures as they change.

use std::time::Duration;

use api::{CoreMetrics, Flow, Metrics, VolumeMetrics};
use clap::Args;

use crate::connection::{Done, Node};
use crate::output::{self, Output, table};

/// Clears a terminal and begins at its top.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// How often figures are gathered: asking more often shows the same.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Args)]
pub struct Top {
    /// Show it once and end
    #[arg(long)]
    once: bool,
    /// How many volumes to show, the busiest first
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    volumes: usize,
}

impl Top {
    pub fn run(&self, node: &Node) -> Done {
        loop {
            let metrics = node.client.metrics(1)?;
            if !self.once && node.output == Output::Table && output::is_terminal() {
                output::put(CLEAR.as_bytes());
            }
            node.output.show(&metrics, |metrics| self.text(metrics));
            if self.once || !output::is_read() {
                return Ok(());
            }
            std::thread::sleep(PERIOD);
        }
    }

    fn text(&self, metrics: &Metrics) -> String {
        let now = metrics.points.last().cloned().unwrap_or_default();
        let cores: Vec<String> = metrics.cores.iter().map(share).collect();
        let head = format!(
            "{}  {} sessions, {} queue pairs  cores busy: {}\npools hold {} of {}\n\n",
            now.time,
            metrics.sessions,
            metrics.queue_pairs,
            if cores.is_empty() {
                "-".to_owned()
            } else {
                cores.join(" ")
            },
            api::Size(now.used_bytes),
            api::Size(now.usable_bytes),
        );
        let mut volumes: Vec<&VolumeMetrics> = metrics.volumes.iter().collect();
        volumes.sort_by(|left, right| moved(right).total_cmp(&moved(left)));
        let mut rows = vec![row("all", now.read, now.write)];
        let busiest = volumes.into_iter().take(self.volumes);
        rows.extend(busiest.map(|volume| row(volume.name.as_str(), volume.read, volume.write)));
        let header = [
            "volume",
            "read bandwidth",
            "read IOPS",
            "read p99",
            "write bandwidth",
            "write IOPS",
            "write p99",
        ];
        head + &table(&header, rows)
    }
}

fn moved(volume: &VolumeMetrics) -> f64 {
    volume.read.bytes_per_second + volume.write.bytes_per_second
}

fn share(core: &CoreMetrics) -> String {
    format!("{:.0}%", core.busy * 100.0)
}

fn row(name: &str, read: Flow, write: Flow) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    for flow in [read, write] {
        cells.push(format!("{:.1} MB", flow.bytes_per_second / 1e6));
        cells.push(format!("{:.0}", flow.operations_per_second));
        cells.push(format!("{:.0} us", flow.latency_p99_us));
    }
    cells
}

//! Figures for a Graphite receiver, in its plain text protocol.
//!
//! Nothing waits in line: what a receiver does not take in time is given up, counted, and the next
//! figures are tried in their turn.

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use api::{GraphiteTarget, Name};
use prometheus::proto::{Metric, MetricFamily, MetricType};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Sample, families};
use crate::names::resolve;
use crate::outage::Outage;

/// How long a receiver may take for one batch.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What became of the batches so far.
#[derive(Default)]
pub struct Pushes {
    done: AtomicU64,
    failed: AtomicU64,
}

impl Pushes {
    /// Batches that were sent, and those that were given up.
    pub fn counts(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.done), read(&self.failed))
    }
}

/// A receiver, and the connection to it.
pub struct Receiver<'a> {
    target: &'a GraphiteTarget,
    open: Option<TcpStream>,
    outage: Outage,
}

impl Receiver<'_> {
    /// A receiver that there is no connection to yet.
    pub fn of(target: &GraphiteTarget) -> Receiver<'_> {
        let receiver = format!("Graphite receiver {}", target.address);
        Receiver {
            target,
            open: None,
            outage: Outage::of(receiver, "batches of figures"),
        }
    }

    /// Sends the figures of a node, and counts what became of them. Returns what is to be told:
    /// that it takes none for a while, or some again.
    pub async fn send(&mut self, node: &Name, sample: &Sample, pushes: &Pushes) -> Option<String> {
        let prefix = format!("{}.{}", self.target.prefix, part(node.as_str()));
        let text = lines(&families::of(sample), &prefix, sample.time);
        let sending = send(&self.target.address, self.open.take(), &text);
        let sent = timeout(TIMEOUT, sending).await;
        let lost = pushes.counts().1;
        match sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                self.open = Some(stream);
                pushes.done.fetch_add(1, Ordering::Relaxed);
                self.outage.ends(lost)
            }
            Err(error) => {
                tracing::debug!("Graphite receiver {}: {error}", self.target.address);
                pushes.failed.fetch_add(1, Ordering::Relaxed);
                self.outage.goes_on(lost, error)
            }
        }
    }
}

async fn send(address: &str, open: Option<TcpStream>, text: &str) -> io::Result<TcpStream> {
    let mut stream = match open {
        Some(stream) => stream,
        None => TcpStream::connect(&*resolve(address).await?).await?,
    };
    stream.write_all(text.as_bytes()).await?;
    Ok(stream)
}

/// `PREFIX.METRIC[.LABEL...] VALUE SECONDS`, a line a figure; of histograms how many and how long
/// in all.
fn lines(families: &[MetricFamily], prefix: &str, time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = seconds.map_or(0, |elapsed| elapsed.as_secs());
    let mut text = String::new();
    let mut line = |path: &str, value: f64| {
        // Writing to memory does not fail.
        let _ = writeln!(text, "{path} {value} {seconds}");
    };
    for family in families {
        let name = family.name();
        let name = name.strip_prefix("flashyard_").unwrap_or(name);
        for metric in family.get_metric() {
            let path = format!("{prefix}.{name}{}", labels(metric));
            match family.get_field_type() {
                MetricType::HISTOGRAM => {
                    let histogram = metric.get_histogram();
                    line(
                        &format!("{path}.count"),
                        histogram.get_sample_count() as f64,
                    );
                    line(&format!("{path}.sum"), histogram.get_sample_sum());
                }
                MetricType::COUNTER => line(&path, metric.get_counter().get_value()),
                _ => line(&path, metric.get_gauge().get_value()),
            }
        }
    }
    text
}

fn labels(metric: &Metric) -> String {
    let pairs = metric.get_label().iter();
    pairs
        .map(|pair| format!(".{}", part(pair.value())))
        .collect()
}

/// A label as one part of a path; an empty one would be no part.
fn part(label: &str) -> String {
    if label.is_empty() {
        return "none".to_owned();
    }
    let kept = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let characters = label.chars();
    characters.map(|c| if kept(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::gather::tests::sample;

    /// Every line has a path without empty parts, a number and a time.
    #[test]
    fn lines_are_what_graphite_reads() {
        let sample = sample();
        let text = lines(&families::of(&sample), "a.n", sample.time);
        assert!(text.lines().count() > 50);
        for line in text.lines() {
            let [path, value, time] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            assert!(path.starts_with("a.n."), "{line}");
            assert!(path.split('.').all(|part| !part.is_empty()), "{line}");
            assert!(
                value.parse::<f64>().is_ok() && time.parse::<u64>().is_ok(),
                "{line}"
            );
        }
        assert!(text.contains("a.n.volume_read_bytes_total.v 0 "), "{text}");
        assert!(
            text.contains("a.n.job_progress_ratio.scrub.pool_fast 0 "),
            "{text}"
        );
        assert!(text.contains("a.n.build_info.0_1_0 1 "), "{text}");
    }
}

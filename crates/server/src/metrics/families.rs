//! A [`Sample`] as metric families: names, units and labels as Prometheus' conventions have them.
//!
//! Labels name only what an operator made (volumes, drives, pools) or what there are few of, never
//! hosts or addresses, so that the number of series does not grow with who connects.

mod limits;
mod pools;
mod replications;
mod schedules;
mod volumes;

use std::time::{Duration, SystemTime};

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::Sample;
use super::recorder::FILE_BYTES_MAX;
use node::CoreMeasure;

/// Labels of one series.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// All of it.
pub fn of(sample: &Sample) -> Vec<MetricFamily> {
    let mut page = Page::default();
    node(&mut page, sample);
    cores(&mut page, sample);
    volumes::add(&mut page, sample);
    limits::add(&mut page, sample);
    schedules::add(&mut page, sample);
    replications::add(&mut page, sample);
    pools::drives(&mut page, sample);
    pools::health(&mut page, sample);
    pools::pools(&mut page, sample);
    pools::members(&mut page, sample);
    page.families
}

/// Families as they are made.
#[derive(Default)]
struct Page {
    families: Vec<MetricFamily>,
}

impl Page {
    /// A family; one without series is left out, as the format wants it.
    fn add(&mut self, name: &str, help: &str, kind: MetricType, series: Vec<Metric>) {
        if series.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(format!("flashyard_{name}"));
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(series);
        self.families.push(family);
    }

    fn gauges(&mut self, name: &str, help: &str, series: Vec<Metric>) {
        self.add(name, help, MetricType::GAUGE, series);
    }

    fn counters(&mut self, name: &str, help: &str, series: Vec<Metric>) {
        self.add(name, help, MetricType::COUNTER, series);
    }

    /// A gauge of the node, without labels.
    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, vec![gauge(&[], value)]);
    }

    /// A counter of the node, without labels.
    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.counters(name, help, vec![counter(&[], value)]);
    }
}

fn labelled(labels: Labels) -> Metric {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    Metric::from_label(labels.iter().map(pair).collect())
}

fn gauge(labels: Labels, value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = labelled(labels);
    metric.set_gauge(gauge);
    metric
}

fn counter(labels: Labels, value: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = labelled(labels);
    metric.set_counter(counter);
    metric
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn since_1970(time: SystemTime) -> f64 {
    let elapsed = time.duration_since(SystemTime::UNIX_EPOCH);
    elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

fn node(page: &mut Page, sample: &Sample) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.gauges(
        "build_info",
        "The program that runs; always 1.",
        vec![gauge(&version, 1.0)],
    );
    page.gauge(
        "start_time_seconds",
        "When the node started, in seconds since 1970.",
        since_1970(sample.started),
    );
    page.gauge(
        "sample_time_seconds",
        "When these figures were gathered, in seconds since 1970.",
        since_1970(sample.time),
    );
    let severities = ["info", "warning", "error"].iter().zip(sample.events);
    page.counters(
        "events_total",
        "Events by severity.",
        severities
            .map(|(severity, count)| counter(&[("severity", severity)], count as f64))
            .collect(),
    );
    for (name, help, count) in [
        (
            "syslog_messages_total",
            "Messages sent to the syslog receiver.",
            sample.syslog.0,
        ),
        (
            "syslog_dropped_total",
            "Messages left out because the syslog receiver was absent or slow.",
            sample.syslog.1,
        ),
        (
            "graphite_batches_total",
            "Batches of figures sent to the Graphite receiver.",
            sample.graphite.0,
        ),
        (
            "graphite_failures_total",
            "Batches given up because the Graphite receiver was absent or slow.",
            sample.graphite.1,
        ),
    ] {
        page.counter(name, help, count as f64);
    }
    remembering(page, sample);
    history(page, sample);
    jobs(page, sample);
}

fn remembering(page: &mut Page, sample: &Sample) {
    let (waiting, lost) = sample.audit_unwritten;
    page.gauge(
        "state_writable",
        "Whether changes can be remembered; 0: they are refused.",
        truth(sample.state_written),
    );
    page.gauge(
        "audit_waiting_entries",
        "Entries that wait to be written to the audit log.",
        waiting as f64,
    );
    for (name, help, count) in [
        (
            "audit_lost_total",
            "Entries that there was no room for while the audit log could not be written.",
            lost,
        ),
        (
            "log_dropped_total",
            "Lines of the log left out because standard error was slow or refused them.",
            sample.log_left_out,
        ),
    ] {
        page.counter(name, help, count as f64);
    }
}

fn history(page: &mut Page, sample: &Sample) {
    let counts = &sample.history;
    for (name, help, count) in [
        (
            "history_bytes",
            "Bytes of its disk that the file of the history takes.",
            counts.bytes,
        ),
        (
            "history_bytes_max",
            "Bytes that the file of the history never exceeds.",
            FILE_BYTES_MAX,
        ),
        (
            "history_objects",
            "Volumes, pools and drives that have a history, removed ones among them.",
            counts.objects,
        ),
        (
            "history_objects_left_out",
            "Volumes, pools and drives that there is no place for in the history.",
            counts.left_out,
        ),
    ] {
        page.gauges(name, help, vec![gauge(&[], count as f64)]);
    }
    for (name, help, count) in [
        (
            "history_writes_total",
            "Intervals of ten seconds whose figures were recorded.",
            counts.written,
        ),
        (
            "history_failures_total",
            "Intervals whose figures the disk refused, or was too slow for.",
            counts.failed,
        ),
    ] {
        page.counters(name, help, vec![counter(&[], count as f64)]);
    }
}

fn jobs(page: &mut Page, sample: &Sample) {
    let jobs = sample.jobs.iter().map(|job| {
        let kind = match job.kind {
            api::JobKind::Scrub => "scrub",
            api::JobKind::RemoveDrive => "remove_drive",
            api::JobKind::Rebuild => "rebuild",
            api::JobKind::Rebalance => "rebalance",
            api::JobKind::Replicate => "replicate",
        };
        let labels = [("kind", kind), ("object", job.object.as_str())];
        gauge(&labels, f64::from(job.percent) / 100.0)
    });
    page.gauges(
        "job_progress_ratio",
        "How far jobs are that run now, 0 to 1.",
        jobs.collect(),
    );
}

fn cores(page: &mut Page, sample: &Sample) {
    let cores = &sample.measures.cores;
    let mut seconds = Vec::new();
    for (index, core) in cores.iter().enumerate() {
        let index = index.to_string();
        let mut add = |activity, time: Duration| {
            let labels = [("core", index.as_str()), ("activity", activity)];
            seconds.push(counter(&labels, time.as_secs_f64()));
        };
        add("busy", core.usage.busy);
        add("polling", core.usage.polling);
        add("asleep", core.usage.asleep);
    }
    page.counters(
        "core_seconds_total",
        "Where the time of each core of the data path went.",
        seconds,
    );
    steps(page, cores);
    connections(page, cores);
}

fn steps(page: &mut Page, cores: &[CoreMeasure]) {
    let (mut longest, mut long) = (Vec::new(), Vec::new());
    for (index, core) in cores.iter().enumerate() {
        let index = index.to_string();
        let labels = [("core", index.as_str())];
        let seconds = core.usage.longest_step.as_secs_f64();
        longest.push(gauge(&labels, seconds));
        long.push(counter(&labels, core.usage.long_steps as f64));
    }
    page.gauges(
        "core_longest_step_seconds",
        "The longest time for which one step held a core since the node started.",
        longest,
    );
    page.counters(
        "core_long_steps_total",
        "Steps that held a core for more than 10 ms.",
        long,
    );
}

fn connections(page: &mut Page, cores: &[CoreMeasure]) {
    let sum = |of: fn(&CoreMeasure) -> u64| cores.iter().map(of).sum::<u64>() as f64;
    for (name, help, value) in [
        (
            "connections",
            "NVMe/TCP connections open now.",
            sum(|core| core.connections),
        ),
        (
            "sessions",
            "Associations of hosts with subsystems.",
            sum(|core| core.sessions),
        ),
        (
            "queue_pairs",
            "Queue pairs of sessions, admin queues included.",
            sum(|core| core.queue_pairs),
        ),
    ] {
        page.gauge(name, help, value);
    }
    for (name, help, value) in [
        (
            "connections_accepted_total",
            "NVMe/TCP connections accepted.",
            sum(|core| core.connections_accepted),
        ),
        (
            "protocol_errors_total",
            "Connections that ended because a host broke the protocol.",
            sum(|core| core.protocol_errors),
        ),
        (
            "keep_alive_expirations_total",
            "Sessions that ended because a host kept silent.",
            sum(|core| core.keep_alive_expirations),
        ),
        (
            "connections_refused_total",
            "NVMe/TCP connections closed at once because no place was left for them.",
            sum(|core| core.connections_refused),
        ),
        (
            "connections_displaced_total",
            "NVMe/TCP connections without a proof, or for discovery, that made room for others.",
            sum(|core| core.connections_displaced),
        ),
        (
            "hosts_refused_total",
            "Times that a host was refused, or its connection cut.",
            sum(|core| core.hosts_refused),
        ),
    ] {
        page.counter(name, help, value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use prometheus::TextEncoder;

    use super::*;
    use crate::metrics::gather::tests::{add_volume, sample};

    fn lines(sample: &Sample) -> Vec<String> {
        let text = TextEncoder::new().encode_to_string(&of(sample)).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    /// Where a name stands in a file of `deploy`, it is a metric's.
    fn named_in(file: &str) -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.split(|c| !is_part(c))
            .filter(|word| word.starts_with("flashyard_"))
            .map(str::to_owned)
            .collect()
    }

    /// What a dashboard or a rule asks for is there to be found, in a node with one of everything.
    #[test]
    fn dashboards_and_alerts_name_metrics_that_exist() {
        let lines = lines(&sample());
        let exist: BTreeSet<&str> = lines
            .iter()
            .filter_map(|line| line.split(['{', ' ']).next())
            .collect();
        for file in ["prometheus-rules.yml", "grafana-dashboard.json"] {
            let named = named_in(file);
            assert!(named.len() > 8, "{file} names {}", named.len());
            let unknown: Vec<_> = named
                .iter()
                .filter(|name| !exist.contains(name.as_str()))
                .collect();
            assert!(unknown.is_empty(), "{file} names {unknown:?}");
        }
    }

    #[test]
    fn limits_and_segments_are_told() {
        let lines = lines(&sample());
        for line in [
            r#"flashyard_volume_limit_operations{volume="v",direction="total"} 5000"#,
            r#"flashyard_volume_limit_bytes{volume="v",direction="read"} 1048576"#,
            r#"flashyard_tenant_minimum_operations{tenant="acme"} 500"#,
            r#"flashyard_pool_map_cached_bytes{pool="fast"} 2048"#,
            r#"flashyard_pool_segments{pool="fast",state="free"} 5"#,
            r#"flashyard_pool_segments{pool="fast",state="closed"} 3"#,
            r#"flashyard_pool_closed_segments{pool="fast",live_below="1.0"} 2"#,
        ] {
            assert!(
                lines.iter().any(|found| found == line),
                "no {line} in {lines:#?}"
            );
        }
    }

    /// A thousand volumes are 48 thousand series at most, and none is there twice.
    #[test]
    fn a_volume_is_at_most_48_series() {
        let mut sample = sample();
        let few = lines(&sample).len();
        for number in 0..1000 {
            add_volume(&mut sample, &format!("v{number}"));
        }
        let lines = lines(&sample);
        assert!(lines.len() - few <= 48_000, "{}", lines.len() - few);
        let series = lines.iter().filter_map(|line| line.rsplit_once(' '));
        let distinct: BTreeSet<&str> = series.map(|(series, _)| series).collect();
        assert_eq!(distinct.len(), lines.len());
    }
}

//! `flashyard ssd simulate`

use std::path::PathBuf;

use api::Size;
use clap::Args;
use serde::Serialize;
use ssd::{Latency, Outcome, Profile, Provenance, Study};

use super::chart::Chart;
use super::load::LoadOptions;
use super::{Error, assumed, terabytes};
use crate::output::{Output, properties};
use crate::progress::Progress;

#[derive(Args)]
pub struct Simulate {
    /// A profile's name, or the path of one of your own
    profile: String,
    /// The namespace; by default the whole capacity
    #[arg(long, value_name = "SIZE")]
    namespace: Option<Size>,
    #[command(flatten)]
    load: LoadOptions,
    /// Write a chart of throughput over time here, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What a program gets.
#[derive(Serialize)]
struct Answer {
    drive: String,
    namespace_bytes: u64,
    load: String,
    outcome: Outcome,
    assumed: Vec<Provenance>,
}

impl Simulate {
    pub fn run(&self, output: Output) -> Result<(), Error> {
        let profile = self.load.placed(super::profile(&self.profile)?)?;
        let bytes = self.namespace.map_or(profile.capacity_bytes(), Size::bytes);
        let study = self.load.study(&profile, bytes)?;
        let progress = Progress::start();
        let outcome = study
            .run(&mut |share| progress.at(share))?
            .ok_or(Error::Interrupted)?;
        drop(progress);
        let chart = over_time(&profile, &study, &outcome);
        if let Some(path) = &self.svg {
            super::write(path, &chart.svg()?)?;
        }
        let answer = Answer {
            drive: profile.drive.name.clone(),
            namespace_bytes: bytes,
            load: self.load.describe(&study),
            assumed: profile.values_from("assumed"),
            outcome,
        };
        output.show(&answer, |answer| {
            let chart = match answer.outcome.intervals.len() {
                0 => String::new(),
                _ => chart.terminal(),
            };
            format!("{}\n\n{chart}\n{}", people(answer), assumed(&profile))
        });
        Ok(())
    }
}

fn over_time<'a>(profile: &'a Profile, study: &Study, outcome: &Outcome) -> Chart<'a> {
    let scale = study.scale;
    Chart {
        title: &profile.drive.name,
        x_label: "seconds of the unscaled drive",
        y_label: "K IOPS",
        points: outcome
            .intervals
            .iter()
            .map(|interval| (interval.ends_at_seconds / scale, interval.iops / 1e3))
            .collect(),
        marks: Vec::new(),
        marks_label: "",
    }
}

fn people(answer: &Answer) -> String {
    let outcome = &answer.outcome;
    let mut rows = vec![
        ("drive", answer.drive.clone()),
        ("namespace", terabytes(answer.namespace_bytes)),
        ("load", answer.load.clone()),
        ("throughput", throughput(outcome)),
    ];
    let latencies = [
        ("read latency", &outcome.read_latency),
        ("write latency", &outcome.write_latency),
    ];
    for (name, latency) in latencies {
        if let Some(latency) = latency {
            rows.push((name, percentiles(latency)));
        }
    }
    if let (Some(amplification), Some(endurance)) =
        (outcome.write_amplification, &outcome.endurance)
    {
        let written = endurance.host_bytes / ssd::TERABYTE;
        rows.push(("write amplification", format!("{amplification:.3}")));
        rows.push((
            "terabytes written",
            format!("{written:.0} TB over the warranty"),
        ));
        rows.push((
            "drive writes per day",
            format!("{:.2}", endurance.drive_writes_per_day),
        ));
        let days = endurance.days_to_wear_out;
        rows.push((
            "worn out",
            format!("after {days:.0} days of this load without a pause"),
        ));
    }
    if outcome.mapped_share < 0.999 {
        let share = outcome.mapped_share * 100.0;
        let note = format!("{share:.1}% at the end; reads of the rest cost no flash");
        rows.push(("namespace mapped", note));
    }
    properties(&rows)
}

fn throughput(outcome: &Outcome) -> String {
    let mut text = format!(
        "{:.1} K IOPS, {:.2} GB/s",
        outcome.iops / 1e3,
        outcome.bytes_per_second / 1e9
    );
    if outcome.read_iops > 0.0 && outcome.write_iops > 0.0 {
        let (reads, writes) = (outcome.read_iops / 1e3, outcome.write_iops / 1e3);
        text.push_str(&format!(" ({reads:.1} K reads, {writes:.1} K writes)"));
    }
    text
}

fn percentiles(latency: &Latency) -> String {
    format!(
        "mean {:.0} us, p50 {:.0}, p95 {:.0}, p99 {:.0}, p99.9 {:.0}, p99.99 {:.0}",
        latency.mean_us,
        latency.p50_us,
        latency.p95_us,
        latency.p99_us,
        latency.p99_9_us,
        latency.p99_99_us
    )
}

//! `flashyard ssd sweep`

use std::path::PathBuf;
use std::str::FromStr;

use api::Size;
use clap::Args;
use serde::Serialize;
use ssd::Outcome;

use super::chart::Chart;
use super::load::LoadOptions;
use super::{Error, assumed, terabytes};
use crate::output::{Output, table};
use crate::progress::Progress;

#[derive(Args)]
pub struct Sweep {
    /// A profile's name, or the path of one of your own
    profile: String,
    /// The smallest and the largest namespace, as 5.76TB..7.68TB
    #[arg(long, value_name = "SIZE..SIZE")]
    namespace: Range,
    /// How many sizes, both ends included
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(2..=1000))]
    points: u32,
    #[command(flatten)]
    load: LoadOptions,
    /// Write the chart here, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Two sizes, the first below the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: u64,
    last: u64,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        let (first, last) = text
            .split_once("..")
            .ok_or("two sizes with .. between them")?;
        let size = |text: &str| text.parse::<Size>().map_err(|error| error.to_string());
        let (first, last) = (size(first)?.bytes(), size(last)?.bytes());
        if first == 0 || first >= last {
            return Err("the first size has to be above 0 and below the second".to_owned());
        }
        Ok(Range { first, last })
    }
}

impl Range {
    /// One of `points` sizes, evenly spread.
    fn at(self, index: u32, points: u32) -> u64 {
        let span = u128::from(self.last - self.first) * u128::from(index);
        self.first + (span / u128::from(points - 1)) as u64
    }
}

/// One size.
#[derive(Serialize)]
struct Point {
    namespace_bytes: u64,
    outcome: Outcome,
}

/// What a program gets.
#[derive(Serialize)]
struct Answer {
    drive: String,
    load: String,
    points: Vec<Point>,
}

impl Sweep {
    pub fn run(&self, output: Output) -> Result<(), Error> {
        let profile = self.load.placed(super::profile(&self.profile)?)?;
        let progress = Progress::start();
        let mut points = Vec::new();
        let mut load = String::new();
        for index in 0..self.points {
            let namespace_bytes = self.namespace.at(index, self.points);
            let study = self.load.study(&profile, namespace_bytes)?;
            let share = |part: f64| (f64::from(index) + part) / f64::from(self.points);
            let outcome = study.run(&mut |part| progress.at(share(part)))?;
            let outcome = outcome.ok_or(Error::Interrupted)?;
            load = self.load.describe(&study);
            points.push(Point {
                namespace_bytes,
                outcome,
            });
        }
        drop(progress);
        let chart = over_size(&profile.drive.name, &points);
        if let Some(path) = &self.svg {
            super::write(path, &chart.svg()?)?;
        }
        let answer = Answer {
            drive: profile.drive.name.clone(),
            load,
            points,
        };
        output.show(&answer, |answer| {
            let head = format!("{}: {}", answer.drive, answer.load);
            let table = people(&answer.points);
            format!(
                "{head}\n\n{table}\n\n{}\n{}",
                chart.terminal(),
                assumed(&profile)
            )
        });
        Ok(())
    }
}

fn over_size<'a>(drive: &'a str, points: &[Point]) -> Chart<'a> {
    let point = |point: &Point| {
        (
            point.namespace_bytes as f64 / ssd::TERABYTE,
            point.outcome.iops / 1e3,
        )
    };
    Chart {
        title: drive,
        x_label: "namespace, TB",
        y_label: "K IOPS",
        points: points.iter().map(point).collect(),
        marks: Vec::new(),
        marks_label: "",
    }
}

fn people(points: &[Point]) -> String {
    let rows = points.iter().map(|point| {
        let outcome = &point.outcome;
        let latency = outcome.write_latency.or(outcome.read_latency);
        let number = |value: Option<f64>, digits: usize| match value {
            Some(value) => format!("{value:.digits$}"),
            None => "-".to_owned(),
        };
        let endurance = outcome.endurance.as_ref();
        let written = endurance.map(|endurance| endurance.host_bytes / ssd::TERABYTE);
        vec![
            terabytes(point.namespace_bytes),
            format!("{:.1}", outcome.iops / 1e3),
            number(latency.map(|latency| latency.p50_us), 0),
            number(latency.map(|latency| latency.p99_us), 0),
            number(outcome.write_amplification, 3),
            number(endurance.map(|endurance| endurance.drive_writes_per_day), 2),
            number(written, 0),
            number(endurance.map(|endurance| endurance.days_to_wear_out), 0),
        ]
    });
    let header = [
        "namespace",
        "K IOPS",
        "p50 us",
        "p99 us",
        "WAF",
        "DWPD",
        "TBW",
        "days",
    ];
    table(&header, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_sizes_in_order_and_its_points_include_both() {
        let range: Range = "5.76TB..7.68TB".parse().unwrap();
        assert_eq!(range.at(0, 4), 5_760_000_000_000);
        assert_eq!(range.at(1, 4), 6_400_000_000_000);
        assert_eq!(range.at(3, 4), 7_680_000_000_000);
        for text in ["", "6.4TB", "7TB..6TB", "6TB..6TB", "0..6TB", "a..b"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }
}

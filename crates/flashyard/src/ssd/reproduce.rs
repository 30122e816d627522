//! `flashyard ssd reproduce`

use std::path::PathBuf;

use clap::Args;
use ssd::Reproduction;

use super::Error;
use super::chart::Chart;
use super::load::FidelityOption;
use super::progress::Progress;
use crate::output::{Output, table};

/// Run the published namespace experiment (KIOXIA CM7) on the model, and compare.
///
/// Ends with 1 when a figure is beyond the error it is held to.
#[derive(Args)]
pub struct Reproduce {
    /// How closely time is modelled
    #[arg(long, value_enum, default_value_t = FidelityOption::Timeline)]
    fidelity: FidelityOption,
    /// Write the chart of random writes over namespace size here, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Reproduce {
    pub fn run(&self, output: Output) -> Result<(), Error> {
        let progress = Progress::start();
        let found = ssd::reproduce(self.fidelity.fidelity(), &mut |share| progress.at(share))?;
        drop(progress);
        let found = found.ok_or(Error::Interrupted)?;
        let chart = curve_chart(&found);
        if let Some(path) = &self.svg {
            super::write(path, &chart.svg()?)?;
        }
        output.show(&found, |found| {
            [
                rows(found),
                depth(found),
                curve(found),
                chart.terminal(),
                claim(found),
            ]
            .join("\n\n")
        });
        if found.rows.iter().all(ssd::Row::holds) {
            Ok(())
        } else {
            Err(Error::Beyond)
        }
    }
}

fn rows(found: &Reproduction) -> String {
    let percent = |value: Option<f64>| value.map(|value| format!("{:+.1}%", value * 100.0));
    let dash = || "-".to_owned();
    let rows = found.rows.iter().map(|row| {
        let digits = if row.unit == "GB/s" { 2 } else { 0 };
        vec![
            row.workload.to_owned(),
            row.drive.replace("KIOXIA ", ""),
            format!("{} TB", row.namespace_tb),
            row.outstanding.to_string(),
            row.published
                .map_or_else(dash, |value| format!("{value:.digits$}")),
            format!("{:.digits$} {}", row.measured, row.unit),
            percent(row.error).unwrap_or_else(dash),
            row.allowed_error
                .map_or_else(dash, |value| format!("{:.0}%", value * 100.0)),
            row.basis.to_owned(),
        ]
    });
    let header = [
        "workload",
        "drive",
        "namespace",
        "QD",
        "published",
        "model",
        "error",
        "within",
        "basis",
    ];
    table(&header, rows)
}

fn depth(found: &Reproduction) -> String {
    format!(
        "Why the mix is run at 64 outstanding: at the stated 8 x 4 = 32, 1,108K IOPS ask for a \
         mean read latency of\nat most {:.0} us even if writes take no time (Little's law), which \
         TLC flash does not reach. The last three\nrows are what the model does at 32.",
        found.mix_read_latency_bound_us
    )
}

fn curve(found: &Reproduction) -> String {
    let rows = found.curve.iter().map(|point| {
        let published = point.published_kiops;
        vec![
            format!("{} TB", point.namespace_tb),
            published.map_or_else(|| "picture only".to_owned(), |value| format!("{value:.0}")),
            format!("{:.0}", point.kiops),
            format!("{:.3}", point.write_amplification),
            format!("{:.2}", point.drive_writes_per_day),
            format!("{:.0}", point.terabytes_written),
            format!("{:.0}", point.days_to_wear_out),
        ]
    });
    let header = [
        "CM7-R namespace",
        "published K",
        "model K",
        "WAF",
        "DWPD",
        "TBW",
        "days",
    ];
    table(&header, rows)
}

fn curve_chart(found: &Reproduction) -> Chart<'static> {
    let mark = |point: &ssd::CurvePoint| Some((point.namespace_tb, point.published_kiops?));
    Chart {
        title: "CM7-R 7.68 TB: random 4 KiB writes, 32 outstanding",
        x_label: "namespace, TB",
        y_label: "K IOPS",
        points: found
            .curve
            .iter()
            .map(|point| (point.namespace_tb, point.kiops))
            .collect(),
        marks: found.curve.iter().filter_map(mark).collect(),
        marks_label: "published",
    }
}

fn claim(found: &Reproduction) -> String {
    let claim = &found.claim;
    let range = claim.drive_writes_per_day_range;
    format!(
        "\"A 1 DWPD drive with a smaller namespace behaves, and wears, like a 3 DWPD drive\"\n\
         speed: yes. At 6.4 TB it writes {:.2} times as fast as the drive sold for 3 DWPD.\n\
         wear: partly. The media writes that 1 DWPD at 7.68 TB stands for allow {:.2} DWPD at 6.4 \
         TB ({:.2} to {:.2} over\n\
         what the figures leave open); 3 DWPD would take {:.2} times the cycles. A namespace of \
         {:.2} TB gives 3 DWPD.\n\
         This takes the rating for uniform random 4 KiB writes; if it was given for kinder \
         traffic, or with a margin,\n\
         the flash lasts longer, in the same proportion for every namespace.",
        claim.speed_ratio,
        claim.drive_writes_per_day,
        range.lowest,
        range.highest,
        claim.cycles_ratio,
        claim.namespace_tb_for_three
    )
}

//! [`Claim`]: a plan's claim about endurance, examined on its model and its measurements.

use std::fmt;

use serde::Serialize;
use ssd::{EnduranceClaim, TERABYTE};

use super::{Results, flash_model};
use crate::plan::{Metric, Plan, Target, Unit};
use crate::statistics::Sample;

/// "A drive with a smaller namespace behaves, and wears, like one sold for more writes."
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The drive writes per day of the drive beside.
    pub claimed: f64,
    /// The namespace in 10^12 bytes.
    pub namespace_tb: f64,
    /// Its rate over that of the drive beside.
    pub speed_ratio: f64,
    /// What its endurance comes to.
    #[serde(flatten)]
    pub endurance: EnduranceClaim,
}

/// The plan's claim, once both drives have been measured.
pub fn claim(plan: &Plan, results: &Results) -> Option<Claim> {
    let claim = plan.endurance.as_ref()?;
    let target = |name: &str| plan.targets.iter().find(|target| target.name == name);
    let (own, beside) = (target(&claim.target)?, target(&claim.beside)?);
    let rate = |target: &Target| {
        let runs = results.runs.iter();
        let runs = runs.filter(|run| run.workload == claim.workload && run.target == target.name);
        let rates = runs.filter_map(|run| run.measured.metric(Metric::Rate, Unit::Iops));
        Some(Sample::new(rates)).filter(|sample| !sample.is_empty())
    };
    let speed_ratio = rate(own)?.mean() / rate(beside)?.mean();
    let profile = flash_model::profile(own).ok()?;
    let namespace_tb = |target: &Target| {
        let whole = profile.drive.capacity_tb;
        target
            .namespace
            .map_or(whole, |bytes| bytes as f64 / TERABYTE)
    };
    let mut published = Vec::new();
    for figure in &plan.published {
        let on = target(&figure.target).filter(|on| on.profile == own.profile);
        let same = figure.workload == claim.workload && figure.metric == Metric::Rate;
        published.extend(on.filter(|_| same).map(|on| ssd::WriteFigure {
            namespace_tb: namespace_tb(on),
            kiops: figure.value,
        }));
    }
    let endurance = EnduranceClaim::examine(
        &profile,
        namespace_tb(own),
        claim.drive_writes_per_day,
        &published,
    );
    Some(Claim {
        claimed: claim.drive_writes_per_day,
        namespace_tb: namespace_tb(own),
        speed_ratio,
        endurance: endurance.ok()?,
    })
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claim {
            claimed,
            namespace_tb,
            endurance,
            ..
        } = self;
        let (lowest, highest) = endurance.range;
        writeln!(
            formatter,
            "\"With a namespace of {namespace_tb} TB it behaves, and wears, like a drive sold for \
             {claimed} drive writes per day\""
        )?;
        writeln!(
            formatter,
            "speed: it writes {:.2} times as fast as that drive.",
            self.speed_ratio
        )?;
        writeln!(
            formatter,
            "wear: the media writes it is warranted for allow {:.2} drive writes per day \
             ({lowest:.2} to {highest:.2} over what\nthe figures leave open); {claimed} \
             would take {:.2} times the cycles. A namespace of {:.2} TB gives {claimed}.",
            endurance.drive_writes_per_day, endurance.cycles_ratio, endurance.true_at_tb
        )?;
        write!(
            formatter,
            "This takes the rating for uniform random 4 KiB writes; if it was given for kinder \
             traffic, or with a margin,\nthe flash lasts longer, in the same proportion for every \
             namespace."
        )
    }
}

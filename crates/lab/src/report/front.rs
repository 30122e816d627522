//! [`Front`]: what a report says first, in whichever form: the answers, and the figures that carry
//! them.

use super::matrix::{Cell, Matrix};
use crate::experiment::{
    Answered, Figure, Results, Standing, answered, claim, figures, sizing, two_digits, unanswered,
};
use crate::plan::{Metric, Plan};

/// Sentences that head a report.
const SENTENCES: usize = 3;

/// Late I/O, in percent, from which the machine had a part in a figure.
const LATE_PERCENT: f64 = 5.0;

/// Busy processors, in percent, from which it had.
const BUSY_PERCENT: f64 = 90.0;

/// Rows of matrices that the front has room for.
const ROWS: usize = 36;

/// Loads whose bars it has room for.
const PANELS: usize = 6;

/// The order in which matrices follow.
const METRICS: [Metric; 8] = [
    Metric::Rate,
    Metric::MeanLatency,
    Metric::P99Latency,
    Metric::ProcessorPercent,
    Metric::NewOrdersPerMinute,
    Metric::P95Latency,
    Metric::WriteAmplification,
    Metric::DriveWritesPerDay,
];

/// One sentence of the answer.
pub struct Sentence {
    /// How sure it is; `None` for what is computed, not measured.
    pub standing: Option<Standing>,
    /// What came out.
    pub says: String,
    /// How sure it is, and what was published.
    pub how_sure: String,
}

/// One load's absolutes.
pub struct Panel {
    /// The load, and what its bars are of.
    pub title: String,
    /// What they are in.
    pub unit: &'static str,
    /// Target and figure.
    pub bars: Vec<(String, Cell)>,
}

/// What comes first.
pub struct Front<'a> {
    /// The answer.
    pub sentences: Vec<Sentence>,
    /// What has to be known before it is quoted.
    pub caveats: Vec<String>,
    /// Every ratio.
    pub answers: Vec<Answered>,
    /// Why ratios are not compared, and which.
    pub doubts: Vec<String>,
    /// Which ratios are not there, though both sides were run.
    pub missing: Option<String>,
    /// Absolutes of the loads that the ratios are of.
    pub panels: Vec<Panel>,
    /// One metric each, as many as there is room for.
    pub matrices: Vec<Matrix<'a>>,
    /// The others.
    pub more: Vec<Matrix<'a>>,
}

impl<'a> Front<'a> {
    /// Of these results of this plan.
    pub fn new(plan: &'a Plan, results: &Results) -> Front<'a> {
        let figures = figures(plan, results);
        let answers = answered(plan, results);
        let (mut matrices, mut more, mut rows) = (Vec::new(), Vec::new(), 0);
        let all = METRICS
            .into_iter()
            .filter_map(|one| Matrix::new(plan, &figures, one));
        for matrix in all {
            rows += matrix.rows.len();
            if matrices.is_empty() || rows <= ROWS && matrices.len() < 4 {
                matrices.push(matrix);
            } else {
                more.push(matrix);
            }
        }
        let head: Vec<&Answered> = answers.iter().filter(|one| one.said.is_some()).collect();
        Front {
            sentences: sentences(plan, results, &head),
            caveats: caveats(plan, results, &head),
            panels: panels(plan, &figures),
            doubts: doubts(&answers),
            missing: missing(plan, results),
            answers,
            matrices,
            more,
        }
    }
}

fn sentences(plan: &Plan, results: &Results, head: &[&Answered]) -> Vec<Sentence> {
    let mut found: Vec<Sentence> = head
        .iter()
        .take(SENTENCES)
        .filter_map(|one| {
            let said = one.said.clone()?;
            Some(Sentence {
                standing: Some(one.standing),
                says: said.says,
                how_sure: said.how_sure,
            })
        })
        .collect();
    let computed = |says, how_sure| Sentence {
        standing: None,
        says,
        how_sure,
    };
    found.extend(claim(plan, results).map(|claim| {
        let (low, high) = claim.endurance.range;
        let says = format!(
            "Its warranted media writes allow {} drive writes per day there, not {}",
            two_digits(claim.endurance.drive_writes_per_day),
            claim.claimed
        );
        let (low, high) = (two_digits(low), two_digits(high));
        let how_sure = format!("({low} to {high}, over what the published figures leave open).");
        computed(says, how_sure)
    }));
    let needs = sizing(plan);
    if let (Some(least), Some(most)) = (needs.first(), needs.last()) {
        let same = needs
            .iter()
            .filter(|need| need.published_gbit_s == Some(need.network_gbit_s));
        let says = format!(
            "A node of {} drives needs {:.0} Gb/s of network, one of {} drives {:.0} Gb/s",
            least.drives, least.network_gbit_s, most.drives, most.network_gbit_s
        );
        let says = says.replace(" 1 drives", " 1 drive");
        let how_sure = match same.count() {
            0 => "(arithmetic).".to_owned(),
            same => format!("(arithmetic; {same} of {} rows as published).", needs.len()),
        };
        found.push(computed(says, how_sure));
    }
    if found.is_empty() {
        let missing = "These results hold no two figures that the plan compares: no answer";
        found.push(computed(missing.to_owned(), String::new()));
    }
    found
}

/// What the machine, the number of repetitions and the size of the run do to the answer.
fn caveats(plan: &Plan, results: &Results, head: &[&Answered]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    if results.ended.is_none() {
        found.push("The results are not complete".to_owned());
    }
    if results.size.as_deref() == Some("smoke") {
        found.push("Size smoke shows that everything works together, nothing else".to_owned());
    }
    found.extend(left_out(plan, results));
    found.extend(head.iter().filter_map(|one| one.note.clone()));
    if plan.run.most_repetitions() == 2 {
        found.push(
            "Two repetitions make wide intervals: three or more would narrow them".to_owned(),
        );
    }
    let most = |of: fn(&Answered) -> f64| head.iter().map(|one| of(one)).fold(0.0, f64::max);
    let late = most(|one| one.late_percent);
    let busy = most(|one| one.busy_percent);
    let late = (late >= LATE_PERCENT).then(|| format!("up to {late:.0}% of the I/O was late"));
    let busy = (busy >= BUSY_PERCENT).then(|| format!("processors were up to {busy:.0}% busy"));
    let both: Vec<String> = late.into_iter().chain(busy).collect();
    if !both.is_empty() {
        let both = both.join(" and ");
        found.push(format!("This machine had a part in the figures: {both}"));
    }
    found
}

/// A line a reason, with the targets that were not run for it.
fn left_out(plan: &Plan, results: &Results) -> Vec<String> {
    let reasons = plan.targets.iter().filter_map(|target| {
        let reason = results.left_out(&target.name)?;
        Some((reason.to_owned(), target.label()))
    });
    let lines = by_reason(reasons).into_iter();
    let lines = lines.map(|(reason, labels)| format!("Not run: {} ({reason})", labels.join("; ")));
    lines.collect()
}

/// A line a reason, with the ratios that it is of.
fn doubts(answers: &[Answered]) -> Vec<String> {
    let reasons = answers.iter().flat_map(|one| {
        let doubts = one.doubts.iter();
        doubts.map(|doubt| (doubt.to_string(), one.label.as_str()))
    });
    let lines = by_reason(reasons).into_iter();
    let lines =
        lines.map(|(reason, labels)| format!("Not compared, as {}: {}", reason, labels.join("; ")));
    lines.collect()
}

/// A line with the ratios that there should be and are not.
fn missing(plan: &Plan, results: &Results) -> Option<String> {
    let labels = Some(unanswered(plan, results)).filter(|labels| !labels.is_empty())?;
    let labels = labels.join("; ");
    Some(format!(
        "Not answered, as a side has no figure, or 0: {labels}"
    ))
}

/// Each reason once, in the order in which they come, with the labels that it is of.
fn by_reason<'a>(reasons: impl Iterator<Item = (String, &'a str)>) -> Vec<(String, Vec<&'a str>)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for (reason, label) in reasons {
        match found.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, labels)) => labels.push(label),
            None => found.push((reason, vec![label])),
        }
    }
    found
}

/// The loads' rates, as long as there is room for all of them: where there is not, the matrix alone
/// is easier to read.
fn panels(plan: &Plan, figures: &[Figure<'_>]) -> Vec<Panel> {
    let Some(matrix) = Matrix::new(plan, figures, Metric::Rate) else {
        return Vec::new();
    };
    if matrix.rows.len() > PANELS {
        return Vec::new();
    }
    let columns: Vec<String> = matrix
        .columns
        .iter()
        .map(|one| one.label().to_owned())
        .collect();
    let panels = matrix.rows.into_iter().map(|row| Panel {
        title: row.label,
        unit: row.unit,
        bars: columns
            .iter()
            .cloned()
            .zip(row.cells)
            .filter_map(|(label, cell)| Some((label, cell?)))
            .collect(),
    });
    panels.collect()
}

//! [`Matrix`]: one metric, a row a load and a column a target.

use super::text::{half_percent, number, spread, titled, unit};
use crate::experiment::{Figure, NOT_COMPARED};
use crate::plan::{Case, Metric, Plan, Target};

/// Half intervals from which a figure says little, in percent.
pub const WIDE_PERCENT: f64 = 15.0;

/// One metric of all loads on all targets.
pub struct Matrix<'a> {
    /// What it is called.
    pub title: String,
    /// The targets, of which each has a figure in some row.
    pub columns: Vec<&'a Target>,
    /// The loads.
    pub rows: Vec<Row>,
}

/// One load.
pub struct Row {
    /// What reports call it.
    pub label: String,
    /// What its figures are in.
    pub unit: &'static str,
    /// One for each column; `None` where it was not run, or is not known.
    pub cells: Vec<Option<Cell>>,
}

/// One figure.
pub struct Cell {
    /// The mean.
    pub value: f64,
    /// Half the interval in percent; `None` after one repetition.
    pub half_percent: Option<f64>,
    /// What was published.
    pub published: Option<f64>,
    /// The mean over the row's greatest.
    pub share: f64,
    /// What has to be known of it, if anything: it is of one repetition, or it was this host that
    /// decided it.
    pub mark: Option<&'static str>,
    /// False when it is beyond the error that the plan allows.
    pub holds: bool,
}

impl Cell {
    /// The mean and how sure it is.
    pub fn measured(&self) -> String {
        let spread = self
            .half_percent
            .map(|percent| format!(" {}", spread(percent)));
        let mark = self.mark.map(|mark| format!(" ({mark})"));
        let (spread, mark) = (spread.unwrap_or_default(), mark.unwrap_or_default());
        format!("{}{spread}{mark}", number(self.value))
    }

    /// Whether its interval says little.
    pub fn is_wide(&self) -> bool {
        self.half_percent
            .is_some_and(|percent| percent > WIDE_PERCENT)
    }
}

impl<'a> Matrix<'a> {
    /// The figures of `metric`; `None` where there are none.
    pub fn new(plan: &'a Plan, found: &[Figure<'a>], metric: Metric) -> Option<Matrix<'a>> {
        let of_metric = |figure: &&Figure<'a>| figure.metric == metric;
        let on = |target: &&Target| {
            let mut all = found.iter().filter(of_metric);
            all.any(|figure| figure.target.name == target.name)
        };
        let columns: Vec<&Target> = plan.targets.iter().filter(on).collect();
        let cases = plan.cases();
        let rows = cases.iter().filter_map(|case| {
            let own = found.iter().filter(of_metric);
            let own: Vec<&Figure<'_>> = own.filter(|one| one.workload == case.name).collect();
            row(case, &own, &columns)
        });
        let rows: Vec<Row> = rows.collect();
        (!rows.is_empty()).then(|| Matrix {
            title: titled(metric),
            columns,
            rows,
        })
    }
}

fn row(case: &Case, own: &[&Figure<'_>], columns: &[&Target]) -> Option<Row> {
    let metric = own.first()?.metric;
    let means = own.iter().map(|figure| figure.sample.mean());
    let most = means.fold(f64::MIN_POSITIVE, f64::max);
    let cell = |target: &&Target| {
        let figure = own.iter().find(|one| one.target.name == target.name)?;
        let value = figure.sample.mean();
        Some(Cell {
            value,
            half_percent: half_percent(figure),
            published: figure.published.map(|published| published.value),
            share: (value / most).max(0.0),
            mark: mark(figure),
            holds: figure.holds(),
        })
    };
    Some(Row {
        label: case.label.clone(),
        unit: unit(metric, case.unit),
        cells: columns.iter().map(cell).collect(),
    })
}

fn mark(figure: &Figure<'_>) -> Option<&'static str> {
    match (&figure.host, figure.sample.count()) {
        (Some(_), _) => Some(NOT_COMPARED),
        (None, 1) if !figure.modelled => Some("once"),
        _ => None,
    }
}

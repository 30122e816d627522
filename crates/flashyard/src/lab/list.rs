//! `flashyard lab list`

use lab::plan::{Plan, names};
use serde::Serialize;

use super::Error;
use crate::output::{Output, table};

#[derive(Serialize)]
struct Row {
    name: &'static str,
    title: String,
    sizes: Vec<String>,
    loads: usize,
    source: Option<String>,
}

pub fn show(output: Output) -> Result<(), Error> {
    let mut rows = Vec::new();
    for name in names() {
        let (plan, _) = Plan::open(name, None, &[])?;
        let pairs = plan.cases().into_iter().map(|case| {
            let targets = plan.targets.iter();
            targets.filter(|target| case.runs_on(&target.name)).count()
        });
        rows.push(Row {
            name,
            loads: pairs.sum(),
            title: plan.title,
            sizes: plan.size.into_keys().collect(),
            source: plan.source,
        });
    }
    output.show(&rows, |rows| {
        let line = |row: &Row| {
            vec![
                row.name.to_owned(),
                row.sizes.join(","),
                row.loads.to_string(),
                row.title.clone(),
                row.source.clone().unwrap_or_else(|| "-".to_owned()),
            ]
        };
        table(
            &["plan", "sizes", "loads", "what", "published in"],
            rows.iter().map(line),
        )
    });
    Ok(())
}

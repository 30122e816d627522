//! What go-tpc prints with `--output json`: an array of strings by name, a line each interval,
//! and a summary at the end.

use std::collections::BTreeMap;

use super::DatabaseError;
use crate::experiment::{Measured, Operation, Sample};
use crate::load::Latency;

/// The transaction that TPC-C counts.
const NEW_ORDER: &str = "NEW_ORDER";

/// Transactions that failed are listed under their name with this behind it.
const FAILED: &str = "_ERR";

type Row = BTreeMap<String, String>;

/// Reads it; `interval_seconds` is the time between two lines.
pub(super) fn measured(text: &str, interval_seconds: f64) -> Result<Measured, DatabaseError> {
    let refuse = |reason: &str| DatabaseError::Answer {
        program: "go-tpc",
        reason: reason.to_owned(),
    };
    let mut measured = Measured {
        main_operation: Some(NEW_ORDER.to_owned()),
        ..Measured::default()
    };
    for line in text.lines().filter(|line| line.starts_with("[{")) {
        let rows: Vec<Row> = serde_json::from_str(line).map_err(|e| refuse(&e.to_string()))?;
        let kind = |row: &&Row| {
            row.get("Prefix")
                .map(|prefix| prefix.trim())
                .unwrap_or("")
                .to_owned()
        };
        if rows.iter().any(|row| kind(&row) == "[Current]") {
            measured.series.push(Sample {
                ends_at_seconds: (measured.series.len() + 1) as f64 * interval_seconds,
                write_iops: rows.iter().map(|row| number(row, "Count")).sum::<f64>()
                    / interval_seconds,
                ..Sample::default()
            });
        }
        for row in rows.iter().filter(|row| kind(row) == "[Summary]") {
            let name = row.get("Operation").cloned().unwrap_or_default();
            measured.seconds = measured.seconds.max(number(row, "Takes(s)"));
            measured.operations.insert(name, operation(row));
        }
    }
    fold_failures(&mut measured.operations);
    if number_of(&measured, NEW_ORDER) == 0 {
        let error = text.lines().find(|line| line.contains("err "));
        return Err(refuse(error.unwrap_or("no transaction succeeded")));
    }
    Ok(measured)
}

fn number_of(measured: &Measured, name: &str) -> u64 {
    measured
        .operations
        .get(name)
        .map_or(0, |operation| operation.count)
}

/// Failures are counted with what they are failures of.
fn fold_failures(operations: &mut BTreeMap<String, Operation>) {
    let failed: Vec<String> = operations
        .keys()
        .filter(|name| name.ends_with(FAILED))
        .cloned()
        .collect();
    for name in failed {
        let count = operations
            .remove(&name)
            .map_or(0, |operation| operation.count);
        let of = name.trim_end_matches(FAILED).to_owned();
        operations.entry(of).or_default().errors += count;
    }
}

fn number(row: &Row, name: &str) -> f64 {
    row.get(name)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0)
}

fn operation(row: &Row) -> Operation {
    let milliseconds = |name: &str| number(row, name) * 1e3;
    Operation {
        count: number(row, "Count") as u64,
        per_second: number(row, "TPM") / 60.0,
        errors: 0,
        latency: Latency {
            mean_us: milliseconds("Avg(ms)"),
            p50_us: milliseconds("50th(ms)"),
            p90_us: milliseconds("90th(ms)"),
            p95_us: milliseconds("95th(ms)"),
            p99_us: milliseconds("99th(ms)"),
            p99_9_us: milliseconds("99.9th(ms)"),
            // Not printed.
            p99_99_us: milliseconds("Max(ms)"),
            max_us: milliseconds("Max(ms)"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Metric, Unit};

    fn row(name: &str, prefix: &str, count: u32, tpm: &str) -> String {
        format!(
            "{{\"Operation\":\"{name}\",\"Prefix\":\"[{prefix}] \",\"Count\":\"{count}\",\
             \"TPM\":\"{tpm}\",\"Takes(s)\":\"5.9\",\"Avg(ms)\":\"20.5\",\"99th(ms)\":\"83.9\"}}"
        )
    }

    #[test]
    fn intervals_become_a_series_and_the_summary_figures() {
        let current = [
            row("NEW_ORDER", "Current", 234, "1"),
            row("PAYMENT", "Current", 202, "1"),
        ];
        let summary = [
            row("NEW_ORDER", "Summary", 654, "6561.4"),
            row("NEW_ORDER_ERR", "Summary", 3, "30.0"),
            row("PAYMENT", "Summary", 591, "5898.6"),
        ];
        let text = format!(
            "maxprocs: a note\n[{}]\nFinished\n[{}]\n[{{\"tpmC\":\"6561.2\"}}]\n",
            current.join(","),
            summary.join(",")
        );
        let measured = measured(&text, 2.0).unwrap();
        assert_eq!(measured.series[0].write_iops, 218.0);
        assert_eq!(
            (
                measured.operations.len(),
                measured.operations["NEW_ORDER"].errors
            ),
            (2, 3)
        );
        let rate = measured
            .metric(Metric::Rate, Unit::TransactionsPerMinute)
            .unwrap();
        assert!((rate - 12_460.0).abs() < 1e-6, "{rate}");
        let new_orders = measured
            .metric(Metric::NewOrdersPerMinute, Unit::Iops)
            .unwrap();
        assert!((new_orders - 6561.4).abs() < 1e-6);
        assert_eq!(
            measured.metric(Metric::P99Latency, Unit::Iops),
            Some(83_900.0)
        );
    }

    #[test]
    fn a_run_without_a_transaction_is_none() {
        let text = "execute run failed, err Error 1146: no such table\nFinished\n";
        let error = measured(text, 1.0).unwrap_err();
        assert!(error.to_string().contains("no such table"), "{error}");
    }
}

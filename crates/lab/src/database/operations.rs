//! What go-ycsb prints with `outputstyle=json`: an array of strings by name, each interval and at
//! the end, always of everything so far.

use std::collections::BTreeMap;

use super::DatabaseError;
use crate::experiment::{Measured, Operation, Sample};
use crate::load::Latency;

/// The sum of all kinds.
const TOTAL: &str = "TOTAL";

/// Operations that failed are listed under their name with this behind it.
const FAILED: &str = "_ERROR";

/// Begins the line that says why one of them failed.
const REASON: &str = "operation err: ";

/// Counted as a read and an update, too.
const READ_MODIFY_WRITE: &str = "READ_MODIFY_WRITE";

type Row = BTreeMap<String, String>;

/// Reads it; `interval_seconds` is the time between two lines.
pub(super) fn measured(text: &str, interval_seconds: f64) -> Result<Measured, DatabaseError> {
    let refuse = |reason: &str| DatabaseError::Answer {
        program: "go-ycsb",
        reason: reason.to_owned(),
    };
    let mut measured = Measured::default();
    let mut before = 0.0;
    for line in text.lines().filter(|line| line.starts_with("[{")) {
        let rows: Vec<Row> = serde_json::from_str(line).map_err(|e| refuse(&e.to_string()))?;
        let so_far = rows.iter().filter(|row| name(row) == TOTAL);
        let so_far: f64 = so_far.map(|row| number(row, "Count")).sum();
        measured.series.push(Sample {
            ends_at_seconds: (measured.series.len() + 1) as f64 * interval_seconds,
            write_iops: (so_far - before) / interval_seconds,
            ..Sample::default()
        });
        before = so_far;
        measured.operations.clear();
        for row in &rows {
            measured.seconds = measured.seconds.max(number(row, "Takes(s)"));
            measured
                .operations
                .insert(name(row).to_owned(), operation(row));
        }
    }
    let mut reasons = text.lines().filter_map(|line| line.strip_prefix(REASON));
    measured.first_error = reasons.next().map(str::to_owned);
    // The last line is of a part of an interval.
    measured.series.pop();
    measured.operations.remove(TOTAL);
    tidy(&mut measured.operations);
    let kinds = measured.operations.iter();
    let most = kinds.max_by_key(|(_, operation)| operation.count);
    measured.main_operation = most
        .filter(|(_, one)| one.count > 0)
        .map(|(name, _)| name.clone());
    if measured.main_operation.is_none() {
        let error = text.lines().find(|line| line.contains("err"));
        return Err(refuse(error.unwrap_or("no operation succeeded")));
    }
    Ok(measured)
}

/// Failures are counted with what they are failures of, and nothing is counted twice.
fn tidy(operations: &mut BTreeMap<String, Operation>) {
    let names = operations.keys().filter(|name| name.ends_with(FAILED));
    for name in names.cloned().collect::<Vec<String>>() {
        let count = operations
            .remove(&name)
            .map_or(0, |operation| operation.count);
        let of = name.trim_end_matches(FAILED).to_owned();
        operations.entry(of).or_default().errors += count;
    }
    if let Some(both) = operations.get(READ_MODIFY_WRITE).copied() {
        for part in ["READ", "UPDATE"] {
            if let Some(operation) = operations.get_mut(part) {
                operation.count = operation.count.saturating_sub(both.count);
                operation.per_second = (operation.per_second - both.per_second).max(0.0);
            }
        }
        operations.retain(|_, operation| operation.count > 0);
    }
}

fn name(row: &Row) -> &str {
    row.get("Operation").map_or("", String::as_str)
}

fn number(row: &Row, name: &str) -> f64 {
    row.get(name)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0)
}

fn operation(row: &Row) -> Operation {
    Operation {
        count: number(row, "Count") as u64,
        per_second: number(row, "OPS"),
        errors: 0,
        latency: Latency {
            mean_us: number(row, "Avg(us)"),
            p50_us: number(row, "50th(us)"),
            p90_us: number(row, "90th(us)"),
            p95_us: number(row, "95th(us)"),
            p99_us: number(row, "99th(us)"),
            p99_9_us: number(row, "99.9th(us)"),
            p99_99_us: number(row, "99.99th(us)"),
            max_us: number(row, "Max(us)"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rows: &[(&str, u32)]) -> String {
        let row = |(name, count): &(&str, u32)| {
            format!(
                "{{\"Operation\":\"{name}\",\"Count\":\"{count}\",\"OPS\":\"{count}.0\",\
                 \"Takes(s)\":\"2.1\",\"99th(us)\":\"830\"}}"
            )
        };
        format!("[{}]\n", rows.iter().map(row).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn the_last_line_is_the_result_and_nothing_is_counted_twice() {
        let text = "properties\n".to_owned()
            + &line(&[("READ", 30), ("TOTAL", 30)])
            + "operation err: no answer\noperation err: none either\n"
            + &line(&[("READ", 70), ("TOTAL", 70)])
            + &line(&[
                ("READ", 90),
                ("READ_ERROR", 2),
                ("READ_MODIFY_WRITE", 40),
                ("TOTAL", 130),
                ("UPDATE", 40),
            ]);
        let measured = measured(&text, 1.0).unwrap();
        let rates: Vec<f64> = measured.series.iter().map(|one| one.write_iops).collect();
        assert_eq!(rates, [30.0, 40.0]);
        assert_eq!(measured.iops(), 90.0);
        let read = measured.operations["READ"];
        assert_eq!(
            (read.count, read.errors, read.latency.p99_us),
            (50, 2, 830.0)
        );
        assert_eq!(measured.first_error.as_deref(), Some("no answer"));
        assert_eq!(measured.main_operation.as_deref(), Some("READ"));
        assert!(super::measured("create db failed, err no hosts\n", 1.0).is_err());
    }
}

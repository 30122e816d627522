//! A report as Markdown, for a page of documentation or an issue.

use std::fmt::Write;

use super::front::Front;
use super::matrix::{Cell, Matrix};
use super::text::number;
use crate::experiment::{Results, two_digits};
use crate::plan::Plan;

/// The report of `results`: question, answer, ratios, a table a metric, set-up, limits.
pub fn markdown(plan: &Plan, results: &Results) -> String {
    let front = Front::new(plan, results);
    let mut text = format!("# {}\n\n{}\n\n", plan.title, plan.question);
    for sentence in &front.sentences {
        let (says, how_sure) = (plain(&sentence.says), plain(&sentence.how_sure));
        let _ = writeln!(text, "**{says}** {how_sure}\n");
    }
    for caveat in &front.caveats {
        let _ = writeln!(text, "- {}.", plain(caveat));
    }
    if !front.caveats.is_empty() {
        text.push('\n');
    }
    if !front.answers.is_empty() {
        let rows = front.answers.iter().map(|one| {
            let published = one.published.map(two_digits);
            let published = published.or_else(|| one.published_says.clone());
            vec![
                one.label.clone(),
                one.quoted(),
                one.confidence(),
                published.unwrap_or_else(|| "–".to_owned()),
            ]
        });
        let header = ["ratio", "measured", "how sure", "published"].map(str::to_owned);
        table(&mut text, &header, rows);
    }
    if let Some(missing) = &front.missing {
        let _ = writeln!(text, "{}.\n", plain(missing));
    }
    for matrix in front.matrices.iter().chain(&front.more) {
        of(&mut text, matrix);
    }
    text.push_str("## Set-up\n\n");
    let _ = writeln!(text, "- here: {}", plain(&results.machine.summary()));
    for (what, which) in &plan.setup {
        let _ = writeln!(text, "- published, {}: {}", plain(what), plain(which));
    }
    if !plan.limits.is_empty() {
        text.push_str("\n## What it cannot tell\n\n");
        for limit in &plan.limits {
            let _ = writeln!(text, "- {}", plain(limit));
        }
    }
    text
}

fn of(text: &mut String, matrix: &Matrix<'_>) {
    let _ = writeln!(text, "## {}\n", matrix.title);
    let mut header = vec!["load".to_owned(), "in".to_owned()];
    header.extend(
        matrix
            .columns
            .iter()
            .map(|target| target.label().to_owned()),
    );
    let rows = matrix.rows.iter().map(|row| {
        let mut cells = vec![row.label.clone(), row.unit.to_owned()];
        cells.extend(
            row.cells
                .iter()
                .map(|cell| cell.as_ref().map_or("–".to_owned(), shown)),
        );
        cells
    });
    table(text, &header, rows);
}

fn shown(cell: &Cell) -> String {
    let published = cell
        .published
        .map(|value| format!(" (published {})", number(value)));
    format!("{}{}", cell.measured(), published.unwrap_or_default())
}

fn table(text: &mut String, header: &[String], rows: impl Iterator<Item = Vec<String>>) {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push_str(&line(header));
    text.push_str(&format!("|{}\n", "---|".repeat(header.len())));
    for row in rows {
        text.push_str(&line(&row));
    }
    text.push('\n');
}

/// Text that is no markup, on one line.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '|' | '*' | '_' | '`' | '<' | '[' | '\\' => plain.extend(['\\', letter]),
            '\n' | '\r' => plain.push(' '),
            other => plain.push(other),
        }
    }
    plain
}

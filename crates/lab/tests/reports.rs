//! The reports of the committed results, in every form: the question and the answer come first, no
//! figure of several repetitions stands without its interval, and nothing is markup that should not
//! be.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use lab::experiment::{Results, answered, figures};
use lab::plan::{Plan, names};
use lab::report::{csv, html, markdown};

fn committed(name: &str) -> (Plan, Results) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let results = Results::load(&folder.join(format!("{name}.json"))).unwrap();
    (results.plan().unwrap(), results)
}

/// The committed results of an experiment as they were after its first repetition.
fn once(name: &str) -> (Plan, Results) {
    let (plan, mut results) = committed(name);
    results.runs.retain(|run| run.repetition == 0);
    (plan, results)
}

/// What a page says before what is folded, without its styles.
fn front(page: &str) -> &str {
    let from = page.find("<body>").unwrap();
    &page[from..page.find("<details").unwrap()]
}

#[test]
fn each_page_begins_with_the_question_and_its_answer() {
    for name in names() {
        let (plan, results) = committed(name);
        let page = html(&plan, &results).unwrap();
        let front = front(&page);
        let at = |text: &str| {
            front
                .find(text)
                .unwrap_or_else(|| panic!("{name}: no {text}"))
        };
        let question = at("class=question");
        let answer = at("class=answer");
        assert!(question < answer && answer < at("class=setup"), "{name}");
        assert!(
            at("Ratios, measured and published") < at("class=setup"),
            "{name}"
        );
        assert!(
            front[answer..].starts_with("class=answer aria-label=Answer>\n<p><span"),
            "{name}"
        );
        // The page is whole, and does nothing by itself.
        for fetched in ["src=", "<link", "<script", "@import", "url("] {
            assert!(!page.contains(fetched), "{name}: {fetched}");
        }
    }
}

/// The text of a page's front, without marks.
fn said(page: &str) -> String {
    front(page).replace("<b>", "").replace("</b>", "")
}

#[test]
fn every_answer_is_said_as_it_stands() {
    for name in names() {
        let (plan, results) = committed(name);
        let text = said(&html(&plan, &results).unwrap());
        let answers = answered(&plan, &results);
        let sentences: Vec<_> = answers.iter().filter_map(|one| one.said.as_ref()).collect();
        assert!(!sentences.is_empty(), "{name}");
        for sentence in sentences {
            let sentence = sentence.to_string();
            assert!(text.contains(&sentence), "{name}: {sentence}\n{text}");
        }
    }
}

#[test]
fn what_a_run_cannot_tell_is_said_in_the_answer() {
    for (of, name, part) in [
        (
            once as fn(&str) -> (Plan, Results),
            "tpcc",
            "Not compared: CD6-R over PCIe 3.0 drive, full pool (one repetition has no interval); \
             published 1.90, which this run neither confirms nor refutes.",
        ),
        (
            committed,
            "cassandra",
            "Not compared: The XD7P drives take 1.03 times the inserts",
        ),
        (
            committed,
            "cassandra",
            "wider than ±15% after 3 repetitions, as many as the plan allows; this host decided",
        ),
        (
            committed,
            "cassandra",
            "published 1.12, which this run neither confirms nor refutes.",
        ),
        (
            committed,
            "cassandra",
            "up to 68% of the I/O was late and processors were",
        ),
        (
            committed,
            "network",
            "Not compared: They make 1.00 times their local rate of 4 KiB reads",
        ),
        (
            committed,
            "raid6",
            "times the random writes of RAID 6 in place with 4 KiB strips (95%: 6.64 to 8.22)",
        ),
        (
            committed,
            "network",
            "one of 10 drives 500 Gb/s (arithmetic; 6 of 6 rows as",
        ),
        (
            committed,
            "namespace",
            "(modelled: each run gives the same); published 1.88, the same.",
        ),
        (committed, "namespace", "drive writes per day there, not 3"),
    ] {
        let (plan, results) = of(name);
        let text = said(&html(&plan, &results).unwrap());
        assert!(text.contains(part), "{name}: {part}\n{text}");
    }
}

#[test]
fn no_measured_figure_of_several_repetitions_is_without_its_interval() {
    for name in ["raid6", "network", "cassandra", "tpcc"] {
        let (plan, results) = committed(name);
        let page = html(&plan, &results).unwrap();
        let cells = page.split("<td class=n style=\"--share:").skip(1);
        let mut count = 0;
        for cell in cells {
            let cell = &cell[..cell.find("</td>").unwrap()];
            assert!(cell.contains('±'), "{name}: {cell}");
            count += 1;
        }
        assert!(count > 10, "{name}: {count}");
    }
    let (plan, results) = once("tpcc");
    let page = html(&plan, &results).unwrap();
    assert!(
        page.contains("One repetition: there are no intervals, and nothing of it is compared.")
    );
}

#[test]
fn absolutes_of_this_machine_never_share_an_axis_with_published_ones() {
    for name in names() {
        let (plan, results) = committed(name);
        let page = html(&plan, &results).unwrap();
        let charts = page.split("<svg class=chart").skip(2);
        for chart in charts {
            let chart = &chart[..chart.find("</svg>").unwrap()];
            assert!(!chart.contains("published"), "{name}: {chart}");
        }
    }
}

#[test]
fn text_from_a_plan_is_text_in_every_form() {
    let (_, mut results) = committed("tpcc");
    let hostile = r#"<img src=x onerror=\"alert(1)\">|`*"#;
    results.plan = results.plan.replace("CD6-R\"", &format!("{hostile}\""));
    results.machine.processor = "=cmd|<b>".to_owned();
    let plan = results.plan().unwrap();
    let page = html(&plan, &results).unwrap();
    assert!(page.contains("&lt;img") && !page.contains("<img"));
    let text = markdown(&plan, &results);
    assert!(text.contains("\\<img") && !text.contains(" <img"), "{text}");
}

#[test]
fn markdown_has_the_answer_the_ratios_and_a_table_a_metric() {
    let (plan, results) = once("tpcc");
    let text = markdown(&plan, &results);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(format!("# {}", plan.title).as_str()));
    assert!(
        text.contains("**Not compared: CD6-R over PCIe 3.0 drive, full pool** (one repetition"),
        "{text}"
    );
    assert!(
        text.contains("| ratio | measured | how sure | published |\n|---|---|---|---|\n"),
        "{text}"
    );
    assert!(
        text.contains("## Rate\n\n| load | in | PCIe 3.0 drive | CD6-R |"),
        "{text}"
    );
}

#[test]
fn csv_has_a_line_for_each_figure_and_as_many_cells_in_each() {
    let (plan, results) = committed("raid6");
    let text = csv(&plan, &results);
    let lines: Vec<&str> = text.split("\r\n").filter(|line| !line.is_empty()).collect();
    let figures = figures(&plan, &results);
    assert_eq!(lines.len(), 1 + figures.len());
    for line in &lines {
        // Commas in quotes are text.
        let outside: String = line.split('"').step_by(2).collect();
        assert_eq!(outside.split(',').count(), 15, "{line}");
    }
    let place = "raid6,random-write,log,rate,K IOPS,3,";
    let found = lines.iter().find_map(|line| line.strip_prefix(place));
    let published = found.and_then(|rest| rest.split(',').nth(3));
    assert_eq!(published, Some("1487"), "{found:?}");
}

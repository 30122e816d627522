//! The page of the history: each figure with its course, machine by machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::history::Run;

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 36.0;
/// Room for the line's width and the last point.
const MARGIN: f64 = 4.0;
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;\
    padding:0 1rem}table{border-collapse:collapse;width:100%}th,td{text-align:left;\
    padding:.2rem .8rem;border-bottom:1px solid #ddd}td.n,th.n{text-align:right;\
    font-variant-numeric:tabular-nums}svg{display:block}";

/// A figure's course on one machine: the revision and the value of each run.
type Course<'a> = Vec<(&'a Run, f64)>;

/// The page, which needs nothing else to be shown.
pub fn html(runs: &[Run]) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\
         <title>Benchmark history</title><style>{STYLE}</style></head><body>\
         <h1>Benchmark history</h1><p>Each line is one figure on one machine, from the first run \
         on the left to the last one. Each has an axis of its own that begins at zero. Machines \
         swing, so a single point proves nothing.</p>"
    );
    if runs.is_empty() {
        page.push_str("<p>No benchmark has been run yet.</p>");
    }
    for ((benchmark, machine), figures) in by_place(runs) {
        let _ = write!(
            page,
            "<h2>{}</h2><p>{}</p><table><tr><th>figure<th>course<th class=n>runs<th class=n>first\
             <th class=n>before<th class=n>last<th class=n>last of before<th>last revision</tr>",
            escaped(benchmark),
            escaped(machine)
        );
        for (name, course) in figures {
            page.push_str(&row(name, &course));
        }
        page.push_str("</table>");
    }
    page.push_str("</body></html>\n");
    page
}

/// Figures of each benchmark on each machine.
fn by_place(runs: &[Run]) -> BTreeMap<(&str, &str), BTreeMap<&str, Course<'_>>> {
    let mut places: BTreeMap<_, BTreeMap<&str, Course<'_>>> = BTreeMap::new();
    for run in runs {
        let place = (run.benchmark.as_str(), run.machine.as_str());
        let figures = places.entry(place).or_default();
        for (name, value) in &run.figures {
            figures.entry(name).or_default().push((run, *value));
        }
    }
    places
}

fn row(name: &str, course: &Course<'_>) -> String {
    let [Some((_, first)), Some((run, last))] = [course.first(), course.last()] else {
        return String::new();
    };
    let before = course.iter().rev().nth(1);
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), rounded);
    format!(
        "<tr><td>{}<td>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}\
         <td>{}, {}</tr>",
        escaped(name),
        line(course),
        course.len(),
        rounded(*first),
        shown(before.map(|(_, value)| *value)),
        rounded(*last),
        shown(
            before
                .map(|(_, value)| last / value)
                .filter(|ratio| ratio.is_finite())
        ),
        escaped(&run.revision),
        escaped(run.time.get(..10).unwrap_or(&run.time)),
    )
}

/// The course as a line from the left to the right, and a point at its end.
fn line(course: &Course<'_>) -> String {
    let highest = course.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let lowest = course.iter().map(|(_, value)| *value).fold(0.0, f64::min);
    let span = if highest > lowest {
        highest - lowest
    } else {
        1.0
    };
    let step = (WIDTH - 2.0 * MARGIN) / (course.len().max(2) - 1) as f64;
    let points = course.iter().enumerate().map(|(index, (_, value))| {
        let x = MARGIN + step * index as f64;
        let y = HEIGHT - MARGIN - (value - lowest) / span * (HEIGHT - 2.0 * MARGIN);
        (x, y)
    });
    let points: Vec<(f64, f64)> = points.collect();
    let path: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let (x, y) = points.last().copied().unwrap_or_default();
    format!(
        "<svg width={WIDTH} height={HEIGHT} role=img aria-label=course><polyline points=\"{}\" \
         fill=none stroke=\"#0072b2\" stroke-width=1.5 /><circle cx={x:.1} cy={y:.1} r=3 \
         fill=\"#0072b2\" /></svg>",
        path.join(" ")
    )
}

/// Four digits that count, without an exponent.
fn rounded(value: f64) -> String {
    let whole = value.abs().max(1e-9).log10().floor() as i32 + 1;
    let decimals = usize::try_from(4 - whole).unwrap_or(0).min(6);
    format!("{value:.decimals$}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(time: &str, machine: &str, iops: f64) -> Run {
        Run {
            time: time.to_owned(),
            revision: "0123abcd".to_owned(),
            machine: machine.to_owned(),
            benchmark: "serving".to_owned(),
            figures: BTreeMap::from([("read <4 KiB>, iops".to_owned(), iops)]),
        }
    }

    /// Runs of one machine are compared with each other only, and the last with the one before.
    #[test]
    fn a_figure_has_a_course_on_each_machine() {
        let runs = [
            run("2026-11-24T08:00:00Z", "slow", 1000.0),
            run("2026-11-25T08:00:00Z", "fast", 50_000.0),
            run("2026-11-26T08:00:00Z", "slow", 1500.0),
        ];
        let page = html(&runs);
        assert_eq!(page.matches("<polyline").count(), 2);
        assert!(page.contains("read &lt;4 KiB&gt;, iops"), "{page}");
        let slow = "<td class=n>2<td class=n>1000<td class=n>1000<td class=n>1500\
                    <td class=n>1.500<td>0123abcd, 2026-11-26</tr>";
        assert!(page.contains(slow), "{page}");
        let fast = "<td class=n>1<td class=n>50000<td class=n>-<td class=n>50000<td class=n>-";
        assert!(page.contains(fast), "{page}");
        assert!(html(&[]).contains("No benchmark has been run yet."));
    }

    #[test]
    fn values_have_four_digits() {
        let shown = [0.001_234_6, 0.98, 12.3456, 678_970.4, 0.0].map(rounded);
        assert_eq!(shown, ["0.001235", "0.9800", "12.35", "678970", "0.000000"]);
    }
}

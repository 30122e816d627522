//! Charts drawn for the page's own colours, light, dark and in print: ratios beside published
//! ratios on one axis, and absolutes by themselves.
//!
//! Colours are classes, which the page's style sheet fills: see `style.css`.

use std::fmt::Write;

use super::matrix::Cell;
use super::text::{escaped, number, spread};
use crate::experiment::{Answered, NOT_COMPARED, Standing, two_digits};

const WIDTH: f64 = 980.0;
/// Where the axis begins and ends, between labels and figures.
const LEFT: f64 = 360.0;
const RIGHT: f64 = 705.0;
const ROW: f64 = 30.0;
const HEAD: f64 = 26.0;
const FOOT: f64 = 30.0;

/// Characters of a label that fit before the axis, and above a bar.
const LABEL: usize = 54;

/// A ratio axis: equal factors are equal distances.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// Over everything that was found or published; intervals that go far beyond are cut off.
    fn over(rows: &[Answered]) -> Axis {
        let values = rows.iter().flat_map(|row| {
            let all = row.repetitions.iter().copied().chain([row.ratio]);
            all.chain(row.published)
        });
        let (mut low, mut high) = (1.0_f64, 1.0_f64);
        for value in values.filter(|value| *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        let room = (high / low).powf(0.08).max(1.04);
        Axis {
            low: low / room,
            high: high * room,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        LEFT + share * (RIGHT - LEFT)
    }

    /// Round ratios, of which 1 is one.
    fn ticks(&self) -> Vec<f64> {
        let decades =
            (-3..=3).flat_map(|power| [1.0, 2.0, 5.0].map(|one| one * 10_f64.powi(power)));
        let round: Vec<f64> = decades.filter(|tick| self.holds(*tick)).collect();
        if round.len() >= 3 {
            return round;
        }
        let span = self.high - self.low;
        let steps = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
        let step = steps
            .into_iter()
            .find(|step| span / step <= 8.0)
            .unwrap_or(2.0);
        let first = (self.low / step).ceil() as i32;
        let all = (first..).map(|nth| f64::from(nth) * step);
        all.take_while(|tick| *tick <= self.high).collect()
    }

    fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// What was measured and what was published of each answer.
pub fn ratios(rows: &[Answered]) -> String {
    let axis = Axis::over(rows);
    let bottom = HEAD + ROW * rows.len() as f64;
    let height = bottom + FOOT;
    let mut svg = format!(
        "<svg class=chart viewBox=\"0 0 {WIDTH} {height}\" role=img \
         aria-label=\"Ratios, measured and published\">"
    );
    head(&mut svg);
    for tick in axis.ticks() {
        let x = axis.at(tick);
        let class = if (tick - 1.0).abs() < 1e-9 {
            "one"
        } else {
            "grid"
        };
        line(&mut svg, class, (x, HEAD), (x, bottom));
        let tick = format!("{tick:.3}");
        let tick = tick.trim_end_matches('0').trim_end_matches('.');
        text(&mut svg, "tick middle", (x, bottom + 16.0), tick);
    }
    text(
        &mut svg,
        "tick middle",
        (axis.at(1.0), bottom + 28.0),
        "no difference",
    );
    for (nth, row) in rows.iter().enumerate() {
        answer(&mut svg, &axis, HEAD + ROW * (nth as f64 + 0.5), row);
    }
    svg.push_str("</svg>");
    svg
}

fn head(svg: &mut String) {
    let y = 14.0;
    circle(svg, "measured", (LEFT, y - 4.0), 5.0);
    text(svg, "label", (LEFT + 10.0, y), "measured, 95% interval");
    circle(svg, "once", (LEFT + 178.0, y - 4.0), 2.5);
    text(svg, "label", (LEFT + 186.0, y), "each repetition");
    diamond(svg, (LEFT + 304.0, y - 4.0));
    text(svg, "label", (LEFT + 315.0, y), "published");
    text(svg, "head end", (RIGHT + 148.0, y), "measured");
    text(svg, "head end", (WIDTH - 4.0, y), "published");
}

fn answer(svg: &mut String, axis: &Axis, y: f64, row: &Answered) {
    line(svg, "row", (0.0, y + ROW / 2.0), (WIDTH, y + ROW / 2.0));
    text(svg, "label", (0.0, y + 4.0), &cut(&row.label));
    if let Some([low, high]) = row.interval {
        let ends = [low, high].map(|end| axis.at(end.clamp(axis.low, axis.high)));
        line(svg, "whisker", (ends[0], y), (ends[1], y));
        for (end, x, towards) in [(low, ends[0], -6.0), (high, ends[1], 6.0)] {
            if axis.holds(end) {
                line(svg, "whisker", (x, y - 5.0), (x, y + 5.0));
            } else {
                let points = format!(
                    "{x:.1},{:.1} {:.1},{y:.1} {x:.1},{:.1}",
                    y - 5.0,
                    x + towards,
                    y + 5.0
                );
                let _ = write!(svg, "<polygon class=beyond-axis points=\"{points}\"/>");
            }
        }
    }
    if row.repetitions.len() > 1 {
        for ratio in &row.repetitions {
            circle(svg, "once", (axis.at(*ratio), y + 8.0), 2.5);
        }
    }
    if let Some(published) = row.published {
        diamond(svg, (axis.at(published), y));
    }
    let between = |[low, high]: [f64; 2]| format!("{} to {}", two_digits(low), two_digits(high));
    let (figure, interval) = match (row.standing, row.interval) {
        (Standing::NotCompared, _) => ("–".to_owned(), NOT_COMPARED.to_owned()),
        (_, None) => (two_digits(row.ratio), "modelled".to_owned()),
        (_, Some(ends)) => (two_digits(row.ratio), between(ends)),
    };
    if row.standing != Standing::NotCompared {
        circle(svg, "measured", (axis.at(row.ratio), y), 5.0);
    }
    text(svg, "figure end", (RIGHT + 62.0, y + 4.0), &figure);
    text(svg, "tick end", (RIGHT + 148.0, y + 4.0), &interval);
    let published = row.published.map(two_digits);
    let published = published.or_else(|| row.published_says.clone());
    let published = published.unwrap_or_else(|| "–".to_owned());
    text(svg, "label end", (WIDTH - 4.0, y + 4.0), &published);
}

/// One load's bars, a target each, as measured.
pub fn bars(title: &str, unit: &str, bars: &[(&str, &Cell)]) -> String {
    const WIDE: f64 = 380.0;
    const BAR: f64 = 40.0;
    const END: f64 = WIDE - 124.0;
    let reach =
        |cell: &Cell| cell.value * (1.0 + cell.half_percent.unwrap_or(0.0).min(100.0) / 100.0);
    let most = bars
        .iter()
        .map(|(_, cell)| reach(cell))
        .fold(f64::MIN_POSITIVE, f64::max);
    let height = 30.0 + BAR * bars.len() as f64;
    let mut svg = format!(
        "<svg class=chart viewBox=\"0 0 {WIDE} {height}\" role=img aria-label=\"{}\">",
        escaped(title)
    );
    text(&mut svg, "head", (0.0, 14.0), &cut(title));
    text(&mut svg, "tick end", (WIDE, 14.0), unit);
    for (nth, (label, cell)) in bars.iter().enumerate() {
        let y = 26.0 + BAR * nth as f64;
        text(&mut svg, "label", (0.0, y + 10.0), &cut(label));
        let length = cell.value / most * END;
        let _ = write!(
            svg,
            "<rect class=\"bar bar-{}\" x=0 y={:.1} width={:.1} height=13 rx=2 />",
            nth % 6,
            y + 15.0,
            length.max(1.0)
        );
        if let Some(percent) = cell.half_percent {
            let half = length * percent / 100.0;
            let (from, to) = ((length - half).max(0.0), (length + half).min(END));
            line(&mut svg, "whisker", (from, y + 21.5), (to, y + 21.5));
        }
        if let Some(mark) = cell.mark {
            text(&mut svg, "tick end", (WIDE, y + 10.0), mark);
        }
        let interval = cell
            .half_percent
            .map(|percent| format!(" {}", spread(percent)));
        let after = cell.half_percent.map_or(length, |percent| {
            (length * (1.0 + percent / 100.0)).min(END)
        });
        let said = format!("{}{}", number(cell.value), interval.unwrap_or_default());
        text(&mut svg, "figure", (after + 6.0, y + 26.0), &said);
    }
    svg.push_str("</svg>");
    svg
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let (x1, y1, x2, y2) = (from.0, from.1, to.0, to.1);
    let _ = write!(
        svg,
        "<line class={class} x1={x1:.1} y1={y1:.1} x2={x2:.1} y2={y2:.1} />"
    );
}

fn circle(svg: &mut String, class: &str, (x, y): (f64, f64), radius: f64) {
    let _ = write!(
        svg,
        "<circle class={class} cx={x:.1} cy={y:.1} r={radius} />"
    );
}

fn diamond(svg: &mut String, (x, y): (f64, f64)) {
    let _ = write!(
        svg,
        "<path class=published d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6z\"/>",
        y - 6.0
    );
}

fn text(svg: &mut String, class: &str, (x, y): (f64, f64), text: &str) {
    let text = escaped(text);
    let _ = write!(
        svg,
        "<text class=\"{class}\" x={x:.1} y={y:.1}>{text}</text>"
    );
}

/// No longer than there is room for.
fn cut(label: &str) -> String {
    if label.chars().count() <= LABEL {
        return label.to_owned();
    }
    let kept: String = label.chars().take(LABEL - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(ratio: f64, interval: Option<[f64; 2]>, published: Option<f64>) -> Answered {
        Answered {
            label: "a <b> over c".to_owned(),
            said: None,
            ratio,
            interval,
            repetitions: vec![ratio, ratio],
            standing: Standing::Settled,
            doubts: Vec::new(),
            published,
            published_says: None,
            note: None,
            late_percent: 0.0,
            busy_percent: 0.0,
        }
    }

    #[test]
    fn an_interval_beyond_the_axis_ends_in_an_arrow_and_is_written_out() {
        let svg = ratios(&[answered(1.43, Some([0.04, 55.0]), Some(1.12))]);
        assert_eq!(svg.matches("beyond-axis").count(), 2, "{svg}");
        assert!(svg.contains("0.04 to 55.0"), "{svg}");
        let svg = ratios(&[answered(1.54, Some([1.4, 1.7]), Some(1.9))]);
        assert_eq!(svg.matches("beyond-axis").count(), 0, "{svg}");
        assert!(svg.contains("a &lt;b&gt; over c"), "{svg}");
    }

    #[test]
    fn ticks_are_round_and_hold_one() {
        for (low, high) in [
            (0.6, 2.0),
            (0.9, 1.1),
            (0.05, 40.0),
            (1.0, 1.0),
            (0.99, 8.1),
        ] {
            let axis = Axis::over(&[answered(low, None, Some(high))]);
            let ticks = axis.ticks();
            assert!(
                (3..=10).contains(&ticks.len()),
                "{low} to {high}: {ticks:?}"
            );
            assert!(
                ticks.iter().any(|tick| (tick - 1.0).abs() < 1e-9),
                "{ticks:?}"
            );
        }
    }

    #[test]
    fn bars_show_what_was_measured_and_how_sure_it_is() {
        let cell = |half_percent| Cell {
            value: 1_234_567.0,
            half_percent,
            published: Some(309.0),
            share: 1.0,
            mark: None,
            holds: true,
        };
        let svg = bars(
            "Writes",
            "tpm",
            &[("one", &cell(Some(379.0))), ("two", &cell(None))],
        );
        assert!(svg.contains("1,234,567 ±379%"), "{svg}");
        assert!(
            !svg.contains("309"),
            "published values have an axis of their own: {svg}"
        );
        assert_eq!(svg.matches("class=whisker").count(), 1, "{svg}");
    }
}

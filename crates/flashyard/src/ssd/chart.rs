//! Charts of one value over another: in the terminal, and as SVG.

use lab::report::{Curve, Line};
use textplots::{Chart as TerminalChart, Plot, Shape};

use super::Error;

/// Points to be joined by a line, and others to be marked.
pub struct Chart<'a> {
    pub title: &'a str,
    pub x_label: &'a str,
    pub y_label: &'a str,
    pub points: Vec<(f64, f64)>,
    /// Points from elsewhere to compare with, and what they are.
    pub marks: Vec<(f64, f64)>,
    pub marks_label: &'a str,
}

impl Chart<'_> {
    /// The x range, and the y range from zero to above the highest point.
    fn ranges(&self) -> ((f64, f64), f64) {
        let all = self.points.iter().chain(&self.marks);
        let (mut left, mut right, mut top) = (f64::INFINITY, f64::NEG_INFINITY, 0.0_f64);
        for (x, y) in all {
            (left, right, top) = (left.min(*x), right.max(*x), top.max(*y));
        }
        if left > right {
            (left, right) = (0.0, 0.0);
        }
        if left == right {
            (left, right) = (left - 0.5, left + 0.5);
        }
        ((left, right), top.max(1e-9) * 1.1)
    }

    /// The chart in braille characters.
    pub fn terminal(&self) -> String {
        let ((left, right), top) = self.ranges();
        let points: Vec<(f32, f32)> = self
            .points
            .iter()
            .map(|(x, y)| (*x as f32, *y as f32))
            .collect();
        let shape = Shape::Lines(&points);
        let mut chart =
            TerminalChart::new_with_y_range(110, 44, left as f32, right as f32, 0.0, top as f32);
        let chart = chart.lineplot(&shape);
        chart.axis();
        chart.figures();
        format!(
            "{} ({} over {})\n{chart}",
            self.title, self.y_label, self.x_label
        )
    }

    /// The chart as SVG.
    pub fn svg(&self) -> Result<String, Error> {
        let (x, top) = self.ranges();
        let named = |label: &str, points: &[(f64, f64)]| Line {
            label: label.to_owned(),
            points: points.to_vec(),
        };
        let curve = Curve {
            title: self.title,
            x_label: self.x_label,
            y_label: self.y_label,
            x,
            top,
            line: named("model", &self.points),
            marks: named(self.marks_label, &self.marks),
        };
        Ok(curve.svg()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart<'static> {
        Chart {
            title: "Random writes",
            x_label: "namespace, TB",
            y_label: "K IOPS",
            points,
            marks: vec![(7.0, 310.0)],
            marks_label: "published",
        }
    }

    #[test]
    fn a_chart_carries_its_labels_line_and_marks() {
        let svg = chart(vec![(6.0, 700.0), (7.0, 300.0)]).svg().unwrap();
        for part in [
            "<svg",
            "Random writes",
            "namespace, TB",
            "published",
            "polyline",
            "circle",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        let terminal = chart(vec![(6.0, 700.0), (7.0, 300.0)]).terminal();
        assert!(terminal.contains("Random writes") && terminal.lines().count() > 8);
    }

    #[test]
    fn a_single_point_and_none_draw_too() {
        assert!(chart(vec![(7.0, 300.0)]).svg().is_ok());
        let mut empty = chart(Vec::new());
        empty.marks.clear();
        assert!(empty.svg().is_ok());
        empty.terminal();
    }
}

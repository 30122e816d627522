//! Charts as SVG: lines over time, latency percentiles, heat maps.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::ReportError;

const WIDTH: u32 = 860;
const HEIGHT: u32 = 360;

/// Colours of variants: told apart in print and by the colour-blind (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Points with a name: one variant's line, for one.
pub struct Line {
    /// The name.
    pub label: String,
    /// Where they are.
    pub points: Vec<(f64, f64)>,
}

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// The library's error without its borrow of the drawing.
fn failed(error: impl Display) -> ReportError {
    ReportError::Chart(error.to_string())
}

/// Draws on a white area of this height.
fn drawn(
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<(), ReportError>,
) -> Result<String, ReportError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        draw(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(text)
}

fn highest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max).max(1e-9)
}

/// A line a variant over seconds.
pub fn lines(title: &str, y_label: &str, lines: &[Line]) -> Result<String, ReportError> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let right = highest(all().map(|(x, _)| *x));
    let top = highest(all().map(|(_, y)| *y)) * 1.1;
    drawn(HEIGHT, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 17))
            .margin(10)
            .x_label_area_size(38)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..right, 0.0..top)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc("seconds")
            .y_desc(y_label)
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for (index, line) in lines.iter().enumerate() {
            draw_line(&mut chart, index, line)?;
        }
        legend(&mut chart)
    })
}

/// A line over anything, and points from elsewhere to compare it with.
pub struct Curve<'a> {
    /// What it shows.
    pub title: &'a str,
    /// What is along.
    pub x_label: &'a str,
    /// What is upwards.
    pub y_label: &'a str,
    /// The least and the most along.
    pub x: (f64, f64),
    /// The most upwards; the least is zero.
    pub top: f64,
    /// The line.
    pub line: Line,
    /// The points.
    pub marks: Line,
}

impl Curve<'_> {
    /// As SVG.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn svg(&self) -> Result<String, ReportError> {
        let (left, right) = self.x;
        let margin = (right - left) * 0.04;
        drawn(HEIGHT, |area| {
            let mut chart = ChartBuilder::on(area)
                .caption(self.title, ("sans-serif", 17))
                .margin(10)
                .x_label_area_size(38)
                .y_label_area_size(64)
                .build_cartesian_2d(left - margin..right + margin, 0.0..self.top)
                .map_err(failed)?;
            chart
                .configure_mesh()
                .x_desc(self.x_label)
                .y_desc(self.y_label)
                .light_line_style(WHITE)
                .draw()
                .map_err(failed)?;
            draw_line(&mut chart, 0, &self.line)?;
            if self.marks.points.is_empty() {
                return Ok(());
            }
            let colour = colour(4);
            let marks = self.marks.points.iter();
            let marks = marks.map(|at| Circle::new(*at, 5, colour.filled()));
            chart
                .draw_series(marks)
                .map_err(failed)?
                .label(self.marks.label.as_str())
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
            legend(&mut chart)
        })
    }
}

/// A line in the colour of its number, named in the legend.
fn draw_line<'a, 'b: 'a, X, Y>(
    chart: &'a mut ChartContext<'b, SVGBackend<'b>, Cartesian2d<X, Y>>,
    number: usize,
    line: &Line,
) -> Result<(), ReportError>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let colour = colour(number);
    let points = line.points.iter().copied();
    chart
        .draw_series(LineSeries::new(points, colour.stroke_width(2)))
        .map_err(failed)?
        .label(line.label.as_str())
        .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2)));
    Ok(())
}

fn legend<'a, 'b: 'a, X, Y>(
    chart: &'a mut ChartContext<'b, SVGBackend<'b>, Cartesian2d<X, Y>>,
) -> Result<(), ReportError>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .draw()
        .map_err(failed)
}

/// Latency at percentiles, a line a variant; `x` of the points counts `names`.
pub fn percentiles(title: &str, names: &[&str], lines: &[Line]) -> Result<String, ReportError> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let top = highest(all().map(|(_, y)| *y)) * 1.5;
    let low = all()
        .map(|(_, y)| *y)
        .filter(|y| *y > 0.0)
        .fold(top, f64::min)
        / 1.5;
    let right = names.len() as f64 - 0.5;
    drawn(HEIGHT, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 17))
            .margin(10)
            .x_label_area_size(38)
            .y_label_area_size(64)
            .build_cartesian_2d(-0.5..right, (low..top).log_scale())
            .map_err(failed)?;
        let name = |at: &f64| {
            let whole = (at - at.round()).abs() < 0.01 && *at >= -0.01;
            let name = names.get(at.round().max(0.0) as usize);
            name.filter(|_| whole)
                .map_or_else(String::new, |name| (*name).to_owned())
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(names.len() * 2)
            .x_label_formatter(&name)
            .y_desc("microseconds")
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for (index, line) in lines.iter().enumerate() {
            let colour = colour(index);
            draw_line(&mut chart, index, line)?;
            let dots = line
                .points
                .iter()
                .copied()
                .map(|at| Circle::new(at, 3, colour.filled()));
            chart.draw_series(dots).map_err(failed)?;
        }
        legend(&mut chart)
    })
}

/// I/Os by latency (powers of two of microseconds, upwards) over seconds, the darker the more.
pub fn heat(title: &str, columns: &[(f64, Vec<u32>)]) -> Result<String, ReportError> {
    let most = columns.iter().flat_map(|(_, counts)| counts).max();
    let most = f64::from(*most.unwrap_or(&1)).max(1.0).ln_1p();
    let classes = columns
        .iter()
        .map(|(_, counts)| counts.len())
        .max()
        .unwrap_or(1);
    let right = highest(columns.iter().map(|(end, _)| *end));
    drawn(HEIGHT, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 17))
            .margin(10)
            .x_label_area_size(38)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..right, 0.0..classes as f64)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .y_labels(classes.min(14))
            .y_label_formatter(&|at| latency(at.exp2()))
            .x_desc("seconds")
            .y_desc("latency from")
            .draw()
            .map_err(failed)?;
        let mut begin = 0.0;
        for (end, counts) in columns {
            let cells = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            let cells = cells.map(|(class, count)| {
                let strength = f64::from(*count).ln_1p() / most;
                let foot = class as f64;
                let colour = COLOURS[0].mix(0.08 + 0.92 * strength);
                Rectangle::new([(begin, foot), (*end, foot + 1.0)], colour.filled())
            });
            chart.draw_series(cells).map_err(failed)?;
            begin = *end;
        }
        Ok(())
    })
}

fn latency(microseconds: f64) -> String {
    match microseconds {
        value if value >= 1e6 => format!("{:.0} s", value / 1e6),
        value if value >= 1e3 => format!("{:.0} ms", value / 1e3),
        value => format!("{value:.0} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chart_draws_without_data_and_with_one_point() {
        let one = || Line {
            label: "only".to_owned(),
            points: vec![(1.0, 5.0)],
        };
        assert!(lines("t", "y", &[one()]).unwrap().contains("only"));
        assert!(lines("t", "y", &[]).is_ok());
        assert!(
            percentiles("t", &["p50", "p99"], &[one()])
                .unwrap()
                .contains("p99")
        );
        assert!(percentiles("t", &["p50"], &[]).is_ok());
        assert!(
            heat("t", &[(1.0, vec![0, 3, 1])])
                .unwrap()
                .contains("latency from")
        );
        assert!(heat("t", &[]).is_ok());
    }
}

//! An experiment as a report: [`html()`], one page that needs nothing else, to read, to send, to
//! print; [`pdf()`] of it; [`markdown()`]; and [`csv()`].
//!
//! All say the same first ([`front`]): the question, the answer and how sure it is. Charts are SVG
//! that is drawn here, so that a page has no script and looks the same in ten years.

mod chart;
mod csv;
mod details;
mod front;
mod health;
mod html;
mod markdown;
mod matrix;
mod page;
mod pdf;
mod svg;
mod text;

pub use chart::{Curve, Line};
pub use csv::csv;
pub use markdown::markdown;
pub use page::html;
pub use pdf::pdf;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A chart could not be drawn.
    #[error("a chart could not be drawn: {0}")]
    Chart(String),
    /// The page could not be printed.
    #[error("the page could not be printed: {0}")]
    Pdf(String),
    /// There is nothing to print it with.
    #[error(
        "a PDF is printed by Chromium, which is not installed; on Debian and Ubuntu: apt-get \
         install chromium. --format html makes the page itself, which any browser prints"
    )]
    NoChromium,
}

//! [`html()`]: an experiment as one page that needs nothing else: to read, to send, to print.

mod chart;
mod health;
mod page;

pub use chart::{Curve, Line};
pub use page::html;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A chart could not be drawn.
    #[error("a chart could not be drawn: {0}")]
    Chart(String),
}

//! Quality of service: when a command of a volume may start.
//!
//! In this room: [`Limiter`], how much a volume or a tenant may do; [`Share`] and [`Window`], who
//! goes first where more is asked for than a place can do at once; and [`Terms`], what of this
//! holds for one volume. Not in this room: clocks, waiting, and who has which limits: time is a
//! number that the caller brings.
#![forbid(unsafe_code)]

mod bucket;
mod limiter;
mod share;
mod terms;
mod window;

pub use bucket::Bucket;
pub use limiter::{Direction, Limiter, Rate, Rates};
pub use share::{COST_BYTES, Share, cost};
pub use terms::{Part, Terms};
pub use window::{Room, Ticket, Window};

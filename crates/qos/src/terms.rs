//! [`Terms`]: what holds for one volume.

use std::sync::Arc;

use crate::limiter::Limiter;
use crate::share::Share;
use crate::window::Room;

/// What holds for one volume, on all cores; nothing, unless something is said.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Its own limits, then those it shares with others.
    pub limiters: Vec<Arc<Limiter>>,
    /// Its part of the place it is in, where somebody has a minimum there.
    pub part: Option<Part>,
}

/// A part of a place: of a drive or a pool, which volumes share.
#[derive(Clone, Debug)]
pub struct Part {
    /// The volume's own.
    pub share: Arc<Share>,
    /// The place's name.
    pub place: Arc<str>,
    /// What each core may have under way there.
    pub room: Room,
}

impl Terms {
    /// True where nothing is said.
    pub fn is_free(&self) -> bool {
        self.limiters.is_empty() && self.part.is_none()
    }
}

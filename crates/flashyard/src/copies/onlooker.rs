//! [`Onlooker`]: who sees how far a copy is, and may end it.

use server::replications::Watch;

use crate::progress::Progress;

/// Whoever asked for a copy.
pub enum Onlooker {
    /// Somebody at a terminal, by Ctrl-C.
    Terminal(Progress),
    /// A node that replicates.
    Node(Watch),
}

impl Onlooker {
    /// Shows the share done, 0 to 1.
    pub fn at(&self, share: f64) {
        match self {
            Onlooker::Terminal(progress) => {
                progress.at(share);
            }
            Onlooker::Node(watch) => watch.at(share),
        }
    }

    /// Whether the copy is to end early.
    pub fn is_stopped(&self) -> bool {
        match self {
            Onlooker::Terminal(progress) => progress.stop().is_stopped(),
            Onlooker::Node(watch) => watch.is_stopped(),
        }
    }
}

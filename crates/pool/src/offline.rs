//! [`OfflineReason`]: why a pool is out of service.

use std::fmt;

/// Why a pool is out of service, or its next operation refused. Its words follow "offline:".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfflineReason {
    /// Another host holds it now: nothing here may be read any more.
    TakenOver,
    /// Fewer drives work than it can do with.
    TooManyDrivesFailed,
    /// A checkpoint set updates aside and did not come to its end.
    CheckpointUnfinished,
    /// A checkpoint could not be published.
    CheckpointFailed,
    /// Tables with further ready segments could not be published.
    AnnouncementFailed,
    /// New tables of volumes and snapshots could not be published.
    ChangeFailed,
    /// A drive joined, and the other cores or drives could not be told.
    JoiningFailed,
    /// A core that serves a part of it does so no more.
    CoreStopped,
    /// The core that decides for all of them does so no more.
    LetGo,
    /// A panic in its code ended it: what is in memory may be wrong, and is not written.
    InternalError,
    /// It never came into service.
    NotOpened,
    /// It has been destroyed.
    Destroyed,
    /// It is being closed.
    Closing,
    /// It has been closed.
    Closed,
}

impl OfflineReason {
    /// The words that stand for it.
    pub fn as_str(self) -> &'static str {
        match self {
            OfflineReason::TakenOver => "another host has taken the pool over",
            OfflineReason::TooManyDrivesFailed => "too many drives failed",
            OfflineReason::CheckpointUnfinished => "a checkpoint was not finished",
            OfflineReason::CheckpointFailed => "a checkpoint failed",
            OfflineReason::AnnouncementFailed => "segments could not be announced",
            OfflineReason::ChangeFailed => "a change of volumes could not be published",
            OfflineReason::JoiningFailed => "a drive that joins could not be made known",
            OfflineReason::CoreStopped => "a core of the pool has stopped",
            OfflineReason::LetGo => "the core that opened the pool has let it go",
            OfflineReason::InternalError => "an internal error stopped the pool",
            OfflineReason::NotOpened => "the pool was not opened",
            OfflineReason::Destroyed => "destroyed",
            OfflineReason::Closing => "closing",
            OfflineReason::Closed => "it has been closed",
        }
    }
}

impl fmt::Display for OfflineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

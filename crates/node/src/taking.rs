//! Taking a drive, for a pool or a volume: what it holds is seen before, and gone after.

use block::IoError;
use drive::Contents;

use crate::error::NodeError;
use crate::volume::member::Member;
use crate::volume::placed::Placed;
use crate::volume::watched::WatchedDrive;

/// The way that a drive is taken which may have contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taking {
    /// A drive is taken only if it holds nothing.
    #[default]
    Blank,
    /// The contents of a drive are wiped.
    Wiped,
    /// The contents of a drive stay, and are served.
    AsItIs,
}

/// Refuses a drive that must not be taken so. Changes nothing.
pub async fn check(name: &str, drive: &Member, taking: Taking) -> Result<(), NodeError> {
    if taking != Taking::Blank {
        return Ok(());
    }
    match contents(drive).await {
        Ok(None) => Ok(()),
        Ok(Some(contents)) => Err(NodeError::Carries {
            drive: name.to_owned(),
            contents: contents.to_string(),
        }),
        Err(error) => Err(NodeError::Unread {
            drive: name.to_owned(),
            error,
        }),
    }
}

/// Makes a drive that was checked ready for its new use.
pub async fn clear(name: &str, drive: &Member, taking: Taking) -> Result<(), NodeError> {
    match taking {
        Taking::Blank => {
            drive::forget(drive).await;
            Ok(())
        }
        Taking::Wiped => wipe(name, drive).await,
        Taking::AsItIs => Ok(()),
    }
}

/// Makes a drive hold nothing that anybody would recognise.
pub async fn wipe(name: &str, drive: &Member) -> Result<(), NodeError> {
    let wiped = match drive {
        Placed::Here(drive) => drive.wipe().await,
        Placed::Elsewhere(drive) => drive::wipe(drive).await,
    };
    wiped.map_err(|error| NodeError::Wipe {
        drive: name.to_owned(),
        error,
    })
}

/// The contents of a drive. Only its own handles reach the bytes behind its last whole block.
pub async fn contents(drive: &Member) -> Result<Option<Contents>, IoError> {
    match drive {
        Placed::Here(drive) => drive.contents().await,
        Placed::Elsewhere(drive) => drive::contents(drive, &[]).await,
    }
}

impl From<WatchedDrive> for Member {
    fn from(drive: WatchedDrive) -> Member {
        Placed::Here(drive)
    }
}

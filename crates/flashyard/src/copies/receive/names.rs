//! [`Names`]: what a receive makes beside the volume, and what one that was killed has left.

use api::{Name, Volume};
use client::Client;

use super::plan::in_pool;
use crate::copies::error::CopyError;
use crate::copies::{Access, PREFIX, name, size};

/// Names of what a receive makes. The first two follow from the volume's, so that two receives of
/// one volume meet, and that a later one finds what an earlier one has left.
pub struct Names {
    /// The volume that receives.
    of: Name,
    /// The volume aside.
    pub volume: Name,
    /// The snapshot of it.
    pub snapshot: Name,
    /// The snapshot that is taken of the volume in the end.
    pub taken: Name,
}

/// The longest part of a volume's name in those of what is aside.
const STEM_BYTES_MAX: usize = 53;

impl Names {
    /// # Errors
    /// They are none.
    pub fn of(volume: &Name, taken: Name) -> Result<Names, CopyError> {
        let stem: String = volume.as_str().chars().take(STEM_BYTES_MAX).collect();
        Ok(Names {
            of: volume.clone(),
            volume: name(&format!("{stem}.receiving"))?,
            snapshot: name(&format!("{stem}.received"))?,
            taken,
        })
    }

    /// Refuses what is there already, but for what a receive has left that was killed and is to be
    /// deleted.
    pub fn are_free(
        &self,
        client: &Client,
        restart: bool,
        access: &Access,
    ) -> Result<(), CopyError> {
        let snapshots = client.snapshots()?.items;
        let is_there = |name: &Name| snapshots.iter().find(|it| it.name == name.as_str());
        if let Some(there) = is_there(&self.taken) {
            return Err(CopyError::Refused(format!(
                "snapshot {} exists, of {} in pool {}; --snapshot takes another name",
                self.taken,
                size(there.bytes),
                there.pool
            )));
        }
        let volumes = client.volumes()?.items;
        // A pool gives each name once.
        if self.taken == self.of || volumes.iter().any(|it| it.name == self.taken) {
            return Err(CopyError::Refused(format!(
                "a volume is named {}; --snapshot takes another name for the snapshot",
                self.taken
            )));
        }
        let volume = volumes.iter().find(|it| it.name == self.volume);
        let snapshot = is_there(&self.snapshot);
        let what = match (volume, snapshot) {
            (None, None) => return Ok(()),
            (Some(_), _) => format!("volume {}", self.volume),
            (None, Some(_)) => format!("snapshot {}", self.snapshot),
        };
        if !restart {
            return Err(CopyError::Refused(format!(
                "{what} is there: another receive is under way, or was killed; --restart deletes \
                 what that has left"
            )));
        }
        if let Some(snapshot) = snapshot {
            if ![None, Some(&self.volume), Some(&self.of)].contains(&snapshot.volume.as_ref()) {
                return Err(CopyError::Refused(format!(
                    "snapshot {} is none that a receive has left: it is of another volume",
                    snapshot.name
                )));
            }
            client.delete_snapshot(&in_pool(snapshot)?)?;
        }
        match volume {
            Some(volume) => discard(client, volume, access),
            None => Ok(()),
        }
    }
}

/// Deletes the volume aside of a receive that was killed, and the host that was made for it.
fn discard(client: &Client, volume: &Volume, access: &Access) -> Result<(), CopyError> {
    let ours =
        |host: &&Name| host.as_str().starts_with(PREFIX) || access.host.as_ref() == Some(host);
    if !volume.hosts.iter().all(|host| ours(&host)) {
        return Err(CopyError::Refused(format!(
            "volume {} is none that a receive has left: others may see it",
            volume.name
        )));
    }
    // Refused while a receive is under way: its host is connected.
    client.delete_volume(&volume.name, false)?;
    for host in volume
        .hosts
        .iter()
        .filter(|host| host.as_str().starts_with(PREFIX))
    {
        client.remove_host(host)?;
    }
    Ok(())
}

//! Write protection of volumes: no host writes to one that its administrator, or a host, has
//! protected. The data path knows it, and what holds the volume keeps it.

use api::{ErrorBody, ErrorCode, Name, Volume, VolumeProtect, WriteProtection};
use node::{Nqn, Protection};

use crate::control::volumes::identified;
use crate::control::words::{parsed, refused};
use crate::control::{Control, Objects, VolumeEntry};
use crate::rules::in_words;

impl Control {
    /// Has a volume be write protected, or no longer. When that is answered no host's write is
    /// under way, and what hosts had acknowledged is durable.
    pub async fn protect_volume(
        &self,
        name: &Name,
        to: VolumeProtect,
    ) -> Result<Volume, ErrorBody> {
        let objects = self.objects.change().await;
        let entry = identified(&objects, name)?;
        if let Some(reason) = &entry.offline {
            let message = format!("volume {name} is offline: {reason}");
            return Err(ErrorBody::new(ErrorCode::NotReady, message));
        }
        let before = self.protection_of(entry).await?;
        let nqn = parsed(&entry.record.nqn)?;
        let protection = Protection::by_administrator(to.protected);
        // Also where it is so already: an earlier call may have given up before writes had ended.
        let nsid = entry.record.nsid;
        let protected = self.node.protect_volume(&nqn, nsid, protection).await;
        protected.map_err(|error| refused(&error))?;
        if before != protection {
            let message = match to.protected {
                true => "write protected",
                false => "write protected no more",
            };
            self.tell_volume(name, message);
        }
        self.volume_now(&objects, name).await
    }

    /// Refuses to change what is in a volume that is write protected.
    pub(super) async fn check_unprotected(
        &self,
        objects: &Objects,
        name: &Name,
    ) -> Result<(), ErrorBody> {
        let Some(by) = in_words(self.protection_of(identified(objects, name)?).await?) else {
            return Ok(());
        };
        let by = match by {
            WriteProtection::Administrator => "",
            WriteProtection::Host => " by a host",
        };
        let message = format!(
            "volume {name} is write protected{by}; allowed: once that is lifted (volume protect \
             {name} --off)"
        );
        Err(ErrorBody::new(ErrorCode::InUse, message))
    }

    async fn protection_of(&self, entry: &VolumeEntry) -> Result<Protection, ErrorBody> {
        let known = self.protections(&[entry]).await?;
        Ok(known.first().copied().unwrap_or_default())
    }

    /// The write protection of each of these volumes, as far as it is known.
    pub(super) async fn protections(
        &self,
        entries: &[&VolumeEntry],
    ) -> Result<Vec<Protection>, ErrorBody> {
        // One whose identity cannot be read is not served.
        let place = |entry: &&VolumeEntry| {
            let nqn = entry.record.nqn.parse::<Nqn>().ok()?;
            Some((nqn, entry.record.nsid))
        };
        let places: Vec<_> = entries.iter().map(place).collect();
        let served = places.iter().flatten().cloned().collect();
        let known = self.node.protections(served).await;
        let mut known = known.map_err(|error| refused(&error))?.into_iter();
        let of_place = |place: &Option<_>| match place {
            Some(_) => known.next().unwrap_or_default(),
            None => Protection::None,
        };
        Ok(places.iter().map(of_place).collect())
    }
}

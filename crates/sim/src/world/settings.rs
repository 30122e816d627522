//! Changes of what a volume is called, and of whether space is kept for it; the pool's name.

use super::changes::Kind;
use super::{Served, World};
use pool::{VolumeId, VolumeInfo};

impl World {
    /// Changes one of them, and gives that up at times.
    pub(super) async fn change_settings(
        &self,
        pool: &Served,
        volumes: &[u32],
    ) -> Result<(), String> {
        let place = self.leaving.below(volumes.len() as u64) as usize;
        match (self.leaving.below(3), volumes.get(place)) {
            (0, Some(volume)) => self.rename_volume(pool, *volume).await,
            (1, Some(volume)) => self.reserve_volume(pool, *volume).await,
            _ => {
                let renamed = self.or_leave(pool.rename(&self.fresh_name())).await;
                self.still_holds()?;
                match renamed {
                    None | Some(Ok(())) => Ok(()),
                    Some(Err(error)) => Err(format!("renaming the pool: {error}")),
                }
            }
        }
    }

    async fn rename_volume(&self, pool: &Served, volume: u32) -> Result<(), String> {
        let name = self.fresh_name();
        let mut found = pool.volumes().into_iter();
        let former = found.find(|found| found.id.0 == volume);
        let former = former.ok_or("no such volume")?.name;
        let asked = self.begin(pool, &name, Kind::Rename { volume, former });
        let change = pool.rename_volume(VolumeId(volume), &name);
        let Some(result) = self.or_leave(change).await else {
            return self.find_out(pool).await;
        };
        if self.end(pool, result, asked)?.is_some() {
            self.model.borrow_mut().names.insert(volume, name);
        }
        self.check_names(&pool.volumes())
    }

    /// Every volume is called what it was called last.
    pub(super) fn check_names(&self, volumes: &[VolumeInfo]) -> Result<(), String> {
        let model = self.model.borrow();
        let named = |volume: &&VolumeInfo| {
            let name = model.names.get(&volume.id.0);
            name.is_some_and(|name| *name != volume.name)
        };
        match volumes.iter().find(named) {
            None => Ok(()),
            Some(volume) => Err(format!("{:?} has another name: {volume:?}", volume.id)),
        }
    }

    /// Keeps space for a volume, or no more.
    async fn reserve_volume(&self, pool: &Served, volume: u32) -> Result<(), String> {
        // What is refused meanwhile might have been promised.
        self.reserve(volume).await?;
        let reserved = !self.model.borrow_mut().reserving.remove(&volume);
        let asked = self.begin(pool, "", Kind::Reserve { volume, reserved });
        let change = pool.reserve_volume(VolumeId(volume), reserved);
        let Some(result) = self.or_leave(change).await else {
            return self.find_out(pool).await;
        };
        if self.end(pool, result, asked)?.is_some() && reserved {
            self.model.borrow_mut().reserving.insert(volume);
        }
        self.let_go(volume);
        Ok(())
    }
}

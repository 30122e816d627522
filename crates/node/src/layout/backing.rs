//! What volumes stand on, core by core: a drive of one core, or the shards of a pool.

use block::Geometry;

use super::{Layout, Places, VolumePlace};
use crate::error::NodeError;
use crate::spec::Backing;
use crate::volume::Parts;
use crate::volume::remote::VolumeId;

/// Where a volume is.
pub(super) struct Stand {
    /// The core that knows what it is.
    pub home: usize,
    /// Its number in each shard, on a pool.
    pub part: Option<VolumeId>,
    pub geometry: Geometry,
}

impl Layout {
    /// Puts the volume `id` on `backing`, on every core. One on nothing is, or stays, on the core
    /// `home`.
    pub(super) async fn stand(
        &self,
        places: &mut Places,
        (id, home): (VolumeId, usize),
        backing: &Backing,
        block_bytes: u32,
    ) -> Result<Stand, NodeError> {
        let (home, geometry) = match backing.clone() {
            Backing::Pool { pool, volume } => {
                let volume = (pool.as_str(), volume);
                return self.stand_on_pool(places, id, volume, block_bytes).await;
            }
            Backing::Drive(drive) => {
                let home = places.drive_core(&drive)?;
                let stood = self.on(home, move |core| async move {
                    core.stand_on_drive(id, &drive, block_bytes)
                });
                (home, stood.await?)
            }
            Backing::Offline { capacity_bytes } => {
                let stood = self.on(home, move |core| async move {
                    core.stand_on_nothing(id, capacity_bytes, block_bytes)
                });
                (home, stood.await?)
            }
        };
        for other in self.others(home) {
            self.make_proxy(other, id, home, geometry).await?;
        }
        Ok(Stand {
            home,
            part: None,
            geometry,
        })
    }

    async fn stand_on_pool(
        &self,
        places: &mut Places,
        id: VolumeId,
        (pool, volume): (&str, pool::VolumeId),
        block_bytes: u32,
    ) -> Result<Stand, NodeError> {
        let cores = places.pool(pool)?.cores.clone();
        let part = places.take_id();
        let mut parts = None;
        for core in cores.clone() {
            let pool = pool.to_owned();
            let made = self.on(core, move |core| async move {
                core.make_part(part, (&pool, volume), block_bytes)
            });
            match made.await {
                Ok(geometry) => parts.get_or_insert(geometry),
                Err(error) => {
                    // Already failing with the first error, which is the one to report.
                    let _ = self.drop_volume(part).await;
                    return Err(error);
                }
            };
        }
        let stand = Stand {
            home: cores[0],
            part: Some(part),
            geometry: parts.ok_or_else(|| NodeError::UnknownPool(pool.to_owned()))?,
        };
        self.join_parts(id, &stand, cores).await?;
        Ok(stand)
    }

    /// Lets every core reach every shard's part of a volume.
    async fn join_parts(
        &self,
        id: VolumeId,
        stand: &Stand,
        cores: Vec<usize>,
    ) -> Result<(), NodeError> {
        let Some(part) = stand.part else {
            return Ok(());
        };
        let parts = Parts {
            id: part,
            cores,
            geometry: stand.geometry,
        };
        for index in 0..self.cores.len() {
            let parts = parts.clone();
            let joined = self.on(index, move |core| async move {
                core.join_parts(id, &parts);
                Ok(())
            });
            joined.await?;
        }
        Ok(())
    }

    /// Brings the size that a volume has now to every core, and to hosts.
    pub(super) async fn refresh_size(
        &self,
        places: &Places,
        place: &VolumePlace,
    ) -> Result<Geometry, NodeError> {
        let (id, home) = (place.id, place.stand.home);
        let measured = self.on(home, move |core| async move { core.volume_geometry(id) });
        let geometry = measured.await?;
        let stand = Stand {
            geometry,
            ..place.stand
        };
        if let Backing::Pool { pool, .. } = &place.spec.backing {
            let cores = places.pool(pool)?.cores.clone();
            self.join_parts(id, &stand, cores).await?;
        }
        self.announce(place).await?;
        Ok(geometry)
    }

    /// Tells hosts that a volume may have another size.
    pub(super) async fn announce(&self, place: &VolumePlace) -> Result<(), NodeError> {
        for index in 0..self.cores.len() {
            let spec = place.spec.clone();
            self.on(index, move |core| async move { core.announce_size(&spec) })
                .await?;
        }
        Ok(())
    }
}

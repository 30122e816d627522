//! Changes of what there is: volumes made, cloned, rolled back, resized, deleted; snapshots.

use super::refusals::{Asked, Purpose};
use super::{BLOCK, Served, World};
use crate::model::{Image, Write};
use pool::{PoolError, PoolState, SnapshotId, SnapshotInfo, VolumeId, VolumeOptions};
use std::convert::Infallible;
use std::time::Duration;

/// A change that was asked for and not yet answered.
pub(crate) struct Pending {
    /// The name of what is to be made.
    name: String,
    kind: Kind,
}

pub(crate) enum Kind {
    /// Of volumes at one instant.
    Snapshots(Vec<(u32, Image)>),
    Volume {
        image: Image,
    },
    DeleteVolume(u32),
    DeleteSnapshot(u32),
    Rollback {
        volume: u32,
        image: Image,
    },
    Resize {
        volume: u32,
        blocks: u64,
    },
    /// What it was called; the new name is the change's.
    Rename {
        volume: u32,
        former: String,
    },
    Reserve {
        volume: u32,
        reserved: bool,
    },
}

impl Pending {
    /// A write goes on while a snapshot is being taken: it may be in it.
    pub fn saw_write(&mut self, id: u32, number: u64, write: &Write) {
        let Kind::Snapshots(images) = &mut self.kind else {
            return;
        };
        for (_, image) in images.iter_mut().filter(|(volume, _)| *volume == id) {
            image.submit(number, write.clone());
            image.fail(number, write.submitted);
        }
    }
}

/// The name of the snapshot at a place among those of one instant.
fn one_of(name: &str, place: usize) -> String {
    format!("{name}-{place}")
}

/// Those of one instant, with what they are: all that were asked for, or none.
fn taken(
    name: &str,
    images: Vec<(u32, Image)>,
    snapshots: &[SnapshotInfo],
) -> Result<Vec<(u32, Image)>, String> {
    let named = |place| {
        let name = one_of(name, place);
        snapshots.iter().find(|found| found.name == name)
    };
    let found: Vec<_> = (0..images.len()).filter_map(named).collect();
    if !found.is_empty() && found.len() < images.len() {
        return Err(format!("{} of {} snapshots", found.len(), images.len()));
    }
    let images = found.iter().zip(images);
    Ok(images
        .map(|(found, (_, image))| (found.id.0, image))
        .collect())
}

/// Most volumes and snapshots there are at once.
const IMAGES_MAX: usize = 6;

impl World {
    pub(super) async fn change_something(&self, pool: &Served) -> Result<(), String> {
        self.still_holds()?;
        let (volumes, snapshots) = {
            let model = self.model.borrow();
            let volumes: Vec<u32> = model.volumes.keys().copied().collect();
            let snapshots: Vec<u32> = model.snapshots.keys().copied().collect();
            (volumes, snapshots)
        };
        if self.leaves && self.leaving.once_in(6) {
            return self.change_settings(pool, &volumes).await;
        }
        let pick = |from: &[u32]| {
            from.get(self.random.below(from.len() as u64) as usize)
                .copied()
        };
        let few = volumes.len() + snapshots.len() < IMAGES_MAX;
        let (volume, snapshot) = (pick(&volumes), pick(&snapshots));
        self.count(|report| report.changes += 1);
        match (self.random.below(11), volume, snapshot) {
            (0..=1, Some(volume), _) if few => self.snapshot(pool, volume, &volumes).await,
            (2, _, Some(snapshot)) if few => self.clone_snapshot(pool, snapshot).await,
            (3, Some(volume), Some(snapshot)) => self.rollback(pool, volume, snapshot).await,
            (4, _, Some(snapshot)) => self.delete_snapshot(pool, snapshot).await,
            (5, Some(volume), _) if volumes.len() > 1 => self.delete_volume(pool, volume).await,
            (6, Some(volume), _) => self.resize(pool, volume).await,
            (7, _, _) if few => self.create_volume(pool).await,
            (8, _, _) => self.add_drive(pool).await,
            (10, _, _) => self.scrub(pool).await,
            (9, _, _) if self.random.once_in(3) => self.remove_drive(pool).await,
            _ => match self.or_give_up(pool.checkpoint()).await {
                None | Some(Ok(())) => Ok(()),
                Some(Err(error)) => {
                    self.still_holds()?;
                    Err(format!("checkpoint: {error}"))
                }
            },
        }
    }

    async fn scrub(&self, pool: &Served) -> Result<(), String> {
        let begun = self.now.get();
        let report = match self.or_leave(pool.scrub()).await {
            None => return self.still_holds(),
            Some(Ok(report)) => report,
            Some(Err(error)) if self.change_may_be_told_to_wait(&error, begun) => return Ok(()),
            // The one before, for which nobody waited, has not ended.
            Some(Err(PoolError::Invalid(_))) if self.leaves => return Ok(()),
            Some(Err(error)) => {
                self.still_holds()?;
                return Err(format!("scrub: {error}"));
            }
        };
        // Where nothing is lost, counts are right, too.
        let sound = report.lost.is_empty() && report.lost_nodes == 0;
        match sound && report.recounted == 0 {
            true => Ok(()),
            false => Err(format!("scrub: {report:?}")),
        }
    }

    pub(super) fn begin(&self, pool: &Served, name: &str, kind: Kind) -> Asked {
        let blocks = {
            let model = self.model.borrow();
            let (gone, first) = match &kind {
                Kind::DeleteSnapshot(id) => (model.snapshots.get(id), 0),
                Kind::DeleteVolume(id) | Kind::Rollback { volume: id, .. } => {
                    (model.volumes.get(id), 0)
                }
                Kind::Resize { volume, blocks } => (model.volumes.get(volume), *blocks),
                _ => (None, 0),
            };
            let gone = gone.map_or(0, |image| image.blocks_written_at_most_from(first));
            self.unnamed.set(self.unnamed.get() + gone);
            let promised = |id: &u32| model.reserving.contains(id);
            match &kind {
                Kind::Snapshots(images) => {
                    let reserving = images.iter().filter(|(volume, _)| promised(volume));
                    reserving.map(|(_, image)| image.size).sum()
                }
                Kind::Rollback { volume, image } if promised(volume) => image.size,
                Kind::Resize { volume, blocks } if promised(volume) => *blocks,
                Kind::Reserve { volume, reserved } if *reserved => {
                    model.volumes.get(volume).map_or(0, |image| image.size)
                }
                _ => 0,
            }
        };
        let asked = self.asked(pool, blocks, Purpose::Promise);
        self.model.borrow_mut().pending.push(Pending {
            name: name.to_owned(),
            kind,
        });
        asked
    }

    /// The answer is there. Nothing else changes at the same time, so it is about the only one. No
    /// change takes space but by promising it.
    pub(super) fn end<T>(
        &self,
        pool: &Served,
        result: Result<T, PoolError>,
        asked: Asked,
    ) -> Result<Option<(T, Kind)>, String> {
        self.still_holds()?;
        if pool.status().state == PoolState::Offline {
            return Err(format!(
                "a change took the pool offline: {:?}",
                result.err()
            ));
        }
        let pending = self.model.borrow_mut().pending.pop();
        match (result, pending) {
            (Ok(output), Some(pending)) => Ok(Some((output, pending.kind))),
            (Err(PoolError::NoSpace), _) => {
                self.check_refusal(pool, asked)?;
                Ok(None)
            }
            (Err(error), Some(pending)) if self.change_may_be_told_to_wait(&error, asked.at) => {
                self.model.borrow_mut().pending.push(pending);
                self.reconcile(pool)?;
                Ok(None)
            }
            (Err(error), _) => Err(format!("a change failed: {error}")),
            (Ok(_), None) => Err("a change ended twice".to_owned()),
        }
    }

    /// Waits for a change, or gives up after a while, now and then.
    pub(super) async fn or_give_up<T>(&self, change: impl Future<Output = T>) -> Option<T> {
        let chance = &self.patience;
        if !self.options.latecomers || !chance.once_in(6) {
            return Some(change.await);
        }
        let time = Duration::from_micros(chance.below(1 << chance.below(14)));
        reactor::timeout(time, change).await.ok()
    }

    /// A change was given up: it happens as a whole, or not at all.
    pub(super) async fn find_out(&self, pool: &Served) -> Result<(), String> {
        self.still_holds()?;
        // Whatever has begun gets in line.
        reactor::sleep(Duration::from_micros(1)).await;
        // Changes are made one after the other, and this one changes nothing.
        let none = pool.change_attributes(VolumeId(0), |_| Ok::<_, Infallible>(Vec::new()));
        let none = none.await.map(|Ok(())| ());
        self.still_holds()?;
        match none {
            Err(PoolError::NotFound(_)) => self.reconcile(pool),
            other => Err(format!("after a change that was given up: {other:?}")),
        }
    }

    /// Waits until no client writes to the volume, and keeps them off it.
    pub(super) async fn reserve(&self, volume: u32) -> Result<(), String> {
        self.model.borrow_mut().reserved.insert(volume);
        let busy = || {
            let model = self.model.borrow();
            model
                .volumes
                .get(&volume)
                .is_some_and(|image| !image.writes.is_empty() || image.is_being_read())
        };
        while busy() {
            reactor::sleep(Duration::from_micros(20)).await;
            self.still_holds()?;
        }
        Ok(())
    }

    /// A snapshot is gone, or about to be.
    pub(super) fn is_going(&self, id: u32) -> bool {
        let model = self.model.borrow();
        let deletes =
            |pending: &Pending| matches!(pending.kind, Kind::DeleteSnapshot(other) if other == id);
        !model.snapshots.contains_key(&id) || model.pending.iter().any(deletes)
    }

    pub(super) fn let_go(&self, volume: u32) {
        self.model.borrow_mut().reserved.remove(&volume);
    }

    /// Takes one of a volume, or of several of `all` at one instant.
    async fn snapshot(&self, pool: &Served, volume: u32, all: &[u32]) -> Result<(), String> {
        let name = self.fresh_name();
        let others = all.iter().filter(|other| **other != volume);
        let others = others.filter(|_| self.later.once_in(3));
        let volumes: Vec<u32> = std::iter::once(&volume).chain(others).copied().collect();
        let images: Option<Vec<(u32, Image)>> = {
            let model = self.model.borrow();
            let image = |id: &u32| Some((*id, model.volumes.get(id)?.copy()));
            volumes.iter().map(image).collect()
        };
        let images = images.ok_or("no such volume")?;
        let named = (0..).zip(&volumes);
        let named: Vec<(VolumeId, String)> = named
            .map(|(place, volume)| (VolumeId(*volume), one_of(&name, place)))
            .collect();
        let asked = self.begin(pool, &name, Kind::Snapshots(images));
        let Some(result) = self.or_give_up(pool.snapshot(&named)).await else {
            return self.find_out(pool).await;
        };
        if let Some((ids, Kind::Snapshots(images))) = self.end(pool, result, asked)? {
            let images = ids.iter().zip(images).map(|(id, (_, image))| (id.0, image));
            self.model.borrow_mut().snapshots.extend(images);
        }
        Ok(())
    }

    async fn clone_snapshot(&self, pool: &Served, snapshot: u32) -> Result<(), String> {
        let name = self.fresh_name();
        let image = self
            .model
            .borrow()
            .snapshots
            .get(&snapshot)
            .map(Image::copy);
        let image = image.ok_or("no such snapshot")?;
        let asked = self.begin(pool, &name, Kind::Volume { image });
        let change = pool.clone_snapshot(SnapshotId(snapshot), &name);
        let Some(result) = self.or_give_up(change).await else {
            return self.find_out(pool).await;
        };
        if let Some((id, Kind::Volume { image })) = self.end(pool, result, asked)? {
            self.model.borrow_mut().volumes.insert(id.0, image);
        }
        Ok(())
    }

    async fn create_volume(&self, pool: &Served) -> Result<(), String> {
        let name = self.fresh_name();
        let blocks = 20 + self.random.below(300);
        let mut asked = self.begin(
            pool,
            &name,
            Kind::Volume {
                image: Image::zeroes(blocks),
            },
        );
        let options = VolumeOptions {
            bytes: blocks * BLOCK as u64,
            attributes: vec![1, 2, 3],
            reserved: self.extra.once_in(3),
        };
        let reserved = options.reserved;
        asked.blocks = if reserved { blocks } else { 0 };
        let change = pool.create_volume(&name, options);
        let Some(result) = self.or_give_up(change).await else {
            self.find_out(pool).await?;
            let made = pool.volumes().into_iter().find(|found| found.name == name);
            let made = made.filter(|_| reserved).map(|found| found.id.0);
            self.model.borrow_mut().reserving.extend(made);
            return Ok(());
        };
        if let Some((id, Kind::Volume { image })) = self.end(pool, result, asked)? {
            let mut model = self.model.borrow_mut();
            model.volumes.insert(id.0, image);
            if reserved {
                model.reserving.insert(id.0);
            }
        }
        Ok(())
    }

    async fn rollback(&self, pool: &Served, volume: u32, snapshot: u32) -> Result<(), String> {
        let image = {
            let model = self.model.borrow();
            let image = model
                .snapshots
                .get(&snapshot)
                .map(Image::copy)
                .unwrap_or_default();
            let size = model.volumes.get(&volume).map(|found| found.size);
            if size.is_none_or(|size| size != image.size && !self.later.once_in(2)) {
                return Ok(());
            }
            image
        };
        self.reserve(volume).await?;
        let asked = self.begin(pool, "", Kind::Rollback { volume, image });
        let change = pool.rollback(VolumeId(volume), SnapshotId(snapshot));
        let Some(result) = self.or_give_up(change).await else {
            return self.find_out(pool).await;
        };
        if let Some(((), Kind::Rollback { image, .. })) = self.end(pool, result, asked)? {
            let mut model = self.model.borrow_mut();
            if let Some(found) = model.volumes.get_mut(&volume) {
                found.become_like(image);
            }
        }
        self.let_go(volume);
        Ok(())
    }

    async fn delete_snapshot(&self, pool: &Served, id: u32) -> Result<(), String> {
        let asked = self.begin(pool, "", Kind::DeleteSnapshot(id));
        let Some(result) = self.or_give_up(pool.delete_snapshot(SnapshotId(id))).await else {
            return self.find_out(pool).await;
        };
        if self.end(pool, result, asked)?.is_some() {
            self.model.borrow_mut().snapshots.remove(&id);
        }
        Ok(())
    }

    async fn delete_volume(&self, pool: &Served, id: u32) -> Result<(), String> {
        self.reserve(id).await?;
        let asked = self.begin(pool, "", Kind::DeleteVolume(id));
        let Some(result) = self.or_give_up(pool.delete_volume(VolumeId(id))).await else {
            return self.find_out(pool).await;
        };
        if self.end(pool, result, asked)?.is_some() {
            self.model.borrow_mut().volumes.remove(&id);
        }
        self.let_go(id);
        Ok(())
    }

    async fn resize(&self, pool: &Served, id: u32) -> Result<(), String> {
        let blocks = 20 + self.random.below(400);
        self.reserve(id).await?;
        let asked = self.begin(pool, "", Kind::Resize { volume: id, blocks });
        let change = pool.resize_volume(VolumeId(id), blocks * BLOCK as u64, true);
        let Some(result) = self.or_give_up(change).await else {
            self.find_out(pool).await?;
            self.was_fuller(pool);
            return Ok(());
        };
        self.was_fuller(pool);
        if self.end(pool, result, asked)?.is_some() {
            self.resized(id, blocks);
        }
        self.let_go(id);
        Ok(())
    }

    fn resized(&self, id: u32, blocks: u64) {
        if let Some(image) = self.model.borrow_mut().volumes.get_mut(&id) {
            image.resize(blocks);
        }
    }

    /// After a crash, or when nobody has waited for it: a change that was under way has happened,
    /// or has not.
    pub(super) fn reconcile(&self, pool: &Served) -> Result<(), String> {
        let pending = std::mem::take(&mut self.model.borrow_mut().pending);
        self.model.borrow_mut().reserved.clear();
        let (volumes, snapshots) = (pool.volumes(), pool.snapshots());
        for Pending { name, kind } in pending {
            let mut model = self.model.borrow_mut();
            match kind {
                Kind::Snapshots(images) => {
                    model.snapshots.extend(taken(&name, images, &snapshots)?);
                }
                Kind::Volume { image } => {
                    if let Some(found) = volumes.iter().find(|found| found.name == name) {
                        model.volumes.insert(found.id.0, image);
                    }
                }
                Kind::DeleteVolume(id) => {
                    if !volumes.iter().any(|found| found.id.0 == id) {
                        model.volumes.remove(&id);
                    }
                }
                Kind::DeleteSnapshot(id) => {
                    if !snapshots.iter().any(|found| found.id.0 == id) {
                        model.snapshots.remove(&id);
                    }
                }
                Kind::Rollback { volume, image } => {
                    let size = volumes.iter().find(|found| found.id.0 == volume);
                    let size = size.map_or(0, |found| found.bytes / BLOCK as u64);
                    match model.volumes.get_mut(&volume) {
                        Some(found) if found.size == image.size => found.widen(&image),
                        Some(found) if size == image.size => found.become_like(image),
                        _ => {}
                    }
                }
                Kind::Resize { volume, blocks } => {
                    drop(model);
                    let found = volumes.iter().find(|found| found.id.0 == volume);
                    if found.is_some_and(|found| found.bytes == blocks * BLOCK as u64) {
                        self.resized(volume, blocks);
                    }
                }
                Kind::Rename { volume, former } => {
                    let found = volumes.iter().find(|found| found.id.0 == volume);
                    let may_be = |called: &String| *called == former || *called == name;
                    let called = found.map(|found| found.name.clone()).filter(may_be);
                    let called = called.ok_or("a volume that was renamed has neither name")?;
                    model.names.insert(volume, called);
                }
                Kind::Reserve { volume, .. } => {
                    let found = volumes.iter().find(|found| found.id.0 == volume);
                    if found.is_some_and(|found| found.reserved) {
                        model.reserving.insert(volume);
                    }
                }
            }
        }
        self.check_names(&volumes)?;
        let model = self.model.borrow();
        if volumes.len() != model.volumes.len() || snapshots.len() != model.snapshots.len() {
            return Err(format!(
                "{} volumes and {} snapshots, not {} and {}",
                volumes.len(),
                snapshots.len(),
                model.volumes.len(),
                model.snapshots.len()
            ));
        }
        Ok(())
    }
}

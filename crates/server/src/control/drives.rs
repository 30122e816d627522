//! Drives: open, show, close.

pub(super) mod administrators;
pub(super) mod namespaces;
pub(super) mod specs;
pub(super) mod wiped;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use api::{Administration, Drive, DriveSpec, ErrorBody, ErrorCode, Name, ObjectState, Severity};
use node::DriveFacts;

use crate::control::drives::specs::{
    check, data_path_spec, description, existing, in_blocks, is_what, to_be_made,
};
use crate::control::pools::pool_of;
use crate::control::words::{not_found, refused};
use crate::control::{Control, DriveEntry, Objects};
use crate::state::{DriveRecord, Kind};

/// How long drives in use are tried for, all together, when a node starts.
const START_PATIENCE: Duration = Duration::from_secs(10);

const RETRY_PERIOD: Duration = Duration::from_millis(50);

impl Control {
    /// Every drive, by name.
    pub async fn drives(&self) -> Vec<Drive> {
        let objects = self.look().await;
        let users = users(&objects);
        let show = |(name, entry)| {
            let pool = pool_of(&objects, name);
            self.shown(name, entry, users.get(name).copied(), pool)
        };
        objects.drives.iter().map(show).collect()
    }

    /// One drive.
    pub async fn drive(&self, name: &Name) -> Result<Drive, ErrorBody> {
        let objects = self.look().await;
        let entry = objects
            .drives
            .get(name)
            .ok_or_else(|| not_found("drive", name))?;
        let (volume, pool) = (user(&objects, name), pool_of(&objects, name));
        Ok(self.shown(name, entry, volume, pool))
    }

    /// Makes the drive `name` be what `spec` says. An offline drive is tried again.
    pub async fn add_drive(&self, name: &Name, spec: DriveSpec) -> Result<Drive, ErrorBody> {
        check(&spec)?;
        let spec = in_blocks(spec);
        let mut objects = self.objects.change().await;
        if let Some(entry) = objects.drives.get(name) {
            if !is_what(&entry.record.spec, &spec) {
                return Err(differs(name, &entry.record.spec));
            }
            if entry.offline.is_some() {
                self.open_again(&mut objects, name).await?;
            }
        } else {
            self.open_new(&mut objects, name, spec).await?;
        }
        let entry = objects
            .drives
            .get(name)
            .ok_or_else(|| not_found("drive", name))?;
        let (volume, pool) = (user(&objects, name), pool_of(&objects, name));
        Ok(self.shown(name, entry, volume, pool))
    }

    /// Closes and forgets a drive that nothing uses.
    pub async fn remove_drive(&self, name: &Name) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        self.look_at_pools(&mut objects).await;
        let entry = objects
            .drives
            .get(name)
            .ok_or_else(|| not_found("drive", name))?;
        if let Some(volume) = user(&objects, name) {
            let message = format!("drive {name} is used by volume {volume}: delete that first");
            return Err(ErrorBody::new(ErrorCode::InUse, message));
        }
        if let Some(host) = entry.record.administrators.first() {
            let message = format!("drive {name} is administered by host {host}: revoke that first");
            return Err(ErrorBody::new(ErrorCode::InUse, message));
        }
        let open = entry.offline.is_none();
        // One that is not there serves its pool as little under this name as under none.
        if let Some(pool) = pool_of(&objects, name).filter(|_| open) {
            let message = format!(
                "drive {name} is used by pool {pool}: remove it from that, or export the pool"
            );
            return Err(ErrorBody::new(ErrorCode::InUse, message));
        }
        self.forget(Kind::Drive, name).await?;
        objects.drives.remove(name);
        self.faults.clear(name);
        self.looks.forget(name);
        if open {
            self.node
                .close_drive(name.as_str())
                .await
                .map_err(|error| refused(&error))?;
        }
        self.events
            .record(Severity::Info, &format!("drive/{name}"), "removed");
        Ok(())
    }

    async fn open_new(
        &self,
        objects: &mut Objects,
        name: &Name,
        spec: DriveSpec,
    ) -> Result<(), ErrorBody> {
        let made = to_be_made(&spec);
        let opened = self
            .node
            .open_drive(name.as_str(), data_path_spec(&spec))
            .await;
        let record = remembered(spec, opened.map_err(|error| refused(&error))?);
        if let Err(error) = self.remember(Kind::Drive, name, record.clone()).await {
            // Opened a moment ago under this lock: it is there to be closed, and what was made for
            // it to be removed.
            let _ = self.node.close_drive(name.as_str()).await;
            if let Some(path) = made {
                let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
            }
            return Err(error);
        }
        let message = format!("added: {}", description(&record.spec));
        self.events
            .record(Severity::Info, &format!("drive/{name}"), &message);
        objects.drives.insert(
            name.clone(),
            DriveEntry {
                record,
                offline: None,
            },
        );
        Ok(())
    }

    /// Opens a drive that was offline, and puts its volume back on it.
    pub(super) async fn open_again(
        &self,
        objects: &mut Objects,
        name: &Name,
    ) -> Result<(), ErrorBody> {
        let Some(entry) = objects.drives.get_mut(name) else {
            return Err(not_found("drive", name));
        };
        let record = self
            .reopen(name, &entry.record, Instant::now())
            .await
            .map_err(|reason| {
                ErrorBody::new(
                    ErrorCode::NotReady,
                    format!("drive {name} is still offline: {reason}"),
                )
            })?;
        self.remember(Kind::Drive, name, record.clone()).await?;
        *entry = DriveEntry {
            record,
            offline: None,
        };
        self.faults.clear(name);
        self.events
            .record(Severity::Info, &format!("drive/{name}"), "online again");
        self.reconnect_volumes(objects, name).await;
        self.open_offline_pools(objects).await;
        self.restore_administrators(objects, name).await;
        Ok(())
    }

    /// Opens a drive that was there before: never makes one anew, never takes a smaller one. One
    /// in use is tried until `deadline`: the kernel may still be closing the files of a node that
    /// was killed a moment ago.
    async fn reopen(
        &self,
        name: &Name,
        record: &DriveRecord,
        deadline: Instant,
    ) -> Result<DriveRecord, String> {
        let facts = loop {
            let spec = existing(data_path_spec(&record.spec));
            match self.node.open_drive(name.as_str(), spec).await {
                Ok(facts) => break facts,
                Err(error) if error.is_in_use() && Instant::now() < deadline => {
                    tokio::time::sleep(RETRY_PERIOD).await;
                }
                Err(error) => return Err(error.to_string()),
            }
        };
        // Hosts resize an emulated drive by its namespaces; it keeps by itself what it has.
        let resizable = matches!(record.spec, DriveSpec::Emulated { .. });
        if !resizable && facts.capacity_bytes < record.capacity_bytes {
            // Opened a moment ago under this lock: it is there to be closed.
            let _ = self.node.close_drive(name.as_str()).await;
            return Err(format!(
                "it has {} bytes and had {}",
                facts.capacity_bytes, record.capacity_bytes
            ));
        }
        Ok(DriveRecord {
            capacity_bytes: facts.capacity_bytes,
            block_bytes: facts.block_bytes,
            ..record.clone()
        })
    }

    /// Opens every remembered drive; one that cannot be opened stays, offline.
    pub(super) async fn restore_drives(&self, drives: BTreeMap<Name, DriveRecord>) {
        let mut objects = self.objects.change().await;
        let deadline = Instant::now() + START_PATIENCE;
        for (name, record) in drives {
            let entry = match self.reopen(&name, &record, deadline).await {
                Ok(record) => DriveEntry {
                    record,
                    offline: None,
                },
                Err(reason) => {
                    let message = format!("offline: {reason}");
                    self.events
                        .record(Severity::Error, &format!("drive/{name}"), &message);
                    DriveEntry {
                        record,
                        offline: Some(reason),
                    }
                }
            };
            objects.drives.insert(name, entry);
        }
    }

    /// Takes in what hosts made of the drives they administer.
    pub(super) fn note_resized(&self, objects: &mut Objects) {
        for (name, facts) in self.faults.take_resized() {
            let found = objects.drives.iter_mut();
            if let Some((_, entry)) = found.into_iter().find(|(drive, _)| drive.as_str() == name) {
                entry.record.capacity_bytes = facts.capacity_bytes;
                entry.record.block_bytes = facts.block_bytes;
            }
        }
    }

    fn shown(
        &self,
        name: &Name,
        entry: &DriveEntry,
        volume: Option<&Name>,
        pool: Option<&Name>,
    ) -> Drive {
        let administrators = &entry.record.administrators;
        Drive {
            name: name.clone(),
            spec: entry.record.spec.clone(),
            state: if entry.offline.is_none() {
                ObjectState::Online
            } else {
                ObjectState::Offline
            },
            reason: entry.offline.clone(),
            capacity_bytes: entry.record.capacity_bytes,
            block_bytes: entry.record.block_bytes,
            persistent: match &entry.record.spec {
                DriveSpec::Path { .. } => true,
                DriveSpec::Emulated { directory, .. } => directory.is_some(),
                DriveSpec::Memory { .. } | DriveSpec::Null { .. } => false,
            },
            volume: volume.cloned(),
            pool: pool.cloned(),
            administration: (!administrators.is_empty()).then(|| Administration {
                hosts: administrators.iter().cloned().collect(),
                nqn: self.administration_name(name),
            }),
        }
    }
}

/// Which volume uses each drive.
fn users(objects: &Objects) -> BTreeMap<&Name, &Name> {
    objects
        .volumes
        .iter()
        .filter_map(|(name, volume)| Some((volume.record.place.drive()?, name)))
        .collect()
}

pub(super) fn user<'a>(objects: &'a Objects, drive: &Name) -> Option<&'a Name> {
    let mut volumes = objects.volumes.iter();
    volumes
        .find(|(_, volume)| volume.record.place.drive() == Some(drive))
        .map(|(name, _)| name)
}

fn remembered(spec: DriveSpec, facts: DriveFacts) -> DriveRecord {
    DriveRecord {
        spec,
        capacity_bytes: facts.capacity_bytes,
        block_bytes: facts.block_bytes,
        administrators: BTreeSet::new(),
    }
}

fn differs(name: &Name, existing: &DriveSpec) -> ErrorBody {
    let message = format!("drive {name} exists and is {}", description(existing));
    ErrorBody::new(ErrorCode::AlreadyExists, message)
}

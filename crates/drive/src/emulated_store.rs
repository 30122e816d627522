//! Where an emulated drive's namespaces keep their data: [`Store`] and [`Directory`].

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use files::Access;
use serde::de::DeserializeOwned;
use ssd::{DeviceCounters, DeviceState};

use crate::emulated::EmulatedError;
use crate::open_error::OpenError;
use crate::{FileDrive, FileOptions, MemoryDrive};

/// Namespaces, controllers and counters, as JSON.
const STATE_FILE: &str = "state.json";
/// Counters alone, kept often while there is work.
const COUNTERS_FILE: &str = "counters.json";

/// The directory of one emulated drive.
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Makes the directory where it is missing, for its owner alone: data is in it.
    pub(crate) fn open(path: PathBuf) -> Result<Directory, OpenError> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&path);
        made.map_err(|error| OpenError::from_io(&path, error))?;
        Ok(Directory { path })
    }

    /// What was kept; `None` in a new directory.
    pub(crate) fn load(&self) -> Result<Option<DeviceState>, EmulatedError> {
        self.read(STATE_FILE)
    }

    /// Counters kept since; `None` when there are none.
    pub(crate) fn load_counters(&self) -> Result<Option<DeviceCounters>, EmulatedError> {
        self.read(COUNTERS_FILE)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, EmulatedError> {
        let path = self.path.join(name);
        match std::fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(found) => Ok(Some(found)),
                Err(error) => Err(refused(path, &error.into())),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(path, &error)),
        }
    }

    /// Keeps `state`, whole or not at all, through a power loss of this machine.
    pub(crate) fn save(&self, state: &DeviceState) -> Result<(), EmulatedError> {
        let path = self.path.join(STATE_FILE);
        let text = serde_json::to_vec(state).map_err(io::Error::from);
        let written = text.and_then(|text| files::replace(&path, &text, Access::AsBefore));
        written.map_err(|error| refused(path, &error))
    }

    /// A job for a helper thread that keeps `counters`, whole or not at all, through a kill of
    /// this process.
    pub(crate) fn save_counters(
        &self,
        counters: &DeviceCounters,
    ) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let path = self.path.join(COUNTERS_FILE);
        let text = serde_json::to_vec(counters);
        move || files::replace_cached(&path, &text?, Access::AsBefore)
    }

    /// Removes the data of a namespace.
    pub(crate) fn remove(&self, nsid: u32) -> Result<(), OpenError> {
        let path = self.namespace(nsid);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(OpenError::from_io(&path, error))
            }
            _ => Ok(()),
        }
    }

    fn namespace(&self, nsid: u32) -> PathBuf {
        self.path.join(format!("namespace-{nsid}.img"))
    }
}

fn refused(path: PathBuf, error: &io::Error) -> EmulatedError {
    let reason = error.to_string();
    EmulatedError::State { path, reason }
}

/// The data of one namespace.
pub(crate) enum Store {
    Memory(MemoryDrive),
    File(FileDrive),
}

/// Calls a method of whichever store it is.
macro_rules! dispatch {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            Store::Memory($store) => $call,
            Store::File($store) => $call,
        }
    };
}

impl Store {
    pub(crate) async fn open(
        directory: Option<&Directory>,
        nsid: u32,
        geometry: Geometry,
    ) -> Result<Store, OpenError> {
        let Some(directory) = directory else {
            return Ok(Store::Memory(MemoryDrive::new(geometry)));
        };
        let options = FileOptions {
            block_bytes: geometry.block_bytes,
            create_bytes: Some(geometry.capacity_bytes()),
        };
        FileDrive::open(directory.namespace(nsid), &options)
            .await
            .map(Store::File)
    }

    pub(crate) fn geometry(&self) -> Geometry {
        dispatch!(self, store => store.geometry())
    }

    pub(crate) async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        dispatch!(self, store => store.read(start, buffer).await)
    }

    pub(crate) async fn write(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        dispatch!(self, store => store.write(start, buffer, Durability::Cached).await)
    }

    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        dispatch!(self, store => store.flush().await)
    }

    pub(crate) async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        dispatch!(self, store => store.deallocate(range).await)
    }

    pub(crate) async fn write_zeroes(&self, range: BlockRange) -> Result<(), IoError> {
        dispatch!(self, store => store.write_zeroes(range, Durability::Cached).await)
    }
}

//! [`State`]: what a node must remember, in a redb database under the state directory.
//!
//! One table a kind of object, from name to a JSON record. A change is durable before its request
//! is answered, so the node comes back with everything it acknowledged, after kill -9 as well.

mod audit;
mod backend;
mod change;
mod path;
mod pools;
mod read;
mod seal;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::{
    BlockSize, DriveSpec, Grant, HostKeySpec, HostSpec, Limits, Name, SettingsChange, TlsKeySpec,
};
use node::AnaGroupId;
use redb::TableDefinition;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

pub use self::path::{PathRecord, Paths, state_of};
use self::read::{all_in, one_in};
use self::seal::Seal;
pub use self::seal::{StateKey, StateKeys};
use self::store::{Found, Store};
use crate::private;
use crate::replications::ReplicationRecord;
use crate::schedules::ScheduleRecord;
use crate::tokens::TokenRecord;

/// Raised when a record's meaning changes; a newer file is refused rather than misread.
const FORMAT: u32 = 2;

/// Of a state whose records are in the clear, which earlier versions read as well.
const FORMAT_CLEAR: u32 = 1;

/// The name of the database in the state directory.
pub const FILE_NAME: &str = "state.redb";

const META: Table = TableDefinition::new("meta");
const IDENTITY: &str = "identity";
const SETTINGS: &str = "settings";
const PATHS: &str = "paths";
const PROBE: &str = "probe";

/// How much is written to find out whether there is room again: what most changes take.
const PROBE_BYTES: usize = 16 << 10;

pub(crate) type Table = TableDefinition<'static, &'static str, &'static [u8]>;

/// Which table an object is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`DriveRecord`]s.
    Drive,
    /// [`VolumeRecord`]s of volumes that take a drive whole; those of pools are on the pools.
    Volume,
    /// [`HostSpec`]s.
    Host,
    /// [`HostKeySpec`]s, by the name of the host.
    HostKey,
    /// [`TlsKeySpec`]s, by the name of the host.
    TlsKey,
    /// [`TokenRecord`]s.
    Token,
    /// [`Limits`] of tenants.
    Tenant,
    /// [`Grant`]s of tenants, by pool.
    Grants,
    /// [`ScheduleRecord`]s.
    Schedule,
    /// [`ReplicationRecord`]s.
    Replication,
}

impl Kind {
    fn table(self) -> Table {
        TableDefinition::new(match self {
            Kind::Drive => "drives",
            Kind::Volume => "volumes",
            Kind::Host => "hosts",
            Kind::HostKey => "host_keys",
            Kind::TlsKey => "tls_keys",
            Kind::Token => "tokens",
            Kind::Tenant => "tenants",
            Kind::Grants => "grants",
            Kind::Schedule => "schedules",
            Kind::Replication => "replications",
        })
    }
}

/// Who the node is, from its first start on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of every record in the file.
    pub format: u32,
    /// The node's name, part of its volumes' NQNs.
    pub name: Name,
    /// The node's identity.
    pub uuid: Uuid,
}

/// A drive to open at every start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveRecord {
    /// What it is made of.
    pub spec: DriveSpec,
    /// Capacity when it was last open.
    pub capacity_bytes: u64,
    /// Logical block size when it was last open.
    pub block_bytes: u32,
    /// Names of hosts that manage its namespaces.
    #[serde(default)]
    pub administrators: BTreeSet<Name>,
}

/// What a volume stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A drive that it takes whole.
    Drive(Name),
    /// A pool that holds it, under this number.
    Pool {
        /// The pool.
        name: Name,
        /// Which of its volumes.
        volume: u32,
    },
}

impl Place {
    /// The drive, if it takes one whole.
    pub fn drive(&self) -> Option<&Name> {
        match self {
            Place::Drive(drive) => Some(drive),
            Place::Pool { .. } => None,
        }
    }

    /// The pool, if one holds it.
    pub fn pool(&self) -> Option<&Name> {
        match self {
            Place::Drive(_) => None,
            Place::Pool { name, .. } => Some(name),
        }
    }
}

/// A pool to open at every start. What is in it, it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRecord {
    /// Its identity, in hexadecimal.
    pub id: String,
    /// What its members were called when it was last open, by their identities: for people, when
    /// one of them is missing.
    pub members: BTreeMap<String, Name>,
    /// Its volumes as they were when they were last served: hosts find these, not ready, while the
    /// pool is not open. What is on the drives counts once it is. Each has a record of its own.
    #[serde(default, skip_serializing)]
    pub volumes: Arc<BTreeMap<Name, VolumeRecord>>,
    /// When it was checked.
    #[serde(default)]
    pub scrub: ScrubRecord,
    /// Identities of drives that carry it and that an import left out: they stay out of it until
    /// they are added again, which gives them others.
    #[serde(default)]
    pub left_out: BTreeSet<String>,
}

impl PoolRecord {
    /// ANA group of its volumes.
    pub fn group(&self) -> AnaGroupId {
        let identity = u128::from_str_radix(&self.id, 16);
        identity.map_or(AnaGroupId::POOLLESS, |identity| {
            AnaGroupId::of_pool(identity.to_be_bytes())
        })
    }
}

/// When a pool was checked, in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRecord {
    /// When everything in it had been checked for the last time; nothing: never on this node.
    pub ended: Option<u64>,
    /// From when the time to the next scrub counts.
    pub since: u64,
    /// One has begun that has not ended; where none runs, it ended with the node.
    #[serde(default)]
    pub under_way: bool,
    /// Blocks of 4 KiB that it found lost, of those volumes that have lost some, by their numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<u32, u64>,
}

/// A volume to serve, with the identity hosts know it by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// What it stands on.
    #[serde(flatten)]
    pub place: Place,
    /// Logical block size as hosts see it.
    pub block_bytes: BlockSize,
    /// Names of allowed hosts, or `any`.
    pub hosts: Vec<Name>,
    /// The subsystem it was asked to join.
    pub subsystem: Option<Name>,
    /// NVMe Qualified Name of its subsystem.
    pub nqn: String,
    /// Namespace identifier.
    pub nsid: u32,
    /// Namespace identity.
    pub uuid: Uuid,
    /// Capacity when it was last online.
    pub capacity_bytes: u64,
    /// The tenant it belongs to.
    #[serde(default)]
    pub tenant: Option<Name>,
    /// The snapshot of its pool that it began as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Name>,
    /// What it may do, and what it is promised.
    #[serde(default, skip_serializing_if = "Limits::is_unlimited")]
    pub limits: Limits,
    /// Which of its snapshots are copies, of which others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyRecord>,
    /// The volume on another node that it is the replica of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_of: Option<Uuid>,
}

/// A snapshot by its number in the pool, and the identity of the one that it is a copy of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRecord(pub u32, pub Uuid);

/// Everything remembered.
#[derive(Debug, Default)]
pub struct Remembered {
    /// Drives by name.
    pub drives: BTreeMap<Name, DriveRecord>,
    /// Volumes by name.
    pub volumes: BTreeMap<Name, VolumeRecord>,
    /// Pools by name.
    pub pools: BTreeMap<Name, PoolRecord>,
    /// Hosts by name.
    pub hosts: BTreeMap<Name, HostSpec>,
    /// Keys by the name of their host.
    pub host_keys: BTreeMap<Name, HostKeySpec>,
    /// TLS keys by the name of their host.
    pub tls_keys: BTreeMap<Name, TlsKeySpec>,
    /// Tokens by name.
    pub tokens: BTreeMap<Name, TokenRecord>,
    /// Limits by the name of the tenant.
    pub tenants: BTreeMap<Name, Limits>,
    /// What tenants may make of pools, by the names of both.
    pub grants: BTreeMap<Name, BTreeMap<Name, Grant>>,
    /// Schedules by name.
    pub schedules: BTreeMap<Name, ScheduleRecord>,
    /// Replications by name.
    pub replications: BTreeMap<Name, ReplicationRecord>,
}

impl Remembered {
    /// Volumes that take drives whole, and those that pools had when they were last open.
    pub fn all_volumes(&self) -> impl Iterator<Item = &VolumeRecord> {
        let pools = self.pools.values();
        let in_pools = pools.flat_map(|pool| pool.volumes.values());
        self.volumes.values().chain(in_pools)
    }
}

/// Why the state cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    /// The directory cannot be made or opened.
    #[error("state directory {path}: {source}", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file cannot be made, opened or written.
    #[error("state file {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nothing is left in the file.
    #[error("state file {path} is empty: the node's identity, drives, hosts and tokens are gone \
             from it; put a copy of it back, or remove it to start as a new node",
        path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Another node runs on it.
    #[error("state directory {path} is in use by another node", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A newer version of the program wrote it.
    #[error("state file {path} has format {found}; this version reads up to {FORMAT}",
        path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format it has.
        found: u32,
    },
    /// A record does not say what it should.
    #[error("state record {name:?}: {source}")]
    Record {
        /// The record's name.
        name: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A key for the state cannot be used.
    #[error("{setting} {path}: {problem}", path = path.display())]
    Key {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The state is encrypted, and no key fits.
    #[error("state file {path} is encrypted, {}; allowed: the key that it was encrypted with, in \
             state_key_file, or in state_key_file_previous beside a new one",
        if *given { "and not with the key that was given" } else { "and no key was given" },
        path = path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// A key was given.
        given: bool,
    },
    /// A record does not decrypt.
    #[error("state record {name:?} does not decrypt: it was changed, or is of another state")]
    Sealed {
        /// The record's name.
        name: String,
    },
    /// Nothing can be encrypted.
    #[error("the system has no random bytes")]
    Random,
    /// The database failed.
    #[error("state file: {0}")]
    Database(#[from] redb::Error),
}

/// The open database. Methods block on the disk.
#[derive(Debug)]
pub struct State {
    store: Store,
    new: bool,
}

impl State {
    /// Opens a state that has no key.
    pub fn open(directory: &Path) -> Result<State, StateError> {
        State::open_with(directory, StateKeys::default())
    }

    /// Opens the state under `directory`, which is made, with its database, if it is missing. A
    /// state that cannot be written is opened to be read. One that is not encrypted as `keys` say
    /// is written anew.
    pub fn open_with(directory: &Path, keys: StateKeys) -> Result<State, StateError> {
        private::make_directory(directory).map_err(|source| StateError::Directory {
            path: directory.to_owned(),
            source,
        })?;
        let path = directory.join(FILE_NAME);
        let (store, found) = Store::open(&path, keys)?;
        let new = found == Found::Made;
        let state = State { store, new };
        let format = state
            .identity_record()?
            .map_or(FORMAT_CLEAR, |record| record.format);
        if format > FORMAT {
            return Err(StateError::Newer {
                path,
                found: format,
            });
        }
        Ok(state)
    }

    /// Whether its records are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.store.seal().is_closed()
    }

    /// Whether there was no state before this was opened.
    pub fn is_new(&self) -> bool {
        self.new
    }

    /// Why changes are refused, if they are.
    pub fn problem(&self) -> Option<String> {
        self.store.problem()
    }

    /// The same where a change has waited for the disk for too long. Never blocks.
    pub fn silence(&self) -> Option<&'static str> {
        self.store.silence()
    }

    /// Tries whether changes can be made, which shows in [`State::problem`].
    pub fn probe(&self) -> Result<(), StateError> {
        let filling = vec![0; PROBE_BYTES];
        self.store
            .write(|change| change.put(META, PROBE, &filling))?;
        self.store.write(|change| change.remove(META, PROBE))
    }

    /// The node's identity: remembered, or made now, named `name`.
    pub fn identity(&self, name: impl FnOnce() -> Name) -> Result<Identity, StateError> {
        if let Some(identity) = self.identity_record()? {
            return Ok(identity);
        }
        let identity = Identity {
            format: format_of(self.store.seal()),
            name: name(),
            uuid: Uuid::new_v4(),
        };
        self.put_in(META, [(IDENTITY, &identity)])?;
        Ok(identity)
    }

    /// The settings that were changed while the node ran, and to what.
    pub fn settings(&self) -> Result<SettingsChange, StateError> {
        let record = self.one_in(META, SETTINGS)?;
        Ok(record.unwrap_or_default())
    }

    /// Remembers which settings were changed; durable when it returns.
    pub fn put_settings(&self, changed: &SettingsChange) -> Result<(), StateError> {
        self.put_in(META, [(SETTINGS, changed)])
    }

    /// What operators made of ports, by number.
    pub fn paths(&self) -> Result<BTreeMap<u16, PathRecord>, StateError> {
        let record = self.one_in(META, PATHS)?;
        Ok(record.unwrap_or_default())
    }

    /// Remembers what operators made of ports; durable when it returns.
    pub fn put_paths(&self, paths: &BTreeMap<u16, PathRecord>) -> Result<(), StateError> {
        self.put_in(META, [(PATHS, paths)])
    }

    /// Everything remembered.
    pub fn load(&self) -> Result<Remembered, StateError> {
        Ok(Remembered {
            drives: self.all(Kind::Drive)?,
            volumes: self.all(Kind::Volume)?,
            pools: self.pools()?,
            hosts: self.all(Kind::Host)?,
            host_keys: self.all(Kind::HostKey)?,
            tls_keys: self.all(Kind::TlsKey)?,
            tokens: self.all(Kind::Token)?,
            tenants: self.all(Kind::Tenant)?,
            grants: self.all(Kind::Grants)?,
            schedules: self.all(Kind::Schedule)?,
            replications: self.all(Kind::Replication)?,
        })
    }

    /// Remembers `record` under `name`; durable when it returns.
    pub fn put(&self, kind: Kind, name: &Name, record: &impl Serialize) -> Result<(), StateError> {
        self.put_in(kind.table(), [(name.as_str(), record)])
    }

    /// Remembers several records, all or none; durable when it returns.
    pub fn put_all<'a, T: Serialize + 'a>(
        &self,
        kind: Kind,
        records: impl IntoIterator<Item = (&'a Name, &'a T)>,
    ) -> Result<(), StateError> {
        let named = records
            .into_iter()
            .map(|(name, record)| (name.as_str(), record));
        self.put_in(kind.table(), named)
    }

    /// Forgets `name`; durable when it returns.
    pub fn remove(&self, kind: Kind, name: &Name) -> Result<(), StateError> {
        self.remove_in(kind.table(), name.as_str())
    }

    pub(crate) fn remove_in(&self, table: Table, name: &str) -> Result<(), StateError> {
        self.store.write(|change| change.remove(table, name))
    }

    fn identity_record(&self) -> Result<Option<Identity>, StateError> {
        self.one_in(META, IDENTITY)
    }

    pub(crate) fn one_in<T: DeserializeOwned>(
        &self,
        table: Table,
        name: &str,
    ) -> Result<Option<T>, StateError> {
        let seal = self.store.seal();
        let read = |database: &_| one_in((database, seal), table, name);
        self.store.read(read)
    }

    pub(crate) fn put_in<'a, T: Serialize + 'a>(
        &self,
        table: Table,
        records: impl IntoIterator<Item = (&'a str, &'a T)>,
    ) -> Result<(), StateError> {
        let records = records.into_iter();
        let records = records.map(|(name, record)| Ok((name, encoded(name, record)?)));
        let records: Vec<_> = records.collect::<Result<_, StateError>>()?;
        self.store.write(|change| {
            let mut records = records.iter();
            records.try_for_each(|(name, record)| change.put(table, name, record))
        })
    }

    fn all<T: DeserializeOwned>(&self, kind: Kind) -> Result<BTreeMap<Name, T>, StateError> {
        self.all_in(kind.table())
    }

    pub(crate) fn all_in<N, T>(&self, table: Table) -> Result<BTreeMap<N, T>, StateError>
    where
        N: DeserializeOwned + Ord,
        T: DeserializeOwned,
    {
        let seal = self.store.seal();
        self.store.read(|database| all_in((database, seal), table))
    }
}

/// A record as it is written.
fn encoded(name: &str, record: &impl Serialize) -> Result<Vec<u8>, StateError> {
    serde_json::to_vec(record).map_err(|source| StateError::Record {
        name: name.to_owned(),
        source,
    })
}

/// The format of a state that is written so.
fn format_of(seal: &Seal) -> u32 {
    match seal.is_closed() {
        true => FORMAT,
        false => FORMAT_CLEAR,
    }
}

#[cfg(test)]
mod tests;

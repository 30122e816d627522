//! Pools in the node's state: a record for each, and one for each volume of a pool. So a change of
//! a volume costs the same however many others its pool has.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Name;
use redb::TableDefinition;

use super::{PoolRecord, State, StateError, Table, VolumeRecord, encoded};

const POOLS: Table = TableDefinition::new("pools");

/// Volumes by their pool and name, as [`key`] puts them together.
const VOLUMES: Table = TableDefinition::new("pool_volumes");

/// Comes between the two names, and is in neither.
const BETWEEN: char = '/';

impl State {
    /// Remembers a pool; durable when it returns. Where it is certain what is remembered `before`,
    /// only volumes that differ are written.
    pub fn put_pool(
        &self,
        name: &Name,
        before: Option<&PoolRecord>,
        now: &PoolRecord,
    ) -> Result<(), StateError> {
        let pool = encoded(name.as_str(), now)?;
        let known = |volume| before.and_then(|before| before.volumes.get(volume));
        let changed = now.volumes.iter();
        let changed = changed.filter(|(volume, record)| known(*volume) != Some(*record));
        let changed = changed.map(|(volume, record)| {
            Ok((
                key(name, volume.as_str()),
                encoded(volume.as_str(), record)?,
            ))
        });
        let changed: Vec<_> = changed.collect::<Result<_, StateError>>()?;
        let gone = before.map(|before| {
            let volumes = before.volumes.keys();
            let gone = volumes.filter(|volume| !now.volumes.contains_key(*volume));
            gone.map(|volume| key(name, volume.as_str())).collect()
        });
        self.store.write(|change| {
            change.put(POOLS, name.as_str(), &pool)?;
            let gone: Vec<String> = match &gone {
                Some(gone) => Vec::clone(gone),
                None => change.names_from(VOLUMES, &key(name, ""))?,
            };
            for volume in &gone {
                change.remove(VOLUMES, volume)?;
            }
            let mut changed = changed.iter();
            changed.try_for_each(|(key, record)| change.put(VOLUMES, key, record))
        })
    }

    /// Forgets a pool and its volumes; durable when it returns.
    pub fn remove_pool(&self, name: &Name) -> Result<(), StateError> {
        self.store.write(|change| {
            for volume in change.names_from(VOLUMES, &key(name, ""))? {
                change.remove(VOLUMES, &volume)?;
            }
            change.remove(POOLS, name.as_str())
        })
    }

    /// Every pool, with its volumes.
    pub(super) fn pools(&self) -> Result<BTreeMap<Name, PoolRecord>, StateError> {
        let mut pools: BTreeMap<Name, PoolRecord> = self.all_in(POOLS)?;
        let mut volumes: BTreeMap<Name, BTreeMap<Name, VolumeRecord>> = BTreeMap::new();
        for (key, record) in self.all_in::<String, VolumeRecord>(VOLUMES)? {
            let (pool, volume) = key.split_once(BETWEEN).unwrap_or((&key, ""));
            let of_pool = volumes.entry(parsed(&key, pool)?).or_default();
            of_pool.insert(parsed(&key, volume)?, record);
        }
        for (name, pool) in &mut pools {
            let volumes = volumes.remove(name);
            // An earlier version, which knew no other place, has put them into the record.
            if pool.volumes.is_empty() {
                pool.volumes = Arc::new(volumes.unwrap_or_default());
            }
        }
        Ok(pools)
    }
}

fn key(pool: &Name, volume: &str) -> String {
    format!("{pool}{BETWEEN}{volume}")
}

fn parsed(key: &str, name: &str) -> Result<Name, StateError> {
    serde_json::from_value(name.into()).map_err(|source| StateError::Record {
        name: key.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn volume(pool: &str, nsid: u32) -> serde_json::Value {
        json!({
            "pool": { "name": pool, "volume": nsid },
            "block_bytes": 4096,
            "hosts": ["any"],
            "subsystem": null,
            "nqn": "nqn.2026-11.io.flashyard:n",
            "nsid": nsid,
            "uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "capacity_bytes": 4096,
        })
    }

    /// A pool with these volumes, each with the number of its namespace.
    fn pool(of: &str, volumes: &[(&str, u32)]) -> PoolRecord {
        let volumes = volumes.iter().map(|(called, nsid)| {
            let record = serde_json::from_value(volume(of, *nsid)).unwrap();
            (name(called), record)
        });
        PoolRecord {
            id: "00".into(),
            volumes: Arc::new(volumes.collect()),
            ..PoolRecord::default()
        }
    }

    fn state() -> (tempfile::TempDir, State) {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        (directory, state)
    }

    #[test]
    fn a_pool_comes_back_with_its_volumes_and_goes_with_them() {
        let (_directory, state) = state();
        let (one, other) = (pool("p", &[("a", 1), ("b", 2)]), pool("p2", &[("a", 3)]));
        state.put_pool(&name("p"), None, &one).unwrap();
        state.put_pool(&name("p2"), None, &other).unwrap();
        let both = [(name("p"), one), (name("p2"), other.clone())];
        assert_eq!(state.pools().unwrap(), both.into());
        state.remove_pool(&name("p")).unwrap();
        assert_eq!(state.pools().unwrap(), [(name("p2"), other)].into());
        let rows: BTreeMap<String, VolumeRecord> = state.all_in(VOLUMES).unwrap();
        assert_eq!(rows.keys().collect::<Vec<_>>(), ["p2/a"]);
    }

    /// What is said to be there already is not written.
    #[test]
    fn volumes_are_written_where_they_differ() {
        let (_directory, state) = state();
        let said = pool("p", &[("a", 1), ("b", 2), ("gone", 3)]);
        let now = pool("p", &[("a", 1), ("b", 4), ("c", 5)]);
        state.put_pool(&name("p"), Some(&said), &now).unwrap();
        let written = pool("p", &[("b", 4), ("c", 5)]);
        assert_eq!(state.pools().unwrap(), [(name("p"), written)].into());
    }

    #[test]
    fn volumes_are_all_written_where_nobody_knows_what_is_there() {
        let (_directory, state) = state();
        let stale = pool("p", &[("a", 9), ("stale", 8)]);
        state.put_pool(&name("p"), None, &stale).unwrap();
        let now = pool("p", &[("a", 1), ("b", 2)]);
        state.put_pool(&name("p"), None, &now).unwrap();
        assert_eq!(state.pools().unwrap(), [(name("p"), now)].into());
    }

    #[test]
    fn volumes_that_an_earlier_version_put_into_the_record_are_found() {
        let (_directory, state) = state();
        let stale = pool("p", &[("stale", 8)]);
        state.put_pool(&name("p"), None, &stale).unwrap();
        let earlier = json!({ "id": "00", "members": {}, "volumes": { "a": volume("p", 1) } });
        state.put_in(POOLS, [("p", &earlier)]).unwrap();
        let found = state.pools().unwrap();
        assert_eq!(found, [(name("p"), pool("p", &[("a", 1)]))].into());
    }
}

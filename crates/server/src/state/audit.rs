//! The audit log in the node's state: what was changed, and, apart from that, what was refused.
//!
//! Each has a ring of its own, bounded in entries and in bytes, so that refused changes, which any
//! token can cause, do not push out those that were made. One count numbers the entries of both.

use std::ops::Bound;

use api::AuditEntry;
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition, TableError, TableHandle, WriteTransaction,
};

use super::seal::Seal;
use super::{META, State, StateError};

type Entries = TableDefinition<'static, u64, &'static [u8]>;

/// A part of the log in which the oldest entries make room.
struct Ring {
    entries: Entries,
    /// Where the state keeps how many bytes they have.
    bytes_key: &'static str,
    entries_max: u64,
    bytes_max: u64,
}

/// Changes that were made, or failed: months of them.
const MADE: Ring = Ring {
    entries: TableDefinition::new(TABLES[0]),
    bytes_key: "audit_bytes",
    entries_max: 50_000,
    bytes_max: 64 << 20,
};

/// Changes that were refused.
const REFUSED: Ring = Ring {
    entries: TableDefinition::new(TABLES[1]),
    bytes_key: "audit_refused_bytes",
    entries_max: 5_000,
    bytes_max: 4 << 20,
};

/// Tables of entries, by their numbers.
pub const TABLES: [&str; 2] = ["audit", "audit_refused"];

/// Under which names the state keeps how many bytes they have.
pub const BYTES_KEYS: [&str; 2] = [MADE.bytes_key, REFUSED.bytes_key];

impl State {
    /// Adds entries to the audit log, which gives them their identifiers; the oldest ones of their
    /// kind make room. Durable when it returns.
    pub fn append_audit(&self, entries: &[AuditEntry]) -> Result<(), StateError> {
        self.store.write(|change| change.append_audit(entries))
    }

    /// At most `count` entries of the audit log after the one with the identifier `after`.
    pub fn audit_after(&self, after: u64, count: usize) -> Result<Vec<AuditEntry>, StateError> {
        let seal = self.store.seal();
        self.store
            .read(|database| audit_after((database, seal), after, count))
    }
}

/// Adds an entry, and returns its new identifier.
pub fn append(
    transaction: &WriteTransaction,
    seal: &Seal,
    entry: &AuditEntry,
) -> Result<u64, StateError> {
    let (own, other) = match entry.is_refused() {
        true => (REFUSED, MADE),
        false => (MADE, REFUSED),
    };
    let id = own.last(transaction)?.max(other.last(transaction)?) + 1;
    let entry = AuditEntry {
        id,
        ..entry.clone()
    };
    own.append(transaction, seal, &entry)?;
    Ok(id)
}

/// Takes an entry away, as if it had never been added.
pub fn forget(transaction: &WriteTransaction, id: u64) -> Result<(), StateError> {
    for ring in [MADE, REFUSED] {
        ring.forget(transaction, id)?;
    }
    Ok(())
}

/// At most `count` entries after the one with the identifier `after`.
pub fn audit_after(
    (database, seal): (&Database, &Seal),
    after: u64,
    count: usize,
) -> Result<Vec<AuditEntry>, StateError> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let mut entries = MADE.after((&transaction, seal), after, count)?;
    entries.extend(REFUSED.after((&transaction, seal), after, count)?);
    entries.sort_by_key(|entry| entry.id);
    entries.truncate(count);
    Ok(entries)
}

impl Ring {
    /// The identifier of the latest entry.
    fn last(&self, transaction: &WriteTransaction) -> Result<u64, StateError> {
        let table = transaction.open_table(self.entries);
        let table = table.map_err(redb::Error::from)?;
        let last = table.last().map_err(redb::Error::from)?;
        Ok(last.map_or(0, |(id, _)| id.value()))
    }

    fn append(
        &self,
        transaction: &WriteTransaction,
        seal: &Seal,
        entry: &AuditEntry,
    ) -> Result<(), StateError> {
        let record = serde_json::to_vec(entry).map_err(|source| StateError::Record {
            name: entry.id.to_string(),
            source,
        })?;
        let bound = entry.id.to_le_bytes();
        let record = seal.close(self.entries.name(), &bound, &record)?;
        let table = transaction.open_table(self.entries);
        let mut table = table.map_err(redb::Error::from)?;
        let mut meta = transaction.open_table(META).map_err(redb::Error::from)?;
        let mut bytes = self.bytes(&table, &meta)?;
        table
            .insert(entry.id, &*record)
            .map_err(redb::Error::from)?;
        bytes += record.len() as u64;
        while bytes > self.bytes_max || table.len().map_err(redb::Error::from)? > self.entries_max {
            if table.len().map_err(redb::Error::from)? == 1 {
                // More was counted than is there: an earlier version does not count.
                bytes = record.len() as u64;
                break;
            }
            let oldest = table.pop_first().map_err(redb::Error::from)?;
            let Some((_, record)) = oldest else { break };
            bytes = bytes.saturating_sub(record.value().len() as u64);
        }
        self.set_bytes(&mut meta, bytes)
    }

    fn forget(&self, transaction: &WriteTransaction, id: u64) -> Result<(), StateError> {
        let table = transaction.open_table(self.entries);
        let mut table = table.map_err(redb::Error::from)?;
        let mut meta = transaction.open_table(META).map_err(redb::Error::from)?;
        let bytes = self.bytes(&table, &meta)?;
        let record = table.remove(id).map_err(redb::Error::from)?;
        let forgotten = record.map_or(0, |record| record.value().len() as u64);
        self.set_bytes(&mut meta, bytes.saturating_sub(forgotten))
    }

    /// How many bytes its entries have.
    fn bytes(
        &self,
        table: &impl ReadableTable<u64, &'static [u8]>,
        meta: &impl ReadableTable<&'static str, &'static [u8]>,
    ) -> Result<u64, StateError> {
        let known = meta.get(self.bytes_key).map_err(redb::Error::from)?;
        let known =
            known.and_then(|bytes| Some(u64::from_le_bytes(bytes.value().try_into().ok()?)));
        match known {
            Some(bytes) => Ok(bytes),
            // An earlier version counted entries only.
            None => size_of_all(table),
        }
    }

    fn set_bytes(
        &self,
        meta: &mut redb::Table<&'static str, &'static [u8]>,
        bytes: u64,
    ) -> Result<(), StateError> {
        meta.insert(self.bytes_key, bytes.to_le_bytes().as_slice())
            .map_err(redb::Error::from)?;
        Ok(())
    }

    fn after(
        &self,
        (transaction, seal): (&ReadTransaction, &Seal),
        after: u64,
        count: usize,
    ) -> Result<Vec<AuditEntry>, StateError> {
        let table = match transaction.open_table(self.entries) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(other) => return Err(StateError::Database(other.into())),
        };
        let later = (Bound::Excluded(after), Bound::Unbounded);
        let mut entries = Vec::new();
        for entry in table.range(later).map_err(redb::Error::from)?.take(count) {
            let (id, record) = entry.map_err(redb::Error::from)?;
            let bound = id.value().to_le_bytes();
            let record = seal.open(self.entries.name(), &bound, record.value())?;
            let entry = serde_json::from_slice(&record);
            entries.push(entry.map_err(|source| StateError::Record {
                name: id.value().to_string(),
                source,
            })?);
        }
        Ok(entries)
    }
}

fn size_of_all(table: &impl ReadableTable<u64, &'static [u8]>) -> Result<u64, StateError> {
    let mut bytes = 0;
    for entry in table.iter().map_err(redb::Error::from)? {
        let (_, record) = entry.map_err(redb::Error::from)?;
        bytes += record.value().len() as u64;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(status: u16, path_bytes: usize) -> AuditEntry {
        AuditEntry {
            id: 0,
            time: "2026-11-21T12:00:00.000Z".into(),
            token: "t".parse().unwrap(),
            from: "10.0.0.1:5".into(),
            request: "r".into(),
            method: "PUT".into(),
            path: "x".repeat(path_bytes),
            body: None,
            status,
            code: None,
            others: 0,
        }
    }

    /// A ring small enough to fill, over the tables of the real one.
    fn add(database: &Database, ring: &Ring, id: u64, path_bytes: usize) -> u64 {
        let transaction = database.begin_write().unwrap();
        let entry = AuditEntry {
            id,
            ..entry(403, path_bytes)
        };
        ring.append(&transaction, &Seal::default(), &entry).unwrap();
        let table = transaction.open_table(ring.entries).unwrap();
        let (count, bytes) = (table.len().unwrap(), size_of_all(&table).unwrap());
        drop(table);
        transaction.commit().unwrap();
        assert!(count <= ring.entries_max && bytes <= ring.bytes_max);
        count
    }

    fn database() -> Database {
        let memory = redb::backends::InMemoryBackend::new();
        Database::builder().create_with_backend(memory).unwrap()
    }

    #[test]
    fn a_ring_is_bounded_in_entries_and_in_bytes() {
        let database = database();
        let ring = Ring {
            entries_max: 10,
            bytes_max: 4096,
            ..REFUSED
        };
        for id in 1..=20 {
            assert_eq!(add(&database, &ring, id, 1), id.min(10));
        }
        assert!((2..10).contains(&add(&database, &ring, 21, 3000)));
        assert_eq!(add(&database, &ring, 22, 3000), 1);
    }

    /// An earlier version, started in between, takes entries away without counting bytes.
    #[test]
    fn a_count_of_bytes_that_is_too_high_ends_with_the_entries() {
        let database = database();
        let ring = Ring {
            bytes_max: 4096,
            ..REFUSED
        };
        let transaction = database.begin_write().unwrap();
        let mut meta = transaction.open_table(META).unwrap();
        ring.set_bytes(&mut meta, 1 << 20).unwrap();
        drop(meta);
        transaction.commit().unwrap();
        assert_eq!(add(&database, &ring, 1, 100), 1);
        assert_eq!(add(&database, &ring, 2, 100), 2);
    }

    #[test]
    fn refused_changes_push_out_none_that_was_made() {
        let database = database();
        let transaction = database.begin_write().unwrap();
        for status in [200, 403, 403, 403, 204] {
            append(&transaction, &Seal::default(), &entry(status, 1)).unwrap();
        }
        transaction.commit().unwrap();
        let listed = audit_after((&database, &Seal::default()), 0, 9).unwrap();
        let ids: Vec<(u64, u16)> = listed
            .iter()
            .map(|entry| (entry.id, entry.status))
            .collect();
        assert_eq!(ids, [(1, 200), (2, 403), (3, 403), (4, 403), (5, 204)]);
        let part = audit_after((&database, &Seal::default()), 1, 2).unwrap();
        let ids: Vec<u64> = part.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [2, 3]);
        let transaction = database.begin_read().unwrap();
        assert_eq!(
            MADE.after((&transaction, &Seal::default()), 0, 9)
                .unwrap()
                .len(),
            2
        );
        assert_eq!(
            REFUSED
                .after((&transaction, &Seal::default()), 0, 9)
                .unwrap()
                .len(),
            3
        );
    }

    /// Its bytes make room as well.
    #[test]
    fn an_entry_that_is_forgotten_leaves_nothing() {
        let database = database();
        let transaction = database.begin_write().unwrap();
        for status in [200, 403] {
            let id = append(&transaction, &Seal::default(), &entry(status, 100)).unwrap();
            forget(&transaction, id).unwrap();
        }
        for ring in [MADE, REFUSED] {
            let table = transaction.open_table(ring.entries).unwrap();
            let meta = transaction.open_table(META).unwrap();
            assert_eq!(ring.bytes(&table, &meta).unwrap(), 0);
        }
        transaction.commit().unwrap();
        assert_eq!(
            audit_after((&database, &Seal::default()), 0, 9).unwrap(),
            []
        );
    }

    /// What an earlier version wrote counts as well.
    #[test]
    fn entries_of_earlier_versions_are_counted() {
        let database = database();
        let transaction = database.begin_write().unwrap();
        let mut table = transaction.open_table(MADE.entries).unwrap();
        for id in 1..=4 {
            let record = serde_json::to_vec(&AuditEntry {
                id,
                ..entry(403, 2000)
            })
            .unwrap();
            table.insert(id, record.as_slice()).unwrap();
        }
        drop(table);
        transaction.commit().unwrap();
        let ring = Ring {
            bytes_max: 8192,
            ..MADE
        };
        assert_eq!(add(&database, &ring, 5, 2000), 3);
    }
}

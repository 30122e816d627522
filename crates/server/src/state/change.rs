//! [`Change`]: what one transaction does, and what was there before.

use std::fmt;

use api::AuditEntry;
use redb::{ReadableTable, TableHandle, WriteTransaction};

use super::seal::Seal;
use super::{StateError, Table, audit};

/// Changes of one transaction, until that is committed.
pub struct Change<'t> {
    transaction: &'t WriteTransaction,
    seal: &'t Seal,
    before: Vec<Before>,
}

/// What a change did away with, or made.
pub enum Before {
    /// A record, or that there was none.
    Record {
        /// Its table.
        table: Table,
        /// Its name.
        name: String,
        /// What it was, as it was written.
        record: Option<Vec<u8>>,
    },
    /// That there was no such entry of the audit log.
    NoAuditEntry {
        /// The entry's identifier.
        id: u64,
    },
}

/// Records may hold secrets.
impl fmt::Debug for Before {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Before::Record { name, .. } => write!(formatter, "record {name}"),
            Before::NoAuditEntry { id } => write!(formatter, "audit entry {id}"),
        }
    }
}

impl<'t> Change<'t> {
    /// Nothing yet.
    pub fn new(transaction: &'t WriteTransaction, seal: &'t Seal) -> Change<'t> {
        let before = Vec::new();
        Change {
            transaction,
            seal,
            before,
        }
    }

    /// What was there before what was done so far.
    pub fn before(self) -> Vec<Before> {
        self.before
    }

    /// Puts a record under a name.
    pub fn put(&mut self, table: Table, name: &str, record: &[u8]) -> Result<(), StateError> {
        let written = self.seal.close(table.name(), name.as_bytes(), record)?;
        self.write(table, name, &written)
    }

    fn write(&mut self, table: Table, name: &str, record: &[u8]) -> Result<(), StateError> {
        let before = {
            let mut table = self
                .transaction
                .open_table(table)
                .map_err(redb::Error::from)?;
            let before = table.insert(name, record).map_err(redb::Error::from)?;
            before.map(|record| record.value().to_vec())
        };
        self.note(table, name, before);
        Ok(())
    }

    /// Takes a record away.
    pub fn remove(&mut self, table: Table, name: &str) -> Result<(), StateError> {
        let before = {
            let mut table = self
                .transaction
                .open_table(table)
                .map_err(redb::Error::from)?;
            let before = table.remove(name).map_err(redb::Error::from)?;
            before.map(|record| record.value().to_vec())
        };
        self.note(table, name, before);
        Ok(())
    }

    /// The names of records that begin with these words.
    pub fn names_from(&self, table: Table, words: &str) -> Result<Vec<String>, StateError> {
        let table = self.transaction.open_table(table);
        let table = table.map_err(redb::Error::from)?;
        let mut names = Vec::new();
        for entry in table.range(words..).map_err(redb::Error::from)? {
            let (name, _) = entry.map_err(redb::Error::from)?;
            if !name.value().starts_with(words) {
                break;
            }
            names.push(name.value().to_owned());
        }
        Ok(names)
    }

    fn note(&mut self, table: Table, name: &str, record: Option<Vec<u8>>) {
        self.before.push(Before::Record {
            table,
            name: name.to_owned(),
            record,
        });
    }

    /// Adds entries to the audit log, which gives them their identifiers; the oldest make room.
    pub fn append_audit(&mut self, entries: &[AuditEntry]) -> Result<(), StateError> {
        for entry in entries {
            let id = audit::append(self.transaction, self.seal, entry)?;
            self.before.push(Before::NoAuditEntry { id });
        }
        Ok(())
    }

    /// Makes it be as it was.
    pub fn put_back(&mut self, before: &Before) -> Result<(), StateError> {
        match before {
            Before::Record {
                table,
                name,
                record: Some(record),
            } => self.write(*table, name, record),
            Before::Record { table, name, .. } => self.remove(*table, name),
            Before::NoAuditEntry { id } => audit::forget(self.transaction, *id),
        }
    }
}

//! What is read from the open database.

use std::collections::BTreeMap;

use redb::{Database, ReadableDatabase, ReadableTable, TableError};
use serde::de::DeserializeOwned;

use super::{StateError, Table};

/// A record, if it is there.
pub fn one_in<T: DeserializeOwned>(
    database: &Database,
    table: Table,
    name: &str,
) -> Result<Option<T>, StateError> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let table = match transaction.open_table(table) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(other) => return Err(StateError::Database(other.into())),
    };
    let record = table.get(name).map_err(redb::Error::from)?;
    let parsed = record.map(|record| serde_json::from_slice(record.value()));
    parsed.transpose().map_err(|source| StateError::Record {
        name: name.to_owned(),
        source,
    })
}

/// Every record of a table, by its name.
pub fn all_in<N, T>(database: &Database, table: Table) -> Result<BTreeMap<N, T>, StateError>
where
    N: DeserializeOwned + Ord,
    T: DeserializeOwned,
{
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let table = match transaction.open_table(table) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(BTreeMap::new()),
        Err(other) => return Err(StateError::Database(other.into())),
    };
    let mut records = BTreeMap::new();
    for entry in table.iter().map_err(redb::Error::from)? {
        let (name, record) = entry.map_err(redb::Error::from)?;
        let wrong = |source| StateError::Record {
            name: name.value().to_owned(),
            source,
        };
        let key = serde_json::from_value(name.value().into()).map_err(wrong)?;
        records.insert(key, serde_json::from_slice(record.value()).map_err(wrong)?);
    }
    Ok(records)
}

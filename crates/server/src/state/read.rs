//! What is read from the open database.

use std::collections::BTreeMap;

use redb::{Database, ReadableDatabase, ReadableTable, TableError, TableHandle};
use serde::de::DeserializeOwned;

use super::seal::Seal;
use super::{StateError, Table};

/// A record, if it is there.
pub fn one_in<T: DeserializeOwned>(
    (database, seal): (&Database, &Seal),
    table: Table,
    name: &str,
) -> Result<Option<T>, StateError> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let table_name = table.name();
    let table = match transaction.open_table(table) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(other) => return Err(StateError::Database(other.into())),
    };
    let Some(record) = table.get(name).map_err(redb::Error::from)? else {
        return Ok(None);
    };
    let record = seal.open(table_name, name.as_bytes(), record.value())?;
    let parsed = serde_json::from_slice(&record);
    parsed.map(Some).map_err(|source| StateError::Record {
        name: name.to_owned(),
        source,
    })
}

/// Every record of a table, by its name.
pub fn all_in<N, T>(
    (database, seal): (&Database, &Seal),
    table: Table,
) -> Result<BTreeMap<N, T>, StateError>
where
    N: DeserializeOwned + Ord,
    T: DeserializeOwned,
{
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let table_name = table.name();
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
        let record = seal.open(table_name, name.value().as_bytes(), record.value())?;
        records.insert(key, serde_json::from_slice(&record).map_err(wrong)?);
    }
    Ok(records)
}

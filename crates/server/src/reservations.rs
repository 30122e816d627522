//! Reservations that survive a power loss: one record a namespace in the state, written before the
//! host that changed something is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use node::{Held, Nqn, ReservationKeeper, ReservationType, Reservations};
use redb::TableDefinition;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::state::{State, StateError, Table};

const TABLE: Table = TableDefinition::new("reservations");

/// The registrations and the reservation of a namespace. Hosts are named by their identifiers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    nqn: String,
    nsid: u32,
    generation: u32,
    registrants: BTreeMap<Uuid, u64>,
    /// The type's number, and who holds it.
    held: Option<(u8, Uuid)>,
}

/// Where a node puts the reservations that are to survive a power loss.
pub fn keeper(state: Arc<State>) -> ReservationKeeper {
    Arc::new(move |nqn, nsid, reservations| {
        let key = key(nqn.as_str(), nsid);
        let done = match reservations {
            Some(reservations) => {
                let record = record(nqn, nsid, reservations);
                state.put_in(TABLE, [(key.as_str(), &record)])
            }
            None => state.remove_in(TABLE, &key),
        };
        done.map_err(|error| error.to_string())
    })
}

/// Forgets what was kept for a namespace.
pub fn forget(state: &State, nqn: &str, nsid: u32) -> Result<(), StateError> {
    state.remove_in(TABLE, &key(nqn, nsid))
}

/// What was kept, by subsystem and namespace; what is kept for others than `existing` is forgotten,
/// so that nobody inherits it.
pub fn load<'a>(
    state: &State,
    existing: impl Iterator<Item = (&'a str, u32)>,
) -> Result<BTreeMap<(Nqn, u32), Reservations>, StateError> {
    let existing: Vec<String> = existing.map(|(nqn, nsid)| key(nqn, nsid)).collect();
    let mut known = BTreeMap::new();
    for (key, record) in state.all_in::<String, Record>(TABLE)? {
        match record.nqn.parse::<Nqn>() {
            Ok(nqn) if existing.contains(&key) => {
                known.insert((nqn, record.nsid), restored(&record));
            }
            _ => state.remove_in(TABLE, &key)?,
        }
    }
    Ok(known)
}

fn key(nqn: &str, nsid: u32) -> String {
    format!("{nsid} {nqn}")
}

fn record(nqn: &Nqn, nsid: u32, reservations: &Reservations) -> Record {
    let registrants = reservations.registrants.iter();
    Record {
        nqn: nqn.to_string(),
        nsid,
        generation: reservations.generation,
        registrants: registrants
            .map(|(host, key)| (Uuid::from_bytes(*host), *key))
            .collect(),
        held: reservations
            .held
            .map(|held| (held.kind.number(), Uuid::from_bytes(held.host))),
    }
}

fn restored(record: &Record) -> Reservations {
    let held = record.held.and_then(|(kind, host)| {
        let kind = ReservationType::from_number(kind)?;
        let host = *host.as_bytes();
        Some(Held { kind, host })
    });
    let registrants = record.registrants.iter();
    Reservations {
        generation: record.generation,
        persistent: true,
        registrants: registrants
            .map(|(host, key)| (*host.as_bytes(), *key))
            .collect(),
        held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_nobody_inherits_it() {
        let directory = tempfile::tempdir().unwrap();
        let state = Arc::new(State::open(directory.path()).unwrap());
        let nqn: Nqn = "nqn.2014-08.org.example:sub".parse().unwrap();
        let held = Held {
            kind: ReservationType::ExclusiveAccessAllRegistrants,
            host: [7; 16],
        };
        let kept = Reservations {
            generation: 9,
            persistent: true,
            registrants: BTreeMap::from([([7; 16], u64::MAX), ([1; 16], 0)]),
            held: Some(held),
        };
        let keep = keeper(Arc::clone(&state));
        for nsid in [1, 2, 3] {
            keep(&nqn, nsid, Some(&kept)).unwrap();
        }
        keep(&nqn, 3, None).unwrap();
        let exists = || [(nqn.as_str(), 1), (nqn.as_str(), 3)].into_iter();
        let expected = BTreeMap::from([((nqn.clone(), 1), kept)]);
        assert_eq!(load(&state, exists()).unwrap(), expected);
        let all = [1, 2, 3].map(|nsid| (nqn.as_str(), nsid));
        assert_eq!(load(&state, all.into_iter()).unwrap(), expected);
        forget(&state, nqn.as_str(), 1).unwrap();
        assert!(load(&state, exists()).unwrap().is_empty());
    }
}

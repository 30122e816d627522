//! Rules of volumes that survive a power loss, reservations and write protection, written before
//! whoever changed something is answered: for a volume that takes its drive whole a record in the
//! state, for a volume of a pool part of what the pool keeps about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::WriteProtection;
use base64ct::{Base64Unpadded, Encoding};
use node::{
    Held, NQN_TAG_BYTES, Nqn, NqnTag, Protection, ReservationType, Reservations, Rules, Unkept,
};
use redb::TableDefinition;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::state::{State, StateError, Table};

const TABLE: Table = TableDefinition::new("reservations");

/// The rules of a namespace, in the state. Hosts are named by their identifiers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    nqn: String,
    nsid: u32,
    generation: u32,
    registrants: BTreeMap<Uuid, u64>,
    /// The type's number, and who holds it.
    held: Option<(u8, Uuid)>,
    /// What stands for the names under which they came, in base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    names: BTreeMap<Uuid, String>,
    /// Who has it write protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write_protection: Option<WriteProtection>,
    /// No reservations are kept: hosts have not asked for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fleeting: bool,
}

/// Who has a volume write protected, in the words of the API.
pub fn in_words(protection: Protection) -> Option<WriteProtection> {
    match protection {
        Protection::None => None,
        Protection::ByHost => Some(WriteProtection::Host),
        Protection::ByAdministrator => Some(WriteProtection::Administrator),
    }
}

/// The same the other way round.
pub fn protection(kept: Option<WriteProtection>) -> Protection {
    match kept {
        None => Protection::None,
        Some(WriteProtection::Host) => Protection::ByHost,
        Some(WriteProtection::Administrator) => Protection::ByAdministrator,
    }
}

/// Reservations on a pool, where room is scarce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InPool {
    generation: u32,
    registrants: Vec<Registrant>,
    /// The type's number, and which of the registrants holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<(u8, usize)>,
}

/// Bytes of a [`InPool`] with so many registrants as JSON, at most.
pub const fn bytes_in_pool(registrants: usize) -> usize {
    let rest = r#"{"generation":4294967295,"held":[6,127],"registrants":[]}"#;
    rest.len() + registrants * (Registrant::TEXT_BYTES + r#""","#.len())
}

/// HOSTID, key, which is little-endian, and what stands for the name, in base64. An earlier version
/// kept no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Registrant {
    host: [u8; 16],
    key: u64,
    name: Option<NqnTag>,
}

impl Registrant {
    const BYTES: usize = 24 + NQN_TAG_BYTES;
    /// Three bytes are four letters.
    const TEXT_BYTES: usize = Registrant::BYTES / 3 * 4;
}

impl From<Registrant> for String {
    fn from(registrant: Registrant) -> String {
        let key = registrant.key.to_le_bytes();
        let name = registrant.name.as_ref().map_or(&[][..], |tag| &tag.0[..]);
        Base64Unpadded::encode_string(&[&registrant.host[..], &key, name].concat())
    }
}

impl TryFrom<String> for Registrant {
    type Error = String;

    fn try_from(text: String) -> Result<Registrant, String> {
        let mut bytes = [0; Registrant::BYTES];
        let decoded = Base64Unpadded::decode(&text, &mut bytes);
        let split = decoded.ok().and_then(|all| {
            let (host, rest) = all.split_first_chunk::<16>()?;
            let (key, name) = rest.split_first_chunk::<8>()?;
            let name = match name {
                [] => None,
                name => Some(NqnTag(name.try_into().ok()?)),
            };
            Some(Registrant {
                host: *host,
                key: u64::from_le_bytes(*key),
                name,
            })
        });
        split.ok_or_else(|| format!("{text:?} is no registrant"))
    }
}

impl From<&Reservations> for InPool {
    fn from(reservations: &Reservations) -> InPool {
        let registrants = reservations.registrants.iter();
        let held = reservations.held.and_then(|held| {
            let mut hosts = reservations.registrants.keys();
            let holder = hosts.position(|host| *host == held.host)?;
            Some((held.kind.number(), holder))
        });
        InPool {
            generation: reservations.generation,
            registrants: registrants
                .map(|(host, key)| Registrant {
                    host: *host,
                    key: *key,
                    name: reservations.names.get(host).copied(),
                })
                .collect(),
            held,
        }
    }
}

impl TryFrom<InPool> for Reservations {
    type Error = String;

    fn try_from(kept: InPool) -> Result<Reservations, String> {
        let held = kept.held.map(|(number, holder)| {
            let kind = ReservationType::from_number(number);
            let kind = kind.ok_or_else(|| format!("{number} is no type of a reservation"))?;
            let holder = kept.registrants.get(holder);
            let host = holder
                .ok_or("the holder of a reservation is no registrant")?
                .host;
            Ok::<_, String>(Held { kind, host })
        });
        let registrants = kept.registrants.iter();
        let names = registrants.clone();
        let names = names.filter_map(|one| Some((one.host, one.name?)));
        Ok(Reservations {
            names: names.collect(),
            generation: kept.generation,
            persistent: true,
            registrants: registrants.map(|one| (one.host, one.key)).collect(),
            held: held.transpose()?,
        })
    }
}

/// Keeps the rules of a namespace in the state, or forgets them; durable when it returns.
pub fn keep(state: &State, nqn: &Nqn, nsid: u32, rules: Option<&Rules>) -> Result<(), Unkept> {
    let key = key(nqn.as_str(), nsid);
    let done = match rules {
        Some(rules) => {
            let record = record(nqn, nsid, rules);
            state.put_in(TABLE, [(key.as_str(), &record)])
        }
        None => state.remove_in(TABLE, &key),
    };
    done.map_err(|error| Unkept::Failed(error.to_string()))
}

/// Forgets what was kept for a namespace.
pub fn forget(state: &State, nqn: &str, nsid: u32) -> Result<(), StateError> {
    state.remove_in(TABLE, &key(nqn, nsid))
}

/// Forgets what was kept for others than `existing`, so that nobody inherits it.
pub fn forget_others<'a>(
    state: &State,
    existing: impl Iterator<Item = (&'a str, u32)>,
) -> Result<(), StateError> {
    let existing: Vec<String> = existing.map(|(nqn, nsid)| key(nqn, nsid)).collect();
    for key in state.all_in::<String, Record>(TABLE)?.keys() {
        // A state that cannot be written is no reason not to serve: another start forgets.
        if !existing.contains(key)
            && let Err(error) = state.remove_in(TABLE, key)
        {
            tracing::warn!("rules of {key} are not forgotten: {error}");
        }
    }
    Ok(())
}

/// What the state keeps for a namespace.
pub fn kept(state: &State, nqn: &str, nsid: u32) -> Result<Option<Arc<Rules>>, StateError> {
    let record: Option<Record> = state.one_in(TABLE, &key(nqn, nsid))?;
    Ok(record.map(|record| Arc::new(restored(&record))))
}

fn key(nqn: &str, nsid: u32) -> String {
    format!("{nsid} {nqn}")
}

fn record(nqn: &Nqn, nsid: u32, rules: &Rules) -> Record {
    let reservations = &rules.reservations;
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
        names: reservations
            .names
            .iter()
            .map(|(host, name)| {
                (
                    Uuid::from_bytes(*host),
                    Base64Unpadded::encode_string(&name.0),
                )
            })
            .collect(),
        write_protection: in_words(rules.protection),
        fleeting: !reservations.persistent,
    }
}

fn restored(record: &Record) -> Rules {
    let held = record.held.and_then(|(kind, host)| {
        let kind = ReservationType::from_number(kind)?;
        let host = *host.as_bytes();
        Some(Held { kind, host })
    });
    let registrants = record.registrants.iter();
    let names = record.names.iter();
    let reservations = Reservations {
        names: names
            .filter_map(|(host, name)| Some((*host.as_bytes(), name_of(name)?)))
            .collect(),
        generation: record.generation,
        persistent: !record.fleeting,
        registrants: registrants
            .map(|(host, key)| (*host.as_bytes(), *key))
            .collect(),
        held,
    };
    Rules {
        reservations,
        protection: protection(record.write_protection),
    }
}

/// What stands for a name, from its text.
fn name_of(text: &str) -> Option<NqnTag> {
    let mut tag = [0; NQN_TAG_BYTES];
    let decoded = Base64Unpadded::decode(text, &mut tag).ok()?;
    decoded.try_into().ok().map(NqnTag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservations(registrants: usize) -> Reservations {
        let host = |number: usize| [number as u8; 16];
        let all = (0..registrants).map(|number| (host(number), u64::MAX - number as u64));
        let name = |number: usize| {
            let name = format!("nqn.2026-11.example:{number}");
            name.parse::<Nqn>().unwrap().tag()
        };
        let names = (0..registrants).map(|number| (host(number), name(number)));
        Reservations {
            generation: u32::MAX,
            persistent: true,
            registrants: all.collect(),
            held: registrants.checked_sub(1).map(|last| Held {
                kind: ReservationType::ExclusiveAccessAllRegistrants,
                host: host(last),
            }),
            names: names.collect(),
        }
    }

    #[test]
    fn what_is_kept_comes_back_and_nobody_inherits_it() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        let nqn: Nqn = "nqn.2014-08.org.example:sub".parse().unwrap();
        let some = Rules {
            reservations: reservations(2),
            protection: Protection::None,
        };
        for nsid in [1, 2, 3] {
            keep(&state, &nqn, nsid, Some(&some)).unwrap();
        }
        keep(&state, &nqn, 3, None).unwrap();
        let back = |nsid| kept(&state, nqn.as_str(), nsid).unwrap();
        forget_others(&state, [1, 3].map(|nsid| (nqn.as_str(), nsid)).into_iter()).unwrap();
        assert_eq!(back(1).as_deref(), Some(&some));
        assert_eq!((back(2), back(3)), (None, None));
        forget(&state, nqn.as_str(), 1).unwrap();
        assert_eq!(back(1), None);
    }

    /// Write protection is kept with and without reservations. A record that an earlier version
    /// wrote has none of it.
    #[test]
    fn write_protection_comes_back() {
        let nqn: Nqn = "nqn.2014-08.org.example:sub".parse().unwrap();
        for protection in [Protection::ByHost, Protection::ByAdministrator] {
            for reservations in [Reservations::default(), reservations(2)] {
                let rules = Rules {
                    reservations,
                    protection,
                };
                let text = serde_json::to_string(&record(&nqn, 1, &rules)).unwrap();
                let kept: Record = serde_json::from_str(&text).unwrap();
                assert_eq!(restored(&kept), rules, "{text}");
            }
        }
        let earlier = format!(r#"{{"nqn":"{nqn}","nsid":1,"generation":3,"registrants":{{}}}}"#);
        let kept: Record = serde_json::from_str(&earlier).unwrap();
        let restored = restored(&kept);
        assert_eq!(restored.protection, Protection::None);
        assert!(restored.reservations.persistent);
        assert!(!serde_json::to_string(&kept).unwrap().contains("write"));
    }

    #[test]
    fn what_a_pool_keeps_comes_back_and_has_the_bytes_that_are_counted() {
        for registrants in [0, 1, 32, 128] {
            let some = reservations(registrants);
            let text = serde_json::to_string(&InPool::from(&some)).unwrap();
            let most = bytes_in_pool(registrants);
            assert!((most - 40..=most).contains(&text.len()), "{text}");
            let kept: InPool = serde_json::from_str(&text).unwrap();
            assert_eq!(Reservations::try_from(kept).unwrap(), some);
        }
    }

    /// An earlier version kept no names: such an identifier is its who asks for something first.
    #[test]
    fn registrants_without_names_are_read_and_written_as_they_were() {
        let unnamed = Reservations {
            names: BTreeMap::new(),
            ..reservations(2)
        };
        let text = serde_json::to_string(&InPool::from(&unnamed)).unwrap();
        assert!(
            text.contains(r#""AAAAAAAAAAAAAAAAAAAAAP//////////""#),
            "{text}"
        );
        let kept: InPool = serde_json::from_str(&text).unwrap();
        assert_eq!(Reservations::try_from(kept).unwrap(), unnamed);
    }

    #[test]
    fn what_is_none_of_a_pool_is_refused() {
        let one = "AAAAAAAAAAAAAAAAAAAAAAEAAAAAAAAA";
        let read = |registrants: &str, held: &str| {
            let text = format!(r#"{{"generation":1,"registrants":[{registrants}],"held":{held}}}"#);
            let kept: InPool = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            Reservations::try_from(kept)
        };
        let whole = read(&format!("{one:?}"), "[1,0]").unwrap();
        assert_eq!(whole.registrants, BTreeMap::from([([0; 16], 1)]));
        for (registrants, held, said) in [
            (&format!("{one:?}")[..], "[1,1]", "no registrant"),
            (&format!("{one:?}"), "[7,0]", "no type"),
            (r#""AAAA""#, "null", "no registrant"),
            (&format!("\"{one}A\""), "null", "no registrant"),
            (r#""?""#, "null", "no registrant"),
        ] {
            let refused = read(registrants, held).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }
}

//! What a pool keeps about a volume for its node: the identity by which hosts know it, as JSON.
//!
//! Everything in a [`VolumeRecord`] but what the pool says itself (where it is, its size). Hosts
//! are kept with their NQNs, so that another node which imports the pool knows them. The format is
//! in `docs/formats/volume-attributes.md`.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    ANY_HOST, ErrorBody, ErrorCode, HostKeySpec, HostSpec, Name, TlsKeySpec, WriteProtection, plain,
};
use node::{ATTRIBUTES_BYTES_MAX, NAMESPACE_ID_MAX, Nqn, Protection, Reservations, Rules, Unkept};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::control::Objects;
use crate::control::hosts::credentials::Credential;
use crate::rules::{InPool, bytes_in_pool, in_words, protection};
use crate::state::{Place, VolumeRecord};

/// Raised when the meaning of what is kept changes.
const FORMAT: u32 = 4;

/// What a version writes of a volume that is not write protected: an earlier one reads it.
const FORMAT_WITHOUT_PROTECTION: u32 = 3;

/// The same where it knows of no registrant's name either.
const FORMAT_WITHOUT_NAMES: u32 = 2;

/// What a version writes that has nothing to say which an earlier one must not lose.
const FORMAT_WITHOUT_REGISTRANTS: u32 = 1;

/// The field of reservations.
const RESERVATIONS: &str = "reservations";

/// The field of write protection.
const WRITE_PROTECTION: &str = "write_protection";

/// Registrants for which there is always room.
const REGISTRANTS_MIN: usize = 32;

/// A host by its name and its NQN; `any` has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptHost(pub Name, pub Option<String>);

/// The hosts that may see a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptHosts {
    pub all: Vec<KeptHost>,
    /// NQNs of those that had to prove who they are.
    pub authenticated: BTreeSet<String>,
    /// NQNs of those that had to connect under TLS.
    pub under_tls: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    hosts: Vec<KeptHost>,
    /// Names of those of them that have to prove who they are; their secrets stay with the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    authenticated: Vec<Name>,
    /// Names of those of them that have to connect under TLS; their keys stay with the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    under_tls: Vec<Name>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What is to be kept about a volume but for its rules.
///
/// # Errors
/// It is more than a pool keeps: so many hosts.
pub fn encode(record: &VolumeRecord, objects: &Objects) -> Result<Vec<u8>, ErrorBody> {
    let mut rest = match serde_json::to_value(record) {
        Ok(Value::Object(rest)) => rest,
        // A record serializes to an object: it is a struct of plain fields.
        _ => Map::new(),
    };
    for known_to_the_pool in ["drive", "pool", "capacity_bytes", "hosts"] {
        rest.remove(known_to_the_pool);
    }
    let host = |name: &Name| {
        let known = objects.hosts.get(name);
        KeptHost(name.clone(), known.map(|host| host.nqn.clone()))
    };
    let kept = Kept {
        format: FORMAT_WITHOUT_REGISTRANTS,
        hosts: record.hosts.iter().map(host).collect(),
        authenticated: with::<HostKeySpec>(record, objects),
        under_tls: with::<TlsKeySpec>(record, objects),
        rest,
    };
    let bytes = serde_json::to_vec(&kept).unwrap_or_default();
    check_bytes(record, bytes.len(), ATTRIBUTES_BYTES_MAX)?;
    Ok(bytes)
}

/// Refuses so many hosts that registrants would have no room beside them.
pub fn check_room(record: &VolumeRecord, objects: &Objects) -> Result<(), ErrorBody> {
    let bytes = encode(record, objects)?.len();
    let field = RESERVATIONS.len() + r#","":"#.len();
    let protection = WRITE_PROTECTION.len() + r#","":"administrator""#.len();
    let left = ATTRIBUTES_BYTES_MAX - protection - field - bytes_in_pool(REGISTRANTS_MIN);
    check_bytes(record, bytes, left)
}

fn check_bytes(record: &VolumeRecord, bytes: usize, most: usize) -> Result<(), ErrorBody> {
    if bytes > most {
        let message = format!(
            "{} hosts take {bytes} bytes on the pool; allowed: {most} bytes, which is some eighty \
             hosts",
            record.hosts.len(),
        );
        return Err(ErrorBody::invalid("hosts", message));
    }
    Ok(())
}

/// What is to be kept about a volume, of which `before` is kept so far: another identity, and the
/// same rules.
///
/// # Errors
/// What is kept cannot be read, or both together are more than a pool keeps.
pub fn with_identity(identity: &[u8], before: &[u8]) -> Result<Vec<u8>, ErrorBody> {
    let kept = match rules(before) {
        Err(Unread::Nothing) => None,
        kept => kept.map_err(|unread| ErrorBody::new(ErrorCode::NotReady, unread.to_string()))?,
    };
    with_rules(identity, kept.as_ref()).map_err(|unkept| {
        let message = format!("the hosts that have registered are in the way: {unkept}");
        ErrorBody::new(ErrorCode::InUse, message)
    })
}

/// The same with other rules, and the same identity.
///
/// # Errors
/// What is kept cannot be read, or both together are more than a pool keeps.
pub fn with_rules(before: &[u8], rules: Option<&Rules>) -> Result<Vec<u8>, Unkept> {
    let failed = |unread: Unread| Unkept::Failed(unread.to_string());
    check_format(before).map_err(failed)?;
    let mut kept: Map<String, Value> =
        serde_json::from_slice(before).map_err(|error| failed(error.into()))?;
    kept.insert(
        "format".into(),
        rules.map_or(FORMAT_WITHOUT_REGISTRANTS, format_of).into(),
    );
    kept.remove(RESERVATIONS);
    kept.remove(WRITE_PROTECTION);
    let reservations = rules.map(|rules| &rules.reservations);
    if let Some(reservations) = reservations.filter(|reservations| reservations.persistent) {
        let reservations = serde_json::to_value(InPool::from(reservations));
        let reservations = reservations.map_err(|error| failed(error.into()))?;
        kept.insert(RESERVATIONS.into(), reservations);
    }
    if let Some(protection) = rules.and_then(|rules| in_words(rules.protection)) {
        let protection = serde_json::to_value(protection);
        let protection = protection.map_err(|error| failed(error.into()))?;
        kept.insert(WRITE_PROTECTION.into(), protection);
    }
    let bytes = serde_json::to_vec(&kept).map_err(|error| failed(error.into()))?;
    match bytes.len() <= ATTRIBUTES_BYTES_MAX {
        true => Ok(bytes),
        false => Err(Unkept::NoRoom),
    }
}

/// The earliest format that says all of these.
fn format_of(rules: &Rules) -> u32 {
    let reservations = &rules.reservations;
    if rules.protection != Protection::None {
        FORMAT
    } else if !reservations.names.is_empty() {
        FORMAT_WITHOUT_PROTECTION
    } else if !reservations.registrants.is_empty() {
        FORMAT_WITHOUT_NAMES
    } else {
        FORMAT_WITHOUT_REGISTRANTS
    }
}

/// The volume's hosts that have a credential of a kind.
fn with<C: Credential>(record: &VolumeRecord, objects: &Objects) -> Vec<Name> {
    let hosts = record.hosts.iter();
    hosts
        .filter(|name| C::all(objects).contains_key(*name))
        .cloned()
        .collect()
}

/// Why what is kept about a volume cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// Whoever made the volume did not live to say anything about it, or has no hosts to tell.
    #[error("the pool keeps none of it")]
    Nothing,
    /// A later version of the program wrote it.
    #[error(
        "its identity on the pool has format {0}, and this version reads up to {FORMAT}: use a \
         newer one"
    )]
    Newer(u32),
    /// It is none that this program ever wrote.
    #[error(
        "its identity on the pool cannot be read ({0}); a clone of a snapshot of it has its data, \
         and an identity of its own"
    )]
    Damaged(String),
}

impl From<serde_json::Error> for Unread {
    fn from(error: serde_json::Error) -> Unread {
        // It quotes what it found.
        Unread::Damaged(plain(&error.to_string()).into_owned())
    }
}

/// What every format says first: the rest is read only if it is one that this version knows.
#[derive(Deserialize)]
struct Header {
    format: u32,
}

/// What was kept about a volume, and the hosts that may see it; the record names none yet.
///
/// # Errors
/// Why it cannot be used. Unless nothing is kept, nothing may be written in its place.
pub fn decode(bytes: &[u8], place: Place) -> Result<(VolumeRecord, KeptHosts), Unread> {
    rules(bytes)?;
    let kept: Kept = serde_json::from_slice(bytes)?;
    let mut all = kept.rest;
    let place = serde_json::to_value(place)?;
    if let Value::Object(place) = place {
        all.extend(place);
    }
    all.insert("capacity_bytes".into(), 0.into());
    all.insert("hosts".into(), Value::Array(Vec::new()));
    let record: VolumeRecord = serde_json::from_value(Value::Object(all))?;
    check(&record, &kept.hosts)?;
    let nqns = |names: &[Name]| {
        let named = kept.hosts.iter().filter(|host| names.contains(&host.0));
        named.filter_map(|host| host.1.clone()).collect()
    };
    let hosts = KeptHosts {
        authenticated: nqns(&kept.authenticated),
        under_tls: nqns(&kept.under_tls),
        all: kept.hosts,
    };
    Ok((record, hosts))
}

/// Whether what is said of a volume can be: anybody who had the drives may have written it.
fn check(record: &VolumeRecord, hosts: &[KeptHost]) -> Result<(), Unread> {
    let named = hosts.iter().filter_map(|host| host.1.as_ref());
    for nqn in named.chain([&record.nqn]) {
        let parsed = nqn.parse::<Nqn>();
        parsed.map_err(|error| Unread::Damaged(format!("NQN {nqn:?}: {error}")))?;
    }
    if !(1..=NAMESPACE_ID_MAX).contains(&record.nsid) {
        let nsid = record.nsid;
        let message = format!("namespace {nsid}; allowed: 1 to {NAMESPACE_ID_MAX}");
        return Err(Unread::Damaged(message));
    }
    if record.uuid.is_nil() {
        return Err(Unread::Damaged("its UUID is all zeroes".to_owned()));
    }
    Ok(())
}

fn check_format(bytes: &[u8]) -> Result<(), Unread> {
    if bytes.is_empty() {
        return Err(Unread::Nothing);
    }
    let Header { format } = serde_json::from_slice(bytes)?;
    match format <= FORMAT {
        true => Ok(()),
        false => Err(Unread::Newer(format)),
    }
}

/// The rules that are kept of a volume, if any are to survive a power loss.
///
/// # Errors
/// As for [`decode`].
pub fn rules(bytes: &[u8]) -> Result<Option<Rules>, Unread> {
    #[derive(Deserialize)]
    struct Part {
        reservations: Option<InPool>,
        write_protection: Option<WriteProtection>,
    }
    check_format(bytes)?;
    let kept: Part = serde_json::from_slice(bytes)?;
    let reservations = kept.reservations.map(Reservations::try_from).transpose();
    let rules = Rules {
        reservations: reservations.map_err(Unread::Damaged)?.unwrap_or_default(),
        protection: protection(kept.write_protection),
    };
    Ok(rules.lasting())
}

/// By what hosts know a volume.
pub struct Address {
    pub nqn: String,
    pub nsid: u32,
    pub uuid: Uuid,
}

/// What was kept about a volume, but with another address and a subsystem of its own: the one that
/// it had is another volume's where it is now.
///
/// # Errors
/// What is kept cannot be read.
pub fn readdressed(bytes: &[u8], address: Address) -> Result<Vec<u8>, Unread> {
    let mut kept: Map<String, Value> = serde_json::from_slice(bytes)?;
    kept.insert("subsystem".into(), Value::Null);
    kept.insert("nqn".into(), address.nqn.into());
    kept.insert("nsid".into(), address.nsid.into());
    kept.insert("uuid".into(), address.uuid.to_string().into());
    Ok(serde_json::to_vec(&kept)?)
}

/// The names under which hosts that were kept are known here; those that are not are added to
/// `hosts`, under another name if theirs is taken.
pub fn known(kept: Vec<KeptHost>, hosts: &mut BTreeMap<Name, HostSpec>) -> Vec<Name> {
    let mut names = Vec::with_capacity(kept.len());
    for KeptHost(name, nqn) in kept {
        let Some(nqn) = nqn else {
            if name.as_str() == ANY_HOST {
                names.push(name);
            }
            continue;
        };
        let found = hosts.iter().find(|(_, host)| host.nqn == nqn);
        if let Some((found, _)) = found {
            names.push(found.clone());
            continue;
        }
        let free = (1..).find_map(|number: u32| {
            let tried = match number {
                1 => name.clone(),
                number => format!("{name}-{number}").parse().ok()?,
            };
            (!hosts.contains_key(&tried)).then_some(tried)
        });
        if let Some(free) = free {
            hosts.insert(free.clone(), HostSpec { nqn, tenant: None });
            names.push(free);
        }
    }
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;

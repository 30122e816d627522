//! What a pool keeps about a volume for its node: the identity by which hosts know it, as JSON.
//!
//! Everything in a [`VolumeRecord`] but what the pool says itself (where it is, its size). Hosts
//! are kept with their NQNs, so that another node which imports the pool knows them.

use std::collections::{BTreeMap, BTreeSet};

use api::{ANY_HOST, ErrorBody, HostKeySpec, HostSpec, Name, TlsKeySpec};
use node::ATTRIBUTES_BYTES_MAX;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Objects;
use super::credentials::Credential;
use crate::state::{Place, VolumeRecord};

/// Raised when the meaning of what is kept changes.
const FORMAT: u32 = 1;

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

/// What is to be kept about a volume.
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
        format: FORMAT,
        hosts: record.hosts.iter().map(host).collect(),
        authenticated: with::<HostKeySpec>(record, objects),
        under_tls: with::<TlsKeySpec>(record, objects),
        rest,
    };
    let bytes = serde_json::to_vec(&kept).unwrap_or_default();
    if bytes.len() > ATTRIBUTES_BYTES_MAX {
        let message = format!(
            "{} hosts take {} bytes on the pool; allowed: {ATTRIBUTES_BYTES_MAX} bytes, which is \
             some eighty hosts",
            record.hosts.len(),
            bytes.len()
        );
        return Err(ErrorBody::invalid("hosts", message));
    }
    Ok(bytes)
}

/// The volume's hosts that have a credential of a kind.
fn with<C: Credential>(record: &VolumeRecord, objects: &Objects) -> Vec<Name> {
    let hosts = record.hosts.iter();
    hosts
        .filter(|name| C::all(objects).contains_key(*name))
        .cloned()
        .collect()
}

/// What was kept about a volume, and the hosts that may see it; the record names none yet.
///
/// # Errors
/// Why it cannot be used: nothing was kept, or by a later version.
pub fn decode(bytes: &[u8], place: Place) -> Result<(VolumeRecord, KeptHosts), String> {
    if bytes.is_empty() {
        return Err("the pool keeps no identity of it".to_owned());
    }
    let kept: Kept = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if kept.format > FORMAT {
        return Err(format!(
            "its identity has format {}; this version reads up to {FORMAT}",
            kept.format
        ));
    }
    let mut all = kept.rest;
    let place = serde_json::to_value(place).map_err(|error| error.to_string())?;
    if let Value::Object(place) = place {
        all.extend(place);
    }
    all.insert("capacity_bytes".into(), 0.into());
    all.insert("hosts".into(), Value::Array(Vec::new()));
    let record = serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())?;
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
mod tests {
    use super::*;
    use api::SecretText;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn record(hosts: &[&str]) -> VolumeRecord {
        VolumeRecord {
            place: Place::Pool {
                name: name("p"),
                volume: 7,
            },
            block_bytes: Default::default(),
            hosts: hosts.iter().map(|host| name(host)).collect(),
            subsystem: Some(name("group")),
            nqn: "nqn.2026-11.example.flashyard:n:group".into(),
            nsid: 3,
            uuid: uuid::Uuid::from_u128(9),
            capacity_bytes: 0,
            tenant: Some(name("acme")),
            limits: Default::default(),
        }
    }

    #[test]
    fn an_identity_comes_back_with_hosts_that_may_be_called_otherwise() {
        let host = |nqn: &str| HostSpec {
            nqn: nqn.into(),
            tenant: None,
        };
        let here = BTreeMap::from([(name("a"), host("nqn-a")), (name("b"), host("nqn-b"))]);
        let original = record(&["a", "any", "b"]);
        let key = HostKeySpec {
            secret: SecretText::from("DHHC-1:00:secret:"),
            controller_secret: None,
            hash: Default::default(),
            group: Default::default(),
        };
        let tls_key = TlsKeySpec {
            key: SecretText::from("NVMeTLSkey-1:01:secret:"),
        };
        let objects = Objects {
            hosts: here,
            host_keys: BTreeMap::from([(name("b"), key.clone()), (name("c"), key)]),
            tls_keys: BTreeMap::from([(name("a"), tls_key)]),
            ..Objects::default()
        };
        let bytes = encode(&original, &objects).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"));
        let (back, kept) = decode(&bytes, original.place.clone()).unwrap();
        assert_eq!(
            VolumeRecord {
                hosts: original.hosts.clone(),
                ..back
            },
            original
        );
        let mut there = BTreeMap::from([(name("b"), host("nqn-x")), (name("z"), host("nqn-a"))]);
        assert_eq!(kept.authenticated, BTreeSet::from(["nqn-b".to_owned()]));
        assert_eq!(kept.under_tls, BTreeSet::from(["nqn-a".to_owned()]));
        let names = known(kept.all, &mut there);
        assert_eq!(names, [name("any"), name("b-2"), name("z")]);
        assert_eq!(there[&name("b-2")], host("nqn-b"));
    }

    #[test]
    fn a_cluster_of_hosts_fits_and_too_many_are_refused() {
        let nqn = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";
        let many = |count: usize| {
            let named = (0..count).map(|number| (name(&format!("host-{number}")), nqn));
            let hosts: BTreeMap<Name, HostSpec> = named
                .map(|(name, nqn)| {
                    let spec = HostSpec {
                        nqn: nqn.into(),
                        tenant: None,
                    };
                    (name, spec)
                })
                .collect();
            let record = VolumeRecord {
                hosts: hosts.keys().cloned().collect(),
                ..record(&[])
            };
            let objects = Objects {
                hosts,
                ..Objects::default()
            };
            encode(&record, &objects)
        };
        assert!(many(80).is_ok());
        let refused = many(100).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("hosts"));
    }

    #[test]
    fn what_is_not_there_or_of_a_later_version_is_refused() {
        let place = record(&[]).place;
        assert!(decode(b"", place.clone()).is_err());
        assert!(decode(b"{\"format\":1", place.clone()).is_err());
        let later = decode(b"{\"format\":2,\"hosts\":[]}", place).unwrap_err();
        assert!(later.contains("format 2"), "{later}");
    }
}

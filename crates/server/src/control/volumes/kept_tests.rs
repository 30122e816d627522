//! An identity that is kept comes back as it was, and the page about it says what is kept.

use super::*;
use crate::state::CopyRecord;
use api::SecretText;
use node::{Held, NqnTag, ReservationType};

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
        uuid: Uuid::from_u128(9),
        capacity_bytes: 0,
        tenant: Some(name("acme")),
        snapshot: Some(name("monday")),
        limits: Default::default(),
        copies: vec![CopyRecord(12, Uuid::from_u128(0x9a7e))],
        replica_of: Some(Uuid::from_u128(0x5ec0)),
    }
}

fn keys() -> (HostKeySpec, TlsKeySpec) {
    let key = HostKeySpec {
        secret: SecretText::from("DHHC-1:00:secret:"),
        controller_secret: None,
        hash: Default::default(),
        group: Default::default(),
    };
    let tls_key = TlsKeySpec {
        key: SecretText::from("NVMeTLSkey-1:01:secret:"),
    };
    (key, tls_key)
}

#[test]
fn an_identity_comes_back_with_hosts_that_may_be_called_otherwise() {
    let host = |nqn: &str| HostSpec {
        nqn: nqn.into(),
        tenant: None,
    };
    let here = BTreeMap::from([
        (name("a"), host("nqn.2014-08.org.example:a")),
        (name("b"), host("nqn.2014-08.org.example:b")),
    ]);
    let original = record(&["a", "any", "b"]);
    let (key, tls_key) = keys();
    let objects = Objects {
        hosts: here.into(),
        host_keys: BTreeMap::from([(name("b"), key.clone()), (name("c"), key)]).into(),
        tls_keys: BTreeMap::from([(name("a"), tls_key)]).into(),
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
    let mut there = BTreeMap::from([
        (name("b"), host("nqn.2014-08.org.example:x")),
        (name("z"), host("nqn.2014-08.org.example:a")),
    ]);
    assert_eq!(
        kept.authenticated,
        BTreeSet::from(["nqn.2014-08.org.example:b".to_owned()])
    );
    assert_eq!(
        kept.under_tls,
        BTreeSet::from(["nqn.2014-08.org.example:a".to_owned()])
    );
    let names = known(kept.all, &mut there);
    assert_eq!(names, [name("any"), name("b-2"), name("z")]);
    assert_eq!(there[&name("b-2")], host("nqn.2014-08.org.example:b"));
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
            copies: Vec::new(),
            // No host sees a replica.
            replica_of: None,
            ..record(&[])
        };
        let objects = Objects {
            hosts: hosts.into(),
            ..Objects::default()
        };
        check_room(&record, &objects).and_then(|()| encode(&record, &objects))
    };
    let hosts = many(77).unwrap();
    let refused = many(100).unwrap_err();
    assert_eq!(refused.field.as_deref(), Some("hosts"));
    // Registrants have their room beside as many hosts as there may be, and no more than there is.
    let most = (77..100).find_map(|count| many(count).is_err().then_some(count - 1));
    let identity = many(most.unwrap()).unwrap();
    let kept = with_reservations(&identity, Some(&named(registered(REGISTRANTS_MIN)))).unwrap();
    assert_eq!(
        with_identity(&hosts, &kept).unwrap().len(),
        kept.len() + hosts.len() - identity.len()
    );
    let many_more = with_reservations(&identity, Some(&registered(REGISTRANTS_MIN * 2)));
    assert_eq!(many_more, Err(Unkept::NoRoom));
    // Hosts that would take it are refused.
    let few = encode(&record(&["any"]), &Objects::default()).unwrap();
    let kept = with_reservations(&few, Some(&registered(128))).unwrap();
    assert!(with_identity(&hosts, &kept).is_err());
}

/// What is kept with these reservations and no write protection.
fn with_reservations(before: &[u8], kept: Option<&Reservations>) -> Result<Vec<u8>, Unkept> {
    let rules = kept.map(|reservations| Rules {
        reservations: reservations.clone(),
        protection: Protection::None,
    });
    with_rules(before, rules.as_ref())
}

fn reservations(bytes: &[u8]) -> Result<Option<Reservations>, Unread> {
    Ok(rules(bytes)?.map(|rules| rules.reservations))
}

/// What stands for the name of the host that is sampled.
fn tag() -> NqnTag {
    let nqn = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";
    nqn.parse::<Nqn>().unwrap().tag()
}

/// The same registrants, all under the name of the host that is sampled.
fn named(some: Reservations) -> Reservations {
    let names = some.registrants.keys().map(|host| (*host, tag()));
    Reservations {
        names: names.collect(),
        ..some
    }
}

fn registered(hosts: usize) -> Reservations {
    let host = |number: usize| [number as u8; 16];
    Reservations {
        generation: 9,
        persistent: true,
        registrants: (0..hosts).map(|number| (host(number), u64::MAX)).collect(),
        ..Reservations::default()
    }
}

/// An earlier version must not serve a volume whose registrants it would lose, and may serve any
/// other.
#[test]
fn what_hosts_registered_stays_beside_another_identity_and_raises_the_format() {
    let identity = encode(&record(&["any"]), &Objects::default()).unwrap();
    let format = |kept: &[u8]| serde_json::from_slice::<Value>(kept).unwrap()["format"].clone();
    assert_eq!(
        (format(&identity), reservations(&identity)),
        (1.into(), Ok(None))
    );
    let some = registered(2);
    let kept = with_reservations(&identity, Some(&some)).unwrap();
    assert_eq!(
        (format(&kept), reservations(&kept)),
        (2.into(), Ok(Some(some.clone())))
    );
    let named = named(some.clone());
    let with_names = with_reservations(&kept, Some(&named)).unwrap();
    assert_eq!(
        (format(&with_names), reservations(&with_names)),
        (3.into(), Ok(Some(named)))
    );
    let other = VolumeRecord {
        tenant: None,
        ..record(&[])
    };
    let other = encode(&other, &Objects::default()).unwrap();
    let both = with_identity(&other, &kept).unwrap();
    assert_eq!(
        (format(&both), reservations(&both)),
        (2.into(), Ok(Some(some)))
    );
    let place = record(&[]).place;
    assert_eq!(decode(&both, place.clone()).unwrap().0.tenant, None);
    let cleared = with_reservations(&both, Some(&registered(0))).unwrap();
    assert_eq!(format(&cleared), 1);
    assert_eq!(reservations(&cleared).unwrap(), Some(registered(0)));
    let value = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    let without = with_reservations(&cleared, None).unwrap();
    assert_eq!(value(&without), value(&other));
    let of_none = with_identity(&other, b"").unwrap();
    assert_eq!(value(&of_none), value(&other), "nothing was kept");
    // What cannot be read stays as it is.
    let newer = b"{\"format\":5}";
    assert!(with_reservations(newer, None).is_err() && with_identity(&other, newer).is_err());
    let wrong = String::from_utf8(kept)
        .unwrap()
        .replace("\"generation\":9", "\"generation\":-1");
    assert!(matches!(
        decode(wrong.as_bytes(), place),
        Err(Unread::Damaged(_))
    ));
}

#[test]
fn what_is_not_there_or_of_a_later_version_is_refused() {
    let place = record(&[]).place;
    let refused = |bytes: &[u8]| decode(bytes, place.clone()).unwrap_err();
    assert_eq!(refused(b""), Unread::Nothing);
    for damaged in [&b"{\"format\":1"[..], b"{}", b"[1]", b"{\"format\":1}"] {
        assert!(matches!(refused(damaged), Unread::Damaged(_)));
    }
    // Whatever else a later version says.
    assert_eq!(refused(b"{\"format\":5,\"hosts\":7}"), Unread::Newer(5));
}

/// An earlier version must not serve a volume that it would let hosts write to.
#[test]
fn write_protection_stays_beside_another_identity_and_raises_the_format() {
    let identity = encode(&record(&["any"]), &Objects::default()).unwrap();
    let format = |kept: &[u8]| serde_json::from_slice::<Value>(kept).unwrap()["format"].clone();
    for protection in [Protection::ByHost, Protection::ByAdministrator] {
        for reservations in [Reservations::default(), registered(2)] {
            let protected = Rules {
                reservations,
                protection,
            };
            let kept = with_rules(&identity, Some(&protected)).unwrap();
            let other = encode(&record(&[]), &Objects::default()).unwrap();
            let kept = with_identity(&other, &kept).unwrap();
            assert_eq!(format(&kept), 4);
            assert_eq!(rules(&kept), Ok(Some(protected.clone())));
            let lifted = Rules {
                protection: Protection::None,
                ..protected
            };
            let kept = with_rules(&kept, lifted.lasting().as_ref()).unwrap();
            assert!(
                format(&kept).as_u64() < Some(4),
                "earlier versions serve it again"
            );
            assert_eq!(rules(&kept), Ok(lifted.lasting()));
        }
    }
    let text = String::from_utf8(identity).unwrap();
    let unknown = text.replacen('{', "{\"write_protection\":\"nobody\",", 1);
    assert!(matches!(rules(unknown.as_bytes()), Err(Unread::Damaged(_))));
}

/// The rows of the page's table, cell by cell.
fn fields() -> Vec<Vec<String>> {
    let page = include_str!("../../../../../docs/formats/volume-attributes.md");
    let lines = page.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| line.split(" | ").map(str::to_owned).collect();
    lines.map(cells).collect()
}

/// The sample on the page: all that can be kept.
fn sample() -> String {
    let page = include_str!("../../../../../docs/formats/volume-attributes.md");
    let lines = page.lines().filter_map(|line| line.strip_prefix("    "));
    lines.collect::<Vec<_>>().join("\n")
}

/// What the sample says.
fn sampled() -> (VolumeRecord, Objects) {
    let nqn = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";
    let host = HostSpec {
        nqn: nqn.into(),
        tenant: None,
    };
    let (key, tls_key) = keys();
    let total = api::Limit {
        iops: Some(20_000),
        ..api::Limit::default()
    };
    let record = VolumeRecord {
        subsystem: Some(name("databases")),
        nqn: "nqn.2026-11.example.flashyard:node-1:databases".into(),
        uuid: "0e4b2f0c-93a5-4d3b-a5f4-0d5f0f3c8f11".parse().unwrap(),
        limits: api::Limits {
            total,
            minimum_iops: Some(500),
            ..api::Limits::default()
        },
        ..record(&["db-1", "any"])
    };
    let objects = Objects {
        hosts: BTreeMap::from([(name("db-1"), host)]).into(),
        host_keys: BTreeMap::from([(name("db-1"), key)]).into(),
        tls_keys: BTreeMap::from([(name("db-1"), tls_key)]).into(),
        ..Objects::default()
    };
    (record, objects)
}

#[test]
fn the_page_has_every_field_and_its_sample_is_what_is_written_and_read() {
    let (record, objects) = sampled();
    let hosts = [([1; 16], 0xc0de), ([2; 16], 0xbeef)];
    let some = Reservations {
        generation: 4,
        persistent: true,
        registrants: hosts.into(),
        held: Some(Held {
            kind: ReservationType::WriteExclusiveRegistrantsOnly,
            host: [2; 16],
        }),
        names: hosts.map(|(host, _)| (host, tag())).into(),
    };
    let some = Rules {
        reservations: some,
        protection: Protection::ByAdministrator,
    };
    let identity = encode(&record, &objects).unwrap();
    let written = with_rules(&identity, Some(&some)).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    let on_page: Value = serde_json::from_str(&sample()).unwrap();
    assert_eq!(
        written, on_page,
        "what is written is not what the page shows"
    );
    let rows = fields();
    let named: BTreeSet<&str> = rows
        .iter()
        .filter_map(|cells| cells[0].trim_start_matches("| ").split('`').nth(1))
        .collect();
    let object = written.as_object().unwrap();
    assert_eq!(named, object.keys().map(String::as_str).collect());
    // A type that the page says, the sample has.
    for cells in &rows {
        let field = cells[0].trim_start_matches("| ").trim_matches('`');
        let value = &object[field];
        let right = match cells[1].split(' ').next().unwrap() {
            "number" => value.is_u64(),
            "array" => value.is_array(),
            "text" | "name" => value.is_string(),
            "object" => value.is_object(),
            other => panic!("{field} is of no known type: {other}"),
        };
        assert!(right, "{field} is no {}: {value}", cells[1]);
    }
    assert_eq!(rules(sample().as_bytes()), Ok(Some(some)));
    let (read, hosts) = decode(sample().as_bytes(), record.place.clone()).unwrap();
    let read = VolumeRecord {
        hosts: record.hosts.clone(),
        ..read
    };
    assert_eq!(read, record);
    let nqn = objects.hosts[&name("db-1")].nqn.clone();
    let kept = [
        KeptHost(name("db-1"), Some(nqn.clone())),
        KeptHost(name("any"), None),
    ];
    assert_eq!(hosts.all, kept);
    assert_eq!(hosts.authenticated, BTreeSet::from([nqn.clone()]));
    assert_eq!(hosts.under_tls, BTreeSet::from([nqn]));
}

#[test]
fn what_may_be_absent_is_read_without_it() {
    let mut shortest: Value = serde_json::from_str(&sample()).unwrap();
    let object = shortest.as_object_mut().unwrap();
    let optional = ["authenticated", "under_tls", "tenant", "snapshot", "limits"];
    let others = ["reservations", "copies", "replica_of", "write_protection"];
    for absent in optional.iter().chain(&others) {
        object.remove(*absent).unwrap();
    }
    object.insert("format".into(), 1.into());
    let place = record(&[]).place;
    let (read, hosts) = decode(shortest.to_string().as_bytes(), place).unwrap();
    assert!(read.limits.is_unlimited() && read.tenant.is_none() && read.snapshot.is_none());
    assert!(read.copies.is_empty() && read.replica_of.is_none());
    assert!(hosts.authenticated.is_empty() && hosts.under_tls.is_empty());
}

#[test]
fn what_no_node_would_keep_is_damaged() {
    let objects = Objects::default();
    let original = record(&["any"]);
    let written = |record: &VolumeRecord| encode(record, &objects).unwrap();
    type Change = (&'static str, fn(&mut VolumeRecord));
    let changes: [Change; 4] = [
        ("NQN", |record| record.nqn = "demo\nforged line".into()),
        ("namespace 0", |record| record.nsid = 0),
        ("namespace 4294967295", |record| record.nsid = u32::MAX),
        ("UUID", |record| record.uuid = Uuid::nil()),
    ];
    for (word, change) in changes {
        let mut changed = original.clone();
        change(&mut changed);
        let read = decode(&written(&changed), changed.place.clone());
        let Err(Unread::Damaged(reason)) = read else {
            panic!("{word}: {read:?}");
        };
        assert!(reason.contains(word), "{word}: {reason}");
        assert!(!reason.contains('\n'), "{reason}");
    }
    let host = HostSpec {
        nqn: "no name".into(),
        tenant: None,
    };
    let objects = Objects {
        hosts: BTreeMap::from([(name("h"), host)]).into(),
        ..Objects::default()
    };
    let bytes = encode(&record(&["h"]), &objects).unwrap();
    let read = decode(&bytes, original.place.clone());
    assert!(matches!(read, Err(Unread::Damaged(_))), "{read:?}");
}

/// Whoever has a drive may have written it: it is read, or refused in words that can be printed.
#[test]
fn whatever_byte_is_another_an_identity_is_read_or_refused_in_plain_words() {
    let sample = sample().into_bytes();
    let place = record(&[]).place;
    let mut refused = 0;
    for at in 0..sample.len() {
        for other in ["", "\0", "\"", "{", "9", "-", "9999999999", "\\u001b"] {
            let changed = [&sample[..at], other.as_bytes(), &sample[at + 1..]].concat();
            if let Err(error) = decode(&changed, place.clone()) {
                let words = error.to_string();
                assert!(!words.contains(char::is_control), "{words:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > sample.len(), "{refused}");
}

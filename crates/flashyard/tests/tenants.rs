//! What operators of tenants make of pools: as much as they were granted, of their own alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use api::{
    ErrorCode, Grant, GrantUse, HostSpec, Role, SecretText, Size, SnapshotGroup, SnapshotSpec,
    TokenSpec, VolumeRename, VolumeResize, VolumeRollback, VolumeSpec,
};
use client::{Client, ClientError, Login};
use support::http::exchange_as;
use support::{Node, name};

const MIB: u64 = 1 << 20;
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";

/// A client with a new token of a tenant's operator.
fn operator(node: &Node, tenant: &str) -> Client {
    client(node, token(node, tenant))
}

/// A new token of a tenant's operator.
fn token(node: &Node, tenant: &str) -> SecretText {
    let spec = TokenSpec {
        role: Role::Operator,
        tenant: Some(name(tenant)),
        expires: None,
    };
    let made = node.client().create_token(&name(tenant), &spec);
    made.unwrap().secret.unwrap()
}

fn client(node: &Node, token: SecretText) -> Client {
    Client::with(&Login {
        url: node.endpoints().api.clone(),
        token: Some(token),
        certificate: None,
    })
    .unwrap()
}

fn grant(node: &Node, tenant: &str, mib: u64) {
    let grant = Grant {
        size: Size(mib * MIB),
        volumes: 3,
        snapshots: 2,
    };
    let granted = node.client();
    let granted = granted.grant_pool(&name(tenant), &name("pool"), &grant);
    assert_eq!(granted.unwrap().grants[0].grant, grant);
}

fn of_pool(mib: u64) -> VolumeSpec {
    VolumeSpec {
        pool: Some(name("pool")),
        size: Some(Size(mib * MIB)),
        ..VolumeSpec::default()
    }
}

fn clone_of(snapshot: &str) -> VolumeSpec {
    VolumeSpec {
        snapshot: Some(name(snapshot).into()),
        ..VolumeSpec::default()
    }
}

fn of(volume: &str) -> SnapshotSpec {
    SnapshotSpec {
        volume: name(volume),
        copy_of: None,
    }
}

fn to(mib: u64) -> VolumeResize {
    VolumeResize {
        size: Size(mib * MIB),
        allow_shrink: true,
    }
}

fn back_to(snapshot: &str) -> VolumeRollback {
    VolumeRollback {
        snapshot: name(snapshot).into(),
        force: false,
        allow_shrink: true,
        replica_of: None,
    }
}

/// The code of a refusal, and its words.
fn refusal<T>(answer: Result<T, ClientError>) -> (ErrorCode, String) {
    match answer {
        Ok(_) => panic!("that should have been refused"),
        Err(ClientError::Refused(body)) => (body.code, body.message),
        Err(other) => panic!("{other}"),
    }
}

fn code<T>(answer: Result<T, ClientError>) -> ErrorCode {
    refusal(answer).0
}

fn used(client: &Client) -> GrantUse {
    let tenant = client.tenant(&name("acme")).unwrap();
    tenant.grants[0].used.unwrap()
}

#[test]
fn a_tenant_makes_what_it_was_granted_and_no_more() {
    let mut node = Node::develop(&[]);
    let acme = operator(&node, "acme");
    let refused = refusal(acme.create_volume(&name("v"), &of_pool(16)));
    assert_eq!(refused.0, ErrorCode::Forbidden);
    let nowhere = VolumeSpec {
        pool: Some(name("elsewhere")),
        ..of_pool(16)
    };
    let unknown = refusal(acme.create_volume(&name("v"), &nowhere));
    assert_eq!(unknown.1, refused.1.replace("pool pool", "pool elsewhere"));

    grant(&node, "acme", 100);
    let made = acme.create_volume(&name("v"), &of_pool(16)).unwrap();
    assert_eq!(made.tenant, Some(name("acme")));
    acme.create_volume(&name("v"), &of_pool(16)).unwrap();
    acme.resize_volume(&name("v"), &to(32)).unwrap();
    let snapshot = acme.create_snapshot(&name("s"), &of("v")).unwrap();
    assert_eq!(snapshot.volume, Some(name("v")));
    let smaller = acme.resize_volume(&name("v"), &to(8));
    assert_eq!(code(smaller), ErrorCode::Forbidden);
    acme.create_volume(&name("c"), &clone_of("s")).unwrap();
    acme.rollback_volume(&name("v"), &back_to("s")).unwrap();
    let rename = VolumeRename { name: name("w") };
    acme.rename_volume(&name("v"), &rename).unwrap();
    let three = GrantUse {
        bytes: 96 * MIB,
        volumes: 2,
        snapshots: 1,
    };
    assert_eq!(used(&acme), three);

    let full = ErrorCode::OutOfSpace;
    assert_eq!(code(acme.create_volume(&name("x"), &of_pool(5))), full);
    assert_eq!(code(acme.create_volume(&name("x"), &clone_of("s"))), full);
    assert_eq!(code(acme.resize_volume(&name("w"), &to(64))), full);
    assert_eq!(code(acme.create_snapshot(&name("t"), &of("w"))), full);
    let group = SnapshotGroup {
        snapshots: vec![api::NamedSnapshot {
            name: name("t"),
            volume: name("w"),
        }],
    };
    assert_eq!(code(acme.create_snapshots(&group)), full);
    // What was shrunk is not given back what others have meanwhile.
    node.answer(&["volume", "resize", "w", "12MiB", "--allow-shrink"]);
    acme.create_volume(&name("x"), &of_pool(24)).unwrap();
    let back = acme.rollback_volume(&name("w"), &back_to("s"));
    assert_eq!(code(back), full);
    acme.delete_volume(&name("x"), false).unwrap();
    node.answer(&["volume", "resize", "w", "32MiB"]);
    acme.create_volume(&name("x"), &of_pool(4)).unwrap();
    // Numbers count as well as bytes.
    acme.delete_volume(&name("c"), false).unwrap();
    acme.create_volume(&name("y"), &of_pool(1)).unwrap();
    assert_eq!(code(acme.create_volume(&name("z"), &of_pool(1))), full);
    acme.create_snapshot(&name("t"), &of("x")).unwrap();
    assert_eq!(code(acme.create_snapshot(&name("u"), &of("x"))), full);

    node.kill();
    node.start();
    // The node is at another address now.
    node.client().revoke_token(&name("acme")).unwrap();
    let acme = operator(&node, "acme");
    assert_eq!(code(acme.create_volume(&name("z"), &of_pool(1))), full);
    assert_eq!(
        code(acme.delete_volume(&name("w"), false)),
        ErrorCode::InUse
    );
    acme.delete_snapshot(&name("s").into()).unwrap();
    for volume in ["w", "y"] {
        acme.delete_volume(&name(volume), false).unwrap();
    }
    node.answer(&["tenant", "revoke", "acme", "pool"]);
    assert_eq!(
        code(acme.resize_volume(&name("x"), &to(5))),
        ErrorCode::Forbidden
    );
    let log = node.client().audit(0).unwrap().items;
    let by = log.iter().filter(|entry| entry.token == name("acme"));
    assert!(
        by.clone()
            .any(|entry| entry.path == "/v1/snapshots/s" && entry.status == 200)
    );
    assert!(by.clone().any(|entry| entry.code == Some(full)));
}

#[test]
fn a_tenant_touches_nothing_of_another() {
    let node = Node::develop(&[]);
    let admin = node.client();
    for tenant in ["acme", "rival"] {
        grant(&node, tenant, 1000);
    }
    let (acme, rival) = (operator(&node, "acme"), operator(&node, "rival"));
    let host = HostSpec {
        nqn: NQN.into(),
        tenant: Some(name("rival")),
    };
    admin.add_host(&name("theirs"), &host).unwrap();
    let grouped = VolumeSpec {
        subsystem: Some(name("group")),
        hosts: vec![name("theirs")],
        ..of_pool(8)
    };
    rival.create_volume(&name("r"), &grouped).unwrap();
    rival.create_volume(&name("old"), &of_pool(8)).unwrap();
    let rename = VolumeRename { name: name("new") };
    rival.rename_volume(&name("old"), &rename).unwrap();
    rival.create_snapshot(&name("rs"), &of("r")).unwrap();
    acme.create_volume(&name("a"), &of_pool(8)).unwrap();
    acme.create_snapshot(&name("as"), &of("a")).unwrap();
    admin.create_snapshot(&name("ds"), &of("demo")).unwrap();

    let missing = ErrorCode::NotFound;
    for volume in ["r", "demo"] {
        assert_eq!(code(acme.create_snapshot(&name("x"), &of(volume))), missing);
        let both = ["a", volume].map(|volume| api::NamedSnapshot {
            name: name(&format!("of-{volume}")),
            volume: name(volume),
        });
        let group = SnapshotGroup {
            snapshots: both.to_vec(),
        };
        assert_eq!(code(acme.create_snapshots(&group)), missing);
        let volume = name(volume);
        assert_eq!(code(acme.resize_volume(&volume, &to(16))), missing);
        assert_eq!(code(acme.rename_volume(&volume, &rename)), missing);
        assert_eq!(code(acme.rollback_volume(&volume, &back_to("as"))), missing);
        assert_eq!(code(acme.create_volume(&volume, &of_pool(8))), missing);
    }
    for snapshot in ["rs", "ds"] {
        let named = name(snapshot);
        assert_eq!(code(acme.delete_snapshot(&named.clone().into())), missing);
        assert_eq!(
            code(acme.create_volume(&name("x"), &clone_of(snapshot))),
            missing
        );
        assert_eq!(
            code(acme.rollback_volume(&name("a"), &back_to(snapshot))),
            missing
        );
        let taken = refusal(acme.create_snapshot(&named, &of("a")));
        assert_eq!(taken.0, ErrorCode::AlreadyExists);
        assert!(!taken.1.contains("rival"), "{}", taken.1);
    }
    let shown = acme.snapshots().unwrap().items;
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(admin.snapshots().unwrap().items.len(), 3);

    // Their hosts, their subsystems, and that of a volume that is called otherwise by now.
    let with = |change: fn(&mut VolumeSpec)| {
        let mut spec = of_pool(8);
        change(&mut spec);
        refusal(acme.create_volume(&name("x"), &spec))
    };
    let invalid = ErrorCode::InvalidArgument;
    let exposed = with(|spec| spec.hosts = vec![name("theirs")]);
    assert!(exposed.0 == invalid && exposed.1.contains("no host is named theirs"));
    for group in ["group", "old"] {
        let spec = VolumeSpec {
            subsystem: Some(name(group)),
            ..of_pool(8)
        };
        let joined = refusal(acme.create_volume(&name("x"), &spec));
        assert_eq!(
            joined,
            (ErrorCode::InUse, format!("subsystem {group} is taken"))
        );
    }
    let given = with(|spec| spec.tenant = Some(name("rival")));
    assert_eq!(given.0, invalid);
    let drive = VolumeSpec {
        drive: Some(name("d0")),
        ..VolumeSpec::default()
    };
    assert_eq!(
        code(acme.create_volume(&name("x"), &drive)),
        ErrorCode::Forbidden
    );
    let away = VolumeSpec {
        tenant: Some(name("rival")),
        ..of_pool(8)
    };
    assert_eq!(code(acme.create_volume(&name("a"), &away)), invalid);

    // What a tenant may do is not for it to say, nor what others may.
    let all = Grant::of(Size(1 << 40));
    let pool = name("pool");
    assert_eq!(
        code(acme.grant_pool(&name("acme"), &pool, &all)),
        ErrorCode::Forbidden
    );
    assert_eq!(
        code(acme.revoke_pool(&name("rival"), &pool)),
        ErrorCode::Forbidden
    );
    assert_eq!(code(acme.tenant(&name("rival"))), ErrorCode::Forbidden);
    assert_eq!(code(acme.tenants()), ErrorCode::Forbidden);
    assert_eq!(rival.volumes().unwrap().items.len(), 2);
}

/// A volume of another is answered as one that is not there, to the letter. Histories of pools,
/// drives and the node are refused, be there such a thing or not.
#[test]
fn a_tenant_is_told_nothing_of_a_volume_of_another() {
    let node = Node::develop(&[]);
    for tenant in ["acme", "rival"] {
        grant(&node, tenant, 100);
    }
    let token = token(&node, "acme");
    let (acme, rival) = (client(&node, token.clone()), operator(&node, "rival"));
    acme.create_volume(&name("mine"), &of_pool(8)).unwrap();
    rival.create_volume(&name("theirs"), &of_pool(8)).unwrap();
    let history = |token: &str, query: &str| {
        let path = format!("/v1/history?{query}");
        let (status, _, body) = exchange_as(token, &node, ("GET", &path), &[], "");
        (status, body)
    };
    let of_volumes = |names: &str| history(token.reveal(), &format!("kind=volume&names={names}"));
    assert_eq!(of_volumes("mine").0, 200);
    let admin = node.admin_token();
    assert_eq!(history(&admin, "kind=volume&names=theirs,demo").0, 200);
    let (missing, also_missing) = (of_volumes("nowhere"), of_volumes("mine,nowhere"));
    assert_eq!((missing.0, also_missing.0), (404, 404));
    let status = |volume: &str| refusal(acme.status_for(&name(volume)));
    for volume in ["theirs", "demo"] {
        let named = |(code, answer): &(u16, String)| (*code, answer.replace("nowhere", volume));
        assert_eq!(of_volumes(volume), named(&missing));
        let both = of_volumes(&format!("mine,{volume}"));
        assert_eq!(both, named(&also_missing));
        let (code, message) = status("nowhere");
        assert_eq!(status(volume), (code, message.replace("nowhere", volume)));
    }
    for (kind, there) in [("pool", "pool"), ("drive", "d0")] {
        let [one, other] = [there, "nowhere"].map(|object| {
            let query = format!("kind={kind}&names={object}");
            history(token.reveal(), &query)
        });
        assert!(one.0 == 403 && one == other, "{one:?} {other:?}");
    }
    assert_eq!(history(token.reveal(), "kind=node").0, 403);
}

/// Hosts of a volume would have found another one in its subsystem.
#[test]
fn a_renamed_volume_keeps_its_subsystem_to_itself() {
    let node = Node::develop(&[]);
    let client = node.client();
    client.create_volume(&name("first"), &of_pool(8)).unwrap();
    let rename = VolumeRename {
        name: name("second"),
    };
    client.rename_volume(&name("first"), &rename).unwrap();
    let spec = VolumeSpec {
        subsystem: Some(name("first")),
        ..of_pool(8)
    };
    let refused = refusal(client.create_volume(&name("x"), &spec));
    assert!(
        refused.1.contains("second has subsystem first"),
        "{}",
        refused.1
    );
}

#[test]
fn grants_are_for_pools_that_are_there() {
    let node = Node::develop(&[]);
    node.refuses(&[
        (
            &["tenant", "grant", "acme", "elsewhere", "--size", "1GiB"],
            1,
            &["no pool is named elsewhere"],
        ),
        (
            &["tenant", "grant", "acme", "pool", "--size", "much"],
            2,
            &["--size", "much"],
        ),
        (
            &["tenant", "revoke", "acme", "pool"],
            1,
            &["no grant in pool pool"],
        ),
    ]);
    let granted = node.answer(&["tenant", "grant", "acme", "pool", "--size", "1GiB"]);
    assert!(
        granted.contains("0 B of 1 GiB, 0 of 100 volumes"),
        "{granted}"
    );
    assert_eq!(node.answer(&["tenant", "show", "acme"]), granted);
}

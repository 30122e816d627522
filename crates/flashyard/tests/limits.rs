//! Limits of volumes and tenants, over a real connection: never exceeded, kept through SIGKILL,
//! changed live. That they are reached as well is proven where time is virtual: see `nvme_target`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::Child;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use api::{ErrorCode, Limit, Limits, Role, TokenSpec};
use client::{Client, ClientError, Login};
use support::{Node, Refused, name};

fn total(iops: u64) -> Limits {
    Limits {
        total: Limit {
            iops: Some(iops),
            ..Limit::default()
        },
        ..Limits::default()
    }
}

/// So many reads of 4 KiB, a good number of them outstanding.
fn start_reads(node: &Node, volume: &str, count: u64) -> Child {
    let nqn = node.client().volume(&name(volume)).unwrap().nqn;
    let target = format!("tcp://{}/{nqn}", node.endpoints().nvme[0]);
    let (count, program) = (count.to_string(), env!("CARGO_BIN_EXE_flashyard"));
    Command::new(program)
        .args(["perf", &target, "--iodepth", "32", "--number-ios", &count])
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// That so many reads of these volumes together take no less than a limit allows; how much more
/// they take is the machine's affair.
fn assert_held(node: &Node, volumes: &[&str], count: u64, iops: u64) {
    let began = Instant::now();
    let share = count / volumes.len() as u64;
    let readers: Vec<Child> = volumes
        .iter()
        .map(|volume| start_reads(node, volume, share))
        .collect();
    for mut reader in readers {
        assert!(reader.wait().unwrap().success());
    }
    let burst = iops / 100 + 1;
    let least = Duration::from_secs_f64((count - burst) as f64 / iops as f64);
    let took = began.elapsed();
    assert!(took >= least, "{count} reads in {took:?}, not {least:?}");
}

#[test]
fn a_volume_is_held_to_its_limits_also_after_a_kill() {
    let mut node = Node::develop(&["--drives", "1"]);
    node.answer(&["volume", "limit", "demo", "--iops", "1000"]);
    assert_held(&node, &["demo"], 1500, 1000);
    node.kill();
    node.start();
    let demo = node.client().volume(&name("demo")).unwrap();
    assert_eq!(demo.limits, total(1000));
    assert_held(&node, &["demo"], 1500, 1000);

    // A host that waits for the limit is there when it changes.
    node.answer(&["volume", "limit", "demo", "--iops", "100"]);
    let mut waiting = start_reads(&node, "demo", 3000);
    node.answer(&["volume", "limit", "demo"]);
    assert!(waiting.wait().unwrap().success());
    assert!(node.client().volume(&name("demo")).unwrap().limits == Limits::default());
    let events = node.client().events(0).unwrap().items;
    assert!(
        events
            .iter()
            .any(|event| event.message == "limited no more")
    );
}

/// A limit for each GiB grows and shrinks with the volume, whose pool remembers it.
#[test]
fn a_limit_per_gib_follows_the_volume() {
    let mut node = Node::develop(&[]);
    let create = ["volume", "create", "v", "--pool", "pool", "--allow", "any"];
    node.answer(&[&create[..], &["--size", "2GiB"]].concat());
    node.answer(&["volume", "limit", "v", "--iops-per-gib", "1000"]);
    assert_held(&node, &["v"], 2000, 2000);
    node.answer(&["volume", "resize", "v", "1GiB", "--allow-shrink"]);
    assert_held(&node, &["v"], 1500, 1000);
    node.kill();
    node.start();
    let limits = node.client().volume(&name("v")).unwrap().limits;
    assert_eq!(limits.total.iops_per_gib, Some(1000));
    assert_held(&node, &["v"], 1500, 1000);
}

/// What a tenant is promised puts its pools under turns, is kept, and is told.
#[test]
fn a_tenant_has_a_minimum_for_its_volumes_together() {
    let mut node = Node::develop(&[]);
    let create = ["volume", "create", "v", "--pool", "pool"];
    let of_acme = ["--size", "64MiB", "--allow", "any", "--tenant", "acme"];
    node.answer(&[&create[..], &of_acme].concat());
    let told = node.answer(&["tenant", "limit", "acme", "--minimum-iops", "700"]);
    assert!(told.contains("minimum 700 IOPS"), "{told}");
    node.kill();
    node.start();
    let readers = ["v", "demo"].map(|volume| start_reads(&node, volume, 2000));
    for mut reader in readers {
        assert!(reader.wait().unwrap().success());
    }
    let acme = node.client().tenant(&name("acme")).unwrap();
    assert_eq!(acme.limits.minimum_iops, Some(700));
    let limits = ["--iops", "1000", "--minimum-iops", "700"];
    node.answer(&[&["tenant", "limit", "acme"][..], &limits].concat());
    assert_held(&node, &["v"], 1500, 1000);
}

#[test]
fn a_tenant_is_held_to_its_limits_over_all_its_volumes() {
    let mut node = Node::develop(&[]);
    for volume in ["a", "b"] {
        let create = [
            "volume", "create", volume, "--pool", "pool", "--size", "64MiB",
        ];
        node.answer(&[&create[..], &["--allow", "any", "--tenant", "acme"]].concat());
    }
    let tenants = node.client().tenants().unwrap().items;
    assert_eq!(tenants[0].volumes, [name("a"), name("b")]);
    node.answer(&["tenant", "limit", "acme", "--iops", "1000"]);
    assert_held(&node, &["a", "b"], 2000, 1000);
    node.kill();
    node.start();
    assert_held(&node, &["a", "b"], 2000, 1000);
    let told = node.answer(&["tenant", "list"]);
    assert!(
        told.contains("total 1000 IOPS") && told.contains("a,b"),
        "{told}"
    );
}

#[test]
fn wrong_limits_are_explained() {
    let node = Node::develop(&["--drives", "1"]);
    let limit = |flag: &'static str, value: &'static str| ["volume", "limit", "demo", flag, value];
    let cases: &[Refused] = &[
        (
            &limit("--iops", "99"),
            1,
            &["total.iops", "99", "100 or more"],
        ),
        (
            &limit("--write-bandwidth", "64KiB"),
            1,
            &["write.bytes_per_second", "1048576 or more"],
        ),
        (&limit("--burst", "0"), 1, &["burst_ms", "1 to 60000"]),
        (
            &limit("--minimum-iops", "500"),
            1,
            &["minimum_iops", "volume of a pool"],
        ),
        (&limit("--iops", "many"), 2, &["--iops", "many"]),
        (
            &["volume", "limit", "nobody", "--iops", "100"],
            1,
            &["no volume is named nobody"],
        ),
        (
            &["tenant", "limit", "acme", "--minimum-iops", "99"],
            1,
            &["minimum_iops", "100 or more"],
        ),
        (
            &["tenant", "limit", "acme", "--iops-per-gib", "0"],
            1,
            &["total.iops_per_gib", "1 or more"],
        ),
    ];
    node.refuses(cases);
}

/// Who is limited does not set the limits.
#[test]
fn a_tenant_does_not_limit_itself() {
    let node = Node::develop(&[]);
    let create = ["volume", "create", "v", "--pool", "pool"];
    node.answer(&[&create[..], &["--size", "64MiB", "--tenant", "acme"]].concat());
    let spec = TokenSpec {
        role: Role::Operator,
        tenant: Some(name("acme")),
        expires: None,
    };
    let token = node.client().create_token(&name("t"), &spec).unwrap();
    let client = Client::with(&Login {
        url: node.endpoints().api.clone(),
        token: token.secret,
        certificate: None,
    });
    let client = client.unwrap();
    client.volume(&name("v")).unwrap();
    for refused in [
        client.limit_volume(&name("v"), &total(100_000)).map(drop),
        client
            .limit_tenant(&name("acme"), &total(100_000))
            .map(drop),
    ] {
        let Err(ClientError::Refused(body)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(body.code, ErrorCode::Forbidden);
    }
}

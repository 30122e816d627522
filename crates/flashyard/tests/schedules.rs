//! Schedules: a node takes snapshots by the clock, keeps what it should, and says what it cannot.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;

use api::{ErrorCode, Grant, GrantUse, Keep, Schedule, ScheduleSpec, Size, VolumeSpec};
use client::{Client, ClientError, Login};
use support::{Node, name, wait_until_or_tell};

const MIB: u64 = 1 << 20;

/// A node with a pool `p` that has the volumes `data` and `log`.
fn with_volumes() -> Node {
    let node = Node::configured("[pools]\ndrive_wait_seconds = 0\n");
    for drive in ["a", "b"] {
        let path = node.path().join(drive);
        let path = path.to_str().unwrap();
        node.answer(&["drive", "add", drive, path, "--size", "64MiB"]);
    }
    node.answer(&["pool", "create", "p", "--level", "raid1", "--drives", "a,b"]);
    for volume in ["data", "log"] {
        let create = ["volume", "create", volume, "--pool", "p", "--size", "4MiB"];
        node.answer(&create);
    }
    node
}

/// What gives a program a clock of its own.
fn library() -> PathBuf {
    let found = std::fs::read_dir("/usr/lib").unwrap().find_map(|entry| {
        let library = entry.unwrap().path().join("faketime/libfaketimeMT.so.1");
        library.exists().then_some(library)
    });
    found.expect("faketime is installed: make clock-tools")
}

/// Kills the node, and starts it when its clock says `time`, which is UTC.
fn start_at(node: &mut Node, time: &str) {
    let preload = format!("LD_PRELOAD={}", library().display());
    let time = format!("FAKETIME=@{time}");
    let only = "FAKETIME_DONT_FAKE_MONOTONIC=1";
    node.launch_by(&["env", "TZ=UTC", &preload, &time, only]);
    node.kill();
    node.start();
}

fn schedule(node: &Node, called: &str) -> Schedule {
    node.client().schedule(&name(called)).unwrap()
}

/// What the schedule keeps of its first volume, without the name of that.
fn kept(node: &Node, called: &str) -> Vec<String> {
    let schedule = schedule(node, called);
    let prefix = format!("{}-", schedule.volumes[0]);
    let times = schedule.snapshots.iter();
    let times = times.filter_map(|snapshot| snapshot.as_str().strip_prefix(&prefix));
    times.map(str::to_owned).collect()
}

fn wait_to_keep(node: &Node, called: &str, expected: &[&str]) {
    let told = || format!("{expected:?}, not {:?}", schedule(node, called));
    wait_until_or_tell(told, || kept(node, called) == expected);
    // It keeps that, and nothing else is there.
    let there = node.client().snapshots().unwrap().items;
    let there: BTreeSet<String> = there.into_iter().map(|it| it.name).collect();
    let noted = schedule(node, called).snapshots;
    let noted: BTreeSet<String> = noted.iter().map(ToString::to_string).collect();
    assert_eq!(there, noted);
}

#[test]
fn snapshots_come_with_the_hour_and_of_days_and_weeks_the_first_stays() {
    let mut node = with_volumes();
    start_at(&mut node, "2026-11-26 17:59:55");
    let schedule_both = ["snapshot", "schedule", "data", "log"];
    let numbers = ["--hourly", "3", "--daily", "2", "--weekly", "2"];
    let said = node.answer(&[&schedule_both[..], &numbers].concat());
    assert!(said.contains("data-2026-11-26t17.59"), "{said}");
    assert!(said.contains("log-2026-11-26t17.59"), "{said}");
    assert!(said.contains("2026-11-26T18:00:00"), "the next: {said}");
    // The hour begins while it runs.
    let mut expected = vec!["2026-11-26t17.59", "2026-11-26t18.00"];
    wait_to_keep(&node, "data", &expected);
    for (time, minute) in [
        ("2026-11-26 19:30:00", "2026-11-26t19.30"),
        ("2026-11-26 20:10:00", "2026-11-26t20.10"),
    ] {
        start_at(&mut node, time);
        // Three hours stay, and the first of the day.
        expected.push(minute);
        wait_to_keep(&node, "data", &expected);
    }
    start_at(&mut node, "2026-11-26 20:30:00");
    wait_to_keep(&node, "data", &expected);
    start_at(&mut node, "2026-11-26 21:00:00");
    let first = expected[0];
    expected = vec![
        first,
        "2026-11-26t19.30",
        "2026-11-26t20.10",
        "2026-11-26t21.00",
    ];
    wait_to_keep(&node, "data", &expected);
    // Days without the node: the first of the week is the first of that day too.
    start_at(&mut node, "2026-11-30 09:00:00");
    expected = vec![
        first,
        "2026-11-26t20.10",
        "2026-11-26t21.00",
        "2026-11-30t09.00",
    ];
    wait_to_keep(&node, "data", &expected);
    start_at(&mut node, "2026-12-09 09:00:00");
    expected = vec!["2026-11-26t21.00", "2026-11-30t09.00", "2026-12-09t09.00"];
    wait_to_keep(&node, "data", &expected);
    // Of both volumes, at one instant.
    let snapshots = node.client().snapshots().unwrap().items;
    let taken = |volume: &str| -> Vec<String> {
        let of = snapshots
            .iter()
            .filter(|it| it.volume == Some(name(volume)));
        of.map(|it| it.taken.clone().unwrap()).collect()
    };
    assert_eq!(taken("data"), taken("log"));
    assert_eq!(taken("data").len(), 3);
}

#[test]
fn a_schedule_follows_its_volumes_and_says_what_it_cannot_do() {
    let mut node = with_volumes();
    start_at(&mut node, "2026-11-26 12:00:00");
    node.answer(&[
        "snapshot", "schedule", "data", "log", "--hourly", "4", "--name", "both",
    ]);
    node.answer(&["snapshot", "schedule", "log", "--daily", "2"]);
    // A minute has one snapshot of a volume: this schedule takes its own in the next.
    let other = schedule(&node, "log");
    assert!(
        other.snapshots.is_empty() && other.problem.is_none(),
        "{other:?}"
    );
    node.answer(&["snapshot", "unschedule", "log"]);
    node.answer(&["volume", "rename", "data", "base"]);
    node.answer(&["volume", "delete", "log"]);
    start_at(&mut node, "2026-11-26 13:00:00");
    let told = || format!("{:?}", schedule(&node, "both"));
    wait_until_or_tell(told, || schedule(&node, "both").snapshots.len() == 3);
    let both = schedule(&node, "both");
    assert_eq!(both.volumes, [name("base")]);
    assert_eq!(kept(&node, "both"), ["2026-11-26t13.00"]);
    node.answer(&["pool", "export", "p"]);
    start_at(&mut node, "2026-11-26 14:00:00");
    let told = || format!("{:?}", schedule(&node, "both"));
    wait_until_or_tell(told, || schedule(&node, "both").problem.is_some());
    let events = node.answer(&["event", "list"]);
    assert!(events.contains("its pool is not on this node"), "{events}");
    let shown = node.answer(&["snapshot", "schedules"]);
    assert!(shown.contains("its pool is not on this node"), "{shown}");
    node.answer(&["pool", "import", "p"]);
    // Deleted by hand, it is not taken again within its hour.
    node.answer(&["snapshot", "delete", "base-2026-11-26t13.00"]);
    start_at(&mut node, "2026-11-26 14:30:00");
    let told = || format!("{:?}", schedule(&node, "both"));
    wait_until_or_tell(told, || kept(&node, "both") == ["2026-11-26t14.30"]);
    assert_eq!(schedule(&node, "both").problem, None);
    node.answer(&["snapshot", "delete", "base-2026-11-26t14.30"]);
    start_at(&mut node, "2026-11-26 14:40:00");
    let told = || format!("{:?}", schedule(&node, "both"));
    wait_until_or_tell(told, || kept(&node, "both").is_empty());
    // Those that it took stay when it goes.
    node.answer(&["snapshot", "unschedule", "both"]);
    let left = node.client().snapshots().unwrap().items;
    let left: Vec<String> = left.into_iter().map(|it| it.name).collect();
    assert_eq!(left, ["data-2026-11-26t12.00", "log-2026-11-26t12.00"]);
}

#[test]
fn what_no_schedule_can_be_is_refused() {
    let node = with_volumes();
    let long = "l".repeat(47);
    node.answer(&["volume", "create", &long, "--pool", "p", "--size", "4MiB"]);
    node.answer(&["drive", "add", "whole", "--memory", "16MiB"]);
    node.answer(&["volume", "create", "whole", "--drive", "whole"]);
    let cases: &[support::Refused] = &[
        (
            &["snapshot", "schedule", "data"],
            1,
            &["hourly, daily and weekly", "at least one"],
        ),
        (
            &["snapshot", "schedule", "data", "--hourly", "1001"],
            1,
            &["hourly", "1001", "0 to 1000"],
        ),
        (
            &["snapshot", "schedule", "none", "--hourly", "1"],
            1,
            &["no volume is named none"],
        ),
        (
            &["snapshot", "schedule", "whole", "--hourly", "1"],
            1,
            &["takes drive whole whole", "a volume of a pool"],
        ),
        (
            &["snapshot", "schedule", "data", "data", "--hourly", "1"],
            1,
            &["named twice"],
        ),
        (
            &["snapshot", "schedule", &long, "--hourly", "1"],
            1,
            &["47 characters", "allowed: 46"],
        ),
        (
            &["snapshot", "unschedule", "none"],
            1,
            &["no schedule is named none"],
        ),
    ];
    node.refuses(cases);
    assert!(node.client().schedules().unwrap().items.is_empty());
    let nothing = ScheduleSpec {
        volumes: Vec::new(),
        keep: Keep {
            hourly: 1,
            ..Keep::default()
        },
    };
    let refused = node.client().set_schedule(&name("s"), &nothing);
    let Err(ClientError::Refused(refused)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.code, ErrorCode::InvalidArgument);
}

#[test]
fn a_tenant_schedules_its_own_volumes_within_its_grant() {
    let node = with_volumes();
    let admin = node.client();
    let grant = Grant {
        snapshots: 1,
        ..Grant::of(Size(64 * MIB))
    };
    admin.grant_pool(&name("acme"), &name("p"), &grant).unwrap();
    let token = node.answer(&[
        "token", "create", "ops", "--role", "operator", "--tenant", "acme", "--output", "json",
    ]);
    let token: serde_json::Value = serde_json::from_str(&token).unwrap();
    let login = serde_json::json!({"url": node.endpoints().api, "token": token["secret"]});
    let login: Login = serde_json::from_value(login).unwrap();
    let acme = Client::with(&login).unwrap();
    let spec: VolumeSpec =
        serde_json::from_value(serde_json::json!({"pool": "p", "size": "4MiB"})).unwrap();
    for volume in ["theirs", "more"] {
        acme.create_volume(&name(volume), &spec).unwrap();
    }
    let of = |volume: &str| ScheduleSpec {
        volumes: vec![name(volume)],
        keep: Keep {
            daily: 2,
            ..Keep::default()
        },
    };
    let code = |done: Result<Schedule, ClientError>| match done {
        Err(ClientError::Refused(refused)) => refused.code,
        other => panic!("{other:?}"),
    };
    let refused = acme.set_schedule(&name("s"), &of("data"));
    assert_eq!(code(refused), ErrorCode::NotFound, "it is not theirs");
    let made = acme.set_schedule(&name("s"), &of("theirs")).unwrap();
    assert_eq!((made.tenant, made.problem), (Some(name("acme")), None));
    assert_eq!(made.snapshots.len(), 1);
    let used = admin.tenant(&name("acme")).unwrap().grants[0].used;
    let whole = GrantUse {
        bytes: 12 * MIB,
        volumes: 2,
        snapshots: 1,
    };
    assert_eq!(used, Some(whole));
    // The grant is used up: another schedule is there, and says why it takes nothing.
    let full = acme.set_schedule(&name("t"), &of("more")).unwrap();
    assert!(full.snapshots.is_empty(), "{full:?}");
    assert!(full.problem.unwrap().contains("snapshots"));
    // Others' schedules are not there for them, and their names are taken.
    admin.set_schedule(&name("ours"), &of("data")).unwrap();
    let seen = acme.schedules().unwrap().items;
    let seen: Vec<String> = seen.iter().map(|it| it.name.to_string()).collect();
    assert_eq!(seen, ["s", "t"]);
    assert_eq!(code(acme.schedule(&name("ours"))), ErrorCode::NotFound);
    let taken = acme.set_schedule(&name("ours"), &of("theirs"));
    assert_eq!(code(taken), ErrorCode::AlreadyExists);
    assert!(acme.remove_schedule(&name("ours")).is_err());
    assert_eq!(admin.schedules().unwrap().items.len(), 3);
}

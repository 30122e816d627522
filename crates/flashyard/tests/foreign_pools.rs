//! Pools that come from elsewhere: of a later format, used apart, called like one that is here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
#[path = "support/label.rs"]
mod label;
mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use api::{ErrorCode, PoolImport, PoolState};
use block::{BlockDevice, Buffer, Durability, Lba};
use client::ClientError;
use connected::connected;
use support::{Node, Refused, name, text};

/// The first version of the format of pools that this program does not know.
const LATER: u32 = 4;

fn fill(node: &Node, volume: &str, byte: u8) {
    connected(node, volume, async |device, _controller| {
        let mut buffer = Buffer::zeroed(4096);
        buffer.fill(byte);
        let written = device.write(Lba(7), buffer, Durability::Durable).await;
        assert_eq!(written.1, Ok(()));
    });
}

fn holds(node: &Node, volume: &str, byte: u8) {
    connected(node, volume, async |device, _controller| {
        let (buffer, result) = device.read(Lba(7), Buffer::new(4096)).await;
        assert_eq!(result, Ok(()));
        assert!(buffer.iter().all(|found| *found == byte));
    });
}

fn drive(node: &Node, number: usize) -> PathBuf {
    let directory = node.path().canonicalize().unwrap();
    directory.join(format!("drives/d{number}.img"))
}

fn add_drives(node: &Node, prefix: &str, drives: &[PathBuf]) {
    for (number, path) in drives.iter().enumerate() {
        let add = ["drive", "add", &format!("{prefix}{number}")];
        node.answer(&[&add[..], &[path.to_str().unwrap()]].concat());
    }
}

fn reason(node: &Node) -> String {
    let pool = node.client().pool(&name("pool")).unwrap();
    assert_eq!(pool.state, PoolState::Offline);
    pool.reason.unwrap()
}

fn import_refused(node: &Node, pool: &str, words: &[&str]) -> ErrorCode {
    let refused = node
        .client()
        .import_pool(&name(pool), &PoolImport::default());
    let Err(ClientError::Refused(error)) = refused else {
        panic!("{refused:?}");
    };
    for word in words {
        assert!(error.message.contains(word), "{word}: {}", error.message);
    }
    error.code
}

fn contents(drives: &[PathBuf]) -> Vec<Vec<u8>> {
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    drives.iter().map(read).collect()
}

#[test]
fn a_pool_with_drives_of_a_later_format_is_not_opened_without_them() {
    let mut first = Node::develop(&[]);
    fill(&first, "demo", 3);
    first.answer(&["pool", "export", "pool"]);
    first.kill();
    let drives: Vec<PathBuf> = (0..6).map(|number| drive(&first, number)).collect();
    for number in [1, 4] {
        label::set_version(&drives[number], LATER);
    }
    let before = contents(&drives);
    let words = ["version 4", "versions up to 3", "newer"];

    // At the start of a node that has it, which without them would be degraded.
    let mut own = Node::develop(&[]);
    own.kill();
    for number in [1, 4] {
        label::set_version(&drive(&own, number), LATER);
    }
    let own_drives: Vec<PathBuf> = (0..6).map(|number| drive(&own, number)).collect();
    let own_before = contents(&own_drives);
    own.start();
    let told = reason(&own);
    for word in words.iter().chain(&["d1", "d4"]) {
        assert!(told.contains(word), "{word}: {told}");
    }
    own.kill();
    assert!(contents(&own_drives) == own_before, "nothing is written");

    // On import.
    let second = Node::configured("[node]\nname = \"second\"\n");
    add_drives(&second, "e", &drives);
    let code = import_refused(&second, "pool", &[&words[..], &["e1", "e4"]].concat());
    assert_eq!(code, ErrorCode::InvalidArgument);
    let forced = second.ask(&["pool", "import", "pool", "--force"]);
    assert_eq!(forced.status.code(), Some(1), "{}", text(&forced.stderr));
    let listed = text(&second.ask(&["pool", "import"]).stdout);
    assert!(listed.contains("4 of 6"), "{listed}");
    drop(second);
    assert!(contents(&drives) == before, "nothing is written");

    // A drive of another pool's later format is in nobody's way.
    for number in [1, 4] {
        label::set_version(&drives[number], LATER - 1);
    }
    let other = first.path().join("other.img");
    std::fs::copy(&drives[0], &other).unwrap();
    label::set_pool(&other, [9; 16]);
    label::set_version(&other, LATER);
    let second = Node::configured("[node]\nname = \"second\"\n");
    add_drives(&second, "e", &drives);
    second.answer(&["drive", "add", "other", other.to_str().unwrap()]);
    second.answer(&["pool", "import", "pool"]);
    holds(&second, "demo", 3);
}

#[test]
fn a_pool_that_is_all_of_a_later_format_is_called_that() {
    let mut first = Node::develop(&[]);
    first.answer(&["pool", "export", "pool"]);
    first.kill();
    let drives: Vec<PathBuf> = (0..6).map(|number| drive(&first, number)).collect();
    for path in &drives {
        label::set_version(path, 7);
    }
    let second = Node::configured("[node]\nname = \"second\"\n");
    add_drives(&second, "e", &drives);
    let code = import_refused(
        &second,
        "pool",
        &["version 7", "versions up to 3", "newer", "e0, e1"],
    );
    assert_eq!(code, ErrorCode::InvalidArgument);
    let listed = second.answer(&["pool", "import"]);
    for part in ["e0", "e5", "format version 7"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert_eq!(
        import_refused(&second, "absent", &["absent"]),
        ErrorCode::NotFound
    );
}

#[test]
fn drives_that_were_used_apart_are_named_and_one_set_can_be_chosen() {
    let mut node = Node::develop(&["--drives", "2", "--level", "raid1"]);
    fill(&node, "demo", 1);
    node.kill();
    let aside = node.path().join("aside.img");
    for (gone, byte) in [(1, 10), (0, 20)] {
        std::fs::rename(drive(&node, gone), &aside).unwrap();
        node.start();
        fill(&node, "demo", byte);
        node.kill();
        std::fs::rename(&aside, drive(&node, gone)).unwrap();
    }
    node.start();
    let told = reason(&node);
    for word in ["used apart", "d0", "d1", "--drives"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    node.answer(&["pool", "import", "pool", "--drives", "d1"]);
    holds(&node, "demo", 20);
    // It stays chosen.
    node.kill();
    node.start();
    holds(&node, "demo", 20);
    node.answer(&["pool", "add-drive", "pool", "d0"]);
    node.kill();
    node.start();
    let pool = node.client().pool(&name("pool")).unwrap();
    let active = pool.members.iter().filter(|member| member.active);
    assert_eq!(active.count(), 2, "{pool:?}");
    holds(&node, "demo", 20);
}

/// That every drive of the pool is in use, and that there are so many.
fn is_whole(node: &Node, drives: usize) {
    let pool = node.client().pool(&name("pool")).unwrap();
    assert_eq!(pool.state, PoolState::Online, "{pool:?}");
    let active = pool.members.iter().filter(|member| member.active);
    assert_eq!(active.count(), drives, "{pool:?}");
}

#[test]
fn a_copy_beside_a_drive_costs_the_pool_no_member() {
    for level in ["raid0", "raid1"] {
        let mut node = Node::develop(&["--drives", "2", "--level", level]);
        fill(&node, "demo", 1);
        node.answer(&["pool", "export", "pool"]);
        let copy = node.path().canonicalize().unwrap().join("copy.img");
        std::fs::copy(drive(&node, 0), &copy).unwrap();
        // By its name it comes before the genuine one.
        node.answer(&["drive", "add", "a-copy", copy.to_str().unwrap()]);
        import_refused(&node, "pool", &["a-copy", "d0", "copies of one another"]);
        node.answer(&["pool", "import", "pool", "--drives", "d0,d1"]);
        is_whole(&node, 2);
        for byte in [2, 3] {
            fill(&node, "demo", byte);
            node.kill();
            node.start();
            is_whole(&node, 2);
            holds(&node, "demo", byte);
        }
        // What this node holds itself it may take off a drive that nothing uses.
        node.answer(&["drive", "wipe", "a-copy"]);
        node.answer(&["drive", "remove", "a-copy"]);
        node.kill();
        node.start();
        is_whole(&node, 2);
        holds(&node, "demo", 3);
    }
}

#[test]
fn drives_of_an_import_can_be_named() {
    let mut first = Node::develop(&[]);
    fill(&first, "demo", 5);
    first.answer(&["pool", "export", "pool"]);
    first.kill();
    let second = Node::configured("[node]\nname = \"second\"\n");
    let drives: Vec<PathBuf> = (0..6).map(|number| drive(&first, number)).collect();
    add_drives(&second, "e", &drives);
    second.answer(&["drive", "add", "blank", "--memory", "16MiB"]);
    let import = ["pool", "import", "pool", "--drives"];
    let cases: &[Refused] = &[
        (
            &[&import[..], &["e0,x"]].concat(),
            1,
            &["drives[1]", "no drive is named x"],
        ),
        (
            &[&import[..], &["e0,e1,blank"]].concat(),
            1,
            &["drives[2]", "carries no"],
        ),
        (
            &[&import[..], &["e0,e1,e0"]].concat(),
            1,
            &["drives[2]", "twice"],
        ),
        (&[&import[..], &["e0,e1"]].concat(), 1, &["2 of 6"]),
    ];
    second.refuses(cases);
    // Two fewer are enough.
    second.answer(&[&import[..], &["e0,e1,e2,e3"]].concat());
    holds(&second, "demo", 5);
}

#[test]
fn a_pool_is_imported_under_another_name_and_so_are_its_volumes() {
    let mut first = Node::develop(&[]);
    fill(&first, "demo", 5);
    first.kill();
    let mut second = Node::develop(&["--drives", "4"]);
    fill(&second, "demo", 6);
    let drives: Vec<PathBuf> = (0..6).map(|number| drive(&first, number)).collect();
    add_drives(&second, "e", &drives);
    let import = ["pool", "import", "pool", "--force"];
    let renamed = [&import[..], &["--as", "other"]].concat();
    let with = |more: &[&'static str]| [&renamed[..], more].concat();
    let cases: &[Refused] = &[
        (&import, 1, &["pool named pool", "--as"]),
        (&renamed, 1, &["demo", "--rename-volume demo="]),
        (
            &with(&["--rename-volume", "x=y"]),
            1,
            &["rename_volumes", "no volume x"],
        ),
        (&with(&["--rename-volume", "demo=demo"]), 1, &["demo"]),
        (
            &["pool", "import", "absent", "--drives", "e0"],
            1,
            &["drives[0]", "e0 carries pool pool and no pool named absent"],
        ),
        (
            &["pool", "import", "absent", "--drives", "d0"],
            1,
            &["drives[0]", "d0 carries pool pool, which is open here"],
        ),
    ];
    second.refuses(cases);
    // What was refused left everything as it was.
    let pools = second.client().pools().unwrap().items;
    assert_eq!(pools.len(), 1);
    holds(&second, "demo", 6);
    let listed = second.answer(&["pool", "import"]);
    assert!(
        listed.contains("6 of 6") && listed.contains("pool "),
        "{listed}"
    );

    let how = PoolImport {
        rename: Some(name("other")),
        rename_volumes: BTreeMap::from([(name("demo"), name("demo-2"))]),
        ..PoolImport::default()
    };
    let imported = second.client().import_pool(&name("pool"), &how).unwrap();
    assert_eq!(imported.name, name("other"));
    assert_eq!(imported.volumes, [name("demo-2")]);
    // Both nodes are called alike, and so were the volumes to their hosts.
    let [own, new] = ["demo", "demo-2"].map(|name| second.client().volume(&name.parse().unwrap()));
    let (own, new) = (own.unwrap(), new.unwrap());
    assert_ne!((&own.nqn, own.uuid), (&new.nqn, new.uuid));
    assert_eq!(new.hosts, [name("any")]);
    holds(&second, "demo-2", 5);
    second.kill();
    second.start();
    holds(&second, "demo-2", 5);
    let names: Vec<api::Name> = second
        .client()
        .pools()
        .unwrap()
        .items
        .into_iter()
        .map(|pool| pool.name)
        .collect();
    assert_eq!(names, [name("other"), name("pool")]);
    holds(&second, "demo", 6);
    second.answer(&["pool", "export", "other"]);
    let listed = second.answer(&["pool", "import"]);
    assert!(
        listed.contains("other"),
        "the name is on the drives: {listed}"
    );
}

#[test]
fn another_pool_of_the_name_does_not_take_the_place_of_one_whose_drives_are_away() {
    let mut first = Node::develop(&[]);
    first.answer(&["pool", "export", "pool"]);
    first.kill();
    let mut second = Node::develop(&["--drives", "4"]);
    second.kill();
    let aside = second.path().join("aside");
    std::fs::create_dir(&aside).unwrap();
    for number in 0..4 {
        std::fs::rename(drive(&second, number), aside.join(number.to_string())).unwrap();
    }
    second.start();
    let id = second.client().pool(&name("pool")).unwrap().id;
    let drives: Vec<PathBuf> = (0..6).map(|number| drive(&first, number)).collect();
    add_drives(&second, "e", &drives);
    let code = import_refused(&second, "pool", &["pool named pool", "offline", "--as"]);
    assert_eq!(code, ErrorCode::AlreadyExists);
    assert_eq!(second.client().pool(&name("pool")).unwrap().id, id);
}

//! What is promised to last, lasts: everything that people can set, on every kind of volume and
//! drive, is shown and served as it was after kills, stops, and pools that are let go of and taken.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/loop_device.rs"]
mod loop_device;
mod support;

use std::collections::BTreeMap;

use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller};
use loop_device::Loop;
use nvme::identify::Cns;
use reactor::{Reactor, ReactorConfig};
use serde_json::{Value, json};
use support::{Node, name, wait_until};

/// A host that all volumes but those of `KEYED` admit; it needs no key.
const HOST: &str = "nqn.2026-11.example.flashyard:plain";

/// A secret of a host, and a key for TLS, in files of these names.
const SECRETS: [(&str, &str); 2] = [
    (
        "secret",
        "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
    ),
    (
        "tls-key",
        "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
    ),
];

/// Operations of which no command here makes anything that lasts, and why.
const NOTHING_LASTS: &[(&str, &str)] = &[
    (
        "attach_namespace",
        "the machine's own drive remembers it: the guest of tests/vm",
    ),
    (
        "detach_namespace",
        "the machine's own drive remembers it: the guest of tests/vm",
    ),
    (
        "stop_scrub",
        "a scrub of a pool without data is over too soon: scrub.rs stops one",
    ),
];

/// Everything that is set, in this order. PATH is the node's directory, LOOP a loop device.
const SET: &str = "
    drive add a PATH/a --size 24MiB
    drive add b PATH/b --size 24MiB
    drive add c PATH/c --size 24MiB
    drive add x PATH/x --size 24MiB
    drive add y PATH/y --size 24MiB
    drive add z PATH/z --size 24MiB
    drive add whole PATH/whole --size 16MiB
    drive add looped LOOP
    drive add modelled --emulated cm7-r-7.68 --scale 0.00001 --directory PATH/modelled
    drive add granted --emulated cm7-r-7.68 --scale 0.00001 --directory PATH/granted
    namespace delete granted 1
    namespace create granted --size 16MiB
    namespace create granted --size 8MiB --block-size 512
    host add plain --nqn nqn.2026-11.example.flashyard:plain
    host add keyed --nqn nqn.2026-11.example.flashyard:keyed
    host add secure --nqn nqn.2026-11.example.flashyard:secure
    host add theirs --nqn nqn.2026-11.example.flashyard:theirs --tenant acme
    host add given --nqn nqn.2026-11.example.flashyard:given
    host add freed --nqn nqn.2026-11.example.flashyard:freed
    host add left --nqn nqn.2026-11.example.flashyard:left
    host remove left
    host key keyed --generate --mutual --hash sha384
    host tls-key secure --generate
    host key given --set PATH/secret
    host tls-key given --set PATH/tls-key
    host key freed --generate
    host key freed --remove
    host tls-key freed --generate
    host tls-key freed --remove
    drive grant granted plain
    drive grant modelled plain
    drive revoke modelled plain
    pool create p --level raid5 --drives a,b,x
    pool fail-drive p x
    pool add-drive p c
    pool add-drive p y
    pool remove-drive p y --wait
    pool create gone --level raid0 --drives z
    pool destroy gone
    drive wipe z
    drive remove z
    tenant grant acme p --size 4MiB --volumes 3 --snapshots 2
    tenant grant left p --size 1MiB
    tenant revoke left p
    tenant limit acme --iops 50000 --minimum-iops 700
    token create ci --role operator --expires-in 90d
    token create left --role viewer
    token revoke left
    token create acme-ops --role operator --tenant acme
    settings set --scrub-interval 14
    settings set --shutdown-timeout 7
    settings set --log-level debug
    settings set --graphite 127.0.0.1:9 --graphite-prefix fy
    settings set --syslog udp://127.0.0.1:9
    port set 1 --path non-optimized
    volume create whole --drive whole --allow plain
    volume create looped --drive looped --allow plain
    volume create modelled --drive modelled --allow plain
    volume create thin --pool p --size 1MiB --allow plain --allow keyed --allow secure
    volume create thick --pool p --size 1MiB --thick --allow any
    volume create small --pool p --size 1MiB --block-size 512 --allow plain
    volume create left --pool p --size 256KiB --subsystem pair --allow plain
    volume create gone --pool p --size 256KiB --subsystem pair --allow plain
    volume create right --pool p --size 256KiB --subsystem pair --allow plain
    volume delete gone
    volume create before --pool p --size 256KiB --allow plain
    volume rename before after
    volume allow small keyed
    volume deny small keyed
    volume create theirs --pool p --size 1MiB --tenant acme
    volume allow theirs theirs
    volume allow theirs plain
    volume limit whole --read-iops 20000 --bandwidth 500MB --burst 20
    volume limit thin --iops-per-gib 200000 --minimum-iops 500
    volume reserve small
    volume promote small
    snapshot schedule thick small --weekly 2 --name weeks
    snapshot schedule small --hourly 2 --name hours
    snapshot unschedule hours
    volume replicate small --to http://127.0.0.1:9 --pool p --every 1h --to-token-file PATH/secret
    volume replicate thin --to http://127.0.0.1:9 --pool p --every 1h --to-token-file PATH/secret
    volume unreplicate thin
";

/// What stands on the data that is written after that.
const THEN: &str = "
    volume snapshot thin monday
    volume snapshot theirs tuesday
    volume snapshot small noon
    snapshot create left=one right=two
    snapshot delete two
    snapshot create left=three right=four
    snapshot delete p/four
    volume clone monday copy --allow plain
    volume resize copy 2MiB
    volume protect whole
    volume protect copy
    volume protect looped
    volume protect looped --off
    pool scrub p --wait
";

fn set(node: &Node, lines: &str, device: &Loop) {
    let path = node.path().canonicalize().unwrap();
    let lines = lines.replace("PATH", path.to_str().unwrap());
    let lines = lines.replace("LOOP", &device.0);
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        node.answer(&line.split(' ').collect::<Vec<_>>());
    }
}

/// Parts of an answer, by these keys, of each of its items.
fn of_each(answer: impl serde::Serialize, keys: &[&str]) -> Value {
    let answer = serde_json::to_value(answer).unwrap();
    let items = answer["items"].as_array().unwrap();
    let part = |item: &Value| keys.iter().map(|key| item[*key].clone()).collect::<Value>();
    items.iter().map(part).collect()
}

/// All that the REST API shows of what was set. What only counts, or changes by itself, is not in
/// it.
fn shown(node: &Node) -> BTreeMap<&'static str, Value> {
    let client = node.client();
    let namespaces =
        ["granted", "modelled"].map(|drive| json!(client.namespaces(&name(drive)).unwrap()));
    let keys = ["keyed", "given"].map(|host| client.host_key(&name(host)).unwrap());
    let drives = [
        "name",
        "spec",
        "state",
        "capacity_bytes",
        "block_bytes",
        "administration",
        "volume",
        "pool",
    ];
    let pools = [
        "name", "id", "state", "level", "width", "volumes", "scrubbed",
    ];
    let schedules = ["name", "volumes", "keep"];
    let replications = ["name", "volume", "to", "pool", "every_seconds"];
    let tokens = ["name", "role", "tenant", "created", "expires"];
    BTreeMap::from([
        ("drives", of_each(client.drives().unwrap(), &drives)),
        ("namespaces", json!(namespaces)),
        ("volumes", json!(client.volumes().unwrap())),
        ("snapshots", json!(client.snapshots().unwrap())),
        (
            "schedules",
            of_each(client.schedules().unwrap(), &schedules),
        ),
        (
            "replications",
            of_each(client.replications().unwrap(), &replications),
        ),
        ("pools", of_each(client.pools().unwrap(), &pools)),
        ("hosts", json!(client.hosts().unwrap())),
        ("keys", json!(keys)),
        ("tenants", json!(client.tenants().unwrap())),
        ("tokens", of_each(client.tokens().unwrap(), &tokens)),
        ("settings", json!(client.settings().unwrap())),
        ("ports", of_each(client.ports().unwrap(), &["id", "path"])),
        ("identity", json!(client.status().unwrap().uuid)),
    ])
}

/// What an emulated drive counts of itself, which only grows.
fn counted(node: &Node) -> [u64; 2] {
    let health = node.client().drive_health(&name("modelled")).unwrap();
    [health.host_read_commands, health.host_write_commands]
}

/// The audit log, which only grows.
fn audited(node: &Node) -> Vec<Value> {
    let entries = node.client().audit(0).unwrap().items;
    entries.iter().map(|entry| json!(entry)).collect()
}

/// A volume as a host sees it: serial number of the subsystem, size, size of blocks, identity, and
/// the first byte. It writes `byte` there before, if one is given.
fn seen(node: &Node, volume: &api::Volume, byte: Option<u8>) -> Value {
    let address = node.endpoints().nvme[0];
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    let seen = reactor.run(async {
        let options = ConnectOptions::new(HOST);
        let controller = Controller::connect(address, &volume.nqn, options)
            .await
            .unwrap();
        let device = controller.namespace(volume.nsid).await.unwrap();
        let geometry = device.geometry();
        let block = geometry.block_bytes as usize;
        if let Some(byte) = byte {
            let mut buffer = Buffer::zeroed(block);
            buffer.fill(byte);
            let written = device.write(Lba(0), buffer, Durability::Durable).await;
            assert_eq!(written.1, Ok(()), "{}", volume.name);
        }
        let (buffer, read) = device.read(Lba(0), Buffer::zeroed(block)).await;
        assert_eq!(read, Ok(()), "{}", volume.name);
        let serial = String::from_utf8_lossy(&controller.identify().unwrap().serial).into_owned();
        let identifiers = device_identity(&controller, volume.nsid).await;
        controller.disconnect().await;
        json!([
            serial,
            geometry.capacity_bytes(),
            block,
            identifiers,
            buffer[0]
        ])
    });
    wait_until("the node has seen the host go", || {
        node.client().sessions().unwrap().items.is_empty()
    });
    seen
}

/// The identification descriptors of a namespace.
async fn device_identity(controller: &Controller, nsid: u32) -> String {
    let page = controller.identify_structure(Cns::NAMESPACE_DESCRIPTORS, nsid);
    let page = page.await.unwrap();
    page.iter()
        .take(64)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The same of all volumes of which the host sees anything.
fn seen_of_all(node: &Node, bytes: bool) -> BTreeMap<String, Value> {
    let volumes = node.client().volumes().unwrap().items;
    let numbered = volumes.iter().zip(1..);
    let see = |(volume, number): (&api::Volume, u8)| {
        (
            volume.uuid.to_string(),
            seen(node, volume, bytes.then_some(number)),
        )
    };
    numbered.map(see).collect()
}

/// A node with everything, and the loop device that is one of its drives.
fn everything() -> (Node, Loop) {
    let mut node = Node::configured("[node]\nname = \"first\"\n");
    let device = Loop::made(&node.path().join("looped"), 16 << 20);
    for (file, secret) in SECRETS {
        std::fs::write(node.path().join(file), secret).unwrap();
    }
    set(&node, SET, &device);
    let bytes = seen_of_all(&node, true);
    set(&node, THEN, &device);
    let small = node.client().volume(&name("small")).unwrap();
    seen(&node, &small, Some(0xee));
    node.answer(&["volume", "rollback", "small", "noon"]);
    let now = seen(&node, &small, None);
    assert_eq!(now, bytes[&small.uuid.to_string()], "what was rolled back");
    // A stop keeps all that drives have counted; a kill loses the last second of it.
    assert!(node.terminate().success(), "{}", node.log());
    node.start();
    (node, device)
}

/// Operations of the REST API that change something, by their names: method and parts of the path,
/// of which those in braces stand for names.
fn changing_operations() -> BTreeMap<String, (String, Vec<String>)> {
    let document: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let mut found = BTreeMap::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if ["post", "put", "patch", "delete"].contains(&method.as_str()) {
                let named = operation["operationId"].as_str().unwrap().to_owned();
                let parts = path.split('/').map(str::to_owned).collect();
                found.insert(named, (method.to_uppercase(), parts));
            }
        }
    }
    found
}

/// Every operation that changes something was done here, by the node's own audit log, or is named
/// as one of which nothing lasts.
fn assert_complete(node: &Node) {
    let done = audited(node);
    let is_done = |(method, parts): &(String, Vec<String>)| {
        done.iter().any(|entry| {
            let path: Vec<&str> = entry["path"].as_str().unwrap().split('/').collect();
            let alike = |(part, given): (&String, &&str)| part.starts_with('{') || part == given;
            entry["method"] == *method
                && entry["status"].as_u64().unwrap() < 300
                && path.len() == parts.len()
                && parts.iter().zip(&path).all(alike)
        })
    };
    let all = changing_operations();
    let left = all.iter().filter(|(_, operation)| !is_done(operation));
    let left: Vec<&str> = left.map(|(named, _)| named.as_str()).collect();
    let allowed: Vec<&str> = NOTHING_LASTS.iter().map(|(named, _)| *named).collect();
    assert_eq!(left, allowed, "operations that nothing here has done");
    let document: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let properties = &document["components"]["schemas"]["Settings"]["properties"];
    let settings = json!(node.client().settings().unwrap());
    for setting in properties.as_object().unwrap().keys() {
        assert!(!settings[setting].is_null(), "{setting} is not set");
    }
}

#[test]
fn everything_that_is_set_is_there_after_kills_stops_export_and_import() {
    let (mut node, _device) = everything();
    let counters = counted(&node);
    let (before, hosts, log) = (shown(&node), seen_of_all(&node, false), audited(&node));
    type End = (&'static str, fn(&mut Node));
    let ends: [End; 5] = [
        ("a kill", |node| {
            node.kill();
            node.start_on("0");
        }),
        ("a kill, on two cores", |node| {
            node.kill();
            node.start_on("0,1");
        }),
        ("a stop", |node| {
            assert!(node.terminate().success(), "{}", node.log());
            node.start_on("0");
        }),
        ("a stop, on two cores", |node| {
            assert!(node.terminate().success(), "{}", node.log());
            node.start_on("0,1");
        }),
        ("export, import and a kill", |node| {
            let scrubbed = node.client().pool(&name("p")).unwrap().scrubbed;
            assert!(scrubbed.is_some());
            node.answer(&["pool", "export", "p"]);
            node.answer(&["pool", "import", "p"]);
            node.kill();
            node.start();
        }),
    ];
    for (after, happens) in ends {
        happens(&mut node);
        let mut now = shown(&node);
        if after.starts_with("export") {
            // The node that a pool comes to counts from then on, as the manual says.
            let pools = now.get_mut("pools").unwrap();
            pools[0][6] = before["pools"][0][6].clone();
        }
        for (what, before) in &before {
            assert_eq!(&now[what], before, "{what} after {after}");
        }
        let seen = seen_of_all(&node, false);
        for (volume, before) in &hosts {
            assert_eq!(&seen[volume], before, "{volume} after {after}");
        }
        let now = audited(&node);
        assert_eq!(now[..log.len()], log, "after {after}");
        assert!(
            counted(&node) >= counters && counters[1] > 0,
            "after {after}"
        );
    }
    assert_complete(&node);
}

/// What a pool takes along: everything about its volumes and snapshots, but no keys and grants.
#[test]
fn a_pool_takes_along_what_is_said_of_its_volumes() {
    let (mut node, _device) = everything();
    let of_pool = |node: &Node| {
        let mut volumes = node.client().volumes().unwrap().items;
        volumes.retain(|volume| volume.pool.is_some());
        for volume in &mut volumes {
            volume.pool = None;
        }
        let snapshots = of_each(
            node.client().snapshots().unwrap(),
            &["name", "volume", "bytes"],
        );
        (json!(volumes), snapshots)
    };
    let (before, hosts) = (of_pool(&node), seen_of_all(&node, false));
    node.answer(&["pool", "export", "p"]);
    let directory = node.path().canonicalize().unwrap();
    node.kill();
    let mut second = Node::configured("[node]\nname = \"second\"\n");
    for (called, drive) in [("x", "c"), ("y", "a"), ("z", "b")] {
        let path = directory.join(drive);
        second.answer(&["drive", "add", called, path.to_str().unwrap()]);
    }
    second.answer(&["pool", "import", "p", "--as", "q"]);
    for after in ["the import", "a kill"] {
        assert_eq!(of_pool(&second), before, "after {after}");
        for (volume, now) in seen_of_all(&second, false) {
            assert_eq!(now, hosts[&volume], "{volume} after {after}");
        }
        let tenants = second.client().tenants().unwrap().items;
        assert!(
            tenants.iter().all(|tenant| tenant.grants.is_empty()),
            "{tenants:?}"
        );
        second.kill();
        second.start();
    }
}

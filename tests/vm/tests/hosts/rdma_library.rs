//! Our own host over RDMA: `flashyard perf` in the guest against the node beside it.

use vm::{Guest, Node};

use crate::rdma::{DEVICE, NODE, NQN, PERF, START, prepare, serves_hosts, volumes};

/// A drive in the lab's process, and behind nodes by either transport; little of it, as the guest's
/// processors are emulated.
const PLAN: &str = r#"
name = "transports"
title = "Transports"
question = "Does the lab reach its nodes over both transports?"
baseline = "local"
run.runtime = "500ms"
run.repetitions = 1
[[target]]
name = "local"
kind = "emulated"
profile = "cm6-v-3.2"
scale = 0.00002
dilation = 200
[[target]]
name = "over-tcp"
kind = "node"
transport = "tcp"
profile = "cm6-v-3.2"
scale = 0.00002
dilation = 200
[[target]]
name = "over-rdma"
kind = "node"
transport = "rdma"
profile = "cm6-v-3.2"
scale = 0.00002
dilation = 200
[[workload]]
name = "mix"
rw = "randrw"
read_percent = 75
bs = ["4k", "64k"]
depth = 4
"#;

const LAB: &str = "env LD_LIBRARY_PATH=/rdma flashyard lab run /tmp/transports.toml";

/// A host of the test's own.
const HOST: &str = "env LD_LIBRARY_PATH=/rdma rdma-host";

pub fn scenario(guest: &mut Guest, node: Node) {
    // The one outside is of no use here.
    drop(node);
    prepare(guest);
    lacking(guest);
    guest.check("an RDMA device of software", DEVICE);
    guest.refused(
        "nobody listens",
        &format!("{PERF} {}", target(1)),
        "nobody listens there",
    );
    start(guest);
    guest.check(
        "a host",
        &format!("{NODE} flashyard host add perf --nqn nqn.2026-11.example.flashyard:perf"),
    );
    volumes(guest, "perf");
    discovered(guest);
    let said = guest.check(
        "volumes keep the contract of devices",
        &format!("{HOST} device 10.99.0.1:4420 {NQN}"),
    );
    assert_eq!(said.trim(), "kept");
    verified(guest);
    experiment(guest);
    proved(guest);
    restarted(guest);
    lost(guest);
    broken(guest);
    memory_limit(guest);
    over_linux(guest);
}

fn target(nsid: u32) -> String {
    format!("'rdma://10.99.0.1:4420/{NQN}?nsid={nsid}'")
}

fn start(guest: &mut Guest) {
    let script = format!("exec sh -c 'echo $$ >/run/node.pid; {START}'");
    guest.spawn("node", &script);
    serves_hosts(guest);
}

/// Errors say what is missing.
fn lacking(guest: &mut Guest) {
    let target = target(1);
    guest.refused("no device", &format!("{PERF} {target}"), "no RDMA device");
    guest.check(
        "a plan",
        &format!("cat >/tmp/transports.toml <<'END'\n{PLAN}\nEND"),
    );
    guest.check(
        "an experiment says what this machine cannot have, and runs the rest",
        &format!(
            "{LAB} --results /tmp/transports.json 2>&1 | tee /tmp/said
            grep 'left out: over-rdma: this machine has no RoCE device' /tmp/said
            grep -A 2 left_out /tmp/transports.json | grep over-rdma"
        ),
    );
    guest.refused(
        "no digests",
        &format!("{PERF} {target} --data-digest"),
        "data digests: a connection over RDMA",
    );
}

/// The library reads the log over RDMA, and tells transports apart.
fn discovered(guest: &mut Guest) {
    guest.check(
        "discovery by the library",
        &format!(
            "{HOST} discover 10.99.0.1:4420 - | tee /tmp/log
            grep -x 'rdma 10.99.0.1 {NQN}' /tmp/log && grep -x 'tcp 127.0.0.1 {NQN}' /tmp/log"
        ),
    );
}

/// Every length from one block to 1 MiB: within capsules, around the longest of them, and beyond;
/// each over a region of its own.
fn verified(guest: &mut Guest) {
    let short = [
        ("512", "512k"),
        ("4k", "2m"),
        ("8k", "4m"),
        ("8704", "4250k"),
    ];
    let longer = [("12k", "6m"), ("64k", "8m"), ("1m", "16m")];
    for (size, region) in short.into_iter().chain(longer) {
        guest.check(
            &format!("writes and reads of {size} are verified"),
            &format!(
                "{PERF} {} --rw randwrite --bs {size} --size {region} --iodepth 16 \
                    --verify crc32c",
                target(1)
            ),
        );
    }
    guest.check(
        "reads beside writes, on two connections, without data in capsules",
        &format!(
            "{PERF} {} --rw randrw --bs 4k --size 2m --iodepth 32 --numjobs 2 --runtime 3s \
                --verify crc32c --no-in-capsule",
            target(2)
        ),
    );
}

/// The lab starts nodes of its own for a plan, and reaches them as it says.
fn experiment(guest: &mut Guest) {
    let results = "/tmp/transports.json";
    let begin = format!("{LAB} --results {results} --restart");
    guest.spawn("experiment", &begin);
    guest.join("an experiment over both transports", "experiment", 120);
    guest.check(
        "two loads on each target",
        &format!(
            "! grep left_out {results}
            for target in local over-tcp over-rdma; do
                [ $(grep -c \"\\\"target\\\": \\\"$target\\\"\" {results}) = 2 ]
            done"
        ),
    );
}

/// Host and node prove secrets to each other over RDMA, or do not connect.
fn proved(guest: &mut Guest) {
    guest.check(
        "a key for the host",
        &format!(
            "{NODE}
            flashyard host key perf --generate --mutual -o json >/tmp/key
            for part in secret controller_secret; do
                sed -n \"s/.*\\\"$part\\\": *\\\"\\([^\\\"]*\\)\\\".*/\\1/p\" /tmp/key >/tmp/$part
                test -s /tmp/$part
            done"
        ),
    );
    let perf = format!("{PERF} {} --rw randread --number-ios 16", target(2));
    guest.refused("no secret", &perf, "no secret is given");
    guest.check(
        "secrets of both ends",
        &format!(
            "{perf} --dhchap-secret-file /tmp/secret \
                --controller-secret-file /tmp/controller_secret
            {NODE} flashyard host key perf --remove"
        ),
    );
}

/// The node dies under verified I/O and starts again; a host that rides that out loses nothing. One
/// that does not, ends.
fn restarted(guest: &mut Guest) {
    let load = |options: &str| {
        format!(
            "{PERF} {} --rw randrw --bs 8704 --size 2125k --iodepth 16 --runtime 60s \
                --verify crc32c {options}",
            target(1)
        )
    };
    guest.spawn("rides", &load("--reconnect 5m"));
    guest.spawn("ends", &load("--offset 17m"));
    guest.check("the node dies", "sleep 10; kill -9 $(cat /run/node.pid)");
    guest.eventually("without --reconnect it ends", 60, "test -s /run/ends.code");
    guest.refused(
        "and fails",
        "cat /run/ends.output; exit $(cat /run/ends.code)",
        "I/O or verification failed",
    );
    guest.check("the other waits", "test ! -s /run/rides.code");
    start(guest);
    let report = guest.join("verified I/O has ended well", "rides", 170);
    assert!(report.contains(": 0 mismatches"), "{report}");
    guest.spawn(
        "killed",
        &format!("{}\n", load("& echo $! >/run/killed.pid; wait")),
    );
    guest.check(
        "a host dies in the middle",
        "sleep 5; kill -9 $(cat /run/killed.pid)",
    );
    no_sessions(guest);
}

/// What a host sent by a path over RDMA that it takes for lost overwrites what it wrote since by
/// the one over TCP, unless it had the lost controller reset by the other.
fn lost(guest: &mut Guest) {
    for (case, ends) in [
        ("lost", "landed"),
        ("reset", "kept-out"),
        ("reset-under-way", "kept-out"),
    ] {
        let said = guest.check(
            &format!("a lost path: {case}"),
            &format!("{HOST} {case} 10.99.0.1:4420 {NQN} 127.0.0.1:4420"),
        );
        assert_eq!(said.trim(), ends, "{case}");
    }
    no_sessions(guest);
}

fn no_sessions(guest: &mut Guest) {
    guest.eventually(
        "the node has no session left",
        60,
        &format!("{NODE} ! flashyard session list | grep 10.99.0.1"),
    );
}

/// Hosts that break rules, leave in the middle or drop what they asked for, beside one whose I/O is
/// verified: each hurts itself alone.
fn broken(guest: &mut Guest) {
    guest.spawn(
        "beside",
        &format!(
            "exec sh -c \"echo \\$\\$ >/run/beside.pid; exec {PERF} {} --rw randrw --bs 16k \
                --size 4m --iodepth 4 --runtime 10m --verify crc32c\"",
            target(1)
        ),
    );
    for (case, ends) in [
        ("dropped", "served"),
        ("request-format", "INVALID_FORMAT"),
        ("request-queue", "INVALID_QUEUE_ID"),
        ("request-size", "INVALID_SEND_SIZE"),
        ("wrong-key", "ended"),
        ("short-read", "ended"),
        ("short-write", "ended"),
        ("read-only", "ended"),
        ("write-only", "ended"),
        ("short-capsule", "ended"),
        // The node may have been quicker.
        ("taken-back", "ended answered"),
        ("vanish", "gone"),
        ("too-many", "ended answered"),
    ] {
        let said = guest.check(
            &format!("a host that breaks rules: {case}"),
            &format!("{HOST} {case} 10.99.0.1:4420 {NQN}"),
        );
        let as_it_should = ends.split(' ').any(|end| said.trim() == end);
        assert!(as_it_should, "{case}: {said}");
    }
    guest.check("it ends", "kill -INT $(cat /run/beside.pid)");
    let report = guest.join("the host beside them is served", "beside", 60);
    assert!(report.contains(": 0 mismatches"), "{report}");
    no_sessions(guest);
}

/// Who may lock too little memory is told so, and does not try for ever.
fn memory_limit(guest: &mut Guest) {
    guest.refused(
        "too little memory may be locked",
        &format!(
            "chmod 0666 /dev/infiniband/*
            echo nobody:x:65534:65534::/:/bin/sh >>/etc/passwd
            echo \"{PERF} {} --rw randwrite --bs 1m --size 16m --iodepth 16 --reconnect 5m\" \
                >/tmp/limited
            ulimit -l 6144
            su -s /bin/sh nobody -c '. /tmp/limited'",
            target(2)
        ),
        "bytes of memory cannot be locked for RDMA",
    );
}

/// Linux's own controller is served from a file.
fn over_linux(guest: &mut Guest) {
    guest.check(
        "Linux's controller over RDMA",
        "mount -t configfs none /sys/kernel/config
        truncate -s 32M /tmp/linux
        cd /sys/kernel/config/nvmet
        mkdir -p subsystems/nqn.2026-11.example:linux/namespaces/1 ports/1
        cd subsystems/nqn.2026-11.example:linux
        echo 1 >attr_allow_any_host
        echo 1 >namespaces/1/buffered_io
        echo -n /tmp/linux >namespaces/1/device_path
        echo 1 >namespaces/1/enable
        cd ../../ports/1
        echo rdma >addr_trtype
        echo ipv4 >addr_adrfam
        echo 10.99.0.1 >addr_traddr
        echo 4421 >addr_trsvcid
        ln -s ../../subsystems/nqn.2026-11.example:linux subsystems/",
    );
    let target = "'rdma://10.99.0.1:4421/nqn.2026-11.example:linux?nsid=1'";
    for (size, region) in [("4k", "2m"), ("8k", "4m"), ("64k", "8m"), ("1m", "16m")] {
        guest.check(
            &format!("writes and reads of {size} at Linux's controller are verified"),
            &format!(
                "{PERF} {target} --rw randwrite --bs {size} --size {region} --iodepth 16 \
                    --verify crc32c"
            ),
        );
    }
}

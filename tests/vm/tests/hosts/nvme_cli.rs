//! nvme-cli 3: scenarios with it in the place of this machine's.

use std::path::Path;

use serde_json::Value;
use vm::{Guest, Node};

use crate::{administration, authentication, queries, reservations, tls, tools};

/// Of the archive's newest, which has nvme-cli 3.
const PACKAGES: [&str; 1] = ["nvme-cli"];

/// A guest has it in the place of the one that it boots with. Version 3.1 asks by io_uring where a
/// kernel has that, and Linux 6.12 takes none of it for block devices.
const INSTALL: &str = "
    mkdir -p /newest
    tar -x -f /dev/vda -C /newest
    rm /bin/nvme
    cat >/bin/nvme <<'END'
#!/bin/sh
exec /newest/usr/lib64/ld-linux-x86-64.so.2 --library-path /newest/usr/lib/x86_64-linux-gnu \
    /newest/usr/sbin/nvme \"$@\"
END
    chmod +x /bin/nvme
    echo 2 >/proc/sys/kernel/io_uring_disabled
    nvme version | grep '^nvme version 3'";

pub fn devices(directory: &Path) -> Vec<String> {
    let kept = [
        "--exclude=usr/lib/x86_64-linux-gnu/gconv",
        "--exclude=usr/lib/x86_64-linux-gnu/systemd",
        "usr/lib64",
        "usr/lib/x86_64-linux-gnu",
        "usr/sbin/nvme",
    ];
    tools::newest(directory, "nvme-cli", &PACKAGES, &kept)
}

pub fn install(guest: &mut Guest) {
    guest.check("nvme-cli 3", INSTALL);
}

pub fn queries(guest: &mut Guest, node: Node) {
    install(guest);
    printed(guest, &node);
    queries::scenario(guest, node);
}

/// What the node prints connects a host, also one that has to prove a secret.
fn printed(guest: &mut Guest, node: &Node) {
    connects(guest, node, "the printed command", "");
    let made = node.command("host key guest --generate -o json");
    let made: Value = serde_json::from_str(&made.expect("the node makes a key")).expect("JSON");
    let secret = made["secret"].as_str().expect("a secret");
    connects(guest, node, "the printed command with a secret", secret);
    node.command("host key guest --remove")
        .expect("the node forgets it");
}

fn connects(guest: &mut Guest, node: &Node, step: &str, secret: &str) {
    let nqn = node.shared();
    let commands = node.command("host show guest --commands");
    let commands = commands.expect("the node prints commands");
    let command = commands.lines().next().expect("a command");
    guest.check(step, &format!("export DHCHAP_SECRET='{secret}'\n{command}"));
    guest.eventually("the namespace appears", 20, &format!("nvme-device {nqn} 1"));
    let listed = guest.check("nvme list-subsys", "nvme list-subsys -o json");
    let listed: Value = serde_json::from_str(&listed).expect("the list is JSON");
    assert!(listed.to_string().contains(nqn), "{listed}");
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

pub fn authentication(guest: &mut Guest, node: Node) {
    install(guest);
    authentication::proofs(guest, &node);
}

pub fn administration(guest: &mut Guest, node: Node) {
    install(guest);
    administration::scenario(guest, node);
}

pub fn reservations(guest: &mut Guest, node: Node) {
    install(guest);
    reservations::scenario(guest, node);
}

/// What shakes hands comes from a drive of its own.
pub fn tls_devices(directory: &Path) -> Vec<String> {
    [tls::tools(directory), devices(directory)].concat()
}

pub fn tls(guest: &mut Guest, mut node: Node) {
    tls::prepare(guest, &mut node);
    install(guest);
    let nqn = node.shared();
    let connect = format!("nvme connect {} -n {nqn} -i 2 --tls", node.over_ipv4());
    let insert = "nvme keys insert-tls-psk";
    guest.refused("connect without a key", &connect, "");
    let former = tls::insert(guest, insert, nqn, &tls::make_key(&node));
    guest.check("connect with the only key", &connect);
    tls::verified(guest, nqn);
    let current = tls::insert(guest, insert, nqn, &tls::make_key(&node));
    tls::renewed(guest, &connect, nqn, &former, &current);
}

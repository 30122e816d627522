//! TLS with the kernel's own host: Debian's `tlshd` shakes hands, the kernel encrypts.

use std::path::Path;

use vm::{Guest, Node, Suite};

use crate::{claims, tools};

/// Both run on the libraries of their own suite, from a drive of their own.
const PACKAGES: [&str; 2] = ["ktls-utils", "nvme-cli"];

/// Where the guest finds them.
const PREPARE: &str = "
    mkdir -p /tools /etc/tlshd
    tar -x -f /dev/nvme0n1 -C /tools
    for tool in tlshd nvme; do
        cat >/bin/$tool-13 <<END
#!/bin/sh
exec /tools/usr/lib64/ld-linux-x86-64.so.2 --library-path /tools/usr/lib/x86_64-linux-gnu \
    /tools/usr/sbin/$tool \"\\$@\"
END
        chmod +x /bin/$tool-13
    done
    printf '[debug]\nloglevel=1\ntls=1\nnl=0\n[authenticate]\nkeyrings=.nvme\n' >/etc/tlshd.conf";

const TLSHD: &str = "exec sh -c 'echo $$ >/run/tlshd.pid
    exec tlshd-13 --stderr --config /etc/tlshd.conf'";

/// How nvme-cli 2.13 puts a key into the keyring.
const INSERT: &str = "nvme-13 check-tls-key --insert";

/// Fetches the tools and puts them on a drive, as one archive.
pub fn tools(directory: &Path) -> Vec<String> {
    let kept = ["usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/sbin"];
    tools::drive(directory, Suite::Trixie, "tls-tools", &PACKAGES, &kept)
}

pub fn devices(directory: &Path) -> Vec<String> {
    [tools(directory), claims::devices(directory)].concat()
}

/// The node wants TLS, and the guest has what shakes hands.
pub fn prepare(guest: &mut Guest, node: &mut Node) {
    node.want_tls().expect("the node starts again");
    guest.check("unpack the tools", PREPARE);
    guest.spawn("tlshd", TLSHD);
}

pub fn scenario(guest: &mut Guest, mut node: Node) {
    prepare(guest, &mut node);
    let nqn = node.shared();
    let in_the_clear = format!("nvme-13 connect {} -n {nqn} -i 2", node.over_ipv4());
    let connect = format!("{in_the_clear} --tls");
    let key = make_key(&node);
    guest.refused("connect in the clear", &in_the_clear, "");
    guest.refused("connect without a key", &connect, "");
    let former = insert(guest, INSERT, nqn, &key);
    guest.check("connect", &connect);
    verified(guest, nqn);
    discovery(guest, &node, &key);
    let key = make_key(&node);
    guest.refused("connect with the key of before", &connect, "");
    let current = insert(guest, INSERT, nqn, &key);
    renewed(guest, &connect, nqn, &former, &current);
    attached(guest, &mut node, &key);
    claims::under_tls(guest, &node);
}

/// What is connected verifies I/O under TLS, and is disconnected.
pub fn verified(guest: &mut Guest, nqn: &str) {
    guest.eventually("the namespace appears", 30, &format!("nvme-device {nqn} 1"));
    guest.check(
        "verified I/O under TLS",
        &format!(
            "fio --name=v --filename=$(nvme-device {nqn} 1) --size=8m --rw=randwrite \
             --bsrange=4k-128k --ioengine=libaio --direct=1 --iodepth=8 --verify=crc32c"
        ),
    );
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
    guest.check(
        "the kernel itself had the channel",
        "grep -q '^TlsTxSw[[:space:]]*[1-9]' /proc/net/tls_stat",
    );
}

/// A host whose key is for the well-known name goes on with that name. By the node's own it needs a
/// key for that.
fn discovery(guest: &mut Guest, node: &Node, key: &str) {
    let discover = format!("nvme-13 discover {} --tls", node.over_ipv4());
    insert(guest, INSERT, "nqn.2014-08.org.nvmexpress.discovery", key);
    let found = guest.check("discovery by the well-known name", &discover);
    assert!(found.contains(node.shared()), "{found}");
    let own = node.discovery().expect("the node has a name");
    let by_own = format!("{discover} --persistent --nqn {own}");
    guest.refused("discovery by the node's own name", &by_own, "");
    insert(guest, INSERT, &own, key);
    guest.check("discovery with a key for that name", &by_own);
    guest.check(
        "it stays by that name",
        &format!("sleep 1; nvme-device {own}; nvme disconnect -n {own}"),
    );
}

/// `flashyard attach` puts the key into the keyring itself, and says what is missing.
fn attached(guest: &mut Guest, node: &mut Node, key: &str) {
    let nqn = node.shared();
    let target = node.target(nqn, 1);
    let attach = format!("flashyard attach --tls-key-file /tmp/key '{target}'");
    guest.check(
        "attach under TLS",
        &format!(
            "printf %s '{key}' >/tmp/key
            device=$({attach}); [ $device = $(nvme-device {nqn} 1) ]
            head -c 1048576 /dev/urandom >/tmp/written
            dd if=/tmp/written of=$device bs=64k oflag=direct"
        ),
    );
    node.kill().expect("the node runs");
    node.restart().expect("the node serves again");
    guest.eventually(
        "the kernel connects again with the same key",
        150,
        "flashyard attached | grep -w connected",
    );
    guest.check(
        "all is there",
        &format!(
            "dd if=$(nvme-device {nqn} 1) bs=64k count=16 iflag=direct | cmp - /tmp/written
            flashyard detach '{target}'
            {attach}; flashyard detach '{target}'
            [ $(grep -c ' psk .*{nqn}' /proc/keys) = 2 ]"
        ),
    );
    guest.check("no daemon for handshakes", "kill $(cat /run/tlshd.pid)");
    let by_kernel = attach.replace("attach", "attach --method kernel");
    guest.refused("attach without one", &by_kernel, "refused to connect");
    guest.refused("attach by either way", &attach, "tlshd (ktls-utils)");
    guest.spawn("tlshd", TLSHD);
}

/// Puts a key into the kernel's keyring, for the names of guest and subsystem. Gives its number.
pub fn insert(guest: &mut Guest, command: &str, nqn: &str, key: &str) -> String {
    let said = guest.check(
        "put the key into the keyring",
        &format!(
            "{command} --identity 1 --subsysnqn {nqn} --hostnqn $(cat /etc/nvme/hostnqn) \
             --keydata '{key}'"
        ),
    );
    let line = said.lines().find(|line| line.starts_with("Inserted TLS "));
    let number = line.and_then(|line| line.split(' ').next_back());
    format!(
        "0x{}",
        number.unwrap_or_else(|| panic!("no number: {said}"))
    )
}

/// Linux takes any key of the keyring that has both names: a host with a key of before names the
/// one that it means by its number, or takes the other out.
pub fn renewed(guest: &mut Guest, connect: &str, nqn: &str, former: &str, current: &str) {
    let by_number = |number: &str| format!("{connect} --tls-key={number}");
    guest.refused("connect with the key of before", &by_number(former), "");
    guest.check("connect with the key by its number", &by_number(current));
    verified(guest, nqn);
    guest.check(
        "take the key of before out of the keyring",
        &format!("keyctl unlink {former} %:.nvme"),
    );
    guest.check("connect with the key that is left", connect);
    verified(guest, nqn);
}

/// A new key for the guest. GnuTLS before 3.8.11, which `tlshd` stands on, proves every key with
/// SHA-256: those of SHA-384 cannot work with it.
pub fn make_key(node: &Node) -> String {
    let made = node
        .command("host tls-key guest --generate --hash sha256 -o json")
        .expect("the node makes a key");
    let made: serde_json::Value = serde_json::from_str(&made).expect("the answer is JSON");
    made["key"].as_str().expect("a key").to_owned()
}

//! TLS with the kernel's own host: Debian's `tlshd` shakes hands, the kernel encrypts.

use std::path::Path;

use vm::{Guest, Node, Suite};

use crate::tools;

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

/// Fetches the tools and puts them on a drive, as one archive.
pub fn devices(directory: &Path) -> Vec<String> {
    let kept = ["usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/sbin"];
    tools::drive(directory, Suite::Trixie, "tls-tools", &PACKAGES, &kept)
}

pub fn scenario(guest: &mut Guest, mut node: Node) {
    node.want_tls().expect("the node starts again");
    guest.check("unpack the tools", PREPARE);
    guest.spawn("tlshd", "tlshd-13 --stderr --config /etc/tlshd.conf");
    let nqn = node.shared();
    let connect = format!("nvme-13 connect {} -n {nqn}", node.over_ipv4());
    let key = make_key(&node);
    guest.refused("connect in the clear", &connect, "");
    guest.refused("connect without a key", &format!("{connect} --tls"), "");
    insert(guest, nqn, &key);
    guest.check("connect", &format!("{connect} --tls -i 2"));
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
    make_key(&node);
    guest.refused(
        "connect with the key of before",
        &format!("{connect} --tls"),
        "",
    );
}

/// Puts a key into the kernel's keyring, for the names of guest and subsystem.
fn insert(guest: &mut Guest, nqn: &str, key: &str) {
    guest.check(
        "put the key into the keyring",
        &format!(
            "nvme-13 check-tls-key --identity 1 --insert --subsysnqn {nqn} \
             --hostnqn $(cat /etc/nvme/hostnqn) --keydata '{key}'"
        ),
    );
}

/// A new key for the guest. GnuTLS before 3.8.11, which `tlshd` stands on, proves every key with
/// SHA-256: those of SHA-384 cannot work with it.
fn make_key(node: &Node) -> String {
    let made = node
        .command("host tls-key guest --generate --hash sha256 -o json")
        .expect("the node makes a key");
    let made: serde_json::Value = serde_json::from_str(&made).expect("the answer is JSON");
    made["key"].as_str().expect("a key").to_owned()
}

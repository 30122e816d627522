//! A node in the guest manages the namespaces of NVMe drives through the guest's kernel: of QEMU's
//! drive on PCI Express, which attaches and detaches but cannot create, and of a modelled drive
//! over NVMe/TCP, which can do everything.

use std::fs::{self, File};
use std::path::Path;

use vm::{Guest, Node};

const PCI_NQN: &str = "nqn.2019-08.org.qemu:drive";

/// A drive with two namespaces of 64 MiB, of which the second is not attached.
pub fn devices(directory: &Path) -> Vec<String> {
    fs::create_dir_all(directory).expect("a place for the drive's files");
    let mut options = vec![
        "-device".to_owned(),
        "nvme-subsys,id=drive".to_owned(),
        "-device".to_owned(),
        "nvme,serial=1,subsys=drive".to_owned(),
    ];
    for nsid in [1, 2] {
        let path = directory.join(nsid.to_string());
        let file = File::create(&path).expect("a file for a namespace");
        file.set_len(64 << 20).expect("a sparse file");
        let path = path.display();
        let detached = if nsid == 2 { "on" } else { "off" };
        options.extend([
            "-drive".to_owned(),
            format!("file={path},if=none,id=n{nsid},format=raw"),
            "-device".to_owned(),
            format!("nvme-ns,drive=n{nsid},nsid={nsid},detached={detached}"),
        ]);
    }
    options
}

const START: &str = r#"
cat >/tmp/flashyard.toml <<END
state_directory = "/tmp/state"
[node]
name = "guest"
[[nvme.ports]]
listen = "127.0.0.1:4420"
[api]
listen = "127.0.0.1:4400"
protocol = "http"
END
flashyard serve --config /tmp/flashyard.toml >/tmp/node.log 2>&1 &
"#;

/// Words for the node in the guest.
fn words(verb: &str) -> String {
    format!(
        "FLASHYARD_TOKEN_FILE=/tmp/state/admin.token \
         flashyard --node http://127.0.0.1:4400 {verb}"
    )
}

fn ask(guest: &mut Guest, verb: &str, wanted: &[&str]) -> String {
    let said = guest.check(&format!("flashyard {verb}"), &words(verb));
    for wanted in wanted {
        assert!(said.contains(wanted), "{verb}: no `{wanted}`:\n{said}");
    }
    said
}

fn refuse(guest: &mut Guest, verb: &str, reason: &str) {
    guest.refused(
        &format!("flashyard {verb} is refused"),
        &words(verb),
        reason,
    );
}

pub fn scenario(guest: &mut Guest, node: Node) {
    guest.check("start a node in the guest", START);
    guest.eventually("it answers", 60, &words("status"));
    pci(guest);
    over_tcp(guest, &node);
}

/// QEMU's drive has Namespace Attachment, and no Namespace Management.
fn pci(guest: &mut Guest) {
    let found = guest.eventually("the drive is there", 20, &format!("nvme-device {PCI_NQN}"));
    let controller = found.trim();
    let second = format!("nvme-device {PCI_NQN} 2");
    ask(guest, &format!("drive add pci {controller}"), &[]);
    let said = ask(guest, "namespace list pci", &["64 MiB"]);
    let row = |said: &str, nsid: &str| -> Vec<String> {
        let mut rows = said
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row.first() == Some(&nsid));
        let row = row.unwrap_or_else(|| panic!("no namespace {nsid}:\n{said}"));
        row.iter()
            .rev()
            .take(2)
            .rev()
            .map(|word| (*word).to_owned())
            .collect()
    };
    assert_eq!(row(&said, "1"), ["yes", "yes"], "{said}");
    assert_eq!(row(&said, "2"), ["no", "no"], "{said}");
    refuse(
        guest,
        "namespace create pci --size 16MiB --block-size 512",
        "no Namespace Management",
    );
    refuse(guest, "namespace attach pci 1", "already attached");
    refuse(guest, "namespace detach pci 2", "not attached");
    for verb in ["attach", "detach", "delete"] {
        refuse(
            guest,
            &format!("namespace {verb} pci 9"),
            "there is no namespace 9",
        );
    }
    ask(guest, "namespace attach pci 2", &["namespace 2 attached"]);
    guest.check("it has a block device", &second);
    mounted(guest, &second);
    refuse(guest, "namespace delete pci 2", "no Namespace Management");

    let path = guest.check("its path", &second);
    ask(guest, &format!("drive add second {}", path.trim()), &[]);
    let said = ask(guest, "namespace list second", &[]);
    assert_eq!(row(&said, "2"), ["yes", "yes"], "{said}");
    refuse(guest, "namespace detach pci 2", "in use by another drive");
    ask(guest, "volume create v --drive second --force", &[]);
    refuse(guest, "namespace detach second 2", "used by volume v");
    ask(guest, "volume delete v", &[]);
    ask(
        guest,
        "namespace detach second 2",
        &["namespace 2 detached"],
    );
    guest.check("its block device has gone", &format!("! {second}"));
    let said = ask(guest, "namespace list second", &[]);
    assert_eq!(row(&said, "2"), ["no", "no"], "{said}");
    ask(guest, "namespace attach second 2", &[]);
    ask(guest, "drive show second", &["64 MiB"]);
    ask(guest, "drive remove second", &[]);
}

/// A namespace that is mounted stays.
fn mounted(guest: &mut Guest, second: &str) {
    guest.check(
        "mount a file system on it",
        &format!("mkfs.ext4 -q $({second}); mount -t ext4 $({second}) /mnt"),
    );
    for verb in ["detach", "delete"] {
        refuse(guest, &format!("namespace {verb} pci 2"), "in use");
    }
    guest.check(
        "it is intact",
        "echo data >/mnt/file; sync; cat /mnt/file; umount /mnt",
    );
}

/// The node outside serves a modelled drive to this kernel, which makes it a drive as any.
fn over_tcp(guest: &mut Guest, node: &Node) {
    node.add_administered_drive("modelled")
        .expect("the node adds it");
    let nqn = node.drive("modelled");
    let connect = format!("nvme connect {} -n {nqn}", node.over_ipv4());
    guest.check("connect to the modelled drive", &connect);
    let found = guest.eventually("the drive is there", 20, &format!("nvme-device {nqn}"));
    ask(guest, &format!("drive add far {}", found.trim()), &[]);
    ask(guest, "namespace list far", &["0 B unallocated"]);
    refuse(
        guest,
        "namespace create far --size 64MiB",
        "bytes asked for, 0 are unallocated",
    );
    ask(guest, "namespace delete far 1", &["namespace 1 deleted"]);
    ask(
        guest,
        "namespace create far --size 64MiB",
        &["namespace 1 created"],
    );
    ask(guest, "drive show far", &["64 MiB", "4096"]);
    guest.check("its block device is there", &format!("nvme-device {nqn} 1"));
    let small = "namespace create far --size 32MiB --block-size 512";
    ask(guest, small, &["namespace 2 created"]);
    ask(guest, "namespace list far", &["32 MiB", "512"]);
    let device = guest.check("the second one", &format!("nvme-device {nqn} 2"));
    guest.check(
        "data written to it stays through detach and attach",
        &format!(
            "dd if=/dev/urandom of=/tmp/data bs=1M count=2 2>/dev/null
             dd if=/tmp/data of={} bs=1M oflag=direct 2>/dev/null",
            device.trim()
        ),
    );
    ask(guest, "namespace detach far 2", &[]);
    ask(guest, "namespace attach far 2", &[]);
    guest.check(
        "it is what was written",
        &format!(
            "dd if=$(nvme-device {nqn} 2) bs=1M count=2 iflag=direct 2>/dev/null | cmp - /tmp/data"
        ),
    );
    ask(guest, "namespace delete far 2", &["namespace 2 deleted"]);
    ask(guest, "namespace delete far 1", &["namespace 1 deleted"]);
    ask(guest, "drive show far", &["0 B"]);
    ask(
        guest,
        "event list",
        &["namespace 2 detached", "namespace 1 deleted"],
    );
}

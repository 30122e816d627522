//! A host that is told nothing: avahi hears of the node by mDNS, and nvme-stas connects to its
//! discovery and to every subsystem that is for this host, also to one that comes later. The node
//! is in a network name space of the same guest, for mDNS does not go through QEMU's network.

use std::path::Path;

use vm::{Guest, Node, Suite};

use crate::tools;

/// A system for the daemons, which are Python for the most part.
const PACKAGES: [&str; 5] = [
    "avahi-daemon",
    "dbus-daemon",
    "iproute2",
    "nvme-stas",
    "udev",
];

/// Users that daemons want are what the packages would make.
const SYSTEM: &str = "
    mount -t ext4 /dev/nvme0n1 /mnt
    for place in dev etc/nvme proc run sys; do
        mkdir -p /mnt/$place; mount --bind /$place /mnt/$place
    done
    cat >/mnt/etc/passwd <<END
root:x:0:0::/root:/bin/sh
messagebus:x:100:100::/:/bin/false
avahi:x:101:101::/:/bin/false
END
    cat >/mnt/etc/group <<END
root:x:0:
messagebus:x:100:
avahi:x:101:
netdev:x:102:
END
    echo 2cd2c43ba90a45c1a8cd86b33ab273b5 >/mnt/etc/machine-id
    mkdir -p /run/dbus /run/stafd /run/stacd";

/// The node waits for its end of the link.
const NODE: &str = "
    cat >/tmp/flashyard.toml <<END
state_directory = \"/tmp/state\"
[node]
name = \"vault\"
[nvme]
mdns = true
[[nvme.ports]]
listen = \"0.0.0.0:4420\"
[api]
listen = \"127.0.0.1:4400\"
protocol = \"http\"
END
    exec unshare -n sh -c 'echo $$ >/run/node.pid
        ip link set lo up
        until ip link set link1 up 2>/dev/null; do usleep 100000; done
        ip address add 192.0.2.1/24 dev link1
        exec flashyard serve --config /tmp/flashyard.toml'";

const LINK: &str = "
    for module in /modules/later/*veth.ko; do insmod $module; done
    chroot /mnt /usr/sbin/ip link add link0 type veth peer name link1 netns $(cat /run/node.pid)
    ip link set link0 up
    ip address add 192.0.2.9/24 dev link0";

/// The command line speaks to the node in its name space.
const ASK: &str = "
    export FLASHYARD_NODE=http://127.0.0.1:4400 FLASHYARD_TOKEN_FILE=/tmp/state/admin.token
    ask() { nsenter -n -t $(cat /run/node.pid) flashyard \"$@\"; }\n";

const DAEMONS: [(&str, &str); 5] = [
    ("udevd", "/usr/lib/systemd/systemd-udevd"),
    ("dbus", "/usr/bin/dbus-daemon --system --nofork --nopidfile"),
    ("avahi", "/usr/sbin/avahi-daemon --no-drop-root --no-chroot"),
    ("stafd", "/usr/bin/python3 -u /usr/sbin/stafd"),
    ("stacd", "/usr/bin/python3 -u /usr/sbin/stacd"),
];

/// Seconds for Python on emulated processors.
const PATIENCE: u64 = 400;

pub fn devices(directory: &Path) -> Vec<String> {
    tools::system(directory, Suite::Trixie, "stas-tools", &PACKAGES)
}

pub fn scenario(guest: &mut Guest, node: Node) {
    // The one outside is of no use here.
    drop(node);
    guest.check("mount the system of the daemons", SYSTEM);
    guest.spawn("node", NODE);
    guest.eventually("its name space", 10, "test -s /run/node.pid");
    guest.check("a link", LINK);
    guest.eventually(
        "the node serves",
        60,
        &format!("{ASK} cat /run/node.output; ask status"),
    );
    volume(guest, "first");
    for (name, daemon) in DAEMONS {
        let environment = format!("RUNTIME_DIRECTORY=/run/{name} PYTHONUNBUFFERED=1");
        guest.spawn(
            name,
            &format!("exec chroot /mnt env {environment} {daemon}"),
        );
        if name == "dbus" {
            guest.eventually("the bus", 20, "test -S /run/dbus/system_bus_socket");
        }
    }
    appears(guest, "first");
    volume(guest, "second");
    appears(guest, "second");
    guest.check(
        "one discovery controller, of the name that was announced",
        &format!(
            "{ASK}
            own=$(ask status | awk '/^discovery/{{print $2}}')
            nvme-device $own
            [ $(cat /sys/class/nvme/*/cntrltype | grep -c discovery) = 1 ]"
        ),
    );
}

fn nqn(volume: &str) -> String {
    format!("nqn.2026-11.example.flashyard:vault:{volume}")
}

/// In a subsystem of its own.
fn volume(guest: &mut Guest, name: &str) {
    guest.check(
        &format!("make the {name} volume"),
        &format!(
            "{ASK}
            ask drive add {name} /tmp/{name} --size 64MiB
            ask volume create {name} --drive {name} --allow any"
        ),
    );
}

fn appears(guest: &mut Guest, name: &str) {
    guest.eventually(
        &format!("the {name} volume is there by itself"),
        PATIENCE,
        &format!(
            "nvme-device {} 1 || {{ tail -n 20 /run/*.output; false; }}",
            nqn(name)
        ),
    );
}

//! Changes while the host is connected: it hears of them by an event and follows by itself.

use vm::{Guest, Node};

pub fn scenario(guest: &mut Guest, node: Node) {
    let nqn = node.shared();
    guest.check(
        "connect",
        &format!("nvme connect {} -n {nqn}", node.over_ipv4()),
    );
    guest.eventually(
        "both namespaces appear",
        10,
        &format!("nvme-device {nqn} 1 && nvme-device {nqn} 2"),
    );
    guest.check("there is no third", &format!("! nvme-device {nqn} 3"));
    node.add_volume("six", "64MiB", "--subsystem shared --allow guest")
        .expect("the node adds it");
    guest.eventually(
        "the host sees the new namespace",
        10,
        &format!("nvme-device {nqn} 3"),
    );
    guest.check(
        "and can write to it",
        &format!(
            "
        dd if=/dev/urandom of=$(nvme-device {nqn} 3) bs=1M count=4 oflag=direct 2>/dev/null"
        ),
    );
    node.command("volume delete six --force")
        .expect("the node removes it");
    guest.eventually(
        "the host sees it gone",
        10,
        &format!("! nvme-device {nqn} 3"),
    );
    guest.check(
        "the others serve on",
        &format!(
            "
        dd if=$(nvme-device {nqn} 1) of=/dev/null bs=1M count=4 iflag=direct 2>/dev/null"
        ),
    );
}

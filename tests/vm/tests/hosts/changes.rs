//! Changes while the host is connected: it hears of them by an event and follows by itself.

use vm::{Guest, Storage};

pub fn scenario(guest: &mut Guest, mut storage: Storage) {
    let nqn = storage.shared().to_owned();
    guest.check(
        "connect",
        &format!("nvme connect {} -n {nqn}", storage.over_ipv4()),
    );
    guest.eventually(
        "both namespaces appear",
        10,
        &format!("nvme-device {nqn} 1 && nvme-device {nqn} 2"),
    );
    guest.check("there is no third", &format!("! nvme-device {nqn} 3"));
    storage.add_namespace(guest);
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
    storage.remove_namespace(guest);
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

//! `flashyard attach` by the kernel's own host: two volumes of one subsystem, through a restart of
//! the node, each detached by itself.

use vm::{Guest, Node};

pub fn scenario(guest: &mut Guest, mut node: Node) {
    let nqn = node.shared();
    let [one, two] = [1, 2].map(|nsid| node.target(nqn, nsid));
    let attach = |target: &str| format!("flashyard attach --method kernel '{target}'");
    let devices = [1, 2].map(|nsid| format!("$(nvme-device {nqn} {nsid})"));
    for (target, device) in [(&one, &devices[0]), (&two, &devices[1])] {
        let attach = attach(target);
        guest.check(
            "attach prints the device",
            &format!("said=$({attach}); echo $said; [ -b $said ] && [ $said = {device} ]"),
        );
    }
    guest.refused("attached once", &attach(&one), "is attached as /dev/nvme");
    states(guest, "connected");
    guest.check(
        "write and flush",
        &format!(
            "
        head -c 1048576 /dev/urandom >/tmp/data
        dd if=/tmp/data of={} bs=64k oflag=direct
        mkfs.ext4 -q {}; mount {} /mnt; cp /tmp/data /mnt/; sync",
            devices[0], devices[1], devices[1]
        ),
    );
    guest.refused(
        "a mounted disk stays",
        &format!("flashyard detach '{two}'"),
        "first: umount /mnt",
    );
    node.kill().expect("the node runs");
    states(guest, "reconnecting");
    node.restart().expect("the node serves again");
    states(guest, "connected");
    guest.check(
        "all is there",
        &format!(
            "
        echo 3 >/proc/sys/vm/drop_caches
        dd if={} bs=64k count=16 iflag=direct 2>/dev/null | cmp - /tmp/data
        cmp /mnt/data /tmp/data",
            devices[0]
        ),
    );
    guest.check(
        "the other volume of the subsystem stays",
        &format!(
            "flashyard detach '{one}'; echo more >/mnt/more; sync; [ -b {} ]",
            devices[1]
        ),
    );
    guest.check(
        "with the last one the kernel disconnects",
        &format!(
            "umount /mnt; flashyard detach '{two}'; flashyard attached; \
             ! nvme-device {nqn} 2; [ -z \"$(flashyard attached --output json | tr -d '[] ')\" ]"
        ),
    );
    guest.check(
        "what was connected before stays connected",
        &format!(
            "nvme connect {} -n {nqn}; {}; flashyard detach '{one}'; sleep 1; nvme-device {nqn} 1",
            node.over_ipv4(),
            attach(&one)
        ),
    );
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

/// Both are listed, and stand so.
fn states(guest: &mut Guest, condition: &str) {
    let script = format!("[ $(flashyard attached | grep -cw '{condition}') = 2 ]");
    guest.eventually(&format!("both are {condition}"), 150, &script);
}

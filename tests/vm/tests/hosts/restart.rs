//! The target dies in the middle of verified I/O and comes back: the host rides it out.

use vm::{Guest, Node};

pub fn scenario(guest: &mut Guest, mut node: Node) {
    let nqn = node.shared();
    let patient = "--reconnect-delay 1 --ctrl-loss-tmo 600 --keep-alive-tmo 5";
    guest.check(
        "connect",
        &format!("nvme connect {} -n {nqn} {patient}", node.over_ipv4()),
    );
    guest.eventually(
        "both namespaces appear",
        10,
        &format!("nvme-device {nqn} 1 && nvme-device {nqn} 2"),
    );
    // Slow enough to be in the middle when the target dies.
    guest.spawn(
        "fio",
        &format!(
            "
        fio --name=restart --filename=$(nvme-device {nqn} 1) --direct=1 --ioengine=libaio \
            --iodepth=16 --rw=randwrite --bs=4k --size=64M --io_size=12M --rate_iops=300 \
            --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=11"
        ),
    );
    // Kernels differ in whether they count on the disk or on its paths.
    guest.eventually(
        "I/O is under way",
        20,
        "cat /sys/block/nvme*/stat | awk '{writes += $5} END {exit writes < 600}'",
    );
    node.kill().expect("the node runs");
    guest.eventually(
        "the host notices",
        20,
        &format!(
            "
        grep -q connecting /sys/class/nvme/$(basename $(nvme-device {nqn}))/state"
        ),
    );
    guest.check("I/O waits", "sleep 2; [ ! -e /run/fio.code ]");
    node.restart().expect("the node serves again");
    guest.eventually(
        "the host is back",
        30,
        &format!(
            "
        grep -q live /sys/class/nvme/$(basename $(nvme-device {nqn}))/state"
        ),
    );
    guest.join("fio has written and verified everything", "fio", 120);
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

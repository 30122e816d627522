//! A node comes back before a drive of its pool does: the host finds the namespace not ready, and
//! its I/O lasts until it is.

use std::thread::sleep;
use std::time::Duration;

use vm::{Guest, Node};

pub fn scenario(guest: &mut Guest, mut node: Node) {
    let nqn = "nqn.2026-11.example.flashyard:vm:late";
    node.add_pool("late", "raid1", (2, "256MiB"), &[])
        .expect("the node makes a pool");
    node.command("volume create v --pool late --size 64MiB --subsystem late --allow guest")
        .expect("the node makes a volume");
    let patient = "--reconnect-delay 1 --ctrl-loss-tmo 600 --keep-alive-tmo 5";
    guest.check(
        "connect",
        &format!("nvme connect {} -n {nqn} {patient}", node.over_ipv4()),
    );
    guest.eventually("the namespace appears", 10, &format!("nvme-device {nqn} 1"));
    guest.spawn(
        "fio",
        &format!(
            "
        fio --name=late --filename=$(nvme-device {nqn} 1) --direct=1 --ioengine=libaio \
            --iodepth=8 --rw=randwrite --bs=4k --size=32M --io_size=6M --rate_iops=100 \
            --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=14"
        ),
    );
    guest.eventually(
        "I/O is under way",
        20,
        "cat /sys/block/nvme*/stat | awk '{writes += $5} END {exit writes < 200}'",
    );
    node.kill().expect("the node runs");
    node.set_aside("late-1", true).expect("the drive is there");
    node.restart().expect("the node serves again");
    let pools = node.command("pool list").expect("the node answers");
    assert!(pools.contains("OFFLINE"), "{pools}");
    guest.eventually(
        "the host is back",
        150,
        &format!(
            "
        grep -q live /sys/class/nvme/$(basename $(nvme-device {nqn}))/state"
        ),
    );
    // Six tries without a delay are over within this.
    sleep(Duration::from_secs(7));
    guest.check("I/O waits", "[ ! -e /run/fio.code ]");
    node.set_aside("late-1", false)
        .expect("the drive was there");
    guest.join("fio has written and verified everything", "fio", 180);
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

//! Volumes of a raid6 pool: a drive fails under verified I/O, a volume grows under a connected
//! host, file systems live on both, and a clone of a snapshot is what the volume was.

use vm::{Guest, Node};

use super::file_systems::{file_system, tree};

pub fn scenario(guest: &mut Guest, node: Node) {
    let nqn = "nqn.2026-11.example.flashyard:vm:tank";
    node.add_pool("tank", "raid6", 6, "256MiB")
        .expect("the node makes a pool");
    let volume = |name: &str, size: &str| {
        let face = "--subsystem tank --allow guest";
        let create = format!("volume create {name} --pool tank --size {size} {face}");
        node.command(&create).expect("the node makes a volume");
    };
    volume("one", "96MiB");
    volume("two", "400MiB");
    guest.check(
        "connect",
        &format!("nvme connect {} -n {nqn}", node.over_ipv4()),
    );
    guest.eventually(
        "both namespaces appear",
        10,
        &format!("nvme-device {nqn} 1 && nvme-device {nqn} 2"),
    );
    guest.check(
        "64 KiB are written whole or not at all, within 1 MiB",
        &format!(
            "
        nvme id-ns $(nvme-device {nqn} 1) >/tmp/id
        grep -q '^nawupf *: 15$' /tmp/id && grep -q '^nabspf *: 255$' /tmp/id"
        ),
    );
    drive_fails(guest, &node, nqn);
    guest.check(
        "a host that has the disk open",
        &format!("sleep 600 <$(nvme-device {nqn} 1) &"),
    );
    node.command("volume resize one 192MiB").expect("it grows");
    guest.eventually(
        "the host sees the volume grow",
        10,
        &format!("[ $(blockdev --getsize64 $(nvme-device {nqn} 1)) = 201326592 ]"),
    );
    tree(guest);
    file_system(guest, nqn, 1, "ext4", "mkfs.ext4 -q", "e2fsck -f -n");
    file_system(guest, nqn, 2, "xfs", "mkfs.xfs -q -f", "xfs_repair -n");
    snapshot(guest, &node, nqn);
    node.command("pool scrub tank --wait")
        .expect("nothing is lost");
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

fn drive_fails(guest: &mut Guest, node: &Node, nqn: &str) {
    guest.spawn(
        "fio",
        &format!(
            "
        fio --name=degraded --filename=$(nvme-device {nqn} 1) --direct=1 --ioengine=libaio \
            --iodepth=16 --rw=randwrite --bs=4k --size=32M --io_size=8M --rate_iops=300 \
            --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=13"
        ),
    );
    guest.eventually(
        "I/O is under way",
        20,
        "cat /sys/block/nvme*/stat | awk '{writes += $5} END {exit writes < 400}'",
    );
    node.command("pool fail-drive tank tank-2")
        .expect("the drive fails");
    guest.join("fio has written and verified everything", "fio", 120);
    let events = node.command("event list").expect("the node tells");
    assert!(events.contains("drive tank-2 failed"), "{events}");
}

/// Takes a snapshot of a mounted file system, changes it, and compares a clone with what was.
fn snapshot(guest: &mut Guest, node: &Node, nqn: &str) {
    guest.check(
        "mount, add a file and sync",
        &format!(
            "
        mount -t ext4 $(nvme-device {nqn} 1) /mnt
        echo before >/mnt/file
        (cd /mnt; find . -type f -exec md5sum {{}} +) >/tmp/before
        sync"
        ),
    );
    node.command("volume snapshot one then")
        .expect("a snapshot");
    guest.check("change it", "echo after >/mnt/file; rm -r /mnt/tree; sync");
    node.command("volume clone then copy --subsystem tank --allow guest")
        .expect("a clone");
    guest.eventually("the clone appears", 10, &format!("nvme-device {nqn} 3"));
    guest.check(
        "the clone is what the volume was",
        &format!(
            "
        mkdir -p /copy
        mount -t ext4 $(nvme-device {nqn} 3) /copy
        (cd /copy; md5sum -c -s /tmp/before) && [ $(cat /copy/file) = before ]
        [ $(cat /mnt/file) = after ]
        umount /copy /mnt"
        ),
    );
}

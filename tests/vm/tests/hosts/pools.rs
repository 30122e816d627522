//! Volumes of a raid6 pool: a drive answers with I/O errors under file systems that are written to,
//! a volume grows under a connected host, a clone of a snapshot is what the volume was, and what
//! the kernel writes atomically.

use std::thread;
use std::time::{Duration, Instant};

use fickle::{FickleDrive, Mood};
use vm::{Guest, Node};

use super::file_systems::{file_system, tree};

pub fn scenario(guest: &mut Guest, node: Node) {
    let nqn = "nqn.2026-11.example.flashyard:vm:tank";
    let drive = FickleDrive::new(256 << 20);
    // Ends before the drive does, however this ends.
    let node = node;
    let others = [("fickle", drive.path())];
    node.add_pool("tank", "raid6", (5, "256MiB"), &others)
        .expect("the node makes a pool");
    let volume = |name: &str, size: &str| {
        let face = "--subsystem tank --allow guest";
        let create = format!("volume create {name} --pool tank --size {size} {face}");
        node.command(&create).expect("the node makes a volume");
    };
    volume("one", "192MiB");
    volume("two", "400MiB");
    atomic_writes(guest, &node, nqn);
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
    in_use(guest, nqn);
    tree(guest);
    drive_fails(guest, &node, &drive, nqn);
    guest.check(
        "a host that has the disk open",
        &format!("sleep 600 <$(nvme-device {nqn} 1) &"),
    );
    node.command("volume resize one 288MiB").expect("it grows");
    guest.eventually(
        "the host sees the volume grow",
        10,
        &format!("[ $(blockdev --getsize64 $(nvme-device {nqn} 1)) = 301989888 ]"),
    );
    file_system(guest, nqn, 1, "ext4", "mkfs.ext4 -q", "e2fsck -f -n");
    file_system(guest, nqn, 2, "xfs", "mkfs.xfs -q -f", "xfs_repair -n");
    snapshot(guest, &node, nqn);
    node.command("pool scrub tank --wait")
        .expect("nothing is lost");
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

/// Writes that are whole or absent, as a kernel that knows of such has them (Linux 6.11 and later).
/// Linux 6.12 takes a namespace at its word where it is no path of several.
fn atomic_writes(guest: &mut Guest, node: &Node, nqn: &str) {
    let release = guest.check("which kernel", "uname -r");
    let numbers = release.split('.').map(|part| part.parse().unwrap_or(0));
    let version: Vec<u32> = numbers.take(2).collect();
    if version < vec![6, 11] {
        return;
    }
    let load = |multipath: &str| {
        format!(
            "
        rmmod nvme-tcp nvme-fabrics nvme nvme-core
        insmod /modules/*-nvme-core.ko multipath={multipath}
        for module in nvme nvme-fabrics nvme-tcp; do insmod /modules/*-$module.ko; done"
        )
    };
    let connect = format!("nvme connect {} -n {nqn}", node.over_ipv4());
    let one = format!("one=$(nvme-device {nqn} 1)\n");
    let steps = [load("N"), connect];
    guest.check("connect without multipath", &steps.join("\n"));
    let there = format!("nvme-device {nqn} 1");
    guest.eventually("the namespace appears", 10, &there);
    guest.check(
        "the kernel takes the namespace at its word",
        &format!(
            "{one}
        cd /sys/block/$(basename $one)/queue
        grep . atomic_write_*
        [ $(cat atomic_write_unit_min_bytes) = 4096 ]
        [ $(cat atomic_write_unit_max_bytes) = 65536 ]
        [ $(cat atomic_write_max_bytes) = 65536 ]
        [ $(cat atomic_write_boundary_bytes) = 1048576 ]"
        ),
    );
    guest.check(
        "atomic writes of 4 and 64 KiB, also up to a boundary",
        &format!(
            "{one}
        atomic-write $one 0 65536 97
        atomic-write $one 983040 65536 98
        atomic-write $one 1048576 4096 99
        head -c 65536 $one | tr -d a | wc -c | grep -qx 0
        dd if=$one bs=65536 skip=15 count=1 2>/dev/null | tr -d b | wc -c | grep -qx 0
        dd if=$one bs=4096 skip=256 count=1 2>/dev/null | tr -d c | wc -c | grep -qx 0"
        ),
    );
    for (what, offset, bytes) in [
        ("across a boundary", 1_015_808, 65_536),
        ("that is larger", 0, 131_072),
    ] {
        guest.refused(
            &format!("an atomic write {what}"),
            &format!("{one}atomic-write $one {offset} {bytes} 100"),
            "invalid argument",
        );
    }
    let disconnect = format!("nvme disconnect -n {nqn}");
    let steps = ["set -e".to_owned(), disconnect, load("Y")];
    guest.check("disconnect, and multipath again", &steps.join("\n"));
}

/// The kernel's host is told what the second volume has in use, as it is written and given back.
fn in_use(guest: &mut Guest, nqn: &str) {
    let mut says = |what: &str, blocks: u64, script: &str| {
        // nvme-cli writes nothing before a zero.
        let nuse = match blocks {
            0 => "0".to_owned(),
            _ => format!("{blocks:#x}"),
        };
        let device = format!("two=$(nvme-device {nqn} 2)\n");
        guest.check(what, &format!("{device}{script}"));
        let asks = format!(
            "{device}nvme id-ns $two >/tmp/id; cat /tmp/id
            grep -q '^nsfeat *: 0x13$' /tmp/id && grep -q '^nuse *: {nuse}$' /tmp/id"
        );
        guest.eventually(&format!("{blocks} blocks are in use"), 30, &asks);
    };
    says("a new volume", 0, "");
    let write = "dd if=/dev/urandom of=$two bs=64k count=16 oflag=direct 2>/dev/null";
    says("write 1 MiB", 256, write);
    says("give half of it back", 128, "blkdiscard -l 524288 $two");
    says("give all of it back", 0, "blkdiscard $two");
}

/// Both file systems are mounted and under verified I/O when a drive of the pool begins to answer
/// every request with an I/O error.
fn drive_fails(guest: &mut Guest, node: &Node, drive: &FickleDrive, nqn: &str) {
    let systems = [(1, "ext4", "mkfs.ext4 -q"), (2, "xfs", "mkfs.xfs -q -f")];
    for (space, name, make) in systems {
        guest.check(
            &format!("{name}: make, mount and copy"),
            &format!(
                "
            mkdir -p /under/{name}
            {make} $(nvme-device {nqn} {space})
            mount -t {name} $(nvme-device {nqn} {space}) /under/{name}
            cp -a /tmp/tree /under/{name}/"
            ),
        );
        guest.spawn(
            &format!("fio-{name}"),
            &format!(
                "
            fio --name={name} --filename=/under/{name}/file --direct=1 --ioengine=libaio \
                --iodepth=8 --rw=randwrite --bs=4k --size=24M --io_size=8M --rate_iops=150 \
                --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=13"
            ),
        );
    }
    guest.eventually(
        "both are written to",
        60,
        "
        writes() {
            for s in /sys/block/nvme*n$1/stat; do awk '{print $5}' $s; done | sort -n | tail -1
        }
        [ -f /run/ones ] || { writes 1 >/run/ones; writes 2 >/run/twos; }
        [ -s /under/ext4/file ] && [ -s /under/xfs/file ]
        [ $(writes 1) -gt $(($(cat /run/ones) + 200)) ] &&
            [ $(writes 2) -gt $(($(cat /run/twos) + 200)) ]",
    );
    drive.set(Mood::Fails);
    out_of_use(node);
    guest.check(
        "fio is still under way",
        "[ ! -s /run/fio-ext4.code ] && [ ! -s /run/fio-xfs.code ]",
    );
    for (_, name, _) in systems {
        let (step, run) = (
            format!("{name}: fio has verified everything"),
            format!("fio-{name}"),
        );
        guest.join(&step, &run, 180);
    }
    for (space, name, repair) in [(1, "ext4", "e2fsck -f -n"), (2, "xfs", "xfs_repair -n")] {
        guest.check(
            &format!("{name}: mount again, compare and check"),
            &format!(
                "
            umount /under/{name}
            echo 3 >/proc/sys/vm/drop_caches
            mount -t {name} $(nvme-device {nqn} {space}) /under/{name}
            cd /under/{name}/tree; md5sum -c -s /tmp/sums; cd /
            umount /under/{name}
            {repair} $(nvme-device {nqn} {space})"
            ),
        );
    }
}

/// Waits until the node has told that it goes on without the drive that fails.
fn out_of_use(node: &Node) {
    let began = Instant::now();
    loop {
        let events = node.command("event list").expect("the node tells");
        if events.contains("drive fickle failed, and is out of use") {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{events}");
        thread::sleep(Duration::from_millis(100));
    }
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

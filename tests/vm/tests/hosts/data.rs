//! Blocks in and out: verified I/O with and without digests, over several queues, at every size,
//! and the commands beside read and write.

use vm::{Guest, Node};

pub fn scenario(guest: &mut Guest, node: Node) {
    let nqn = node.shared();
    let connections = [
        ("over IPv4", node.over_ipv4(), ""),
        (
            "with both digests",
            node.over_ipv4(),
            "--hdr-digest --data-digest",
        ),
        (
            "over IPv6, small queues",
            node.over_ipv6(),
            "--queue-size 16 --data-digest",
        ),
        (
            "with write and poll queues",
            node.over_ipv4(),
            "--nr-write-queues 1 --nr-poll-queues 1",
        ),
    ];
    for (words, target, options) in connections {
        let connect = format!("nvme connect {target} -n {nqn} {options}");
        guest.check(&format!("connect {words}"), &connect);
        guest.eventually(
            "both namespaces appear",
            10,
            &format!("nvme-device {nqn} 1 && nvme-device {nqn} 2"),
        );
        for space in [1, 2] {
            verified(guest, nqn, space, words);
        }
        queues(guest, nqn, options);
        guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
    }
    guest.check(
        "connect again",
        &format!("nvme connect {} -n {nqn}", node.over_ipv4()),
    );
    guest.eventually("namespace appears", 10, &format!("nvme-device {nqn} 1"));
    single_commands(guest, nqn);
    discard(guest, nqn);
}

/// Every length from one block to one longer than the largest transfer, written out of order by
/// two jobs and read back with their checksums compared.
fn verified(guest: &mut Guest, nqn: &str, space: u32, words: &str) {
    // The second namespace has blocks of 512 bytes.
    let smallest = if space == 2 { "512" } else { "4k" };
    let fio = format!(
        "space=$(nvme-device {nqn} {space})
        fio --name=mixed --filename=$space --direct=1 --ioengine=libaio --iodepth=32 \
            --numjobs=2 --offset_increment=16M --rw=randwrite --randseed=7 --size=6M \
            --bssplit={smallest}/25:4k/50:16k/10:64k/10:1m/5 \
            --verify=crc32c --verify_fatal=1 --do_verify=1"
    );
    guest.check(&format!("fio verifies namespace {space} {words}"), &fio);
}

/// The guest has two processors, so two queues for I/O, and more when it asks for kinds of them.
fn queues(guest: &mut Guest, nqn: &str, options: &str) {
    let wanted = if options.contains("poll") { 4 } else { 3 };
    let count =
        format!("count=$(cat /sys/class/nvme/$(basename $(nvme-device {nqn}))/queue_count)\n");
    guest.check(
        "all queues are in use",
        &format!("{count}[ $count -ge {wanted} ] || {{ echo $count; exit 1; }}"),
    );
}

fn single_commands(guest: &mut Guest, nqn: &str) {
    let space = format!("space=$(nvme-device {nqn} 1)\ncd /tmp\n");
    let mut check = |step: &str, script: &str| guest.check(step, &format!("{space}{script}"));
    check(
        "nvme write, read and compare",
        "
        head -c 32768 /dev/urandom >pattern
        blocks=$((32768 / $(blockdev --getss $space) - 1))
        nvme write $space -s 64 -c $blocks -z 32768 -d pattern
        nvme read $space -s 64 -c $blocks -z 32768 -d copy
        cmp pattern copy
        nvme compare $space -s 64 -c $blocks -z 32768 -d pattern",
    );
    check(
        "nvme copy",
        "
        blocks=$((32768 / $(blockdev --getss $space)))
        half=$((blocks / 2))
        nvme copy $space --sdlba=2048 --blocks=$((half - 1)),$((half - 1)) --slbs=$((64 + half)),64
        nvme read $space -s 2048 -c $((blocks - 1)) -z 32768 -d copy
        tail -c 16384 pattern >expected
        head -c 16384 pattern >>expected
        cmp expected copy",
    );
    check(
        "nvme write-zeroes",
        "
        nvme write-zeroes $space -s 64 -c 3
        nvme read $space -s 64 -c 3 -z $((4 * $(blockdev --getss $space))) -d zeroes
        cmp -n $(stat -c %s zeroes) zeroes /dev/zero",
    );
    check("nvme dsm", "nvme dsm $space -d -s 64 -b 8 -a 0");
    let mut refused = |step: &str, script: &str, reason: &str| {
        guest.refused(step, &format!("{space}{script}"), reason)
    };
    refused(
        "compare with other data",
        "
        blocks=$((32768 / $(blockdev --getss $space) - 1))
        head -c 32768 /dev/urandom >other
        nvme compare $space -s 64 -c $blocks -z 32768 -d other",
        "compare",
    );
    refused(
        "read beyond the end",
        "nvme read $space -s 99999999 -c 0 -z 4096 -d out",
        "LBA",
    );
    refused(
        "unknown admin command",
        "nvme admin-passthru $space --opcode=0xee",
        "opcode",
    );
    refused(
        "unknown log page",
        "nvme get-log $space --log-id=0xbe --log-len=512",
        "log page",
    );
    refused(
        "unknown feature",
        "nvme get-feature $space -f 0xbb",
        "field",
    );
}

fn discard(guest: &mut Guest, nqn: &str) {
    guest.check(
        "blkdiscard, then reads as zero",
        &format!(
            "
        space=$(nvme-device {nqn} 1)
        dd if=/dev/urandom of=$space bs=1M count=8 oflag=direct 2>/dev/null
        /bin/blkdiscard --offset 1048576 --length 4194304 $space
        echo 3 >/proc/sys/vm/drop_caches
        dd if=$space bs=1M skip=1 count=4 2>/dev/null | cmp -n 4194304 - /dev/zero
        ! dd if=$space bs=1M count=1 2>/dev/null | cmp -s -n 1048576 - /dev/zero"
        ),
    );
    guest.check(
        "blkdiscard --zeroout",
        &format!(
            "
        space=$(nvme-device {nqn} 1)
        /bin/blkdiscard --zeroout --length 1048576 $space
        echo 3 >/proc/sys/vm/drop_caches
        dd if=$space bs=1M count=1 2>/dev/null | cmp -n 1048576 - /dev/zero"
        ),
    );
    guest.check(
        "blkdiscard of the whole namespace",
        &format!("/bin/blkdiscard $(nvme-device {nqn} 2)"),
    );
}

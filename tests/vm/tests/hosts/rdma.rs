//! NVMe/RDMA with the kernel's own host, over soft-RoCE: node and host are in one guest, for RDMA
//! does not go through QEMU's network.

use std::path::Path;

use vm::{Guest, Node, Suite};

use crate::tools;

/// Of the suite that the programs in the guest are of.
const PACKAGES: [&str; 4] = [
    "ibverbs-providers",
    "iproute2",
    "librdmacm1",
    "rdmacm-utils",
];

/// The tools run on libraries of their own. The node is given those of RDMA alone.
const PREPARE: &str = "
    mkdir -p /tools /rdma /usr/lib/x86_64-linux-gnu
    tar -x -f /dev/nvme0n1 -C /tools
    for tool in rdma rping; do
        place=$(find /tools -name $tool -type f | head -n 1)
        cat >/bin/$tool <<END
#!/bin/sh
exec /tools/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 \
    --library-path /tools/lib/x86_64-linux-gnu:/tools/usr/lib/x86_64-linux-gnu $place \"\\$@\"
END
        chmod +x /bin/$tool
    done
    ln -s /tools/etc/libibverbs.d /etc/libibverbs.d
    ln -s /tools/usr/lib/x86_64-linux-gnu/libibverbs /usr/lib/x86_64-linux-gnu/libibverbs
    for library in libibverbs librdmacm libnl; do
        find /tools/lib /tools/usr/lib -name $library'*.so.*' -exec cp -d {} /rdma/ \\;
    done
    for module in /modules/rdma/*.ko; do insmod $module; done
    ip link set dummy0 up
    ip address add 10.99.0.1/24 dev dummy0
    rdma link add rxe0 type rxe netdev dummy0
    rdma link";

const SETTINGS: &str = r#"
state_directory = "/tmp/state"
[node]
name = "inside"
[[nvme.ports]]
listen = "127.0.0.1:4420"
[[nvme.ports]]
listen = "10.99.0.1:4420"
transport = "rdma"
[api]
listen = "127.0.0.1:4400"
protocol = "http"
"#;

/// The command line speaks to the node in the guest.
const NODE: &str = "
    export FLASHYARD_NODE=http://127.0.0.1:4400 FLASHYARD_TOKEN_FILE=/tmp/state/admin.token\n";

const OVER_RDMA: &str = "-t rdma -a 10.99.0.1 -s 4420";

/// Fetches tools and libraries and puts them on a drive, as one archive.
pub fn devices(directory: &Path) -> Vec<String> {
    let kept = ["--exclude=./usr/share", "."];
    tools::drive(directory, Suite::Bookworm, "rdma-tools", &PACKAGES, &kept)
}

pub fn scenario(guest: &mut Guest, node: Node) {
    // The one outside is of no use here.
    drop(node);
    guest.check("an RDMA device of software", PREPARE);
    guest.spawn("rping", "rping -s -a 10.99.0.1 -C 3");
    guest.eventually(
        "rping reaches itself",
        30,
        "rping -c -a 10.99.0.1 -C 3 -S 4096",
    );
    let start = "LD_LIBRARY_PATH=/rdma exec flashyard serve --config /tmp/flashyard.toml";
    guest.check(
        "settings",
        &format!("cat >/tmp/flashyard.toml <<'END'\n{SETTINGS}\nEND"),
    );
    guest.spawn("node", start);
    guest.eventually(
        "the node serves",
        60,
        &format!("{NODE} cat /run/node.output; flashyard port list | grep -w rdma"),
    );
    guest.check(
        "volumes",
        &format!(
            "{NODE}
            flashyard host add guest --nqn $(cat /etc/nvme/hostnqn)
            for size in 512 4096; do
                flashyard drive add d$size /tmp/d$size --size 64MiB
                flashyard volume create v$size --drive d$size --block-size $size --allow guest \
                    --subsystem both
            done"
        ),
    );
    let nqn = "nqn.2026-11.example.flashyard:inside:both";
    guest.check(
        "discovery over RDMA names both ports",
        &format!(
            "nvme discover {OVER_RDMA} | tee /tmp/log
            grep -q 'trtype: *rdma' /tmp/log && grep -q 'trtype: *tcp' /tmp/log
            grep -q {nqn} /tmp/log"
        ),
    );
    guest.check(
        "connect",
        &format!("nvme connect {OVER_RDMA} -n {nqn} -i 2"),
    );
    verified(guest, nqn);
    refusals(guest, nqn);
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
    guest.eventually(
        "the node has no session left",
        30,
        &format!("{NODE} ! flashyard session list | grep 10.99.0.1"),
    );
    guest.check(
        "connect again",
        &format!("nvme connect {OVER_RDMA} -n {nqn} -Q 16 && nvme disconnect -n {nqn}"),
    );
}

/// Every length from one block to one longer than the largest transfer, in capsules and out of
/// them, read back with its checksums compared; and a file system.
fn verified(guest: &mut Guest, nqn: &str) {
    for (space, smallest) in [(1, "512"), (2, "4k")] {
        let device = format!("$(nvme-device {nqn} {space})");
        guest.eventually(
            "a namespace appears",
            30,
            &format!("nvme-device {nqn} {space}"),
        );
        guest.check(
            &format!("fio verifies namespace {space}"),
            &format!(
                "fio --name=mixed --filename={device} --direct=1 --ioengine=libaio --iodepth=16 \
                     --numjobs=2 --offset_increment=16M --rw=randwrite --randseed=7 --size=4M \
                     --bssplit={smallest}/25:4k/25:8k/15:16k/10:64k/15:1m/10 \
                     --verify=crc32c --verify_fatal=1 --do_verify=1"
            ),
        );
        guest.check(
            "a file system",
            &format!(
                "mkfs.ext4 -q {device}
                mount {device} /mnt
                head -c 3000000 /dev/urandom >/mnt/data
                sync
                echo 3 >/proc/sys/vm/drop_caches
                cp /mnt/data /tmp/copy
                umount /mnt
                mount {device} /mnt
                cmp /mnt/data /tmp/copy
                umount /mnt"
            ),
        );
    }
}

/// Commands that are refused leave the connection as it is.
fn refusals(guest: &mut Guest, nqn: &str) {
    let device = format!("$(nvme-device {nqn} 1)");
    guest.refused(
        "read beyond the end",
        &format!("nvme read {device} -s 99999999 -c 0 -z 4096 -d out"),
        "LBA",
    );
    guest.refused(
        "unknown log page",
        &format!("nvme get-log {device} --log-id=0xbe --log-len=512"),
        "log page",
    );
    guest.check(
        "a read after them",
        &format!("dd if={device} of=/dev/null bs=64k count=4 iflag=direct"),
    );
}

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
pub const TOOLS: &str = "
    mkdir -p /tools /rdma /usr/lib/x86_64-linux-gnu
    tar -x -f /dev/nvme0n1 -C /tools
    for tool in rdma rping tc; do
        place=$(find /tools -name $tool -type f -perm /111 | head -n 1)
        rm -f /bin/$tool
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
    for module in /modules/rdma/*.ko; do insmod $module; done\n";

/// A network of this guest alone.
const NETWORK: &str = "
    ip link set dummy0 up
    ip address add 10.99.0.1/24 dev dummy0";

/// The node is there before the device is.
pub const DEVICE: &str = "
    rdma link add rxe0 type rxe netdev dummy0
    rdma link";

pub const SETTINGS: &str = r#"
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
pub const NODE: &str = "
    export FLASHYARD_NODE=http://127.0.0.1:4400 FLASHYARD_TOKEN_FILE=/tmp/state/admin.token\n";

pub const START: &str = "LD_LIBRARY_PATH=/rdma exec flashyard serve --config /tmp/flashyard.toml";

/// Our own host has the libraries as the node has them.
pub const PERF: &str = "env LD_LIBRARY_PATH=/rdma flashyard perf";

/// The subsystem of [`volumes`].
pub const NQN: &str = "nqn.2026-11.example.flashyard:inside:both";

pub const OVER_RDMA: &str = "-t rdma -a 10.99.0.1 -s 4420";

/// Fetches tools and libraries and puts them on a drive, as one archive.
pub fn devices(directory: &Path) -> Vec<String> {
    let kept = ["--exclude=./usr/share", "."];
    tools::drive(directory, Suite::Bookworm, "rdma-tools", &PACKAGES, &kept)
}

/// All but the device.
pub fn prepare(guest: &mut Guest) {
    guest.check("tools and modules", &format!("{TOOLS}{NETWORK}"));
    settings(guest);
}

pub fn settings(guest: &mut Guest) {
    guest.check(
        "settings",
        &format!("cat >/tmp/flashyard.toml <<'END'\n{SETTINGS}\nEND"),
    );
}

/// Waits until the port of RDMA does.
pub fn serves_hosts(guest: &mut Guest) {
    guest.eventually(
        "the port serves hosts",
        60,
        &format!("{NODE} flashyard port list | grep -w rdma | grep -w optimized"),
    );
}

/// Two volumes of the subsystem [`NQN`], of either block size: for a host of the node, or for any.
pub fn volumes(guest: &mut Guest, allowed: &str) {
    guest.check(
        "volumes",
        &format!(
            "{NODE}
            for size in 512 4096; do
                flashyard drive add d$size /tmp/d$size --size 64MiB
                flashyard volume create v$size --drive d$size --block-size $size \
                    --allow {allowed} --subsystem both
            done"
        ),
    );
}

pub fn scenario(guest: &mut Guest, node: Node) {
    // The one outside is of no use here.
    drop(node);
    prepare(guest);
    guest.spawn("node", START);
    guest.eventually(
        "the node serves",
        60,
        &format!("{NODE} cat /run/node.output; flashyard port list | grep -w rdma"),
    );
    guest.check(
        "the port says that its device is missing",
        &format!(
            "{NODE} flashyard port list | grep -w rdma | grep -w OFFLINE
            flashyard status | grep 'port 2 serves nobody'"
        ),
    );
    guest.check("an RDMA device of software", DEVICE);
    guest.spawn("rping", "rping -s -a 10.99.0.1 -C 3");
    guest.eventually(
        "rping reaches itself",
        30,
        "rping -c -a 10.99.0.1 -C 3 -S 4096",
    );
    serves_hosts(guest);
    guest.check(
        "a host",
        &format!("{NODE} flashyard host add guest --nqn $(cat /etc/nvme/hostnqn)"),
    );
    volumes(guest, "guest");
    let nqn = NQN;
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
    attached(guest);
    two_paths(guest, nqn);
    proved(guest);
    copied(guest);
}

/// The node tells of its RDMA port, and `attach` has the kernel connect to it.
fn attached(guest: &mut Guest) {
    guest.check(
        "the node tells how to connect over RDMA",
        &format!(
            "{NODE}
            flashyard status | grep nvme/rdma | grep 10.99.0.1:4420
            flashyard host show guest --commands | grep -e '--transport=rdma --traddr=10.99.0.1'
            flashyard volume show v4096 | grep -e '-t rdma -a 10.99.0.1 -s 4420'"
        ),
    );
    guest.check(
        "attach by name over RDMA",
        &format!(
            "{NODE}
            device=$(flashyard attach v4096 --transport rdma)
            grep -l rdma /sys/class/nvme/nvme*/transport
            dd if=/dev/urandom of=/tmp/pattern bs=1M count=3
            dd if=/tmp/pattern of=$device bs=1M oflag=direct
            dd if=$device of=/tmp/read bs=1M count=3 iflag=direct
            cmp /tmp/pattern /tmp/read
            flashyard attached --output json | grep rdma://10.99.0.1:4420
            flashyard detach v4096
            ! grep -w rdma /sys/class/nvme/nvme*/transport"
        ),
    );
    guest.refused(
        "no RDMA by FUSE",
        &format!("{NODE} flashyard attach v4096 --transport rdma --method fuse"),
        "only the kernel's host connects over RDMA",
    );
}

/// One device over both transports. Verified I/O goes on while each of them is taken away in turn,
/// and while the node is killed and starts again.
fn two_paths(guest: &mut Guest, nqn: &str) {
    let device = guest.check(
        "attach by a path of each transport",
        &format!(
            "{NODE} flashyard attach 'rdma://10.99.0.1:4420/{nqn}?nsid=2' \
                'tcp://127.0.0.1:4420/{nqn}?nsid=2' --name both"
        ),
    );
    let device = device.trim().lines().last().unwrap_or_default().to_owned();
    let live = |transport: &str| {
        format!(
            "for path in /sys/class/nvme/nvme*; do
                [ $(cat $path/transport) = {transport} ] && [ $(cat $path/state) = live ] && exit 0
            done
            exit 1"
        )
    };
    for transport in ["rdma", "tcp"] {
        guest.eventually("a path lives", 60, &live(transport));
    }
    guest.spawn(
        "load",
        &format!(
            "fio --name=paths --filename={device} --direct=1 --ioengine=libaio --iodepth=8 \
                --rw=randwrite --bssplit=4k/60:64k/40 --size=32M --io_size=128M --randseed=3 \
                --rate_iops=4000,400 --verify=crc32c --verify_fatal=1 --do_verify=1 \
                && touch /tmp/load.done"
        ),
    );
    for (number, transport, other) in [(2, "rdma", "tcp"), (1, "tcp", "rdma")] {
        guest.check(
            "a port becomes inaccessible",
            &format!("{NODE} sleep 3; flashyard port set {number} --path inaccessible; sleep 3"),
        );
        guest.check("the other path lives", &live(other));
        guest.check(
            "it is back",
            &format!("{NODE} flashyard port set {number} --path optimized"),
        );
        guest.eventually("both paths live", 60, &live(transport));
    }
    guest.check("the node dies", "kill -9 $(pidof flashyard); sleep 3");
    guest.spawn("node", START);
    for transport in ["rdma", "tcp"] {
        guest.eventually("a path is back", 90, &live(transport));
    }
    guest.eventually("verified I/O has ended well", 300, "test -e /tmp/load.done");
    guest.check("detach", &format!("{NODE} flashyard detach both"));
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

/// Host and node prove secrets to each other over RDMA, or do not connect.
fn proved(guest: &mut Guest) {
    let attach = "flashyard attach v512 --transport rdma";
    guest.check(
        "a key for the host",
        &format!(
            "{NODE}
            flashyard host key guest --generate --mutual -o json >/tmp/key
            for part in secret controller_secret; do
                sed -n \"s/.*\\\"$part\\\": *\\\"\\([^\\\"]*\\)\\\".*/\\1/p\" /tmp/key >/tmp/$part
                test -s /tmp/$part
            done"
        ),
    );
    guest.refused(
        "no secret",
        &format!("{NODE} {attach}"),
        "refused to connect",
    );
    guest.check(
        "secrets of both ends",
        &format!(
            "{NODE}
            device=$({attach} --dhchap-secret-file /tmp/secret \
                --controller-secret-file /tmp/controller_secret)
            dd if=$device of=/dev/null bs=64k count=4 iflag=direct
            flashyard detach v512"
        ),
    );
}

/// A snapshot is sent from volume to volume of a node that has no port of TCP any more: our own
/// host reads and writes it over RDMA.
fn copied(guest: &mut Guest) {
    let over_tcp = "[[nvme.ports]]\nlisten = \"127.0.0.1:4420\"\n";
    let without = SETTINGS.replacen(over_tcp, "", 1);
    assert!(without.len() < SETTINGS.len(), "{SETTINGS}");
    guest.check(
        "the node ends, and loses its port of TCP",
        &format!(
            "kill $(pidof flashyard)
            while pidof flashyard; do sleep 0.2; done
            cat >/tmp/flashyard.toml <<'END'\n{without}\nEND"
        ),
    );
    guest.spawn("node", START);
    guest.eventually(
        "it serves hosts over RDMA alone",
        60,
        &format!(
            "{NODE} flashyard port list >/tmp/ports
            grep -w rdma /tmp/ports | grep -w optimized && ! grep -w tcp /tmp/ports"
        ),
    );
    guest.check(
        "a volume with a snapshot",
        &format!(
            "{NODE}
            flashyard host key guest --remove
            for drive in p0 p1 p2; do flashyard drive add $drive /tmp/$drive --size 256MiB; done
            flashyard pool create fast --level raid5 --drives p0,p1,p2
            flashyard volume create original --pool fast --size 64MiB --allow guest
            device=$(flashyard attach original --transport rdma)
            head -c 5000000 /dev/urandom >/tmp/data
            dd if=/tmp/data of=$device bs=1M conv=fsync
            flashyard detach original
            flashyard snapshot create original=monday"
        ),
    );
    guest.check(
        "a copy over RDMA",
        &format!(
            "{NODE} export LD_LIBRARY_PATH=/rdma
            flashyard snapshot send monday | flashyard volume receive copy --pool fast \
                --snapshot tuesday --transport rdma --allow guest
            device=$(flashyard attach copy --transport rdma)
            dd if=$device of=/tmp/read bs=1M count=5 iflag=direct
            cmp -n 5000000 /tmp/data /tmp/read
            flashyard detach copy"
        ),
    );
    guest.refused(
        "no copy over TCP",
        &format!("{NODE} flashyard snapshot send monday --transport tcp >/tmp/stream"),
        "the node serves no NVMe/TCP address",
    );
}

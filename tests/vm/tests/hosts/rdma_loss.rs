//! NVMe/RDMA over a network that loses, reorders, repeats and damages packets: the node is in one
//! guest, its hosts are in another, for soft-RoCE hands packets of one machine over without a
//! network.

use std::path::Path;

use vm::{Guest, Image};

use crate::profile_directory;
use crate::rdma::{
    NODE, NQN, OVER_RDMA, PERF, START, TOOLS, devices, serves_hosts, settings, volumes,
};

/// What each end does to the packets that it sends: one in 200 comes twice, and one in 3,300 is
/// lost, overtakes another or is damaged, which has its receiver drop it. Where one in 300 is lost,
/// soft-RoCE of Linux 6.12 ends each connection within seconds, also to Linux's own controller.
const BAD: &str = "/bin/tc qdisc replace dev eth1 root netem \
    delay 1ms duplicate 0.5% loss 0.01% reorder 0.01% corrupt 0.01%";

/// Nothing of what it sends arrives.
const DEAD: &str = "/bin/tc qdisc replace dev eth1 root netem loss 100%";

const GOOD: &str = "/bin/tc qdisc del dev eth1 root";

/// Each end loses five packets in a load, on the average; of a hundred and fifty loads, one loses
/// none at an end.
const LOADS_MAX: usize = 5;

/// Fails unless packets were lost on the way out.
const LOST: &str =
    "/bin/tc -s qdisc show dev eth1 | tee /tmp/lost; grep -q 'dropped [1-9]' /tmp/lost";

/// Fails unless the device was asked for something twice.
const REPEATED: &str = "cd /sys/class/infiniband/rxe0/ports/1/hw_counters
    grep -H . *
    [ $(cat duplicate_request) -gt 0 ]";

/// The one end of a network of two guests, whose frames go through a socket: who comes first makes
/// it.
fn link(socket: &Path, is_first: bool) -> Vec<String> {
    let server = if is_first { "on" } else { "off" };
    let place = socket.display();
    let network = format!("stream,id=link,server={server},addr.type=unix,addr.path={place}");
    // Each guest is 52:54:00:12:34:56 to its own network.
    let address = if is_first {
        "52:54:00:99:00:01"
    } else {
        "52:54:00:99:00:02"
    };
    let card = format!("virtio-net-pci,netdev=link,romfile=,mac={address}");
    ["-netdev", &network, "-device", &card]
        .map(str::to_owned)
        .to_vec()
}

/// Boots both guests and runs the scenario.
pub fn run(image: &Image, name: &str) {
    let directory = profile_directory().with_file_name("vm");
    // A path of a socket is short.
    let place = tempfile::tempdir().expect("a place for the link");
    let socket = place.path().join("link");
    let mut guests = [("node", true), ("host", false)].map(|(end, is_first)| {
        let label = format!("{name} {end}");
        let mut devices = devices(&directory.join(format!("{label}.devices").replace(' ', "-")));
        devices.extend(link(&socket, is_first));
        Guest::boot(image, &devices, &directory, &label).expect("the guest boots")
    });
    let [node, host] = &mut guests;
    for (guest, address) in [(&mut *node, "10.99.0.1"), (&mut *host, "10.99.0.2")] {
        guest.check("tools and modules", TOOLS);
        guest.check(
            "a network of two, and an RDMA device of software on it",
            &format!(
                "ip link set eth1 up
                ip address add {address}/24 dev eth1
                rdma link add rxe0 type rxe netdev eth1"
            ),
        );
    }
    scenario(node, host);
}

fn scenario(node: &mut Guest, host: &mut Guest) {
    serve(node);
    node.spawn("rping", "rping -s -a 10.99.0.1 -C 3");
    host.eventually(
        "rping reaches the other guest",
        30,
        "rping -c -a 10.99.0.1 -C 3",
    );
    host.check(
        "connect",
        &format!("nvme connect {OVER_RDMA} -n {NQN} -i 2 -l 600 -c 2"),
    );
    host.eventually("a namespace appears", 30, &format!("nvme-device {NQN} 1"));
    for guest in [&mut *node, &mut *host] {
        guest.check("the network becomes bad", BAD);
    }
    host.spawn("kernel", &by_kernel("16M", ""));
    host.join("the kernel's host has verified I/O", "kernel", 300);
    for _ in 0..LOADS_MAX {
        host.spawn("library", &by_library("--runtime 20s"));
        let report = host.join("our host has verified I/O", "library", 300);
        assert!(report.contains(": 0 mismatches"), "{report}");
        if [&mut *node, &mut *host].map(|end| end.run(LOST).code) == [0, 0] {
            break;
        }
    }
    for guest in [&mut *node, &mut *host] {
        guest.check("packets were lost", LOST);
        guest.check("and requests came twice", REPEATED);
    }
    outage(node, host);
}

/// A node with two volumes, which any host may use.
fn serve(guest: &mut Guest) {
    settings(guest);
    guest.spawn("node", START);
    serves_hosts(guest);
    volumes(guest, "any");
}

/// From one block to what takes many packets, `bytes` of it, at the first namespace.
fn by_kernel(bytes: &str, more: &str) -> String {
    format!(
        "fio --name=mixed --filename=$(nvme-device {NQN} 1) --direct=1 --ioengine=libaio \
            --iodepth=8 --rw=randwrite --randseed=7 --size=8M --io_size={bytes} \
            --bssplit=512/25:4k/35:16k/20:64k/20 --verify=crc32c --verify_fatal=1 --do_verify=1 \
            {more}"
    )
}

/// The same at the second one, by our own host.
fn by_library(more: &str) -> String {
    format!(
        "{PERF} 'rdma://10.99.0.1:4420/{NQN}?nsid=2' --rw randrw --bs 16k --size 4m --iodepth 8 \
            --verify crc32c {more}"
    )
}

/// The network is dead until both hosts have lost their connections; they come back by themselves,
/// over a bad one, and miss nothing.
fn outage(node: &mut Guest, host: &mut Guest) {
    host.spawn("kernel", &by_kernel("32M", "--rate=,400k"));
    host.spawn("library", &by_library("--runtime 90s --reconnect 5m"));
    node.check("the network dies", &format!("sleep 10; {DEAD}"));
    host.eventually(
        "the kernel's host has lost its connection",
        120,
        "grep -x connecting /sys/class/nvme/nvme*/state",
    );
    node.eventually(
        "the node has lost both",
        120,
        &format!("{NODE} ! flashyard session list | grep 10.99.0.2"),
    );
    node.check("it is a bad one again", BAD);
    host.join(
        "the kernel's host has verified all of its I/O",
        "kernel",
        300,
    );
    let report = host.join("our host has verified all of its I/O", "library", 300);
    assert!(report.contains(": 0 mismatches"), "{report}");
    for guest in [&mut *node, &mut *host] {
        guest.check("the network is good", GOOD);
    }
    host.check("disconnect", &format!("nvme disconnect -n {NQN}"));
    node.eventually(
        "the node has no session left",
        30,
        &format!("{NODE} ! flashyard session list | grep 10.99.0.2"),
    );
}

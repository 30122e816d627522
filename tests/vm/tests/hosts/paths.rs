//! Two paths to one subsystem: verified I/O follows what the node says of its ports, and goes on
//! when one path is lost.

use vm::{Guest, Node};

pub fn scenario(guest: &mut Guest, node: Node) {
    let nqn = node.shared();
    let patient = "--reconnect-delay 1 --ctrl-loss-tmo 600 --keep-alive-tmo 5";
    for path in [node.over_ipv4(), node.over_ipv6()] {
        guest.check(
            "connect",
            &format!("nvme connect {path} -n {nqn} {patient}"),
        );
    }
    guest.eventually(
        "one disk with two optimized paths",
        10,
        &format!("nvme-device {nqn} 1 && {}", paths("optimized optimized")),
    );
    guest.spawn(
        "fio",
        &format!(
            "
        fio --name=paths --filename=$(nvme-device {nqn} 1) --direct=1 --ioengine=libaio \
            --iodepth=16 --rw=randwrite --bs=4k --size=64M --io_size=20M --rate_iops=250 \
            --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=12"
        ),
    );
    say(&node, 1, "inaccessible");
    guest.eventually(
        "the host hears of the path that is not to be used",
        10,
        &paths("inaccessible optimized"),
    );
    goes_on(guest, "I/O takes the other");
    say(&node, 1, "optimized");
    say(&node, 2, "non-optimized");
    guest.eventually(
        "the host hears of the better path",
        10,
        &paths("optimized non-optimized"),
    );
    goes_on(guest, "I/O goes on");
    guest.check(
        "the better path is lost",
        &format!(
            "
        for path in /sys/class/nvme/nvme*; do
            grep -q traddr=10.0.2.2 $path/address && nvme disconnect -d ${{path##*/}}
        done
        {}",
            paths("non-optimized")
        ),
    );
    goes_on(guest, "I/O takes the one that is left");
    say(&node, 2, "inaccessible");
    guest.eventually("no path is left", 10, &paths("inaccessible"));
    guest.check("I/O waits", "sleep 2; [ ! -e /run/fio.code ]");
    say(&node, 2, "optimized");
    guest.join("fio has written and verified everything", "fio", 120);
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

fn say(node: &Node, port: u16, path: &str) {
    node.command(&format!("port set {port} --path {path}"))
        .expect("the node changes the path");
}

/// That the first namespace's paths are in these states, in the order of their addresses.
fn paths(states: &str) -> String {
    format!(
        "
        found=
        for address in 10.0.2.2 fec0::2; do
            for path in /sys/class/nvme/nvme*; do
                grep -q traddr=$address, $path/address || continue
                found=\"$found $(cat $path/nvme*c*n1/ana_state)\"
            done
        done
        echo found:$found
        [ \"$(echo $found)\" = \"{states}\" ]"
    )
}

/// That fio runs, and that its writes arrive, however slow the machine is.
fn goes_on(guest: &mut Guest, step: &str) {
    let writes = "cat /sys/block/nvme*/stat | awk '{writes += $5} END {print writes}'";
    guest.check(
        step,
        &format!(
            "
        before=$({writes})
        for second in $(seq 60); do
            [ $({writes}) -gt $((before + 50)) ] && break
            sleep 1
        done
        [ $({writes}) -gt $((before + 50)) ] && [ ! -e /run/fio.code ]"
        ),
    );
}

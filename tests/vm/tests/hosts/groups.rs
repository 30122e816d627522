//! Two pools behind two ports, each accessible through the one where the other is not: verified I/O
//! to each goes its own way, and both change sides under it.

use vm::{Guest, Node};

const NQN: &str = "nqn.2026-11.example.flashyard:vm:split";

/// Addresses of the ports, as the host knows them.
const PORTS: [&str; 2] = ["10.0.2.2", "fec0::2"];

pub fn scenario(guest: &mut Guest, node: Node) {
    for pool in ["left", "right"] {
        node.add_pool(pool, "raid0", (1, "512MiB"), &[])
            .expect("the node makes a pool");
        let face = "--subsystem split --allow guest";
        let create = format!("volume create of-{pool} --pool {pool} --size 96MiB {face}");
        node.command(&create).expect("the node makes a volume");
    }
    say(&node, 2, "left", "--path inaccessible");
    say(&node, 1, "right", "--path inaccessible");
    let patient = "--reconnect-delay 1 --ctrl-loss-tmo 600 --keep-alive-tmo 5";
    for path in [node.over_ipv4(), node.over_ipv6()] {
        let connect = format!("nvme connect {path} -n {NQN} {patient}");
        guest.check("connect", &connect);
    }
    guest.eventually(
        "two disks, and a path to each that is not to be used",
        10,
        &format!(
            "nvme-device {NQN} 1 && nvme-device {NQN} 2 && {}",
            states("optimized inaccessible inaccessible optimized")
        ),
    );
    guest.check(
        "each volume is of its pool's group",
        &format!(
            "
        group() {{ nvme id-ns $(nvme-device {NQN} $1) | awk -F: '/^anagrpid/ {{print $2 + 0}}'; }}
        [ $(group 1) -gt 1 ] && [ $(group 2) -gt 1 ] && [ $(group 1) != $(group 2) ]"
        ),
    );
    for (nsid, name) in [(1, "left"), (2, "right")] {
        guest.spawn(
            name,
            &format!(
                "
            fio --name={name} --filename=$(nvme-device {NQN} {nsid}) --direct=1 --ioengine=libaio \
                --iodepth=8 --rw=randwrite --bs=4k --size=64M --io_size=28M --rate_iops=150 \
                --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed={nsid}"
            ),
        );
    }
    goes(guest, "each goes its own way", PORTS);
    let [first, second] = PORTS;
    for (step, [left, right]) in [
        ("both have changed sides", [second, first]),
        ("both are back", PORTS),
    ] {
        let port_of = |address| if address == first { 1 } else { 2 };
        // A way is opened before the other is closed.
        for (pool, to) in [("left", port_of(left)), ("right", port_of(right))] {
            say(&node, to, pool, "--as-port");
            say(&node, 3 - to, pool, "--path inaccessible");
        }
        let states_now = match left == first {
            true => "optimized inaccessible inaccessible optimized",
            false => "inaccessible optimized optimized inaccessible",
        };
        guest.eventually("the host hears of both", 10, &states(states_now));
        goes(guest, step, [left, right]);
    }
    for name in ["left", "right"] {
        let step = format!("fio has written and verified all of {name}");
        guest.join(&step, name, 240);
    }
    guest.check("disconnect", &format!("nvme disconnect -n {NQN}"));
}

/// Numbers of both disks, by NSID: Linux numbers them as it finds them, in any order.
fn numbers() -> String {
    format!(
        "
        number() {{ disk=$(nvme-device {NQN} $1); echo ${{disk##*n}}; }}
        left=$(number 1) right=$(number 2)"
    )
}

fn say(node: &Node, port: u16, pool: &str, path: &str) {
    node.command(&format!("port set {port} --pool {pool} {path}"))
        .expect("the node changes the path");
}

/// That both namespaces are in these states through the first port, and then through the second.
fn states(states: &str) -> String {
    let ([first, second], numbers) = (PORTS, numbers());
    format!(
        "{numbers}
        found=
        for address in {first} {second}; do
            for path in /sys/class/nvme/nvme*; do
                grep -q traddr=$address, $path/address || continue
                found=\"$found $(cat $path/nvme*c*n$left/ana_state)\"
                found=\"$found $(cat $path/nvme*c*n$right/ana_state)\"
            done
        done
        echo found:$found
        [ \"$(echo $found)\" = \"{states}\" ]"
    )
}

/// That writes to the left volume arrive through the port with this address, those to the right one
/// through that, and none otherwise, however slow the machine is.
fn goes(guest: &mut Guest, step: &str, [to_left, to_right]: [&str; 2]) {
    let numbers = numbers();
    guest.check(
        step,
        &format!(
            "{numbers}
        writes() {{
            for path in /sys/class/nvme/nvme*; do
                grep -q traddr=$1, $path/address || continue
                awk '{{print $5}}' $path/nvme*c*n$2/stat
            done
        }}
        used() {{ echo $(writes {to_left} $left) $(writes {to_right} $right); }}
        unused() {{ echo $(writes {to_right} $left) $(writes {to_left} $right); }}
        arrived() {{
            [ $(writes {to_left} $left) -gt $((${{before% *}} + 50)) ] &&
                [ $(writes {to_right} $right) -gt $((${{before#* }} + 50)) ]
        }}
        sleep 1
        before=$(used) others=$(unused)
        for second in $(seq 60); do
            arrived && break
            sleep 1
        done
        echo used: $before, then $(used), others: $others, then $(unused)
        arrived && [ \"$(unused)\" = \"$others\" ] &&
            [ ! -e /run/left.code ] && [ ! -e /run/right.code ]"
        ),
    );
}

//! Finding, connecting and asking: discovery, every query an administrator has, refusals.

use vm::{Guest, Node};

pub fn scenario(guest: &mut Guest, node: Node) {
    let (four, six) = (node.over_ipv4(), node.over_ipv6());
    let (shared, private) = (node.shared(), node.private());
    for (family, target) in [("IPv4", &four), ("IPv6", &six)] {
        let found = guest.check(&format!("nvme discover over {family}"), &discover(target));
        assert!(found.contains(shared), "discovery lacks {shared}:\n{found}");
        assert!(
            !found.contains(private),
            "discovery shows a subsystem of others:\n{found}"
        );
    }

    guest.check("nvme connect-all", &format!("nvme connect-all {four}"));
    guest.eventually("both namespaces appear", 10, &namespaces(shared));
    ask(guest, shared);
    cross_reset(guest);
    subsystem_reset(guest);
    guest.check("nvme disconnect", &format!("nvme disconnect -n {shared}"));
    guest.check(
        "nothing stays connected",
        "[ -z \"$(ls /sys/class/nvme)\" ]",
    );

    refusals(guest, &node);
    persistent_discovery(guest, &node);
}

fn discover(target: &str) -> String {
    format!("nvme discover {target}")
}

fn namespaces(nqn: &str) -> String {
    format!("nvme-device {nqn} 1 && nvme-device {nqn} 2")
}

/// Every question nvme-cli puts to a controller and a namespace.
fn ask(guest: &mut Guest, nqn: &str) {
    let device = format!("controller=$(nvme-device {nqn})\nspace=$(nvme-device {nqn} 1)\n");
    let mut ask = |question: &str, wanted: &str| {
        let said = guest.check(
            &format!("nvme {question}"),
            &format!("{device}nvme {question}"),
        );
        assert!(
            said.contains(wanted),
            "nvme {question} lacks `{wanted}`:\n{said}"
        );
    };
    ask("list", "/dev/nvme");
    ask("list-subsys", nqn);
    ask("id-ctrl $controller", nqn);
    ask("id-ns $space", "nsze");
    ask("ns-descs $space", "uuid");
    ask("list-ns $controller", "0x1");
    ask("smart-log $controller", "percentage_used");
    ask("error-log $controller", "Error Log Entries");
    ask("ana-log $controller", "ANA LOG HEADER");
    ask("effects-log $controller", "");
    ask("get-feature $controller -f 7 -H", "Number of Queues");
    ask("get-feature $controller -f 0xb -H", "Async");
    ask("get-feature $controller -f 0xf -H", "Keep Alive");
    ask(
        "get-property $controller --offset=0x1c --human-readable",
        "RDY",
    );
    ask("changed-ns-list-log $controller", "");
    ask("reset $controller", "");
    ask("flush $space", "");
}

/// Ends a path by another one, as a host does that has lost it. The kernel connects it again.
fn cross_reset(guest: &mut Guest) {
    let said = guest.check(
        "a path is ended by the other one",
        "
        set -- $(ls /sys/class/nvme)
        nvme id-ctrl /dev/$1 --raw-binary >/run/lost
        number() { od -A n -t u$2 -j $1 -N $2 /run/lost | tr -d ' '; }
        named=$(($(number 135 1) << 16 | $(number 78 2)))
        # nvme-cli 3 says results when it is verbose, which 2 cannot be.
        verbose=$(nvme admin-passthru --help 2>&1 | grep -o -m 1 -e --verbose || true)
        nvme admin-passthru /dev/$2 --opcode=0x38 --cdw10=$named \
            --cdw12=$(number 136 4) --cdw13=$(number 140 4) $verbose 2>&1",
    );
    let result = said.rsplit("0x").next().map(str::trim);
    let result = result.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    assert_eq!(result, Some(7), "no reset at once:\n{said}");
    guest.eventually(
        "both paths are live, one by a new controller",
        30,
        "
        [ $(cat /sys/class/nvme/*/state | grep -c live) = 2 ]
        set -- $(ls /sys/class/nvme)
        nvme id-ctrl /dev/$1 --raw-binary | cmp -s - /run/lost && exit 1
        exit 0",
    );
}

/// Resets the subsystem by one path: both paths end, and the kernel connects them again.
fn subsystem_reset(guest: &mut Guest) {
    // The kernel opens none that it has to connect again.
    guest.eventually(
        "both paths answer",
        30,
        "for path in $(ls /sys/class/nvme); do nvme id-ctrl /dev/$path >/run/asked || exit 1; done",
    );
    guest.check(
        "nvme subsystem-reset",
        "
        set -- $(ls /sys/class/nvme)
        nvme subsystem-reset /dev/$1",
    );
    guest.eventually(
        "both paths are live, by controllers that tell of the reset",
        60,
        "
        [ $(cat /sys/class/nvme/*/state | grep -c live) = 2 ] || exit 1
        for path in $(ls /sys/class/nvme); do
            nvme get-property /dev/$path --offset=0x1c --human-readable >/run/status
            grep -i 'nssro.*yes' /run/status || exit 1
        done",
    );
}

/// What must be refused, and in which words.
fn refusals(guest: &mut Guest, node: &Node) {
    let four = node.over_ipv4();
    let connect = |nqn: &str| {
        format!("dmesg -c >/run/seen; nvme connect {four} -n {nqn}; code=$?; dmesg; exit $code")
    };
    let unknown = format!("{}-of-nobody", node.shared());
    guest.refused(
        "connect to an unknown subsystem",
        &connect(&unknown),
        "subsysnqn",
    );
    guest.refused(
        "connect where not admitted",
        &connect(node.private()),
        "not allowed",
    );
    let wrong_port = "nvme connect -t tcp -a 127.0.0.1 -s 9 -n nqn.2026-11.example:none";
    guest.refused("connect where nobody listens", wrong_port, "refused");
}

/// Discovery controllers of two nodes, one of these by two ports: a node's is a subsystem of its
/// own, whose controllers stay and hear of that node's changes.
fn persistent_discovery(guest: &mut Guest, node: &Node) {
    let mut other = node.beside("other").expect("another node serves");
    for way in [node.over_ipv4(), node.over_ipv6(), other.over_ipv4()] {
        let discover = format!("nvme discover {way} --persistent");
        guest.check("persistent discovery", &discover);
    }
    let [nqn, others] = [node, &other].map(|node| node.discovery().expect("the node has a name"));
    let live = format!(
        "cat /sys/class/nvme/*/subsysnqn
        [ $(cat /sys/class/nvme/*/state | grep -c live) = 3 ]
        [ $(cat /sys/class/nvme/*/subsysnqn | grep -c -x {nqn}) = 2 ]
        [ $(cat /sys/class/nvme/*/subsysnqn | grep -c -x {others}) = 1 ]
        [ $(ls -d /sys/class/nvme-subsystem/nvme-subsys* | wc -l) = 2 ]"
    );
    guest.check(
        "discovery controllers stay, of each node in a subsystem of its own",
        &format!("sleep 1; {live}"),
    );
    guest.spawn("uevents", "uevent sh -c 'env >>/run/uevents'");
    let heard = |count: u32| format!("[ $(grep -c NVME_AEN=0x70f002 /run/uevents) = {count} ]");
    for (changed, heard_by) in [(node, 2), (&other, 3)] {
        changed
            .add_volume("late", "64MiB", "--subsystem late --allow guest")
            .expect("the node adds it");
        guest.eventually("they hear of a new subsystem", 20, &heard(heard_by));
    }
    for (name, found, lacking) in [
        (&nqn, ":vm:late", ":other:"),
        (&others, ":other:late", ":vm:"),
    ] {
        let again = format!("nvme discover --device $(basename $(nvme-device {name}))");
        let log = guest.check("it answers again", &again);
        assert!(log.contains(found), "discovery lacks {found}:\n{log}");
        assert!(!log.contains(lacking), "another node's subsystem:\n{log}");
        assert!(log.contains(name), "discovery lacks itself, {name}:\n{log}");
    }
    other.kill().expect("the node runs");
    guest.eventually(
        "one of the three is lost",
        30,
        "[ $(cat /sys/class/nvme/*/state | grep -c live) = 2 ]",
    );
    other.restart().expect("the node serves again");
    guest.eventually("it comes again", 60, &live);
    guest.check(
        "disconnect from discovery",
        "nvme disconnect-all; [ -z \"$(ls /sys/class/nvme)\" ]",
    );
}

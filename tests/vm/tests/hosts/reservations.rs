//! Reservations and write protection with nvme-cli: two hosts, one after the other, and a node that
//! is killed between.
//! What nvme-cli 2 calls `regctl` is `regstrnt` for nvme-cli 3.

use vm::{Guest, Node};

const FIRST: &str = "2cd2c43b-a90a-45c1-a8cd-86b33ab273b5";
const SECOND: &str = "77777777-a90a-45c1-a8cd-86b33ab273b5";

pub fn scenario(guest: &mut Guest, mut node: Node) {
    let second = format!("host add second --nqn nqn.2014-08.org.nvmexpress:uuid:{SECOND}");
    node.command(&second).expect("the node adds a host");
    node.command("volume allow four second")
        .expect("the node allows it");
    let nqn = node.shared();
    connect(guest, &node, FIRST);
    guest.check(
        "the first host registers, to persist, and acquires",
        &format!(
            "
            dev=$(nvme-device {nqn} 1)
            nvme id-ctrl $dev | grep -q 'oncs *: 0x.*[2367abef].$'
            nvme id-ns $dev | grep -q 'rescap.*0xff'
            nvme resv-register $dev -n 1 -k 0xaa -r 0 -p 3
            nvme resv-acquire $dev -n 1 -c 0xaa -t 1 -a 0
            dd if=/dev/zero of=$dev bs=4k count=1 oflag=direct 2>/dev/null
            nvme resv-report $dev -n 1 -e >/run/report
            grep -q 'rtype *: 1' /run/report
            grep -q -E '(regctl|regstrnt) *: 1' /run/report
            grep -q 'ptpls *: 1' /run/report
            nvme disconnect -n {nqn}"
        ),
    );
    node.kill().expect("the node runs");
    node.restart().expect("the node comes back");
    connect(guest, &node, SECOND);
    guest.check(
        "the second host may read",
        &format!("dd if=$(nvme-device {nqn} 1) of=/dev/null bs=4k count=1 iflag=direct"),
    );
    let write = format!("dd if=/dev/zero of=$(nvme-device {nqn} 1) bs=4k count=1 oflag=direct");
    guest.refused("and may not write", &write, "");
    guest.refused(
        "nor acquire",
        &format!(
            "dev=$(nvme-device {nqn} 1)
            nvme resv-register $dev -n 1 -k 0xbb -r 0 || exit 0
            nvme resv-acquire $dev -n 1 -c 0xbb -t 2 -a 0"
        ),
        "conflict",
    );
    guest.check(
        "it preempts and aborts, and then it may",
        &format!(
            "
            dev=$(nvme-device {nqn} 1)
            nvme resv-acquire $dev -n 1 -c 0xbb -p 0xaa -t 2 -a 2
            {write}
            nvme resv-report $dev -n 1 -e >/run/report
            grep -q 'rtype *: 2' /run/report
            grep -q -E '(regctl|regstrnt) *: 1' /run/report
            nvme disconnect -n {nqn}"
        ),
    );
    connect(guest, &node, FIRST);
    guest.refused("the first host may not write any more", &write, "");
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
    connect(guest, &node, SECOND);
    guest.check(
        "the second host clears everything",
        &format!(
            "
            dev=$(nvme-device {nqn} 1)
            nvme resv-release $dev -n 1 -c 0xbb -a 1
            nvme resv-report $dev -n 1 -e | grep -q -E '(regctl|regstrnt) *: 0'
            nvme disconnect -n {nqn}"
        ),
    );
    connect(guest, &node, FIRST);
    guest.check("and everybody may write", &write);
    write_protection(guest, &mut node, &write);
}

/// A host protects a namespace, and the kernel makes its disk read-only, through a kill of the node
/// too. What the administrator protects the host does not lift.
fn write_protection(guest: &mut Guest, node: &mut Node, write: &str) {
    let nqn = node.shared().to_owned();
    let feature =
        |verb: &str| format!("nvme {verb} $(nvme-device {nqn}) --namespace-id=1 --feature-id=0x84");
    let set = |value: u8| format!("{} --value={value}", feature("set-feature"));
    let is = |value: u8| {
        format!(
            "{} | grep -q -i -E 'value: ?(0x)?0*{value}$'",
            feature("get-feature")
        )
    };
    let read_only = |flag: u8| format!("[ $(blockdev --getro $(nvme-device {nqn} 1)) = {flag} ]");
    guest.check(
        "the first host write protects the namespace",
        &format!(
            "
            nvme id-ctrl $(nvme-device {nqn}) | grep -q -E 'nwpc *: (0x)?1$'
            {}
            {}
            {}",
            is(0),
            set(1),
            is(1)
        ),
    );
    guest.eventually("its disk is read-only", 20, &read_only(1));
    guest.refused("nobody writes", write, "");
    node.kill().expect("the node runs");
    node.restart().expect("the node comes back");
    guest.eventually("it is so after the node was killed", 60, &is(1));
    guest.check("and lifts that", &set(0));
    guest.eventually("its disk is writable", 20, &read_only(0));
    guest.check("it writes", write);
    node.command("volume protect four")
        .expect("the node protects it");
    guest.eventually("its disk is read-only again", 20, &read_only(1));
    guest.refused("the host does not lift that", &set(0), "");
    node.command("volume protect four --off")
        .expect("the node lifts it");
    guest.eventually("its disk is writable again", 20, &read_only(0));
    guest.check("it writes again", write);
}

fn connect(guest: &mut Guest, node: &Node, host: &str) {
    let connect = format!(
        "nvme connect {} -n {} --hostnqn nqn.2014-08.org.nvmexpress:uuid:{host} --hostid {host}",
        node.over_ipv4(),
        node.shared()
    );
    guest.check("connect", &connect);
    let ready = format!("nvme-device {} 1", node.shared());
    guest.eventually("the namespace appears", 20, &ready);
}

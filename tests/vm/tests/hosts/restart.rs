//! The target dies in the middle of verified I/O and comes back: the host rides it out, once, and
//! then again and again at instants that a seed picks, killed and stopped by turns
//! (`make restarts-long` says how often).

use std::thread::sleep;
use std::time::Duration;

use vm::{Guest, Node};

/// How often the node is restarted at random, unless the environment says otherwise.
const RESTARTS: u32 = 2;

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn pause(&mut self, limit_ms: u64) {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        sleep(Duration::from_millis((self.0 >> 33) % limit_ms));
    }
}

pub fn scenario(guest: &mut Guest, mut node: Node) {
    let nqn = node.shared();
    let patient = "--reconnect-delay 1 --ctrl-loss-tmo 600 --keep-alive-tmo 5";
    guest.check(
        "connect",
        &format!("nvme connect {} -n {nqn} {patient}", node.over_ipv4()),
    );
    guest.eventually(
        "both namespaces appear",
        10,
        &format!("nvme-device {nqn} 1 && nvme-device {nqn} 2"),
    );
    verified_load(guest, nqn, "fio", 11);
    // Kernels differ in whether they count on the disk or on its paths.
    guest.eventually(
        "I/O is under way",
        20,
        "cat /sys/block/nvme*/stat | awk '{writes += $5} END {exit writes < 600}'",
    );
    node.kill().expect("the node runs");
    guest.eventually(
        "the host notices",
        20,
        &format!(
            "
        grep -q connecting /sys/class/nvme/$(basename $(nvme-device {nqn}))/state"
        ),
    );
    guest.check("I/O waits", "sleep 2; [ ! -e /run/fio.code ]");
    node.restart().expect("the node serves again");
    is_back(guest, nqn);
    guest.join("fio has written and verified everything", "fio", 120);
    at_random_instants(guest, &mut node);
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

/// Slow enough to be in the middle when the target dies.
fn verified_load(guest: &mut Guest, nqn: &str, name: &str, seed: u32) {
    guest.spawn(
        name,
        &format!(
            "
        fio --name=restart --filename=$(nvme-device {nqn} 1) --direct=1 --ioengine=libaio \
            --iodepth=16 --rw=randwrite --bs=4k --size=64M --io_size=12M --rate_iops=300 \
            --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed={seed}"
        ),
    );
}

/// Where the node dies in the middle of a Connect, Linux does not take the connection's end for an
/// answer: it waits for one for a minute (its admin timeout), and comes back only then.
fn is_back(guest: &mut Guest, nqn: &str) {
    guest.eventually(
        "the host is back",
        150,
        &format!(
            "
        grep -q live /sys/class/nvme/$(basename $(nvme-device {nqn}))/state"
        ),
    );
}

/// The host connects whenever it does: while the node starts, stops, or has just died. A load that
/// ends meanwhile begins anew.
fn at_random_instants(guest: &mut Guest, node: &mut Node) {
    let nqn = node.shared();
    let asked = std::env::var("FLASHYARD_RESTARTS").ok();
    let restarts = asked.and_then(|number| number.parse().ok());
    let mut random = Random(3);
    let mut loads = 0;
    for round in 0..restarts.unwrap_or(RESTARTS) {
        if round.is_multiple_of(10) {
            loads += 1;
            verified_load(guest, nqn, &format!("load-{loads}"), loads);
        }
        random.pause(2000);
        if round.is_multiple_of(2) {
            node.kill().expect("the node runs");
        } else {
            node.stop().expect("the node ends well");
        }
        random.pause(2000);
        node.restart().expect("the node serves again");
        if round % 10 == 9 {
            is_back(guest, nqn);
            guest.join("the load is verified", &format!("load-{loads}"), 300);
        }
    }
    is_back(guest, nqn);
    if !restarts.unwrap_or(RESTARTS).is_multiple_of(10) {
        guest.join("the load is verified", &format!("load-{loads}"), 300);
    }
}

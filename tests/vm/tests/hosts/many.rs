//! A thousand volumes of one pool in one subsystem: how soon a host has them, over how many
//! connections, and what a host that uses the others notices when a hundred are denied and allowed
//! again.

use std::time::{Duration, Instant};

use vm::{Guest, Node};

const VOLUMES: usize = 1000;
/// One in so many is denied and allowed again; fio is on some of those in between.
const DENIED_EACH: usize = 10;
const USED_EACH: usize = 47;

/// Guest time from the connect to the last block device. Others may have this machine's processors
/// meanwhile, so the best of some attempts counts.
const APPEAR_WITHIN_S: f64 = 10.0;
const ATTEMPTS: usize = 3;
/// No command of fio may take longer: a third of the time after which Linux resets a controller.
const PAUSE_MAX: &str = "10s";

/// Milliseconds of the guest's clock, and those that its two processors were idle for together; the
/// number of disks; and a line for each: NSID, NGUID, name. None starts a program, for which an
/// emulated processor takes milliseconds.
const WORDS: &str = r#"
ms() { echo $((${1%.*} * 1000 + 1${1#*.} * 10 - 1000)); }
now() { read -r up idle </proc/uptime; ms $up; }
idle() { read -r up idle </proc/uptime; ms $idle; }
there() { set -- /dev/nvme*n*; echo $#; }
appear() {
    until [ $(there) = $1 ]; do
        [ $(($(now) - began)) -lt 100000 ] || { there; exit 1; }
        usleep 100000
    done
}
disks() {
    for disk in /sys/block/nvme*n*; do
        case ${disk##*/} in *c*n*) continue ;; esac
        read -r nsid <$disk/nsid && read -r nguid <$disk/nguid && echo $nsid $nguid ${disk##*/}
    done | sort -n
}
"#;

pub fn scenario(guest: &mut Guest, node: Node) {
    let nqn = "nqn.2026-11.example.flashyard:vm:tank";
    node.add_pool("tank", "raid1", (2, "1GiB"), &[])
        .expect("the node makes a pool");
    let began = Instant::now();
    for number in 1..=VOLUMES {
        let create = format!(
            "volume create v{number} --pool tank --size 8MiB --subsystem tank --allow guest"
        );
        node.command(&create).expect("the node makes a volume");
    }
    told(&format!("{VOLUMES} volumes are made"), took(began));
    connect(guest, &node, nqn);
    guest.check(
        "each volume is one disk, and no two have an NGUID in common",
        &format!(
            "{WORDS}
            disks >/tmp/disks
            [ $(cut -d' ' -f1 /tmp/disks | uniq | wc -l) = {VOLUMES} ]
            [ $(cut -d' ' -f2 /tmp/disks | sort -u | wc -l) = {VOLUMES} ]
            dmesg | wc -l >/tmp/dmesg-lines"
        ),
    );
    under_load(guest, &node);
    // A volume may be denied between the list that it is in and the question what it is.
    let gone = r"Identify Descriptors failed (nsid=\([0-9]*\), status=0x400b)";
    guest.check(
        "the kernel has seen no fault, but that what is denied does not exist",
        &format!(
            "
            dmesg | tail -n +$(($(cat /tmp/dmesg-lines) + 1)) |
                sed 's/.*{gone}/\\1 gone/' |
                awk '$2 != \"gone\" || $1 % {DENIED_EACH}' >/tmp/said
            ! grep -iE 'timeout|i/o error|reset|failed|hung|gone' /tmp/said"
        ),
    );
}

fn took(began: Instant) -> f64 {
    Duration::as_secs_f64(&began.elapsed())
}

fn told(what: &str, seconds: f64) {
    println!("    {what} within {seconds:.2} s");
}

/// Seconds, of which a script said the milliseconds last.
fn seconds(said: &str) -> f64 {
    let last = said.lines().last().expect("a script that says something");
    last.trim().parse::<f64>().expect("milliseconds") / 1000.0
}

/// Connects to one volume and then to all, over as many connections, and measures until all are
/// there.
fn connect(guest: &mut Guest, node: &Node, nqn: &str) {
    let connections = |guest: &mut Guest| {
        guest.check(
            "count connections",
            "awk '$4 == \"01\"' /proc/net/tcp | wc -l",
        )
    };
    let to = |nqn: &str| format!("nvme connect {} -n {nqn}", node.over_ipv4());
    let few = node.shared();
    guest.check("connect to two volumes", &to(few));
    let wanted = connections(guest);
    guest.check("disconnect", &format!("nvme disconnect -n {few}"));
    for attempt in 1..=ATTEMPTS {
        let connect = to(nqn);
        let script = format!(
            "{WORDS}
            began=$(now); before=$(idle)
            {connect}
            appear {VOLUMES}
            ended=$(now)
            echo $(($(idle) - before)) ms idle of $((2 * (ended - began)))
            echo $((ended - began))"
        );
        let said = guest.check("connect to all", &script);
        print!("{said}");
        assert_eq!(connections(guest), wanted, "connections");
        let appeared = seconds(&said);
        told(&format!("{VOLUMES} disks appear"), appeared);
        if appeared < APPEAR_WITHIN_S {
            return;
        }
        assert!(attempt < ATTEMPTS, "{appeared} s of the guest");
        // Linux takes its time to take a thousand disks down.
        guest.spawn("disconnect", &format!("nvme disconnect -n {nqn}"));
        guest.join("disconnect", "disconnect", 600);
    }
}

/// A hundred volumes are denied and allowed again while fio verifies what it writes to others.
fn under_load(guest: &mut Guest, node: &Node) {
    let denied: Vec<usize> = (1..=VOLUMES).filter(|at| at % DENIED_EACH == 0).collect();
    let used = (1..=VOLUMES).step_by(USED_EACH);
    let used: Vec<String> = used
        .filter(|at| at % DENIED_EACH != 0)
        .map(|at| at.to_string())
        .collect();
    let one = denied[0];
    guest.check(
        "data on a volume that is denied",
        &format!(
            "one=/dev/$(awk '$1 == {one} {{print $3}}' /tmp/disks)
            echo $one >/tmp/one
            head -c 1048576 /dev/urandom >/tmp/data
            dd if=/tmp/data of=$one bs=64k oflag=direct 2>/dev/null"
        ),
    );
    // For the use of disks, which nobody wants, fio would look through all of them for each one.
    guest.spawn(
        "fio",
        &format!(
            "files=
            for nsid in {}; do
                files=$files:/dev/$(awk -v nsid=$nsid '$1 == nsid {{print $3}}' /tmp/disks)
            done
            until [ -e /run/enough ]; do
                fio --name=used --filename=${{files#:}} --direct=1 --ioengine=libaio --iodepth=8 \
                    --rw=randwrite --bs=4k --size=4M --rate_iops=200 --max_latency={PAUSE_MAX} \
                    --disk_util=0 \
                    --verify=crc32c --verify_fatal=1 --do_verify=1
                echo once >>/run/verified
            done",
            used.join(" ")
        ),
    );
    guest.eventually(
        "fio has begun",
        60,
        "cat /run/fio.output; [ -s /run/verified ]",
    );
    deny(guest, node, &denied);
    allow(guest, node, &denied);
    guest.check("that is enough", "touch /run/enough");
    let said = guest.join("fio has verified everything", "fio", 120);
    for line in said.lines().filter(|line| line.contains("clat (")) {
        println!("    {}", line.trim());
    }
}

fn deny(guest: &mut Guest, node: &Node, denied: &[usize]) {
    let began = Instant::now();
    for (turn, at) in denied.iter().enumerate() {
        node.command(&format!("volume deny v{at} guest"))
            .expect("the node denies it");
        if turn == 0 {
            let read = "dd if=$(cat /tmp/one) of=/dev/null bs=4k count=1 iflag=direct";
            guest.refused("what is denied is not read any more", read, "/dev/nvme");
        }
    }
    told(&format!("{} volumes are denied", denied.len()), took(began));
    let left = VOLUMES - denied.len();
    vanish_or_appear(guest, left, "the others alone are there");
    guest.check(
        "they are those that were not denied",
        &format!(
            "{WORDS}
            disks >/tmp/left
            awk '$1 % {DENIED_EACH}' /tmp/disks | cmp - /tmp/left"
        ),
    );
}

fn allow(guest: &mut Guest, node: &Node, denied: &[usize]) {
    let began = Instant::now();
    for at in denied {
        node.command(&format!("volume allow v{at} guest"))
            .expect("the node allows it");
    }
    told(
        &format!("{} volumes are allowed", denied.len()),
        took(began),
    );
    vanish_or_appear(guest, VOLUMES, "all are there again");
    guest.check(
        "they have the NSIDs and NGUIDs that they had, and their data",
        &format!(
            "{WORDS}
            cut -d' ' -f1,2 /tmp/disks >/tmp/before
            disks >/tmp/disks
            cut -d' ' -f1,2 /tmp/disks | cmp - /tmp/before
            one=/dev/$(awk '$1 == {DENIED_EACH} {{print $3}}' /tmp/disks)
            dd if=$one bs=64k count=16 iflag=direct 2>/dev/null | cmp - /tmp/data"
        ),
    );
}

/// Measures how long after the last change the host has so many disks.
fn vanish_or_appear(guest: &mut Guest, count: usize, what: &str) {
    let script = format!("{WORDS}\nbegan=$(now)\nappear {count}\necho $(($(now) - began))");
    let said = guest.check(what, &script);
    told(what, seconds(&said));
}

//! RAID 6 by the kernel (MD) over virtual disks, beside a raid6 volume of ours over NVMe/TCP: the
//! same verified job on both, whole and with two disks lost. What fio prints of their rates is an
//! observation: in an emulated machine it says nothing of how fast either is.

use vm::{Guest, Node};

/// Members of either array.
const MEMBERS: u32 = 6;

/// Each of MD's, in KiB.
const MEMBER_KIB: u32 = 20 << 10;

pub fn scenario(guest: &mut Guest, node: Node) {
    let nqn = "nqn.2026-11.example.flashyard:vm:tank";
    node.add_pool("tank", "raid6", (MEMBERS as usize, "256MiB"), &[])
        .expect("the node makes a pool");
    node.command("volume create one --pool tank --size 64MiB --subsystem tank --allow guest")
        .expect("the node makes a volume");
    guest.check(
        "connect",
        &format!("nvme connect {} -n {nqn}", node.over_ipv4()),
    );
    guest.eventually("the volume appears", 10, &format!("nvme-device {nqn} 1"));
    guest.check(
        "MD makes an array",
        &format!(
            "
        for module in /modules/later/*.ko; do
            case $module in
                *brd*) insmod $module rd_nr={MEMBERS} rd_size={MEMBER_KIB} ;;
                *) insmod $module ;;
            esac
        done
        export MDADM_NO_UDEV=1
        mdadm --create /dev/md0 --run --level=6 --raid-devices={MEMBERS} --chunk=4 \\
            --bitmap=none --assume-clean /dev/ram[0-9]
        grep -q 'raid6.*\\[6/6\\]' /proc/mdstat || grep -q '\\[UUUUUU\\]' /proc/mdstat"
        ),
    );
    let ours = format!("$(nvme-device {nqn} 1)");
    let arrays = [("MD", "/dev/md0"), ("log", &ours)];
    for (name, device) in arrays {
        verified(guest, name, device, "randwrite", "--do_verify=1");
    }
    guest.check(
        "MD loses two members",
        "MDADM_NO_UDEV=1 mdadm /dev/md0 --fail /dev/ram1 --fail /dev/ram4
        grep -q '\\[U_UU_U\\]' /proc/mdstat",
    );
    for drive in ["tank-1", "tank-4"] {
        let fail = format!("pool fail-drive tank {drive}");
        node.command(&fail).expect("the drive fails");
    }
    for (name, device) in arrays {
        verified(guest, name, device, "randwrite", "--verify_only=1");
        verified(guest, name, device, "randrw", "--do_verify=1");
    }
    guest.check(
        "take both away",
        &format!("mdadm --stop /dev/md0 && nvme disconnect -n {nqn}"),
    );
}

/// fio's job, which is the same on both.
fn verified(guest: &mut Guest, name: &str, device: &str, pattern: &str, how: &str) {
    let said = guest.check(
        &format!("fio {pattern} {how} on {name}"),
        &format!(
            "
        fio --name=verify --filename={device} --direct=1 --ioengine=libaio --iodepth=16 \\
            --rw={pattern} --bs=4k --size=48M --io_size=6M --randseed=17 \\
            --verify=crc32c --verify_fatal=1 {how}"
        ),
    );
    for line in said.lines().filter(|line| line.contains("IOPS=")) {
        println!(
            "observed, emulated machine: {name}, {pattern} {how}: {}",
            line.trim()
        );
    }
}

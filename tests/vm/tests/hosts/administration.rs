//! nvme-cli manages the namespaces of an emulated drive, as on a drive in the machine.

use vm::{Guest, Node};

/// Blocks of 4,096 bytes in a namespace of 64 MiB.
const BLOCKS: u32 = 16_384;

/// What nvme-cli says of what it has done. Version 3 says it when it is verbose, which 2 cannot be.
struct Words {
    options: &'static str,
    success: &'static str,
    nsid: &'static str,
}

const OF_2: Words = Words {
    options: "",
    success: "Success",
    nsid: "nsid:",
};

const OF_3: Words = Words {
    options: "--verbose",
    success: "success",
    nsid: "nsid: ",
};

pub fn scenario(guest: &mut Guest, node: Node) {
    let version = guest.check("nvme version", "nvme version");
    let Words {
        options,
        success,
        nsid,
    } = match version.contains("version 3") {
        true => OF_3,
        false => OF_2,
    };
    node.add_administered_drive("modelled")
        .expect("the node adds it");
    let nqn = node.drive("modelled");
    guest.check(
        "connect to the drive",
        &format!("nvme connect {} -n {nqn}", node.over_ipv4()),
    );
    let drive = format!(
        "drive=$(nvme-device {nqn})\n\
         id=$(nvme id-ctrl $drive | awk '/^cntlid/{{print $3}}')\n"
    );
    let ask = |guest: &mut Guest, question: &str, wanted: &[&str]| {
        let said = guest.check(
            &format!("nvme {question}"),
            &format!("{drive}nvme {question}"),
        );
        for wanted in wanted {
            assert!(
                said.contains(wanted),
                "nvme {question}: no `{wanted}`:\n{said}"
            );
        }
        said
    };
    let change = |guest: &mut Guest, question: &str, wanted: &str| {
        let question = format!("{question} {options}");
        ask(guest, &question, &[success, wanted]);
    };
    let refuse = |guest: &mut Guest, question: &str, reason: &str| {
        let script = format!("{drive}nvme {question}");
        guest.refused(&format!("nvme {question} is refused"), &script, reason);
    };
    let said = ask(
        guest,
        "id-ctrl $drive",
        &["oacs      : 0x8", "CM7-R", "tnvmcap"],
    );
    assert!(
        said.contains("unvmcap   : 0"),
        "all is in one namespace:\n{said}"
    );
    ask(guest, "list-ns $drive --all", &["[   0]:0x1"]);
    ask(guest, "list-ctrl $drive", &["num of ctrls present: 1"]);
    ask(
        guest,
        "id-ns-granularity $drive",
        &["Namespace Granularity List"],
    );
    ask(guest, "smart-log $drive", &["percentage_used"]);
    ask(guest, "endurance-log $drive --group-id=1", &["endurance"]);
    refuse(guest, &create(1, 0), "insufficient capacity");

    change(guest, "delete-ns $drive -n 1", "");
    change(guest, &create(BLOCKS, 0), &format!("{nsid}1"));
    change(guest, &create(BLOCKS, 1), &format!("{nsid}2"));
    refuse(guest, &create(BLOCKS, 2), "format");
    ask(guest, "list-ns $drive --all", &["0x1", "0x2"]);
    let attached = ask(guest, "list-ns $drive", &[]);
    assert!(
        !attached.contains("0x1"),
        "nothing is attached yet:\n{attached}"
    );
    guest.check(
        "there is no block device",
        &format!("! nvme-device {nqn} 1"),
    );
    refuse(guest, "attach-ns $drive -n 9 -c $id", "invalid");
    change(guest, "attach-ns $drive -n 1 -c $id", "");
    refuse(guest, "attach-ns $drive -n 1 -c $id", "already");
    ask(guest, "ns-rescan $drive", &[]);
    use_it(guest, &nqn);
    let said = ask(guest, "smart-log $drive", &["Data Units Written"]);
    let mut lines = said
        .lines()
        .filter(|line| line.contains("Data Units Written"));
    assert!(
        lines.all(|line| !line.contains(": 0")),
        "the drive counts what it took:\n{said}"
    );

    change(guest, "detach-ns $drive -n 1 -c $id", "");
    guest.eventually(
        "the block device goes",
        10,
        &format!("! nvme-device {nqn} 1"),
    );
    refuse(guest, "detach-ns $drive -n 1 -c $id", "not attached");
    change(guest, "delete-ns $drive -n 1", "");
    change(guest, "delete-ns $drive -n 2", "");
    let events = node.command("event list").expect("the node tells");
    assert!(events.contains("attached namespace 1"), "{events}");

    node.command("drive revoke modelled guest")
        .expect("the node revokes");
    let found = guest.check(
        "a host that may no longer does not find it",
        &format!("nvme discover {}", node.over_ipv4()),
    );
    assert!(!found.contains(&nqn), "{found}");
    guest.refused(
        "nor connects to it",
        &format!("nvme connect {} -n {nqn}", node.over_ipv4()),
        "",
    );
}

fn create(blocks: u32, format: u8) -> String {
    format!("create-ns $drive --nsze={blocks} --ncap={blocks} --flbas={format}")
}

/// The attached namespace is a block device that keeps what is written to it.
fn use_it(guest: &mut Guest, nqn: &str) {
    guest.eventually(
        "it becomes a block device",
        10,
        &format!("nvme-device {nqn} 1"),
    );
    let space = format!("space=$(nvme-device {nqn} 1)\n");
    let said = guest.check("nvme id-ns", &format!("{space}nvme id-ns $space"));
    assert!(said.contains("endgid  : 1"), "{said}");
    guest.check(
        "I/O works on it",
        &format!(
            "{space}dd if=/dev/urandom of=/tmp/data bs=1M count=4 2>/dev/null
            dd if=/tmp/data of=$space bs=1M oflag=direct 2>/dev/null
            echo 3 >/proc/sys/vm/drop_caches
            dd if=$space bs=1M count=4 iflag=direct 2>/dev/null | cmp - /tmp/data
            fio --name=verified --filename=$space --rw=randwrite --bs=4k --size=8m --offset=16m \\
                --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --output=/run/fio"
        ),
    );
}

//! Drives that carry something: what tools of others make, and what is left of that.
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use super::support::text;

const MIB: u64 = 1 << 20;

/// Contents of a drive.
pub struct Carried {
    pub name: &'static str,
    pub mib: u64,
    pub way: Way,
    /// The product's words for it.
    pub said: &'static str,
    /// `blkid` or `wipefs` recognises it before it is wiped.
    pub known_to_tools: bool,
}

/// How it is made.
pub enum Way {
    /// By a command, in which `@` stands for the file, and `$` for a directory that has a key.
    Tool(&'static [&'static str]),
    /// By a command on a loop device over the file, which `@` stands for.
    OnLoop(&'static [&'static str]),
    /// By writing into the file.
    Hand(fn(&File, u64)),
    /// By a command, after which what begins there goes, so many bytes of it.
    ToolBut(&'static [&'static str], u64, usize),
}

const fn tool(
    name: &'static str,
    mib: u64,
    command: &'static [&'static str],
    said: &'static str,
) -> Carried {
    Carried {
        name,
        mib,
        way: Way::Tool(command),
        said,
        known_to_tools: true,
    }
}

const fn hand(
    name: &'static str,
    mib: u64,
    write: fn(&File, u64),
    said: &'static str,
    known_to_tools: bool,
) -> Carried {
    Carried {
        name,
        mib,
        way: Way::Hand(write),
        said,
        known_to_tools,
    }
}

const LUKS2: &[&str] = &[
    "cryptsetup",
    "luksFormat",
    "--batch-mode",
    "--type=luks2",
    "--pbkdf=pbkdf2",
    "--pbkdf-force-iterations=1000",
    "@",
    "$/key",
];
const GPT: &[&str] = &["sgdisk", "-n", "1:0:0", "@"];
const MD: &str = "a member of an MD array, UUID 01020304-0506-0708-090a-0b0c0d0e0f10";
const PVCREATE: &[&str] = &[
    "pvcreate",
    "--config=devices{use_devicesfile=0}",
    "-ff",
    "-y",
    "@",
];

pub const MADE: &[Carried] = &[
    tool(
        "ext4",
        64,
        &["mkfs.ext4", "-q", "@"],
        "an ext4 file system, UUID ",
    ),
    tool(
        "xfs",
        320,
        &["mkfs.xfs", "-q", "@"],
        "an XFS file system, UUID ",
    ),
    tool(
        "btrfs",
        320,
        &["mkfs.btrfs", "-q", "@"],
        "a btrfs file system, UUID ",
    ),
    tool("swap", 64, &["mkswap", "@"], "a swap area, UUID "),
    tool(
        "f2fs",
        128,
        &["mkfs.f2fs", "@"],
        "an F2FS file system, UUID ",
    ),
    tool(
        "squashfs",
        64,
        &["mksquashfs", "$", "@", "-noappend", "-quiet"],
        "a SquashFS file system",
    ),
    tool(
        "erofs",
        64,
        &["mkfs.erofs", "@", "$"],
        "an EROFS file system, UUID ",
    ),
    tool("vfat", 64, &["mkfs.vfat", "@"], "a FAT file system"),
    tool(
        "bcache",
        64,
        &["make-bcache", "-B", "@"],
        "a bcache device, UUID ",
    ),
    tool("luks2", 64, LUKS2, "a LUKS volume, UUID "),
    tool("gpt", 64, GPT, "a partition table (GPT), UUID "),
    Carried {
        name: "lvm",
        mib: 64,
        way: Way::OnLoop(PVCREATE),
        said: "an LVM physical volume, UUID ",
        known_to_tools: true,
    },
    Carried {
        name: "gpt, the backup alone",
        mib: 64,
        way: Way::ToolBut(GPT, 0, 34 * 512),
        said: "the backup of a partition table (GPT), UUID ",
        known_to_tools: true,
    },
    Carried {
        name: "gpt on a drive that ends within a block",
        mib: 0,
        way: Way::ToolBut(GPT, 0, 34 * 512),
        said: "the backup of a partition table (GPT), UUID ",
        known_to_tools: true,
    },
    Carried {
        name: "luks2, the second header alone",
        mib: 64,
        way: Way::ToolBut(LUKS2, 0, 0x4000),
        said: "the second header of a LUKS volume, UUID ",
        known_to_tools: true,
    },
    Carried {
        name: "btrfs, the mirror at 64 MiB alone",
        mib: 320,
        way: Way::ToolBut(&["mkfs.btrfs", "-q", "@"], 0, 64 << 20),
        said: "a copy of a btrfs file system's superblock, UUID ",
        known_to_tools: false,
    },
    hand("md 0.90", 64, md_090, MD, true),
    hand("md 1.0", 64, |file, size| md_1(file, size - 8192), MD, true),
    hand("md 1.1", 64, |file, _| md_1(file, 0), MD, true),
    hand("md 1.2", 64, |file, _| md_1(file, 4096), MD, true),
    hand(
        "zfs, labels at both ends",
        64,
        zfs,
        "a member of a ZFS pool",
        true,
    ),
    hand(
        "zfs, the last label alone",
        64,
        |file, size| zfs_label(file, size - (256 << 10)),
        "a member of a ZFS pool",
        true,
    ),
    hand(
        "something at the start",
        64,
        |file, _| file.write_all_at(b"mine", 12_345).unwrap(),
        "data of a kind that is not known, from byte 12345 on",
        false,
    ),
    hand(
        "something at the end",
        64,
        |file, size| file.write_all_at(b"mine", size - 4).unwrap(),
        "data of a kind that is not known",
        false,
    ),
];

/// Makes a drive at `path` that carries this.
pub fn make(carried: &Carried, path: &Path) {
    let file = File::create(path).unwrap();
    // 0 is a size of so many sectors that blocks of 4 KiB do not reach the last.
    let size = if carried.mib == 0 {
        (64 << 20) + 3 * 512
    } else {
        carried.mib * MIB
    };
    file.set_len(size).unwrap();
    match &carried.way {
        Way::Tool(command) => run(command, path),
        Way::OnLoop(command) => on_loop(command, path),
        Way::Hand(write) => write(&file, size),
        Way::ToolBut(command, at, bytes) => {
            run(command, path);
            // Some make the file anew.
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&vec![0; *bytes], *at).unwrap();
        }
    }
    // Images of read-only file systems are as large as they are.
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(size).unwrap();
}

/// The answers of `blkid` and `wipefs` about a file.
pub fn recognised(path: &Path) -> String {
    let mut said = String::new();
    for command in [["blkid", "-p"], ["wipefs", "-n"]] {
        let output = tool_command(command[0])
            .arg(command[1])
            .arg(path)
            .output()
            .unwrap();
        said += &text(&output.stdout);
        let problem = text(&output.stderr);
        assert!(problem.is_empty(), "{command:?}: {problem}");
    }
    said
}

fn run(command: &[&str], path: &Path) {
    let given = tempfile::tempdir().unwrap();
    std::fs::write(given.path().join("key"), "passphrase").unwrap();
    let put = |word: &&str| match *word {
        "@" => path.to_str().unwrap().to_owned(),
        word => word.replace('$', given.path().to_str().unwrap()),
    };
    let arguments: Vec<String> = command[1..].iter().map(put).collect();
    let output = tool_command("unshare")
        .args(["--mount", "sh", "-c", WITHOUT_LOOP_MOUNTS, "sh", command[0]])
        .args(&arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Runs a command where no loop device is mounted. `mkfs.btrfs` asks after the file of each, and
/// fails at one it cannot reach: that of another test, which has just killed what serves it.
const WITHOUT_LOOP_MOUNTS: &str = r#"
    awk '$1 ~ "^/dev/loop" { print $2 }' /proc/self/mounts \
        | xargs --no-run-if-empty umount --lazy && exec "$@"
"#;

fn on_loop(command: &[&str], path: &Path) {
    let made = tool_command("losetup")
        .args(["--find", "--show"])
        .arg(path)
        .output()
        .unwrap();
    let device = text(&made.stdout);
    assert!(made.status.success(), "{made:?}");
    let device = Path::new(device.trim());
    run(command, device);
    run(&["losetup", "--detach", "@"], device);
}

/// Tools of administrators, which are not on everybody's path.
fn tool_command(name: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

fn uuid() -> Vec<u8> {
    (1..=16).collect()
}

/// A superblock of MD, version 0.90.
fn md_090(file: &File, size: u64) {
    let mut superblock = vec![0; 4096];
    let mut put = |at: usize, word: u32| {
        superblock[at..at + 4].copy_from_slice(&word.to_le_bytes());
    };
    for (at, word) in [(0, 0xa92b_4efc), (8, 90), (12, 3), (32, 65_472)] {
        put(at, word);
    }
    for (at, bytes) in [20, 52, 56, 60].into_iter().zip(uuid().chunks(4)) {
        put(at, u32::from_be_bytes(bytes.try_into().unwrap()));
    }
    let at = (size & !0xffff) - 0x1_0000;
    file.write_all_at(&superblock, at).unwrap();
}

/// A superblock of MD, version 1, at `at`: the end, the start, or 4 KiB behind it.
fn md_1(file: &File, at: u64) {
    let mut superblock = vec![0; 256];
    superblock[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    superblock[16..32].copy_from_slice(&uuid());
    superblock[144..152].copy_from_slice(&(at / 512).to_le_bytes());
    let words = superblock
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let sum: u64 = words.map(u64::from).sum();
    let checksum = (sum as u32).wrapping_add((sum >> 32) as u32);
    superblock[216..220].copy_from_slice(&checksum.to_le_bytes());
    file.write_all_at(&superblock, at).unwrap();
}

fn zfs(file: &File, size: u64) {
    for at in [0, 256 << 10, size - (512 << 10), size - (256 << 10)] {
        zfs_label(file, at);
    }
}

/// A label of ZFS: the head of its list of names and values, and its ring of uberblocks.
fn zfs_label(file: &File, at: u64) {
    let list = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    file.write_all_at(&list, at + (16 << 10)).unwrap();
    for number in 0..128 {
        let mut uberblock = [0; 64];
        uberblock[..4].copy_from_slice(&[0x0c, 0xb1, 0xba, 0]);
        uberblock[8] = 28;
        file.write_all_at(&uberblock, at + (128 << 10) + (number << 10))
            .unwrap();
    }
}

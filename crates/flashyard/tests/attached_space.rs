//! Attached volumes behave like disks: discarded space comes back to the pool and reads as zeroes,
//! and a disk grows with its volume, and never shrinks by itself. Needs root, as attaching does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/offer.rs"]
mod offer;
mod support;

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use block::Buffer;
use offer::Offer;
use support::{Node, name, text, wait_for, wait_until, wait_until_or_tell};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// The capability without which the kernel grows no ext4 that is mounted.
const SYS_RESOURCE: u64 = 1 << 24;

/// A node with a thin volume of a pool, attached.
struct Disk {
    node: Node,
    directory: TempDir,
    device: PathBuf,
    offer: Offer,
}

impl Disk {
    /// With a volume of `size` and `block_size` out of a pool of one drive of 640 MiB, whose space
    /// is a file's, and taken when it is written.
    fn new(io_uring: bool, block_size: &str, size: &str) -> Disk {
        let offer = Offer::set(io_uring);
        let node = Node::configured("");
        let drive = node.path().join("drive").display().to_string();
        node.answer(&["drive", "add", "d", &drive, "--size", "640MiB"]);
        node.answer(&["pool", "create", "p", "--level", "raid0", "--drives", "d"]);
        let create = ["volume", "create", "data", "--pool", "p", "--allow", "any"];
        let how = ["--size", size, "--block-size", block_size];
        node.answer(&[&create[..], &how[..]].concat());
        let mut disk = Disk {
            node,
            directory: tempfile::tempdir().unwrap(),
            device: PathBuf::new(),
            offer,
        };
        let device = disk.attachment("attach", &["--method", "fuse"]);
        disk.device = device.trim().into();
        let state = std::fs::read_to_string(disk.attached().join("data.json")).unwrap();
        let way = format!("\"requests\": \"{}\"", disk.offer.requests);
        assert!(state.contains(&way), "{way} is not in {state}");
        disk
    }

    fn attachment(&self, verb: &str, extra: &[&str]) -> String {
        let directory = self.attached();
        let usual = [verb, "data", "--directory", directory.to_str().unwrap()];
        self.node.answer(&[&usual[..], extra].concat())
    }

    fn attached(&self) -> PathBuf {
        self.directory.path().join("attached")
    }

    /// The file that the disk stands on.
    fn file(&self) -> PathBuf {
        self.attached().join("data.mount/volume")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.attached().join("data.log")).unwrap()
    }

    fn name(&self) -> &str {
        self.device.to_str().unwrap()
    }

    /// A figure of the disk, as the kernel tells it.
    fn told(&self, figure: &str) -> u64 {
        let path = Path::new("/sys/block").join(self.device.file_name().unwrap());
        let text = std::fs::read_to_string(path.join(figure)).unwrap();
        text.trim().parse().unwrap()
    }

    fn bytes(&self) -> u64 {
        self.told("size") * 512
    }

    fn resize(&self, size: &str) {
        self.node.answer(&["volume", "resize", "data", size]);
    }

    /// Bytes that the pool has given out.
    fn used(&self) -> u64 {
        let pool = self.node.client().pool(&name("p")).unwrap();
        pool.used_bytes
    }

    /// Waits until the pool has given out so many bytes. It counts anew what was replaced or
    /// deallocated when a 64th of it was, or soon after.
    fn wait_for_used(&self, what: &str, expected: std::ops::RangeInclusive<u64>) {
        let seen = Cell::new(0);
        let used = || {
            seen.set(self.used());
            expected.contains(&seen.get())
        };
        let told = || format!("{what}: {} is not in {expected:?}", seen.get());
        wait_until_or_tell(told, used);
    }

    fn detach(&mut self) {
        self.attachment("detach", &[]);
        self.device = PathBuf::new();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // After a failure, if the node answers; after success there is nothing to detach.
        if self.device != PathBuf::new() {
            let directory = self.attached();
            let usual = ["detach", "data", "--directory"];
            support::flashyard(&[&usual[..], &[directory.to_str().unwrap()]].concat());
        }
    }
}

/// A mounted disk; unmounted when dropped.
struct Mounted(TempDir);

impl Mounted {
    fn new(disk: &Disk, options: &str) -> Mounted {
        let mounted = Mounted(tempfile::tempdir().unwrap());
        tool("mount", &["-o", options, disk.name(), mounted.path()]);
        mounted
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    fn bytes(&self) -> u64 {
        let facts = rustix::fs::statvfs(self.0.path()).unwrap();
        facts.f_blocks * facts.f_frsize
    }

    /// Writes as much that cannot be compressed or told from other data.
    fn write(&self, file: &str, mib: u64) {
        let path = self.0.path().join(file);
        std::fs::write(&path, pattern(mib * MIB)).unwrap();
        tool("sync", &["-f", self.path()]);
    }

    /// Bytes that no file has.
    fn free(&self) -> u64 {
        let facts = rustix::fs::statvfs(self.0.path()).unwrap();
        facts.f_bfree * facts.f_frsize
    }

    /// Removes a file, and lasts until its space is durably free. XFS frees space in the
    /// background: on a busy machine `sync` and `fstrim` may well have ended before. What `fstrim`
    /// asks for is discarded in the background too.
    fn remove(&self, file: &str) {
        let file = self.0.path().join(file);
        let bytes = std::fs::metadata(&file).unwrap().len();
        let before = self.free();
        std::fs::remove_file(file).unwrap();
        let told = || {
            format!(
                "{bytes} are freed beside {before}, of which {}",
                self.free()
            )
        };
        wait_until_or_tell(told, || self.free() + MIB >= before + bytes);
        tool("sync", &["-f", self.path()]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        tool("umount", &[self.path()]);
    }
}

/// Grows ext4 while it is mounted, where this process may do that.
fn grow_ext4(disk: &Disk, mounted: Mounted) -> Mounted {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let able = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let able = u64::from_str_radix(able.unwrap().trim(), 16).unwrap();
    if able & SYS_RESOURCE != 0 {
        tool("resize2fs", &[disk.name()]);
        return mounted;
    }
    eprintln!("ext4 is grown while it is not mounted: this process has no CAP_SYS_RESOURCE");
    drop(mounted);
    tool("e2fsck", &["-f", "-p", disk.name()]);
    tool("resize2fs", &[disk.name()]);
    Mounted::new(disk, "defaults")
}

/// Bytes no two sectors of which are alike, and none of which is zero.
fn pattern(bytes: u64) -> Vec<u8> {
    let mut data = vec![0xa5; bytes as usize];
    for (index, sector) in data.chunks_exact_mut(512).enumerate() {
        // Byte by byte it would take seconds in a test that is not optimised.
        let stamp = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 0x0101_0101_0101_0101;
        sector[..8].copy_from_slice(&stamp.to_le_bytes());
    }
    data
}

fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    text(&output.stdout)
}

/// The bytes at `offset` of the disk, past the page cache of this host.
fn read(disk: &Disk, offset: u64, bytes: usize) -> Vec<u8> {
    tool("blockdev", &["--flushbufs", disk.name()]);
    let mut read = vec![0; bytes];
    let device = File::open(&disk.device).unwrap();
    device.read_exact_at(&mut read, offset).unwrap();
    read
}

fn write(disk: &Disk, offset: u64, data: &[u8]) {
    let device = File::options().write(true).open(&disk.device).unwrap();
    device.write_all_at(data, offset).unwrap();
    device.sync_all().unwrap();
}

#[test]
fn what_a_file_system_frees_comes_back_to_the_pool() {
    for (io_uring, block_size, make) in [
        (false, "4096", "mkfs.ext4"),
        (true, "512", "mkfs.ext4"),
        (true, "4096", "mkfs.xfs"),
        (false, "512", "mkfs.xfs"),
    ] {
        let mut disk = Disk::new(io_uring, block_size, "512MiB");
        assert_eq!(
            disk.told("queue/logical_block_size").to_string(),
            block_size
        );
        assert_eq!(disk.told("queue/discard_granularity"), 4096);
        tool(make, &["-q", disk.name()]);
        let mounted = Mounted::new(&disk, "nodiscard");
        let empty = disk.used();
        mounted.write("file", 64);
        let case = format!("{make} {block_size}, {empty} used without files");
        disk.wait_for_used(&case, empty + 48 * MIB..=u64::MAX);
        mounted.remove("file");
        tool("fstrim", &[mounted.path()]);
        // Less than half of what it would be with the file's space beside this.
        let few = 0..=empty + 20 * MIB;
        disk.wait_for_used(&format!("{case}, trimmed"), few);
        mounted.write("again", 64);
        drop(mounted);
        // As the file is removed, and without anybody's asking.
        let mounted = Mounted::new(&disk, "discard");
        mounted.remove("again");
        disk.wait_for_used(&format!("{case}, -o discard"), 0..=empty + 20 * MIB);
        drop(mounted);
        tool("wipefs", &["--all", "--quiet", disk.name()]);
        tool("blkdiscard", &[disk.name()]);
        write(&disk, 0, &pattern(64 * MIB));
        disk.wait_for_used(&case, 64 * MIB..=65 * MIB);
        disk.detach();
    }
}

#[test]
fn discarded_and_zeroed_ranges_read_as_zeroes_and_their_neighbours_stay() {
    for (io_uring, block_size, block) in [(false, "512", 512), (true, "4096", 4096)] {
        // Far more than the pool has, so that commands of the largest size are many.
        let mut disk = Disk::new(io_uring, block_size, "256GiB");
        let whole = pattern(MIB);
        let end = disk.bytes() - MIB;
        for start in [0, end] {
            for (extra, first, count) in [
                (&[][..], 1, 1),
                (&[], 3, 21),
                (&["--zeroout"], 7, 9),
                (&["--zeroout"], 40, 100),
            ] {
                write(&disk, start, &whole);
                let (from, bytes) = (first * block, count * block);
                let (offset, length) = ((start + from).to_string(), bytes.to_string());
                let range = ["--offset", &offset, "--length", &length, disk.name()];
                tool("blkdiscard", &[&["--force"], extra, &range].concat());
                let mut expected = whole.clone();
                expected[from as usize..(from + bytes) as usize].fill(0);
                let found = read(&disk, start, whole.len());
                assert!(found == expected, "{extra:?} {block_size}: {from} {bytes}");
            }
        }
        tool("blkdiscard", &["--force", disk.name()]);
        for start in [0, end] {
            assert!(
                read(&disk, start, whole.len())
                    .iter()
                    .all(|byte| *byte == 0)
            );
        }
        disk.wait_for_used("all is given back", 0..=MIB);
        disk.detach();
    }
}

/// The file that the disk stands on, as file systems are asked: its space, and what it refuses.
#[test]
fn the_file_says_how_large_it_is_and_refuses_what_it_cannot_do() {
    for io_uring in [false, true] {
        let mut disk = Disk::new(io_uring, "4096", "64MiB");
        let file = disk.file();
        let facts = rustix::fs::statvfs(&file).unwrap();
        assert_eq!(facts.f_blocks * facts.f_frsize, 64 * MIB);
        assert_eq!((facts.f_bfree, facts.f_bsize), (0, 4096));
        let listed = tool(
            "df",
            &["--output=size,avail", "-B1", file.to_str().unwrap()],
        );
        let figures: Vec<_> = listed.split_whitespace().skip(2).collect();
        assert_eq!(figures, ["67108864", "0"]);
        let file = File::options().read(true).write(true).open(file).unwrap();
        // In memory that is aligned, as past the page cache.
        file.write_all_at(&Buffer::copy_of(&pattern(MIB)), 0)
            .unwrap();
        let change = |flags, offset, bytes| rustix::fs::fallocate(&file, flags, offset, bytes);
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        // More space than it has, and parts of blocks: refused, and nothing else is from then on.
        let grow = rustix::fs::FallocateFlags::empty();
        assert_eq!(
            change(grow, 0, 128 * MIB),
            Err(rustix::io::Errno::OPNOTSUPP)
        );
        for (offset, bytes) in [(100, 4096), (4096, 100), (60 * MIB, 8 * MIB)] {
            assert_eq!(change(punch, offset, bytes), Err(rustix::io::Errno::INVAL));
        }
        assert_eq!(change(punch, 4096, 8192), Ok(()));
        let mut found = vec![0; 16384];
        file.read_exact_at(&mut found, 0).unwrap();
        let mut expected = pattern(16384);
        expected[4096..12288].fill(0);
        assert!(found == expected);
        drop(file);
        disk.detach();
    }
}

/// A discard in flight when the node dies is done once it is back.
#[test]
fn discards_outlive_the_node() {
    let mut disk = Disk::new(false, "512", "256GiB");
    let end = disk.bytes() - MIB;
    write(&disk, 0, &pattern(MIB));
    write(&disk, end, &pattern(MIB));
    // The first one waits for the node from its beginning.
    disk.node.kill();
    let mut discard = Command::new("blkdiscard")
        .args(["--force", disk.name()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    disk.node.start();
    let stat = Path::new("/sys/block").join(disk.device.file_name().unwrap());
    let discarded = || {
        let text = std::fs::read_to_string(stat.join("stat")).unwrap();
        text.split_whitespace()
            .nth(11)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    // And others are cut off in the middle.
    for _ in 0..2 {
        let before = discarded();
        wait_until("more is discarded", || {
            discarded() > before || discard.try_wait().unwrap().is_some()
        });
        disk.node.kill();
        disk.node.start();
    }
    let output = discard.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    for start in [0, end] {
        assert!(
            read(&disk, start, MIB as usize)
                .iter()
                .all(|byte| *byte == 0)
        );
    }
    disk.wait_for_used("all is given back", 0..=MIB);
    disk.detach();
}

#[test]
fn a_disk_grows_with_its_volume_under_a_mounted_file_system() {
    for (io_uring, block_size, make) in [(false, "4096", "mkfs.ext4"), (true, "512", "mkfs.xfs")] {
        let mut disk = Disk::new(io_uring, block_size, "320MiB");
        tool(make, &["-q", disk.name()]);
        let mounted = Mounted::new(&disk, "defaults");
        mounted.write("before", 16);
        let small = mounted.bytes();
        for mib in [448, 576] {
            disk.resize(&format!("{mib}MiB"));
            wait_until("the disk grows", || disk.bytes() == mib * MIB);
            assert_eq!(std::fs::metadata(disk.file()).unwrap().len(), mib * MIB);
        }
        let mounted = match make {
            "mkfs.xfs" => {
                tool("xfs_growfs", &[mounted.path()]);
                mounted
            }
            _ => grow_ext4(&disk, mounted),
        };
        assert!(mounted.bytes() > small + 240 * MIB);
        mounted.write("after", 300);
        for (file, mib) in [("before", 16), ("after", 300)] {
            let found = std::fs::read(mounted.0.path().join(file)).unwrap();
            assert!(found == pattern(mib * MIB), "{file}");
        }
        drop(mounted);
        disk.detach();
    }
}

/// A volume changes its size while its host cannot be told.
#[test]
fn a_size_that_changed_meanwhile_is_seen_and_a_disk_never_shrinks() {
    let mut disk = Disk::new(true, "4096", "64MiB");
    write(&disk, 0, &pattern(MIB));
    disk.node.kill();
    disk.node.start();
    disk.resize("128MiB");
    wait_until("the disk grows", || disk.bytes() == 128 * MIB);
    // Shrinking is for a moment at which no host is connected; until it is caught, it is refused.
    wait_for("the volume shrinks", || {
        disk.node.kill();
        disk.node.start();
        let shrink = ["volume", "resize", "data", "32MiB", "--allow-shrink"];
        disk.node.ask(&shrink).status.success().then_some(())
    });
    wait_until("it is told", || {
        disk.log().contains("shrank from 134217728")
    });
    assert_eq!(disk.bytes(), 128 * MIB);
    assert_eq!(read(&disk, 0, MIB as usize), pattern(MIB));
    let device = File::open(&disk.device).unwrap();
    let behind = device.read_at(&mut [0; 4096], 64 * MIB);
    assert!(behind.is_err(), "{behind:?}");
    drop(device);
    // To less than the disk, which keeps its size; and to more, which it follows.
    disk.resize("96MiB");
    wait_until("the file grows", || {
        std::fs::metadata(disk.file()).unwrap().len() == 96 * MIB
    });
    wait_until("that is told", || {
        disk.log().contains("grew from 33554432 to 100663296")
    });
    assert_eq!(disk.bytes(), 128 * MIB);
    disk.resize("192MiB");
    wait_until("the disk grows", || disk.bytes() == 192 * MIB);
    disk.detach();
}

/// A disk is read-only while its volume is write protected, be that said while its host is
/// connected, while it cannot be told, or before it attaches.
#[test]
fn a_disk_is_read_only_while_its_volume_is_write_protected() {
    let mut disk = Disk::new(true, "4096", "64MiB");
    let protect = |disk: &Disk, more: &[&str]| {
        let verb = ["volume", "protect", "data"];
        disk.node.answer(&[&verb[..], more].concat());
    };
    let is_read_only = |disk: &Disk| disk.told("ro") == 1;
    write(&disk, 0, &pattern(MIB));
    assert!(!is_read_only(&disk));
    protect(&disk, &[]);
    wait_until("the disk is read-only", || is_read_only(&disk));
    let device = File::options().write(true).open(&disk.device);
    let written = device.and_then(|device| device.write_at(&[0; 4096], 0));
    assert!(written.is_err(), "{written:?}");
    assert!(read(&disk, 0, MIB as usize) == pattern(MIB));
    disk.detach();
    let device = disk.attachment("attach", &["--method", "fuse"]);
    disk.device = device.trim().into();
    assert!(is_read_only(&disk), "from the first instant");
    // The node is away while it is lifted, as far as the host can tell.
    disk.node.kill();
    disk.node.start();
    protect(&disk, &["--off"]);
    wait_until("the disk is writable", || !is_read_only(&disk));
    write(&disk, MIB, &pattern(MIB));
    wait_until("it is told", || {
        disk.log().contains("write protected no more")
    });
    disk.detach();
    let device = disk.attachment("attach", &["--method", "fuse"]);
    disk.device = device.trim().into();
    assert!(!is_read_only(&disk));
    disk.detach();
}

//! fsx on attached volumes, with both block sizes: on files of XFS, and on the device itself. It
//! reads back what it wrote after every kind of change, of any size and place.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::attached::Attached;
use super::raid6::make_pool;
use super::support::{Node, text, tool};
use super::trouble::Trouble;
use super::{random, setting};

/// The operations on a file, and how often each comes.
const FILE: &str = "
flen = 4194304
[opsize]
max = 262144
[weights]
close_open = 1
read = 10
write = 10
mapread = 5
mapwrite = 5
invalidate = 1
truncate = 3
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 4
sendfile = 2
posix_fadvise = 6
copy_file_range = 3
";

/// The operations on a device, whose size stays.
fn device_settings(block_bytes: u32) -> String {
    format!(
        "
flen = 67108864
blockmode = true
nosizechecks = true
[opsize]
max = 1048576
align = {block_bytes}
[weights]
close_open = 0
truncate = 0
posix_fallocate = 0
read = 10
write = 10
mapread = 5
mapwrite = 5
invalidate = 1
fsync = 2
posix_fadvise = 6
"
    )
}

/// Runs fsx with `settings` on `path` for so many operations.
fn exercise(place: &TempDir, settings: &str, path: &Path, seed: u64) {
    let tools = std::env::var_os("FLASHYARD_LAB_TOOLS").expect("make installs fsx there");
    let (operations, config): (u64, _) =
        (setting("FSX_OPERATIONS", 20_000), place.path().join("toml"));
    std::fs::write(&config, settings).unwrap();
    let mut fsx = Command::new(Path::new(&tools).join("bin/fsx"));
    fsx.arg("-f").arg(&config).arg("-P").arg(place.path());
    fsx.args(["-N", &operations.to_string(), "-S", &seed.to_string()]);
    let output = fsx.arg(path).output().unwrap();
    let said = [text(&output.stdout), text(&output.stderr)].concat();
    assert!(output.status.success(), "{fsx:?}: {said}");
}

/// On a file and on the device, while the node is killed now and then.
fn with_blocks_of(block_bytes: u32) {
    let mut node = Node::configured("");
    make_pool(&node, 6, "512MiB", &[]);
    let attached = ["file", "device"].map(|volume| {
        let create = [
            "volume", "create", volume, "--pool", "pool", "--size", "512MiB",
        ];
        let block = block_bytes.to_string();
        node.answer(&[&create[..], &["--block-size", &block, "--allow", "any"]].concat());
        Attached::new(&node, volume)
    });
    let [file, device] = &attached;
    let random = random();
    let (of_file, of_device) = (random.word(), random.word());
    let (place, other, mount) = (TempDir::new(), TempDir::new(), TempDir::new());
    let (place, other, mount) = (place.unwrap(), other.unwrap(), mount.unwrap());
    tool("mkfs.xfs", &["-q", file.device_name()]);
    tool(
        "mount",
        &[file.device_name(), mount.path().to_str().unwrap()],
    );
    let work = || {
        std::thread::scope(|scope| {
            let on_device = scope.spawn(|| {
                let settings = device_settings(block_bytes);
                exercise(&other, &settings, device.device(), of_device);
            });
            exercise(&place, FILE, &mount.path().join("file"), of_file);
            on_device.join().unwrap();
        });
    };
    let ((), kills) = Trouble::Kills.beside(&mut node, None, random, work);
    println!("{kills} kills");
    tool("umount", &[mount.path().to_str().unwrap()]);
    tool("xfs_repair", &["-n", file.device_name()]);
    for one in &attached {
        one.detach();
    }
    node.answer(&["pool", "scrub", "pool", "--wait"]);
}

#[test]
fn with_blocks_of_4096() {
    with_blocks_of(4096);
}

#[test]
fn with_blocks_of_512() {
    with_blocks_of(512);
}

//! Other programs that take part: losetup, umount, modprobe, keyctl.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::AttachError;

/// A program, and the package that has it on Debian and Ubuntu.
const PACKAGES: [(&str, &str); 4] = [
    ("keyctl", "keyutils"),
    ("losetup", "mount"),
    ("umount", "mount"),
    ("modprobe", "kmod"),
];

/// The unit of `size` in /sys/class/block, whatever the logical block size.
const SECTOR_BYTES: u64 = 512;

/// Runs a program to its end; gives what it printed.
pub fn run(program: &'static str, arguments: &[&str]) -> Result<String, AttachError> {
    run_with(program, arguments, &[])
}

/// The same, with what the program reads from its standard input.
pub fn run_with(
    program: &'static str,
    arguments: &[&str],
    input: &[u8],
) -> Result<String, AttachError> {
    let output = piped(program, arguments, input).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => AttachError::Missing {
            program,
            package: package_of(program),
        },
        _ => AttachError::Path {
            path: program.into(),
            source,
        },
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(AttachError::Tool {
        command: format!("{program} {}", arguments.join(" ")),
        said: text(&output.stderr),
    })
}

fn piped(program: &str, arguments: &[&str], input: &[u8]) -> io::Result<Output> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut to) = child.stdin.take() {
        // A program that does not read it says why in the end.
        let _ = to.write_all(input);
    }
    child.wait_with_output()
}

fn package_of(program: &str) -> &'static str {
    let found = PACKAGES.iter().find(|(name, _)| *name == program);
    found.map_or("util-linux", |(_, package)| package)
}

/// A loop device over `file`, past the page cache, with blocks of `block_bytes`.
pub fn attach_loop(file: &Path, block_bytes: u32) -> Result<PathBuf, AttachError> {
    let file = file.display().to_string();
    let block = block_bytes.to_string();
    let options = [
        "--find",
        "--show",
        "--direct-io=on",
        "--sector-size",
        &block,
        &file,
    ];
    let device = run("losetup", &options)?;
    Ok(PathBuf::from(device))
}

/// The loop devices over `file`.
pub fn loops_over(file: &Path) -> Result<Vec<PathBuf>, AttachError> {
    let listed = run("losetup", &["--noheadings", "--output", "NAME,BACK-FILE"])?;
    let file = file.display().to_string();
    let lines = listed
        .lines()
        .filter_map(|line| line.trim().split_once(' '));
    let ours = lines.filter(|(_, backing)| {
        // A file of a process that is gone is shown as deleted.
        backing.trim().trim_end_matches(" (deleted)") == file
    });
    Ok(ours.map(|(name, _)| PathBuf::from(name)).collect())
}

/// Makes the loop devices over `file` as large as it has become. None is made smaller: whoever uses
/// a disk does not expect that.
pub fn grow_loops(file: &Path) -> Result<(), AttachError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| AttachError::Path { path, source }
    };
    // Asking is what makes the kernel take the file's size anew.
    let bytes = std::fs::metadata(file).map_err(failed(file))?.len();
    for device in loops_over(file)? {
        let name = device.file_name().unwrap_or_default();
        let size = Path::new("/sys/class/block").join(name).join("size");
        let text = std::fs::read_to_string(&size).map_err(failed(&size))?;
        let sectors: u64 = text.trim().parse().unwrap_or(0);
        if sectors.saturating_mul(SECTOR_BYTES) < bytes {
            run(
                "losetup",
                &["--set-capacity", &device.display().to_string()],
            )?;
        }
    }
    Ok(())
}

/// Makes the loop devices over `file` read-only, or writable.
pub fn protect_loops(file: &Path, protected: bool) -> Result<(), AttachError> {
    let option = if protected { "--setro" } else { "--setrw" };
    for device in loops_over(file)? {
        run("blockdev", &[option, &device.display().to_string()])?;
    }
    Ok(())
}

/// Ends a loop device that nobody uses.
pub fn detach_loop(device: &Path) -> Result<(), AttachError> {
    run("losetup", &["--detach", &device.display().to_string()]).map(drop)
}

/// Refuses a block device that a file system or another program has open for itself alone.
pub fn refuse_if_used(device: &Path) -> Result<(), AttachError> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let name = device.display().to_string();
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        (words.next() == Some(&name)).then(|| words.next().unwrap_or("").to_owned())
    });
    if let Some(at) = mounted.into_iter().next() {
        return Err(AttachError::Mounted {
            device: device.to_owned(),
            at,
        });
    }
    let exclusive = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL;
    match rustix::fs::open(device, exclusive, rustix::fs::Mode::empty()) {
        Err(rustix::io::Errno::BUSY) => Err(AttachError::Used(device.to_owned())),
        // A device that is gone is used by nobody.
        _ => Ok(()),
    }
}

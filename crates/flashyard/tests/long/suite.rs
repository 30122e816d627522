//! xfstests, which somebody has built already, on a pair of block devices.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use super::outcomes::{Outcomes, outcomes};
use super::support::tool;

/// The tests that are left out, each with its reason.
const EXPUNGED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/long/expunged.txt");

/// Users that tests ask for; the machine does not get them.
const USERS: [(&str, u32); 3] = [("fsgqa", 31415), ("fsgqa2", 31416), ("123456-fsgqa", 31417)];

/// Longer than the suite is silent during its longest test on a busy machine.
const SILENCE: Duration = Duration::from_secs(40 * 60);

/// A file system that the suite tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Xfs,
    Ext4,
}

impl FileSystem {
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Xfs => "xfs",
            FileSystem::Ext4 => "ext4",
        }
    }
}

/// A run of the suite, prepared: with a place for its mounts, users and results.
pub struct Suite {
    file_system: FileSystem,
    /// What runs of it, in its own words.
    tests: String,
    place: TempDir,
}

impl Suite {
    pub fn new(file_system: FileSystem, tests: &str) -> Suite {
        let place = tempfile::tempdir().unwrap();
        for name in ["test", "scratch", "results"] {
            std::fs::create_dir(place.path().join(name)).unwrap();
        }
        for file in ["passwd", "group"] {
            let at = place.path().join(file);
            std::fs::copy(Path::new("/etc").join(file), &at).unwrap();
            let mut lines = OpenOptions::new().append(true).open(at).unwrap();
            for (name, id) in USERS {
                let line = match file {
                    "passwd" => format!("{name}:x:{id}:{id}::/nonexistent:/bin/bash"),
                    _ => format!("{name}:x:{id}:"),
                };
                writeln!(lines, "{line}").unwrap();
            }
        }
        Suite {
            file_system,
            tests: tests.to_owned(),
            place,
        }
    }

    /// The generic tests that are in each of these groups, in words of the suite: it can be told to
    /// run those of any of several groups, and no others.
    pub fn in_groups(groups: &[&str]) -> String {
        let list = Suite::folder().join("tests/generic/group.list");
        let list = std::fs::read_to_string(list).unwrap();
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        let named = lines.filter_map(|line| {
            let (test, of) = line.split_once(' ')?;
            let has = |group: &&str| of.split(' ').any(|own| own == *group);
            groups.iter().all(has).then(|| format!("generic/{test}"))
        });
        named.collect::<Vec<_>>().join(" ")
    }

    /// Where the suite is, as its own `make` leaves it.
    fn folder() -> PathBuf {
        let folder = std::env::var_os("XFSTESTS").map(PathBuf::from);
        let folder = folder.filter(|folder| folder.join("ltp/fsstress").exists());
        folder.expect("XFSTESTS names the folder in which xfstests was built")
    }

    /// Runs it on two devices, of which the first gets its file system here; what it prints goes to
    /// `log` as well.
    pub fn run(&self, test: &Path, scratch: &Path, log: &Path) -> Outcomes {
        let file_system = self.file_system.name();
        let at = self.place.path();
        let force = match self.file_system {
            FileSystem::Xfs => "-f",
            FileSystem::Ext4 => "-F",
        };
        let make = format!("mkfs.{file_system}");
        tool(&make, &["-q", force, test.to_str().unwrap()]);
        let settings = [
            ("FSTYP", Path::new(file_system)),
            ("TEST_DEV", test),
            ("TEST_DIR", &at.join("test")),
            ("SCRATCH_DEV", scratch),
            ("SCRATCH_MNT", &at.join("scratch")),
            ("RESULT_BASE", &at.join("results")),
        ];
        let settings = settings.map(|(name, value)| format!("export {name}={}\n", value.display()));
        std::fs::write(at.join("config"), settings.concat()).unwrap();
        let (printed, silent) = self.check(log);
        let outcomes = outcomes(&printed);
        assert!(
            !silent,
            "nothing was printed for {SILENCE:?}: {}",
            log.display()
        );
        assert!(!outcomes.is_empty(), "no test was run: {printed}");
        outcomes
    }

    /// Runs the suite's own program, in a mount namespace of its own, which ends with it. Gives
    /// what it printed, and whether it was ended for saying nothing.
    fn check(&self, log: &Path) -> (String, bool) {
        let at = self.place.path().display();
        let script = format!(
            "mount --bind {at}/passwd /etc/passwd; mount --bind {at}/group /etc/group\n\
             exec nice -n 10 ./check \"$@\""
        );
        let file = std::fs::File::create(log).unwrap();
        let mut check = Command::new("unshare");
        check.args([
            "--mount",
            "--propagation",
            "private",
            "bash",
            "-euc",
            &script,
            "check",
        ]);
        check.args(["-E", EXPUNGED]);
        check.args(self.tests.split_whitespace());
        check.current_dir(Suite::folder()).process_group(0);
        check.env("HOST_OPTIONS", self.place.path().join("config"));
        check
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        let mut check = check.spawn().unwrap();
        let (mut printed, mut since, mut silent) = (0, Instant::now(), false);
        while check.try_wait().unwrap().is_none() {
            let now = std::fs::metadata(log).unwrap().len();
            if now != printed {
                (printed, since) = (now, Instant::now());
            }
            if since.elapsed() > SILENCE && !silent {
                silent = true;
                let group = Pid::from_child(&check);
                // It may have ended just now.
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        (std::fs::read_to_string(log).unwrap(), silent)
    }
}

/// A plain loop device over a file, as an attached volume is one over a file of FUSE.
pub struct PlainLoop {
    _file: tempfile::NamedTempFile,
    device: PathBuf,
}

impl PlainLoop {
    pub fn new(bytes: u64, block_bytes: u32) -> PlainLoop {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        let (path, block) = (file.path().to_str().unwrap(), block_bytes.to_string());
        let options = ["--find", "--show", "--direct-io=on", "--sector-size"];
        let device = tool("losetup", &[&options[..], &[&block, path]].concat());
        let device = PathBuf::from(device.trim());
        // As attached volumes are, whatever the file is on: ext4 allocates blocks otherwise there.
        let queue = Path::new("/sys/block").join(device.file_name().unwrap());
        std::fs::write(queue.join("queue/rotational"), "0").unwrap();
        PlainLoop {
            device,
            _file: file,
        }
    }

    pub fn device(&self) -> &Path {
        &self.device
    }
}

impl Drop for PlainLoop {
    fn drop(&mut self) {
        let device = self.device.to_str().unwrap();
        tool("losetup", &["--detach", device]);
    }
}

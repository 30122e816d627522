//! Storage nodes, and processes of the driver as hosts have them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use csi_calls::{Caller, nqn};
use tempfile::TempDir;

use crate::raid6::make_pool;
use crate::support::{Node, wait_until};

/// What hosts' secrets follow from.
const HOST_SECRET: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// Storage nodes with a pool each, and where the driver keeps things.
pub struct Cluster {
    pub nodes: Vec<Node>,
    pub directory: TempDir,
}

impl Cluster {
    /// Of so many nodes, each with a pool of files.
    pub fn of(count: usize) -> Cluster {
        let start = |index| Node::configured(&format!("node.name = \"node-{index}\"\n"));
        Cluster::over((0..count).map(start).collect())
    }

    /// The same, of these.
    pub fn over(nodes: Vec<Node>) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let logins = directory.path().join("nodes");
        fs::create_dir(&logins).unwrap();
        for (index, node) in nodes.iter().enumerate() {
            make_pool(node, 4, "1GiB", &[]);
            let login = serde_json::json!({
                "url": node.endpoints().api, "token": node.admin_token(),
            });
            let file = logins.join(format!("node-{index}.json"));
            fs::write(file, login.to_string()).unwrap();
        }
        fs::write(directory.path().join("host-secret"), HOST_SECRET).unwrap();
        Cluster { nodes, directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A process of the driver for the host called `host`, with the controller too.
    pub fn plugin(&self, host: &str) -> Plugin {
        let mut plugin = Plugin {
            socket: self.path(&format!("{host}.sock")),
            attached: self.path(&format!("{host}.attached")),
            arguments: vec!["--host-nqn".to_owned(), nqn(host)],
            process: None,
        };
        let (nodes, secret) = (self.path("nodes"), self.path("host-secret"));
        for (option, path) in [("--nodes", &nodes), ("--host-secret-file", &secret)] {
            let path = path.to_str().unwrap().to_owned();
            plugin.arguments.extend([option.to_owned(), path]);
        }
        plugin.start();
        plugin
    }
}

/// A process of the driver.
pub struct Plugin {
    pub socket: PathBuf,
    pub attached: PathBuf,
    arguments: Vec<String>,
    process: Option<Child>,
}

impl Plugin {
    /// Starts it; returns when it takes connections.
    pub fn start(&mut self) {
        let log = self.socket.with_extension("log");
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        // What a killed process has left tells nothing of the new one.
        let _ = fs::remove_file(&self.socket);
        let child = Command::new(env!("CARGO_BIN_EXE_flashyard"))
            .args(["csi", "--endpoint", &self.endpoint(), "--directory"])
            .arg(&self.attached)
            .args(&self.arguments)
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn();
        let mut child = child.unwrap();
        wait_until("the driver serves", || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the driver ended: {}", self.log());
            std::os::unix::net::UnixStream::connect(&self.socket).is_ok()
        });
        self.process = Some(child);
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    pub fn caller(&self) -> Caller {
        let endpoint = self.endpoint();
        Caller::new(&endpoint, &endpoint)
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.socket.with_extension("log")).unwrap_or_default()
    }

    /// What is attached, by name.
    pub fn attached(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.attached).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        let states = paths.filter(|path| path.extension().is_some_and(|word| word == "json"));
        let mut names: Vec<String> = states
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort_unstable();
        names
    }

    /// That nothing of any attachment is left.
    pub fn assert_nothing_is_attached(&self) {
        assert_eq!(self.attached(), [] as [String; 0]);
        let path = self.attached.to_str().unwrap();
        for table in ["/proc/self/mounts", "/proc/self/mountinfo"] {
            let mounts = fs::read_to_string(table).unwrap();
            assert!(!mounts.contains(path), "{mounts}");
        }
        let loops = crate::support::tool("losetup", &["--list"]);
        assert!(!loops.contains(path), "{loops}");
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.kill();
        // After a failure: what is still there would be there for good.
        for name in self.attached() {
            let directory = self.attached.to_str().unwrap();
            unmount_all(directory);
            crate::support::flashyard(&["detach", &name, "--directory", directory]);
        }
    }
}

/// Unmounts what devices of `directory` are mounted as.
fn unmount_all(directory: &str) {
    let loops = crate::support::tool("losetup", &["--noheadings", "--output", "NAME,BACK-FILE"]);
    let ours = loops.lines().filter(|line| line.contains(directory));
    let devices: Vec<_> = ours
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    for line in mounts.lines().rev() {
        let mut words = line.split(' ');
        if words.next().is_some_and(|device| devices.contains(&device)) {
            let _ = Command::new("umount").arg(words.next().unwrap()).output();
        }
    }
}

/// A file that somebody writes and syncs, as a workload does.
pub fn write_file(directory: &Path, name: &str, contents: &[u8]) {
    use std::io::Write;
    let mut file = fs::File::create(directory.join(name)).unwrap();
    file.write_all(contents).unwrap();
    file.sync_all().unwrap();
    fs::File::open(directory).unwrap().sync_all().unwrap();
}

//! A node whose addresses are known without a file of its own, over directories that may fill up.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use client::{Client, Login};
use server::tokens::{ADMIN_TOKEN_FILE, read_admin_token};
use tempfile::TempDir;

use crate::support::{flashyard, free_address, name, text, wait_until};

/// A small file system, which is gone with this.
pub struct Small {
    directory: TempDir,
}

impl Small {
    pub fn new() -> Small {
        let directory = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs"];
        let status = Command::new("mount")
            .args(mount)
            .arg(directory.path())
            .status();
        assert!(status.unwrap().success());
        Small { directory }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn filling(&self) -> PathBuf {
        self.path().join("filling")
    }

    /// Leaves no room.
    pub fn fill(&self) {
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(self.filling())
            .unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }

    pub fn free(&self) {
        std::fs::remove_file(self.filling()).unwrap();
    }

    pub fn remount(&self, how: &str) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,{how}")])
            .arg(self.path())
            .status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.path())
            .status();
    }
}

/// A node whose state is in one directory, at addresses that need no file to be known.
pub struct Served {
    pub state: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
    pub api: SocketAddr,
    pub nvme: SocketAddr,
    process: Option<Child>,
}

impl Served {
    pub fn new(state: &Path, elsewhere: &Path) -> Served {
        let settings = elsewhere.join("flashyard.toml");
        let text = format!(
            "api.protocol = \"http\"\nstate_directory = \"{}\"\n",
            state.display()
        );
        std::fs::write(&settings, text).unwrap();
        let (api, nvme) = (free_address(), free_address());
        let arguments = ["serve", "--config", settings.to_str().unwrap()].map(str::to_owned);
        let listen = [
            "--api-listen".into(),
            api.to_string(),
            "--listen".into(),
            nvme.to_string(),
        ];
        Served {
            state: state.to_owned(),
            arguments: arguments.into_iter().chain(listen).collect(),
            environment: Vec::new(),
            api,
            nvme,
            process: None,
        }
    }

    pub fn start(&mut self, stdout: Stdio, stderr: Stdio) {
        self.spawn(stdout, stderr);
        self.wait();
    }

    pub fn spawn(&mut self, stdout: Stdio, stderr: Stdio) {
        let mut program = Command::new(env!("CARGO_BIN_EXE_flashyard"));
        program.args(&self.arguments).stdin(Stdio::null());
        program.envs(self.environment.iter().cloned());
        program.stdout(stdout).stderr(stderr);
        self.process = Some(program.spawn().unwrap());
    }

    pub fn quietly(&mut self) {
        self.start(Stdio::null(), Stdio::null());
    }

    /// Until it serves both.
    pub fn wait(&mut self) {
        wait_until("the node serves", || {
            let process = self.process.as_mut().unwrap();
            assert!(process.try_wait().unwrap().is_none(), "the node has ended");
            TcpStream::connect(self.api).is_ok() && self.client().status().is_ok()
        });
    }

    /// Asks what a service asks before each start.
    pub fn check(&self) {
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        arguments.push("--check-config");
        let checked = flashyard(&arguments);
        assert!(checked.status.success(), "{checked:?}");
    }

    pub fn client(&self) -> Client {
        Client::with(&Login {
            url: format!("http://{}", self.api),
            token: read_admin_token(&self.state).ok(),
            certificate: None,
        })
        .unwrap()
    }

    pub fn ask(&self, arguments: &[&str]) -> Output {
        let token = self.state.join(ADMIN_TOKEN_FILE);
        let node = format!("http://{}", self.api);
        let connection = ["--node", &node, "--token-file", token.to_str().unwrap()];
        flashyard(&[&connection[..], arguments].concat())
    }

    pub fn answer(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert!(output.status.success(), "{arguments:?} gave {output:?}");
        text(&output.stdout)
    }

    pub fn add_host(&self, host: &str) -> Output {
        self.ask(&[
            "host",
            "add",
            host,
            "--nqn",
            &format!("nqn.2014-08.org.example:{host}"),
        ])
    }

    /// That a host reads and writes its volume.
    pub fn serves(&self, volume: &str) {
        let nqn = self.client().volume(&name(volume)).unwrap().nqn;
        let ran = self.load(&nqn);
        assert!(ran.status.success(), "{ran:?}");
    }

    /// A host that reads and writes a volume.
    pub fn load(&self, nqn: &str) -> Output {
        let target = format!("tcp://{}/{nqn}", self.nvme);
        flashyard(&["perf", &target, "--rw", "randrw", "--number-ios", "64"])
    }

    pub fn metric(&self, series: &str) -> f64 {
        let page = self.answer_to("/metrics");
        let of_series = |line: &str| line.strip_prefix(series)?.trim().parse().ok();
        page.lines()
            .find_map(of_series)
            .unwrap_or_else(|| panic!("no {series}"))
    }

    pub fn answer_to(&self, path: &str) -> String {
        use std::io::Read;
        let token = read_admin_token(&self.state).unwrap();
        let token = token.reveal();
        let mut stream = TcpStream::connect(self.api).unwrap();
        let head =
            format!("GET {path} HTTP/1.0\r\nHost: n\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Its exit code when it is asked to end.
    pub fn end(&mut self) -> i32 {
        let mut process = self.process.take().unwrap();
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        process.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail only if the process has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

pub fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// What the events say, each of which is whole in one line.
pub fn events(node: &Served) -> String {
    node.answer(&["event", "list"])
}

/// A node whose state is in `small`, with a volume `v` elsewhere that every host may use.
pub fn with_a_volume(small: &Small, elsewhere: &Path) -> Served {
    let mut node = Served::new(small.path(), elsewhere);
    node.quietly();
    make_volume(&node, elsewhere);
    node
}

/// A node with the volume `v`, in a directory of its own.
pub fn serving_a_volume() -> (TempDir, Served) {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Served::new(&directory.path().join("state"), directory.path());
    node.quietly();
    make_volume(&node, directory.path());
    (directory, node)
}

/// Makes the volume `v`, of a drive in a directory.
pub fn make_volume(node: &Served, directory: &Path) {
    let drive = directory.join("drive");
    let drive = drive.to_str().unwrap();
    node.answer(&["drive", "add", "d", drive, "--size", "16MiB"]);
    node.answer(&["volume", "create", "v", "--drive", "d", "--allow", "any"]);
}

//! A node as a separate process, and the program run against it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses what it needs")]

pub mod http;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Login};
use server::endpoints::Endpoints;
use server::tokens::{ADMIN_TOKEN_FILE, read_admin_token};
use tempfile::TempDir;

/// Longer than a start takes on the slowest machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than what tests wait for takes on the slowest machine: moving a few MiB, most of all.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program: that of this build, unless `FLASHYARD_PROGRAM` names another.
pub fn program() -> String {
    let named = std::env::var("FLASHYARD_PROGRAM");
    named.unwrap_or_else(|_| env!("CARGO_BIN_EXE_flashyard").to_owned())
}

/// The program with `arguments`, ended.
pub fn flashyard(arguments: &[&str]) -> Output {
    let mut program = Command::new(program());
    program
        .env_remove("FLASHYARD_NODE")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .args(arguments)
        .output()
        .unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What another program prints, which must succeed.
pub fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    text(&output.stdout)
}

/// User and system time of a process, in clock ticks.
pub fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum()
}

/// A name, a drive's or a volume's.
pub fn name(text: &str) -> api::Name {
    text.parse().unwrap()
}

/// Asks again until there is an answer.
pub fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    wait_for_or_tell(|| what.to_owned(), ask)
}

/// The same; `told` says in vain for what, and what was there instead.
fn wait_for_or_tell<T>(told: impl Fn() -> String, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {}", told());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks again until it holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// The same; `told` says in vain for what, and what was there instead.
pub fn wait_until_or_tell(told: impl Fn() -> String, mut holds: impl FnMut() -> bool) {
    wait_for_or_tell(told, || holds().then_some(()));
}

/// A port that nobody has, and that the system gives to nobody: a server may come back to it.
pub fn free_port() -> u16 {
    lab::ports::free_port(&[Ipv4Addr::LOCALHOST.into()]).unwrap()
}

/// An address with such a port.
pub fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

/// Where a node listens at every start, as hosts expect of it.
pub fn listen() -> [String; 4] {
    let [nvme, api] = [free_address(), free_address()].map(|it| it.to_string());
    ["--listen".into(), nvme, "--api-listen".into(), api]
}

/// The arguments of a request, its exit code, and what its message says.
pub type Refused<'a> = (&'a [&'a str], i32, &'a [&'a str]);

/// A node over a directory that outlives its processes.
pub struct Node {
    directory: TempDir,
    /// What starts the program, with arguments, if it is not started by itself.
    launcher: Vec<String>,
    arguments: Vec<String>,
    process: Option<Child>,
    endpoints: Endpoints,
}

impl Node {
    /// Starts `serve --dev` in a new directory, on free ports.
    pub fn develop(extra: &[&str]) -> Node {
        Node::develop_in(tempfile::tempdir().unwrap(), extra)
    }

    /// The same in this directory.
    pub fn develop_in(directory: TempDir, extra: &[&str]) -> Node {
        let mut node = Node::stopped(directory, extra);
        node.start();
        node
    }

    fn stopped(directory: TempDir, extra: &[&str]) -> Node {
        let path = directory.path().to_str().unwrap().to_owned();
        let mut arguments = vec!["serve".to_owned(), "--dev".into(), path];
        arguments.extend(["--drive-size".into(), "16MiB".into()]);
        arguments.extend(listen());
        arguments.extend(extra.iter().map(|argument| (*argument).to_owned()));
        Node::over(directory, arguments)
    }

    /// Starts `serve --dev` in a new directory, through `launcher` with its arguments.
    pub fn develop_under(launcher: &[&str], extra: &[&str]) -> Node {
        let directory = tempfile::tempdir().unwrap();
        let mut node = Node::stopped(directory, extra);
        node.launch_by(launcher);
        node.start();
        node
    }

    /// Starts `serve --config` with `settings` beside a state directory and free ports, and an API
    /// in the clear.
    pub fn configured(settings: &str) -> Node {
        Node::configured_secure(&format!("api.protocol = \"http\"\n{settings}"))
    }

    /// Starts `serve --config` with `settings` beside a state directory and free ports.
    pub fn configured_secure(settings: &str) -> Node {
        Node::configured_with(settings, listen())
    }

    /// Starts `serve --config` with `settings` beside a state directory, and `arguments` behind it.
    pub fn configured_with(settings: &str, listen: impl IntoIterator<Item = String>) -> Node {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flashyard.toml");
        let state = directory.path().display();
        std::fs::write(&path, format!("state_directory = \"{state}\"\n{settings}")).unwrap();
        let mut arguments = vec!["serve".to_owned(), "--config".into()];
        arguments.push(path.to_str().unwrap().to_owned());
        arguments.extend(listen);
        let mut node = Node::over(directory, arguments);
        node.start();
        node
    }

    /// A node under TLS that has a volume `data`, for examples of the documentation.
    pub fn secure_with_data() -> Node {
        let node = Node::configured_secure("");
        let size = "64MiB".parse().unwrap();
        let drive = api::DriveSpec::Memory { size };
        node.client().add_drive(&name("d"), &drive).unwrap();
        let volume = api::VolumeSpec {
            drive: Some(name("d")),
            ..api::VolumeSpec::default()
        };
        let made = node.client().create_volume(&name("data"), &volume);
        made.unwrap();
        node
    }

    /// An example, with the address, the token and the certificate of this node.
    pub fn in_place_of_documented(&self, example: &str) -> String {
        let file = |name: &str| self.path().join(name).display().to_string();
        let mut example = example.to_owned();
        for (documented, ours) in [
            ("https://node-1:4400", self.endpoints().api.clone()),
            ("/etc/flashyard/token", file("admin.token")),
            ("/etc/flashyard/node-1.pem", file("certificate.pem")),
        ] {
            assert!(example.contains(documented), "{documented}");
            example = example.replace(documented, &ours);
        }
        example
    }

    fn over(directory: TempDir, arguments: Vec<String>) -> Node {
        let endpoints = Endpoints {
            api: String::new(),
            certificate: None,
            nvme: Vec::new(),
            pid: 0,
        };
        Node {
            directory,
            launcher: Vec::new(),
            arguments,
            process: None,
            endpoints,
        }
    }

    /// Makes later starts go through `launcher` with its arguments.
    pub fn launch_by(&mut self, launcher: &[&str]) {
        self.launcher = launcher.iter().map(|part| (*part).to_owned()).collect();
    }

    /// Starts the process again after it ended, on other cores.
    pub fn start_on(&mut self, cores: &str) {
        let option = self.arguments.iter().position(|found| found == "--cores");
        let option = option.unwrap_or(self.arguments.len());
        self.arguments.truncate(option);
        self.arguments.extend(["--cores".into(), cores.into()]);
        self.start();
    }

    /// Starts the process again after it ended; its log goes to `log` in the directory.
    pub fn start(&mut self) {
        let log = std::fs::File::create(self.log_path()).unwrap();
        let all = [&self.launcher[..], &[program()], &self.arguments].concat();
        let mut program = Command::new(&all[0]);
        program.args(&all[1..]).stdin(Stdio::null());
        program.env("XDG_CONFIG_HOME", self.directory.path());
        program.stdout(log.try_clone().unwrap()).stderr(log);
        let mut process = program.spawn().unwrap();
        let started = Instant::now();
        self.endpoints = loop {
            match Endpoints::read(self.directory.path()) {
                Ok(endpoints) if endpoints.pid == process.id() => break endpoints,
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
            if let Some(status) = process.try_wait().unwrap() {
                panic!("the node ended with {status}:\n{}", self.log());
            }
            if started.elapsed() > START_TIMEOUT {
                process.kill().unwrap();
                panic!("the node does not start:\n{}", self.log());
            }
        };
        self.process = Some(process);
    }

    /// Ends the process at once, as a power loss would.
    pub fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Asks the process to end, and waits for it.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut process = self.process.take().unwrap();
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        process.wait().unwrap()
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    pub fn client(&self) -> Client {
        Client::with(&Login {
            url: self.endpoints.api.clone(),
            token: Some(read_admin_token(self.directory.path()).unwrap()),
            certificate: self
                .endpoints
                .certificate
                .as_ref()
                .map(|f| f.parse().unwrap()),
        })
        .unwrap()
    }

    /// The secret of the token that the node's first start made.
    pub fn admin_token(&self) -> String {
        let token = read_admin_token(self.directory.path()).unwrap();
        token.reveal().to_owned()
    }

    /// That each request ends with its exit code and says why in the words that are expected.
    pub fn refuses(&self, cases: &[Refused]) {
        for (arguments, code, expected) in cases {
            let output = self.ask(arguments);
            let message = text(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(*code),
                "{arguments:?}: {message}"
            );
            for part in *expected {
                assert!(
                    message.contains(part),
                    "{arguments:?} gave {message:?}, not {part:?}"
                );
            }
        }
    }

    /// The program with `arguments`, against this node, as its admin.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        let token_file = self.directory.path().join(ADMIN_TOKEN_FILE);
        let token_file = token_file.to_str().unwrap();
        let mut all = vec!["--node", &self.endpoints.api, "--token-file", token_file];
        all.extend(arguments);
        flashyard(&all)
    }

    /// What the program prints, which must succeed.
    pub fn answer(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert!(output.status.success(), "{arguments:?} gave {output:?}");
        text(&output.stdout)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // Both fail only if the process has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

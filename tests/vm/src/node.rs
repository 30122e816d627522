//! The storage node under test: the `flashyard` binary on this machine, on loopback, on drives in
//! files.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::ports::free_port;
use serde_json::Value;

use crate::command::output_of;

/// The host NQN the guest connects with; `agent.sh` sets it there.
const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:2cd2c43b-a90a-45c1-a8cd-86b33ab273b5";

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A node with two volumes in the subsystem `shared`, which admits the guest, and one in the
/// subsystem `private`, which does not. The first volume has blocks of 4096 bytes, the others of
/// 512. It ends when this is dropped.
pub struct Node {
    name: String,
    program: PathBuf,
    directory: PathBuf,
    log: PathBuf,
    ports: [u16; 2],
    process: Option<Child>,
}

impl Node {
    /// Starts `program` with its files below `directory`.
    ///
    /// # Errors
    /// The node does not start, or refuses its volumes.
    pub fn start(program: &Path, directory: &Path, label: &str) -> Result<Node> {
        Node::named("vm", program, directory, label)
    }

    /// Starts another node beside it.
    ///
    /// # Errors
    /// That node does not start, or refuses its volumes.
    pub fn beside(&self, name: &str) -> Result<Node> {
        let directory = self.directory.parent().context("a folder of all nodes")?;
        let label = self.directory.file_stem().context("a label")?;
        let label = format!("{}-{name}", label.to_string_lossy());
        Node::named(name, &self.program, directory, &label)
    }

    fn named(name: &str, program: &Path, directory: &Path, label: &str) -> Result<Node> {
        let label = label.replace(' ', "-");
        let log = directory.join(format!("{label}.node"));
        let directory = directory.join(format!("{label}.drives"));
        remove(&directory)?;
        fs::create_dir_all(&directory)?;
        File::create(&log)?;
        let mut node = Node {
            name: name.to_owned(),
            program: program.to_path_buf(),
            directory,
            log,
            ports: free_ports()?,
            process: None,
        };
        node.write_settings(false)?;
        node.restart()?;
        node.command(&format!("host add guest --nqn {HOST_NQN}"))?;
        node.add_volume(
            "four",
            "600MiB",
            "--block-size 4096 --subsystem shared --allow guest",
        )?;
        node.add_volume(
            "five",
            "600MiB",
            "--block-size 512 --subsystem shared --allow guest",
        )?;
        node.add_volume("hidden", "64MiB", "--block-size 512 --subsystem private")?;
        Ok(node)
    }

    /// `-t`, `-a` and `-s` of nvme-cli in the guest, over IPv4.
    #[must_use]
    pub fn over_ipv4(&self) -> String {
        format!("-t tcp -a 10.0.2.2 -s {}", self.ports[0])
    }

    /// `-t`, `-a` and `-s` of nvme-cli in the guest, over IPv6.
    #[must_use]
    pub fn over_ipv6(&self) -> String {
        format!("-t tcp -a fec0::2 -s {}", self.ports[1])
    }

    /// Addresses that the guest reaches the node at, over IPv4 and over IPv6.
    #[must_use]
    pub fn addresses(&self) -> [String; 2] {
        let [four, six] = self.ports;
        [format!("10.0.2.2:{four}"), format!("[fec0::2]:{six}")]
    }

    /// A namespace of the subsystem `nqn`, for programs of ours in the guest.
    #[must_use]
    pub fn target(&self, nqn: &str, nsid: u32) -> String {
        format!("tcp://10.0.2.2:{}/{nqn}?nsid={nsid}", self.ports[0])
    }

    /// NQN of the subsystem whose two namespaces the guest may use.
    #[must_use]
    pub fn shared(&self) -> &'static str {
        "nqn.2026-11.example.flashyard:vm:shared"
    }

    /// NQN of the subsystem that does not admit the guest.
    #[must_use]
    pub fn private(&self) -> &'static str {
        "nqn.2026-11.example.flashyard:vm:private"
    }

    /// NQN of its discovery subsystem, which no other node's has.
    ///
    /// # Errors
    /// The node does not answer.
    pub fn discovery(&self) -> Result<String> {
        let status: Value = serde_json::from_str(&self.command("status -o json")?)?;
        let nqn = status["discovery_nqn"].as_str();
        Ok(nqn.context("status names no discovery")?.to_owned())
    }

    /// Makes a drive of `size` and a volume of the same name on it.
    ///
    /// # Errors
    /// The node refuses.
    pub fn add_volume(&self, name: &str, size: &str, options: &str) -> Result<()> {
        let drive = self.directory.join(name);
        self.command(&format!(
            "drive add {name} {} --size {size}",
            drive.display()
        ))?;
        self.command(&format!("volume create {name} --drive {name} {options}"))?;
        Ok(())
    }

    /// Makes `count` drives of `size`, called NAME-0 and so on, and a pool of them and of `others`,
    /// whose files are there: names and paths.
    ///
    /// # Errors
    /// The node refuses.
    pub fn add_pool(
        &self,
        name: &str,
        level: &str,
        (count, size): (usize, &str),
        others: &[(&str, PathBuf)],
    ) -> Result<()> {
        let mut drives = Vec::with_capacity(count + others.len());
        for (drive, path) in others {
            self.command(&format!("drive add {drive} {}", path.display()))?;
            drives.push((*drive).to_owned());
        }
        for number in 0..count {
            let drive = format!("{name}-{number}");
            let path = self.directory.join(&drive);
            self.command(&format!(
                "drive add {drive} {} --size {size}",
                path.display()
            ))?;
            drives.push(drive);
        }
        let drives = drives.join(",");
        self.command(&format!(
            "pool create {name} --level {level} --drives {drives}"
        ))?;
        Ok(())
    }

    /// Takes a drive's file out of the way, or brings it back.
    ///
    /// # Errors
    /// It is not there.
    pub fn set_aside(&self, drive: &str, aside: bool) -> Result<()> {
        let (there, away) = (drive.to_owned(), format!("{drive}.aside"));
        let (from, to) = if aside { (there, away) } else { (away, there) };
        Ok(fs::rename(
            self.directory.join(from),
            self.directory.join(to),
        )?)
    }

    /// Makes an emulated drive of 768 MB, whose namespaces the guest manages.
    ///
    /// # Errors
    /// The node refuses.
    pub fn add_administered_drive(&self, name: &str) -> Result<()> {
        let directory = self.directory.join(name);
        self.command(&format!(
            "drive add {name} --emulated cm7-r-7.68 --scale 0.0001 --directory {}",
            directory.display()
        ))?;
        self.command(&format!("drive grant {name} guest"))?;
        Ok(())
    }

    /// NQN of a drive as its administrators see it.
    #[must_use]
    pub fn drive(&self, name: &str) -> String {
        format!("nqn.2026-11.example.flashyard:vm:drive:{name}")
    }

    /// Runs a verb of the command line against the node and returns what it printed.
    ///
    /// # Errors
    /// The node refuses, or does not run.
    pub fn command(&self, words: &str) -> Result<String> {
        self.answer(Command::new(&self.program).args(words.split_whitespace()))
    }

    /// Runs a client of the node, and returns what it printed.
    ///
    /// # Errors
    /// It fails, or the node does not run.
    pub fn answer(&self, client: &mut Command) -> Result<String> {
        output_of(self.tell(client)?)
    }

    /// Has a client know where the node is and which token it takes.
    ///
    /// # Errors
    /// The node does not run.
    pub fn tell<'a>(&self, client: &'a mut Command) -> Result<&'a mut Command> {
        let api = self.endpoints()?;
        let api = api["api"].as_str().context("endpoints.json names no API")?;
        let token = self.directory.join("state/admin.token");
        client.env("FLASHYARD_NODE", api);
        Ok(client.env("FLASHYARD_TOKEN_FILE", token))
    }

    /// Ends the node as a crash would, with SIGKILL.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the node does not run")?;
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Ends the node as its service does, with SIGTERM.
    ///
    /// # Errors
    /// It does not run, or does not end well.
    pub fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the node does not run")?;
        output_of(Command::new("kill").arg(process.id().to_string()))?;
        let status = process.wait()?;
        ensure!(status.success(), "the node ended with {status}");
        Ok(())
    }

    /// Starts the node again, on the same settings, state and drives.
    ///
    /// # Errors
    /// It does not serve in time.
    pub fn restart(&mut self) -> Result<()> {
        let log = File::options().append(true).open(&self.log)?;
        // `setpriv` ends the node with the thread that started it, however that thread ends.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&self.program)
            .args(["serve", "--config"])
            .arg(self.settings())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the node")?;
        let wanted = process.id();
        self.process = Some(process);
        let started = Instant::now();
        while started.elapsed() < START_TIMEOUT {
            // The file of a killed node stays until the new one has written its own.
            if self
                .endpoints()
                .is_ok_and(|endpoints| endpoints["pid"] == wanted)
            {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        bail!("the node does not serve within {START_TIMEOUT:?}");
    }

    /// Starts the node again, with ports that want TLS.
    ///
    /// # Errors
    /// It does not run, or does not serve in time.
    pub fn want_tls(&mut self) -> Result<()> {
        self.kill()?;
        self.write_settings(true)?;
        self.restart()
    }

    fn settings(&self) -> PathBuf {
        self.directory.join("flashyard.toml")
    }

    /// Listens on loopback; discovery tells the guest where it finds that.
    fn write_settings(&self, tls: bool) -> Result<()> {
        let state = self.directory.join("state");
        let ([four, six], name) = (self.ports, &self.name);
        let settings = format!(
            r#"state_directory = "{}"
[node]
name = "{name}"
[[nvme.ports]]
listen = "127.0.0.1:{four}"
advertise = "10.0.2.2:{four}"
tls = {tls}
[[nvme.ports]]
listen = "[::1]:{six}"
advertise = "[fec0::2]:{six}"
tls = {tls}
[api]
listen = "127.0.0.1:0"
protocol = "http"
"#,
            state.display()
        );
        fs::write(self.settings(), settings)?;
        Ok(())
    }

    fn endpoints(&self) -> Result<Value> {
        let text = fs::read(self.directory.join("state/endpoints.json"))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It fails only when a scenario has ended the node already.
        let _ = self.kill();
        // What stays behind is removed before the next run.
        let _ = remove(&self.directory);
        if thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            println!("--- log of the node ({})\n{log}", self.log.display());
        }
    }
}

fn remove(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    Ok(())
}

/// Two ports that nobody listens on now. Discovery has to name them, so they are chosen up front.
fn free_ports() -> Result<[u16; 2]> {
    let port = |address: IpAddr| free_port(&[address]);
    Ok([
        port(Ipv4Addr::LOCALHOST.into())?,
        port(Ipv6Addr::LOCALHOST.into())?,
    ])
}

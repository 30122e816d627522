//! `flashyard serve`: the storage node.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use api::{PoolLevel, PortTransport, Size, SizeError, host_and_port};
use clap::Args;
use server::config::{Address, Config, ConfigError, DEFAULT_CONFIG, LogFormat, LogLevel};
use server::config::{PortConfig, Protocol, Spanned};
use server::daemon::{self, Started};
use server::develop::Develop;
use server::logging;
use server::rehearsal::rehearse;
use server::tokens::{ADMIN_TOKEN_FILE, read_admin_token};

use crate::copies::replicate;
use crate::drive::Emulation;
use crate::{exit, login, output};

/// From so many drives on the first start with --dev makes a raid6 pool.
const RAID6_DRIVES_MIN: u16 = 4;

/// A level, or none.
#[derive(Clone, Copy)]
struct DevLevel(Option<PoolLevel>);

fn dev_level(text: &str) -> Result<DevLevel, String> {
    match text {
        "none" => Ok(DevLevel(None)),
        level => level.parse().map(|level| DevLevel(Some(level))),
    }
}

/// Where to listen, and how hosts come there: an address alone is one of TCP.
#[derive(Clone, Copy)]
struct Listen {
    transport: PortTransport,
    address: Address,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let (transport, address) = match text.split_once("://") {
            Some((transport, address)) => (transport.parse()?, address),
            None => (PortTransport::Tcp, text),
        };
        let address = address.parse()?;
        Ok(Listen { transport, address })
    }
}

/// What the documented default settings have nothing to do with.
const SETTINGS: [&str; 13] = [
    "config",
    "dev",
    "drives",
    "level",
    "drive_size",
    "profile",
    "listen",
    "mdns",
    "api_listen",
    "cores",
    "log_level",
    "log_format",
    "check_config",
];

/// Sizes that a file can have, and a drive has a use for.
const DRIVE_SIZES: RangeInclusive<Size> = Size(1 << 20)..=Size(1 << 60);

fn drive_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    match DRIVE_SIZES.contains(&size) {
        true => Ok(size),
        false => Err("allowed: 1MiB to 1024PiB".to_owned()),
    }
}

#[derive(Args)]
pub struct Serve {
    /// Settings file; without one every setting has its default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Develop: keep everything in DIR; the first start makes drives there, a pool of them, and a
    /// volume `demo` that every host may connect to
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    dev: Option<PathBuf>,
    /// How many drives the first start with --dev makes; 0 makes neither drives nor a volume
    #[arg(long, value_name = "COUNT", default_value_t = 6, requires = "dev",
        value_parser = clap::value_parser!(u16).range(..=64))]
    drives: u16,
    /// Redundancy of the pool that they make up, or `none` for single drives; raid6 from four
    /// drives on
    #[arg(long, value_name = "LEVEL", requires = "dev", value_parser = dev_level)]
    level: Option<DevLevel>,
    /// Size of each of them; space is used as data is written
    #[arg(long, value_name = "SIZE", default_value = "1GiB", requires = "dev",
        value_parser = drive_size)]
    drive_size: Size,
    /// Make them models of this drive, scaled in capacity, instead of files of that size: a
    /// profile's name, see `flashyard ssd profiles`
    #[arg(long, value_name = "PROFILE", requires = "dev")]
    profile: Option<String>,
    #[command(flatten)]
    emulation: Emulation,
    /// Serve NVMe/TCP here, instead of where the settings say, or NVMe/RDMA at rdma://ADDRESS:PORT;
    /// may be repeated, port 0 is any
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<Listen>,
    /// Hosts connect to what --listen names under TLS, or not at all
    #[arg(long, requires = "listen")]
    tls: bool,
    /// Announce by multicast DNS where NVMe is served, as with `mdns = true` in the settings
    #[arg(long)]
    mdns: bool,
    /// Serve the REST API here, instead of where the settings say; port 0 is any
    #[arg(long, value_name = "ADDRESS:PORT")]
    api_listen: Option<Address>,
    /// CPUs that run the data path, such as 0,1, instead of those in the settings
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    cores: Vec<u16>,
    /// Least severe log line, instead of the one in the settings
    #[arg(long, value_name = "LEVEL", value_parser = server::config::log_level)]
    log_level: Option<LogLevel>,
    /// How log lines look, instead of as the settings say
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Check the settings, say what is wrong with them, and end
    #[arg(long)]
    check_config: bool,
    /// Print the documented default settings, and end
    #[arg(long, conflicts_with_all = SETTINGS)]
    print_default_config: bool,
}

impl Serve {
    pub fn run(self) -> ExitCode {
        if self.print_default_config {
            output::put(DEFAULT_CONFIG.as_bytes());
            return exit::done();
        }
        let config = match self.settings() {
            Ok(config) => config,
            Err(error) => return exit::usage(&error),
        };
        if self.check_config {
            if let Err(error) = rehearse(&config) {
                return exit::usage(&error);
            }
            if let Err(error) = self.check_model() {
                return exit::usage(&format!("--profile and --scale: {error}"));
            }
            output::print("the settings are correct");
            return exit::done();
        }
        let log = logging::start(&config.log);
        let emulation = self.emulation;
        let emulated = self.profile.map(|profile| emulation.spec(&profile, None));
        let level = match self.level {
            Some(DevLevel(level)) => level,
            None => (self.drives >= RAID6_DRIVES_MIN).then_some(PoolLevel::Raid6),
        };
        let develop = self.dev.map(|directory| Develop {
            level,
            directory,
            drives: self.drives,
            drive_size: self.drive_size,
            emulated,
        });
        let state = config.state_directory.clone();
        let developing = develop.is_some();
        let announce = |started: &Started| announce(started, &state, developing);
        match daemon::run(&config, log, develop.as_ref(), replicate, announce) {
            Ok(()) => exit::done(),
            Err(error) => exit::failed(&error),
        }
    }

    /// Whether the drives that a first start makes can be such models.
    fn check_model(&self) -> Result<(), crate::ssd::Error> {
        if let Some(profile) = &self.profile {
            crate::ssd::profile(profile)?.geometry(self.emulation.scale())?;
        }
        Ok(())
    }

    /// The settings file's settings under those of the command line.
    fn settings(&self) -> Result<Config, ConfigError> {
        let mut config = match &self.config {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        if let Some(directory) = &self.dev {
            config.state_directory.clone_from(directory);
            if self.config.is_none() {
                // Its drives are files: what is not there will not come.
                config.pools.drive_wait_seconds = 0;
            }
        }
        if !self.listen.is_empty() {
            let port = |listen: &Listen| PortConfig {
                listen: listen.address,
                advertise: None,
                tls: self.tls,
                transport: listen.transport,
            };
            config.nvme.ports = self.listen.iter().map(port).collect();
        }
        config.nvme.mdns |= self.mdns;
        if let Some(address) = self.api_listen {
            config.api.listen = Spanned::new(0..0, address);
        }
        if self.dev.is_some() && config.api.listen.get_ref().0.ip().is_loopback() {
            config.api.protocol = Protocol::Http;
        }
        if !self.cores.is_empty() {
            config.node.cores.clone_from(&self.cores);
        }
        config.log.level = self.log_level.unwrap_or(config.log.level);
        config.log.format = self.log_format.unwrap_or(config.log.format);
        config.checked()
    }
}

/// Says what is served, how a Linux host connects to it, and how commands reach it. Standard output
/// has the time that it takes, and nothing else waits for it.
fn announce(started: &Started, state: &Path, developing: bool) {
    let mut said = served(started);
    said.push_str(&how_to_manage(started, state, developing));
    let saying = std::thread::Builder::new().name("announcement".to_owned());
    let said = saying.spawn(move || {
        if let Err(error) = output::write(said.as_bytes()) {
            tell(&format!(
                "what is served cannot be announced: standard output: {error}"
            ));
        }
    });
    if let Err(error) = said {
        tell(&format!("what is served cannot be announced: {error}"));
    }
}

fn tell(problem: &str) {
    output::tell(&format_args!("flashyard: {problem}"));
}

fn served(started: &Started) -> String {
    let rest = started.api.iter().map(|url| format!("REST API   {url}"));
    let mut lines: Vec<String> = rest.collect();
    if let Some(problem) = &started.api_problem {
        lines.push(format!("           not yet: {problem}; it is tried again"));
    }
    if let Some(fingerprint) = &started.endpoints.certificate {
        lines.push(format!(
            "           its certificate's SHA-256 fingerprint: {fingerprint}"
        ));
    }
    for port in &started.nvme {
        let transport = port.transport.word().to_uppercase();
        lines.push(format!(
            "{:<10} {}",
            format!("NVMe/{transport}"),
            port.address
        ));
    }
    for volume in &started.volumes {
        let size = Size(volume.capacity_bytes);
        lines.push(format!(
            "volume     {} ({size}), {}",
            volume.name, volume.nqn
        ));
    }
    if let Some(port) = started.nvme.first() {
        let transport = port.transport.word();
        let (ip, port) = host_and_port(&port.address);
        let module = format!("`modprobe nvme-{transport}`");
        lines.push(format!("\nConnect a Linux host (as root, after {module}):"));
        lines.push(format!(
            "  nvme discover    -t {transport} -a {ip} -s {port}"
        ));
        lines.push(format!(
            "  nvme connect-all -t {transport} -a {ip} -s {port}"
        ));
    }
    lines.join("\n") + "\n"
}

/// How commands reach this node; a development node they just do.
fn how_to_manage(started: &Started, state: &Path, developing: bool) -> String {
    let api = &started.endpoints.api;
    let token_file = state.join(ADMIN_TOKEN_FILE);
    // Another program at the API's address must not get the token.
    let listens = started.api_problem.is_none();
    if developing && listens && started.endpoints.certificate.is_none() {
        let kept = read_admin_token(state)
            .map_err(|error| format!("{}: {error}", token_file.display()))
            .and_then(|token| login::keep(api, token));
        match kept {
            Ok(()) if api == client::DEFAULT_NODE => return String::new(),
            Ok(()) => return format!("Manage it: flashyard --node {api} status\n"),
            Err(problem) => tell(&format!("no login is kept: {problem}")),
        }
    }
    let token_file = token_file.display();
    format!("Manage it: flashyard login {api} --token-file {token_file}\n")
}

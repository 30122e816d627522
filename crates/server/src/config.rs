//! [`Config`]: the settings file, and what is wrong with it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

pub use api::LogLevel;
use api::{Name, PortTransport, SHUTDOWN_SECONDS_MAX};
use node::ControllerIds;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;
pub use toml::Spanned;

use crate::state::{State, StateError, StateKeys};

/// The documented sample: every setting with its default.
pub const DEFAULT_CONFIG: &str = include_str!("../../../deploy/flashyard.toml");

/// A node's settings. Drives, volumes and hosts are not in it: they come through the API and live
/// in the state directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the node keeps what it must remember.
    pub state_directory: PathBuf,
    /// The key that it is encrypted with; none: it is not.
    #[serde(deserialize_with = "empty_is_no_path")]
    pub state_key_file: Option<PathBuf>,
    /// The key that it was encrypted with before.
    #[serde(deserialize_with = "empty_is_no_path")]
    pub state_key_file_previous: Option<PathBuf>,
    /// The node itself.
    pub node: NodeConfig,
    /// The NVMe/TCP side.
    pub nvme: NvmeConfig,
    /// The REST side.
    pub api: ApiConfig,
    /// Pools at the start.
    pub pools: PoolsConfig,
    /// Logging.
    pub log: LogConfig,
    /// Stopping.
    pub shutdown: ShutdownConfig,
}

impl Config {
    /// Opens the state.
    pub(crate) fn open_state(&self) -> Result<State, StateError> {
        State::open_with(&self.state_directory, self.state_keys()?)
    }

    /// Reads the keys of the state.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub fn state_keys(&self) -> Result<StateKeys, StateError> {
        let (current, previous) = (&self.state_key_file, &self.state_key_file_previous);
        StateKeys::read(current.as_deref(), previous.as_deref())
    }
}

/// `[node]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeConfig {
    /// The node's name; none: the machine's host name at the first start.
    #[serde(deserialize_with = "empty_is_none")]
    pub name: Option<Name>,
    /// CPUs that run the data path; empty: one event loop, placed by the kernel.
    pub cores: Vec<u16>,
}

/// `[nvme]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NvmeConfig {
    /// `[[nvme.ports]]`: addresses that serve NVMe/TCP or NVMe/RDMA.
    pub ports: Vec<PortConfig>,
    /// Identifiers of hosts' controllers, first and last.
    #[serde(deserialize_with = "controller_ids")]
    pub controller_ids: ControllerIds,
    /// Hosts are told of the ports by multicast DNS.
    pub mdns: bool,
}

/// One of `[[nvme.ports]]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortConfig {
    /// Where to listen.
    pub listen: Address,
    /// What discovery tells hosts to connect to, if not the address they asked at.
    #[serde(default, deserialize_with = "empty_is_none")]
    pub advertise: Option<Address>,
    /// Hosts connect under TLS, or not at all.
    #[serde(default)]
    pub tls: bool,
    /// How hosts come.
    #[serde(default)]
    pub transport: PortTransport,
}

/// `[api]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiConfig {
    /// Where the REST API listens.
    pub listen: Spanned<Address>,
    /// How it is spoken.
    pub protocol: Protocol,
    /// A certificate chain and its key, in PEM; none: one of the node's own making.
    #[serde(deserialize_with = "empty_is_no_path")]
    pub certificate: Option<PathBuf>,
    /// The key.
    #[serde(deserialize_with = "empty_is_no_path")]
    pub certificate_key: Option<PathBuf>,
}

/// How the REST API is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// With TLS 1.3.
    #[default]
    Https,
    /// In the clear, which stays on this machine.
    Http,
}

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl ApiConfig {
    /// The certificate that was given, if one was.
    pub fn certificate_files(&self) -> Option<CertificateFiles> {
        let (certificate, key) = (self.certificate.clone()?, self.certificate_key.clone()?);
        Some(CertificateFiles { certificate, key })
    }
}

/// `[pools]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolsConfig {
    /// How long a pool waits, at the start, for drives of it that are not there.
    #[serde(deserialize_with = "drive_wait_seconds")]
    pub drive_wait_seconds: u32,
    /// Memory of each pool for its map, in MiB.
    #[serde(deserialize_with = "map_cache_mib")]
    pub map_cache_mib: u32,
}

/// `[log]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The least severe line that is written.
    pub level: LogLevel,
    /// How a line looks.
    pub format: LogFormat,
}

/// `[shutdown]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShutdownConfig {
    /// How long a clean stop waits for I/O in flight.
    #[serde(deserialize_with = "shutdown_seconds")]
    pub timeout_seconds: u32,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Reads a [`LogLevel`] as the settings file has it.
pub fn log_level(text: &str) -> Result<LogLevel, String> {
    word(text)
}

impl std::str::FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFormat, String> {
        word(text)
    }
}

/// A setting's word on the command line, by the rules of the file.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    T::deserialize(toml::Value::from(text)).map_err(|error| error.message().to_owned())
}

/// A numeric address and a port: `192.0.2.1:4420`, `[2001:db8::1]:4420` or, with an interface,
/// `[fe80::1%eth0]:4420`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        node::parse_address(text).map(Address).ok_or_else(|| {
            format!(
                "address {text:?}; allowed: a numeric address and a port, such as \
                 \"192.0.2.1:4420\" or \"[2001:db8::1]:4420\", and for a link's address \
                 \"[fe80::1%eth0]:4420\""
            )
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&node::display_address(&self.0))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

fn empty_is_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: fmt::Display>,
{
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        Ok(None)
    } else {
        text.parse().map(Some).map_err(D::Error::custom)
    }
}

fn empty_is_no_path<'de, D>(deserializer: D) -> Result<Option<PathBuf>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    Ok(Some(text)
        .filter(|text| !text.is_empty())
        .map(PathBuf::from))
}

/// How long a clean stop may wait for I/O in flight.
pub(crate) const SHUTDOWN_SECONDS: RangeInclusive<u32> = 1..=SHUTDOWN_SECONDS_MAX;

/// How long a pool may wait for drives.
const DRIVE_WAIT_SECONDS: RangeInclusive<u32> = 0..=3600;

fn shutdown_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let seconds = i64::deserialize(deserializer)?;
    seconds_within(seconds, SHUTDOWN_SECONDS).map_err(D::Error::custom)
}

fn drive_wait_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let seconds = i64::deserialize(deserializer)?;
    seconds_within(seconds, DRIVE_WAIT_SECONDS).map_err(D::Error::custom)
}

/// Memory of a pool for its map, in MiB: up to the whole map of 230 TiB.
const MAP_CACHE_MIB: RangeInclusive<u32> = 1..=1 << 20;

fn map_cache_mib<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let mib = i64::deserialize(deserializer)?;
    let within = u32::try_from(mib)
        .ok()
        .filter(|mib| MAP_CACHE_MIB.contains(mib));
    within.ok_or_else(|| {
        let (first, last) = MAP_CACHE_MIB.into_inner();
        D::Error::custom(format!("{mib} MiB; allowed: {first} to {last}"))
    })
}

fn controller_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ControllerIds, D::Error> {
    let [first, last] = <[i64; 2]>::deserialize(deserializer)?;
    let ends = u16::try_from(first).ok().zip(u16::try_from(last).ok());
    let ids = ends.and_then(|(first, last)| ControllerIds::new(first, last));
    ids.ok_or_else(|| {
        D::Error::custom(format!(
            "identifiers {first} to {last}; allowed: 1 to 65519, the lower first"
        ))
    })
}

/// Hosts' controllers that each core of a node can have at least.
const CONTROLLERS_OF_CORE_MIN: usize = 64;

/// The time, or why it is none to wait for.
pub(crate) fn seconds_within(seconds: i64, allowed: RangeInclusive<u32>) -> Result<u32, String> {
    let within = u32::try_from(seconds).ok();
    within.filter(|it| allowed.contains(it)).ok_or_else(|| {
        let (first, last) = allowed.into_inner();
        format!("{seconds} seconds; allowed: {first} to {last}")
    })
}

impl Default for Config {
    fn default() -> Config {
        Config {
            state_directory: "/var/lib/flashyard".into(),
            state_key_file: None,
            state_key_file_previous: None,
            node: NodeConfig::default(),
            nvme: NvmeConfig::default(),
            api: ApiConfig::default(),
            pools: PoolsConfig::default(),
            log: LogConfig::default(),
            shutdown: ShutdownConfig::default(),
        }
    }
}

impl Default for NvmeConfig {
    fn default() -> NvmeConfig {
        let listen = Address(([127, 0, 0, 1], 4420).into());
        NvmeConfig {
            ports: vec![PortConfig {
                listen,
                advertise: None,
                tls: false,
                transport: PortTransport::Tcp,
            }],
            controller_ids: ControllerIds::ALL,
            mdns: false,
        }
    }
}

impl Default for ApiConfig {
    fn default() -> ApiConfig {
        ApiConfig {
            listen: Spanned::new(0..0, Address(([127, 0, 0, 1], 4400).into())),
            protocol: Protocol::default(),
            certificate: None,
            certificate_key: None,
        }
    }
}

impl Default for PoolsConfig {
    fn default() -> PoolsConfig {
        PoolsConfig {
            drive_wait_seconds: 30,
            map_cache_mib: (node::MAP_CACHE_BYTES >> 20) as u32,
        }
    }
}

impl Default for ShutdownConfig {
    fn default() -> ShutdownConfig {
        ShutdownConfig {
            timeout_seconds: 10,
        }
    }
}

/// Why settings cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("settings file {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is wrong; the message has line, column, key and what is allowed.
    #[error("settings file {path}, {message}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where, what was found and what is allowed.
        message: String,
    },
    /// Settings that contradict each other or the machine.
    #[error("{0}")]
    Refused(String),
}

impl Config {
    /// Reads and checks a settings file.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Config::parse(&text).map_err(|message| ConfigError::Parse {
            path: path.to_owned(),
            message,
        })
    }

    /// Reads and checks settings.
    ///
    /// # Errors
    /// A message that starts with the line and names the key and what is allowed.
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| describe(&error, text))?;
        config.check().map_err(|(at, problem)| match at {
            Some(offset) => format!("line {}: {problem}", line_of(text, offset)),
            None => problem,
        })?;
        Ok(config)
    }

    /// Checks settings that did not come from a file, such as command line options.
    pub fn checked(self) -> Result<Config, ConfigError> {
        match self.check() {
            Ok(()) => Ok(self),
            Err((_, problem)) => Err(ConfigError::Refused(problem)),
        }
    }

    /// What several settings say together; an error may carry its offset in the file.
    fn check(&self) -> Result<(), (Option<usize>, String)> {
        let directory = self.state_directory.to_string_lossy();
        if directory.is_empty() {
            let problem = "state_directory is empty; allowed: the path of a directory";
            return Err((None, problem.to_owned()));
        }
        if directory.contains(char::is_control) {
            let problem =
                format!("state_directory {directory:?} has control characters; allowed: none");
            return Err((None, problem));
        }
        let api_listen = self.api.listen.get_ref().0;
        if !api_listen.ip().is_loopback() && self.api.protocol == Protocol::Http {
            let problem = format!(
                "api.listen is {api_listen}, where api.protocol = \"http\" would show tokens to \
                 the network; allowed: \"https\", or a loopback address such as \"127.0.0.1:4400\""
            );
            return Err((Some(self.api.listen.span().start), problem));
        }
        if self.api.certificate.is_some() != self.api.certificate_key.is_some() {
            let problem = "api.certificate and api.certificate_key go together; allowed: both, or \
                           neither for a certificate of the node's own making";
            return Err((None, problem.to_owned()));
        }
        if self.nvme.ports.is_empty() {
            let problem = "nvme.ports is empty; allowed: one or more [[nvme.ports]]";
            return Err((None, problem.to_owned()));
        }
        self.check_addresses().map_err(|problem| (None, problem))?;
        let duplicate = first_duplicate(&self.node.cores);
        if let Some(core) = duplicate {
            let problem = format!("node.cores names CPU {core} twice; allowed: each CPU once");
            return Err((None, problem));
        }
        let ids = usize::from(self.nvme.controller_ids.count());
        let least = self.node.cores.len().max(1) * CONTROLLERS_OF_CORE_MIN;
        if ids < least {
            let problem = format!(
                "nvme.controller_ids has {ids} identifiers; allowed: {least} or more, \
                 {CONTROLLERS_OF_CORE_MIN} for each of node.cores"
            );
            return Err((None, problem));
        }
        Ok(())
    }

    /// Every address is listened at once, and what hosts are told can be connected to.
    fn check_addresses(&self) -> Result<(), String> {
        let over = |transport| {
            let ports = self.nvme.ports.iter();
            let ports = ports.filter(move |port| port.transport == transport);
            ports.map(|port| ("nvme.ports.listen", port.listen.0))
        };
        let api = ("api.listen", self.api.listen.get_ref().0);
        // Ports of TCP and of RDMA are numbered apart.
        check_apart(&over(PortTransport::Tcp).chain([api]).collect::<Vec<_>>())?;
        check_apart(&over(PortTransport::Rdma).collect::<Vec<_>>())?;
        let mut ports = self.nvme.ports.iter();
        if let Some(port) = ports.find(|port| port.tls && port.transport == PortTransport::Rdma) {
            return Err(format!(
                "nvme.ports.transport \"rdma\" of {} is with tls = true; allowed: one of the two",
                port.listen
            ));
        }
        let advertised = self.nvme.ports.iter().filter_map(|port| port.advertise);
        let mut advertised = advertised.map(|address| address.0);
        match advertised.find(|to| to.ip().is_unspecified() || to.port() == 0) {
            None => Ok(()),
            Some(address) => Err(format!(
                "nvme.ports.advertise {address} is nothing to connect to; allowed: an address and \
                 a port of this node, as hosts reach them"
            )),
        }
    }
}

/// No two of these are the same.
fn check_apart(all: &[(&str, SocketAddr)]) -> Result<(), String> {
    for (index, (setting, address)) in all.iter().enumerate() {
        let mut before = all.iter().take(index);
        if let Some((other, taken)) = before.find(|(_, taken)| meet(*taken, *address)) {
            return Err(format!(
                "{setting} {address} is what {other} {taken} has; allowed: another port"
            ));
        }
    }
    Ok(())
}

/// Whether listening at one address leaves nothing of the other. Port 0 is always another one.
fn meet(left: SocketAddr, right: SocketAddr) -> bool {
    let same = |left: IpAddr, right: IpAddr| {
        left == right || left.is_unspecified() || right.is_unspecified()
    };
    left.port() != 0
        && left.port() == right.port()
        && left.is_ipv4() == right.is_ipv4()
        && same(left.ip(), right.ip())
}

fn first_duplicate(cores: &[u16]) -> Option<u16> {
    let mut seen = std::collections::BTreeSet::new();
    cores.iter().copied().find(|core| !seen.insert(*core))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}

/// `line 3: unknown field ...`, with the line itself, which shows the key.
fn describe(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    let Some(span) = error.span() else {
        return message.to_owned();
    };
    let number = line_of(text, span.start);
    let line = text.lines().nth(number - 1).unwrap_or_default().trim();
    format!("line {number}: {message}, in `{line}`")
}

#[cfg(test)]
mod tests;

//! `endpoints.json`: where a running node is reached, for programs that started it on port 0.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use files::Access;
use serde::{Deserialize, Serialize};

/// The file's name in the state directory.
pub const FILE_NAME: &str = "endpoints.json";

/// Where a running node is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// The REST API, as a client on this machine takes it.
    pub api: String,
    /// SHA-256 of its certificate, for `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// NVMe/TCP addresses and ports, as programs on this machine connect to them.
    pub nvme: Vec<SocketAddr>,
    /// The node's process.
    pub pid: u32,
}

/// Where a program on this machine connects to what listens at `bound`, which may be everywhere.
pub fn from_here(bound: SocketAddr) -> SocketAddr {
    let loopback: IpAddr = match bound {
        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    match bound.ip().is_unspecified() {
        true => SocketAddr::new(loopback, bound.port()),
        false => bound,
    }
}

impl Endpoints {
    /// Those of this process, whose REST API, spoken to as `scheme` says, listens at `api`.
    pub fn here(
        scheme: &str,
        api: SocketAddr,
        certificate: Option<String>,
        nvme: &[SocketAddr],
    ) -> Endpoints {
        Endpoints {
            api: format!("{scheme}://{}", from_here(api)),
            certificate,
            nvme: nvme.iter().copied().map(from_here).collect(),
            pid: std::process::id(),
        }
    }

    /// Writes the file whole: a reader sees the old one, this one, or none.
    pub fn write(&self, state_directory: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        files::replace(&state_directory.join(FILE_NAME), &text, Access::Owner)
    }

    /// Reads what a node wrote under `state_directory`.
    pub fn read(state_directory: &Path) -> io::Result<Endpoints> {
        let text = std::fs::read(state_directory.join(FILE_NAME))?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Removes the file; a missing one is as good.
    pub fn remove(state_directory: &Path) {
        // Only a note for other programs: a stale one is replaced by the next start.
        let _ = std::fs::remove_file(state_directory.join(FILE_NAME));
    }
}

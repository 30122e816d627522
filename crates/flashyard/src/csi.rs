//! `flashyard csi`: the driver for Kubernetes and other orchestrators.

use std::path::PathBuf;
use std::process::ExitCode;

use access::Nqn;
use clap::{Args, ValueEnum};
use client::{Client, ClientError, Login};
use csi::{ControllerSettings, Endpoint, NodeSettings, Services};
use server::config::{LogConfig, LogFormat};
use server::logging;

use crate::attach::{self, Directory};
use crate::connection::{Connection, ended};
use crate::{exit, secret};

/// Fewer characters than this are no secret that others follow from.
const HOST_SECRET_CHARS_MIN: usize = 32;

/// Serve volumes to Kubernetes, or another orchestrator, by the Container Storage Interface.
#[derive(Args)]
pub struct Csi {
    /// The socket to serve on, unix:///PATH
    #[arg(long, value_name = "URL")]
    endpoint: Endpoint,
    /// What of the driver runs here
    #[arg(long, value_enum, default_value_t = Mode::All)]
    mode: Mode,
    /// Make volumes on the nodes whose logins are in DIR, one .json file each as `flashyard login`
    /// keeps them, instead of on the one node that other commands speak to
    #[arg(long, value_name = "DIR")]
    nodes: Option<PathBuf>,
    /// Have hosts prove DH-HMAC-CHAP secrets, each one's own, which follow from the secret of 32
    /// characters or more in this file; keep the file for good
    #[arg(long, value_name = "FILE", value_parser = host_secret)]
    host_secret_file: Option<api::SecretText>,
    /// This host's name, instead of the one in /etc/nvme/hostnqn
    #[arg(long, value_name = "NQN")]
    host_nqn: Option<String>,
    #[command(flatten)]
    directory: Directory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Volumes and snapshots: once in a cluster
    Controller,
    /// Block devices and mounts: on every host
    Node,
    /// Both, in one process
    All,
}

fn host_secret(path: &str) -> Result<api::SecretText, String> {
    let text = secret::read_secret(path)?;
    match text.reveal().chars().count() {
        HOST_SECRET_CHARS_MIN.. => Ok(text),
        few => Err(format!(
            "a secret of {few} characters; allowed: {HOST_SECRET_CHARS_MIN} or more"
        )),
    }
}

impl Csi {
    pub fn run(self, connection: &Connection) -> ExitCode {
        let (controller, node) = match self.mode {
            Mode::Controller => (true, false),
            Mode::Node => (false, true),
            Mode::All => (true, true),
        };
        logging::start(&LogConfig {
            format: LogFormat::Text,
            ..LogConfig::default()
        });
        let nodes = match controller.then(|| self.clients(connection)) {
            None => None,
            Some(Ok(nodes)) if nodes.is_empty() => {
                return exit::usage(&"--nodes names a directory without logins (*.json)");
            }
            Some(Ok(nodes)) => Some(nodes),
            Some(Err(error)) => return ended(Err(error)),
        };
        let node = match node.then(|| self.node()) {
            None => None,
            Some(Ok(node)) => Some(node),
            Some(Err(error)) => return exit::usage(&error),
        };
        let services = Services {
            controller: nodes.map(|nodes| ControllerSettings {
                nodes,
                host_secret: self.host_secret_file.clone(),
            }),
            node,
        };
        let served = csi::serve(&self.endpoint, services);
        logging::flush();
        match served {
            Ok(()) => exit::done(),
            Err(error) => exit::failed(&format!("{}: {error}", self.endpoint)),
        }
    }

    /// Clients of the nodes that volumes are made on.
    fn clients(&self, connection: &Connection) -> Result<Vec<Client>, ClientError> {
        let Some(directory) = &self.nodes else {
            return Ok(vec![connection.client()?]);
        };
        let logins = Login::all_in(directory).map_err(|error| ClientError::Address {
            url: directory.display().to_string(),
            reason: error.to_string(),
        })?;
        logins.iter().map(Client::with).collect()
    }

    fn node(&self) -> Result<NodeSettings, String> {
        let nqn = attach::host_nqn(self.host_nqn.as_deref()).map_err(|error| error.to_string())?;
        let parsed: Result<Nqn, _> = nqn.parse();
        Ok(NodeSettings {
            host_nqn: parsed.map_err(|error| format!("host NQN {nqn:?}: {error}"))?,
            // This program, even if its file was replaced since it started.
            program: PathBuf::from("/proc/self/exe"),
            attached: self.directory.directory.clone(),
        })
    }
}

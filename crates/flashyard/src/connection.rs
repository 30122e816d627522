//! Which node a command speaks to, and how it shows the answer.

use std::process::ExitCode;

use clap::Args;
use client::{Client, ClientError, DEFAULT_NODE};

use crate::exit;
use crate::output::Output;

/// What a verb gives back.
pub type Done = Result<(), ClientError>;

#[derive(Args)]
pub struct Connection {
    /// Address of the node's REST API
    #[arg(long, global = true, value_name = "URL", env = "FLASHYARD_NODE",
        hide_env_values = true, default_value = DEFAULT_NODE, help_heading = "Node")]
    node: String,
    /// How answers are shown
    #[arg(
        long,
        short,
        global = true,
        value_enum,
        default_value_t,
        help_heading = "Node"
    )]
    pub output: Output,
}

/// A node to ask, and how to show what it says.
pub struct Node {
    pub client: Client,
    pub output: Output,
}

impl Connection {
    /// Runs a verb against the node; its outcome is the program's exit code.
    pub fn ask(&self, verb: impl FnOnce(&Node) -> Done) -> ExitCode {
        let asked = Client::new(&self.node).and_then(|client| {
            verb(&Node {
                client,
                output: self.output,
            })
        });
        match asked {
            Ok(()) => exit::done(),
            Err(error @ ClientError::Address { .. }) => exit::usage(&error),
            Err(error @ ClientError::Unreachable { .. }) => exit::unreachable(&error),
            Err(ClientError::Refused(body)) => match &body.field {
                Some(field) => exit::failed(&format!("{field}: {body}")),
                None => exit::failed(&body),
            },
        }
    }
}

//! Which node a command speaks to, and how it shows the answer.

use std::path::PathBuf;
use std::process::ExitCode;

use api::ErrorCode;
use clap::Args;
use client::{Client, ClientError};

use crate::output::Output;
use crate::{exit, login};

/// What a verb gives back.
pub type Done = Result<(), ClientError>;

#[derive(Args)]
pub struct Connection {
    /// Address of the node's REST API; without it, the node logged in to last, or that at
    /// http://127.0.0.1:4400
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "FLASHYARD_NODE",
        hide_env_values = true,
        help_heading = "Node"
    )]
    node: Option<String>,
    /// File with the token to send, instead of the one kept at login
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "FLASHYARD_TOKEN_FILE",
        hide_env_values = true,
        help_heading = "Node"
    )]
    token_file: Option<PathBuf>,
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
    /// The client that speaks to the node.
    pub fn client(&self) -> Result<Client, ClientError> {
        let login = login::find(self.node.as_deref(), self.token_file.as_ref());
        login.and_then(|login| Client::with(&login))
    }

    /// Runs a verb against the node; its outcome is the program's exit code.
    pub fn ask(&self, verb: impl FnOnce(&Node) -> Done) -> ExitCode {
        ended(self.client().and_then(|client| {
            verb(&Node {
                client,
                output: self.output,
            })
            .map(|()| exit::done())
        }))
    }
}

/// The exit code of something that was asked of a node.
pub fn ended(asked: Result<ExitCode, ClientError>) -> ExitCode {
    match asked {
        Ok(code) => code,
        Err(error @ ClientError::Address { .. }) => exit::usage(&error),
        Err(error @ ClientError::Unreachable { .. }) => exit::unreachable(&error),
        Err(ClientError::Refused(body)) if body.code == ErrorCode::Unauthenticated => {
            exit::failed(&format!("{body}; `flashyard login` keeps a token"))
        }
        Err(ClientError::Refused(body)) => match &body.field {
            Some(field) => exit::failed(&format!("{field}: {body}")),
            None => exit::failed(&body),
        },
    }
}

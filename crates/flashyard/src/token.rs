//! `flashyard token`

mod reset;

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use api::{Name, Role, SecretText, Token, TokenSpec};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use client::ClientError;

use self::reset::ResetAdmin;
use crate::connection::{Connection, Done, Node};
use crate::output::{properties, table};

#[derive(Subcommand)]
pub enum Verb {
    #[command(flatten)]
    Asked(Asked),
    /// Give the admin's token a new secret, for those who lost theirs and may write to the node's
    /// state directory
    ResetAdmin(ResetAdmin),
}

/// What a node is asked.
#[derive(Subcommand)]
pub enum Asked {
    /// List tokens
    List,
    /// Make a token, and show its secret this once
    Create(Create),
    /// Revoke a token
    Revoke {
        /// The token
        name: Name,
    },
}

#[derive(Args)]
pub struct Create {
    /// Its name, which the audit log shows
    name: Name,
    /// Role: a viewer reads, an operator changes volumes and hosts, an admin does everything
    #[arg(long, value_parser = role())]
    role: Role,
    /// Only for volumes and hosts of this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<Name>,
    /// Lifetime, such as 30d; without this it does not expire
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires_in: Option<Duration>,
}

/// The longest that a token with an end is good: a century.
const LIFETIME_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

fn lifetime(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match time.is_zero() || time > LIFETIME_MAX {
        true => Err("allowed: more than nothing, up to a century, such as 30d".to_owned()),
        false => Ok(time),
    }
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(["viewer", "operator", "admin"]).map(|text| match text.as_str() {
        "viewer" => Role::Viewer,
        "operator" => Role::Operator,
        _ => Role::Admin,
    })
}

impl Verb {
    pub fn run(&self, connection: &Connection) -> ExitCode {
        match self {
            Verb::Asked(verb) => connection.ask(|node| verb.run(node)),
            Verb::ResetAdmin(reset) => reset.run(),
        }
    }
}

impl Asked {
    fn run(&self, node: &Node) -> Done {
        let client = &node.client;
        match self {
            Asked::List => node
                .output
                .show(&client.tokens()?, |tokens| list(&tokens.items)),
            Asked::Create(create) => {
                let make = || client.create_token(&create.name, &create.spec());
                node.output
                    .show_once(make, made, |token| match token.secret {
                        Some(_) => taken_back(client.revoke_token(&create.name), &create.name),
                        None => format!("token {} is as it was", create.name),
                    })?;
            }
            Asked::Revoke { name } => {
                client.revoke_token(name)?;
                node.output.say(&format!("token {name} revoked"));
            }
        }
        Ok(())
    }
}

impl Create {
    fn spec(&self) -> TokenSpec {
        let expires = self.expires_in.map(|good| SystemTime::now() + good);
        TokenSpec {
            role: self.role,
            tenant: self.tenant.clone(),
            expires: expires.map(|time| humantime::format_rfc3339_seconds(time).to_string()),
        }
    }
}

/// What became of a token whose secret could not be shown.
fn taken_back(revoked: Result<(), ClientError>, name: &Name) -> String {
    match revoked {
        Ok(()) => format!("token {name} was revoked again"),
        Err(error) => format!("token {name} was made, and is not revoked: {error}"),
    }
}

/// The word for a role.
pub fn word(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}

fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or("-".into(), |text| text.to_string())
}

fn list(tokens: &[Token]) -> String {
    let row = |token: &Token| {
        vec![
            token.name.to_string(),
            word(token.role).to_owned(),
            or_dash(token.tenant.as_ref()),
            token.created.clone(),
            or_dash(token.expires.as_ref()),
        ]
    };
    let header = ["name", "role", "tenant", "created", "expires"];
    table(&header, tokens.iter().map(row))
}

fn made(token: &Token) -> String {
    let secret = token.secret.as_ref().map(SecretText::reveal);
    properties(&[
        ("token", token.name.to_string()),
        ("role", word(token.role).to_owned()),
        ("tenant", or_dash(token.tenant.as_ref())),
        ("expires", or_dash(token.expires.as_ref())),
        (
            "secret",
            secret.unwrap_or("shown when it was made").to_owned(),
        ),
    ])
}

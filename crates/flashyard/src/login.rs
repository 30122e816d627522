//! `flashyard login`: keep a node's address, token and certificate for the commands that follow.

use std::path::PathBuf;
use std::process::ExitCode;

use api::SecretText;
use clap::Args;
use client::{Client, ClientError, Fingerprint, Login, Logins};

use crate::connection::ended;
use crate::{exit, output, prompt, secret, token};

#[derive(Args)]
pub struct LogIn {
    /// Address of the node's REST API, such as https://node-1:4400
    url: String,
    /// Read the token from this file, such as the node's admin.token, instead of asking for it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// SHA-256 of the node's certificate, as the node prints it at its start, instead of asking
    /// whether the one that it shows is right
    #[arg(long, value_name = "DIGITS")]
    fingerprint: Option<Fingerprint>,
}

impl LogIn {
    pub fn run(&self) -> ExitCode {
        let Some(logins) = Logins::of_user() else {
            return exit::usage(&"neither XDG_CONFIG_HOME nor HOME says where to keep the login");
        };
        let url = self.url.trim_end_matches('/').to_owned();
        let certificate = match self.certificate(&url) {
            Ok(certificate) => certificate,
            Err(code) => return code,
        };
        let token = match self.token() {
            Ok(token) => Some(token),
            Err(error) => return exit::usage(&format!("the token cannot be read: {error}")),
        };
        let login = Login {
            url,
            token,
            certificate,
        };
        ended(
            Client::with(&login)
                .and_then(|client| client.myself())
                .map(|caller| {
                    match logins
                        .keep(&login)
                        .and_then(|path| logins.make_current(&login.url).map(|()| path))
                    {
                        Ok(path) => {
                            let (name, role) = (caller.name, token::word(caller.role));
                            let (url, path) = (&login.url, path.display());
                            let said = format!("logged in to {url} as {name}, {role}");
                            output::print(&format!("{said}\nkept in {path}"));
                            exit::done()
                        }
                        Err(error) => exit::failed(&format!("the login cannot be kept: {error}")),
                    }
                }),
        )
    }

    /// The certificate that the node has to have, which somebody vouches for.
    fn certificate(&self, url: &str) -> Result<Option<Fingerprint>, ExitCode> {
        if !url.starts_with("https:") {
            return Ok(None);
        }
        if let Some(fingerprint) = self.fingerprint {
            return Ok(Some(fingerprint));
        }
        let shown =
            Client::certificate_of(url).map_err(|error| ended(Err::<ExitCode, _>(error)))?;
        if !prompt::is_possible() {
            let message = format!(
                "the node at {url} shows a certificate with the SHA-256 fingerprint {shown}; \
                 compare it with what the node prints at its start, and give it as --fingerprint"
            );
            return Err(exit::usage(&message));
        }
        let question = format!(
            "The node at {url} shows a certificate with the SHA-256 fingerprint\n  {shown}\n\
             It prints its own at its start. Is it this one? [y/N] "
        );
        match prompt::ask(&question) {
            Ok(answer) if matches!(answer.as_str(), "y" | "yes") => Ok(Some(shown)),
            _ => Err(exit::failed(&"not logged in")),
        }
    }

    fn token(&self) -> Result<SecretText, String> {
        if let Some(path) = &self.token_file {
            let token = secret::in_file(path);
            return token.map_err(|problem| format!("{}: {problem}", path.display()));
        }
        let typed = match prompt::is_possible() {
            true => prompt::ask_hidden("Token: "),
            false => prompt::hidden_line(),
        };
        let typed = typed.map_err(|error| error.to_string())?;
        secret::one_line(typed.reveal()).map(SecretText::from)
    }
}

/// What a development node's user needs to command it: nothing, for its login is kept here.
pub fn keep(url: &str, token: SecretText) -> Result<(), String> {
    let logins = Logins::of_user().ok_or("neither XDG_CONFIG_HOME nor HOME is set")?;
    let login = Login {
        url: url.to_owned(),
        token: Some(token),
        certificate: None,
    };
    logins
        .keep(&login)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Which login commands use: of the node at `url`, or of the last one logged in to.
pub fn find(url: Option<&str>, token_file: Option<&PathBuf>) -> Result<Login, ClientError> {
    let logins = Logins::of_user();
    let current = || logins.as_ref().and_then(Logins::current);
    let url = url.map(str::to_owned).or_else(current);
    let url = url.unwrap_or_else(|| client::DEFAULT_NODE.to_owned());
    let found = logins.as_ref().and_then(|logins| logins.find(&url));
    let mut login = found.unwrap_or(Login {
        url,
        token: None,
        certificate: None,
    });
    if let Some(path) = token_file {
        let token = secret::in_file(path).map_err(|problem| ClientError::Address {
            url: login.url.clone(),
            reason: format!("token file {}: {problem}", path.display()),
        })?;
        login.token = Some(token);
    }
    Ok(login)
}

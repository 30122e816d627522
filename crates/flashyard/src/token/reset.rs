//! `flashyard token reset-admin`: the way back for those who lost the admin's token.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use server::config::Config;
use server::endpoints::Endpoints;
use server::state;
use server::tokens::{ADMIN_TOKEN_FILE, ask_for_admin_reset};

use crate::{exit, output};

/// How long a node that runs may take: it looks every two seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long it may take where none says that it runs.
const PATIENCE_UNTOLD: Duration = Duration::from_secs(5);

/// How often it is looked whether it has.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Args)]
pub struct ResetAdmin {
    /// The node's state directory, as its settings have it [default: /var/lib/flashyard]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl ResetAdmin {
    pub fn run(&self) -> ExitCode {
        let usual = || Config::default().state_directory;
        let directory = self.state.clone().unwrap_or_else(usual);
        let asked = match ask_for_admin_reset(&directory) {
            Ok(asked) => asked,
            Err(error) => return exit::failed(&format!("{}: {error}", directory.display())),
        };
        let token = directory.join(ADMIN_TOKEN_FILE);
        let token = token.display();
        // One that waits for the address of its REST API does not say so, and takes it as well.
        let says_so = is_running(&directory);
        let patience = match says_so {
            true => PATIENCE,
            false if directory.join(state::FILE_NAME).exists() => PATIENCE_UNTOLD,
            false => Duration::ZERO,
        };
        let started = Instant::now();
        while asked.exists() {
            if started.elapsed() > patience && !says_so {
                output::print(&format!(
                    "no node that runs has taken it: the next start puts a new secret into {token}"
                ));
                return exit::done();
            }
            if started.elapsed() > patience {
                let message = "the node has not taken it yet, and does as soon as it can write to";
                return exit::failed(&format!("{message} {}", directory.display()));
            }
            std::thread::sleep(PAUSE);
        }
        output::print(&format!("the admin's token has a new secret, in {token}"));
        exit::done()
    }
}

/// Whether a node has said that it runs, and does.
fn is_running(directory: &Path) -> bool {
    Endpoints::read(directory).is_ok_and(|endpoints| {
        let process = PathBuf::from("/proc").join(endpoints.pid.to_string());
        process.exists()
    })
}

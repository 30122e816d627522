//! `flashyard serve`: the storage node.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use server::config::{Config, DEFAULT_CONFIG};

use crate::exit;

#[derive(Args)]
pub struct Serve {
    /// Settings file
    #[arg(long, value_name = "FILE", requires = "check_config")]
    config: Option<PathBuf>,
    /// Check the settings, say what is wrong with them, and end
    #[arg(
        long,
        requires = "config",
        required_unless_present = "print_default_config"
    )]
    check_config: bool,
    /// Print the documented default settings, and end
    #[arg(long, exclusive = true)]
    print_default_config: bool,
}

impl Serve {
    pub fn run(self) -> ExitCode {
        if self.print_default_config {
            print!("{DEFAULT_CONFIG}");
        }
        let Some(path) = self.config else {
            return exit::done();
        };
        match Config::load(&path) {
            Ok(_) => {
                println!("{}: correct", path.display());
                exit::done()
            }
            Err(error) => exit::usage(&error),
        }
    }
}

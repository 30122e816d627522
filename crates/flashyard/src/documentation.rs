//! `flashyard completion` and `flashyard manual`: what shells and readers want of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::{exit, output};

#[derive(Args)]
pub struct Completion {
    /// The shell; bash looks in ~/.local/share/bash-completion/completions/flashyard
    shell: Shell,
}

#[derive(Args)]
pub struct Manual {
    /// Where to put the pages, such as /usr/local/share/man/man1
    directory: PathBuf,
}

impl Completion {
    pub fn run(&self, mut program: Command) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "flashyard", &mut script);
        output::put(&script);
        exit::done()
    }
}

impl Manual {
    pub fn run(&self, program: Command) -> ExitCode {
        let written = std::fs::create_dir_all(&self.directory)
            .and_then(|()| clap_mangen::generate_to(program, &self.directory));
        match written {
            Ok(()) => exit::done(),
            Err(error) => exit::failed(&format!("{}: {error}", self.directory.display())),
        }
    }
}

//! The `flashyard` program: one noun a module, one function a verb.
//!
//! Exit codes: 0 done, 1 refused or failed, 2 wrong usage or settings, 3 no node answers.

mod exit;
mod perf;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "flashyard",
    version,
    about = "Shared flash storage over NVMe/TCP"
)]
#[command(arg_required_else_help = true, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Put load on a volume over NVMe/TCP and measure, in fio's words
    Perf(Box<perf::Perf>),
    /// Run the storage node
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Perf(command) => command.run(),
        Command::Serve(command) => command.run(),
    }
}

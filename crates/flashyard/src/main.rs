//! The `flashyard` program: one noun a module, one function a verb.

// They panic where an output takes nothing: `output` writes.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod attach;
mod audit;
mod connection;
mod copies;
mod csi;
mod demo;
mod documentation;
mod drive;
mod environment;
mod event;
mod exit;
mod host;
mod host_key;
mod host_secrets;
mod interrupt;
mod itself;
mod job;
mod lab;
mod limit;
mod login;
mod namespace;
mod output;
mod perf;
mod pool;
mod port;
mod progress;
mod prompt;
mod reach;
mod replication;
mod secret;
mod serve;
mod session;
mod settings;
mod sim;
mod snapshot;
mod ssd;
mod status;
mod tenant;
mod tls_key;
mod token;
mod top;
mod volume;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::connection::Connection;

/// Shared flash storage over NVMe/TCP.
///
/// Ends with 0 when done, 1 when refused or failed or when standard output takes nothing, 2 on
/// wrong usage or settings, 3 when no node answers.
#[derive(Parser)]
#[command(
    name = "flashyard",
    version,
    arg_required_else_help = true,
    propagate_version = true
)]
struct Arguments {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the storage node
    Serve(serve::Serve),
    /// Show the node at a glance, and what is attached to this host
    Status(status::Show),
    /// Show the node's load, again every second
    Top(top::Top),
    /// Drives: storage devices of the node
    #[command(subcommand)]
    Drive(drive::Verb),
    /// Namespaces: allocated parts of a drive's flash; the rest is over-provisioning
    #[command(subcommand)]
    Namespace(namespace::Verb),
    /// Pools: drives under RAID, which hold volumes
    #[command(subcommand)]
    Pool(pool::Verb),
    /// Volumes: block devices that hosts connect to
    #[command(subcommand)]
    Volume(volume::Verb),
    /// Snapshots: volumes as they were at one instant
    #[command(subcommand)]
    Snapshot(snapshot::Verb),
    /// Tenants: owners of volumes, with limits and grants
    #[command(subcommand)]
    Tenant(tenant::Verb),
    /// Hosts: machines that volumes can be allowed to
    #[command(subcommand)]
    Host(host::Verb),
    /// Ports: the addresses that serve NVMe/TCP
    #[command(subcommand)]
    Port(port::Verb),
    /// Sessions: connected hosts
    #[command(subcommand)]
    Session(session::Verb),
    /// Keep a node's address, token and certificate for the commands that follow
    Login(login::LogIn),
    /// Tokens: credentials for the API, and their roles
    #[command(subcommand)]
    Token(token::Verb),
    /// The audit log: who changed what
    #[command(subcommand)]
    Audit(audit::Verb),
    /// Settings that change while a node runs
    #[command(subcommand)]
    Settings(settings::Verb),
    /// Events: recent changes and faults
    #[command(subcommand)]
    Event(event::Verb),
    /// Jobs: long operations and their progress
    #[command(subcommand)]
    Job(job::Verb),
    /// Make a volume a block device of this host
    Attach(attach::Attach),
    /// Take an attached volume away from this host
    Detach(attach::Detach),
    /// List volumes attached to this host, and whether their I/O reaches the node
    Attached(attach::List),
    /// Serve a volume as a file
    #[command(hide = true)]
    AttachServe(attach::Serve),
    /// Serve volumes to Kubernetes, or another orchestrator
    Csi(csi::Csi),
    /// Put load on a volume over NVMe/TCP or NVMe/RDMA and measure, in fio's words
    Perf(Box<perf::Perf>),
    /// The drive model in virtual time: a drive, a namespace and a load
    #[command(subcommand)]
    Ssd(ssd::Verb),
    /// Experiments from plans: run, compare, report
    #[command(subcommand)]
    Lab(lab::Verb),
    /// Print the completion script of a shell
    Completion(documentation::Completion),
    /// Write the manual pages
    Manual(documentation::Manual),
    /// Simulate the pool over failing drives, beside a model of its promises
    Sim(sim::Sim),
    /// Demonstrate: start a node, load it, kill it, and verify that nothing was lost
    Demo(demo::Demo),
}

fn main() -> ExitCode {
    let code = match arguments() {
        Ok(arguments) => run(arguments),
        // Help and versions are answers; all else is a usage that is wrong.
        Err(answer) if !answer.use_stderr() => {
            output::noted(answer.print().and_then(|()| output::write(&[])));
            exit::done()
        }
        Err(wrong) => {
            // Where standard error takes nothing, the exit code says it.
            let _ = wrong.print();
            exit::wrong_usage()
        }
    };
    output::settled(code)
}

fn arguments() -> Result<Arguments, clap::Error> {
    let mut command = environment::without_empty(Arguments::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn run(arguments: Arguments) -> ExitCode {
    let Arguments {
        connection,
        command,
    } = arguments;
    let asked = |verb: &dyn Fn(&connection::Node) -> connection::Done| connection.ask(verb);
    match command {
        Command::Attach(attach) => attach.run(&connection),
        Command::Detach(detach) => detach.run(),
        Command::Attached(list) => list.run(connection.output),
        Command::AttachServe(serve) => serve.run(),
        Command::Csi(csi) => csi.run(&connection),
        Command::Perf(perf) => perf.run(connection.output),
        Command::Demo(demo) => demo.run(connection.output),
        Command::Lab(verb) => verb.run(connection.output),
        Command::Ssd(verb) => verb.run(connection.output),
        Command::Completion(completion) => completion.run(Arguments::command()),
        Command::Manual(manual) => manual.run(Arguments::command()),
        Command::Sim(sim) => sim.run(connection.output),
        Command::Serve(serve) => serve.run(),
        Command::Status(show) => asked(&|node| show.run(node)),
        Command::Top(top) => asked(&|node| top.run(node)),
        Command::Drive(verb) => asked(&|node| verb.run(node)),
        Command::Namespace(verb) => asked(&|node| verb.run(node)),
        Command::Pool(verb) => asked(&|node| verb.run(node)),
        Command::Snapshot(verb) => asked(&|node| verb.run(node)),
        Command::Job(verb) => asked(&|node| verb.run(node)),
        Command::Volume(verb) => asked(&|node| verb.run(node)),
        Command::Tenant(verb) => asked(&|node| verb.run(node)),
        Command::Host(verb) => asked(&|node| verb.run(node)),
        Command::Port(verb) => asked(&|node| verb.run(node)),
        Command::Session(verb) => asked(&|node| verb.run(node)),
        Command::Login(login) => login.run(),
        Command::Token(verb) => verb.run(&connection),
        Command::Audit(verb) => asked(&|node| verb.run(node)),
        Command::Settings(verb) => asked(&|node| verb.run(node)),
        Command::Event(verb) => asked(&|node| verb.run(node)),
    }
}

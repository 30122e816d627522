//! `flashyard demo`: a node, load, a kill in the middle, and proof that nothing was lost.
//!
//! Start a node as a process of its own with a raid6 pool of six drives in files, create volumes,
//! measure verified sequential and random I/O, kill the node with SIGKILL while every volume is
//! written to, start it again, and read back every write that it had acknowledged. Then kill it
//! again, delete one drive, write random bytes over another, read everything back all the same,
//! and let the pool make itself whole.

mod damage;
mod display;
mod measure;
pub(crate) mod process;
mod results;
mod survive;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use api::{ANY_HOST, Name, Size, Volume, VolumeSpec};
use clap::Args;
use client::ClientError;
use initiator::TargetAddress;
use lab::load::{PerfError, Stop, parse_duration};
use server::develop::DEMO_POOL;
use thiserror::Error;

use self::display::Display;
use self::process::NodeProcess;
use self::results::Results;
use crate::exit;
use crate::output::Output;

/// Drives of its node: a pool of raid6 that goes on without two of them.
const DRIVES: u16 = 6;

/// Size of the volumes that the demonstration adds; what is written is much less.
const VOLUME_BYTES: u64 = 1 << 30;

#[derive(Args)]
pub struct Demo {
    /// How long each measurement runs
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = runtime)]
    runtime: Duration,
    /// Make the drives in a directory below this one, instead of the system's for temporary files
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Less shows nothing.
const RUNTIME_MIN: Duration = Duration::from_millis(100);

fn runtime(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    match time < RUNTIME_MIN {
        true => Err("allowed: 100ms or more".to_owned()),
        false => Ok(time),
    }
}

/// Why the demonstration did not go through.
#[derive(Debug, Error)]
pub enum DemoError {
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The system refuses something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The node does not start, or ended by itself.
    #[error("{what}; its log ends with:\n{log}")]
    Node {
        /// What happened.
        what: String,
        /// The end of its log.
        log: String,
    },
    /// The node refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Load could not be put on a volume.
    #[error(transparent)]
    Load(#[from] PerfError),
    /// Something read back was not what was written.
    #[error("{0}")]
    Lost(String),
}

impl Demo {
    pub fn run(self, output: Output) -> ExitCode {
        let stop = Stop::default();
        crate::interrupt::stop_on_interrupt(&stop);
        let display = Display::new(output);
        match self.demonstrate(&stop, &display) {
            Ok(results) => {
                output.show(&results, Results::text);
                exit::done()
            }
            Err(DemoError::Interrupted) => ExitCode::from(130),
            Err(error) => exit::failed(&error),
        }
    }

    fn demonstrate(&self, stop: &Stop, display: &Display) -> Result<Results, DemoError> {
        let place = self.directory.clone().unwrap_or_else(std::env::temp_dir);
        display.step("Starting a node with a raid6 pool of six drives in files");
        let mut node = NodeProcess::start_new(&place, DRIVES, None, stop)?;
        let volumes = create_volumes(&node)?;
        display.done(&format!("{} volumes served over NVMe/TCP", volumes.len()));

        let measured = measure::all(&node, &volumes, self.runtime, stop, display)?;
        let survived = survive::kill_and_verify(&mut node, &volumes, self.runtime, stop, display)?;
        let damaged = damage::damage_and_verify(&mut node, &volumes, stop, display)?;
        display.step("Stopping the node");
        node.stop()?;
        Ok(Results {
            measurements: measured,
            survival: survived,
            damage: damaged,
        })
    }
}

/// Two more volumes in the pool, beside the one that a first start makes.
fn create_volumes(node: &NodeProcess) -> Result<Vec<Volume>, DemoError> {
    let client = node.client()?;
    for volume in ["demo-2", "demo-3"] {
        let spec = VolumeSpec {
            pool: Some(name(DEMO_POOL)),
            size: Some(Size(VOLUME_BYTES)),
            hosts: vec![name(ANY_HOST)],
            ..VolumeSpec::default()
        };
        client.create_volume(&name(volume), &spec)?;
    }
    Ok(client.volumes()?.items)
}

fn name(text: &str) -> Name {
    text.parse()
        .expect("the demonstration's own names are names")
}

/// Where the load generator finds a volume.
fn target(node: &NodeProcess, volume: &Volume) -> TargetAddress {
    TargetAddress {
        transport: initiator::Transport::Tcp,
        address: node.nvme_address(),
        subsystem_nqn: volume.nqn.clone(),
        namespace_id: Some(volume.nsid),
    }
}

/// Ends the demonstration if somebody asked for that.
fn unless_stopped(stop: &Stop) -> Result<(), DemoError> {
    if stop.is_stopped() {
        Err(DemoError::Interrupted)
    } else {
        Ok(())
    }
}

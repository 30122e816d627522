//! `flashyard ssd`: the drive model in virtual time. Nothing here asks a node.

mod chart;
mod fit;
mod load;
mod profiles;
mod simulate;
mod sweep;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use files::Access;
use ssd::{FitError, Profile, ProfileError};

use crate::exit;
use crate::output::Output;

#[derive(Subcommand)]
pub enum Verb {
    /// List the drive profiles, or show one with the source of every value
    Profiles(profiles::Profiles),
    /// Run one load on one namespace of a drive
    Simulate(simulate::Simulate),
    /// Run one load over a range of namespace sizes
    Sweep(sweep::Sweep),
    /// Make a profile from the figures of a data sheet, and say how well it meets them
    Fit(fit::Fit),
}

/// Why a verb did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Fit(#[from] FitError),
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    #[error("{0}: {1}")]
    Figures(String, toml::de::Error),
    #[error(transparent)]
    Chart(#[from] lab::report::ReportError),
    #[error("interrupted")]
    Interrupted,
}

impl Verb {
    pub fn run(&self, output: Output) -> ExitCode {
        let done = match self {
            Verb::Profiles(profiles) => profiles.run(output),
            Verb::Simulate(simulate) => simulate.run(output),
            Verb::Sweep(sweep) => sweep.run(output),
            Verb::Fit(fit) => fit.run(output),
        };
        match done {
            Ok(()) => exit::done(),
            Err(error @ Error::Interrupted) => exit::failed(&error),
            Err(error) => exit::usage(&error),
        }
    }
}

/// The profile that ships under `name`, or the one in the file of that path.
pub fn profile(name: &str) -> Result<Profile, Error> {
    if name.ends_with(".toml") || Path::new(name).components().count() > 1 {
        return Ok(Profile::parse(&read(name)?)?);
    }
    Ok(ssd::profiles::named(name)?)
}

fn read(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| Error::File(path.to_owned(), error))
}

/// Writes a file whole: nothing is left half written when the run is interrupted.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let written = files::replace(path, text.as_bytes(), Access::AsBefore);
    written.map_err(|error| Error::File(path.display().to_string(), error))
}

/// What the profile assumes, as a paragraph.
fn assumed(profile: &Profile) -> String {
    let keys: Vec<String> = profile
        .values_from("assumed")
        .into_iter()
        .map(|value| value.key)
        .collect();
    match keys.len() {
        0 => String::new(),
        _ => format!("Assumed, not published: {}.", keys.join(", ")),
    }
}

/// Namespace sizes and such, as drives are sold.
fn terabytes(bytes: u64) -> String {
    format!("{:.3} TB", bytes as f64 / ssd::TERABYTE)
}

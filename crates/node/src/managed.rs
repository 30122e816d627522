//! Drives whose namespaces can be managed: emulated ones.

use drive::{EmulatedDrive, EmulatedOptions, Payload};
use ssd::{Profile, ProfileError};

use crate::error::NodeError;
use crate::spec::{EmulatedSpec, ManagedFacts};

/// Opens the emulated drive of `spec`.
pub async fn open(spec: &EmulatedSpec) -> Result<EmulatedDrive, NodeError> {
    let profile = read_profile(&spec.profile).map_err(drive::EmulatedError::from)?;
    let options = EmulatedOptions {
        dilation: f64::from(spec.dilation_percent) / 100.0,
        payload: match &spec.directory {
            Some(path) => Payload::Directory(path.clone()),
            None => Payload::Memory,
        },
        ..EmulatedOptions::new(profile, f64::from(spec.scale_ppm) / 1e6)
    };
    Ok(EmulatedDrive::open(options).await?)
}

fn read_profile(name: &str) -> Result<Profile, ProfileError> {
    if !name.starts_with('/') {
        return ssd::profiles::named(name);
    }
    let text = std::fs::read_to_string(name);
    let text = text.map_err(|error| ProfileError::Syntax(format!("{name}: {error}")))?;
    Profile::parse(&text)
}

/// What a drive says of itself.
pub fn facts(drive: &EmulatedDrive) -> ManagedFacts {
    ManagedFacts {
        model: drive.model(),
        capacity: drive.capacity(),
        namespaces: drive.namespaces(),
        health: drive.health(),
        endurance: drive.endurance_log(),
        punctuality: drive.punctuality(),
    }
}

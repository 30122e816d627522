//! `flashyard ssd profiles`

use clap::Args;
use serde::Serialize;
use ssd::Profile;

use super::Error;
use crate::output::{Output, table};

#[derive(Args)]
pub struct Profiles {
    /// A profile's name, or the path of one of your own, to show in full
    profile: Option<String>,
}

/// One line of the list.
#[derive(Serialize)]
struct Line {
    profile: &'static str,
    drive: String,
    capacity_tb: f64,
    drive_writes_per_day: f64,
    pcie_generation: u32,
    assumed_values: usize,
}

impl Profiles {
    pub fn run(&self, output: Output) -> Result<(), Error> {
        match &self.profile {
            Some(name) => output.show(&super::profile(name)?, show),
            None => {
                let names = ssd::profiles::names();
                let lines: Result<Vec<Line>, Error> = names.map(line).collect();
                output.show(&lines?, |lines| list(lines));
            }
        }
        Ok(())
    }
}

fn line(name: &'static str) -> Result<Line, Error> {
    let profile = super::profile(name)?;
    Ok(Line {
        profile: name,
        assumed_values: profile.values_from("assumed").len(),
        capacity_tb: profile.drive.capacity_tb,
        drive_writes_per_day: profile.endurance.drive_writes_per_day,
        pcie_generation: profile.link.pcie_generation,
        drive: profile.drive.name,
    })
}

fn list(lines: &[Line]) -> String {
    let rows = lines.iter().map(|line| {
        vec![
            line.profile.to_owned(),
            line.drive.clone(),
            format!("{} TB", line.capacity_tb),
            line.drive_writes_per_day.to_string(),
            line.pcie_generation.to_string(),
            line.assumed_values.to_string(),
        ]
    });
    let header = [
        "profile",
        "drive",
        "capacity",
        "DWPD",
        "PCIe",
        "assumed values",
    ];
    table(&header, rows)
}

/// Every value beside its source.
fn show(profile: &Profile) -> String {
    let values = toml::Value::try_from(profile).ok();
    let value_of = |key: &str| {
        let (section, name) = key.split_once('.')?;
        let value = values.as_ref()?.get(section)?.get(name)?;
        Some(value.to_string())
    };
    let rows = profile.source.iter().map(|(key, source)| {
        vec![
            key.clone(),
            value_of(key).unwrap_or_default(),
            source.clone(),
        ]
    });
    format!(
        "{}\n\n{}",
        profile.drive.name,
        table(&["value", "", "source"], rows)
    )
}

//! `serve --dev DIR`: a node on drives that it makes itself, with something to connect to.

use std::path::{Path, PathBuf};

use api::{ANY_HOST, DriveSpec, ErrorBody, Name, Size, VolumeSpec};

use crate::control::Control;

/// The volume that a first start makes.
pub const DEMO_VOLUME: &str = "demo";

/// What a first start in a directory makes.
#[derive(Clone, Debug)]
pub struct Develop {
    /// Holds the state and, under `drives/`, the drives.
    pub directory: PathBuf,
    /// How many drives, named `d0`, `d1` and so on.
    pub drives: u16,
    /// Size of each, sparse.
    pub drive_size: Size,
    /// Make them like this one instead, each with a directory of its own.
    pub emulated: Option<DriveSpec>,
}

impl Develop {
    /// On a first start: makes the drives, and on the first of them a volume that every host may
    /// see. A node that remembers drives is left as it is.
    pub async fn populate(&self, control: &Control) -> Result<(), ErrorBody> {
        if !control.drives().await.is_empty() {
            return Ok(());
        }
        let directory = self.drive_directory().map_err(|error| {
            ErrorBody::invalid("dev", format!("{}: {error}", self.directory.display()))
        })?;
        for number in 0..self.drives {
            let name = name(&format!("d{number}"))?;
            let spec = self.spec_in(&directory, &name);
            control.add_drive(&name, spec).await?;
        }
        let spec = VolumeSpec {
            drive: Some(name("d0")?),
            hosts: vec![name(ANY_HOST)?],
            ..VolumeSpec::default()
        };
        control.create_volume(&name(DEMO_VOLUME)?, spec).await?;
        Ok(())
    }

    fn spec_in(&self, drives: &Path, name: &Name) -> DriveSpec {
        let at = |file: String| drives.join(file).to_string_lossy().into_owned();
        match &self.emulated {
            Some(DriveSpec::Emulated {
                profile,
                scale_ppm,
                dilation_percent,
                ..
            }) => DriveSpec::Emulated {
                profile: profile.clone(),
                scale_ppm: *scale_ppm,
                dilation_percent: *dilation_percent,
                directory: Some(at(name.to_string())),
            },
            _ => DriveSpec::Path {
                path: at(format!("{name}.img")),
                size: Some(self.drive_size),
            },
        }
    }

    fn drive_directory(&self) -> std::io::Result<PathBuf> {
        let directory = self.directory.join("drives");
        std::fs::create_dir_all(&directory)?;
        directory.canonicalize()
    }
}

fn name(text: &str) -> Result<Name, ErrorBody> {
    text.parse()
        .map_err(|error: api::NameError| ErrorBody::invalid("name", error.to_string()))
}

//! `serve --dev DIR`: a node on drives that it makes itself, with something to connect to.

use std::path::{Path, PathBuf};

use api::{ANY_HOST, DriveSpec, ErrorBody, Name, PoolLevel, PoolSpec, Size, VolumeSpec};

use crate::control::Control;

/// The volume that a first start makes.
pub const DEMO_VOLUME: &str = "demo";

/// The pool that a first start makes.
pub const DEMO_POOL: &str = "pool";

const MIB: u64 = 1 << 20;

/// What a first start in a directory makes.
#[derive(Clone, Debug)]
pub struct Develop {
    /// Holds the state and, under `drives/`, the drives.
    pub directory: PathBuf,
    /// How many drives, named `d0`, `d1` and so on.
    pub drives: u16,
    /// Size of each, sparse.
    pub drive_size: Size,
    /// Redundancy of the pool that they make up; without one the drives stay single.
    pub level: Option<PoolLevel>,
    /// Make them like this one instead, each with a directory of its own.
    pub emulated: Option<DriveSpec>,
}

impl Develop {
    /// On a first start: makes the drives and a pool of them, and in it, or else on the first of
    /// them, a volume that every host may see. A node that remembers drives is left as it is.
    pub async fn populate(&self, control: &Control) -> Result<(), ErrorBody> {
        if !control.drives().await.is_empty() {
            return Ok(());
        }
        let directory = self.drive_directory().map_err(|error| {
            ErrorBody::invalid("dev", format!("{}: {error}", self.directory.display()))
        })?;
        let mut drives = Vec::with_capacity(usize::from(self.drives));
        for number in 0..self.drives {
            let name = name(&format!("d{number}"))?;
            let spec = self.spec_in(&directory, &name);
            control.add_drive(&name, spec).await?;
            drives.push(name);
        }
        let place = match self.level {
            Some(level) => place_in_pool(control, level, drives).await?,
            None => VolumeSpec {
                drive: Some(name("d0")?),
                ..VolumeSpec::default()
            },
        };
        let spec = VolumeSpec {
            hosts: vec![name(ANY_HOST)?],
            ..place
        };
        let volume = name(DEMO_VOLUME)?;
        control.create_volume(None, &volume, spec).await?;
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

/// Makes the pool, and a place in it for a volume of half of what it can hold, so that there is
/// room for snapshots of it.
async fn place_in_pool(
    control: &Control,
    level: PoolLevel,
    drives: Vec<Name>,
) -> Result<VolumeSpec, ErrorBody> {
    let spec = PoolSpec {
        level,
        drives,
        width: None,
        force: false,
    };
    let name = name(DEMO_POOL)?;
    let pool = control.create_pool(&name, spec).await?;
    let whole_mib = pool.usable_bytes / 2 / MIB * MIB;
    Ok(VolumeSpec {
        pool: Some(name),
        size: Some(Size(whole_mib.max(MIB))),
        ..VolumeSpec::default()
    })
}

fn name(text: &str) -> Result<Name, ErrorBody> {
    text.parse()
        .map_err(|error: api::NameError| ErrorBody::invalid("name", error.to_string()))
}

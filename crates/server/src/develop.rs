//! `serve --dev DIR`: a node on drives that it makes itself, with something to connect to.
//!
//! A first start is done once its volume is there. What one that was refused or cut short has made
//! is in a file meanwhile, by which the next start undoes it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use api::{ANY_HOST, DriveSpec, ErrorBody, Name, PoolLevel, PoolSpec, Size, VolumeSpec};
use files::Access;

use crate::control::Control;
use crate::private;
use crate::state::{Kind, Remembered, State, StateError};

/// The volume that a first start makes.
pub const DEMO_VOLUME: &str = "demo";

/// The pool that a first start makes.
pub const DEMO_POOL: &str = "pool";

/// Names, while a first start goes on, what was not there before it.
const UNFINISHED_FILE: &str = "first-start.json";

const MIB: u64 = 1 << 20;

/// What a first start in a directory makes.
#[derive(Clone, Debug)]
pub struct Develop {
    /// Holds the state and, under `drives/`, the drives.
    pub directory: PathBuf,
    /// How many drives, named `d0`, `d1` and so on. None, without a level, make no volume either.
    pub drives: u16,
    /// Size of each, sparse.
    pub drive_size: Size,
    /// Redundancy of the pool that they make up; without one the drives stay single.
    pub level: Option<PoolLevel>,
    /// Make them like this one instead, each with a directory of its own.
    pub emulated: Option<DriveSpec>,
}

/// Why what an unfinished first start made cannot be undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// A file of it cannot be read or removed.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What it remembered cannot be forgotten.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Develop {
    /// Undoes what a first start made that was not finished; says whether there was something. To
    /// be called while no node runs on the directory.
    pub fn undo_unfinished(&self) -> Result<bool, UndoError> {
        let marker = self.directory.join(UNFINISHED_FILE);
        let text = match std::fs::read(&marker) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            text => text.map_err(failed(&marker))?,
        };
        let state = State::open(&self.directory)?;
        let remembered = state.load()?;
        let undone = !has_volumes(&remembered);
        if undone {
            let made: Vec<PathBuf> = serde_json::from_slice(&text)
                .map_err(|error| failed(&marker)(io::Error::other(error)))?;
            for path in &made {
                remove(path).map_err(failed(path))?;
            }
            for name in remembered.pools.keys() {
                state.remove_pool(name)?;
            }
            for name in remembered.drives.keys() {
                state.remove(Kind::Drive, name)?;
            }
        }
        std::fs::remove_file(&marker).map_err(failed(&marker))?;
        Ok(undone)
    }

    /// On a first start: makes the drives and a pool of them, and in it, or else on the first of
    /// them, a volume that every host may see. A node that remembers drives is left as it is.
    pub async fn populate(&self, control: &Control) -> Result<(), ErrorBody> {
        let wants_none = self.drives == 0 && self.level.is_none();
        if wants_none || !control.drives().await.is_empty() {
            return Ok(());
        }
        let wrong = |error: io::Error| {
            ErrorBody::invalid("dev", format!("{}: {error}", self.directory.display()))
        };
        let directory = self.drive_directory().map_err(wrong)?;
        self.begin(&directory).map_err(wrong)?;
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
        std::fs::remove_file(self.directory.join(UNFINISHED_FILE)).map_err(wrong)
    }

    /// Writes down what there will be that was not there before.
    fn begin(&self, drives: &Path) -> io::Result<()> {
        let paths = (0..self.drives).map(|number| match self.emulated {
            Some(_) => drives.join(format!("d{number}")),
            None => drives.join(format!("d{number}.img")),
        });
        let made: Vec<PathBuf> = paths.filter(|path| !path.exists()).collect();
        let text = serde_json::to_vec(&made)?;
        files::replace(&self.directory.join(UNFINISHED_FILE), &text, Access::Owner)
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

    fn drive_directory(&self) -> io::Result<PathBuf> {
        let directory = self.directory.join("drives");
        private::make_directory(&directory)?;
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

/// Whether hosts were given something: what there is then is theirs.
fn has_volumes(remembered: &Remembered) -> bool {
    let mut pools = remembered.pools.values();
    !remembered.volumes.is_empty() || pools.any(|pool| !pool.volumes.is_empty())
}

/// Removes a file or a directory; one that was not made yet is as good.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> UndoError {
    let path = path.to_owned();
    move |source| UndoError::File {
        path: path.clone(),
        source,
    }
}

fn name(text: &str) -> Result<Name, ErrorBody> {
    text.parse()
        .map_err(|error: api::NameError| ErrorBody::invalid("name", error.to_string()))
}

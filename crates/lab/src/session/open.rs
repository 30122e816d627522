//! Opens what a target names: drives first, then what is made of them.

use std::path::PathBuf;
use std::time::Duration;

use block::{BlockDevice, Geometry, IoError};
use drive::{Contents, Drive, EmulatedDrive, EmulatedOptions, FileDrive, FileOptions};
use initiator::{ConnectOptions, Controller, TargetAddress};
use pool::{CreateOptions, Entropy, HostId, Pool, VolumeOptions};
use ssd::{NamespaceRequest, Profile};

use super::device::Device;
use super::{Part, SessionError};
use crate::inplace_raid6::InplaceRaid6;
use crate::plan::{Level, Target, TargetKind};

/// Who the lab says it is to nodes.
const HOST_NQN: &str = "nqn.2026-11.example.flashyard:lab";

/// The in-place array's strip where the plan says nothing: what RAID 6 over flash is commonly
/// given.
const STRIP_BYTES: u32 = 64 << 10;

/// How long either end of a connection may be silent.
pub const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// I/Os in flight per connection.
const QUEUE_DEPTH: u16 = 1024;

/// What has been opened, and has to be closed.
pub(super) struct Opened {
    pub(super) devices: Vec<Device>,
    pub(super) emulated: Vec<EmulatedDrive>,
    pub(super) made: Vec<PathBuf>,
    controllers: Vec<Controller>,
    pool: Option<Pool<Drive>>,
}

impl Opened {
    /// Opens this part of a target.
    pub(super) async fn open(part: &Part) -> Result<Opened, SessionError> {
        let mut opened = Opened {
            devices: Vec::new(),
            emulated: Vec::new(),
            made: Vec::new(),
            controllers: Vec::new(),
            pool: None,
        };
        match opened.fill(part).await {
            Ok(()) => Ok(opened),
            Err(error) => {
                opened.close().await;
                Err(error)
            }
        }
    }

    async fn fill(&mut self, part: &Part) -> Result<(), SessionError> {
        let target = &part.target;
        match target.kind {
            TargetKind::Model => {}
            TargetKind::Node => return Err(SessionError::NeedsNode),
            TargetKind::Volume => self.connect(part).await?,
            TargetKind::File | TargetKind::Emulated => {
                let drives = self.drives(part).await?;
                self.devices.extend(drives.into_iter().map(Device::Drive));
            }
            TargetKind::InplaceRaid6 => {
                let drives = self.drives(part).await?;
                let strip = target.strip.unwrap_or(STRIP_BYTES);
                let array = if part.profile.is_some() {
                    // New emulated drives read as zeroes: parity is in order.
                    InplaceRaid6::open(drives, strip)?
                } else {
                    InplaceRaid6::create(drives, strip).await?
                };
                self.devices.push(Device::Array(array));
            }
            TargetKind::Pool => {
                let drives = self.drives(part).await?;
                self.make_pool(target, drives).await?;
            }
        }
        Ok(())
    }

    async fn drives(&mut self, part: &Part) -> Result<Vec<Drive>, SessionError> {
        let mut drives = Vec::new();
        for index in part.drives.clone() {
            drives.push(match &part.profile {
                Some(profile) => self.emulated(part, profile, index).await?,
                None => self.file(part, index as usize).await?,
            });
        }
        Ok(drives)
    }

    async fn emulated(
        &mut self,
        part: &Part,
        profile: &Profile,
        index: u32,
    ) -> Result<Drive, SessionError> {
        let target = &part.target;
        let scale = target.scale.unwrap_or(super::DRIVE_SCALE);
        let mut options = EmulatedOptions::new(profile.clone(), scale);
        options.dilation = target.dilation.unwrap_or(1.0);
        options.seed = part.seed + u64::from(index);
        options.precondition = target.flash.unwrap_or(options.precondition);
        let drive = EmulatedDrive::open(options).await?;
        if let Some(bytes) = target.namespace {
            drive.delete_namespace(1)?;
            let share = bytes as f64 / profile.capacity_bytes() as f64;
            let scaled = (drive.capacity().total_bytes as f64 * share) as u64;
            let scaled = scaled - scaled % ssd::PAGE_BYTES;
            drive
                .create_namespace(NamespaceRequest::of_bytes(scaled))
                .await?;
        }
        let namespace = drive.namespace(1)?;
        self.emulated.push(drive);
        Ok(namespace.into())
    }

    async fn file(&mut self, part: &Part, index: usize) -> Result<Drive, SessionError> {
        let path = part.target.paths.get(index).cloned().unwrap_or_default();
        let new = !path.exists();
        let options = FileOptions {
            create_bytes: part.target.size.filter(|_| new),
            ..FileOptions::default()
        };
        let drive: Drive = FileDrive::open(&path, &options).await?.into();
        if new {
            self.made.push(path);
        } else {
            let place = path.display().to_string();
            refuse_data(part, &drive, &place, drive.contents()).await?;
        }
        Ok(drive)
    }

    async fn connect(&mut self, part: &Part) -> Result<(), SessionError> {
        for index in part.drives.clone() {
            let text = part.target.addresses.get(index as usize);
            let text = text.cloned().unwrap_or_default();
            let address: TargetAddress = text.parse()?;
            let failed = |source| SessionError::Volume {
                address: text.clone(),
                source,
            };
            let mut options = ConnectOptions::new(HOST_NQN.to_owned());
            options.keep_alive = Some(KEEP_ALIVE);
            options.io_queues = 1;
            options.queue_depth = QUEUE_DEPTH;
            let nqn = &address.subsystem_nqn;
            let controller = Controller::connect(&address, nqn, options)
                .await
                .map_err(failed)?;
            self.controllers.push(controller.clone());
            let nsid = address.namespace_id.unwrap_or(1);
            let namespace = controller.namespace(nsid).await.map_err(failed)?;
            let contents = drive::contents(&namespace, &[]);
            refuse_data(part, &namespace, &text, contents).await?;
            self.devices.push(Device::Remote(namespace));
        }
        Ok(())
    }

    async fn make_pool(&mut self, target: &Target, drives: Vec<Drive>) -> Result<(), SessionError> {
        let level = match target.level.unwrap_or(Level::Raid6) {
            Level::Raid0 => pool::Level::Raid0,
            Level::Raid1 => pool::Level::Raid1,
            Level::Raid5 => pool::Level::Raid5,
            Level::Raid6 => pool::Level::Raid6,
        };
        let mut options = CreateOptions::new("lab", level, HostId([1; 16]));
        options.entropy = Entropy::Seeded(1.into());
        let pool = Pool::create(drives, options).await?;
        let bytes = target.used_of(pool.status().usable_bytes);
        let volume = VolumeOptions {
            bytes,
            reserved: false,
            attributes: Vec::new(),
        };
        let volume = pool.create_volume("lab", volume).await?;
        self.devices.push(Device::Pool(pool.volume(volume)?));
        self.pool = Some(pool);
        Ok(())
    }

    /// Lets go of everything; files that were made are removed.
    pub(super) async fn close(self) {
        drop(self.devices);
        if let Some(pool) = self.pool {
            // Its drives are ours, and gone in a moment: nothing depends on its last checkpoint.
            drop(pool.close().await);
        }
        for controller in self.controllers {
            controller.disconnect().await;
        }
        for path in self.made {
            // What cannot be removed stays where the plan said it would be.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Bytes of a device that loads use where they do not say: all of a drive, a part of an array.
pub(super) fn region_bytes(geometry: &Geometry, target: &Target) -> u64 {
    match target.kind {
        TargetKind::InplaceRaid6 => target.used_of(geometry.capacity_bytes()),
        _ => geometry.capacity_bytes(),
    }
}

async fn refuse_data(
    part: &Part,
    device: &impl BlockDevice,
    place: &str,
    contents: impl Future<Output = Result<Option<Contents>, IoError>>,
) -> Result<(), SessionError> {
    let names = |places: &[String]| places.iter().any(|named| named == place);
    if !part.writes || names(&part.destroy) {
        return Ok(());
    }
    // Labels that this program is too old for, or that are damaged, count too.
    let what = match pool::probe(device).await {
        Ok(None) => match contents.await {
            Ok(None) => return Ok(()),
            Ok(Some(contents)) if !contents.has_name() && names(&part.own) => return Ok(()),
            Ok(Some(contents)) => contents.to_string(),
            Err(error) => format!("what cannot be read ({error})"),
        },
        _ => "a member of a Flashyard pool".to_owned(),
    };
    Err(SessionError::HoldsData {
        place: place.to_owned(),
        what,
    })
}

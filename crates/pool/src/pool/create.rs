//! Making a pool: options, sizes, the first superblock.

use crate::drives::drive::{device_blocks, forget};
use crate::entropy::Entropy;
use crate::error::PoolError;
use crate::format::body::Body;
use crate::format::drive_layout::DriveLayout;
use crate::format::encoded::Encoded;
use crate::format::plausible::ZONES_MAX;
use crate::format::superblock::{MAGIC, MEMBER_ACTIVE, Superblock, VERSION};
use crate::ids::HostId;
use crate::join::join_all;
use crate::labels;
use crate::labels::slots::{self, Ends};
use crate::level::{DRIVES_MAX, Level};
use crate::location::{BLOCK_BYTES, ROWS_MAX};
use crate::options::{MayLack, OpenOptions, Settings};
use crate::pool::{Pool, alone};
use crate::segments::zones::{ZONE_BLOCKS_MIN, ZONES_MIN};
use crate::shard::messages::Wiring;
use crate::shard::table_room::slot_blocks_for;
use block::BlockDevice;

/// What a new pool is to be.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Its name, 1 to 64 bytes.
    pub name: String,
    /// Its redundancy.
    pub level: Level,
    /// Columns of a segment; by the level and the drives unless said otherwise.
    pub width: Option<usize>,
    /// Bytes of a zone; by the smallest drive's size unless said otherwise.
    pub zone_bytes: Option<u64>,
    /// The host that will hold it.
    pub host: HostId,
    /// Tuning; not on disk.
    pub settings: Settings,
    /// Where identifiers come from.
    pub entropy: Entropy,
}

impl CreateOptions {
    /// Everything by default but what has no default.
    pub fn new(name: &str, level: Level, host: HostId) -> CreateOptions {
        CreateOptions {
            name: name.to_owned(),
            level,
            width: None,
            zone_bytes: None,
            host,
            settings: Settings::default(),
            entropy: Entropy::System,
        }
    }
}

fn zone_blocks_for(smallest: u64, asked: Option<u64>) -> u32 {
    let blocks = match asked {
        Some(bytes) => bytes / BLOCK_BYTES as u64,
        // About a thousand zones a drive, at most 1 GiB each.
        None => (smallest / 1024).next_power_of_two().min(1 << 18),
    };
    blocks.clamp(u64::from(ZONE_BLOCKS_MIN), u64::from(ROWS_MAX)) as u32
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// Refuses what [`create`](Pool::create) would refuse; changes nothing.
    pub async fn check_new(drives: &[D], options: &CreateOptions) -> Result<(), PoolError> {
        let level = options.level;
        let min = level.drives_min();
        if !(min..=DRIVES_MAX).contains(&drives.len()) {
            let found = drives.len();
            return Err(PoolError::DriveCount {
                level,
                min,
                max: DRIVES_MAX,
                found,
            });
        }
        shape(drives, options)?;
        for (index, device) in drives.iter().enumerate() {
            check_blank(index, device).await?;
        }
        Ok(())
    }

    /// Makes a pool out of drives that carry none, and opens it.
    pub async fn create(drives: Vec<D>, options: CreateOptions) -> Result<Pool<D>, PoolError> {
        Pool::create_on(alone(), drives, options).await
    }

    /// As [`create`](Pool::create), with the shards that join at the other ends of the wires.
    pub async fn create_on(
        wiring: Wiring,
        drives: Vec<D>,
        options: CreateOptions,
    ) -> Result<Pool<D>, PoolError> {
        Pool::check_new(&drives, &options).await?;
        let superblock = first_superblock(&drives, &options)?;
        let tables = Encoded::new(Body::default().encode());
        let (zone_blocks, slot_blocks) =
            (superblock.zone_blocks.get(), superblock.slot_blocks.get());
        let layout = |device| DriveLayout::new(device_blocks(device), zone_blocks, slot_blocks);
        for (index, device) in drives.iter().enumerate() {
            let mut superblock = superblock.clone();
            superblock.drive_index = index as u8;
            superblock.drive_id = superblock.members[index].id;
            slots::write(device, &superblock, layout(device), &tables, Ends::AtOnce).await?;
        }
        let forgets = drives.iter();
        let forgets = forgets.map(|device| forget(device, layout(device).between_slots()));
        join_all(forgets).await;
        let CreateOptions {
            host,
            settings,
            entropy,
            ..
        } = options;
        let options = OpenOptions {
            host,
            force: true,
            accept_loss: false,
            may_lack: MayLack::Any,
            settings,
            entropy,
        };
        Pool::open_found(wiring, drives, options, true).await
    }
}

/// A new pool takes drives that carry none, not even one that is damaged.
async fn check_blank<D: BlockDevice>(index: usize, device: &D) -> Result<(), PoolError> {
    match labels::probe(device).await {
        Ok(None) => Ok(()),
        Ok(Some(label)) => Err(PoolError::DriveInUse {
            index,
            pool: label.pool_name,
        }),
        Err(PoolError::LabelDamaged { label, .. }) => Err(PoolError::LabelDamaged { index, label }),
        Err(error) => Err(error),
    }
}

/// A superblock that says what a pool will be, and neither who it is nor who its drives are.
fn shape<D: BlockDevice>(drives: &[D], options: &CreateOptions) -> Result<Superblock, PoolError> {
    let level = options.level;
    let width = options.width.unwrap_or(level.default_width(drives.len()));
    if !level.allows_width(width, drives.len()) {
        return Err(PoolError::Width {
            level,
            width,
            drives: drives.len(),
            allowed: level.widths(drives.len()),
        });
    }
    let smallest = drives.iter().map(device_blocks).min().unwrap_or(0);
    let zone_blocks = zone_blocks_for(smallest, options.zone_bytes);
    let zones = drives
        .iter()
        .map(|device| device_blocks(device) / u64::from(zone_blocks));
    let zones = zones.sum();
    check_zones(zones)?;
    let narrow = level.narrow(width);
    let slot_blocks = slot_blocks_for(narrow, smallest, zone_blocks, zones);
    let mut superblock = Superblock::zeroed();
    superblock.magic = MAGIC;
    superblock.version = VERSION.into();
    superblock.zone_blocks = zone_blocks.into();
    superblock.slot_blocks = slot_blocks.into();
    superblock.level = level.code();
    superblock.width = width as u8;
    superblock
        .set_name(&options.name)
        .map_err(PoolError::Invalid)?;
    superblock.holder = options.host.0;
    for (index, device) in drives.iter().enumerate() {
        let blocks = device_blocks(device);
        if DriveLayout::new(blocks, zone_blocks, slot_blocks).zones() < ZONES_MIN {
            let min = 2 * u64::from(slot_blocks) + u64::from(zone_blocks * (ZONES_MIN + 1));
            return Err(PoolError::DriveTooSmall {
                index,
                found: blocks,
                min,
            });
        }
        let member = &mut superblock.members[index];
        member.state = MEMBER_ACTIVE;
        member.blocks = blocks.into();
    }
    Ok(superblock)
}

/// Refuses more zones than the segments of a pool can have.
pub(crate) fn check_zones(zones: u64) -> Result<(), PoolError> {
    match zones > ZONES_MAX {
        true => Err(PoolError::Invalid(
            "a pool has at most 16777216 zones: choose larger ones",
        )),
        false => Ok(()),
    }
}

fn first_superblock<D: BlockDevice>(
    drives: &[D],
    options: &CreateOptions,
) -> Result<Superblock, PoolError> {
    let mut superblock = shape(drives, options)?;
    superblock.pool_id = options.entropy.bytes16()?;
    superblock.secret = options.entropy.bytes16()?;
    superblock.raise_epoch(options.entropy.word()?);
    let joined = superblock.epoch.number;
    for member in &mut superblock.members[..drives.len()] {
        member.id = options.entropy.bytes16()?;
        member.joined = joined;
    }
    Ok(superblock)
}

//! [`Pool`]: opened and closed.

use crate::array::Array;
use crate::cache::NodeCache;
use crate::checkpoint::Resume;
use crate::coordinator::{Coordinator, Published};
use crate::core::{Core, Settings, State};
use crate::drive::{Drive, DriveLayout};
use crate::entropy::Entropy;
use crate::error::PoolError;
use crate::events::DriveChange;
use crate::format::body::Body;
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_NONE};
use crate::labels::{self, DriveId, Found, HostId, Slot, hexadecimal};
use crate::level::{DRIVES_MAX, Level};
use crate::location::BLOCK_BYTES;
use crate::log::ATOMIC_BLOCKS;
use crate::membership;
use crate::recovery::Before;
use crate::segments::{Kind, Segments, State as SegmentState};
use crate::slices::Share;
use block::BlockDevice;
use reactor::sync::{Mutex, Notify};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// How a pool is to be opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The host that will hold it.
    pub host: HostId,
    /// Take it even if another host holds it.
    pub force: bool,
    /// Tuning; not on disk.
    pub settings: Settings,
    /// Where identifiers come from.
    pub entropy: Entropy,
}

impl OpenOptions {
    /// Everything by default.
    pub fn new(host: HostId) -> OpenOptions {
        OpenOptions {
            host,
            force: false,
            settings: Settings::default(),
            entropy: Entropy::System,
        }
    }
}

/// An open pool; a handle that may be cloned. Must be closed: its tasks hold it open.
pub struct Pool<D: BlockDevice + 'static> {
    pub(crate) core: Rc<Coordinator<D>>,
}

impl<D: BlockDevice + 'static> Clone for Pool<D> {
    fn clone(&self) -> Pool<D> {
        Pool {
            core: self.core.clone(),
        }
    }
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// Opens the pool that the drives carry; they may come in any order. Nothing is written
    /// before it is certain that this is the pool's newest state.
    pub async fn open(drives: Vec<D>, options: OpenOptions) -> Result<Pool<D>, PoolError> {
        let slice = u64::from(options.settings.slice_blocks);
        if slice == 0 || !slice.is_multiple_of(ATOMIC_BLOCKS) {
            return Err(PoolError::Invalid("a slice is a multiple of 16 blocks"));
        }
        let mut slots = Vec::with_capacity(drives.len());
        for device in &drives {
            // A drive that cannot be read is as good as absent.
            slots.push(match labels::find(device).await {
                Ok(Found::Slot(slot)) => Some(slot),
                Ok(Found::Newer(version)) => return Err(PoolError::NewerFormat(version)),
                Ok(Found::Blank) | Err(_) => None,
            });
        }
        let given: Vec<Option<&Slot>> = slots.iter().map(Option::as_deref).collect();
        let choice = membership::choose(&given)?;
        let newest = slots[choice.newest]
            .as_deref()
            .cloned()
            .ok_or(PoolError::NoPool)?;
        let holder = newest.superblock.holder;
        if holder != [0; 16] && holder != options.host.0 && !options.force {
            return Err(PoolError::Held {
                holder: hexadecimal(&holder),
            });
        }
        let body = Body::decode(&newest.body).map_err(|_| PoolError::Damaged("tables"))?;
        let mut members: Vec<Option<Rc<Drive<D>>>> = Vec::new();
        members.resize_with(DRIVES_MAX, || None);
        for ((device, slot), index) in drives.into_iter().zip(&slots).zip(&choice.current) {
            let (Some(slot), Some(index)) = (slot, *index) else {
                continue;
            };
            let drive = Drive::new(device, slot.superblock.drive_id, slot.layout());
            // A drive that refuses is as good as absent.
            if slot.rank() < newest.rank() && replicate(&drive, index, &newest).await.is_err() {
                continue;
            }
            members[index] = Some(Rc::new(drive));
        }
        let before = Before {
            slice_blocks: u64::from(body.slice_blocks),
            sequences: body.sequences.clone(),
        };
        let core = assemble(members, newest, body, options)?;
        for (slot, _) in slots
            .iter()
            .zip(&choice.current)
            .filter(|(_, index)| index.is_none())
        {
            if let Some(slot) = slot {
                let superblock = &slot.superblock;
                let index = usize::from(superblock.drive_index);
                core.array
                    .tell(index, superblock.drive_id, DriveChange::Stale);
            }
        }
        core.start(before).await?;
        Ok(Pool { core })
    }

    /// Puts the map in order and stops. The pool opens quickly the next time.
    pub async fn close(&self) -> Result<(), PoolError> {
        let core = &self.core;
        core.stopping.set(true);
        core.work.notify_one();
        let result = core.checkpoint_with(Resume::AtFreeze, |_| Ok(())).await;
        core.upkeep.notify_one();
        core.array.events.close();
        result
    }

    /// Closes the pool and lets go of it, so that any host may open it.
    pub async fn export(&self) -> Result<(), PoolError> {
        self.core.holder.set([0; 16]);
        self.close().await
    }

    /// Closes the pool and makes its drives forget it.
    pub async fn destroy(self) -> Result<(), PoolError> {
        self.close().await?;
        for (_, drive) in self.core.array.live() {
            labels::wipe(drive.device()).await?;
        }
        self.core.go_offline("destroyed");
        Ok(())
    }

    /// Writes the map down now.
    pub async fn checkpoint(&self) -> Result<(), PoolError> {
        self.core
            .checkpoint_with(Resume::AtFreeze, |_| Ok(()))
            .await
    }

    /// Takes a drive out of use for good; the pool goes on without it if it can.
    pub async fn fail_drive(&self, id: DriveId) -> Result<(), PoolError> {
        let live = self.core.array.live();
        let (index, _) = live
            .iter()
            .find(|(_, drive)| drive.id == id.0)
            .ok_or(PoolError::NotFound("drive"))?;
        self.core.array.fail(*index);
        self.core.settle_membership().await?;
        self.core.upkeep.notify_one();
        Ok(())
    }

    /// Refuses a change that could outgrow the superblock's slot.
    pub(crate) fn check_table_room(&self) -> Result<(), PoolError> {
        let used = self.core.published.borrow().body.len();
        if used + 4 * BLOCK_BYTES > self.core.table_room() {
            return Err(PoolError::NoSpace);
        }
        Ok(())
    }
}

/// Gives a drive that missed the last superblock exactly that one.
async fn replicate<D: BlockDevice>(
    drive: &Drive<D>,
    index: usize,
    newest: &Slot,
) -> Result<(), PoolError> {
    let mut superblock = newest.superblock.clone();
    superblock.drive_index = index as u8;
    superblock.drive_id = drive.id;
    labels::write(drive.device(), &superblock, drive.layout, &newest.body).await?;
    Ok(())
}

fn assemble<D: BlockDevice + 'static>(
    members: Vec<Option<Rc<Drive<D>>>>,
    newest: Slot,
    body: Body,
    options: OpenOptions,
) -> Result<Rc<Coordinator<D>>, PoolError> {
    let superblock = newest.superblock;
    let level = Level::from_code(superblock.level).ok_or(PoolError::Damaged("superblock"))?;
    let (zone_blocks, slot_blocks) = (superblock.zone_blocks.get(), superblock.slot_blocks.get());
    let zones: Vec<u32> = superblock
        .members
        .iter()
        .map(|member| match member.state {
            MEMBER_NONE => 0,
            _ => DriveLayout::new(member.blocks.get(), zone_blocks, slot_blocks).zones(),
        })
        .collect();
    let absent = superblock
        .members
        .iter()
        .enumerate()
        .filter(|(index, member)| member.state == MEMBER_ACTIVE && members[*index].is_none());
    let newly_failed: Vec<usize> = absent.map(|(index, _)| index).collect();
    let array = Array::new(level, members);
    array.newly_failed.replace(newly_failed);
    let share = Share::whole(u64::from(options.settings.slice_blocks));
    let state = state_of(&zones, body, share);
    let shard = Rc::new(Core {
        array,
        settings: options.settings,
        secret: superblock.secret,
        incarnation: Cell::new(superblock.incarnation.get()),
        width: usize::from(superblock.width),
        zone_rows: zone_blocks,
        known_size: Cell::new(None),
        state: RefCell::new(state),
        cache: RefCell::new(NodeCache::new(
            options.settings.map_cache_bytes / BLOCK_BYTES,
        )),
        work: Notify::new(),
        upkeep: Notify::new(),
        landed: Notify::new(),
        look_at_blocks: Cell::new(0),
        coordinator: OnceCell::new(),
        offline: Cell::new(None),
        stopping: Cell::new(false),
    });
    Ok(Rc::new_cyclic(|this| {
        let _ = shard.coordinator.set(this.clone());
        Coordinator {
            shard,
            entropy: options.entropy,
            published: RefCell::new(Published {
                superblock,
                body: Rc::new(newest.body),
            }),
            publishing: Mutex::new(()),
            upkeep_lock: Mutex::new(()),
            holder: Cell::new(options.host.0),
            watch: Default::default(),
        }
    }))
}

/// The state as the checkpoint's tables have it.
fn state_of(zones: &[u32], body: Body, share: Share) -> State {
    State {
        segments: Segments::new(zones, body.segments, body.next_generation),
        overlay: Default::default(),
        frozen: Default::default(),
        tables: body.tables,
        share,
        sequence: 0,
        applied: 0,
        open: [None; 3],
        map_open: None,
        completed: BTreeMap::new(),
        in_flight: 0,
        moved_in_flight: 0,
        frugal: false,
        segment_opened: false,
        queue: VecDeque::new(),
        queued_blocks: 0,
        admitted: Default::default(),
        starved: false,
        moving: BTreeMap::new(),
        cleaning: None,
        gate: 0,
        unannounced: BTreeSet::new(),
        map_nodes: body.map_nodes,
        era: 0,
        readers: BTreeMap::new(),
        limbo: VecDeque::new(),
        settled: BTreeSet::new(),
        stuck: BTreeSet::new(),
        emptied: BTreeSet::new(),
        attempts: BTreeMap::new(),
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Bytes that the tables may take on every live drive.
    pub fn table_room(&self) -> usize {
        let live = self.array.live().into_iter();
        let slot = live
            .map(|(_, drive)| drive.layout.slot_blocks)
            .min()
            .unwrap_or(0);
        slot.saturating_sub(2) as usize * BLOCK_BYTES
    }

    /// Recovers, makes the decisions last, and starts the pool's tasks.
    async fn start(self: &Rc<Self>, before: Before) -> Result<(), PoolError> {
        self.recover(before).await?;
        self.incarnation.set(self.incarnation.get() + 1);
        self.checkpoint_with(Resume::AtFreeze, |state| {
            // Behind its last row the map's segment may hold nodes that were never published.
            let open: Vec<u32> = state
                .segments
                .numbers(Kind::Map, SegmentState::Open)
                .collect();
            for number in open {
                if let Some(segment) = state.segments.get_mut(number) {
                    segment.state = SegmentState::Sealed;
                }
            }
            Ok(())
        })
        .await?;
        self.array.serving.set(true);
        self.watch_state();
        drop(reactor::spawn(self.shard.clone().write_log()));
        drop(reactor::spawn(self.clone().keep_up()));
        self.upkeep.notify_one();
        Ok(())
    }
}

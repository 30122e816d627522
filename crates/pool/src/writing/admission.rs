//! Who may take space: writes are admitted only while what lives, and what is promised to volumes
//! that reserve space, stays within what the pool can hold. Overwriting needs no new space.

use crate::ids::{LayerId, VolumeId};
use crate::location::{BlockNumber, LayerBlock, Mapping, each_of};
use crate::shard::core::Core;
use crate::shard::state::State;
use crate::stripes::item::{Left, Request};
use crate::volumes::backing::Backing;
use block::{BlockDevice, IoError};
use reactor::Instant;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// A refusal is certain after so many looks, each at the state as a checkpoint has it.
const LOOKS_MAX: usize = 8;
/// For so long a write waits for what deleted volumes and snapshots still hold.
const REMOVAL_WAIT: Duration = Duration::from_secs(10);

/// How often who wants space has looked for it.
pub(crate) struct Looks {
    left: usize,
    begun: Instant,
}

impl Looks {
    pub fn new() -> Looks {
        Looks {
            left: LOOKS_MAX,
            begun: reactor::now(),
        }
    }

    /// Whether to look once more. What the next checkpoint frees of deleted volumes is not the last
    /// that can be hoped for.
    pub fn again(&mut self, state: &State) -> bool {
        if !state.tables.unneeded() || reactor::now() >= self.begun + REMOVAL_WAIT {
            let left = self.left.checked_sub(1);
            self.left = left.unwrap_or(0);
            return left.is_some();
        }
        true
    }
}

/// An admitted write, until it is part of what lives.
pub(crate) struct Admission<'a, D: BlockDevice + 'static> {
    core: &'a Core<D>,
    blocks: u64,
    pub backing: Backing,
    /// How many of them were guessed.
    guessed: u64,
    /// The write, once it is in the queue.
    request: Option<Rc<Request>>,
}

impl<D: BlockDevice + 'static> Admission<'_, D> {
    /// The write that was admitted gets in line: it takes its space whether anybody waits or not.
    pub fn begin(&mut self, request: &Rc<Request>) {
        self.request = Some(Rc::clone(request));
    }
}

impl<D: BlockDevice + 'static> Drop for Admission<'_, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What a panic found half changed may panic again, which would end the process.
            return;
        }
        let mut state = self.core.state.borrow_mut();
        let (blocks, guessed) = (self.blocks, self.guessed);
        match self.request.take().filter(|request| !request.is_done()) {
            Some(request) => state.admitted.leave(Left {
                request,
                blocks,
                guessed,
            }),
            None if state.admitted.end(blocks, guessed) => self.core.looked_up.notify_all(),
            None => {}
        }
    }
}

/// While this is there no write is taken for new blocks without a look at the map.
pub(crate) struct WithoutGuesses<'a, D: BlockDevice + 'static>(&'a Core<D>);

impl<D: BlockDevice + 'static> Drop for WithoutGuesses<'_, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What a panic found half changed may panic again, which would end the process.
            return;
        }
        self.0.state.borrow_mut().admitted.allow_guesses();
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Lets a write to a volume that reserves no space pass, or says that there is no space for it.
    pub async fn admit(
        &self,
        volume: VolumeId,
        blocks: Range<BlockNumber>,
    ) -> Result<Admission<'_, D>, IoError> {
        let count = blocks.end - blocks.start;
        let may_guess = self.state.borrow().admitted.may_guess();
        if may_guess && self.fits(count) {
            let mut admission = self.admission(count, Backing::Counted);
            admission.guessed = count;
            self.state.borrow_mut().admitted.guess(count);
            return Ok(admission);
        }
        // Seldom: on the heap, and not in the future of every write.
        Box::pin(self.admit_exactly(volume, blocks)).await
    }

    /// Looks at what the volume holds already, and lets checkpoints find out what lives.
    async fn admit_exactly(
        &self,
        volume: VolumeId,
        blocks: Range<BlockNumber>,
    ) -> Result<Admission<'_, D>, IoError> {
        let mut noticed = false;
        let mut exactly = None;
        let mut looks = Looks::new();
        while looks.again(&self.state.borrow()) {
            let (new, layer) = self.new_blocks(volume, blocks.clone()).await?;
            if new == 0 || self.fits(new) {
                return Ok(self.admission(new, Backing::Held { layer }));
            }
            if exactly.is_none() {
                // Others may only be overwriting what they have.
                exactly = Some(self.outlast_guesses().await);
            }
            if self.shards > 1 {
                self.make_room(new).await?;
                continue;
            }
            // Somebody else's checkpoint may be on its way, and whoever has been answered counts
            // until it has noticed.
            let exact = {
                let state = self.state.borrow();
                !state.may_hold_less()
            };
            if exact && noticed {
                break;
            }
            noticed = exact;
            if exact {
                reactor::yield_now().await;
                continue;
            }
            let coordinator = self.coordinator().ok_or(IoError::DeviceGone)?;
            let merged = coordinator.merge_for_room().await;
            merged.map_err(|_| IoError::DeviceGone)?;
        }
        if let Some(coordinator) = self.coordinator() {
            coordinator.refused();
        }
        Err(IoError::CapacityExceeded)
    }

    /// Lets a write pass whose space is promised to its volume already.
    pub fn admission_of_promised(&self) -> Admission<'_, D> {
        self.admission(0, Backing::Promised)
    }

    fn admission(&self, blocks: u64, backing: Backing) -> Admission<'_, D> {
        self.state.borrow_mut().admitted.begin(blocks);
        Admission {
            core: self,
            blocks,
            backing,
            guessed: 0,
            request: None,
        }
    }

    /// Has those writes count as answered that have ended and that nobody waited for.
    pub fn end_left(&self) {
        if self.state.borrow_mut().admitted.end_left() {
            self.looked_up.notify_all();
        }
    }

    /// Waits until no write is under way that was admitted without a look at the map.
    pub async fn outlast_guesses(&self) -> WithoutGuesses<'_, D> {
        self.state.borrow_mut().admitted.forbid_guesses();
        let exactly = WithoutGuesses(self);
        while self.state.borrow().admitted.has_guesses() {
            self.looked_up.notified().await;
        }
        exactly
    }

    fn fits(&self, blocks: u64) -> bool {
        if self.shards > 1 {
            return self.state.borrow().admitted.has_room_for(blocks);
        }
        let usable = self.size().usable_blocks();
        self.state.borrow().committed_blocks() + blocks <= usable
    }

    /// Blocks of a range that the layer on top of a volume does not hold, and that layer.
    async fn new_blocks(
        &self,
        volume: VolumeId,
        blocks: Range<BlockNumber>,
    ) -> Result<(u64, LayerId), IoError> {
        // Or nodes that are about to be read may be replaced, and others written there.
        let _reading = self.reading();
        let layer = {
            let state = self.state.borrow();
            let found = state.tables.volumes.get(volume);
            found.ok_or(IoError::DeviceGone)?.layer
        };
        let mut new = 0;
        for block in each_of(blocks) {
            let held = match self.find_own(LayerBlock { layer, block }).await {
                // What is written there takes the place of what is lost.
                Err(IoError::UnrecoveredRead) => false,
                found => matches!(found?, Some(Mapping::Block(_))),
            };
            new += u64::from(!held);
        }
        Ok((new, layer))
    }
}

//! [`FaultControl`]: chooses the faults; and the state that it shares with its drive.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockRange, Geometry, IoError, Lba};
use reactor::sleep;
use reactor::sync::Notify;

/// The operations of a drive, to say which of them fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `BlockDevice::read`
    Read,
    /// `BlockDevice::write`
    Write,
    /// `BlockDevice::flush`
    Flush,
    /// `BlockDevice::deallocate`
    Deallocate,
    /// `BlockDevice::write_zeroes`
    WriteZeroes,
}

/// SplitMix64, as every seeded test double here needs.
pub(super) struct SplitMix(u64);

impl SplitMix {
    pub(super) fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// True once in `count` times; never for zero.
    fn one_in(&mut self, count: u32) -> bool {
        count > 0 && self.below(u64::from(count)) == 0
    }
}

/// When one kind of operation fails.
#[derive(Clone, Copy, Default)]
struct Errors {
    next: Option<(IoError, u32)>,
    rate: Option<(IoError, u32)>,
}

/// What is wrong with a block.
#[derive(Clone, Copy)]
enum Damage {
    /// Its bytes are changed by this key.
    Corrupt(u64),
    Unreadable,
}

/// What becomes of a write.
pub(super) enum Fate {
    Done,
    Lost,
    Misdirected(Lba),
}

/// An operation that was let through, by the life of the drive in which that was.
#[derive(Clone, Copy)]
pub(super) struct Admitted {
    life: u64,
}

pub(super) struct State {
    random: RefCell<SplitMix>,
    errors: RefCell<[Errors; 5]>,
    delay: RefCell<Range<Duration>>,
    stalled: Cell<bool>,
    released: Notify,
    dead: Cell<bool>,
    /// Counts deaths: an operation of an earlier life never completes well.
    life: Cell<u64>,
    power_cut: Cell<bool>,
    damage: RefCell<BTreeMap<u64, Damage>>,
    lose: Cell<u32>,
    misdirect: Cell<u32>,
    lost_one_in: Cell<u32>,
    misdirected_one_in: Cell<u32>,
}

impl State {
    pub(super) fn new(seed: u64) -> State {
        State {
            random: RefCell::new(SplitMix::new(seed)),
            errors: RefCell::default(),
            delay: RefCell::new(Duration::ZERO..Duration::ZERO),
            stalled: Cell::new(false),
            released: Notify::new(),
            dead: Cell::new(false),
            life: Cell::new(0),
            power_cut: Cell::new(false),
            damage: RefCell::default(),
            lose: Cell::new(0),
            misdirect: Cell::new(0),
            lost_one_in: Cell::new(0),
            misdirected_one_in: Cell::new(0),
        }
    }

    fn check_alive(&self, life: u64) -> Result<(), IoError> {
        if self.dead.get() || self.life.get() != life {
            return Err(IoError::DeviceGone);
        }
        Ok(())
    }

    /// The first half of an operation's time; then, whether it fails.
    pub(super) async fn admit(&self, operation: Operation) -> Result<Admitted, IoError> {
        let life = self.life.get();
        self.check_alive(life)?;
        while self.stalled.get() && !self.dead.get() {
            self.released.notified().await;
        }
        self.wait().await;
        self.check_alive(life)?;
        match self.chosen_error(operation) {
            Some(error) => Err(error),
            None => Ok(Admitted { life }),
        }
    }

    /// The second half of an operation's time.
    pub(super) async fn finish(&self, admitted: Admitted) -> Result<(), IoError> {
        self.wait().await;
        self.check_alive(admitted.life)
    }

    async fn wait(&self) {
        let range = self.delay.borrow().clone();
        if range.end.is_zero() {
            return;
        }
        let width = range.end.saturating_sub(range.start).as_nanos() as u64;
        let extra = self.random.borrow_mut().below(width);
        sleep((range.start + Duration::from_nanos(extra)) / 2).await;
    }

    fn chosen_error(&self, operation: Operation) -> Option<IoError> {
        let mut errors = self.errors.borrow_mut();
        let errors = &mut errors[operation as usize];
        if let Some((error, count)) = errors.next {
            errors.next = (count > 1).then_some((error, count - 1));
            return Some(error);
        }
        let (error, count) = errors.rate?;
        self.random.borrow_mut().one_in(count).then_some(error)
    }

    /// Whether a write is done, and where.
    pub(super) fn fate_of_write(&self, range: BlockRange, geometry: &Geometry) -> Fate {
        let mut random = self.random.borrow_mut();
        let due = |count: &Cell<u32>| {
            let due = count.get() > 0;
            count.set(count.get().saturating_sub(1));
            due
        };
        if due(&self.lose) || random.one_in(self.lost_one_in.get()) {
            return Fate::Lost;
        }
        if due(&self.misdirect) || random.one_in(self.misdirected_one_in.get()) {
            let places = geometry.block_count - range.blocks + 1;
            return Fate::Misdirected(Lba(random.below(places)));
        }
        Fate::Done
    }

    /// Changes or refuses what was read from damaged blocks.
    pub(super) fn damage(
        &self,
        start: Lba,
        block_bytes: usize,
        bytes: &mut [u8],
    ) -> Result<(), IoError> {
        let damage = self.damage.borrow();
        let end = start.0 + (bytes.len() / block_bytes) as u64;
        for (block, damage) in damage.range(start.0..end) {
            let at = (block - start.0) as usize * block_bytes;
            match damage {
                Damage::Unreadable => return Err(IoError::UnrecoveredRead),
                Damage::Corrupt(key) => {
                    let within = (key % block_bytes as u64) as usize;
                    // Never zero, so that at least one bit changes.
                    bytes[at + within] ^= (key >> 32) as u8 | 1;
                }
            }
        }
        Ok(())
    }

    /// Blocks that are written anew are whole again.
    pub(super) fn heal(&self, range: BlockRange) {
        let mut damage = self.damage.borrow_mut();
        if damage.is_empty() {
            return;
        }
        let healed = range.start.0..range.start.0 + range.blocks;
        damage.retain(|block, _| !healed.contains(block));
    }

    /// A power cut that the storage has not been told of, and the randomness for it.
    pub(super) fn take_power_cut(&self) -> Option<SplitMix> {
        let cut = self.power_cut.replace(false);
        cut.then(|| SplitMix::new(self.random.borrow_mut().next()))
    }
}

/// Makes a [`FaultyDrive`](super::FaultyDrive) fail. Clones control the same drive.
#[derive(Clone)]
pub struct FaultControl {
    state: Rc<State>,
}

impl FaultControl {
    pub(super) fn new(state: Rc<State>) -> FaultControl {
        FaultControl { state }
    }

    /// The next `count` operations of this kind return `error`.
    pub fn fail_next(&self, operation: Operation, error: IoError, count: u32) {
        let next = (count > 0).then_some((error, count));
        self.state.errors.borrow_mut()[operation as usize].next = next;
    }

    /// One in `count` operations of this kind returns `error`; none does for a count of zero.
    pub fn set_error_rate(&self, operation: Operation, error: IoError, count: u32) {
        let rate = (count > 0).then_some((error, count));
        self.state.errors.borrow_mut()[operation as usize].rate = rate;
    }

    /// Operations take a time drawn from `range`.
    pub fn set_delay(&self, range: Range<Duration>) {
        *self.state.delay.borrow_mut() = range;
    }

    /// Holds every operation that has not begun until [`FaultControl::release`].
    pub fn stall(&self) {
        self.state.stalled.set(true);
    }

    /// Lets stalled operations go on.
    pub fn release(&self) {
        self.state.stalled.set(false);
        self.state.released.notify_all();
    }

    /// The drive answers `DeviceGone` from now on, also to what is in flight.
    pub fn kill(&self) {
        self.state.dead.set(true);
        self.state.life.set(self.state.life.get() + 1);
        self.state.released.notify_all();
    }

    /// The drive answers again; new operations see what it held.
    pub fn revive(&self) {
        self.state.dead.set(false);
    }

    /// Whether the drive is dead, by [`FaultControl::kill`] or a power cut.
    pub fn is_dead(&self) -> bool {
        self.state.dead.get()
    }

    /// Cuts the power: the drive dies, and its volatile cache keeps, loses or tears what was not
    /// made durable. [`FaultControl::revive`] is the power's return.
    pub fn power_cut(&self) {
        self.state.power_cut.set(true);
        self.kill();
    }

    /// Blocks of `range` read as something else, silently, until they are written again.
    pub fn corrupt(&self, range: BlockRange) {
        for block in range.start.0..range.start.0 + range.blocks {
            let key = self.state.random.borrow_mut().next();
            self.state
                .damage
                .borrow_mut()
                .insert(block, Damage::Corrupt(key));
        }
    }

    /// Reads of blocks of `range` fail until they are written again.
    pub fn make_unreadable(&self, range: BlockRange) {
        for block in range.start.0..range.start.0 + range.blocks {
            self.state
                .damage
                .borrow_mut()
                .insert(block, Damage::Unreadable);
        }
    }

    /// The next `count` writes are acknowledged and not done.
    pub fn lose_next_writes(&self, count: u32) {
        self.state.lose.set(count);
    }

    /// The next `count` writes are acknowledged and done elsewhere.
    pub fn misdirect_next_writes(&self, count: u32) {
        self.state.misdirect.set(count);
    }

    /// One in `count` writes is acknowledged and not done; none for zero.
    pub fn set_lost_write_rate(&self, count: u32) {
        self.state.lost_one_in.set(count);
    }

    /// One in `count` writes is acknowledged and done elsewhere; none for zero.
    pub fn set_misdirected_write_rate(&self, count: u32) {
        self.state.misdirected_one_in.set(count);
    }
}

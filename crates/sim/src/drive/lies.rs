//! [`Lie`]: what a drive gets wrong and says nothing of.

use super::media::Forgets;
use super::{BLOCK, SimDrive};
use crate::random::Random;
use std::cell::RefCell;
use std::ops::Range;

/// A write that comes to another place nearby is so many blocks away at most.
const NEARBY: u64 = 32;

/// Something that a drive gets wrong at times, and answers as if it had been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lie {
    /// A write never comes to the media: it is lost, or a phantom.
    LostWrite,
    /// A write comes to another place.
    MisdirectedWrite,
    /// A flush does nothing, and a forced write stays in the cache.
    IgnoredFlush,
    /// One read brings wrong data; the next one brings what is there.
    WrongRead,
    /// A block is again what it was before it was written last.
    OldContent,
    /// A discard takes place late, over what has been written since.
    LateDiscard,
    /// A discard is partial, leaves garbage, or is undone by power loss.
    BadDiscard,
}

impl Lie {
    /// Every one.
    pub const ALL: [Lie; 7] = [
        Lie::LostWrite,
        Lie::MisdirectedWrite,
        Lie::IgnoredFlush,
        Lie::WrongRead,
        Lie::OldContent,
        Lie::LateDiscard,
        Lie::BadDiscard,
    ];
}

/// How a drive lies.
struct Lying {
    lie: Lie,
    /// One operation that can be one in so many is.
    once_in: u64,
    /// So many more are.
    times: u64,
    random: Random,
}

/// How a drive lies, if it does.
#[derive(Default)]
pub(super) struct Lies {
    now: RefCell<Option<Lying>>,
}

impl Lies {
    /// An operation that this could be is one: what decides the rest.
    fn tell(&self, lie: Lie) -> Option<Random> {
        let mut now = self.now.borrow_mut();
        let lying = now.as_mut().filter(|lying| lying.lie == lie)?;
        if lying.times == 0 || !lying.random.once_in(lying.once_in) {
            return None;
        }
        lying.times -= 1;
        Some(Random::new(lying.random.word()))
    }
}

impl SimDrive {
    /// From now on one in `once_in` of the operations that can be such a lie is, so many times.
    pub fn lie(&self, lie: Lie, once_in: u64, times: u64) {
        let random = Random::new(self.power.random.word());
        self.media.borrow_mut().remember(lie == Lie::OldContent);
        self.lies.now.replace(Some(Lying {
            lie,
            once_in,
            times,
            random,
        }));
    }

    /// From now on it does what it says. What it got wrong stays so; what it put off is done no
    /// more.
    pub fn tell_truth(&self) {
        let mut media = self.media.borrow_mut();
        media.remember(false);
        media.forget_discards();
        self.lies.now.replace(None);
    }

    /// Whether a drive that was to lie so many times has done so that often.
    pub fn has_lied(&self) -> bool {
        let now = self.lies.now.borrow();
        now.as_ref().is_some_and(|lying| lying.times == 0)
    }

    /// Whether a discard has been answered and has not taken place.
    pub fn puts_off_a_discard(&self) -> bool {
        self.media.borrow().puts_off()
    }

    /// A block that was written since it began to lie so, if there is one, is what it was before.
    pub(super) fn may_bring_back(&self) {
        if let Some(random) = self.lies.tell(Lie::OldContent) {
            self.media.borrow_mut().bring_back(&random);
        }
    }

    /// Where a write of so many blocks lands, if it does.
    pub(super) fn lands_at(&self, block: u64, blocks: u64) -> Option<u64> {
        if self.lies.tell(Lie::LostWrite).is_some() {
            return None;
        }
        let Some(random) = self.lies.tell(Lie::MisdirectedWrite) else {
            return Some(block);
        };
        let media = self.media.borrow();
        // Mostly onto something, where it does harm, or nearby, where what comes next belongs.
        let nth = random.below(media.durable.len() as u64) as usize;
        let at = match (random.below(8), media.durable.keys().nth(nth)) {
            (0..4, Some(at)) => *at,
            (0..7, _) => block + random.below(NEARBY),
            _ => random.below(self.blocks),
        };
        Some(at.min(self.blocks - blocks))
    }

    /// Whether a flush does nothing, or a forced write is forced.
    pub(super) fn ignores_flush(&self) -> bool {
        self.lies.tell(Lie::IgnoredFlush).is_some()
    }

    /// One of the blocks that are read may be wrong.
    pub(super) fn may_read_wrong(&self, buffer: &mut [u8]) {
        let Some(random) = self.lies.tell(Lie::WrongRead) else {
            return;
        };
        let place = random.below((buffer.len() / BLOCK) as u64) as usize;
        let Some(block) = buffer.chunks_mut(BLOCK).nth(place) else {
            return;
        };
        let media = self.media.borrow();
        let nth = random.below(media.durable.len() as u64) as usize;
        match media.durable.values().nth(nth) {
            Some(other) if random.once_in(2) => block.copy_from_slice(other),
            _ => block[random.below(BLOCK as u64) as usize] ^= 1 << random.below(8),
        }
    }

    /// What a discard really does, and of which blocks. Nothing: it is put off.
    pub(super) fn forgets(&self, inside: Range<u64>) -> Option<(Range<u64>, Forgets)> {
        if let Some(random) = self.lies.tell(Lie::LateDiscard) {
            let writes = random.below(4);
            self.media.borrow_mut().put_off(inside, writes);
            return None;
        }
        let Some(random) = self.lies.tell(Lie::BadDiscard) else {
            return Some((inside, Forgets::All));
        };
        let (first, blocks) = (inside.start, inside.end - inside.start);
        let from = random.below(blocks);
        let to = from + random.below(blocks - from + 1);
        Some(match random.below(3) {
            0 => (first + from..first + to, Forgets::All),
            1 => (inside, Forgets::ForGarbage(random)),
            _ => (inside, Forgets::UntilPowerLoss),
        })
    }
}

//! [`Eras`]: how far merges have come, who reads as of which of them, and what was freed that they
//! may still be in. No I/O.

use crate::ids::Era;
use crate::mutation::Mutation;
use crate::segments::readers::Readers;
use crate::segments::zones::Zone;
use crate::shard::limbo::{Freed, Limbo};
use reactor::mailbox::Sender;

/// The eras of a shard: a reader holds on to the one in which it began.
#[derive(Default)]
pub(crate) struct Eras {
    /// Counts the merges.
    now: Era,
    readers: Readers,
    /// What was freed but a reader may still be in.
    limbo: Limbo,
    /// Who waits for the readers of an era and of earlier ones to end.
    retiring: Vec<(Era, Sender<()>)>,
}

impl Eras {
    /// A reader begins; returns its era.
    pub fn enter(&mut self) -> Era {
        self.readers.enter(self.now);
        self.now
    }

    /// A reader of `era` has ended. True when it was the last of its era.
    pub fn leave(&mut self, era: Era) -> bool {
        assert!(era <= self.now, "a reader that ends has begun");
        self.readers.leave(era)
    }

    /// This is free once the readers of this era and of earlier ones have ended.
    pub fn free(&mut self, freed: impl IntoIterator<Item = Freed>) {
        self.limbo.add(self.now, freed);
    }

    /// Who begins from now on sees what has become of the maps.
    pub fn begin_next(&mut self) {
        self.now = self.now.next();
    }

    /// The next era begins. `reply` is answered by [`take_free`](Eras::take_free) once the readers
    /// of this one and of earlier ones have ended.
    pub fn tell_when_over(&mut self, reply: Sender<()>) {
        self.retiring.push((self.now, reply));
        self.begin_next();
    }

    /// Takes out what was freed in an era that no reader is in any more, and tells who waited for
    /// that.
    pub fn take_free(&mut self) -> Vec<Freed> {
        let oldest = match Mutation::FreesUnderReaders.is_planted() {
            true => None,
            false => self.readers.oldest(),
        };
        self.retiring.retain(|(era, reply)| {
            let ended = oldest.is_none_or(|oldest| *era < oldest);
            // Who asked may have gone.
            let _ = ended.then(|| reply.try_send(()));
            !ended
        });
        self.limbo.take_before(oldest)
    }

    pub fn limbo(&self) -> &Limbo {
        &self.limbo
    }

    /// Forgets zones in limbo for which `stays` does not hold.
    pub fn retain_zones(&mut self, stays: impl Fn(Zone) -> bool) {
        self.limbo.retain_zones(stays);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(drive: u8) -> Freed {
        Freed::Zone(Zone { drive, index: 1 })
    }

    #[test]
    fn what_is_freed_is_free_when_those_who_read_then_have_ended() {
        let mut eras = Eras::default();
        let early = eras.enter();
        eras.free([freed(1)]);
        eras.begin_next();
        let late = eras.enter();
        eras.free([freed(2)]);
        assert_eq!(eras.take_free(), [], "both may be in the first");
        assert!(eras.leave(early));
        assert_eq!(eras.take_free(), [freed(1)]);
        assert_eq!(eras.limbo().len(), 1);
        assert!(eras.leave(late));
        assert_eq!(eras.take_free(), [freed(2)]);
    }

    #[test]
    fn who_retires_an_era_hears_when_its_readers_have_ended() {
        let mut eras = Eras::default();
        let (sender, mut receiver) = reactor::mailbox::channel(1);
        let era = eras.enter();
        eras.tell_when_over(sender);
        assert!(eras.take_free().is_empty() && receiver.try_recv().is_none());
        assert!(eras.enter() > era, "others begin in the next");
        assert!(eras.leave(era) && eras.take_free().is_empty());
        assert!(receiver.try_recv().is_some());
    }

    #[test]
    #[should_panic(expected = "a reader that ends has begun")]
    fn no_reader_ends_of_an_era_to_come() {
        Eras::default().leave(Era::default().next());
    }
}

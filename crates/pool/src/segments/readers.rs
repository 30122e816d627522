//! [`Readers`]: how many read as of which era, so that nothing is overwritten below them. No I/O.

use crate::ids::Era;
use std::collections::VecDeque;

/// Readers by the era in which they began. Every read comes and goes through here: it allocates
/// nothing.
#[derive(Default)]
pub(crate) struct Readers {
    /// Eras and their readers, the oldest first; that one is not without any.
    eras: VecDeque<(Era, usize)>,
}

impl Readers {
    /// A reader begins in `era`, which is none before that of any other.
    pub fn enter(&mut self, era: Era) {
        match self.eras.back_mut() {
            Some((last, readers)) if *last == era => *readers += 1,
            _ => self.eras.push_back((era, 1)),
        }
    }

    /// One of them ends. True when it was the last of its era.
    pub fn leave(&mut self, era: Era) -> bool {
        let mut eras = self.eras.iter_mut().rev();
        let Some((_, readers)) = eras.find(|(other, _)| *other == era) else {
            return false;
        };
        *readers -= 1;
        let ended = *readers == 0;
        while self
            .eras
            .pop_front_if(|(_, readers)| *readers == 0)
            .is_some()
        {}
        ended
    }

    /// The oldest era that has a reader.
    pub fn oldest(&self) -> Option<Era> {
        self.eras.front().map(|(era, _)| *era)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_era_is_the_first_that_still_has_readers() {
        let mut readers = Readers::default();
        let third = Era::default().next().next().next();
        let fourth = third.next();
        let seventh = fourth.next().next().next();
        assert_eq!(readers.oldest(), None);
        for era in [third, third, fourth, seventh, seventh] {
            readers.enter(era);
        }
        assert!(readers.leave(fourth), "the only one");
        assert!(!readers.leave(third));
        assert_eq!(readers.oldest(), Some(third));
        assert!(readers.leave(third));
        assert_eq!(readers.oldest(), Some(seventh));
        readers.enter(seventh);
        assert!(!readers.leave(seventh) && !readers.leave(seventh));
        assert!(readers.leave(seventh) && readers.oldest().is_none());
    }
}

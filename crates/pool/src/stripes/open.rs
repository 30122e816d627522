//! [`OpenSegments`]: the data segments that stripes go to. No I/O.

use crate::ids::SegmentNumber;
use crate::stripes::class::Class;

/// One segment of each class, or none.
#[derive(Debug, Default)]
pub(crate) struct OpenSegments {
    of: [Option<SegmentNumber>; Class::COUNT],
    /// One was opened since upkeep last looked.
    was_opened: bool,
}

impl OpenSegments {
    pub fn get(&self, class: Class) -> Option<SegmentNumber> {
        self.of[class as usize]
    }

    /// Stripes of `class` go to a segment from now on.
    pub fn open(&mut self, class: Class, number: SegmentNumber) {
        assert!(!self.of.contains(&Some(number)), "one class has a segment");
        let before = self.of[class as usize].replace(number);
        assert!(before.is_none(), "a class has one open segment");
        self.was_opened = true;
    }

    /// Stripes of `class` go to its segment no more.
    pub fn close(&mut self, class: Class) {
        self.of[class as usize] = None;
    }

    /// No stripe goes to this segment any more, whichever class has it.
    pub fn forget(&mut self, number: SegmentNumber) {
        for open in &mut self.of {
            open.take_if(|open| *open == number);
        }
    }

    /// Closes all; returns what was open.
    pub fn close_all(&mut self) -> impl Iterator<Item = SegmentNumber> + use<> {
        std::mem::take(&mut self.of).into_iter().flatten()
    }

    /// Whether a segment was opened since this was last asked.
    pub fn take_opened(&mut self) -> bool {
        std::mem::take(&mut self.was_opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SegmentNumber = SegmentNumber::new(1);

    #[test]
    fn a_segment_is_open_until_its_class_closes_it_or_it_is_forgotten() {
        let mut open = OpenSegments::default();
        open.open(Class::HostWide, ONE);
        assert!(open.take_opened() && !open.take_opened());
        assert_eq!(open.get(Class::HostWide), Some(ONE));
        open.close(Class::HostWide);
        open.open(Class::Moved, ONE);
        open.forget(ONE);
        assert_eq!(open.close_all().count(), 0);
    }

    #[test]
    #[should_panic(expected = "one class has a segment")]
    fn two_classes_do_not_write_one_segment() {
        let mut open = OpenSegments::default();
        open.open(Class::HostWide, ONE);
        open.open(Class::Moved, ONE);
    }
}

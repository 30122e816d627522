//! [`Table`]: segments in the order of their numbers. Whoever reads, writes, merges or cleans a
//! block asks for its segment, so finding one takes a few steps through memory that stays in the
//! cache. No I/O.

use crate::segments::Segment;
use std::collections::{BTreeMap, BTreeSet};

/// Every segment that is not free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// Sorted. They are given in ascending order, so a new one is mostly the last.
    numbers: Vec<u32>,
    segments: Vec<Segment>,
}

impl Table {
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn contains(&self, number: u32) -> bool {
        self.numbers.binary_search(&number).is_ok()
    }

    pub fn get(&self, number: u32) -> Option<&Segment> {
        let place = self.numbers.binary_search(&number).ok()?;
        self.segments.get(place)
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut Segment> {
        let place = self.numbers.binary_search(&number).ok()?;
        self.segments.get_mut(place)
    }

    /// Puts a segment in, in place of the one of that number if there is one.
    pub fn insert(&mut self, number: u32, segment: Segment) {
        match self.numbers.binary_search(&number) {
            Ok(place) => self.segments[place] = segment,
            Err(place) => {
                self.numbers.insert(place, number);
                self.segments.insert(place, segment);
            }
        }
    }

    /// Takes segments out, in one walk however many they are.
    pub fn remove_all(&mut self, numbers: &BTreeSet<u32>) {
        if numbers.is_empty() {
            return;
        }
        let mut each = self.numbers.iter();
        let mut stays = not_among(numbers);
        self.segments
            .retain(|_| each.next().is_none_or(|number| stays(*number)));
        let mut stays = not_among(numbers);
        self.numbers.retain(|number| stays(*number));
    }

    pub fn iter(&self) -> impl Iterator<Item = (&u32, &Segment)> + Clone {
        self.numbers.iter().zip(&self.segments)
    }

    pub fn values(&self) -> impl Iterator<Item = &Segment> + Clone {
        self.segments.iter()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.segments.iter_mut()
    }
}

/// Tells of ascending numbers, one after the other, whether each is not among others.
fn not_among(others: &BTreeSet<u32>) -> impl FnMut(u32) -> bool {
    let mut others = others.iter().peekable();
    move |number| {
        while others.next_if(|other| **other < number).is_some() {}
        others.next_if(|other| **other == number).is_none()
    }
}

impl From<BTreeMap<u32, Segment>> for Table {
    fn from(map: BTreeMap<u32, Segment>) -> Table {
        let (numbers, segments) = map.into_iter().unzip();
        Table { numbers, segments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::Kind;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in proptest::collection::vec((any::<bool>(), 0u32..40), 1..200)) {
            let mut table = Table::default();
            let mut map = BTreeMap::new();
            for (turn, (put, number)) in (0..).zip(steps) {
                if put {
                    let segment = Segment::new(Kind::Wide, turn, Vec::new());
                    table.insert(number, segment.clone());
                    map.insert(number, segment);
                } else {
                    let numbers = BTreeSet::from([number, (number * 7 + turn) % 40]);
                    table.remove_all(&numbers);
                    map.retain(|number, _| !numbers.contains(number));
                }
                prop_assert_eq!(table.get(number), map.get(&number));
                prop_assert_eq!(table.contains(number), map.contains_key(&number));
                if let Some(segment) = table.get_mut(number) {
                    segment.rows += 1;
                }
                map.entry(number).and_modify(|segment| segment.rows += 1);
                prop_assert!(table.iter().eq(map.iter()) && table.values().eq(map.values()));
                prop_assert_eq!(table.len(), map.len());
            }
            prop_assert_eq!(Table::from(map), table);
        }
    }
}

//! [`Chunked`]: entries in the order of their numbers, of which a copy costs a pointer for some
//! hundred of them. A change of an entry copies its piece first, if a copy has that piece too. So a
//! pool is shown as it is at one instant, however large it is, and nobody waits for it.
//!
//! Lookups, walks and copies [count](reactor::count_work) as work, where a simulation asks.

use crate::ids::Number;
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::iter::FusedIterator;
use std::slice;
use std::sync::Arc;

/// Entries of one piece, at most.
const MOST: usize = 512;
/// Pieces that have fewer entries together become one.
const FEW: usize = MOST / 2;
/// What a lookup, and what a copy of an entry counts, beside a look at one in a walk.
const LOOKUP: u64 = 2;
const COPY: u64 = 16;

/// Entries, each with a number of its own.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<N, T> {
    /// The entries of a piece have this number or higher ones, and those of pieces before lower
    /// ones.
    firsts: Vec<N>,
    /// None is empty.
    pieces: Vec<Arc<Piece<N, T>>>,
    len: usize,
}

/// As many numbers, in their order, as entries.
#[derive(Clone, Debug)]
struct Piece<N, T> {
    numbers: Vec<N>,
    entries: Vec<T>,
}

impl<N: Clone, T: Clone> Piece<N, T> {
    /// A piece that nobody else has.
    fn own(this: &mut Arc<Self>) -> &mut Piece<N, T> {
        if Arc::strong_count(this) > 1 {
            reactor::count_work(COPY * this.numbers.len() as u64);
        }
        Arc::make_mut(this)
    }
}

impl<N, T> Default for Chunked<N, T> {
    fn default() -> Chunked<N, T> {
        Chunked {
            firsts: Vec::new(),
            pieces: Vec::new(),
            len: 0,
        }
    }
}

impl<N: Number, T> Chunked<N, T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The piece in which a number is, if it is anywhere. Entries that came in ascending order, and
    /// without a gap, are where their numbers say.
    fn piece_of(&self, number: N) -> Option<usize> {
        let likely = number.index() / MOST;
        let is_from = |at: usize| self.firsts.get(at).is_some_and(|first| *first <= number);
        if is_from(likely) && !is_from(likely + 1) {
            return Some(likely);
        }
        let behind = self.firsts.partition_point(|first| *first <= number);
        behind.checked_sub(1)
    }

    fn find(&self, number: N) -> Option<(usize, usize)> {
        reactor::count_work(LOOKUP);
        let at = self.piece_of(number)?;
        let numbers = &self.pieces[at].numbers;
        let likely = number.index() - self.firsts[at].index();
        let place = match numbers.get(likely) == Some(&number) {
            true => likely,
            false => numbers.binary_search(&number).ok()?,
        };
        Some((at, place))
    }

    pub fn contains_key(&self, number: impl Borrow<N>) -> bool {
        self.find(*number.borrow()).is_some()
    }

    pub fn get(&self, number: impl Borrow<N>) -> Option<&T> {
        let (at, place) = self.find(*number.borrow())?;
        self.pieces[at].entries.get(place)
    }

    pub fn iter(&self) -> Iter<'_, N, T> {
        self.walk(0, 0)
    }

    /// Those of this number and higher ones.
    pub fn iter_from(&self, number: N) -> Iter<'_, N, T> {
        let at = self.piece_of(number).unwrap_or(0);
        let first = self.pieces.get(at);
        let lower = first.map_or(0, |it| it.numbers.partition_point(|other| *other < number));
        self.walk(at, lower)
    }

    /// Those of a piece behind so many of its own, and of the pieces behind it.
    fn walk(&self, at: usize, lower: usize) -> Iter<'_, N, T> {
        let mut pieces = self.pieces[at.min(self.pieces.len())..].iter();
        let (mut numbers, mut entries) = (&[][..], &[][..]);
        let before: usize = self.pieces[..at].iter().map(|it| it.numbers.len()).sum();
        if let Some(first) = pieces.next() {
            (numbers, entries) = (&first.numbers[lower..], &first.entries[lower..]);
        }
        Iter {
            pieces,
            numbers: numbers.iter(),
            entries: entries.iter(),
            left: self.len - before - lower,
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = &N> + Clone {
        self.iter().map(|(number, _)| number)
    }

    pub fn values(&self) -> impl Iterator<Item = &T> + Clone {
        self.iter().map(|(_, entry)| entry)
    }

    /// The highest number.
    pub fn last_key(&self) -> Option<N> {
        self.pieces.last()?.numbers.last().copied()
    }
}

impl<N: Number, T: Clone> Chunked<N, T> {
    pub fn get_mut(&mut self, number: impl Borrow<N>) -> Option<&mut T> {
        let (at, place) = self.find(*number.borrow())?;
        Piece::own(&mut self.pieces[at]).entries.get_mut(place)
    }

    /// Puts an entry in, and returns the one of that number that it takes the place of.
    pub fn insert(&mut self, number: N, entry: T) -> Option<T> {
        reactor::count_work(LOOKUP);
        let at = match self.piece_of(number) {
            Some(at) => at,
            None if self.pieces.is_empty() => {
                self.append(number, entry);
                return None;
            }
            None => {
                self.firsts[0] = number;
                0
            }
        };
        let found = self.pieces[at].numbers.binary_search(&number);
        let place = match found {
            Ok(place) => {
                let there = &mut Piece::own(&mut self.pieces[at]).entries[place];
                return Some(std::mem::replace(there, entry));
            }
            Err(place) => place,
        };
        let full = self.pieces[at].numbers.len() >= MOST;
        if full && place == MOST && at + 1 == self.pieces.len() {
            // They are mostly given in ascending order: the pieces before stay full.
            self.append(number, entry);
            return None;
        }
        let (at, place) = match full {
            true => self.split(at, place),
            false => (at, place),
        };
        let piece = Piece::own(&mut self.pieces[at]);
        piece.numbers.insert(place, number);
        piece.entries.insert(place, entry);
        self.len += 1;
        None
    }

    /// Adds an entry behind all others, in a piece of its own.
    fn append(&mut self, number: N, entry: T) {
        let (mut numbers, mut entries) = (Vec::with_capacity(8), Vec::with_capacity(8));
        numbers.push(number);
        entries.push(entry);
        self.firsts.push(number);
        self.pieces.push(Arc::new(Piece { numbers, entries }));
        self.len += 1;
    }

    /// Makes two of a full piece; says where the place in it is now.
    fn split(&mut self, at: usize, place: usize) -> (usize, usize) {
        let piece = Piece::own(&mut self.pieces[at]);
        let numbers = piece.numbers.split_off(MOST / 2);
        let entries = piece.entries.split_off(MOST / 2);
        self.firsts.insert(at + 1, numbers[0]);
        self.pieces
            .insert(at + 1, Arc::new(Piece { numbers, entries }));
        match place.checked_sub(MOST / 2) {
            // At the border it goes to the lower half, whose numbers it is nearer to.
            Some(0) | None => (at, place),
            Some(place) => (at + 1, place),
        }
    }

    pub fn remove(&mut self, number: impl Borrow<N>) -> Option<T> {
        let (at, place) = self.find(*number.borrow())?;
        let piece = Piece::own(&mut self.pieces[at]);
        piece.numbers.remove(place);
        let entry = piece.entries.remove(place);
        let few = piece.numbers.len() < FEW / 2;
        self.len -= 1;
        if few {
            self.pack();
        }
        Some(entry)
    }

    /// Takes entries out, in one walk however many they are.
    pub fn remove_all(&mut self, numbers: &BTreeSet<N>) {
        let mut numbers = numbers.iter().copied().peekable();
        while let Some(number) = numbers.next() {
            let Some(at) = self.piece_of(number) else {
                continue;
            };
            let end = self.firsts.get(at + 1).copied();
            let inside = |other: &N| end.is_none_or(|end| *other < end);
            let more = std::iter::from_fn(|| numbers.next_if(inside));
            let those: BTreeSet<N> = std::iter::once(number).chain(more).collect();
            self.retain_in(at, |number, _| !those.contains(number));
        }
        self.pack();
    }

    /// Takes out all but those for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&N, &T) -> bool) {
        for at in 0..self.pieces.len() {
            self.retain_in(at, &mut keep);
        }
        self.pack();
    }

    /// The same in one piece, which may be empty then.
    fn retain_in(&mut self, at: usize, mut keep: impl FnMut(&N, &T) -> bool) {
        let piece = &self.pieces[at];
        let all = piece.numbers.iter().zip(&piece.entries);
        let kept: Vec<bool> = all.map(|(number, entry)| keep(number, entry)).collect();
        reactor::count_work(kept.len() as u64);
        let gone = kept.iter().filter(|keeps| !**keeps).count();
        if gone == 0 {
            return;
        }
        self.len -= gone;
        let piece = Piece::own(&mut self.pieces[at]);
        let mut each = kept.iter();
        piece.numbers.retain(|_| *each.next().unwrap_or(&true));
        let mut each = kept.iter();
        piece.entries.retain(|_| *each.next().unwrap_or(&true));
    }

    /// Drops pieces that are empty, and makes one of neighbours that have few entries.
    fn pack(&mut self) {
        let mut at = 0;
        while at < self.pieces.len() {
            let len = self.pieces[at].numbers.len();
            let before = at.checked_sub(1);
            let before = before.filter(|it| self.pieces[*it].numbers.len() + len <= FEW);
            match before {
                _ if len == 0 => self.take_piece(at),
                Some(before) => {
                    let mut piece = self.pieces[at].clone();
                    self.take_piece(at);
                    let piece = Piece::own(&mut piece);
                    let onto = Piece::own(&mut self.pieces[before]);
                    onto.numbers.append(&mut piece.numbers);
                    onto.entries.append(&mut piece.entries);
                }
                None => at += 1,
            }
        }
    }

    fn take_piece(&mut self, at: usize) {
        self.firsts.remove(at);
        self.pieces.remove(at);
    }

    /// Changes some entries, `most` at most, from that of a number on. Returns from which one on
    /// there are others.
    pub fn change_some(
        &mut self,
        from: N,
        most: usize,
        mut change: impl FnMut(&N, &mut T),
    ) -> Option<N> {
        let mut left = most;
        for at in self.piece_of(from).unwrap_or(0)..self.pieces.len() {
            let first = self.pieces[at].numbers.partition_point(|it| *it < from);
            let behind = self.pieces[at].numbers.len().min(first + left);
            if first < behind {
                let piece = Piece::own(&mut self.pieces[at]);
                let entries = &mut piece.entries[first..behind];
                for (number, entry) in piece.numbers[first..behind].iter().zip(entries) {
                    change(number, entry);
                }
                reactor::count_work((behind - first) as u64);
                left -= behind - first;
            }
            if let Some(next) = self.pieces[at].numbers.get(behind) {
                return Some(*next);
            }
        }
        None
    }
}

/// A walk through entries in their order.
#[derive(Debug)]
pub(crate) struct Iter<'a, N, T> {
    pieces: slice::Iter<'a, Arc<Piece<N, T>>>,
    numbers: slice::Iter<'a, N>,
    entries: slice::Iter<'a, T>,
    left: usize,
}

impl<N, T> Clone for Iter<'_, N, T> {
    fn clone(&self) -> Self {
        Iter {
            pieces: self.pieces.clone(),
            numbers: self.numbers.clone(),
            entries: self.entries.clone(),
            left: self.left,
        }
    }
}

impl<'a, N, T> Iterator for Iter<'a, N, T> {
    type Item = (&'a N, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let (Some(number), Some(entry)) = (self.numbers.next(), self.entries.next()) {
                reactor::count_work(1);
                self.left -= 1;
                return Some((number, entry));
            }
            let piece = self.pieces.next()?;
            self.numbers = piece.numbers.iter();
            self.entries = piece.entries.iter();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<N, T> ExactSizeIterator for Iter<'_, N, T> {}

impl<N, T> FusedIterator for Iter<'_, N, T> {}

impl<'a, N: Number, T> IntoIterator for &'a Chunked<N, T> {
    type Item = (&'a N, &'a T);
    type IntoIter = Iter<'a, N, T>;

    fn into_iter(self) -> Iter<'a, N, T> {
        self.iter()
    }
}

impl<N: Number, T: Clone> Extend<(N, T)> for Chunked<N, T> {
    fn extend<I: IntoIterator<Item = (N, T)>>(&mut self, entries: I) {
        for (number, entry) in entries {
            self.insert(number, entry);
        }
    }
}

impl<N: Number, T: Clone> FromIterator<(N, T)> for Chunked<N, T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(entries: I) -> Chunked<N, T> {
        let mut all = Chunked::default();
        all.extend(entries);
        all
    }
}

/// However the pieces are cut.
impl<N: Number, T: PartialEq> PartialEq for Chunked<N, T> {
    fn eq(&self, other: &Chunked<N, T>) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<N: Number, T: Eq> Eq for Chunked<N, T> {}

#[cfg(test)]
mod tests;

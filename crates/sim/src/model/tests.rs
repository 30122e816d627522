use super::*;
use crate::random::Random;

fn write(submitted: u64, stamp: Stamp) -> Write {
    Write {
        submitted,
        start: 3,
        stamps: vec![stamp],
        atomic: true,
    }
}

#[test]
fn an_acknowledged_write_leaves_only_what_overlapped_it() {
    let mut image = Image::zeroes(10);
    image.submit(1, write(1, 11));
    assert_eq!(image.allowed(3), [0, 11]);
    image.submit(2, write(2, 22));
    image.acknowledge(1, 3);
    assert_eq!(image.allowed(3), [11, 22]);
    image.acknowledge(2, 4);
    assert_eq!(image.allowed(3), [11, 22], "both were in flight together");
    image.submit(3, write(5, 33));
    image.acknowledge(3, 6);
    assert_eq!(image.allowed(3), [33]);
    image.submit(4, write(7, 44));
    image.fail(4, 8);
    assert_eq!(image.allowed(3), [33, 44]);
    image.submit(5, write(9, 55));
    image.acknowledge(5, 10);
    assert_eq!(image.allowed(3), [55]);
}

#[test]
fn a_write_that_failed_beside_another_may_have_come_after_it() {
    let mut image = Image::zeroes(10);
    image.submit(1, write(1, 11));
    image.submit(2, write(2, 22));
    image.fail(1, 3);
    image.acknowledge(2, 4);
    assert_eq!(image.allowed(3), [22, 11]);
    image.submit(3, write(5, 33));
    image.acknowledge(3, 6);
    assert_eq!(image.allowed(3), [33]);
}

#[test]
fn half_of_an_atomic_write_is_noticed() {
    let mut image = Image::zeroes(10);
    let both = Write {
        submitted: 1,
        start: 3,
        stamps: vec![7, 8],
        atomic: true,
    };
    image.submit(1, both);
    assert_eq!(image.torn(&BTreeMap::from([(3, 7), (4, 8)])), None);
    assert_eq!(image.torn(&BTreeMap::new()), None);
    assert_eq!(image.torn(&BTreeMap::from([(3, 7)])), Some(1));
}

#[test]
fn a_write_that_met_another_in_flight_may_be_half_there() {
    let mut image = Image::zeroes(10);
    let both = Write {
        stamps: vec![7, 8],
        ..write(1, 0)
    };
    image.submit(1, both);
    image.submit(2, write(2, 22));
    image.acknowledge(2, 3);
    assert_eq!(image.torn(&BTreeMap::from([(3, 22), (4, 8)])), None);
}

#[test]
fn a_read_that_saw_half_of_an_atomic_write_is_noticed() {
    let mut image = Image::zeroes(10);
    let both = Write {
        stamps: vec![7, 8],
        ..write(2, 0)
    };
    image.begin_read(1, 2, 4);
    image.submit(2, both);
    let mut at = 3;
    let mut half = |image: &Image, stamps: &[Stamp]| {
        at += 1;
        image.clone().end_read(1, at, stamps).is_err()
    };
    for acknowledged in [false, true] {
        if acknowledged {
            image.acknowledge(2, 3);
        }
        assert!(!half(&image, &[0, 7, 8, 0]));
        assert!(!half(&image, &[0, 0, 0, 0]));
        assert!(half(&image, &[0, 7, 0, 0]));
    }
    let later = Write {
        start: 4,
        ..write(5, 9)
    };
    image.submit(5, later);
    assert!(!half(&image, &[0, 7, 9, 0]), "a later write came over it");
    image.end_read(1, 6, &[0, 7, 8, 0]).unwrap();
    assert!(image.beside_reads.is_empty() && !image.is_being_read());
}

/// A read that much happens beside.
#[test]
fn a_read_brings_what_was_there_while_it_was_under_way_and_nothing_else() {
    let mut image = Image::zeroes(10);
    image.submit(1, write(1, 11));
    image.acknowledge(1, 2);
    image.submit(3, write(3, 22));
    image.acknowledge(3, 4);
    image.begin_read(5, 3, 1);
    for (number, stamp) in [(6, 33), (8, 44), (10, 55)] {
        image.submit(number, write(number, stamp));
        image.acknowledge(number, number + 1);
    }
    image.begin_read(12, 3, 1);
    image.submit(13, write(13, 66));
    for (number, may) in [(5, &[22, 33, 44, 55, 66][..]), (12, &[55, 66])] {
        for stamp in [0, 11, 22, 33, 44, 55, 66, 77] {
            let read = image.clone().end_read(number, 14, &[stamp]);
            assert_eq!(read.is_ok(), may.contains(&stamp), "{stamp}: {read:?}");
        }
    }
}

#[test]
fn what_was_read_once_is_not_followed_by_what_was_before() {
    let mut image = Image::zeroes(10);
    image.submit(1, write(1, 11));
    image.acknowledge(1, 2);
    image.submit(3, write(3, 22));
    image.begin_read(4, 3, 1);
    image.end_read(4, 5, &[22]).unwrap();
    assert_eq!(image.allowed(3), [22], "not acknowledged, and there");
    image.submit(6, write(6, 33));
    image.acknowledge(3, 7);
    image.acknowledge(6, 8);
    assert_eq!(image.allowed(3), [33], "the other one had come before");
}

/// Two that were under way together, a third that failed: a read tells which came last.
#[test]
fn a_read_decides_between_writes_that_have_ended() {
    let mut image = Image::zeroes(10);
    image.submit(1, write(1, 11));
    image.submit(2, write(2, 22));
    image.submit(3, write(3, 33));
    image.acknowledge(1, 4);
    image.acknowledge(2, 5);
    image.fail(3, 6);
    image.begin_read(7, 3, 1);
    image.submit(8, write(8, 44));
    let mut decided = image.clone();
    decided.end_read(7, 9, &[11]).unwrap();
    assert_eq!(decided.allowed(3), [11, 44]);
    let mut failed = image.clone();
    failed.end_read(7, 9, &[33]).unwrap();
    assert_eq!(failed.allowed(3), [33, 44]);
    image.end_read(7, 9, &[44]).unwrap();
    assert_eq!(image.allowed(3), [44]);
}

/// Zeroes were written over and given back again while a read was under way that brought zeroes:
/// either ones, so the later ones may come yet.
#[test]
fn what_several_writes_bring_may_be_of_the_earlier_one() {
    let mut image = Image::zeroes(10);
    image.begin_read(1, 3, 1);
    image.submit(2, write(2, 11));
    image.acknowledge(2, 3);
    image.submit(4, write(4, 0));
    image.end_read(1, 5, &[0]).unwrap();
    assert_eq!(image.allowed(3), [11, 0]);
    image.begin_read(6, 3, 1);
    image.acknowledge(4, 7);
    image.submit(8, write(8, 22));
    image.end_read(6, 9, &[11]).unwrap();
    assert_eq!(image.allowed(3), [0, 22]);
}

/// What a write that failed gave back is no part of what was there before.
#[test]
fn a_write_that_failed_may_hide_half_of_an_atomic_one() {
    let mut image = Image::zeroes(10);
    image.begin_read(1, 3, 2);
    let both = Write {
        stamps: vec![7, 8],
        ..write(2, 0)
    };
    image.submit(2, both);
    image.acknowledge(2, 3);
    image.submit(4, write(4, 0));
    image.fail(4, 5);
    image.end_read(1, 6, &[0, 8]).unwrap();
}

/// Blocks that change at one instant for each write, requests of them, and the model.
struct Beside {
    image: Image,
    blocks: [Stamp; 3],
    /// By number, and whether they have come.
    writes: BTreeMap<u64, (Write, bool)>,
    /// By number, with what they found, once they have looked.
    reads: BTreeMap<u64, Option<[Stamp; 3]>>,
}

impl Beside {
    fn step(&mut self, now: u64, random: &Random) {
        let pick = |of: Vec<u64>| of.get(random.below(of.len() as u64) as usize).copied();
        let write = pick(self.writes.keys().copied().collect());
        let read = pick(self.reads.keys().copied().collect());
        match (random.below(6), write, read) {
            (0, _, _) => self.submit(now, random),
            (1, _, _) => {
                self.image.begin_read(now, 0, 3);
                self.reads.insert(now, None);
            }
            (2, Some(number), _) => self.come(number),
            (3, Some(number), _) => {
                let (_, has_come) = self.writes.remove(&number).unwrap();
                match has_come && !random.once_in(8) {
                    true => self.image.acknowledge(number, now),
                    false => self.image.fail(number, now),
                }
            }
            (4, _, Some(number)) => *self.reads.get_mut(&number).unwrap() = Some(self.blocks),
            (5, _, Some(number)) => match self.reads.remove(&number).unwrap() {
                Some(found) => self.image.end_read(number, now, &found).unwrap(),
                None => self.image.give_up_read(number),
            },
            _ => {}
        }
        for (block, stamp) in (0..).zip(&self.blocks) {
            let allowed = self.image.allowed(block);
            assert!(allowed.contains(stamp), "{block}: {stamp}, not {allowed:?}");
        }
    }

    fn submit(&mut self, now: u64, random: &Random) {
        let start = random.below(3);
        let blocks = 1 + random.below(3 - start);
        let zeroes = random.once_in(2);
        let stamp = |place| if zeroes { 0 } else { (now << 8) + place };
        let write = Write {
            start,
            stamps: (1..=blocks).map(stamp).collect(),
            atomic: !zeroes,
            ..write(now, 0)
        };
        self.image.submit(now, write.clone());
        self.writes.insert(now, (write, false));
    }

    fn come(&mut self, number: u64) {
        let (write, has_come) = self.writes.get_mut(&number).unwrap();
        if !std::mem::replace(has_come, true) {
            let start = write.start as usize;
            self.blocks[start..][..write.stamps.len()].copy_from_slice(&write.stamps);
        }
    }
}

/// Whatever is under way together, the model refuses nothing that was there at an instant.
#[test]
fn what_was_there_at_an_instant_may_be_read() {
    for seed in 0..2000 {
        let random = Random::new(seed);
        let mut beside = Beside {
            image: Image::zeroes(3),
            blocks: [0; 3],
            writes: BTreeMap::new(),
            reads: BTreeMap::new(),
        };
        (1..200).for_each(|now| beside.step(now, &random));
    }
}

#[test]
fn a_snapshot_reads_as_it_did() {
    let mut image = Image::zeroes(10);
    image.submit(1, write(1, 11));
    image.fail(1, 1);
    assert!(image.clone().end_read_of_frozen(2, &[0, 22]).is_err());
    image.end_read_of_frozen(2, &[0, 11]).unwrap();
    assert!(image.end_read_of_frozen(2, &[0, 0]).is_err());
    assert!(image.end_read_of_frozen(3, &[11, 0]).is_ok());
}

#[test]
fn mixtures_have_no_stamp() {
    let mut block = [0; BLOCK];
    fill(77, &mut block);
    assert_eq!(stamp_of(&block), Some(77));
    block[512..1024].fill(0);
    assert_eq!(stamp_of(&block), None);
}

/// Nobody waits for a write any more: it comes at any time, but not behind what is begun then.
#[test]
fn a_write_that_was_left_may_come_until_a_later_one_has() {
    let mut image = Image::zeroes(10);
    image.submit(1, write(1, 11));
    image.submit(2, write(2, 22));
    image.leave(1, 3);
    image.acknowledge(2, 4);
    assert_eq!(
        image.allowed(3),
        [22, 11],
        "it was under way beside the other"
    );
    for at in [5, 7] {
        image.begin_read(at, 3, 1);
        assert_eq!(image.end_read(at, at + 1, &[22]), Ok(()));
    }
    image.pin(3, 22);
    assert_eq!(
        image.allowed(3),
        [22, 11],
        "no read says that it does not come"
    );
    let mut copy = image.copy();
    image.submit(9, write(9, 33));
    image.acknowledge(9, 10);
    assert_eq!(image.allowed(3), [33], "it would have come before");
    copy.pin(3, 11);
    assert_eq!(copy.allowed(3), [11], "nobody writes to a copy");
}

#[test]
fn a_write_that_was_left_is_whole_or_absent() {
    let both = |submitted, stamps| Write {
        submitted,
        start: 3,
        stamps,
        atomic: true,
    };
    let mut image = Image::zeroes(10);
    image.submit(1, both(1, vec![7, 8]));
    image.leave(1, 2);
    image.begin_read(3, 3, 2);
    assert!(image.end_read(3, 4, &[7, 0]).is_err(), "half was seen");
    let mut other = image.clone();
    image.end_left();
    assert_eq!(image.torn(&BTreeMap::from([(3, 7)])), Some(1));
    assert_eq!(image.torn(&BTreeMap::from([(3, 7), (4, 8)])), None);
    // Another one that hides half of it.
    other.submit(5, both(5, vec![9]));
    other.acknowledge(5, 6);
    other.end_left();
    assert_eq!(other.torn(&BTreeMap::from([(3, 9), (4, 8)])), None);
}

/// What was on its way to a volume may come when that has become another.
#[test]
fn what_was_left_outlives_a_rollback() {
    let mut image = Image::zeroes(10);
    image.submit(1, write(1, 11));
    image.leave(1, 2);
    image.become_like(Image::zeroes(10));
    assert_eq!(image.allowed(3), [0, 11]);
    image.end_left();
    image.pin(3, 0);
    assert_eq!(image.allowed(3), [0]);
}

//! Every kernel against the definition and against the portable kernel, on random shapes.

use std::ops::RangeInclusive;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::field::{multiply, power_of_two};
use crate::{Column, Kernel, Locality, MAX_DATA_COLUMNS, Mismatch, Survivors, Unrecoverable};

const LOCALITIES: [Locality; 3] = [Locality::Auto, Locality::Temporal, Locality::NonTemporal];

/// A stripe of random bytes in which every column starts at its own odd place, the lengths and
/// places chosen so that every kernel meets whole tiles, single lanes, single bytes and nothing.
#[derive(Clone, Debug)]
struct Shape {
    columns: usize,
    bytes: usize,
    offset: usize,
    seed: u64,
}

fn shape(columns: RangeInclusive<usize>) -> impl Strategy<Value = Shape> {
    let bytes = prop_oneof![
        0..200usize,
        0..3000usize,
        4000..9000usize,
        Just(4096),
        Just(8192)
    ];
    let offset = prop_oneof![Just(0usize), 0..64usize];
    (columns, bytes, offset, any::<u64>()).prop_map(|(columns, bytes, offset, seed)| Shape {
        columns,
        bytes,
        offset,
        seed,
    })
}

/// Bytes at a chosen distance from a multiple of 64, between guards that must not change.
struct Placed {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

const GUARD: u8 = 0xa5;

impl Placed {
    fn new(bytes: usize, offset: usize) -> Placed {
        let memory = vec![GUARD; bytes + offset + 256];
        let start = memory.as_ptr().align_offset(64) + 64 + offset;
        Placed {
            memory,
            start,
            bytes,
        }
    }

    fn random(bytes: usize, offset: usize, random: &mut Random) -> Placed {
        let mut placed = Placed::new(bytes, offset);
        random.fill(placed.slice_mut());
        placed
    }

    fn slice(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }

    fn slice_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }

    fn guards_hold(&self) -> bool {
        let (before, after) = (
            &self.memory[..self.start],
            &self.memory[self.start + self.bytes..],
        );
        before.iter().chain(after).all(|&byte| byte == GUARD)
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}

/// A stripe with the parity that the definition gives, byte by byte.
struct Stripe {
    data: Vec<Placed>,
    p: Vec<u8>,
    q: Vec<u8>,
    random: Random,
}

impl Stripe {
    fn new(shape: &Shape) -> Stripe {
        let mut random = Random(shape.seed);
        let data: Vec<Placed> = (0..shape.columns)
            .map(|column| {
                Placed::random(shape.bytes, (shape.offset * (column + 1)) % 64, &mut random)
            })
            .collect();
        let mut p = vec![0; shape.bytes];
        let mut q = vec![0; shape.bytes];
        for (number, column) in data.iter().enumerate() {
            let power = power_of_two(number);
            let products: [u8; 256] = std::array::from_fn(|byte| multiply(power, byte as u8));
            for ((p, q), &byte) in p.iter_mut().zip(&mut q).zip(column.slice()) {
                *p ^= byte;
                *q ^= products[usize::from(byte)];
            }
        }
        Stripe { data, p, q, random }
    }

    fn columns(&self) -> Vec<&[u8]> {
        self.data.iter().map(Placed::slice).collect()
    }
}

/// Runs `check` on `cases` random shapes, the same ones every time.
fn on_random_shapes(
    cases: u32,
    columns: RangeInclusive<usize>,
    check: impl Fn(Kernel, &Shape) -> Result<(), TestCaseError>,
) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let outcome = runner.run(&shape(columns), |shape| {
        for kernel in Kernel::available() {
            for locality in LOCALITIES {
                check(kernel.with_locality(locality), &shape)?;
            }
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn every_kernel_generates_what_the_definition_says() {
    // Each number of columns up to eight has a loop of its own.
    for columns in [1..=8, 1..=34] {
        on_random_shapes(150, columns, |kernel, shape| {
            let stripe = Stripe::new(shape);
            let mut p = Placed::new(shape.bytes, shape.offset);
            let mut q = Placed::new(shape.bytes, shape.offset);
            kernel.generate_pq(&stripe.columns(), p.slice_mut(), q.slice_mut());
            prop_assert!(p.slice() == stripe.p, "P of {kernel:?}");
            prop_assert!(q.slice() == stripe.q, "Q of {kernel:?}");
            let mut alone = Placed::new(shape.bytes, shape.offset);
            kernel.generate_p(&stripe.columns(), alone.slice_mut());
            prop_assert!(alone.slice() == stripe.p, "P alone of {kernel:?}");
            prop_assert!(p.guards_hold() && q.guards_hold() && alone.guards_hold());
            Ok(())
        });
    }
}

#[test]
fn every_kernel_protects_up_to_255_columns() {
    on_random_shapes(12, 1..=MAX_DATA_COLUMNS, |kernel, shape| {
        let columns = if shape.columns.is_multiple_of(3) {
            MAX_DATA_COLUMNS
        } else {
            shape.columns
        };
        let shape = Shape {
            columns,
            bytes: shape.bytes.min(700),
            ..*shape
        };
        let stripe = Stripe::new(&shape);
        let (mut p, mut q) = (vec![1; shape.bytes], vec![2; shape.bytes]);
        kernel.generate_pq(&stripe.columns(), &mut p, &mut q);
        prop_assert!(p == stripe.p, "P of {kernel:?}");
        prop_assert!(q == stripe.q, "Q of {kernel:?}");
        recovers(
            kernel,
            &stripe,
            &[Column::Data(columns - 1), Column::Data(0)],
        )
    });
}

#[test]
fn parity_of_no_columns_is_zero() {
    for kernel in Kernel::available() {
        for locality in LOCALITIES {
            let (mut p, mut q) = (vec![1; 1000], vec![2; 1000]);
            kernel
                .with_locality(locality)
                .generate_pq(&[], &mut p, &mut q);
            assert!(p.iter().chain(&q).all(|&byte| byte == 0), "{kernel:?}");
        }
    }
}

#[test]
fn accumulating_columns_in_any_order_and_in_pieces_gives_the_same_parity() {
    on_random_shapes(60, 1..=12, |kernel, shape| {
        let mut stripe = Stripe::new(shape);
        let mut p = Placed::new(shape.bytes, shape.offset);
        let mut q = Placed::new(shape.bytes, shape.offset);
        p.slice_mut().fill(0);
        q.slice_mut().fill(0);
        let mut order: Vec<usize> = (0..shape.columns).collect();
        for place in (1..order.len()).rev() {
            order.swap(place, stripe.random.below(place + 1));
        }
        let cut = stripe.random.below(shape.bytes + 1);
        for rows in [cut..shape.bytes, 0..cut] {
            for &column in &order {
                let data = &stripe.data[column].slice()[rows.clone()];
                let (p, q) = (
                    &mut p.slice_mut()[rows.clone()],
                    &mut q.slice_mut()[rows.clone()],
                );
                kernel.accumulate_pq(column, data, p, q);
            }
        }
        prop_assert!(p.slice() == stripe.p, "P of {kernel:?}");
        prop_assert!(q.slice() == stripe.q, "Q of {kernel:?}");
        prop_assert!(p.guards_hold() && q.guards_hold());
        Ok(())
    });
}

#[test]
fn updated_parity_is_that_of_the_new_data() {
    on_random_shapes(60, 1..=12, |kernel, shape| {
        let mut stripe = Stripe::new(shape);
        let changed = stripe.random.below(shape.columns);
        let mut p = Placed::new(shape.bytes, shape.offset);
        let mut q = Placed::new(shape.bytes, shape.offset);
        p.slice_mut().copy_from_slice(&stripe.p);
        q.slice_mut().copy_from_slice(&stripe.q);
        let new = Placed::random(shape.bytes, 7, &mut stripe.random);
        let old = std::mem::replace(&mut stripe.data[changed], new);
        let new = stripe.data[changed].slice();
        kernel.update_pq(changed, old.slice(), new, p.slice_mut(), q.slice_mut());
        prop_assert!(
            kernel
                .verify_pq(&stripe.columns(), p.slice(), q.slice())
                .none()
        );
        prop_assert!(p.guards_hold() && q.guards_hold());
        let mut by_xor = old.slice().to_vec();
        kernel.xor_into(&mut by_xor, new);
        kernel.xor_into(&mut by_xor, &stripe.p);
        prop_assert!(by_xor == p.slice(), "XOR of {kernel:?}");
        Ok(())
    });
}

/// Loses `lost`, recovers both, then each alone.
fn recovers(kernel: Kernel, stripe: &Stripe, lost: &[Column]) -> Result<(), TestCaseError> {
    let original = |column: &Column| match column {
        Column::Data(number) => stripe.data[*number].slice(),
        Column::P => &stripe.p,
        Column::Q => &stripe.q,
    };
    let data: Vec<Option<&[u8]>> = (0..stripe.data.len())
        .map(Column::Data)
        .map(|column| (!lost.contains(&column)).then(|| original(&column)))
        .collect();
    let survivors = Survivors {
        data: &data,
        p: (!lost.contains(&Column::P)).then_some(&stripe.p[..]),
        q: (!lost.contains(&Column::Q)).then_some(&stripe.q[..]),
    };
    let bytes = stripe.p.len();
    let alone = lost.iter().map(std::slice::from_ref);
    for wanted in alone.chain([lost]) {
        let mut found: Vec<Placed> = wanted
            .iter()
            .enumerate()
            .map(|(nth, _)| Placed::new(bytes, nth * 13))
            .collect();
        let mut into: Vec<(Column, &mut [u8])> = wanted
            .iter()
            .zip(&mut found)
            .map(|(column, placed)| (*column, placed.slice_mut()))
            .collect();
        prop_assert_eq!(kernel.recover(survivors, &mut into), Ok(()));
        for (column, found) in wanted.iter().zip(&found) {
            let same = found.slice() == original(column);
            prop_assert!(same, "{column} of lost {lost:?} by {kernel:?}");
            prop_assert!(found.guards_hold());
        }
    }
    Ok(())
}

#[test]
fn every_pair_of_columns_can_be_lost() {
    for columns in [1, 2, 3, 5, 9, 22] {
        let shape = Shape {
            columns,
            bytes: 333,
            offset: 3,
            seed: columns as u64,
        };
        let stripe = Stripe::new(&shape);
        let all: Vec<Column> = (0..columns)
            .map(Column::Data)
            .chain([Column::P, Column::Q])
            .collect();
        for kernel in Kernel::available() {
            for first in &all {
                for second in &all {
                    let lost = if first == second {
                        vec![*first]
                    } else {
                        vec![*first, *second]
                    };
                    recovers(kernel, &stripe, &lost).unwrap();
                }
            }
        }
    }
}

#[test]
fn every_kernel_recovers_on_every_shape() {
    on_random_shapes(60, 1..=34, |kernel, shape| {
        let mut stripe = Stripe::new(shape);
        let all: Vec<Column> = (0..shape.columns)
            .map(Column::Data)
            .chain([Column::P, Column::Q])
            .collect();
        let first = all[stripe.random.below(all.len())];
        let second = all[stripe.random.below(all.len())];
        let lost = if first == second {
            vec![first]
        } else {
            vec![first, second]
        };
        recovers(kernel, &stripe, &lost)
    });
}

#[test]
fn a_stripe_with_p_only_recovers_one_column() {
    let stripe = Stripe::new(&Shape {
        columns: 4,
        bytes: 100,
        offset: 0,
        seed: 1,
    });
    let mut data: Vec<Option<&[u8]>> = stripe.columns().into_iter().map(Some).collect();
    data[2] = None;
    let mut found = vec![0; 100];
    let survivors = Survivors {
        data: &data,
        p: Some(&stripe.p),
        q: None,
    };
    crate::recover(survivors, &mut [(Column::Data(2), &mut found)]).unwrap();
    assert_eq!(found, stripe.data[2].slice());
}

#[test]
fn what_cannot_be_recovered_is_refused_and_nothing_written() {
    let stripe = Stripe::new(&Shape {
        columns: 4,
        bytes: 100,
        offset: 0,
        seed: 2,
    });
    let whole: Vec<Option<&[u8]>> = stripe.columns().into_iter().map(Some).collect();
    let without = |lost: &[usize]| {
        let mut data = whole.clone();
        lost.iter().for_each(|&number| data[number] = None);
        data
    };
    let (p, q) = (Some(&stripe.p[..]), Some(&stripe.q[..]));
    let first = Column::Data(0);
    let cases = [
        (
            without(&[0, 1, 2]),
            p,
            q,
            first,
            Unrecoverable::TooManyLost { data: 3, parity: 2 },
        ),
        (
            without(&[0, 1]),
            p,
            None,
            first,
            Unrecoverable::TooManyLost { data: 2, parity: 1 },
        ),
        (
            without(&[0]),
            None,
            None,
            first,
            Unrecoverable::TooManyLost { data: 1, parity: 0 },
        ),
        (without(&[1]), p, q, first, Unrecoverable::NotLost(first)),
        (
            without(&[1]),
            p,
            q,
            Column::Q,
            Unrecoverable::NotLost(Column::Q),
        ),
        (
            without(&[1]),
            p,
            q,
            Column::Data(4),
            Unrecoverable::NoSuchColumn(Column::Data(4)),
        ),
    ];
    for (data, p, q, wanted, expected) in cases {
        let mut found = vec![9; 100];
        let survivors = Survivors { data: &data, p, q };
        let result = crate::recover(survivors, &mut [(wanted, &mut found)]);
        assert_eq!(result, Err(expected), "{expected}");
        assert!(found.iter().all(|&byte| byte == 9));
    }
    let (mut one, mut other) = (vec![9; 100], vec![9; 100]);
    let data = without(&[0]);
    let twice = &mut [(first, &mut one[..]), (first, &mut other[..])];
    let result = crate::recover(Survivors { data: &data, p, q }, twice);
    assert_eq!(result, Err(Unrecoverable::WantedTwice(first)));
}

#[test]
fn verification_finds_any_single_flipped_bit() {
    on_random_shapes(60, 1..=34, |kernel, shape| {
        let shape = Shape {
            bytes: shape.bytes.max(1),
            ..*shape
        };
        let mut stripe = Stripe::new(&shape);
        let (mut p, mut q) = (stripe.p.clone(), stripe.q.clone());
        prop_assert!(kernel.verify_pq(&stripe.columns(), &p, &q).none());
        prop_assert!(kernel.verify_p(&stripe.columns(), &p));
        let (at, bit) = (
            stripe.random.below(shape.bytes),
            1 << stripe.random.below(8),
        );
        p[at] ^= bit;
        let found = kernel.verify_pq(&stripe.columns(), &p, &q);
        prop_assert_eq!(found, Mismatch { p: true, q: false });
        prop_assert!(!kernel.verify_p(&stripe.columns(), &p));
        p[at] ^= bit;
        q[at] ^= bit;
        let found = kernel.verify_pq(&stripe.columns(), &p, &q);
        prop_assert_eq!(found, Mismatch { p: false, q: true });
        q[at] ^= bit;
        let column = stripe.random.below(shape.columns);
        stripe.data[column].slice_mut()[at] ^= bit;
        let found = kernel.verify_pq(&stripe.columns(), &p, &q);
        prop_assert_eq!(found, Mismatch { p: true, q: true });
        Ok(())
    });
}

#[test]
fn the_best_kernel_is_the_first_available_and_the_portable_one_always_is() {
    let names: Vec<&str> = Kernel::available().map(Kernel::name).collect();
    assert_eq!(names.first().copied(), Some(Kernel::best().name()));
    assert_eq!(names.last().copied(), Some(Kernel::portable().name()));
}

#[test]
#[should_panic(expected = "columns of different lengths")]
fn columns_of_different_lengths_are_a_bug_of_the_caller() {
    let (short, long) = ([0; 10], [0; 11]);
    crate::generate_p(&[&short, &long], &mut [0; 10]);
}

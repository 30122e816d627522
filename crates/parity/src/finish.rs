//! What becomes of the sums of a tile: stored as parity, kept for the next group of columns,
//! solved for lost columns, or compared with the parity that is there.
#![allow(
    unsafe_code,
    reason = "raw loads and stores of vector registers; see the SAFETY lines"
)]

use std::mem::MaybeUninit;

use crate::field::Coefficient;
use crate::lanes::Lane;
use crate::sweep::GROUP_BYTES;

/// Receives the sums of one tile after another.
pub(crate) trait Finish {
    /// The tile at byte `at` has the sums `p` and `q`.
    ///
    /// # Safety
    /// The CPU supports `L`, and the columns behind this finish reach to the end of the tile.
    unsafe fn tile<L: Lane, const N: usize>(&mut self, at: usize, p: [L; N], q: [L; N]);
}

/// Stores P and, if `Q`, Q; past the caches if `STREAM`.
pub(crate) struct Store<const Q: bool, const STREAM: bool> {
    /// Where P goes.
    pub p: *mut u8,
    /// Where Q goes; unused unless `Q`.
    pub q: *mut u8,
}

impl<const Q: bool, const STREAM: bool> Finish for Store<Q, STREAM> {
    #[inline(always)]
    unsafe fn tile<L: Lane, const N: usize>(&mut self, at: usize, p: [L; N], q: [L; N]) {
        // SAFETY: the caller's promise.
        unsafe {
            put::<L, N, STREAM>(self.p, at, p);
            if Q {
                put::<L, N, STREAM>(self.q, at, q);
            }
        }
    }
}

#[inline(always)]
unsafe fn put<L: Lane, const N: usize, const STREAM: bool>(to: *mut u8, at: usize, tile: [L; N]) {
    for (lane, value) in tile.into_iter().enumerate() {
        let to = to.wrapping_add(at + lane * L::BYTES);
        // SAFETY: the caller says that the tile can be written, and that `to` is aligned if
        // `STREAM`.
        unsafe {
            if STREAM {
                value.stream(to);
            } else {
                value.store(to);
            }
        }
    }
}

/// Room for the sums of one range of every column.
#[repr(C, align(64))]
pub(crate) struct Scratch([[u8; GROUP_BYTES]; 2]);

/// The sums of the columns swept so far, over a range of at most [`GROUP_BYTES`].
#[derive(Clone, Copy)]
pub(crate) struct Partial {
    scratch: *mut u8,
    start: usize,
}

impl Partial {
    /// Keeps the sums of the range that starts at `start` in `scratch`.
    pub fn new(scratch: &mut MaybeUninit<Scratch>, start: usize) -> Partial {
        Partial {
            scratch: scratch.as_mut_ptr().cast(),
            start,
        }
    }

    /// Where P's sum of byte `at` is.
    pub fn p_at(&self, at: usize) -> *mut u8 {
        self.scratch.wrapping_add(at - self.start)
    }

    /// Where Q's sum of byte `at` is.
    pub fn q_at(&self, at: usize) -> *mut u8 {
        self.p_at(at).wrapping_add(GROUP_BYTES)
    }
}

impl Finish for Partial {
    #[inline(always)]
    unsafe fn tile<L: Lane, const N: usize>(&mut self, at: usize, p: [L; N], q: [L; N]) {
        // SAFETY: a range is no longer than either half of the scratch, and tiles end within it.
        unsafe {
            put::<L, N, false>(self.p_at(at), 0, p);
            put::<L, N, false>(self.q_at(at), 0, q);
        }
    }
}

/// Adds the parity that is left to the sum and stores the lost column; past the caches if
/// `STREAM`. Needs no Q.
pub(crate) struct Restore<const STREAM: bool> {
    /// P, unless it is P that is lost.
    pub parity: Option<*const u8>,
    /// Where the column goes.
    pub to: *mut u8,
}

impl<const STREAM: bool> Finish for Restore<STREAM> {
    #[inline(always)]
    unsafe fn tile<L: Lane, const N: usize>(&mut self, at: usize, mut p: [L; N], _: [L; N]) {
        // SAFETY: the caller's promise.
        unsafe {
            include(self.parity, at, &mut p);
            put::<L, N, STREAM>(self.to, at, p);
        }
    }
}

/// One lost column as a combination of the syndromes, i.e. the sums of what is left.
#[derive(Clone, Copy)]
pub(crate) struct Solution {
    /// Times P's syndrome.
    pub of_p: &'static Coefficient,
    /// Times Q's syndrome.
    pub of_q: &'static Coefficient,
    /// Where the column goes.
    pub to: *mut u8,
}

/// Computes one or two lost columns.
pub(crate) struct Solve<const STREAM: bool> {
    /// P, if it is left.
    pub p: Option<*const u8>,
    /// Q, if it is left.
    pub q: Option<*const u8>,
    pub first: Solution,
    pub second: Option<Solution>,
}

impl<const STREAM: bool> Finish for Solve<STREAM> {
    #[inline(always)]
    unsafe fn tile<L: Lane, const N: usize>(&mut self, at: usize, mut p: [L; N], mut q: [L; N]) {
        // SAFETY: the caller's promise.
        unsafe {
            include(self.p, at, &mut p);
            include(self.q, at, &mut q);
            solve::<L, N, STREAM>(&self.first, at, &p, &q);
            if let Some(second) = &self.second {
                solve::<L, N, STREAM>(second, at, &p, &q);
            }
        }
    }
}

/// Adds the stored parity, if there is any.
#[inline(always)]
unsafe fn include<L: Lane, const N: usize>(parity: Option<*const u8>, at: usize, sum: &mut [L; N]) {
    let Some(parity) = parity else { return };
    for (lane, value) in sum.iter_mut().enumerate() {
        // SAFETY: the caller says that the tile can be read.
        *value = unsafe { value.xor(L::load(parity.wrapping_add(at + lane * L::BYTES))) };
    }
}

#[inline(always)]
unsafe fn solve<L: Lane, const N: usize, const STREAM: bool>(
    solution: &Solution,
    at: usize,
    p: &[L; N],
    q: &[L; N],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (of_p, of_q) = (L::factor(solution.of_p), L::factor(solution.of_q));
        let mut column = *p;
        for (value, &q) in column.iter_mut().zip(q) {
            *value = value.multiply(of_p).xor(q.multiply(of_q));
        }
        put::<L, N, STREAM>(solution.to, at, column);
    }
}

/// Compares with the parity that is there.
pub(crate) struct Check<const Q: bool> {
    p: *const u8,
    q: *const u8,
    pub p_differs: bool,
    pub q_differs: bool,
}

impl<const Q: bool> Check<Q> {
    /// Compares with `p` and, if `Q`, with `q`.
    pub fn new(p: &[u8], q: &[u8]) -> Check<Q> {
        Check {
            p: p.as_ptr(),
            q: q.as_ptr(),
            p_differs: false,
            q_differs: false,
        }
    }
}

impl<const Q: bool> Finish for Check<Q> {
    #[inline(always)]
    unsafe fn tile<L: Lane, const N: usize>(&mut self, at: usize, mut p: [L; N], mut q: [L; N]) {
        // SAFETY: the caller's promise.
        unsafe {
            include(Some(self.p), at, &mut p);
            self.p_differs |= any(&p);
            if Q {
                include(Some(self.q), at, &mut q);
                self.q_differs |= any(&q);
            }
        }
    }
}

#[inline(always)]
unsafe fn any<L: Lane, const N: usize>(tile: &[L; N]) -> bool {
    // SAFETY: the caller says that the CPU supports `L`.
    unsafe {
        let mut bits = L::zero();
        for &value in tile {
            bits = bits.or(value);
        }
        !bits.is_zero()
    }
}

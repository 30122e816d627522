//! Operations that change parity in place, one column at a time.
//!
//! # Safety
//! Of every function here: the CPU supports `L`, and all columns have one length.
#![allow(
    unsafe_code,
    reason = "raw loads and stores of vector registers; see the SAFETY lines"
)]

use crate::field::Coefficient;
use crate::lanes::Lane;

/// Lanes per step: enough to hide the latency of a multiplication.
const TILE: usize = 4;

/// Adds `source` to `destination`.
#[inline(always)]
pub(crate) unsafe fn xor_into<L: Lane>(destination: &mut [u8], source: &[u8]) {
    let bytes = destination.len();
    let xor = Xor {
        to: destination.as_mut_ptr(),
        from: source.as_ptr(),
    };
    // SAFETY: the module's promise.
    unsafe { for_each::<L>(bytes, xor) }
}

/// Adds `data` to `p`, and `coefficient` times `data` to `q`.
#[inline(always)]
pub(crate) unsafe fn accumulate_pq<L: Lane>(
    coefficient: &'static Coefficient,
    data: &[u8],
    p: &mut [u8],
    q: &mut [u8],
) {
    let bytes = data.len();
    let (data, p, q) = (data.as_ptr(), p.as_mut_ptr(), q.as_mut_ptr());
    let accumulate = Accumulate::<false> {
        coefficient,
        data,
        old: data,
        p,
        q,
    };
    // SAFETY: the module's promise.
    unsafe { for_each::<L>(bytes, accumulate) }
}

/// Adds the difference of `old` and `new` to `p`, and `coefficient` times it to `q`.
#[inline(always)]
pub(crate) unsafe fn update_pq<L: Lane>(
    coefficient: &'static Coefficient,
    (old, new): (&[u8], &[u8]),
    p: &mut [u8],
    q: &mut [u8],
) {
    let bytes = new.len();
    let (old, data, p, q) = (old.as_ptr(), new.as_ptr(), p.as_mut_ptr(), q.as_mut_ptr());
    let accumulate = Accumulate::<true> {
        coefficient,
        data,
        old,
        p,
        q,
    };
    // SAFETY: the module's promise.
    unsafe { for_each::<L>(bytes, accumulate) }
}

trait Step {
    /// Changes the `N` lanes at byte `at`.
    unsafe fn step<L: Lane, const N: usize>(&self, at: usize);
}

#[inline(always)]
unsafe fn for_each<L: Lane>(bytes: usize, step: impl Step) {
    let mut at = 0;
    // SAFETY: the caller's promise, and every step ends within the columns.
    unsafe {
        while at + TILE * L::BYTES <= bytes {
            step.step::<L, TILE>(at);
            at += TILE * L::BYTES;
        }
        while at + L::BYTES <= bytes {
            step.step::<L, 1>(at);
            at += L::BYTES;
        }
        while at < bytes {
            step.step::<u8, 1>(at);
            at += 1;
        }
    }
}

struct Xor {
    to: *mut u8,
    from: *const u8,
}

impl Step for Xor {
    #[inline(always)]
    unsafe fn step<L: Lane, const N: usize>(&self, at: usize) {
        for lane in 0..N {
            let into = at + lane * L::BYTES;
            let to = self.to.wrapping_add(into);
            // SAFETY: the caller says that the lanes are within both columns.
            unsafe {
                L::load(to)
                    .xor(L::load(self.from.wrapping_add(into)))
                    .store(to)
            };
        }
    }
}

struct Accumulate<const OLD: bool> {
    coefficient: &'static Coefficient,
    data: *const u8,
    /// Unused unless `OLD`.
    old: *const u8,
    p: *mut u8,
    q: *mut u8,
}

impl<const OLD: bool> Step for Accumulate<OLD> {
    #[inline(always)]
    unsafe fn step<L: Lane, const N: usize>(&self, at: usize) {
        // SAFETY: the caller says that the lanes are within all columns.
        unsafe {
            let factor = L::factor(self.coefficient);
            for lane in 0..N {
                let into = at + lane * L::BYTES;
                let (p, q) = (self.p.wrapping_add(into), self.q.wrapping_add(into));
                let mut change = L::load(self.data.wrapping_add(into));
                if OLD {
                    change = change.xor(L::load(self.old.wrapping_add(into)));
                }
                L::load(p).xor(change).store(p);
                L::load(q).xor(change.multiply(factor)).store(q);
            }
        }
    }
}

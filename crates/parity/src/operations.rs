//! Every operation of a kernel over any [`Lane`], with the choice of how to sweep: the bodies
//! that `kernel` compiles once per instruction set.
//!
//! # Safety
//! Of every function here: the CPU supports `L`. The callers in `kernel` have checked that all
//! columns have one length.
#![allow(
    unsafe_code,
    reason = "raw loads and stores of vector registers; see the SAFETY lines"
)]

use crate::field::Coefficient;
use crate::finish::{Check, Finish, Restore, Solution, Solve, Store};
use crate::lanes::Lane;
use crate::sweep::{Source, in_groups, side_by_side};

/// Streaming stores need destinations aligned to the widest lane.
const STREAM_ALIGNMENT: usize = 64;

/// Tells a sweep what to expect of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Columns are in a cache, and the results stay there.
    Cached,
    /// Columns come from memory and the results go there.
    Streamed,
}

/// What is left of a stripe, and how the wanted columns follow from its syndromes.
#[derive(Clone, Copy)]
pub(crate) struct Equations<'a> {
    pub data: &'a [Option<&'a [u8]>],
    pub p: Option<&'a [u8]>,
    pub q: Option<&'a [u8]>,
    /// Coefficients of P's and Q's syndrome, for each wanted column.
    pub coefficients: [(u8, u8); 2],
}

fn aligned(column: &[u8]) -> bool {
    column.as_ptr().addr().is_multiple_of(STREAM_ALIGNMENT)
}

/// Chooses the sweep: `plain` and `past` are the same destination, without and with streaming
/// stores.
#[inline(always)]
unsafe fn run<L, const WIDE: usize, const NARROW: usize, const Q: bool, S>(
    data: &[S],
    bytes: usize,
    (stores, aligned): (Stores, bool),
    mut plain: impl Finish,
    mut past: impl Finish,
) where
    L: Lane,
    S: Source,
{
    // SAFETY: the module's promise.
    unsafe {
        match (stores, aligned) {
            (Stores::Cached, _) => {
                side_by_side::<L, WIDE, Q, S, _>(data, bytes, &mut plain);
            }
            (Stores::Streamed, false) => {
                in_groups::<L, NARROW, Q, S, _>(data, bytes, &mut plain);
            }
            (Stores::Streamed, true) => {
                in_groups::<L, NARROW, Q, S, _>(data, bytes, &mut past);
                L::fence();
            }
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn generate_p<L: Lane, const WIDE: usize, const NARROW: usize>(
    data: &[&[u8]],
    p: &mut [u8],
    stores: Stores,
) {
    let (bytes, how) = (p.len(), (stores, aligned(p)));
    let p = p.as_mut_ptr();
    let plain = Store::<false, false> { p, q: p };
    let past = Store::<false, true> { p, q: p };
    // SAFETY: the module's promise.
    unsafe { run::<L, WIDE, NARROW, false, _>(data, bytes, how, plain, past) }
}

#[inline(always)]
pub(crate) unsafe fn generate_pq<L: Lane, const WIDE: usize, const NARROW: usize>(
    data: &[&[u8]],
    p: &mut [u8],
    q: &mut [u8],
    stores: Stores,
) {
    let (bytes, how) = (p.len(), (stores, aligned(p) && aligned(q)));
    let (p, q) = (p.as_mut_ptr(), q.as_mut_ptr());
    let plain = Store::<true, false> { p, q };
    let past = Store::<true, true> { p, q };
    // SAFETY: the module's promise.
    unsafe { run::<L, WIDE, NARROW, true, _>(data, bytes, how, plain, past) }
}

/// The sum of everything that is left, P included: a lost data column, or P.
#[inline(always)]
pub(crate) unsafe fn restore<L: Lane, const WIDE: usize, const NARROW: usize>(
    data: &[Option<&[u8]>],
    parity: Option<&[u8]>,
    to: &mut [u8],
    stores: Stores,
) {
    let (bytes, how) = (to.len(), (stores, aligned(to)));
    let (parity, to) = (parity.map(<[u8]>::as_ptr), to.as_mut_ptr());
    let plain = Restore::<false> { parity, to };
    let past = Restore::<true> { parity, to };
    // SAFETY: the module's promise.
    unsafe { run::<L, WIDE, NARROW, false, _>(data, bytes, how, plain, past) }
}

/// One or two lost columns from both syndromes.
#[inline(always)]
pub(crate) unsafe fn solve<L: Lane, const WIDE: usize, const NARROW: usize>(
    equations: &Equations<'_>,
    first: &mut [u8],
    second: Option<&mut [u8]>,
    stores: Stores,
) {
    let bytes = first.len();
    let how = (
        stores,
        aligned(first) && second.as_deref().is_none_or(aligned),
    );
    let solution = |(of_p, of_q): (u8, u8), to: &mut [u8]| Solution {
        of_p: Coefficient::of(of_p),
        of_q: Coefficient::of(of_q),
        to: to.as_mut_ptr(),
    };
    let p = equations.p.map(<[u8]>::as_ptr);
    let q = equations.q.map(<[u8]>::as_ptr);
    let first = solution(equations.coefficients[0], first);
    let second = second.map(|second| solution(equations.coefficients[1], second));
    let plain = Solve::<false> {
        p,
        q,
        first,
        second,
    };
    let past = Solve::<true> {
        p,
        q,
        first,
        second,
    };
    // SAFETY: the module's promise.
    unsafe { run::<L, WIDE, NARROW, true, _>(equations.data, bytes, how, plain, past) }
}

/// Whether P differs from what the data say.
#[inline(always)]
pub(crate) unsafe fn check_p<L: Lane, const WIDE: usize, const NARROW: usize>(
    data: &[&[u8]],
    p: &[u8],
    stores: Stores,
) -> bool {
    let mut check = Check::<false>::new(p, p);
    // SAFETY: the module's promise.
    unsafe {
        match stores {
            Stores::Cached => side_by_side::<L, WIDE, false, _, _>(data, p.len(), &mut check),
            Stores::Streamed => in_groups::<L, NARROW, false, _, _>(data, p.len(), &mut check),
        }
    }
    check.p_differs
}

/// Whether P and Q differ from what the data say.
#[inline(always)]
pub(crate) unsafe fn check_pq<L: Lane, const WIDE: usize, const NARROW: usize>(
    data: &[&[u8]],
    p: &[u8],
    q: &[u8],
    stores: Stores,
) -> (bool, bool) {
    let mut check = Check::<true>::new(p, q);
    // SAFETY: the module's promise.
    unsafe {
        match stores {
            Stores::Cached => side_by_side::<L, WIDE, true, _, _>(data, p.len(), &mut check),
            Stores::Streamed => in_groups::<L, NARROW, true, _, _>(data, p.len(), &mut check),
        }
    }
    (check.p_differs, check.q_differs)
}

//! Every operation of a kernel that sweeps a stripe, over any [`Lane`]: the bodies that `table`
//! compiles twice per instruction set, for columns in a cache, whose results stay there, and with
//! `STREAMED` for columns that come from memory, where the results go too.
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

/// Sweeps: `plain` and `past` are the same destination, without and with streaming stores, which
/// it must be `aligned` for.
#[inline(always)]
unsafe fn run<L, const LANES: usize, const STREAMED: bool, const Q: bool, S>(
    data: &[S],
    bytes: usize,
    aligned: bool,
    mut plain: impl Finish,
    mut past: impl Finish,
) where
    L: Lane,
    S: Source,
{
    // SAFETY: the module's promise.
    unsafe {
        if !STREAMED {
            side_by_side::<L, LANES, Q, S, _>(data, bytes, &mut plain);
        } else if aligned {
            in_groups::<L, LANES, Q, S, _>(data, bytes, &mut past);
            L::fence();
        } else {
            in_groups::<L, LANES, Q, S, _>(data, bytes, &mut plain);
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn generate_p<L: Lane, const LANES: usize, const STREAMED: bool>(
    data: &[&[u8]],
    p: &mut [u8],
) {
    let (bytes, aligned) = (p.len(), aligned(p));
    let p = p.as_mut_ptr();
    let plain = Store::<false, false> { p, q: p };
    let past = Store::<false, true> { p, q: p };
    // SAFETY: the module's promise.
    unsafe { run::<L, LANES, STREAMED, false, _>(data, bytes, aligned, plain, past) }
}

#[inline(always)]
pub(crate) unsafe fn generate_pq<L: Lane, const LANES: usize, const STREAMED: bool>(
    data: &[&[u8]],
    p: &mut [u8],
    q: &mut [u8],
) {
    let (bytes, aligned) = (p.len(), aligned(p) && aligned(q));
    let (p, q) = (p.as_mut_ptr(), q.as_mut_ptr());
    let plain = Store::<true, false> { p, q };
    let past = Store::<true, true> { p, q };
    // SAFETY: the module's promise.
    unsafe { run::<L, LANES, STREAMED, true, _>(data, bytes, aligned, plain, past) }
}

/// The sum of everything that is left, P included: a lost data column, or P.
#[inline(always)]
pub(crate) unsafe fn restore<L: Lane, const LANES: usize, const STREAMED: bool>(
    data: &[Option<&[u8]>],
    parity: Option<&[u8]>,
    to: &mut [u8],
) {
    let (bytes, aligned) = (to.len(), aligned(to));
    let (parity, to) = (parity.map(<[u8]>::as_ptr), to.as_mut_ptr());
    let plain = Restore::<false> { parity, to };
    let past = Restore::<true> { parity, to };
    // SAFETY: the module's promise.
    unsafe { run::<L, LANES, STREAMED, false, _>(data, bytes, aligned, plain, past) }
}

/// One or two lost columns from both syndromes.
#[inline(always)]
pub(crate) unsafe fn solve<L: Lane, const LANES: usize, const STREAMED: bool>(
    equations: &Equations<'_>,
    first: &mut [u8],
    second: Option<&mut [u8]>,
) {
    let bytes = first.len();
    let aligned = aligned(first) && second.as_deref().is_none_or(aligned);
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
    unsafe { run::<L, LANES, STREAMED, true, _>(equations.data, bytes, aligned, plain, past) }
}

/// Whether P differs from what the data say.
#[inline(always)]
pub(crate) unsafe fn check_p<L: Lane, const LANES: usize, const STREAMED: bool>(
    data: &[&[u8]],
    p: &[u8],
) -> bool {
    let mut check = Check::<false>::new(p, p);
    // SAFETY: the module's promise.
    unsafe {
        if STREAMED {
            in_groups::<L, LANES, false, _, _>(data, p.len(), &mut check);
        } else {
            side_by_side::<L, LANES, false, _, _>(data, p.len(), &mut check);
        }
    }
    check.p_differs
}

/// Whether P and Q differ from what the data say.
#[inline(always)]
pub(crate) unsafe fn check_pq<L: Lane, const LANES: usize, const STREAMED: bool>(
    data: &[&[u8]],
    p: &[u8],
    q: &[u8],
) -> (bool, bool) {
    let mut check = Check::<true>::new(p, q);
    // SAFETY: the module's promise.
    unsafe {
        if STREAMED {
            in_groups::<L, LANES, true, _, _>(data, p.len(), &mut check);
        } else {
            side_by_side::<L, LANES, true, _, _>(data, p.len(), &mut check);
        }
    }
    (check.p_differs, check.q_differs)
}

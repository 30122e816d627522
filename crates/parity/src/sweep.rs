//! The kernels, written once over [`Lane`]: a sweep reads all columns from the first byte to the
//! last, several lanes at a time so that the latency of one multiplication hides behind others,
//! and hands the sums of each tile to a [`Finish`].
//!
//! Each is inlined into a function compiled for one instruction set (see `kernel`), and works in
//! three steps: tiles of `N` lanes, single lanes, and single bytes at the end.
#![allow(
    unsafe_code,
    reason = "raw loads and stores of vector registers; see the SAFETY lines"
)]

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::finish::{Finish, Partial, Scratch};
use crate::lanes::Lane;

/// A column of a stripe: there, or lost.
pub(crate) trait Source: Copy {
    /// False when some may be lost.
    const ALWAYS_THERE: bool;

    /// The bytes, unless they are lost.
    fn bytes(self) -> Option<*const u8>;
}

impl Source for &[u8] {
    const ALWAYS_THERE: bool = true;

    #[inline(always)]
    fn bytes(self) -> Option<*const u8> {
        Some(self.as_ptr())
    }
}

impl Source for Option<&[u8]> {
    const ALWAYS_THERE: bool = false;

    #[inline(always)]
    fn bytes(self) -> Option<*const u8> {
        self.map(<[u8]>::as_ptr)
    }
}

/// How many columns a sweep through memory reads side by side. Measured: a core follows about
/// ten streams at full speed, and at thirty it is down to half.
const GROUP_COLUMNS: usize = 8;

/// What is fetched of each column of the next turn while one is under way: as much as it takes the
/// hardware prefetcher to notice the new stream. Measured: more is slower than none.
const ANNOUNCED_BYTES: usize = 256;

/// Bytes of each column in one group's turn: long enough for the hardware prefetcher to lock on,
/// short enough that the partial sums stay in the first-level cache.
pub(crate) const GROUP_BYTES: usize = 4096;

/// Up to how many columns in a cache are swept in tiles of two lines, where a lane is a line.
/// Measured: larger tiles are slower for so few, and faster from the next one on.
const FEW_COLUMNS: usize = 5;

/// Bytes in a line of the caches.
const LINE_BYTES: usize = 64;

/// Sweeps columns that are in a cache: all side by side, in tiles of `N` lanes.
///
/// Up to eight columns have a loop of their own each, with every address in a register and no
/// branch per column: with that few, the loop over columns costs a tenth of the whole and more.
///
/// # Safety
/// The CPU supports `L`; every column is `bytes` long, and so is what `finish` points to.
#[inline(always)]
pub(crate) unsafe fn side_by_side<L, const N: usize, const Q: bool, S, F>(
    data: &[S],
    bytes: usize,
    finish: &mut F,
) where
    L: Lane,
    S: Source,
    F: Finish,
{
    // SAFETY: the caller's promise; what is left after the tiles is a range of all columns.
    unsafe {
        let swept = match data.len() {
            _ if !S::ALWAYS_THERE => 0,
            2 => counted::<L, N, 2, Q, S, F>(data, bytes, finish),
            3 => counted::<L, N, 3, Q, S, F>(data, bytes, finish),
            4 => counted::<L, N, 4, Q, S, F>(data, bytes, finish),
            5 => counted::<L, N, 5, Q, S, F>(data, bytes, finish),
            6 => counted::<L, N, 6, Q, S, F>(data, bytes, finish),
            7 => counted::<L, N, 7, Q, S, F>(data, bytes, finish),
            8 => counted::<L, N, 8, Q, S, F>(data, bytes, finish),
            _ => 0,
        };
        sweep::<L, N, Q, S, F>(data, None, swept..bytes, finish);
    }
}

/// Sweeps as many tiles as there are of `COLUMNS` columns, a number that the compiler knows.
/// Returns where the next tile would start.
#[inline(always)]
unsafe fn counted<L, const N: usize, const COLUMNS: usize, const Q: bool, S, F>(
    data: &[S],
    bytes: usize,
    finish: &mut F,
) -> usize
where
    L: Lane,
    S: Source,
    F: Finish,
{
    // A copy, which no store to parity can change as far as the compiler knows.
    let columns: [S; COLUMNS] = std::array::from_fn(|column| data[column]);
    // SAFETY: the caller's promise.
    unsafe {
        if COLUMNS <= FEW_COLUMNS && L::BYTES == LINE_BYTES {
            tiles::<L, 2, Q, S, F>(&columns, None, 0..bytes, finish)
        } else {
            tiles::<L, N, Q, S, F>(&columns, None, 0..bytes, finish)
        }
    }
}

/// Sweeps columns that come from memory: a few at a time, keeping the sums so far in the cache.
///
/// # Safety
/// As for [`side_by_side`].
#[inline(always)]
pub(crate) unsafe fn in_groups<L, const N: usize, const Q: bool, S, F>(
    data: &[S],
    bytes: usize,
    finish: &mut F,
) where
    L: Lane,
    S: Source,
    F: Finish,
{
    let groups = data.len().div_ceil(GROUP_COLUMNS).max(1);
    let group = data.len().div_ceil(groups);
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    for start in (0..bytes).step_by(GROUP_BYTES) {
        let range = start..bytes.min(start + GROUP_BYTES);
        let mut partial = Partial::new(&mut scratch, start);
        let mut left = data;
        let mut before = None;
        while left.len() > group {
            let (front, turn) = left.split_at(left.len() - group);
            // SAFETY: the caller's promise.
            unsafe { announce::<L, S>(front, group, start) };
            // SAFETY: the caller's promise; the scratch holds a range of GROUP_BYTES, and what
            // is read of it, the turn before has written.
            unsafe { sweep::<L, N, Q, S, _>(turn, before, range.clone(), &mut partial) };
            left = front;
            before = Some(partial);
        }
        if start + GROUP_BYTES < bytes {
            // SAFETY: the caller's promise.
            unsafe { announce::<L, S>(data, group, start + GROUP_BYTES) };
        }
        // SAFETY: the caller's promise, and as above.
        unsafe { sweep::<L, N, Q, S, F>(left, before, range, finish) };
    }
}

/// Asks for the first bytes of each column of the next turn, the last `group` of `columns`, at
/// byte `start`.
#[inline(always)]
unsafe fn announce<L, S>(columns: &[S], group: usize, start: usize)
where
    L: Lane,
    S: Source,
{
    for column in &columns[columns.len().saturating_sub(group)..] {
        let Some(bytes) = column.bytes() else {
            continue;
        };
        for into in (0..ANNOUNCED_BYTES).step_by(LINE_BYTES) {
            // SAFETY: the caller says that the CPU supports `L`.
            unsafe { L::prefetch(bytes.wrapping_add(start + into)) };
        }
    }
}

/// Sweeps a range: in tiles of `N` lanes, then lane by lane, then byte by byte.
#[inline(always)]
unsafe fn sweep<L, const N: usize, const Q: bool, S, F>(
    data: &[S],
    before: Option<Partial>,
    range: Range<usize>,
    finish: &mut F,
) where
    L: Lane,
    S: Source,
    F: Finish,
{
    let end = range.end;
    // SAFETY: the caller's promise.
    unsafe {
        let at = tiles::<L, N, Q, S, F>(data, before, range, finish);
        let at = tiles::<L, 1, Q, S, F>(data, before, at..end, finish);
        tiles::<u8, 1, Q, S, F>(data, before, at..end, finish);
    }
}

/// Sweeps as many tiles of `N` lanes as there are in a range. Returns where the next would start.
#[inline(always)]
unsafe fn tiles<L, const N: usize, const Q: bool, S, F>(
    data: &[S],
    before: Option<Partial>,
    range: Range<usize>,
    finish: &mut F,
) -> usize
where
    L: Lane,
    S: Source,
    F: Finish,
{
    let mut at = range.start;
    while at + N * L::BYTES <= range.end {
        // SAFETY: the caller's promise, and the tile ends within the range.
        unsafe {
            let (p, q) = sums::<L, N, Q, S>(data, before, at);
            finish.tile(at, p, q);
        }
        at += N * L::BYTES;
    }
    at
}

/// The sums over one tile of all columns: P and, by Horner's scheme from the last column down, Q
/// (unspecified unless `Q`).
#[inline(always)]
unsafe fn sums<L, const N: usize, const Q: bool, S>(
    data: &[S],
    before: Option<Partial>,
    at: usize,
) -> ([L; N], [L; N])
where
    L: Lane,
    S: Source,
{
    // SAFETY: the caller's promise, for every load of the tile at `at`.
    unsafe {
        let (mut p, mut q, mut rest) = match before {
            Some(before) => {
                let p = load_tile::<L, N>(before.p_at(at));
                let q = if Q {
                    load_tile::<L, N>(before.q_at(at))
                } else {
                    p
                };
                (p, q, data)
            }
            None => match data.split_last() {
                Some((last, rest)) => {
                    let start = match last.bytes() {
                        Some(bytes) => load_tile::<L, N>(bytes.wrapping_add(at)),
                        None => [L::zero(); N],
                    };
                    (start, start, rest)
                }
                None => ([L::zero(); N], [L::zero(); N], data),
            },
        };
        while let [front @ .., last, next] = rest {
            rest = front;
            if let (Some(last), Some(next)) = (last.bytes(), next.bytes()) {
                for lane in 0..N {
                    let into = at + lane * L::BYTES;
                    let last = L::load(last.wrapping_add(into));
                    let next = L::load(next.wrapping_add(into));
                    p[lane] = p[lane].xor3(next, last);
                    if Q {
                        q[lane] = q[lane].horner2(next, last);
                    }
                }
            } else {
                add::<L, N, Q>(next.bytes(), at, &mut p, &mut q);
                add::<L, N, Q>(last.bytes(), at, &mut p, &mut q);
            }
        }
        if let [only] = rest {
            add::<L, N, Q>(only.bytes(), at, &mut p, &mut q);
        }
        (p, q)
    }
}

#[inline(always)]
unsafe fn load_tile<L: Lane, const N: usize>(from: *const u8) -> [L; N] {
    // SAFETY: the caller says that a tile can be read there.
    std::array::from_fn(|lane| unsafe { L::load(from.wrapping_add(lane * L::BYTES)) })
}

/// One column, which may be lost: a lost one counts as zeroes.
#[inline(always)]
unsafe fn add<L, const N: usize, const Q: bool>(
    bytes: Option<*const u8>,
    at: usize,
    p: &mut [L; N],
    q: &mut [L; N],
) where
    L: Lane,
{
    // SAFETY: the caller's promise, for every load of the tile at `at`.
    unsafe {
        for lane in 0..N {
            let value = match bytes {
                Some(bytes) => L::load(bytes.wrapping_add(at + lane * L::BYTES)),
                None => L::zero(),
            };
            p[lane] = p[lane].xor(value);
            if Q {
                q[lane] = q[lane].horner(value);
            }
        }
    }
}

//! What the caches deliver: every line loaded and stored as for the job, but nothing computed. No
//! kernel that sweeps the columns side by side can be faster than this.
//!
//! For stripes of few columns only: with more columns than a first-level cache has ways, which
//! order of loads is the fastest is a question of its own, and this would be no limit.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_variables, reason = "there is no limit then")
)]

#[cfg(target_arch = "x86_64")]
use std::arch::{asm, is_x86_feature_detected, x86_64};

/// Bytes in a line of the caches.
const LINE_BYTES: usize = 64;

/// Lines of each column in a tile.
const LINES: usize = 2;

/// Of how many data columns a stripe may be.
const MAX_DATA_COLUMNS: usize = 4;

/// Loads and stores without work between them.
#[derive(Clone, Copy)]
pub struct Limit(());

impl Limit {
    /// For stripes of `data` columns, if those are few; `None` on CPUs without AVX-512, whose
    /// lanes are lines.
    pub fn of(data: usize) -> Option<Limit> {
        #[cfg(target_arch = "x86_64")]
        if data <= MAX_DATA_COLUMNS && is_x86_feature_detected!("avx512f") {
            return Some(Limit(()));
        }
        None
    }

    /// Loads all of `read` and stores some of what was loaded to all of `write`, which are as
    /// many at most.
    ///
    /// # Safety
    /// Every column is valid for `bytes` bytes, and nobody else uses it meanwhile.
    #[cfg(target_arch = "x86_64")]
    pub unsafe fn carry(self, read: &[*mut u8], write: &[*mut u8], bytes: usize) {
        assert!(bytes.is_multiple_of(LINES * LINE_BYTES), "whole tiles");
        // SAFETY: the caller's promise; a limit exists only with AVX-512.
        unsafe {
            match (read.len(), write.len()) {
                (2, 1) => lines::<2, 1>(read, write, bytes),
                (2, 2) => lines::<2, 2>(read, write, bytes),
                (4, 0) => lines::<4, 0>(read, write, bytes),
                (4, 1) => lines::<4, 1>(read, write, bytes),
                (4, 2) => lines::<4, 2>(read, write, bytes),
                (6, 0) => lines::<6, 0>(read, write, bytes),
                other => unreachable!("the benchmark has no job of {other:?} columns"),
            }
        }
    }

    /// There is no limit to call this on.
    #[cfg(not(target_arch = "x86_64"))]
    pub unsafe fn carry(self, _: &[*mut u8], _: &[*mut u8], _: usize) {
        unreachable!("only x86-64 has a limit");
    }
}

/// # Safety
/// As for [`Limit::carry`], and the CPU has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn lines<const READ: usize, const WRITE: usize>(
    read: &[*mut u8],
    write: &[*mut u8],
    bytes: usize,
) {
    let read: [*mut u8; READ] = std::array::from_fn(|column| read[column]);
    let write: [*mut u8; WRITE] = std::array::from_fn(|column| write[column]);
    for tile in (0..bytes).step_by(LINES * LINE_BYTES) {
        // What the last columns read is what is stored: no more than registers hold.
        let mut loaded = [[x86_64::_mm512_setzero_si512(); LINES]; WRITE];
        for (nth, column) in read.iter().enumerate() {
            let mut lines = [x86_64::_mm512_setzero_si512(); LINES];
            for (line, into) in lines.iter_mut().enumerate() {
                // SAFETY: the line is in the column. Assembly, because the compiler would leave
                // out a load that nothing uses.
                unsafe {
                    asm!(
                        "vmovdqu64 {into}, [{column} + {at}]",
                        into = out(zmm_reg) *into,
                        column = in(reg) *column,
                        at = in(reg) tile + line * LINE_BYTES,
                        options(nostack, readonly, preserves_flags),
                    );
                }
            }
            if let Some(nth) = (nth + WRITE).checked_sub(READ) {
                loaded[nth] = lines;
            }
        }
        for (column, loaded) in write.iter().zip(&loaded) {
            for (line, loaded) in loaded.iter().enumerate() {
                let to = column.wrapping_add(tile + line * LINE_BYTES);
                // SAFETY: the line is in the column.
                unsafe { x86_64::_mm512_storeu_si512(to.cast(), *loaded) };
            }
        }
    }
}

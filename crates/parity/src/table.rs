//! The operations compiled once per instruction set, as tables of functions.
#![allow(
    unsafe_code,
    reason = "functions that need a CPU feature; see the SAFETY lines"
)]

use crate::field::Coefficient;
use crate::operations::Equations;

/// One instruction set's functions. All are unsafe for one reason: the CPU must have that set.
#[allow(clippy::type_complexity, reason = "each signature is used here only")]
pub(crate) struct Table {
    pub name: &'static str,
    pub xor_into: unsafe fn(&mut [u8], &[u8]),
    pub accumulate_pq: unsafe fn(&'static Coefficient, &[u8], &mut [u8], &mut [u8]),
    pub update_pq: unsafe fn(&'static Coefficient, (&[u8], &[u8]), &mut [u8], &mut [u8]),
    /// For columns in a cache.
    pub cached: Sweeps,
    /// For columns in memory. Functions of their own: these need a page of stack and more, and
    /// reaching so far down costs a stripe of a few pages a tenth of its time.
    pub streamed: Sweeps,
}

/// The functions that sweep a whole stripe.
#[allow(clippy::type_complexity, reason = "each signature is used here only")]
pub(crate) struct Sweeps {
    pub generate_p: unsafe fn(&[&[u8]], &mut [u8]),
    pub generate_pq: unsafe fn(&[&[u8]], &mut [u8], &mut [u8]),
    pub restore: unsafe fn(&[Option<&[u8]>], Option<&[u8]>, &mut [u8]),
    pub solve: unsafe fn(&Equations<'_>, &mut [u8], Option<&mut [u8]>),
    pub check_p: unsafe fn(&[&[u8]], &[u8]) -> bool,
    pub check_pq: unsafe fn(&[&[u8]], &[u8], &[u8]) -> (bool, bool),
}

/// Compiles every operation for one kind of lane, with tiles of `$wide` lanes for columns in a
/// cache and of `$narrow` lanes for columns in memory.
macro_rules! table {
    ($module:ident, $name:literal, $lane:ty, $wide:literal, $narrow:literal
     $(, $features:literal)?) => {
        mod $module {
            use super::{Sweeps, Table};
            use crate::elementwise;
            use crate::field::Coefficient;
            use crate::operations::{self, Equations};

            pub(super) static TABLE: Table = Table {
                name: $name,
                xor_into,
                accumulate_pq,
                update_pq,
                cached: cached::SWEEPS,
                streamed: streamed::SWEEPS,
            };

            $(#[target_feature(enable = $features)])?
            unsafe fn xor_into(destination: &mut [u8], source: &[u8]) {
                // SAFETY: the caller says that the CPU has the lane's instructions.
                unsafe { elementwise::xor_into::<$lane>(destination, source) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn accumulate_pq(
                coefficient: &'static Coefficient,
                data: &[u8],
                p: &mut [u8],
                q: &mut [u8],
            ) {
                // SAFETY: the caller says that the CPU has the lane's instructions.
                unsafe { elementwise::accumulate_pq::<$lane>(coefficient, data, p, q) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn update_pq(
                coefficient: &'static Coefficient,
                change: (&[u8], &[u8]),
                p: &mut [u8],
                q: &mut [u8],
            ) {
                // SAFETY: the caller says that the CPU has the lane's instructions.
                unsafe { elementwise::update_pq::<$lane>(coefficient, change, p, q) }
            }

            sweeps!(cached, $lane, $wide, false $(, $features)?);
            sweeps!(streamed, $lane, $narrow, true $(, $features)?);
        }
    };
}

/// Compiles the operations that sweep, in tiles of `$lanes` lanes.
macro_rules! sweeps {
    ($module:ident, $lane:ty, $lanes:literal, $streamed:literal $(, $features:literal)?) => {
        mod $module {
            use super::{Equations, Sweeps, operations};

            pub(super) const SWEEPS: Sweeps = Sweeps {
                generate_p,
                generate_pq,
                restore,
                solve,
                check_p,
                check_pq,
            };

            $(#[target_feature(enable = $features)])?
            unsafe fn generate_p(data: &[&[u8]], p: &mut [u8]) {
                // SAFETY: the caller says that the CPU has the lane's instructions.
                unsafe { operations::generate_p::<$lane, $lanes, $streamed>(data, p) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn generate_pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
                // SAFETY: the caller says that the CPU has the lane's instructions.
                unsafe { operations::generate_pq::<$lane, $lanes, $streamed>(data, p, q) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn restore(data: &[Option<&[u8]>], parity: Option<&[u8]>, to: &mut [u8]) {
                // SAFETY: the caller says that the CPU has the lane's instructions.
                unsafe { operations::restore::<$lane, $lanes, $streamed>(data, parity, to) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn solve(
                equations: &Equations<'_>,
                first: &mut [u8],
                second: Option<&mut [u8]>,
            ) {
                // SAFETY: the caller says that the CPU has the lane's instructions.
                unsafe {
                    operations::solve::<$lane, $lanes, $streamed>(equations, first, second)
                }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn check_p(data: &[&[u8]], p: &[u8]) -> bool {
                // SAFETY: the caller says that the CPU has the lane's instructions.
                unsafe { operations::check_p::<$lane, $lanes, $streamed>(data, p) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn check_pq(data: &[&[u8]], p: &[u8], q: &[u8]) -> (bool, bool) {
                // SAFETY: the caller says that the CPU has the lane's instructions.
                unsafe { operations::check_pq::<$lane, $lanes, $streamed>(data, p, q) }
            }
        }
    };
}

table!(portable, "portable", u64, 4, 2);
#[cfg(target_arch = "x86_64")]
table!(ssse3, "ssse3", crate::lanes::x86::Ssse3, 4, 2, "ssse3");
#[cfg(target_arch = "x86_64")]
table!(avx2, "avx2", crate::lanes::x86::Avx2, 4, 2, "avx2");
#[cfg(target_arch = "x86_64")]
table!(
    avx2_gfni,
    "avx2+gfni",
    crate::lanes::x86::Avx2Gfni,
    4,
    2,
    "avx2,gfni"
);
#[cfg(target_arch = "x86_64")]
table!(
    avx512,
    "avx512",
    crate::lanes::x86::Avx512,
    8,
    2,
    "avx512f,avx512bw"
);
#[cfg(target_arch = "x86_64")]
table!(
    avx512_gfni,
    "avx512+gfni",
    crate::lanes::x86::Avx512Gfni,
    8,
    2,
    "avx512f,avx512bw,gfni"
);
#[cfg(target_arch = "aarch64")]
table!(neon, "neon", crate::lanes::neon::Neon, 4, 2, "neon");

impl Table {
    /// The one that every CPU can run.
    pub fn portable() -> &'static Table {
        &portable::TABLE
    }
}

/// Every table with whether this CPU can run it, the fastest first.
#[cfg(target_arch = "x86_64")]
pub(crate) fn tables() -> [(&'static Table, bool); 6] {
    use std::arch::is_x86_feature_detected as has;
    let gfni = has!("gfni");
    let avx512 = has!("avx512f") && has!("avx512bw");
    [
        (&avx512_gfni::TABLE, avx512 && gfni),
        (&avx512::TABLE, avx512),
        (&avx2_gfni::TABLE, has!("avx2") && gfni),
        (&avx2::TABLE, has!("avx2")),
        (&ssse3::TABLE, has!("ssse3")),
        (&portable::TABLE, true),
    ]
}

/// Every table with whether this CPU can run it, the fastest first.
#[cfg(target_arch = "aarch64")]
pub(crate) fn tables() -> [(&'static Table, bool); 2] {
    let neon = std::arch::is_aarch64_feature_detected!("neon");
    [(&neon::TABLE, neon), (&portable::TABLE, true)]
}

/// Every table with whether this CPU can run it, the fastest first.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn tables() -> [(&'static Table, bool); 1] {
    [(&portable::TABLE, true)]
}

//! Parity of a stripe: P, the XOR of its data columns, and Q over GF(2^8) as in Linux RAID 6.
//!
//! In this room: generating P and Q at once or block by block, letting them follow a change,
//! recovering any one or two lost columns, and verifying; kernels for AVX-512, AVX2, SSSE3, NEON
//! and any CPU, chosen once at run time. Not in this room: which column is on which drive, any
//! I/O, any buffer. Columns are byte slices of one length; nothing allocates.
//!
//! ```text
//! data columns D0 D1 ... Dn    P = D0 + D1 + ...        field polynomial 0x11D
//! (byte slices)                Q = D0 + 2 D1 + 4 D2 ... = ((Dn * 2 + ...) * 2 + D1) * 2 + D0
//! ```
//!
//! The functions here use [`Kernel::best`], with [`Locality::Auto`].

mod elementwise;
pub mod field;
mod finish;
mod kernel;
mod lanes;
mod operations;
mod recover;
mod stripe;
mod sweep;
mod table;
#[cfg(test)]
mod tests;

pub use kernel::{Kernel, Locality, MAX_DATA_COLUMNS, Mismatch};
pub use recover::{Column, Survivors, Unrecoverable};
pub use stripe::{
    accumulate_pq, generate_p, generate_pq, recover, update_pq, verify_p, verify_pq, xor_into,
};

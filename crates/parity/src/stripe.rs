//! The operations with the kernel that suits this CPU best.

use crate::{Column, Kernel, Mismatch, Survivors, Unrecoverable};

/// [`Kernel::xor_into`]: adds `source` to `destination`. Also accumulates P.
pub fn xor_into(destination: &mut [u8], source: &[u8]) {
    Kernel::best().xor_into(destination, source);
}

/// [`Kernel::generate_p`]: computes P over `data`.
pub fn generate_p(data: &[&[u8]], p: &mut [u8]) {
    Kernel::best().generate_p(data, p);
}

/// [`Kernel::generate_pq`]: computes P and Q over `data`.
pub fn generate_pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    Kernel::best().generate_pq(data, p, q);
}

/// [`Kernel::accumulate_pq`]: adds data column number `column` to P and Q.
pub fn accumulate_pq(column: usize, data: &[u8], p: &mut [u8], q: &mut [u8]) {
    Kernel::best().accumulate_pq(column, data, p, q);
}

/// [`Kernel::update_pq`]: lets P and Q follow a column that changes from `old` to `new`.
pub fn update_pq(column: usize, old: &[u8], new: &[u8], p: &mut [u8], q: &mut [u8]) {
    Kernel::best().update_pq(column, old, new, p, q);
}

/// [`Kernel::recover`]: computes the `wanted` ones of the lost columns.
///
/// # Errors
/// When the survivors do not determine them.
pub fn recover(
    survivors: Survivors<'_>,
    wanted: &mut [(Column, &mut [u8])],
) -> Result<(), Unrecoverable> {
    Kernel::best().recover(survivors, wanted)
}

/// [`Kernel::verify_p`]: true when P agrees with `data`.
pub fn verify_p(data: &[&[u8]], p: &[u8]) -> bool {
    Kernel::best().verify_p(data, p)
}

/// [`Kernel::verify_pq`]: which of P and Q disagree with `data`.
pub fn verify_pq(data: &[&[u8]], p: &[u8], q: &[u8]) -> Mismatch {
    Kernel::best().verify_pq(data, p, q)
}

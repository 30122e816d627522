//! What a kernel needs of a vector register: one [`Lane`] implementation per instruction set.
#![allow(
    unsafe_code,
    reason = "declares methods that need a CPU feature or a valid pointer"
)]

#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

use crate::field::Coefficient;

/// A register full of field elements.
///
/// # Safety
/// Of every method: the CPU supports the implementation's instruction set, and a pointer is valid
/// for [`Lane::BYTES`] bytes (no alignment needed, but for [`Lane::stream`]).
pub(crate) trait Lane: Copy {
    /// Bytes, and so field elements, in a lane.
    const BYTES: usize;
    /// A constant, spread over as many registers as multiplication by it takes.
    type Factor: Copy;

    /// All zeroes.
    unsafe fn zero() -> Self;
    /// Reads a lane.
    unsafe fn load(from: *const u8) -> Self;
    /// Writes a lane.
    unsafe fn store(self, to: *mut u8);
    /// Writes a lane past the caches where the instruction set can; `to` must be a multiple of
    /// [`Lane::BYTES`].
    unsafe fn stream(self, to: *mut u8);
    /// Orders all [`Lane::stream`]s before whatever comes after.
    unsafe fn fence();
    /// Asks the second-level cache for the line at `from`, which need not be valid.
    unsafe fn prefetch(from: *const u8);
    /// Sum of two.
    unsafe fn xor(self, other: Self) -> Self;
    /// Sum of three.
    unsafe fn xor3(self, second: Self, third: Self) -> Self;
    /// The bits set in either.
    unsafe fn or(self, other: Self) -> Self;
    /// One step of Horner's scheme: 2 `self` + `next`.
    unsafe fn horner(self, next: Self) -> Self;
    /// Two steps of it, 4 `self` + 2 `next` + `last`, in whichever way is shorter.
    unsafe fn horner2(self, next: Self, last: Self) -> Self;
    /// Prepares a constant.
    unsafe fn factor(coefficient: &Coefficient) -> Self::Factor;
    /// Times a constant.
    unsafe fn multiply(self, factor: Self::Factor) -> Self;
    /// True when every byte is zero.
    unsafe fn is_zero(self) -> bool;
}

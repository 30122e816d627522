//! Lanes of any CPU: eight bytes in a `u64`, and a single byte for what is left at the end.
#![allow(unsafe_code, reason = "raw loads and stores; see the SAFETY lines")]

use super::Lane;
use crate::field::{Coefficient, REDUCTION, double, multiply};

/// The lowest bit of every byte.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// Eight field elements, each times the generator.
#[inline(always)]
fn double_eight(elements: u64) -> u64 {
    let carries = (elements >> 7) & LOW_BITS;
    ((elements & !(LOW_BITS << 7)) << 1) ^ (carries * u64::from(REDUCTION))
}

impl Lane for u64 {
    const BYTES: usize = 8;
    type Factor = u8;

    #[inline(always)]
    unsafe fn zero() -> u64 {
        0
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> u64 {
        // SAFETY: the caller says that the pointer is valid for eight bytes.
        unsafe { from.cast::<u64>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller says that the pointer is valid for eight bytes.
        unsafe { to.cast::<u64>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as for `store`.
        unsafe { self.store(to) }
    }

    #[inline(always)]
    unsafe fn fence() {}

    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}

    #[inline(always)]
    unsafe fn xor(self, other: u64) -> u64 {
        self ^ other
    }

    #[inline(always)]
    unsafe fn xor3(self, second: u64, third: u64) -> u64 {
        self ^ second ^ third
    }

    #[inline(always)]
    unsafe fn or(self, other: u64) -> u64 {
        self | other
    }

    #[inline(always)]
    unsafe fn horner(self, next: u64) -> u64 {
        double_eight(self) ^ next
    }

    #[inline(always)]
    unsafe fn horner2(self, next: u64, last: u64) -> u64 {
        double_eight(double_eight(self) ^ next) ^ last
    }

    #[inline(always)]
    unsafe fn factor(coefficient: &Coefficient) -> u8 {
        coefficient.value
    }

    #[inline(always)]
    unsafe fn multiply(self, factor: u8) -> u64 {
        let mut product = 0;
        let mut shifted = self;
        for bit in 0..8 {
            let mask = 0u64.wrapping_sub(u64::from(factor >> bit & 1));
            product ^= shifted & mask;
            shifted = double_eight(shifted);
        }
        product
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self == 0
    }
}

impl Lane for u8 {
    const BYTES: usize = 1;
    type Factor = u8;

    #[inline(always)]
    unsafe fn zero() -> u8 {
        0
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> u8 {
        // SAFETY: the caller says that the pointer is valid for a byte.
        unsafe { from.read() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller says that the pointer is valid for a byte.
        unsafe { to.write(self) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as for `store`.
        unsafe { self.store(to) }
    }

    #[inline(always)]
    unsafe fn fence() {}

    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}

    #[inline(always)]
    unsafe fn xor(self, other: u8) -> u8 {
        self ^ other
    }

    #[inline(always)]
    unsafe fn xor3(self, second: u8, third: u8) -> u8 {
        self ^ second ^ third
    }

    #[inline(always)]
    unsafe fn or(self, other: u8) -> u8 {
        self | other
    }

    #[inline(always)]
    unsafe fn horner(self, next: u8) -> u8 {
        double(self) ^ next
    }

    #[inline(always)]
    unsafe fn horner2(self, next: u8, last: u8) -> u8 {
        double(double(self) ^ next) ^ last
    }

    #[inline(always)]
    unsafe fn factor(coefficient: &Coefficient) -> u8 {
        coefficient.value
    }

    #[inline(always)]
    unsafe fn multiply(self, factor: u8) -> u8 {
        multiply(self, factor)
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self == 0
    }
}

//! Lanes of aarch64: NEON, which every such CPU has.
#![allow(
    unsafe_code,
    reason = "loads and stores of vector registers; see the SAFETY lines"
)]

use std::arch::aarch64::*;

use super::Lane;
use crate::field::{Coefficient, REDUCTION};

/// Sixteen bytes; multiplies by a lookup of nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Neon(uint8x16_t);

impl Lane for Neon {
    const BYTES: usize = 16;
    type Factor = (uint8x16_t, uint8x16_t);

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn zero() -> Neon {
        Neon(vdupq_n_u8(0))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load(from: *const u8) -> Neon {
        // SAFETY: the caller says that the pointer is valid for sixteen bytes.
        Neon(unsafe { vld1q_u8(from) })
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller says that the pointer is valid for sixteen bytes.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as for `store`.
        unsafe { self.store(to) }
    }

    #[inline(always)]
    unsafe fn fence() {}

    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn xor(self, other: Neon) -> Neon {
        Neon(veorq_u8(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn xor3(self, second: Neon, third: Neon) -> Neon {
        Neon(veorq_u8(self.0, veorq_u8(second.0, third.0)))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn or(self, other: Neon) -> Neon {
        Neon(vorrq_u8(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn horner(self, next: Neon) -> Neon {
        Neon(double_add(self.0, next.0))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn horner2(self, next: Neon, last: Neon) -> Neon {
        Neon(double_add(double_add(self.0, next.0), last.0))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn factor(coefficient: &Coefficient) -> Self::Factor {
        // SAFETY: both tables are sixteen bytes long.
        unsafe {
            (
                vld1q_u8(coefficient.low.as_ptr()),
                vld1q_u8(coefficient.high.as_ptr()),
            )
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn multiply(self, (low, high): Self::Factor) -> Neon {
        let lows = vqtbl1q_u8(low, vandq_u8(self.0, vdupq_n_u8(0x0f)));
        let highs = vqtbl1q_u8(high, vshrq_n_u8::<4>(self.0));
        Neon(veorq_u8(lows, highs))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn is_zero(self) -> bool {
        vmaxvq_u8(self.0) == 0
    }
}

/// 2 `a` + `b`.
#[inline]
#[target_feature(enable = "neon")]
fn double_add(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    let negative = vcltzq_s8(vreinterpretq_s8_u8(a));
    let carries = vandq_u8(negative, vdupq_n_u8(REDUCTION));
    veorq_u8(vshlq_n_u8::<1>(a), veorq_u8(carries, b))
}

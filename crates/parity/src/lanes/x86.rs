//! Lanes of x86-64: SSSE3, AVX2 and AVX-512, the latter two with and without GFNI.
//!
//! Methods carry the target feature themselves, so that only memory accesses are unsafe inside,
//! and inline into kernels compiled with the same features.
#![allow(
    unsafe_code,
    reason = "loads and stores of vector registers; see the SAFETY lines"
)]

use std::arch::x86_64::*;

use super::Lane;
use crate::field::{Coefficient, REDUCTION};

/// Multiplication by the generator as a bit matrix, for Horner's scheme.
const DOUBLING_MATRIX: u64 = Coefficient::new(2).matrix;

/// Two such multiplications at once.
const QUADRUPLING_MATRIX: u64 = Coefficient::new(4).matrix;

/// Sixteen bytes; multiplies by a shuffle of nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Ssse3(__m128i);

/// Thirty-two bytes; multiplies by a shuffle of nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256i);

/// Thirty-two bytes; multiplies by a bit matrix.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Gfni(__m256i);

/// Sixty-four bytes; multiplies by a shuffle of nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512i);

/// Sixty-four bytes; multiplies by a bit matrix.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Gfni(__m512i);

/// The methods that are one instruction on each set.
macro_rules! common {
    ($features:literal, $bytes:literal, $register:ty, $zero:ident, $load:ident, $store:ident,
     $stream:ident, $xor:ident, $or:ident, |$a:ident, $b:ident, $c:ident| $xor3:expr,
     |$v:ident| $is_zero:expr) => {
        const BYTES: usize = $bytes;

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn zero() -> Self {
            Self($zero())
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller says that the pointer is valid; the load is an unaligned one.
            Self(unsafe { $load(from.cast()) })
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller says that the pointer is valid; the store is an unaligned one.
            unsafe { $store(to.cast(), self.0) }
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn stream(self, to: *mut u8) {
            // SAFETY: the caller says that the pointer is valid and aligned; the kernel that
            // streams ends with a store fence.
            unsafe { $stream(to.cast(), self.0) }
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn fence() {
            _mm_sfence();
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn prefetch(from: *const u8) {
            _mm_prefetch::<_MM_HINT_T1>(from.cast());
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn xor(self, other: Self) -> Self {
            Self($xor(self.0, other.0))
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn or(self, other: Self) -> Self {
            Self($or(self.0, other.0))
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn xor3(self, second: Self, third: Self) -> Self {
            let ($a, $b, $c): ($register, $register, $register) = (self.0, second.0, third.0);
            Self($xor3)
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn is_zero(self) -> bool {
            let $v: $register = self.0;
            $is_zero
        }
    };
}

/// Multiplication by looking up both nibbles of every byte.
macro_rules! shuffled {
    ($features:literal, $register:ty, $broadcast:ident, $shuffle:ident, $and:ident, $xor:ident,
     $shift:ident, $set1:ident, $double_add:ident) => {
        type Factor = ($register, $register);

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn factor(coefficient: &Coefficient) -> Self::Factor {
            // SAFETY: both tables are sixteen bytes long; the loads are unaligned ones.
            unsafe {
                (
                    $broadcast(_mm_loadu_si128(coefficient.low.as_ptr().cast())),
                    $broadcast(_mm_loadu_si128(coefficient.high.as_ptr().cast())),
                )
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn multiply(self, (low, high): Self::Factor) -> Self {
            let nibble = $set1(0x0f);
            let lows = $shuffle(low, $and(self.0, nibble));
            let highs = $shuffle(high, $and($shift::<4>(self.0), nibble));
            Self($xor(lows, highs))
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn horner(self, next: Self) -> Self {
            Self($double_add(self.0, next.0))
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn horner2(self, next: Self, last: Self) -> Self {
            Self($double_add($double_add(self.0, next.0), last.0))
        }
    };
}

/// Multiplication by a bit matrix; doubling is one such.
macro_rules! affine {
    ($features:literal, $register:ty, $set1:ident, $affine:ident, $xor:ident,
     |$a:ident, $b:ident, $c:ident| $xor3:expr) => {
        type Factor = $register;

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn factor(coefficient: &Coefficient) -> $register {
            $set1(coefficient.matrix as i64)
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn multiply(self, factor: $register) -> Self {
            Self($affine::<0>(self.0, factor))
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn horner(self, next: Self) -> Self {
            let doubled = $affine::<0>(self.0, $set1(DOUBLING_MATRIX as i64));
            Self($xor(doubled, next.0))
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn horner2(self, next: Self, last: Self) -> Self {
            // Two multiplications as one step after another, but side by side: half the latency.
            let $a = $affine::<0>(self.0, $set1(QUADRUPLING_MATRIX as i64));
            let $b = $affine::<0>(next.0, $set1(DOUBLING_MATRIX as i64));
            let $c = last.0;
            Self($xor3)
        }
    };
}

#[inline]
#[target_feature(enable = "ssse3")]
fn whole(register: __m128i) -> __m128i {
    register
}

impl Lane for Ssse3 {
    common!(
        "ssse3",
        16,
        __m128i,
        _mm_setzero_si128,
        _mm_loadu_si128,
        _mm_storeu_si128,
        _mm_stream_si128,
        _mm_xor_si128,
        _mm_or_si128,
        |a, b, c| _mm_xor_si128(a, _mm_xor_si128(b, c)),
        |v| _mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_setzero_si128())) == 0xffff
    );
    shuffled!(
        "ssse3",
        __m128i,
        whole,
        _mm_shuffle_epi8,
        _mm_and_si128,
        _mm_xor_si128,
        _mm_srli_epi64,
        _mm_set1_epi8,
        double_add_128
    );
}

/// 2 `a` + `b`.
#[inline]
#[target_feature(enable = "ssse3")]
fn double_add_128(a: __m128i, b: __m128i) -> __m128i {
    let negative = _mm_cmpgt_epi8(_mm_setzero_si128(), a);
    let carries = _mm_and_si128(negative, _mm_set1_epi8(REDUCTION as i8));
    _mm_xor_si128(_mm_add_epi8(a, a), _mm_xor_si128(carries, b))
}

impl Lane for Avx2 {
    common!(
        "avx2",
        32,
        __m256i,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_xor_si256,
        _mm256_or_si256,
        |a, b, c| _mm256_xor_si256(a, _mm256_xor_si256(b, c)),
        |v| _mm256_testz_si256(v, v) == 1
    );
    shuffled!(
        "avx2",
        __m256i,
        _mm256_broadcastsi128_si256,
        _mm256_shuffle_epi8,
        _mm256_and_si256,
        _mm256_xor_si256,
        _mm256_srli_epi64,
        _mm256_set1_epi8,
        double_add_256
    );
}

/// 2 `a` + `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn double_add_256(a: __m256i, b: __m256i) -> __m256i {
    let negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), a);
    let carries = _mm256_and_si256(negative, _mm256_set1_epi8(REDUCTION as i8));
    _mm256_xor_si256(_mm256_add_epi8(a, a), _mm256_xor_si256(carries, b))
}

impl Lane for Avx2Gfni {
    common!(
        "avx2,gfni",
        32,
        __m256i,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_xor_si256,
        _mm256_or_si256,
        |a, b, c| _mm256_xor_si256(a, _mm256_xor_si256(b, c)),
        |v| _mm256_testz_si256(v, v) == 1
    );
    affine!(
        "avx2,gfni",
        __m256i,
        _mm256_set1_epi64x,
        _mm256_gf2p8affine_epi64_epi8,
        _mm256_xor_si256,
        |a, b, c| _mm256_xor_si256(a, _mm256_xor_si256(b, c))
    );
}

/// The truth table of a three-way exclusive or.
const XOR3: i32 = 0x96;

impl Lane for Avx512 {
    common!(
        "avx512f,avx512bw",
        64,
        __m512i,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_xor_si512,
        _mm512_or_si512,
        |a, b, c| _mm512_ternarylogic_epi64::<XOR3>(a, b, c),
        |v| _mm512_test_epi64_mask(v, v) == 0
    );
    shuffled!(
        "avx512f,avx512bw",
        __m512i,
        _mm512_broadcast_i32x4,
        _mm512_shuffle_epi8,
        _mm512_and_si512,
        _mm512_xor_si512,
        _mm512_srli_epi64,
        _mm512_set1_epi8,
        double_add_512
    );
}

/// 2 `a` + `b`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn double_add_512(a: __m512i, b: __m512i) -> __m512i {
    let negative = _mm512_movepi8_mask(a);
    let carries = _mm512_maskz_set1_epi8(negative, REDUCTION as i8);
    _mm512_ternarylogic_epi64::<XOR3>(_mm512_add_epi8(a, a), carries, b)
}

impl Lane for Avx512Gfni {
    common!(
        "avx512f,avx512bw,gfni",
        64,
        __m512i,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_xor_si512,
        _mm512_or_si512,
        |a, b, c| _mm512_ternarylogic_epi64::<XOR3>(a, b, c),
        |v| _mm512_test_epi64_mask(v, v) == 0
    );
    affine!(
        "avx512f,avx512bw,gfni",
        __m512i,
        _mm512_set1_epi64,
        _mm512_gf2p8affine_epi64_epi8,
        _mm512_xor_si512,
        |a, b, c| _mm512_ternarylogic_epi64::<XOR3>(a, b, c)
    );
}

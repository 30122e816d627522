//! Arithmetic in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11D), the field of Linux RAID 6.
//!
//! Multiplication here is plain and slow: the kernels use the constants in [`Coefficient`].

/// What remains of x^8 after reduction: the field polynomial without its leading term.
pub(crate) const REDUCTION: u8 = 0x1d;

/// `a` times the generator 2.
pub const fn double(a: u8) -> u8 {
    (a << 1) ^ (if a & 0x80 != 0 { REDUCTION } else { 0 })
}

/// `a` times `b`.
pub const fn multiply(a: u8, b: u8) -> u8 {
    let mut product = 0;
    let mut shifted = a;
    let mut rest = b;
    while rest != 0 {
        if rest & 1 != 0 {
            product ^= shifted;
        }
        shifted = double(shifted);
        rest >>= 1;
    }
    product
}

/// 2 to the power of `exponent`: the coefficient of data column `exponent` in Q.
pub const fn power_of_two(exponent: usize) -> u8 {
    POWERS[exponent % POWERS.len()]
}

/// The element that gives 1 when multiplied by `a`; 0 for `a` = 0, which has none.
pub const fn inverse(a: u8) -> u8 {
    INVERSES[a as usize]
}

/// The powers of two: all elements but zero.
static POWERS: [u8; 255] = {
    let mut powers = [1; 255];
    let mut exponent = 1;
    while exponent < 255 {
        powers[exponent] = double(powers[exponent - 1]);
        exponent += 1;
    }
    powers
};

/// Inverses: 2^i and 2^(255 - i) are a pair.
static INVERSES: [u8; 256] = {
    let mut inverses = [0; 256];
    let mut exponent = 0;
    while exponent < 255 {
        inverses[POWERS[exponent] as usize] = POWERS[(255 - exponent) % 255];
        exponent += 1;
    }
    inverses
};

/// A constant to multiply by, in the forms that the kernels need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coefficient {
    /// The constant itself.
    pub value: u8,
    /// The products of the constant and each low nibble: a byte-shuffle table.
    pub low: [u8; 16],
    /// The products of the constant and each high nibble (already in place, i.e. times 16).
    pub high: [u8; 16],
    /// The constant as a bit matrix for `vgf2p8affineqb`. That instruction takes the row for
    /// result bit `i` from byte `7 - i`. (`vgf2p8mulb` would be wrong: its field is 0x11B.)
    pub matrix: u64,
}

impl Coefficient {
    /// Computes the forms of `value`.
    pub const fn new(value: u8) -> Coefficient {
        let mut coefficient = Coefficient {
            value,
            low: [0; 16],
            high: [0; 16],
            matrix: 0,
        };
        let mut nibble = 0;
        while nibble < 16 {
            coefficient.low[nibble] = multiply(value, nibble as u8);
            coefficient.high[nibble] = multiply(value, (nibble << 4) as u8);
            nibble += 1;
        }
        let mut column = 0;
        while column < 8 {
            let product = multiply(value, 1 << column);
            let mut bit = 0;
            while bit < 8 {
                if product & (1 << bit) != 0 {
                    coefficient.matrix |= 1 << ((7 - bit) * 8 + column);
                }
                bit += 1;
            }
            column += 1;
        }
        coefficient
    }

    /// The precomputed forms of `value`.
    pub fn of(value: u8) -> &'static Coefficient {
        &COEFFICIENTS[usize::from(value)]
    }
}

/// The coefficient of every field element: 10 KiB, computed by the compiler.
static COEFFICIENTS: [Coefficient; 256] = {
    let mut all = [Coefficient::new(0); 256];
    let mut value = 0;
    while value < 256 {
        all[value] = Coefficient::new(value as u8);
        value += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, without tables or shortcuts: the carry-less product of the polynomials,
    /// then its remainder by x^8 + x^4 + x^3 + x^2 + 1.
    fn by_definition(a: u8, b: u8) -> u8 {
        let mut product = 0u32;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= u32::from(a) << bit;
            }
        }
        for bit in (8..15).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11d << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn multiplication_is_that_of_the_definition() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), by_definition(a, b), "{a} x {b}");
            }
        }
    }

    #[test]
    fn the_generator_reaches_every_element_but_zero() {
        let mut seen = [false; 256];
        for exponent in 0..255 {
            let power = power_of_two(exponent);
            assert!(!seen[usize::from(power)], "2^{exponent} repeats");
            seen[usize::from(power)] = true;
        }
        assert!(!seen[0]);
        assert_eq!(power_of_two(255), 1);
        assert_eq!(power_of_two(8), REDUCTION);
    }

    #[test]
    fn an_inverse_undoes_multiplication() {
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a)), 1, "{a}");
        }
        assert_eq!(inverse(0), 0);
    }

    #[test]
    fn every_form_of_a_coefficient_is_the_same_function() {
        for value in 0..=255 {
            let coefficient = Coefficient::of(value);
            assert_eq!(coefficient.value, value);
            for x in 0..=255u8 {
                let expected = by_definition(value, x);
                let shuffled =
                    coefficient.low[usize::from(x & 15)] ^ coefficient.high[usize::from(x >> 4)];
                assert_eq!(shuffled, expected);
                let affine = (0..8).fold(0u8, |result, bit| {
                    let row = (coefficient.matrix >> ((7 - bit) * 8)) as u8;
                    result | (((row & x).count_ones() as u8 & 1) << bit)
                });
                assert_eq!(affine, expected);
            }
        }
    }
}

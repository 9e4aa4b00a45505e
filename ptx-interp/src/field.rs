//! Finite fields. Their elements replace floats in registers and memory when a program runs over the real numbers, see `reals`.

use super::mix::{mix, nth};
use super::soft::{self, mask};
use super::space::number;
use ptx_core::isa::{Class, Type};

/// The largest primes below 2^16: a difference of constants that one field does not see is seen by another.
const PRIMES: [u32; 16] = [
    65_521, 65_519, 65_497, 65_479, 65_449, 65_447, 65_437, 65_423, 65_419, 65_413, 65_407, 65_393, 65_381, 65_371,
    65_357, 65_353,
];

/// A finite field with a secret code of its elements: only moving the bits of a number is a known function of the number. Zero has the code 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    prime: u32,
    key: u64,
}

/// An element of a field; none where a program divides by zero, or has read bits that are no number's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(Option<u32>);

/// A function of the real numbers of which nothing is known but that equal arguments have equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names say what they are")]
pub enum Function {
    Sqrt,
    Exp2,
    Log2,
    Sin,
    Cos,
    Tanh,
}

impl Number {
    /// No number of the field.
    pub const NONE: Number = Number(None);

    /// The residue.
    pub fn residue(self) -> Option<u32> {
        self.0
    }
}

impl Field {
    /// The number of primes.
    pub const COUNT: u64 = PRIMES.len() as u64;

    /// A field of the number's own; as many in a row as there are primes differ in theirs.
    pub fn new(number: u64) -> Field {
        Field { prime: PRIMES[(number % Field::COUNT) as usize], key: nth(number) }
    }

    fn of(self, value: u64) -> Number {
        Number(Some((value % u64::from(self.prime)) as u32))
    }

    fn both(self, a: Number, b: Number, f: impl Fn(u64, u64) -> u64) -> Number {
        let (Some(a), Some(b)) = (a.0, b.0) else { return Number::NONE };
        self.of(f(a.into(), b.into()))
    }

    /// The sum.
    pub fn add(self, a: Number, b: Number) -> Number {
        self.both(a, b, |a, b| a + b)
    }

    /// The difference.
    pub fn sub(self, a: Number, b: Number) -> Number {
        self.both(a, b, |a, b| a + u64::from(self.prime) - b)
    }

    /// The product.
    pub fn mul(self, a: Number, b: Number) -> Number {
        self.both(a, b, |a, b| a * b)
    }

    /// The quotient; none by zero.
    pub fn div(self, a: Number, b: Number) -> Number {
        match b.0 {
            Some(0) => Number::NONE,
            _ => self.mul(a, self.power(b, u64::from(self.prime) - 2)),
        }
    }

    fn power(self, mut base: Number, mut exponent: u64) -> Number {
        let mut result = self.of(1);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.mul(result, base);
            }
            base = self.mul(base, base);
            exponent >>= 1;
        }
        result
    }

    /// An integer.
    pub fn integer(self, value: i128) -> Number {
        self.of(value.rem_euclid(i128::from(self.prime)) as u64)
    }

    /// The rational number that a float is; none if it is infinite or NaN.
    pub fn float(self, value: f64) -> Number {
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
        if exponent == 0x7ff {
            return Number::NONE;
        }
        let significand = self.of(if exponent == 0 { fraction } else { fraction | 1 << 52 });
        let shift = exponent.max(1) - 1075;
        let scale = self.power(self.of(2), shift.unsigned_abs().into());
        let magnitude = if shift < 0 { self.div(significand, scale) } else { self.mul(significand, scale) };
        if value.is_sign_negative() { self.sub(self.of(0), magnitude) } else { magnitude }
    }

    /// A value of a function: any, the same for the same argument, and not zero.
    pub fn apply(self, function: Function, of: Number) -> Number {
        let Some(residue) = of.0 else { return Number::NONE };
        let hash = mix(self.key ^ u64::from(residue) << 8 ^ (function as u64 + 1) << 40);
        self.of(1 + hash % (u64::from(self.prime) - 1))
    }

    /// An unknown number: the same for the same index.
    pub fn random(self, index: u64) -> Number {
        self.of(mix(self.key.rotate_left(17) ^ mix(index)))
    }

    /// The bits of a number as a value of 16, 32 or 64 bits. They are the upper ones, as those of a `bf16` are in an `f32`: kernels unpack
    /// and cut these by shifts and masks.
    pub fn encode(self, number: Number, bits: u32) -> u64 {
        // A prime is below 2^16, so itself is the code of no number.
        u64::from(self.scramble(number.0.unwrap_or(self.prime) as u16)) << (bits - 16)
    }

    /// The number that has these bits.
    pub fn decode(self, value: u64, bits: u32) -> Number {
        let code = (value >> (bits - 16)) as u16;
        let residue = u32::from(self.unscramble(code));
        Number((u64::from(code) << (bits - 16) == value && residue < self.prime).then_some(residue))
    }

    /// A permutation of 16 bits (a Feistel network) that keeps 0.
    fn scramble(self, value: u16) -> u16 {
        self.permute(value) ^ self.permute(0)
    }

    fn unscramble(self, code: u16) -> u16 {
        let [mut high, mut low] = (code ^ self.permute(0)).to_be_bytes();
        for round in (0..ROUNDS).rev() {
            (high, low) = (low ^ self.round(round, high), high);
        }
        u16::from_be_bytes([high, low])
    }

    fn permute(self, value: u16) -> u16 {
        let [mut high, mut low] = value.to_be_bytes();
        for round in 0..ROUNDS {
            (high, low) = (low, high ^ self.round(round, low));
        }
        u16::from_be_bytes([high, low])
    }

    fn round(self, round: u32, half: u8) -> u8 {
        ((self.key ^ u64::from(half) << 32 ^ u64::from(round)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }
}

const ROUNDS: u32 = 6;

/// Returns true for types of one float, or of several.
pub(super) fn is_float(ty: Type) -> bool {
    matches!(ty.class(), Class::Float | Class::Packed)
}

/// Values that the host or an initializer has as floats, in the field.
pub(super) fn encode_floats(field: Field, ty: Type, bytes: &mut [u8]) {
    let Some(format) = soft::format(ty.name()).filter(|format| ty.class() == Class::Float && format.bits >= 16) else {
        return;
    };
    for value in bytes.chunks_exact_mut(ty.bits() as usize / 8) {
        let float = soft::unpack(number(value) & mask(format.bits), format).value();
        let code = field.encode(field.float(float), ty.bits()).to_le_bytes();
        value.copy_from_slice(&code[..value.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_a_permutation() {
        for field in (0..Field::COUNT).map(Field::new) {
            for bits in [16, 32, 64] {
                for value in (0..field.prime).step_by(7) {
                    let number = Number(Some(value));
                    assert_eq!(field.decode(field.encode(number, bits), bits), number);
                }
                assert_eq!(field.encode(field.of(0), bits), 0);
                assert_eq!(field.decode(field.encode(Number::NONE, bits), bits), Number::NONE);
            }
        }
    }

    #[test]
    fn arithmetic_is_that_of_rational_numbers() {
        for field in (0..Field::COUNT).map(Field::new) {
            let [half, third] = [2, 3].map(|n| field.div(field.integer(1), field.integer(n)));
            assert_eq!(field.float(0.5), half);
            assert_eq!(field.float(-0.5), field.sub(field.integer(0), half));
            assert_eq!(field.mul(field.add(half, third), field.integer(6)), field.integer(5));
            assert_eq!(field.float(1e-6), field.div(field.float(1e-6 * 2f64.powi(60)), field.integer(1 << 60)));
            assert_eq!(field.float(f64::NEG_INFINITY), Number::NONE);
            assert_eq!(field.div(half, field.integer(0)), Number::NONE);
        }
    }
}

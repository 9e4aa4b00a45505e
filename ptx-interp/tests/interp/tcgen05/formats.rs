//! The element types, decoded by their definitions.

/// A type: its bits, and those of exponent and fraction; no exponent is an integer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub name: &'static str,
    pub bits: u32,
    exponent: u32,
    fraction: u32,
    /// Its number in an instruction descriptor.
    pub code: u32,
}

const fn format(name: &'static str, bits: u32, exponent: u32, fraction: u32, code: u32) -> Format {
    Format { name, bits, exponent, fraction, code }
}

pub(crate) const F16: Format = format("f16", 16, 5, 10, 0);
pub(crate) const BF16: Format = format("bf16", 16, 8, 7, 1);
pub(crate) const TF32: Format = format("tf32", 32, 8, 23, 2);
pub(crate) const E4M3: Format = format("e4m3", 8, 4, 3, 0);
pub(crate) const E5M2: Format = format("e5m2", 8, 5, 2, 1);
pub(crate) const E2M3: Format = format("e2m3", 6, 2, 3, 3);
pub(crate) const E3M2: Format = format("e3m2", 6, 3, 2, 4);
pub(crate) const E2M1: Format = format("e2m1", 4, 2, 1, 5);
pub(crate) const U8: Format = format("u8", 8, 0, 0, 0);
pub(crate) const S8: Format = format("s8", 8, 0, 0, 1);

impl Format {
    /// The number that a code is.
    pub(crate) fn value(self, code: u32) -> f64 {
        match (self.name, self.exponent) {
            ("u8", _) => f64::from(code),
            ("s8", _) => f64::from(code as u8 as i8),
            _ => {
                let code = if self.name == "tf32" { code & !0x1fff } else { code };
                let sign = if code >> (self.bits - 1) & 1 == 1 { -1.0 } else { 1.0 };
                let exponent = (code >> self.fraction & ((1 << self.exponent) - 1)) as i32;
                let fraction = f64::from(code & ((1 << self.fraction) - 1)) / f64::from(1u32 << self.fraction);
                let bias = (1 << (self.exponent - 1)) - 1;
                let hidden = if exponent == 0 { 0.0 } else { 1.0 };
                sign * (hidden + fraction) * 2f64.powi(exponent.max(1) - bias)
            }
        }
    }

    /// Codes of numbers that are small multiples of 1/8, so that sums of products are exact.
    pub(crate) fn codes(self) -> Vec<u32> {
        if self.bits == 32 {
            // The bits that tf32 does not have are not zero: they must not count.
            return (-16..=16).map(|i| (i as f32 / 4.0).to_bits() | 0x0aaa).collect();
        }
        let nice = |code: &u32| {
            let value = self.value(*code);
            self.exponent == 0 || value.abs() <= 8.0 && value * 8.0 % 1.0 == 0.0
        };
        (0..1 << self.bits).filter(nice).collect()
    }
}

#[test]
fn decoding_follows_the_definitions() {
    assert_eq!([E4M3.value(0x7e), E4M3.value(0x81), E5M2.value(0x3c)], [448.0, -1.0 / 512.0, 1.0]);
    assert_eq!([E2M1.value(7), E2M3.value(0x1f), E3M2.value(0x1f), E2M1.value(9)], [6.0, 7.5, 28.0, -0.5]);
    assert_eq!([F16.value(0x3c01), BF16.value(0xbf80), S8.value(0xff)], [1.0 + 1.0 / 1024.0, -1.0, -1.0]);
}

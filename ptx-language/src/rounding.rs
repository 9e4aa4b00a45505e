//! Rounding of constants to the floats of the kernel language.

/// `value` rounded to the nearest value of a format, ties to even, as its bits.
pub(crate) fn round(value: f64, exponent: u32, mantissa: u32) -> u64 {
    let bits = value.to_bits();
    let sign = (bits >> 63) << (exponent + mantissa);
    let infinity = ((1u64 << exponent) - 1) << mantissa;
    if value.is_nan() {
        return sign | infinity | 1 << (mantissa - 1);
    }
    if value.is_infinite() || value == 0.0 {
        return sign | if value == 0.0 { 0 } else { infinity };
    }
    let fraction = bits & ((1 << 52) - 1);
    let (biased, implicit) = ((bits >> 52 & 0x7ff) as i64, 1u64 << 52);
    let (scale, full) = if biased == 0 { (-1022, fraction) } else { (biased - 1023, fraction | implicit) };
    let target = scale + (1 << (exponent - 1)) - 1;
    let drop = i64::from(52 - mantissa) + (1 - target).max(0);
    let kept = if drop > 63 { 0 } else { round_shift(full, drop as u32) };
    let encoded = if target < 1 { kept } else { kept + ((target as u64 - 1) << mantissa) };
    sign | encoded.min(infinity)
}

/// `value >> by`, to nearest, ties to even.
fn round_shift(value: u64, by: u32) -> u64 {
    if by == 0 {
        return value;
    }
    let (quotient, rest, half) = (value >> by, value & ((1 << by) - 1), 1u64 << (by - 1));
    quotient + u64::from(rest > half || (rest == half && quotient & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::round;

    #[test]
    fn rounds_to_nearest_even() {
        for value in [0.0, 1.0, -1.5, 0.1, 3.4e38, 1e39, 1e-45, 1.1754943e-38, 5.877472e-39, f64::INFINITY] {
            assert_eq!(round(value, 8, 23), u64::from((value as f32).to_bits()), "{value}");
            assert_eq!(round(value, 11, 52), value.to_bits(), "{value}");
        }
        assert_eq!(round(1.0, 5, 10), 0x3C00);
        assert_eq!(round(65504.0, 5, 10), 0x7BFF);
        assert_eq!(round(65520.0, 5, 10), 0x7C00);
        assert_eq!(round(5.960_464_477_539_063e-8, 5, 10), 1);
        assert_eq!(round(1.0, 8, 7), 0x3F80);
        assert_eq!(round(1.003_906_25, 8, 7), 0x3F80);
    }
}

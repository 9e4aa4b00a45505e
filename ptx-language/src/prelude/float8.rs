//! Floats of 8 bits in registers: `e4m3` to and from wider types. For `sm_80` and later; from `sm_90` on a conversion is one instruction.

/// Four `e4m3` as pairs of `f16`, exactly: two `cvt.rn.f16x2.e4m3x2`. Before `sm_90` for each pair `prmt`, two `and`, `shr`, `or` and
/// `mul.f16x2`, and NaN becomes 480.
fn widen(x: b32) -> [b32; 2] {
    let pairs: [b32; 2];
    if arch >= sm_90 {
        let (low, high): b16;
        ptx! {
            mov.b32 {low, high}, x;
            cvt.rn.f16x2.e4m3x2 pairs[0], low;
            cvt.rn.f16x2.e4m3x2 pairs[1], high;
        }
    } else {
        // Exponent and mantissa become those of an f16, whose exponents count from another number: a factor of 256.
        let scale: b32 = 0x5c005c00;
        for i in 0..2 {
            const BYTES: u32 = 0x1404 + 0x2020 * i;
            let (mut spread, sign): (b32, b32);
            ptx! {
                prmt.b32 spread, x, 0, BYTES;
                and.b32 sign, spread, 0x80008000;
                and.b32 spread, spread, 0x7f007f00;
                shr.u32 spread, spread, 1;
                or.b32 spread, spread, sign;
                mul.rn.f16x2 pairs[i], spread, scale;
            }
        }
    }
    pairs
}

/// Two numbers as `e4m3`, rounded to nearest and at most ±448: `cvt.rn.satfinite.e4m3x2.f32`. Before `sm_90` twice `narrow_bits`.
fn narrow(low: f32, high: f32) -> b16 {
    let pair: b16;
    if arch >= sm_90 {
        ptx! { cvt.rn.satfinite.e4m3x2.f32 pair, high, low; }
    } else {
        let bits: u32 = narrow_bits(low) | (narrow_bits(high) << 8);
        ptx! { cvt.u16.u32 pair, bits; }
    }
    pair
}

/// The bits of a number as `e4m3` by integers: a multiple of 2^-9 below 2^-6, else the upper bits of an `f32`. `abs`, `min`, `mul`, `cvt`,
/// two `setp`, two `selp`, and eight more.
fn narrow_bits(x: f32) -> u32 {
    let (mut bits, small, sign): (u32, u32, u32);
    let (size, scaled, unordered): (f32, f32, pred);
    size = x.abs().min(448.0);
    ptx! {
        mov.b32 sign, x;
        mov.b32 bits, size;
        mul.f32 scaled, size, 512.0;
        cvt.rni.u32.f32 small, scaled;
        setp.nan.f32 unordered, x, x;
    }
    bits = bits + 0x7ffff + ((bits >> 20) & 1);
    bits = (bits >> 20) - 960;
    bits = (size < 0.015625).select(small, bits);
    bits = unordered.select(0x7f, bits);
    bits | ((sign >> 24) & 0x80)
}

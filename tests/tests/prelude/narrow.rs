//! `float8`: every `e4m3` and the values between them, by the conversions of `sm_90` and by those before.

use ptx_launch::Result;
use ptx_launch::prelude::*;

/// Four numbers of each word, widened, and pairs of `x`, narrowed.
#[ptx_kernel(arch = "sm_90", block = 64, grid = 1, unsafe(requires(bits.len() >= 64, x.len() >= 256, pairs.len() >= 128, out.len() >= 128)))]
pub fn converted(bits: &[u32], x: &[f32], pairs: &mut [u16], out: &mut [u32]) {
    let (from, x_from, to, out_to) = (bits.at(tid.x), x.at(4 * tid.x), pairs.at(2 * tid.x), out.at(2 * tid.x));
    let (word, values): (b32, [f32; 4]);
    ptx! {
        ld.global.b32 word, [from];
        ld.global.v4.f32 {values[..]}, [x_from];
    }
    let wide: [b32; 2] = float8::widen(word);
    let (low, high): (b16, b16) = (float8::narrow(values[0], values[1]), float8::narrow(values[2], values[3]));
    ptx! {
        st.global.v2.b32 [out_to], {wide[..]};
        st.global.v2.b16 [to], {low, high};
    }
}

/// The same before `sm_90`.
#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, unsafe(requires(bits.len() >= 64, x.len() >= 256, pairs.len() >= 128, out.len() >= 128)))]
pub fn computed(bits: &[u32], x: &[f32], pairs: &mut [u16], out: &mut [u32]) {
    let (from, x_from, to, out_to) = (bits.at(tid.x), x.at(4 * tid.x), pairs.at(2 * tid.x), out.at(2 * tid.x));
    let (word, values): (b32, [f32; 4]);
    ptx! {
        ld.global.b32 word, [from];
        ld.global.v4.f32 {values[..]}, [x_from];
    }
    let wide: [b32; 2] = float8::widen(word);
    let (low, high): (b16, b16) = (float8::narrow(values[0], values[1]), float8::narrow(values[2], values[3]));
    ptx! {
        st.global.v2.b32 [out_to], {wide[..]};
        st.global.v2.b16 [to], {low, high};
    }
}

/// The value of the bits of an `e4m3`.
fn value(bits: u32) -> f32 {
    let (exponent, fraction) = ((bits >> 3 & 15) as i32, (bits & 7) as f32);
    let size =
        if exponent == 0 { fraction / 8.0 * 2f32.powi(-6) } else { (1.0 + fraction / 8.0) * 2f32.powi(exponent - 7) };
    if bits & 0x80 == 0 { size } else { -size }
}

#[ptx_test(seeds = 1)]
fn conversions_agree(device: &Device) -> Result<()> {
    let words: Vec<u32> = (0..64).map(|at| u32::from_le_bytes([4 * at, 4 * at + 1, 4 * at + 2, 4 * at + 3])).collect();
    // Each number, what is a little more than half way to the next one, exact halves, and what is too large.
    let between = |at: u32| (value(at) + value(at + 1)) / 2.0;
    let mut x: Vec<f32> = (0..126).flat_map(|at| [between(at), -between(at) * 1.0001]).collect();
    x.extend([449.0, -1e9, 1e-9, 0.0]);
    let (bits, values) = (device.upload(&words)?, device.upload(&x)?);
    let run = |old: bool| -> Result<(Vec<u16>, Vec<u32>)> {
        let (mut pairs, mut out) = (device.zeros(128)?, device.zeros(128)?);
        if old {
            computed(device, &bits, &values, &mut pairs, &mut out)?;
        } else {
            converted(device, &bits, &values, &mut pairs, &mut out)?;
        }
        Ok((pairs.download()?, out.download()?))
    };
    let (new, old) = (run(false)?, run(true)?);
    assert_eq!(new.0, old.0);
    for (at, (new, old)) in new.1.iter().zip(&old.1).enumerate() {
        for half in 0..2 {
            let number = 2 * at as u32 + half;
            let [new, old] = [new, old].map(|pair| f16::from_bits((pair >> (16 * half)) as u16).to_f32());
            if number & 0x7f == 0x7f {
                assert!(new.is_nan() && old.abs() == 480.0);
            } else {
                assert_eq!([new, old], [value(number); 2], "{number:#x}");
            }
        }
    }
    Ok(())
}

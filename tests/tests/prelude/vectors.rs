//! `vector`: values of every 16-bit type, rounded, packed and unpacked, on chips that have the instructions and on those before.

use ptx_launch::prelude::*;
use ptx_launch::{Element, Result};

/// Rounds `x`, and widens the result again.
#[ptx_kernel(
    arch = "sm_75",
    block = 256,
    grid = n.div_ceil(512),
    instances = [bf16, f16],
    unsafe(requires(n % 2 == 0, x.len() >= n, out.len() >= n, exact.len() >= n))
)]
pub fn round_before_ampere<T>(x: &[f32], out: &mut [T], exact: &mut [f32], n: u32) {
    let i: u32 = (ctaid.x * 256 + tid.x) * 2;
    let inside: pred = i < n;
    let values: [f32; 2] = vector::unpack::<f32, 2>(vector::load::<f32, 2>(x.at(i), inside, 0));
    let packed: [b32; 1] = vector::pack::<T, 2>(values);
    vector::store::<T, 2>(out.at(i), packed, inside);
    vector::store::<f32, 2>(exact.at(i), vector::pack::<f32, 2>(vector::unpack::<T, 2>(packed)), inside);
}

/// The same for newer chips, by the other instructions.
#[ptx_kernel(
    arch = "sm_80",
    block = 256,
    grid = n.div_ceil(512),
    instances = [bf16, f16],
    unsafe(requires(n % 2 == 0, x.len() >= n, out.len() >= n, exact.len() >= n))
)]
pub fn round<T>(x: &[f32], out: &mut [T], exact: &mut [f32], n: u32) {
    let i: u32 = (ctaid.x * 256 + tid.x) * 2;
    let inside: pred = i < n;
    let values: [f32; 2] = vector::unpack::<f32, 2>(vector::load::<f32, 2>(x.at(i), inside, 0));
    let packed: [b32; 1] = vector::pack::<T, 2>(values);
    vector::store::<T, 2>(out.at(i), packed, inside);
    vector::store::<f32, 2>(exact.at(i), vector::pack::<f32, 2>(vector::unpack_again::<T, 2, 1>(packed)), inside);
}

/// Values of every exponent, ties among them, infinities and NaN.
fn values() -> Vec<f32> {
    let of_every_size = (0..=u32::MAX).step_by(0x0008_1000 - 0x40).map(f32::from_bits);
    let ties = (0..4096u32).map(|i| f32::from_bits(0x3f80_0000 + i * 0x800));
    let mut values: Vec<f32> = of_every_size.chain(ties).chain([f32::INFINITY, f32::MAX, f32::NAN, -0.0]).collect();
    values.truncate(values.len() / 2 * 2);
    values
}

fn check<T: Element + Default>(
    launch: impl FnOnce(&Device, &Buffer<f32>, &mut Buffer<T>, &mut Buffer<f32>, u32) -> Result<()>,
    rounded: fn(f32) -> (T, f32),
) -> Result<()> {
    let (device, x) = (Device::cpu(), values());
    let (mut out, mut exact) = (device.zeros::<T>(x.len())?, device.zeros::<f32>(x.len())?);
    launch(&device, &device.upload(&x)?, &mut out, &mut exact, x.len() as u32)?;
    for (x, found) in x.into_iter().zip(exact.download()?) {
        let (_, wanted) = rounded(x);
        assert!(found == wanted || found.is_nan() && wanted.is_nan(), "{x:e} became {found:e} and not {wanted:e}");
    }
    Ok(())
}

#[test]
fn values_of_16_bits_are_rounded_to_nearest() -> Result<()> {
    let to_bf16 = |x| (bf16::from_f32(x), bf16::from_f32(x).to_f32());
    let to_f16 = |x| (f16::from_f32(x), f16::from_f32(x).to_f32());
    check::<bf16>(|d, x, out, exact, n| round(d, x, out, exact, n), to_bf16)?;
    check::<f16>(|d, x, out, exact, n| round(d, x, out, exact, n), to_f16)?;
    check::<bf16>(|d, x, out, exact, n| round_before_ampere(d, x, out, exact, n), to_bf16)?;
    check::<f16>(|d, x, out, exact, n| round_before_ampere(d, x, out, exact, n), to_f16)
}

/// `x` · `scale` + `shift`, in arithmetic of 16 bits, two values at a time.
#[ptx_module(arch = "sm_80")]
pub mod pairs {
    fn scale<P>(from: u64, by: f32, shift: f32, to: u64) {
        let mut pairs: [P; 4] = vector::read_pairs::<P, 4>(from);
        let (factor, term): (P, P) = (vector::pair::<P>(by, by), vector::pair::<P>(shift, shift));
        for i in 0..4 {
            pairs[i] = pairs[i].fma(factor, term);
        }
        let (low, high): (f32, f32) = vector::split(pairs[0]);
        pairs[0] = vector::pair::<P>(low, high);
        vector::write_pairs::<P, 4>(to, pairs);
    }

    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 256, out.len() >= 256)))]
    pub fn scale_f16(x: &[f16], by: f32, shift: f32, out: &mut [f16]) {
        scale::<f16x2>(x.at(tid.x * 8), by, shift, out.at(tid.x * 8));
    }

    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 256, out.len() >= 256)))]
    pub fn scale_bf16(x: &[bf16], by: f32, shift: f32, out: &mut [bf16]) {
        scale::<bf16x2>(x.at(tid.x * 8), by, shift, out.at(tid.x * 8));
    }
}

#[test]
fn pairs_are_read_computed_and_written() -> Result<()> {
    let device = Device::cpu();
    let x: Vec<f32> = (0..256).map(|i| i as f32 / 8.0 - 16.0).collect();
    let halves: Vec<f16> = x.iter().map(|x| f16::from_f32(*x)).collect();
    let mut out = device.zeros::<f16>(256)?;
    pairs::scale_f16(&device, &device.upload(&halves)?, 0.5, 1.0, &mut out)?;
    let exact: Vec<f16> = x.iter().map(|x| f16::from_f32(x * 0.5 + 1.0)).collect();
    assert_eq!(out.download()?, exact);
    let halves: Vec<bf16> = x.iter().map(|x| bf16::from_f32(*x)).collect();
    let mut out = device.zeros::<bf16>(256)?;
    pairs::scale_bf16(&device, &device.upload(&halves)?, 0.5, 1.0, &mut out)?;
    let exact: Vec<bf16> = halves.iter().map(|x| bf16::from_f32(x.to_f32() * 0.5 + 1.0)).collect();
    assert_eq!(out.download()?, exact);
    Ok(())
}

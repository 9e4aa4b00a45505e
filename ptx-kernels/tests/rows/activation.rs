//! Activations, forward and backward.

use crate::support::{Guarded, Number, Random, compare, device, difference, each_problem, rounded};
use ptx_kernels::activation::{self, Activation, Float, GatedGrads};
use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, Result};

const ALL: [Activation; 4] = [Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Relu];

/// erf(x), by its series near zero and a continued fraction elsewhere.
fn erf(x: f64) -> f64 {
    if x.abs() >= 3.0 {
        let size = x.abs();
        let fraction = (1..200).rev().fold(size, |below, n| size + f64::from(n) / 2.0 / below);
        return x.signum() * (1.0 - (-x * x).exp() / fraction / std::f64::consts::PI.sqrt());
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn exact(f: Activation, x: f64) -> f64 {
    match f {
        Activation::Gelu => x * 0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => x / (1.0 + (-1.595_769_121_605_730_8 * (x + 0.044715 * x * x * x)).exp()),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Relu => {
            if x <= 0.0 {
                0.0
            } else {
                x
            }
        }
    }
}

fn slope(f: Activation, x: f64) -> f64 {
    match f {
        Activation::Relu => f64::from(x > 0.0),
        _ => difference(|x| exact(f, x), x),
    }
}

/// Larger and smaller ones, all far from ReLU's corner.
fn values<T: Number>(random: &mut Random, count: usize) -> Vec<f64> {
    rounded::<T>(count, |_| 3.0 * random.normal())
}

fn one<T: Number + Float>(device: &Device, random: &mut Random) -> Result<()> {
    let (f, shape) = (random.one_of(&ALL), random.shape());
    let count = shape[0] * shape[1];
    let (x, up, dy) = (values::<T>(random, count), values::<T>(random, count), values::<T>(random, count));
    let [gx, gup, gdy] = [&x, &up, &dy].map(|values| Guarded::<T>::new(device, random, shape, values));
    let name = format!("{f:?} {shape:?}");
    let expected = |g: &dyn Fn(usize) -> f64| (0..count).map(g).collect::<Vec<f64>>();

    let mut out = Guarded::<T>::empty(device, random, shape);
    f.apply(device, gx.read(), out.write())?;
    compare::<T>(&name, &out.values(), &expected(&|i| exact(f, x[i])), 3e-6, 5e-7);

    let mut dx = Guarded::<T>::empty(device, random, shape);
    f.backward(device, gx.read(), gdy.read(), dx.write())?;
    compare::<T>(&name, &dx.values(), &expected(&|i| dy[i] * slope(f, x[i])), 3e-6, 5e-6);

    let mut out = Guarded::<T>::empty(device, random, shape);
    f.gate(device, gx.read(), gup.read(), out.write())?;
    compare::<T>(&name, &out.values(), &expected(&|i| exact(f, x[i]) * up[i]), 3e-6, 5e-6);

    let (mut dgate, mut dup) = (Guarded::<T>::empty(device, random, shape), Guarded::<T>::empty(device, random, shape));
    let grads = GatedGrads { dgate: dgate.write(), dup: dup.write() };
    f.gate_backward(device, gx.read(), gup.read(), gdy.read(), grads)?;
    compare::<T>(&name, &dgate.values(), &expected(&|i| dy[i] * up[i] * slope(f, x[i])), 3e-6, 3e-5);
    compare::<T>(&name, &dup.values(), &expected(&|i| dy[i] * exact(f, x[i])), 3e-6, 5e-6);
    Ok(())
}

#[test]
fn activations_and_gradients_are_right() {
    each_problem(|device, random| {
        one::<f32>(device, random)?;
        one::<f16>(device, random)?;
        one::<bf16>(device, random)
    });
}

#[test]
fn special_values_are_those_of_pytorch() -> Result<()> {
    let device = device();
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = device.upload(&[0.0, -0.0, inf, -inf, nan, 1e-40, -1e-40, -200.0, 3e38, -3e38, 100.0, -10.0])?;
    let expected: [(Activation, [f32; 12]); 4] = [
        (Activation::Gelu, [0.0, 0.0, inf, nan, nan, 5e-41, -5e-41, 0.0, 3e38, 0.0, 100.0, 0.0]),
        (Activation::GeluTanh, [0.0, 0.0, inf, nan, nan, 5e-41, -5e-41, 0.0, 3e38, 0.0, 100.0, 0.0]),
        (Activation::Silu, [0.0, 0.0, inf, nan, nan, 5e-41, -5e-41, 0.0, 3e38, 0.0, 100.0, -4.539_787e-4]),
        (Activation::Relu, [0.0, 0.0, inf, 0.0, nan, 1e-40, 0.0, 0.0, 3e38, 0.0, 100.0, 0.0]),
    ];
    for (f, expected) in expected {
        let mut out = device.zeros::<f32>(12)?;
        f.apply(&device, x.tile([3, 4])?, out.tile_mut([3, 4])?)?;
        for (found, expected) in out.download()?.into_iter().zip(expected) {
            let same = found == expected || found.is_nan() && expected.is_nan();
            assert!(same || (found - expected).abs() < 1e-9, "{f:?}: {found:e} and not {expected:e}");
        }
    }
    Ok(())
}

#[test]
fn shapes_must_agree() -> Result<()> {
    let device = device();
    let (x, mut out) = (device.zeros::<f32>(12)?, device.zeros::<f32>(12)?);
    let error = activation::silu(&device, x.tile([3, 4])?, out.tile_mut([4, 3])?).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Condition);
    activation::gelu(&device, x.tile([0, 4])?, out.tile_mut([0, 4])?)
}

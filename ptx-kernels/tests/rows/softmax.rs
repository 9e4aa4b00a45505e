//! Softmax, forward and backward.

use crate::support::{Guarded, Number, Random, compare, device, each_problem, rounded};
use ptx_kernels::softmax::{Float, Softmax, softmax};
use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, Result};

fn forward(x: &[f64], scale: f64) -> Vec<f64> {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = x.iter().map(|x| ((x - top) * scale).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|power| power / total).collect()
}

fn backward(y: &[f64], dy: &[f64], scale: f64) -> Vec<f64> {
    let sum: f64 = y.iter().zip(dy).map(|(y, dy)| y * dy).sum();
    y.iter().zip(dy).map(|(y, dy)| scale * y * (dy - sum)).collect()
}

#[test]
fn the_reference_is_the_derivative_of_itself() {
    let mut random = Random::new(3);
    let mut vector = || (0..7).map(|_| random.normal()).collect::<Vec<f64>>();
    let (x, dy) = (vector(), vector());
    let loss = |x: &[f64]| -> f64 { forward(x, 0.7).iter().zip(&dy).map(|(y, dy)| y * dy).sum() };
    for (at, dx) in backward(&forward(&x, 0.7), &dy, 0.7).into_iter().enumerate() {
        let change = |by: f64| {
            let mut x = x.clone();
            x[at] += by;
            x
        };
        assert!((dx - (loss(&change(1e-6)) - loss(&change(-1e-6))) / 2e-6).abs() < 1e-8);
    }
}

fn one<T: Number + Float>(device: &Device, random: &mut Random) -> Result<()> {
    let shape = if random.below(25) == 0 { [1, 16_384 + 8 * random.below(100)] } else { random.shape() };
    let scale = random.one_of(&[1.0f32, 1.0, 0.125, 2.5]);
    let [rows, columns] = shape;
    let spread = random.one_of(&[1.0, 10.0]);
    let masked = random.below(4) == 0;
    let x =
        rounded::<T>(
            rows * columns,
            |at| {
                if masked && at % 3 == 1 { f64::NEG_INFINITY } else { spread * random.normal() }
            },
        );
    let dy = rounded::<T>(rows * columns, |_| random.normal());
    let name = format!("{shape:?} scale {scale}");
    let softmax = Softmax::new().scale(scale);
    let softmax = if random.below(2) == 1 { softmax.portable() } else { softmax };
    let gx = Guarded::<T>::new(device, random, shape, &x);
    let mut out = Guarded::<T>::empty(device, random, shape);
    softmax.forward(device, gx.read(), out.write())?;
    let row = |values: &[f64], at: usize| values[at * columns..][..columns].to_vec();
    let exact: Vec<f64> = (0..rows).flat_map(|at| forward(&row(&x, at), f64::from(scale))).collect();
    compare::<T>(&name, &out.values(), &exact, 2e-5, 1e-9);

    let y: Vec<f64> = exact.iter().map(|y| T::rounded(*y).exact()).map(|y| if y.is_nan() { 0.0 } else { y }).collect();
    let gy = Guarded::<T>::new(device, random, shape, &y);
    let gdy = Guarded::<T>::new(device, random, shape, &dy);
    let mut dx = Guarded::<T>::empty(device, random, shape);
    softmax.backward(device, gy.read(), gdy.read(), dx.write())?;
    let exact: Vec<f64> = (0..rows).flat_map(|at| backward(&row(&y, at), &row(&dy, at), f64::from(scale))).collect();
    compare::<T>(&format!("dx {name}"), &dx.values(), &exact, 4e-6, 2e-6);
    Ok(())
}

#[test]
fn softmax_and_gradient_are_right() {
    each_problem(|device, random| {
        one::<f32>(device, random)?;
        one::<f16>(device, random)?;
        one::<bf16>(device, random)
    });
}

#[test]
fn special_values_are_those_of_pytorch() -> Result<()> {
    let (device, inf, nan) = (device(), f32::INFINITY, f32::NAN);
    let x = [
        [-inf, -inf, -inf, -inf],
        [0.0, -inf, 0.0, -inf],
        [1.0, nan, 2.0, 3.0],
        [1.0, inf, 2.0, 3.0],
        [f32::MIN; 4],
        [f32::MAX, 0.0, f32::MIN, f32::MAX],
        [1e-40, -1e-40, 0.0, -0.0],
    ];
    let expected = [[nan; 4], [0.5, 0.0, 0.5, 0.0], [nan; 4], [nan; 4], [0.25; 4], [0.5, 0.0, 0.0, 0.5], [0.25; 4]];
    let (x, mut out) = (device.upload(x.as_flattened())?, device.zeros::<f32>(28)?);
    softmax(&device, x.tile([7, 4])?, out.tile_mut([7, 4])?)?;
    for (found, expected) in out.download()?.iter().zip(expected.as_flattened()) {
        assert!((found - expected).abs() < 1e-6 || found.is_nan() && expected.is_nan(), "{found} {expected}");
    }
    Ok(())
}

#[test]
fn a_scale_is_positive() -> Result<()> {
    let device = device();
    let (x, mut out) = (device.zeros::<f32>(4)?, device.zeros::<f32>(4)?);
    let error = Softmax::new().scale(-1.0).forward(&device, x.tile([2, 2])?, out.tile_mut([2, 2])?).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Condition);
    Ok(())
}

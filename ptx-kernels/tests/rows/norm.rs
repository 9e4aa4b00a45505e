//! RMSNorm and LayerNorm, forward and backward.

use crate::support::{Guarded, Number, Random, compare, device, each_problem, rounded};
use ptx_kernels::norm::{self, Float, Norm, NormBackward};
use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, Result};

const EPSILON: f32 = 1e-5;

/// One row of a norm.
#[derive(Clone, Copy)]
struct Row<'a> {
    center: bool,
    x: &'a [f64],
    weight: &'a [f64],
}

impl Row<'_> {
    /// Its centered values and the scale.
    fn statistics(&self) -> (Vec<f64>, f64) {
        let n = self.x.len() as f64;
        let mean = if self.center { self.x.iter().sum::<f64>() / n } else { 0.0 };
        let rest: Vec<f64> = self.x.iter().map(|x| x - mean).collect();
        let square = rest.iter().map(|x| x * x).sum::<f64>() / n;
        (rest, 1.0 / (square + f64::from(EPSILON)).sqrt())
    }

    fn forward(&self, bias: &[f64]) -> Vec<f64> {
        let (rest, scale) = self.statistics();
        rest.iter().zip(self.weight).zip(bias).map(|((x, w), b)| x * scale * w + b).collect()
    }

    /// dx, and this row's part of dw.
    fn backward(&self, dy: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let ((rest, scale), n) = (self.statistics(), self.x.len() as f64);
        let g: Vec<f64> = dy.iter().zip(self.weight).map(|(dy, w)| dy * w).collect();
        let mean = if self.center { g.iter().sum::<f64>() / n } else { 0.0 };
        let slope = g.iter().zip(&rest).map(|(g, x)| g * x).sum::<f64>() / n * scale * scale;
        let dx = g.iter().zip(&rest).map(|(g, x)| scale * (g - mean - x * slope)).collect();
        (dx, dy.iter().zip(&rest).map(|(dy, x)| dy * x * scale).collect())
    }

    /// The error of normalized elements that the rounding of the mean causes: it is relative to the row's largest element.
    fn mean_error(&self) -> f64 {
        let largest = self.x.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        if self.center { largest * self.statistics().1 * f64::from(f32::EPSILON) } else { 0.0 }
    }

    /// The largest of the terms that dx is made of, which cancel where a row has few columns.
    fn largest_term(&self, dy: &[f64]) -> f64 {
        let (_, scale) = self.statistics();
        dy.iter().zip(self.weight).fold(0.0, |most: f64, (dy, w)| most.max((scale * dy * w).abs()))
    }
}

#[test]
fn the_reference_is_the_derivative_of_itself() {
    let mut random = Random::new(5);
    let mut vector = || (0..9).map(|_| random.normal()).collect::<Vec<f64>>();
    let (x, weight, dy) = (vector(), vector(), vector());
    for center in [false, true] {
        let loss = |x: &[f64], weight: &[f64]| -> f64 {
            Row { center, x, weight }.forward(&[0.0; 9]).iter().zip(&dy).map(|(y, dy)| y * dy).sum()
        };
        let (dx, dw) = Row { center, x: &x, weight: &weight }.backward(&dy);
        for at in 0..9 {
            let change = |values: &[f64], by: f64| {
                let mut values = values.to_vec();
                values[at] += by;
                values
            };
            let by_x = (loss(&change(&x, 1e-6), &weight) - loss(&change(&x, -1e-6), &weight)) / 2e-6;
            let by_weight = (loss(&x, &change(&weight, 1e-6)) - loss(&x, &change(&weight, -1e-6))) / 2e-6;
            assert!((dx[at] - by_x).abs() < 1e-7 && (dw[at] - by_weight).abs() < 1e-7);
        }
    }
}

fn one<T: Number + Float>(device: &Device, random: &mut Random) -> Result<()> {
    let (shape, center) = (random.shape(), random.below(2) == 1);
    let (with_weight, with_bias, with_residual) = (random.below(4) > 0, random.below(2) == 1, random.below(3) == 0);
    let [rows, columns] = shape;
    let offset = random.one_of(&[0.0, 0.0, 3.0]);
    let mut values = |count: usize, offset: f64| rounded::<T>(count, |_| random.normal() + offset);
    let (x, dy, dsum) = (values(rows * columns, offset), values(rows * columns, 0.0), values(rows * columns, 0.0));
    let (weight, bias) = (values(columns, 1.0), values(columns, 0.0));
    let (gx, gdy) = (Guarded::<T>::new(device, random, shape, &x), Guarded::<T>::new(device, random, shape, &dy));
    let mut gsum = Guarded::<T>::new(device, random, shape, &dsum);
    let line = |values: &[f64]| device.upload(&values.iter().map(|x| T::rounded(*x)).collect::<Vec<T>>());
    let (dweight, dbias) = (line(&weight)?, line(&bias)?);
    let name = format!("{shape:?} center {center} weight {with_weight} bias {with_bias} residual {with_residual}");
    let epsilon = EPSILON;

    let mut out = Guarded::<T>::empty(device, random, shape);
    let mut norm = if center { Norm::layer(epsilon) } else { Norm::rms(epsilon) };
    let portable = random.below(2) == 1;
    norm = if portable { norm.portable() } else { norm };
    norm = if with_weight { norm.weight(dweight.tile([columns])?) } else { norm };
    norm = if with_bias { norm.bias(dbias.tile([columns])?) } else { norm };
    norm = if with_residual { norm.residual(gsum.write()) } else { norm };
    norm.forward(device, gx.read(), out.write())?;

    let ones = vec![1.0; columns];
    let weight = if with_weight { &weight } else { &ones };
    let zeros = vec![0.0; columns];
    let bias = if with_bias { &bias } else { &zeros };
    let summed: Vec<f64> = x.iter().zip(&dsum).map(|(x, r)| T::rounded((*x + *r) as f32 as f64).exact()).collect();
    let input = if with_residual { &summed } else { &x };
    let row = |at: usize| Row { center, x: &input[at * columns..][..columns], weight };
    let expected: Vec<f64> = (0..rows).flat_map(|at| row(at).forward(bias)).collect();
    let mean_error = (0..rows).map(|at| row(at).mean_error()).fold(0.0, f64::max);
    let largest_weight = weight.iter().fold(0.0, |most: f64, w| most.max(w.abs()));
    compare::<T>(&name, &out.values(), &expected, 4e-6, 6e-6 + mean_error * largest_weight);
    if with_residual {
        compare::<T>(&name, &gsum.values(), &summed, 0.0, 0.0);
    }

    let ginput = Guarded::<T>::new(device, random, shape, input);
    let gdsum = Guarded::<T>::new(device, random, shape, &dsum);
    let (mut dx, mut dw) =
        (Guarded::<T>::empty(device, random, shape), Guarded::<T>::empty(device, random, [1, columns]));
    let mut db = Guarded::<T>::empty(device, random, [1, columns]);
    let mut back = if center { NormBackward::layer(epsilon) } else { NormBackward::rms(epsilon) };
    back = if portable { back.portable() } else { back };
    back = if with_weight { back.weight(dweight.tile([columns])?) } else { back };
    back = if with_residual { back.residual_gradient(gdsum.read()) } else { back };
    let with_dw = with_weight || random.below(2) == 1;
    back = if with_dw { back.dw(dw.line()) } else { back };
    back = if with_bias { back.db(db.line()) } else { back };
    back.backward(device, ginput.read(), gdy.read(), dx.write())?;

    let parts: Vec<_> = (0..rows).map(|at| row(at).backward(&dy[at * columns..][..columns])).collect();
    let mut expected: Vec<f64> = parts.iter().flat_map(|(dx, _)| dx.clone()).collect();
    if with_residual {
        expected.iter_mut().zip(&dsum).for_each(|(dx, dsum)| *dx += dsum);
    }
    let terms = (0..rows).map(|at| row(at).largest_term(&dy[at * columns..][..columns]));
    let largest = terms.chain(dsum.iter().filter(|_| with_residual).map(|x| x.abs())).fold(1.0, f64::max);
    compare::<T>(&format!("dx {name}"), &dx.values(), &expected, 6e-6, (1e-5 + 2.0 * mean_error) * largest);
    if with_dw {
        let expected: Vec<f64> = (0..columns).map(|c| parts.iter().map(|(_, dw)| dw[c]).sum()).collect();
        let summed = dy.iter().fold(0.0, |most: f64, dy| most.max(dy.abs())) * rows as f64;
        compare::<T>(&format!("dw {name}"), &dw.values(), &expected, 1e-5, 1e-5 + mean_error * summed);
    }
    if with_bias {
        let expected: Vec<f64> = (0..columns).map(|c| (0..rows).map(|r| dy[r * columns + c]).sum()).collect();
        compare::<T>(&format!("db {name}"), &db.values(), &expected, 1e-5, 1e-5);
    }
    Ok(())
}

#[test]
fn norms_and_gradients_are_right() {
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
    // Zeros; an infinity, whose scale is zero; a NaN; values whose squares are denormal.
    let x =
        device.upload(&[0.0, 0.0, 0.0, 0.0, 1.0, inf, 2.0, 3.0, 1.0, nan, 2.0, 3.0, 1e-30, -1e-30, 1e-30, 1e-30])?;
    let weight = device.upload(&[1.0f32; 4])?;
    let mut out = device.zeros::<f32>(16)?;
    norm::rms_norm(&device, x.tile([4, 4])?, weight.tile([4])?, out.tile_mut([4, 4])?, 0.25)?;
    let expected = [0.0, 0.0, 0.0, 0.0, 0.0, nan, 0.0, 0.0, nan, nan, nan, nan, 2e-30, -2e-30, 2e-30, 2e-30];
    for (found, expected) in out.download()?.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-36 || found.is_nan() && expected.is_nan(), "{found} {expected}");
    }
    let bias = device.zeros::<f32>(4)?;
    norm::layer_norm(&device, x.tile([4, 4])?, weight.tile([4])?, bias.tile([4])?, out.tile_mut([4, 4])?, 0.25)?;
    let out = out.download()?;
    assert!(out[..4].iter().all(|x| *x == 0.0) && out[4..12].iter().all(|x| x.is_nan()), "{out:?}");
    Ok(())
}

#[test]
fn gradients_of_no_rows_are_zero() -> Result<()> {
    let device = device();
    let (x, mut dx) = (device.zeros::<f32>(0)?, device.zeros::<f32>(0)?);
    let (mut dw, mut db) = (device.upload(&[7.0f32; 40])?, device.upload(&[7.0f32; 40])?);
    NormBackward::layer(1e-5).dw(dw.tile_mut([40])?).db(db.tile_mut([40])?).backward(
        &device,
        x.tile([0, 40])?,
        x.tile([0, 40])?,
        dx.tile_mut([0, 40])?,
    )?;
    assert_eq!((dw.download()?, db.download()?), (vec![0.0; 40], vec![0.0; 40]));
    let error = Norm::rms(0.0).weight(dw.tile([20])?).forward(&device, db.tile([1, 40])?, dx.tile_mut([0, 40])?);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Condition);
    Ok(())
}

#[test]
fn a_gradient_has_the_same_bits_twice() -> Result<()> {
    let device = device();
    let mut random = Random::new(1);
    let x: Vec<f32> = (0..64 * 512).map(|_| random.normal() as f32).collect();
    let x = device.upload(&x)?;
    let bits = || -> Result<Vec<u32>> {
        let (mut dx, mut dw) = (device.zeros::<f32>(64 * 512)?, device.zeros::<f32>(512)?);
        let shape = [64, 512];
        NormBackward::rms(1e-5).dw(dw.tile_mut([512])?).backward(
            &device,
            x.tile(shape)?,
            x.tile(shape)?,
            dx.tile_mut(shape)?,
        )?;
        Ok(dw.download()?.into_iter().map(f32::to_bits).collect())
    };
    assert_eq!(bits()?, bits()?);
    Ok(())
}

//! Cross entropy, forward and backward.

use crate::support::{Guarded, Number, Random, compare, device, each_problem, rounded};
use ptx_kernels::cross_entropy::{CrossEntropy, Float, Saved};
use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, Result, TensorRef};

const IGNORED: i64 = -100;

/// lse and loss of a row.
fn forward(x: &[f64], target: i64, smoothing: f64) -> (f64, f64) {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lse = top + x.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let loss = match usize::try_from(target) {
        _ if target == IGNORED => 0.0,
        Ok(at) if at < x.len() => {
            let plain = lse - x[at];
            if smoothing == 0.0 { plain } else { (1.0 - smoothing) * plain + smoothing * (lse - mean) }
        }
        _ => f64::NAN,
    };
    (lse, loss)
}

fn backward(x: &[f64], target: i64, smoothing: f64, dloss: f64) -> Vec<f64> {
    let (lse, loss) = forward(x, target, smoothing);
    let spread = smoothing / x.len() as f64;
    let element = |(at, x): (usize, &f64)| match target {
        IGNORED => 0.0,
        _ if loss.is_nan() => f64::NAN,
        _ => dloss * ((x - lse).exp() - spread - (1.0 - smoothing) * f64::from(at as i64 == target)),
    };
    x.iter().enumerate().map(element).collect()
}

#[test]
fn the_reference_is_the_derivative_of_itself() {
    let mut random = Random::new(3);
    let x: Vec<f64> = (0..7).map(|_| random.normal()).collect();
    for (at, dx) in backward(&x, 2, 0.1, 1.5).into_iter().enumerate() {
        let loss = |by: f64| {
            let mut x = x.clone();
            x[at] += by;
            1.5 * forward(&x, 2, 0.1).1
        };
        assert!((dx - (loss(1e-6) - loss(-1e-6)) / 2e-6).abs() < 1e-8);
    }
}

fn one<T: Number + Float<i64> + Float<u32>>(device: &Device, random: &mut Random) -> Result<()> {
    let (shape, smoothing) = (random.shape(), random.one_of(&[0.0f32, 0.0, 0.1, 1.0]));
    let [rows, columns] = shape;
    if columns == 0 {
        return Ok(());
    }
    let spread = random.one_of(&[1.0, 8.0]);
    let x = rounded::<T>(rows * columns, |_| spread * random.normal());
    let targets: Vec<i64> = (0..rows)
        .map(|_| match random.below(8) {
            0 => IGNORED,
            1 => random.one_of(&[-1, columns as i64, i64::MIN, i64::MAX]),
            _ => random.below(columns) as i64,
        })
        .collect();
    let one_slope = random.below(2) == 1;
    let dloss: Vec<f32> = (0..if one_slope { 1 } else { rows }).map(|_| random.normal() as f32).collect();
    let slope = |row: usize| f64::from(dloss[if one_slope { 0 } else { row }]);
    let name = format!("{shape:?} smoothing {smoothing}");
    let gx = Guarded::<T>::new(device, random, shape, &x);
    let (mut loss, mut lse) =
        (Guarded::<f32>::empty(device, random, [1, rows]), Guarded::<f32>::empty(device, random, [1, rows]));
    let dtargets = device.upload(&targets)?;
    let options = CrossEntropy::new().label_smoothing(smoothing);
    options.forward(device, gx.read(), dtargets.tile([rows])?, loss.line(), lse.line())?;
    let row = |at: usize| &x[at * columns..][..columns];
    let exact: Vec<_> = (0..rows).map(|at| forward(row(at), targets[at], f64::from(smoothing))).collect();
    compare::<f32>(&format!("lse {name}"), &lse.values(), &exact.iter().map(|x| x.0).collect::<Vec<_>>(), 1e-6, 4e-6);
    compare::<f32>(&format!("loss {name}"), &loss.values(), &exact.iter().map(|x| x.1).collect::<Vec<_>>(), 4e-6, 1e-5);

    let slopes = device.upload(&dloss)?;
    let slopes = TensorRef::strided(&slopes, [rows], [usize::from(!one_slope)])?;
    let lines = device.upload(&lse.values().iter().map(|x| *x as f32).collect::<Vec<_>>())?;
    let mut dx = Guarded::<T>::empty(device, random, shape);
    let saved = Saved { targets: dtargets.tile([rows])?.into(), lse: lines.tile([rows])?.into(), dloss: slopes };
    options.backward(device, gx.read(), saved, dx.write())?;
    let differentiate = |at: usize| backward(row(at), targets[at], f64::from(smoothing), slope(at));
    let exact: Vec<f64> = (0..rows).flat_map(differentiate).collect();
    compare::<T>(&format!("dx {name}"), &dx.values(), &exact, 4e-6, 2e-6);
    let mut inside = Guarded::<T>::new(device, random, shape, &x);
    options.backward_in_place(device, saved, inside.write())?;
    compare::<T>(&format!("dx in place {name}"), &inside.values(), &exact, 4e-6, 2e-6);

    // Targets of 32 bits without a sign.
    let small: Vec<u32> = targets.iter().map(|target| u32::try_from(*target).unwrap_or(u32::MAX)).collect();
    let options = options.ignored_index(i64::from(u32::MAX));
    options.forward(device, gx.read(), device.upload(&small)?.tile([rows])?, loss.line(), lse.line())?;
    let loss = loss.values();
    for at in 0..rows {
        let exact = if small[at] == u32::MAX { 0.0 } else { forward(row(at), targets[at], f64::from(smoothing)).1 };
        compare::<f32>(&format!("u32 {name}"), &loss[at..=at], &[exact], 4e-6, 1e-5);
    }
    Ok(())
}

#[test]
fn losses_and_gradients_are_right() {
    each_problem(|device, random| {
        one::<f32>(device, random)?;
        one::<f16>(device, random)?;
        one::<bf16>(device, random)
    });
}

#[test]
fn special_values_are_those_of_pytorch() -> Result<()> {
    let (device, inf, nan) = (device(), f32::INFINITY, f32::NAN);
    let rows =
        [[-inf, -inf, -inf], [0.0, -inf, 0.0], [1.0, nan, 2.0], [1.0, inf, 2.0], [0.0, -inf, 0.0], [f32::MIN; 3]];
    let (x, targets) = (device.upload(rows.as_flattened())?, device.upload(&[0i64, 0, 0, 0, 1, 2])?);
    let (mut loss, mut lse) = (device.zeros::<f32>(6)?, device.zeros::<f32>(6)?);
    let (out, log) = (loss.tile_mut([6])?, lse.tile_mut([6])?);
    CrossEntropy::new().forward(&device, x.tile([6, 3])?, targets.tile([6])?, out, log)?;
    let expected = [nan, f32::ln(2.0), nan, nan, inf, 0.0];
    for (found, expected) in loss.download()?.into_iter().zip(expected) {
        let same = found == expected || found.is_nan() && expected.is_nan();
        assert!(same || (found - expected).abs() < 1e-6, "{found} {expected}");
    }
    // No classes.
    let (out, log) = (loss.tile_mut([6])?, lse.tile_mut([6])?);
    CrossEntropy::new().forward(&device, device.zeros::<f32>(0)?.tile([6, 0])?, targets.tile([6])?, out, log)?;
    assert!(loss.download()?.iter().all(|loss| loss.is_nan()));
    assert!(lse.download()?.iter().all(|lse| *lse == -inf));
    Ok(())
}

#[test]
fn options_are_checked() -> Result<()> {
    let device = device();
    let (x, targets) = (device.zeros::<f32>(6)?, device.zeros::<i64>(3)?);
    let (mut loss, mut lse) = (device.zeros::<f32>(2)?, device.zeros::<f32>(2)?);
    for (smoothing, count) in [(0.0, 3), (1.5, 2), (f32::NAN, 2)] {
        let (out, log) = (loss.tile_mut([2])?, lse.tile_mut([2])?);
        let options = CrossEntropy::new().label_smoothing(smoothing);
        let error = options.forward(&device, x.tile([2, 3])?, targets.tile([count])?, out, log).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Condition);
    }
    Ok(())
}

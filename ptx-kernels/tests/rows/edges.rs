//! Arguments that random problems do not have: wrong ones, whose errors name them; repeated rows; very long rows; strides that nothing uses.

use crate::support::device;
use half::f16;
use ptx_kernels::activation::{Activation, swiglu};
use ptx_kernels::cross_entropy::{CrossEntropy, Saved, cross_entropy};
use ptx_kernels::norm::{Norm, NormBackward};
use ptx_kernels::rotary::{Angles, Pairs, Rotary};
use ptx_kernels::softmax::{Softmax, softmax, softmax_backward};
use ptx_launch::{Device, ErrorKind, Result, TensorMut, TensorRef};

/// An error of this kind that names all of these.
#[track_caller]
fn names(wrong: Result<()>, kind: ErrorKind, parts: &[&str]) {
    let wrong = wrong.unwrap_err();
    let text = wrong.to_string();
    assert!(wrong.kind() == kind && parts.iter().all(|part| text.contains(part)), "{:?}: {text}", wrong.kind());
}

#[test]
fn errors_name_the_argument() -> Result<()> {
    use ErrorKind::{Condition, WrongDevice};
    // On a GPU, too, the CPU device is another one.
    let (device, other) = (device(), Device::cpu());
    let (x, line) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
    let (mut out, mut far) = (device.zeros::<f32>(64)?, other.zeros::<f32>(64)?);
    let (square, wide) = (|| x.tile([4, 8]).unwrap(), || x.tile([4, 9]).unwrap());
    let columns = || TensorRef::from(x.tile([8, 4]).unwrap()).transposed();

    names(softmax(&device, square(), out.tile_mut([4, 9])?), Condition, &["`x`", "[4, 8]", "`out`", "[4, 9]"]);
    names(softmax(&device, columns(), out.tile_mut([4, 8])?), Condition, &["columns of `x`", "side by side"]);
    names(softmax(&device, square(), far.tile_mut([4, 8])?), WrongDevice, &[]);
    let zero = Softmax::new().scale(0.0).forward(&device, square(), out.tile_mut([4, 8])?);
    names(zero, Condition, &["scale", "above zero"]);
    names(softmax_backward(&device, square(), wide(), out.tile_mut([4, 8])?), Condition, &["`dy`", "[4, 9]"]);
    names(Activation::Relu.apply(&device, wide(), out.tile_mut([4, 8])?), Condition, &["`x`", "`out`"]);
    names(swiglu(&device, square(), wide(), out.tile_mut([4, 8])?), Condition, &["`gate`", "`up`"]);

    let short = || line.tile([7]).unwrap();
    let mut norm = |rows: usize| {
        let (x, out) = (x.tile([rows, 8]).unwrap(), out.tile_mut([rows, 8]).unwrap());
        Norm::rms(0.0).weight(short()).forward(&device, x, out)
    };
    names(norm(4), Condition, &["`weight` has 7 elements", "8 elements side by side"]);
    names(norm(0), Condition, &["`weight` has 7 elements"]);
    let mut dx = device.zeros::<f32>(64)?;
    let bias =
        NormBackward::layer(0.0).db(dx.tile_mut([9])?).backward(&device, square(), square(), out.tile_mut([4, 8])?);
    names(bias, Condition, &["`db` has 9 elements"]);

    let (targets, mut loss) = (device.zeros::<i64>(4)?, device.zeros::<f32>(64)?);
    let wrong = cross_entropy(&device, square(), targets.tile([3])?, out.tile_mut([4])?, loss.tile_mut([4])?);
    names(wrong, Condition, &["`targets` has 3 elements", "4 elements"]);
    let none =
        CrossEntropy::new().forward(&device, square(), targets.tile([4])?, out.tile_mut([3])?, loss.tile_mut([4])?);
    names(none, Condition, &["`loss` has 3 elements"]);
    Ok(())
}

#[test]
fn errors_of_rotations_name_the_argument() -> Result<()> {
    use ErrorKind::Condition;
    let device = device();
    let (x, table, positions) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?, device.zeros::<i64>(8)?);
    let mut out = device.zeros::<f32>(64)?;
    let mut rotate = |table: [TensorRef<'_, f32, 2>; 2], count: usize, x: TensorRef<'_, f32, 3>, to: [usize; 3]| {
        let angles = Angles { cos: table[0], sin: table[1], positions: positions.tile([count]).unwrap().into() };
        Rotary::new(Pairs::Halves).apply(&device, &angles, x, out.tile_mut(to).unwrap())
    };
    let tables = |pairs: usize| [table.tile([2, pairs]).unwrap().into(), table.tile([2, pairs]).unwrap().into()];
    let heads = || TensorRef::from(x.tile([2, 4, 8]).unwrap());
    names(rotate(tables(4), 2, heads(), [2, 3, 8]), Condition, &["`x`", "`out` [2, 3, 8]"]);
    names(rotate(tables(5), 2, heads(), [2, 4, 8]), Condition, &["`cos`", "at most 4 pairs", "heads of 8"]);
    let unequal = [tables(4)[0], TensorRef::strided(&table, [2, 4], [8, 1])?];
    names(rotate(unequal, 2, heads(), [2, 4, 8]), Condition, &["`sin` [2, 4] (strides [8, 1])", "equal strides"]);
    names(rotate(tables(4), 3, heads(), [2, 4, 8]), Condition, &["`positions` has 3", "2 elements"]);
    let apart = TensorRef::strided(&x, [2, 4, 4], [32, 8, 2])?;
    names(rotate(tables(2), 2, apart, [2, 4, 4]), Condition, &["`x` are 2 apart", "side by side"]);
    rotate(tables(4), 2, heads(), [2, 4, 8])
}

/// A stride of zero repeats a row, and one that leads nowhere is no matter.
#[test]
fn rows_are_repeated() -> Result<()> {
    let device = device();
    let row: Vec<f32> = (0..40).map(|at| (at as f32 * 0.7).sin()).collect();
    let x = device.upload(&row)?;
    let repeated = || TensorRef::strided(&x, [3, 40], [0, 1]).unwrap();
    let alone = || TensorRef::strided(&x, [1, 40], [usize::MAX / 8, 1]).unwrap();
    let (mut many, mut one) = (device.zeros::<f32>(120)?, device.zeros::<f32>(40)?);
    for operation in 0..4 {
        let run = |x: TensorRef<'_, f32, 2>, out: TensorMut<'_, f32, 2>| match operation {
            0 => softmax(&device, x, out),
            1 => Norm::layer(1e-5).forward(&device, x, out),
            2 => Activation::Gelu.apply(&device, x, out),
            _ => softmax_backward(&device, x, x, out),
        };
        run(repeated(), many.tile_mut([3, 40])?.into())?;
        run(alone(), one.tile_mut([1, 40])?.into())?;
        assert_eq!(many.download()?, one.download()?.repeat(3), "{operation}");
    }
    Ok(())
}

/// The largest vocabulary, all rows ignored, and the smallest numbers.
#[test]
fn vocabularies_are_large() -> Result<()> {
    let (device, classes) = (device(), 262_144);
    let x: Vec<f16> = (0..classes).map(|at| f16::from_f32((at % 97) as f32 * 0.1 - 4.0)).collect();
    let lse = x.iter().map(|x| x.to_f64().exp()).sum::<f64>().ln();
    let (x, targets) = (device.upload(&x)?, device.upload(&[262_143i64, -100])?);
    let x = || TensorRef::strided(&x, [2, classes], [0, 1]).unwrap();
    let (mut loss, mut log) = (device.zeros::<f32>(2)?, device.zeros::<f32>(2)?);
    cross_entropy(&device, x(), targets.tile([2])?, loss.tile_mut([2])?, log.tile_mut([2])?)?;
    let (loss, of_target) = (loss.download()?, f64::from(f16::from_f32((262_143 % 97) as f32 * 0.1 - 4.0)));
    assert!((f64::from(loss[0]) - (lse - of_target)).abs() < 1e-4 && loss[1] == 0.0, "{loss:?}");

    let ignored = device.upload(&[-100i64; 2])?;
    let (dloss, mut dx) = (device.upload(&[1.0f32])?, device.upload(&vec![f16::NAN; 2 * classes])?);
    let slopes = TensorRef::strided(&dloss, [2], [0])?;
    let saved = Saved { targets: ignored.tile([2])?.into(), lse: log.tile([2])?.into(), dloss: slopes };
    CrossEntropy::new().backward(&device, x(), saved, dx.tile_mut([2, classes])?)?;
    assert!(dx.download()?.iter().all(|dx| *dx == f16::ZERO));
    Ok(())
}

//! Random products of dense operands by each of Hopper's tuned kernels, in all of its layouts and in random orders of its tiles: `bf16`, `f16`
//! and `e4m3`, against `f64`. Nothing outside of C is written.
//!
//! `PTX_GEMM_DENSE` says how many (3), `PTX_GEMM_SEED` which first (1).

use crate::random::{Number, Random, values};
use crate::reference::Expected;
use crate::{device, is_right, number};
use half::{bf16, f16};
use ptx_kernels::gemm::hopper::{Layout, Operand, Order, Scratch, variants};
use ptx_launch::prelude::e4m3;
use ptx_launch::{Device, KernelParam, TensorMut, TensorRef};

/// Elements in front of C and behind it, which stay as they are.
const AROUND: usize = 64;

/// Multiplications of the reference.
const CHECKED: usize = 1_000_000;

/// An extent whose elements fill multiples of 16 bytes.
fn extent(random: &mut Random, most: usize, step: usize) -> usize {
    let size = random.of(&[8, 64, 128, 200, 256, 320, 384, 512, 1000]) + random.below(200);
    size.min(most).next_multiple_of(step)
}

/// A problem for elements of `T`, which the host has as `S`.
fn solve<T, S>(random: &mut Random, device: &Device, most: usize)
where
    T: Operand<Output: Number> + KernelParam,
    S: Number,
{
    let all: Vec<_> = variants::<T>().collect();
    let variant = random.of(&all);
    let (step, Layout { a_k_major, b_k_major }) = (16 / size_of::<T>(), variant.layout());
    let [m, n, k] = [most, most, 2 * most].map(|most| extent(random, most, step));
    let (a, b): (Vec<S>, Vec<S>) = (values(random, m * k, false), values(random, n * k, false));
    let poison = vec![<T::Output as Number>::poison(); m * n + 2 * AROUND];
    let (on_a, on_b, mut c) = (device.upload(&a).unwrap(), device.upload(&b).unwrap(), device.upload(&poison).unwrap());
    let strides = [if a_k_major { [k, 1] } else { [1, m] }, if b_k_major { [1, k] } else { [n, 1] }];
    let order = Order { band: 1 + random.below(9) as u32, run: 1 + random.below(4) as u32 };
    let name = format!("{m} x {n} x {k} by {variant} of {} in {order:?}", std::any::type_name::<T>());
    println!("{name}");
    let left = TensorRef::strided(&on_a, [m, k], strides[0]).unwrap().cast().unwrap();
    let right = TensorRef::strided(&on_b, [k, n], strides[1]).unwrap().cast().unwrap();
    let out = TensorMut::strided(c.slice_mut(AROUND..).unwrap(), [m, n], [n, 1]).unwrap();
    let mut scratch = Scratch::new(device).unwrap();
    variant.launch(device, (left, right, out), order, &mut scratch).unwrap();
    let found = c.download().unwrap();
    let (before, rest) = found.split_at(AROUND);
    let (inside, behind) = rest.split_at(m * n);
    assert!(before.iter().chain(behind).all(|element| element.is_poison()), "{name}: memory around C is overwritten");
    let cut = if size_of::<T>() == 1 { 2f64.powi(-13) } else { 0.0 };
    let [[a_row, a_k], [b_k, b_column]] = strides;
    // Of large products a part of the elements, with other rows and columns each time.
    let every = (m * n * k / CHECKED).max(1);
    for (at, found) in inside.iter().enumerate().skip(random.below(every)).step_by(every) {
        let (row, column) = (at / n, at % n);
        let product = |k: usize| a[row * a_row + k * a_k].value() * b[k * b_k + column * b_column].value();
        let expected = Expected::sum((0..k).map(product), false, false, cut);
        let value = found.value();
        assert!(is_right(*found, expected), "{name}: ({row}, {column}) is {value} for {expected:?}");
    }
}

#[test]
fn random_dense_products() {
    let device = device();
    let most = if device.is_cuda() { 1024 } else { 200 };
    let first = number("PTX_GEMM_SEED", 1);
    for seed in first..first + number("PTX_GEMM_DENSE", 3) {
        println!("PTX_GEMM_SEED={seed}");
        let mut random = Random::new(seed);
        match seed % 3 {
            0 => solve::<bf16, bf16>(&mut random, &device, most),
            1 => solve::<f16, f16>(&mut random, &device, most),
            _ => solve::<e4m3, ptx_kernels::float8::E4m3>(&mut random, &device, most),
        }
    }
}

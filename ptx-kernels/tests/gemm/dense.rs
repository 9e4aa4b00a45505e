//! Random products of dense operands by each of Hopper's kernels without options, in all of its layouts and in random orders of its tiles:
//! `bf16`, `f16` and `e4m3`, against `f64`. Nothing outside of C is written.
//!
//! `PTX_GEMM_DENSE` is their number (5), `PTX_GEMM_SEED` which first (1).

use crate::random::{Number, Random, values};
use crate::reference::Expected;
use crate::{device, is_right, number, type_name};
use half::{bf16, f16};
use ptx_kernels::gemm::hopper::{Layout, Operand, Order, Scratch, variants};
use ptx_kernels::gemm::{self, Gemm, algorithms};
use ptx_launch::prelude::e4m3;
use ptx_launch::{Device, KernelParam, Result, TensorMut, TensorRef};

/// Elements in front of C and behind it, which stay as they are.
const AROUND: usize = 64;

/// Multiplications of the reference.
const CHECKED: usize = 1_000_000;

/// An extent whose elements fill multiples of 16 bytes, of more than 16 elements: C of fewer columns is computed as its transpose, whose rows are
/// not dense.
fn extent(random: &mut Random, most: usize, step: usize) -> usize {
    let size = random.of(&[17, 64, 128, 200, 256, 320, 384, 512, 1000]) + random.below(200);
    size.min(most).next_multiple_of(step)
}

/// A kernel as problems take it: its name, its layouts, and its launch.
struct Way<'k, T: Operand> {
    name: String,
    layout: Layout,
    launch: Box<Launch<'k, T>>,
}

/// The launch of A, B and C.
type Launch<'k, T> =
    dyn Fn(TensorRef<'_, T, 2>, TensorRef<'_, T, 2>, TensorMut<'_, <T as Operand>::Output, 2>) -> Result<()> + 'k;

/// A variant of `hopper`.
fn variant<'k, T: Operand>(random: &mut Random, device: &'k Device) -> Way<'k, T> {
    let variant = random.of(&variants::<T>().collect::<Vec<_>>());
    let order = Order { band: 1 + random.below(9) as u32, run: 1 + random.below(4) as u32 };
    Way {
        name: format!("{variant} in {order:?}"),
        layout: variant.layout(),
        launch: Box::new(move |a, b, c| variant.launch(device, (a, b, c), order, &mut Scratch::new(device)?)),
    }
}

/// An algorithm of the family `tile`.
fn tile<'k, T>(random: &mut Random, device: &'k Device) -> Way<'k, T>
where
    T: Operand<Output: gemm::Output<T>> + gemm::Operand,
{
    let family = format!("tile_{}_", type_name::<T>());
    let name = random.of(&algorithms().filter(|name| name.starts_with(&family)).collect::<Vec<_>>());
    Way {
        name: name.to_owned(),
        layout: Layout { a_k_major: true, b_k_major: name.ends_with("_kk") },
        launch: Box::new(move |a, b, c| Gemm::new().algorithm(name, 1).run(device, a, b, c)),
    }
}

/// A problem for elements of `T`, which the host has as `S`.
fn solve<T, S>(way: &Way<'_, T>, random: &mut Random, device: &Device, most: usize)
where
    T: Operand<Output: Number> + KernelParam,
    S: Number,
{
    let (step, Layout { a_k_major, b_k_major }) = (16 / size_of::<T>(), way.layout);
    let [m, n, k] = [most, most, 2 * most].map(|most| extent(random, most, step));
    let (a, b): (Vec<S>, Vec<S>) = (values(random, m * k, false), values(random, n * k, false));
    let poison = vec![<T::Output as Number>::poison(); m * n + 2 * AROUND];
    let (on_a, on_b, mut c) = (device.upload(&a).unwrap(), device.upload(&b).unwrap(), device.upload(&poison).unwrap());
    let strides = [if a_k_major { [k, 1] } else { [1, m] }, if b_k_major { [1, k] } else { [n, 1] }];
    let name = format!("{m} x {n} x {k} by {} of {}", way.name, std::any::type_name::<T>());
    println!("{name}");
    let left = TensorRef::strided(&on_a, [m, k], strides[0]).unwrap().cast().unwrap();
    let right = TensorRef::strided(&on_b, [k, n], strides[1]).unwrap().cast().unwrap();
    let out = TensorMut::strided(c.slice_mut(AROUND..).unwrap(), [m, n], [n, 1]).unwrap();
    (way.launch)(left, right, out).unwrap();
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
    for seed in first..first + number("PTX_GEMM_DENSE", 5) {
        println!("PTX_GEMM_SEED={seed}");
        let random = &mut Random::new(seed);
        match seed % 5 {
            0 => solve::<bf16, bf16>(&variant(random, &device), random, &device, most),
            1 => solve::<f16, f16>(&variant(random, &device), random, &device, most),
            2 => solve::<e4m3, ptx_kernels::float8::E4m3>(&variant(random, &device), random, &device, most),
            3 => solve::<bf16, bf16>(&tile(random, &device), random, &device, most),
            _ => solve::<f16, f16>(&tile(random, &device), random, &device, most),
        }
    }
}

//! Random products of dense operands by each of the kernels without options, in all of their layouts and in random orders of their tiles:
//! `bf16`, `f16` and `e4m3`, against `f64`. Nothing outside of C is written.
//!
//! `PTX_GEMM_DENSE` is their number (5), `PTX_GEMM_SEED` which first (1).

use crate::random::{Number, Random, values};
use crate::reference::Expected;
use crate::{device, is_right, number};
use half::{bf16, f16};
use ptx_kernels::float8::E4m3;
use ptx_kernels::gemm::{Gemm, Operand, Output, algorithms};
use ptx_launch::{AsStream as _, Device, TensorMut, TensorRef};

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

/// The families without options.
const PLAIN: [&str; 4] = ["static", "claimed", "streamk", "tcgen05"];

/// An algorithm without options for operands of this type, and an order of its tiles.
struct Way {
    name: &'static str,
    band: u32,
    run: u32,
}

impl Way {
    fn random(random: &mut Random, device: &Device, kind: &str) -> Way {
        // The CPU device runs them all.
        let has_tcgen05 =
            device.as_stream().properties().unwrap().capability.is_none_or(|capability| capability >= 100);
        let is_here = |family: &&&str| has_tcgen05 || **family != "tcgen05";
        let is_plain = |name: &&str| PLAIN.iter().filter(is_here).any(|family| name.ends_with(family));
        let name = random.of(&algorithms(kind).filter(is_plain).collect::<Vec<_>>());
        Way { name, band: 1 + random.below(9) as u32, run: 1 + random.below(4) as u32 }
    }

    /// True for A and for B if K is the dimension of neighbors in memory: `m128n256k64_2x1_kn_claimed`.
    fn is_along_k(&self) -> [bool; 2] {
        let majors = self.name.split('_').nth(2).unwrap().as_bytes();
        [majors[0] == b'k', majors[1] == b'k']
    }
}

/// A problem for elements of `T`, which the host has as `S`.
fn solve<T, O>(way: &Way, random: &mut Random, device: &Device, most: usize)
where
    T: Operand + Number,
    O: Output<T> + Number,
{
    let (step, [a_k_major, b_k_major]) = (16 / size_of::<T>(), way.is_along_k());
    let [m, n, k] = [most, most, 2 * most].map(|most| extent(random, most, step));
    let (a, b): (Vec<T>, Vec<T>) = (values(random, m * k, false), values(random, n * k, false));
    let poison = vec![O::poison(); m * n + 2 * AROUND];
    let (on_a, on_b, mut c) = (device.upload(&a).unwrap(), device.upload(&b).unwrap(), device.upload(&poison).unwrap());
    let strides = [if a_k_major { [k, 1] } else { [1, m] }, if b_k_major { [1, k] } else { [n, 1] }];
    let Way { name, band, run } = *way;
    let order = format!("in bands of {band} and runs of {run}");
    let name_of_case = format!("{m} x {n} x {k} by {name} {order} of {}", std::any::type_name::<T>());
    println!("{name_of_case}");
    let left = TensorRef::strided(&on_a, [m, k], strides[0]).unwrap();
    let right = TensorRef::strided(&on_b, [k, n], strides[1]).unwrap();
    let out = TensorMut::strided(c.slice_mut(AROUND..).unwrap(), [m, n], [n, 1]).unwrap();
    Gemm::new().algorithm(name, 1).raster(band, run).run(device, left, right, out).unwrap();
    let found = c.download().unwrap();
    let (before, rest) = found.split_at(AROUND);
    let (inside, behind) = rest.split_at(m * n);
    assert!(
        before.iter().chain(behind).all(|element| element.is_poison()),
        "{name_of_case}: memory around C is overwritten"
    );
    let cut = if size_of::<T>() == 1 { 2f64.powi(-13) } else { 0.0 };
    let [[a_row, a_k], [b_k, b_column]] = strides;
    // Of large products a part of the elements, with other rows and columns each time.
    let every = (m * n * k / CHECKED).max(1);
    for (at, found) in inside.iter().enumerate().skip(random.below(every)).step_by(every) {
        let (row, column) = (at / n, at % n);
        let product = |k: usize| a[row * a_row + k * a_k].value() * b[k * b_k + column * b_column].value();
        let expected = Expected::sum((0..k).map(product), false, false, cut);
        let value = found.value();
        assert!(is_right(*found, expected), "{name_of_case}: ({row}, {column}) is {value} for {expected:?}");
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
        match seed % 3 {
            0 => solve::<E4m3, bf16>(&Way::random(random, &device, "e4m3"), random, &device, most),
            1 => solve::<bf16, bf16>(&Way::random(random, &device, "bf16"), random, &device, most),
            _ => solve::<f16, f16>(&Way::random(random, &device, "f16"), random, &device, most),
        }
    }
}

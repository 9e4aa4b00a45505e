//! Random products, against `f64` with the documented error bound: shapes, types, layouts, offsets, options, algorithms. Nothing
//! outside of C is written.
//!
//! `PTX_GEMM_PROBLEMS` is their number (40), `PTX_GEMM_SEED` which first (1), `PTX_GEMM_ALGORITHMS` a part of the name of all algorithms
//! that are taken. They run on the CPU device under the watcher, or where
//! `PTX_DEVICE` names.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod allocation;
mod assemble;
mod cases;
mod choices;
#[path = "../counting/mod.rs"]
mod counting;
mod dense;
#[path = "../from_text/mod.rs"]
mod from_text;
mod grouped;
mod kept;
mod random;
mod reference;
mod speed;
#[path = "../thorough/mod.rs"]
mod thorough;

use half::{bf16, f16};
use ptx_kernels::float8::{E4m3, E5m2};
use ptx_kernels::gemm::{Activation, Element, Gemm, Operand, Output, algorithms};
use ptx_launch::{Device, ErrorKind, Result, TensorMut, TensorRef};
use random::{Layout, Number, Random, values};
use reference::Expected;

/// A tensor in memory with something around it.
struct Tensor<T> {
    layout: Layout,
    data: Vec<T>,
}

impl<T: Number> Tensor<T> {
    fn random(random: &mut Random, shape: [usize; 3], special: bool) -> Tensor<T> {
        let layout = Layout::random(random, shape, false);
        Tensor { layout, data: values(random, layout.len, special) }
    }

    fn value(&self, place: [usize; 3]) -> f64 {
        self.data[self.layout.at(place)].value()
    }
}

/// The options of a problem.
struct Options<O> {
    alpha: f32,
    beta: f32,
    activation: Activation,
    scale_rows: Option<Tensor<f32>>,
    scale_columns: Option<Tensor<f32>>,
    bias_rows: Option<Tensor<O>>,
    bias_columns: Option<Tensor<O>>,
    residual: Option<Tensor<O>>,
    tf32: bool,
    algorithm: Option<(&'static str, u32)>,
}

impl<O: Number> Options<O> {
    /// No options, for operands of this type.
    fn plain(random: &mut Random, operand: &str) -> Options<O> {
        let tf32 = random.once_in(2);
        let kind = if tf32 && operand == "f32" { "tf32" } else { operand };
        let wanted = std::env::var("PTX_GEMM_ALGORITHMS").unwrap_or_default();
        let names: Vec<_> = algorithms(kind).filter(|name| name.contains(&wanted)).collect();
        let named = !names.is_empty() && (!wanted.is_empty() || random.once_in(2));
        let algorithm = named.then(|| (random.of(&names), random.of(&[1, 1, 2, 3, 7])));
        Options {
            alpha: 1.0,
            beta: 0.0,
            activation: Activation::None,
            scale_rows: None,
            scale_columns: None,
            bias_rows: None,
            bias_columns: None,
            residual: None,
            tf32,
            algorithm,
        }
    }

    fn random(random: &mut Random, [batches, m, n]: [usize; 3], operand: &str) -> Options<O> {
        let plain = Options::plain(random, operand);
        if O::ROUNDING == 0.0 || random.once_in(3) {
            return plain;
        }
        use Activation::{Gelu, GeluTanh, None, Relu, Silu};
        let mut vector = |len: usize| random.once_in(3).then(|| Tensor::random(random, [1, 1, len], false));
        let (scale_rows, scale_columns) = (vector(m), vector(n));
        let mut vector = |len: usize| random.once_in(3).then(|| Tensor::random(random, [1, 1, len], false));
        let (bias_rows, bias_columns) = (vector(m), vector(n));
        Options {
            alpha: random.of(&[1.0, 1.0, -0.5, 3.0]),
            beta: random.of(&[0.0, 0.0, 1.0, -2.0]),
            activation: random.of(&[None, None, Relu, Gelu, GeluTanh, Silu]),
            scale_rows,
            scale_columns,
            bias_rows,
            bias_columns,
            residual: random.once_in(3).then(|| Tensor::random(random, [batches, m, n], false)),
            ..plain
        }
    }

    fn expected(&self, sum: Expected, old: f64, place: [usize; 3]) -> Expected {
        let value = |tensor: &Option<Tensor<O>>, at: usize| tensor.as_ref().map_or(0.0, |t| t.value([0, 0, at]));
        let scale = |tensor: &Option<Tensor<f32>>, at: usize| tensor.as_ref().map_or(1.0, |t| t.value([0, 0, at]));
        let [_, row, column] = place;
        let mut v = sum.times(f64::from(self.alpha)).times(scale(&self.scale_rows, row));
        v = v.times(scale(&self.scale_columns, column));
        if self.beta != 0.0 {
            v = v.plus(f64::from(self.beta) * old);
        }
        v = v.plus(value(&self.bias_rows, row)).plus(value(&self.bias_columns, column)).activated(self.activation);
        self.residual.as_ref().map_or(v, |residual| v.plus(residual.value(place)))
    }
}

/// Elements of one dimension, up to `most`.
fn extent(random: &mut Random, most: usize) -> usize {
    let sizes = [0, 1, 1, 2, 3, 4, 7, 8, 13, 16, 17, 29, 32, 33, 61, 64, 65, 67, 96, 127, 128, 131, 200, 257, 300, 511];
    let fitting: Vec<_> = sizes.into_iter().filter(|size| *size <= most).collect();
    random.of(&fitting)
}

/// A shape (batches, M, N, K) with not too many multiplications.
fn shape(random: &mut Random, rank: usize, most: usize) -> [usize; 4] {
    let batches = if rank == 3 { random.of(&[0, 1, 2, 3, 3, 4]) } else { 1 };
    let mut extents = [most.min(512); 3];
    let mut left = most / batches.max(1);
    let first = random.below(3);
    for step in 0..3 {
        let at = (first + step) % 3;
        extents[at] = extent(random, left.min(512));
        left /= extents[at].max(1);
    }
    let [m, n, k] = extents;
    [batches, m, n, k]
}

struct Case<T, O> {
    a: Tensor<T>,
    b: Tensor<T>,
    c: Tensor<O>,
    options: Options<O>,
}

impl<T: Number + Operand, O: Number + Element + Output<T>> Case<T, O> {
    fn new(random: &mut Random, rank: usize, most: usize) -> Case<T, O> {
        let [batches, m, n, k] = shape(random, rank, most);
        let special = random.once_in(6);
        let (a, b) =
            (Tensor::random(random, [batches, m, k], special), Tensor::random(random, [batches, k, n], special));
        let options = Options::random(random, [batches, m, n], &type_name::<T>());
        let layout = Layout::random(random, [batches, m, n], true);
        let mut data = vec![O::poison(); layout.len];
        if options.beta != 0.0 {
            let old: Vec<O> = values(random, layout.len, false);
            each([batches, m, n], |place| data[layout.at(place)] = old[layout.at(place)]);
        }
        Case { a, b, c: Tensor { layout, data }, options }
    }

    /// The contents of C's memory, and what ran.
    fn run<const R: usize>(&self, device: &Device) -> Result<Vec<O>> {
        let options = &self.options;
        let (a, b) = (device.upload(&self.a.data)?, device.upload(&self.b.data)?);
        let mut c = device.upload(&self.c.data)?;
        let upload = |tensor: &Option<Tensor<O>>| tensor.as_ref().map(|t| device.upload(&t.data)).transpose();
        let floats = |tensor: &Option<Tensor<f32>>| tensor.as_ref().map(|t| device.upload(&t.data)).transpose();
        let (rows, columns) = (floats(&options.scale_rows)?, floats(&options.scale_columns)?);
        let (bias_rows, bias_columns) = (upload(&options.bias_rows)?, upload(&options.bias_columns)?);
        let residual = upload(&options.residual)?;
        let build = |named: bool| -> Result<Gemm<'_, O, R>> {
            let mut gemm = Gemm::new().alpha(options.alpha).beta(options.beta).activation(options.activation);
            gemm = gemm.tf32(options.tf32);
            if let (Some(tensor), Some(memory)) = (&options.scale_rows, &rows) {
                gemm = gemm.scale_rows(strided::<_, 1>(tensor, memory)?);
            }
            if let (Some(tensor), Some(memory)) = (&options.scale_columns, &columns) {
                gemm = gemm.scale_columns(strided::<_, 1>(tensor, memory)?);
            }
            if let (Some(tensor), Some(memory)) = (&options.bias_rows, &bias_rows) {
                gemm = gemm.bias_rows(strided::<_, 1>(tensor, memory)?);
            }
            if let (Some(tensor), Some(memory)) = (&options.bias_columns, &bias_columns) {
                gemm = gemm.bias_columns(strided::<_, 1>(tensor, memory)?);
            }
            if let (Some(tensor), Some(memory)) = (&options.residual, &residual) {
                gemm = gemm.residual(strided::<_, R>(tensor, memory)?);
            }
            Ok(match options.algorithm.filter(|_| named) {
                Some((name, splits)) => gemm.algorithm(name, splits),
                None => gemm,
            })
        };
        for named in [true, false] {
            let (c_shape, c_strides) = self.c.layout.dims::<R>();
            let out = TensorMut::strided(c.slice_mut(self.c.layout.offset..)?, c_shape, c_strides)?;
            let (a, b) = (strided::<_, R>(&self.a, &a)?, strided::<_, R>(&self.b, &b)?);
            match build(named)?.run(device, a, b, out) {
                // An algorithm for other operands.
                Err(error) if named && error.kind() == ErrorKind::Unsupported => {}
                other => {
                    other?;
                    let ran = options.algorithm.filter(|_| named);
                    println!(
                        "{}",
                        ran.map_or_else(|| "the best".to_owned(), |(name, splits)| format!("{name}/{splits}"))
                    );
                    break;
                }
            }
        }
        c.download()
    }

    /// Compares every element, and what lies between and around them.
    fn check(&self, found: &[O], is_cuda: bool) -> std::result::Result<(), String> {
        let is_narrow = is_cuda
            || self.options.algorithm.is_some_and(|(name, _)| name.ends_with("_generic") || name.ends_with("_claimed"));
        let mut inside = vec![false; found.len()];
        let mut wrong = None;
        let ([_, _, k], tf32) = (self.a.layout.shape, self.options.tf32 && T::ROUNDING == f32::ROUNDING);
        let shape @ [_, m, n] = self.c.layout.shape;
        // Hopper's tensor cores have 13 bits behind the point of the largest addend of 8-bit floats.
        let cut = if is_narrow && size_of::<T>() == 1 { 2f64.powi(-13) } else { 0.0 };
        each(shape, |place @ [batch, row, column]| {
            let at = self.c.layout.at(place);
            inside[at] = true;
            let products = (0..k).map(|k| self.a.value([batch, row, k]) * self.b.value([batch, k, column]));
            let sum = Expected::sum(products, T::ROUNDING == 0.0, tf32, cut);
            let expected = self.options.expected(sum, self.c.data[at].value(), place);
            if !is_right(found[at], expected) {
                wrong.get_or_insert_with(|| format!("{place:?} is {} for {expected:?}", found[at].value()));
            }
        });
        let stray = (0..found.len()).find(|at| !inside[*at] && !found[*at].is_poison());
        let what = wrong.or(stray.map(|at| format!("element {at} of the memory is overwritten")));
        what.map_or(Ok(()), |what| {
            let Options { alpha, beta, activation, algorithm, .. } = &self.options;
            let types = (std::any::type_name::<T>(), std::any::type_name::<O>());
            let layouts = (self.a.layout, self.b.layout, self.c.layout);
            Err(format!("{m} x {n} x {k}, {types:?}: {what}\nalpha {alpha}, beta {beta}, {activation:?}, tf32 {tf32}, {algorithm:?}\n{layouts:?}"))
        })
    }
}

fn strided<'a, T, const R: usize>(
    tensor: &Tensor<T>,
    memory: &'a ptx_launch::Buffer<T>,
) -> Result<TensorRef<'a, T, R>> {
    let (shape, strides) = tensor.layout.dims::<R>();
    TensorRef::strided(memory.slice(tensor.layout.offset..)?, shape, strides)
}

/// `f16`, `e4m3`: the type as algorithms call it.
fn type_name<T>() -> String {
    std::any::type_name::<T>().rsplit(':').next().unwrap_or_default().to_lowercase()
}

fn each(shape: [usize; 3], mut act: impl FnMut([usize; 3])) {
    let [batches, rows, columns] = shape;
    (0..batches).for_each(|b| (0..rows).for_each(|r| (0..columns).for_each(|c| act([b, r, c]))));
}

fn is_right<O: Number>(found: O, expected: Expected) -> bool {
    let (found, Expected { value, error }) = (found.value(), expected);
    let error = error + (value.abs() + error) * O::ROUNDING + O::SMALLEST / 2.0;
    match value {
        _ if value.is_nan() || error.is_nan() => found.is_nan() || error.is_nan() && !value.is_nan(),
        _ if O::ROUNDING == 0.0 => found == value,
        // Near the largest value the result may be infinite or not.
        _ if value.is_infinite() || value.abs() + error > O::LARGEST => {
            found == value
                || found.is_infinite()
                || found.is_nan() && error.is_infinite()
                || (found - value).abs() <= error
        }
        _ => (found - value).abs() <= error,
    }
}

fn solve<T: Number + Operand, O: Number + Element + Output<T>>(random: &mut Random, device: &Device, most: usize) {
    let rank = random.of(&[2, 2, 3]);
    let case = Case::<T, O>::new(random, rank, most);
    let found = if rank == 2 { case.run::<2>(device) } else { case.run::<3>(device) };
    let checked = found.map_err(|error| error.to_string()).and_then(|found| case.check(&found, device.is_cuda()));
    if let Err(wrong) = checked {
        panic!("{wrong}");
    }
}

fn device() -> Device {
    std::env::var("PTX_DEVICE").map_or_else(|_| Device::cpu(), |name| Device::named(&name).unwrap())
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn random_products() {
    let device = device();
    let most = if device.is_cuda() { 2_000_000 } else { 40_000 };
    let first = number("PTX_GEMM_SEED", 1);
    for seed in first..first + number("PTX_GEMM_PROBLEMS", 40) {
        println!("PTX_GEMM_SEED={seed}");
        let mut random = Random::new(seed);
        let problems = [
            solve::<f32, f32>,
            solve::<f32, f32>,
            solve::<f16, f16>,
            solve::<f16, f32>,
            solve::<bf16, bf16>,
            solve::<bf16, f32>,
            solve::<E4m3, f16>,
            solve::<E4m3, bf16>,
            solve::<E4m3, f32>,
            solve::<E5m2, f16>,
            solve::<E5m2, bf16>,
            solve::<E5m2, f32>,
            solve::<i8, i32>,
            solve::<i8, f16>,
            solve::<i8, bf16>,
            solve::<i8, f32>,
        ];
        problems[seed as usize % problems.len()](&mut random, &device, most);
    }
}

//! Rates of the operations next to a device copy, in GB/s of the bytes that must move. `cargo test --release -p ptx-kernels --test rows -- --ignored
//! --nocapture bandwidth` on a machine with a GPU and `PTX_DEVICE=cuda`. `PTX_BANDWIDTH` picks `rotations`, `rows` or `losses`.

use crate::support::{Number, Random, device};
use ptx_kernels::rotary::{Angles, Pairs, Rotary, tables};
use ptx_kernels::{activation, cross_entropy, norm, rotary, softmax};
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorMut, TensorRef, Timer};
use std::cell::Cell;

/// Bytes that are used in turns, so that no input is in the second-level cache.
const ROUND: usize = 512 << 20;

/// Matrices of one shape, used in turns.
struct Sets<T> {
    memory: Buffer<T>,
    shape: [usize; 2],
    sets: usize,
}

impl<T: Number> Sets<T> {
    fn new(device: &Device, shape: [usize; 2], arrays: usize) -> Result<Sets<T>> {
        let bytes = shape[0] * shape[1] * size_of::<T>();
        let sets = if device.is_cuda() { (ROUND / (bytes * arrays)).max(1) } else { 1 };
        let mut random = Random::new(7);
        let pattern: Vec<T> = (0..1 << 16).map(|_| T::rounded(random.normal())).collect();
        let values: Vec<T> = pattern.iter().copied().cycle().take(sets * shape[0] * shape[1]).collect();
        Ok(Sets { memory: device.upload(&values)?, shape, sets })
    }

    fn offset(&self, turn: usize) -> usize {
        turn % self.sets * self.shape[0] * self.shape[1]
    }

    fn read(&self, turn: usize) -> TensorRef<'_, T, 2> {
        let memory = self.memory.slice(self.offset(turn)..).unwrap();
        TensorRef::strided(memory, self.shape, [self.shape[1], 1]).unwrap()
    }

    fn write(&mut self, turn: usize) -> TensorMut<'_, T, 2> {
        let (offset, shape) = (self.offset(turn), self.shape);
        TensorMut::strided(self.memory.slice_mut(offset..).unwrap(), shape, [shape[1], 1]).unwrap()
    }
}

/// Measures calls, and prints their rate.
struct Bench<'a> {
    device: &'a Device,
    size: String,
    copy: Cell<f64>,
}

impl Bench<'_> {
    fn measure(&self, name: &str, bytes: usize, mut call: impl FnMut(&Stream, usize) -> Result<()>) -> Result<()> {
        let (stream, mut turn) = (self.device.stream(), 0);
        let runs = if self.device.is_cuda() { 40 } else { 1 };
        let timing = Timer::new().warm_up(3).runs(runs).measure(&stream, || {
            turn += 1;
            call(&stream, turn)
        })?;
        let rate = timing.rate(bytes as f64) / 1e9;
        if name == "copy" {
            self.copy.set(rate);
        }
        println!(
            "{name:28} {:18} {:9.1?} {rate:7.0} GB/s {:5.3} of copy",
            self.size,
            timing.median(),
            rate / self.copy.get()
        );
        Ok(())
    }
}

type All<T> = (Sets<T>, Sets<T>, Sets<T>, Sets<T>, Sets<T>);

fn rows<T>(device: &Device, shape: [usize; 2]) -> Result<()>
where
    T: Number + norm::Float + softmax::Float + activation::Float,
{
    let bench = Bench { device, size: format!("{}x{} {}", shape[0], shape[1], T::NAME), copy: Cell::new(1.0) };
    let set = || Sets::<T>::new(device, shape, 3);
    let (a, b, c, mut d, mut e): All<T> = (set()?, set()?, set()?, set()?, set()?);
    let columns = shape[1];
    let weight = device.upload(&vec![T::rounded(1.0); columns])?;
    let bias = device.upload(&vec![T::rounded(0.5); columns])?;
    let (mut dw, mut db) = (device.zeros::<T>(columns)?, device.zeros::<T>(columns)?);
    let (w, h) = (|| weight.tile([columns]).unwrap(), || bias.tile([columns]).unwrap());
    let one = shape[0] * shape[1] * size_of::<T>();

    let len = shape[0] * shape[1];
    bench.measure("copy", 2 * one, |s, i| {
        let (from, to) = (a.offset(i), d.offset(i));
        s.copy(&a.memory.slice(from..from + len)?, &mut d.memory.slice_mut(to..to + len)?)
    })?;
    bench.measure("rms_norm", 2 * one, |s, i| norm::rms_norm(s, a.read(i), w(), d.write(i), 1e-6))?;
    bench.measure("layer_norm", 2 * one, |s, i| norm::layer_norm(s, a.read(i), w(), h(), d.write(i), 1e-5))?;
    bench.measure("rms_norm + residual", 4 * one, |s, i| {
        norm::Norm::rms(1e-6).weight(w()).residual(e.write(i)).forward(s, a.read(i), d.write(i))
    })?;
    bench.measure("softmax", 2 * one, |s, i| softmax::softmax(s, a.read(i), d.write(i)))?;
    bench.measure("gelu", 2 * one, |s, i| activation::gelu(s, a.read(i), d.write(i)))?;
    bench.measure("gelu_tanh", 2 * one, |s, i| activation::gelu_tanh(s, a.read(i), d.write(i)))?;
    bench.measure("silu", 2 * one, |s, i| activation::silu(s, a.read(i), d.write(i)))?;
    bench.measure("swiglu", 3 * one, |s, i| activation::swiglu(s, a.read(i), b.read(i), d.write(i)))?;

    bench.measure("rms_norm backward", 3 * one, |s, i| {
        let norm = norm::NormBackward::rms(1e-6).weight(w()).dw(dw.tile_mut([columns])?);
        norm.backward(s, a.read(i), b.read(i), d.write(i))
    })?;
    bench.measure("rms_norm backward + residual", 4 * one, |s, i| {
        let norm = norm::NormBackward::rms(1e-6).weight(w()).dw(dw.tile_mut([columns])?).residual_gradient(c.read(i));
        norm.backward(s, a.read(i), b.read(i), d.write(i))
    })?;
    bench.measure("layer_norm backward", 3 * one, |s, i| {
        let norm = norm::NormBackward::layer(1e-5).weight(w()).dw(dw.tile_mut([columns])?).db(db.tile_mut([columns])?);
        norm.backward(s, a.read(i), b.read(i), d.write(i))
    })?;
    bench
        .measure("softmax backward", 3 * one, |s, i| softmax::softmax_backward(s, a.read(i), b.read(i), d.write(i)))?;
    bench.measure("gelu backward", 3 * one, |s, i| activation::gelu_backward(s, a.read(i), b.read(i), d.write(i)))?;
    bench.measure("gelu_tanh backward", 3 * one, |s, i| {
        activation::gelu_tanh_backward(s, a.read(i), b.read(i), d.write(i))
    })?;
    bench.measure("swiglu backward", 5 * one, |s, i| {
        activation::swiglu_backward(s, a.read(i), b.read(i), c.read(i), d.write(i), e.write(i))
    })
}

/// Heads of 128 elements, all of them rotated; a row is a token.
fn rotations<T: Number + rotary::Float<i64>>(device: &Device, shape: [usize; 2]) -> Result<()> {
    let bench = Bench { device, size: format!("{}x{} {}", shape[0], shape[1], T::NAME), copy: Cell::new(1.0) };
    let (x, mut out) = (Sets::<T>::new(device, shape, 2)?, Sets::<T>::new(device, shape, 2)?);
    let (tokens, heads) = (shape[0], shape[1] / 128);
    let (cos, sin) = tables(10_000.0, 64, tokens);
    let (cos, sin) = (device.upload(&cos)?, device.upload(&sin)?);
    let positions = device.upload(&(0..tokens as i64).collect::<Vec<_>>())?;
    let angles = Angles {
        cos: cos.tile([tokens, 64])?.into(),
        sin: sin.tile([tokens, 64])?.into(),
        positions: positions.tile([tokens])?.into(),
    };
    let one = tokens * shape[1] * size_of::<T>();
    bench.measure("copy", 2 * one, |s, _| {
        s.copy(&x.memory.slice(..tokens * shape[1])?, &mut out.memory.slice_mut(..tokens * shape[1])?)
    })?;
    for pairs in [Pairs::Halves, Pairs::Neighbors] {
        bench.measure(&format!("rotary {pairs:?}"), 2 * one, |s, i| {
            let (from, to) = (x.offset(i), out.offset(i));
            let (strides, heads) = ([shape[1], 128, 1], [tokens, heads, 128]);
            let from = TensorRef::strided(x.memory.slice(from..)?, heads, strides)?;
            Rotary::new(pairs).apply(s, &angles, from, TensorMut::strided(out.memory.slice_mut(to..)?, heads, strides)?)
        })?;
    }
    Ok(())
}

fn losses<T: Number + cross_entropy::Float<i64>>(device: &Device, shape: [usize; 2]) -> Result<()> {
    let bench = Bench { device, size: format!("{}x{} {}", shape[0], shape[1], T::NAME), copy: Cell::new(1.0) };
    let (x, mut dx) = (Sets::<T>::new(device, shape, 1)?, Sets::<T>::new(device, shape, 1)?);
    let rows = shape[0];
    let targets = device.upload(&(0..rows as i64).collect::<Vec<_>>())?;
    let (mut loss, mut lse) = (device.zeros::<f32>(rows)?, device.zeros::<f32>(rows)?);
    let one = shape[0] * shape[1] * size_of::<T>();
    bench.measure("copy", 2 * one, |s, _| s.copy(&x.memory, &mut dx.memory))?;
    bench.measure("cross_entropy", one, |s, i| {
        let (out, log) = (loss.tile_mut([rows])?, lse.tile_mut([rows])?);
        cross_entropy::cross_entropy(s, x.read(i), targets.tile([rows])?, out, log)
    })?;
    let options = cross_entropy::CrossEntropy::new().label_smoothing(0.1);
    bench.measure("cross_entropy smoothed", one, |s, i| {
        options.forward(s, x.read(i), targets.tile([rows])?, loss.tile_mut([rows])?, lse.tile_mut([rows])?)
    })?;
    let dloss = TensorRef::strided(&loss, [rows], [0])?;
    let saved = cross_entropy::Saved { targets: targets.tile([rows])?.into(), lse: lse.tile([rows])?.into(), dloss };
    bench.measure("cross_entropy backward", 2 * one, |s, i| options.backward(s, x.read(i), saved, dx.write(i)))?;
    bench.measure("cross_entropy backward inside", 2 * one, |s, i| options.backward_in_place(s, saved, dx.write(i)))
}

#[test]
#[ignore = "measures rates, which say something on a GPU alone"]
fn bandwidth() -> Result<()> {
    let device = device();
    let full = device.is_cuda();
    let shapes: &[[usize; 2]] = if full { &[[8192, 8192], [2048, 8192]] } else { &[[4, 256]] };
    let wanted = std::env::var("PTX_BANDWIDTH").unwrap_or_default();
    let wants = |part: &str| part.contains(&wanted);
    for shape in shapes {
        if wants("rotations") {
            rotations::<bf16>(&device, *shape)?;
            rotations::<f32>(&device, *shape)?;
        }
        if wants("rows") {
            rows::<bf16>(&device, *shape)?;
            rows::<f32>(&device, *shape)?;
        }
    }
    if !wants("losses") {
        return Ok(());
    }
    losses::<bf16>(&device, if full { [4096, 128_256] } else { [2, 3000] })
}

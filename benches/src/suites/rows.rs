//! RMSNorm, LayerNorm, softmax and SwiGLU: each element read once and written once, so that the copy bandwidth is the
//! ceiling. torch.compile runs in the companion (`benches/companion.py`), under the same names and sizes; cuDNN, which has no
//! fused SwiGLU and no softmax among its graphs, here.

use crate::bench::{Bench, Case, Work};
use crate::data::{self, Value};
use crate::rivals::cudnn::{self, Dnn, Norm};
use ptx_examples::relative_error;
use ptx_examples::rows::tasks::{self, LAYER_EPSILON, RMS_EPSILON};
use ptx_examples::rows::{Number, Task};
use ptx_kernels::{activation, norm};
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::{Cell, RefCell};

/// Rows and columns; the last is a vocabulary's width, for softmax alone.
const SHAPES: &[(u32, u32)] = &[(2048, 8192), (8192, 8192), (16384, 8192), (32768, 8192), (4096, 131_072)];
/// For a rehearsal.
const SMALL: &[(u32, u32)] = &[(3, 2050)];
/// So many bytes at least are used in turns, lest a kernel find its input in the second-level cache.
const ROUND: usize = 512 << 20;
/// Number of rows that are compared with the reference.
const COMPARED: u32 = 48;

/// Launches an instance: inputs, output, rows, columns.
type Launch<T> = fn(&Stream, &[Buffer<T>], &mut Buffer<T>, u32, u32) -> Result<()>;

macro_rules! kernels {
    ($($name:ident $f32:ident $bf16:ident)*) => { $(
        pub fn $f32(bench: &mut Bench) -> Result<()> {
            each::<f32>(bench, concat!(stringify!($name), " f32"), tasks::$name(stringify!($name)), $name)
        }

        pub fn $bf16(bench: &mut Bench) -> Result<()> {
            each::<bf16>(bench, concat!(stringify!($name), " bf16"), tasks::$name(stringify!($name)), $name)
        }
    )* };
}
kernels! {
    rms_norm rms_norm_f32 rms_norm_bf16
    layer_norm layer_norm_f32 layer_norm_bf16
    softmax softmax_f32 softmax_bf16
    swiglu swiglu_f32 swiglu_bf16
}

fn rms_norm<T: norm::Float>(s: &Stream, x: &[Buffer<T>], out: &mut Buffer<T>, rows: u32, columns: u32) -> Result<()> {
    let (shape, columns) = ([rows as usize, columns as usize], columns as usize);
    norm::rms_norm(s, x[0].tile(shape)?, x[1].tile([columns])?, out.tile_mut(shape)?, RMS_EPSILON)
}

fn layer_norm<T: norm::Float>(s: &Stream, x: &[Buffer<T>], out: &mut Buffer<T>, rows: u32, columns: u32) -> Result<()> {
    let (shape, columns) = ([rows as usize, columns as usize], columns as usize);
    let (weight, bias) = (x[1].tile([columns])?, x[2].tile([columns])?);
    norm::layer_norm(s, x[0].tile(shape)?, weight, bias, out.tile_mut(shape)?, LAYER_EPSILON)
}

fn softmax<T: ptx_kernels::softmax::Float>(
    s: &Stream,
    x: &[Buffer<T>],
    out: &mut Buffer<T>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let shape = [rows as usize, columns as usize];
    ptx_kernels::softmax::softmax(s, x[0].tile(shape)?, out.tile_mut(shape)?)
}

fn swiglu<T: activation::Float>(
    s: &Stream,
    x: &[Buffer<T>],
    out: &mut Buffer<T>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let shape = [rows as usize, columns as usize];
    activation::swiglu(s, x[0].tile(shape)?, x[1].tile(shape)?, out.tile_mut(shape)?)
}

fn each<T: Value + Number>(bench: &mut Bench, kernel: &str, task: Task, launch: Launch<T>) -> Result<()> {
    for (rows, columns) in bench.sizes(SHAPES, SMALL).iter().copied() {
        let size = format!("{rows}x{columns}");
        let wide = columns > 8192 && !kernel.starts_with("softmax");
        if !wide && bench.wants(kernel, &size) {
            one(bench, kernel, size, Matrix { task, rows, columns }, launch)?;
        }
    }
    Ok(())
}

/// The operation and its size.
#[derive(Clone, Copy)]
struct Matrix {
    task: Task,
    rows: u32,
    columns: u32,
}

/// The inputs of one launch, and its output.
struct Set<T> {
    inputs: Vec<Buffer<T>>,
    out: RefCell<Buffer<T>>,
}

impl<T: Value + Number> Set<T> {
    fn new(bench: &mut Bench, matrix: Matrix) -> Result<Set<T>> {
        let Matrix { task, rows, columns } = matrix;
        let (device, stream) = (bench.device.clone(), bench.stream.clone());
        let len = |whole: bool| if whole { rows } else { 1 } as usize * columns as usize;
        let mut input = |whole: &bool| data::normal(&device, &stream, len(*whole), bench.seed());
        let inputs = task.inputs.iter().map(&mut input).collect::<Result<_>>()?;
        Ok(Set { inputs, out: RefCell::new(device.zeros(len(true))?) })
    }

    /// Error of some rows against the reference; NaN if any element of any row is NaN.
    fn error(&self, stream: &Stream, matrix: Matrix) -> Result<f64> {
        let out = self.out.borrow();
        if data::error(stream, &out, &out)?.is_nan() {
            return Ok(f64::NAN);
        }
        let step = (matrix.rows / COMPARED).max(1) as usize;
        let mut worst: f64 = 0.0;
        for row in (0..matrix.rows as usize).rev().step_by(step) {
            worst = worst.max(self.row_error(&out, row, matrix)?);
        }
        Ok(worst)
    }

    fn row_error(&self, out: &Buffer<T>, row: usize, Matrix { task, columns, .. }: Matrix) -> Result<f64> {
        let columns = columns as usize;
        let values = |buffer: &Buffer<T>, row: usize| -> Result<Vec<f32>> {
            let values = buffer.slice(row * columns..(row + 1) * columns)?.download()?;
            Ok(values.into_iter().map(T::exact).collect())
        };
        let row_of = |(buffer, whole): (&Buffer<T>, &bool)| -> Result<Vec<f64>> {
            Ok(values(buffer, if *whole { row } else { 0 })?.into_iter().map(f64::from).collect())
        };
        let inputs: Vec<_> = self.inputs.iter().zip(task.inputs).map(row_of).collect::<Result<_>>()?;
        let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
        Ok(relative_error(&values(out, row)?, (task.reference)(&inputs)))
    }
}

fn one<T: Value + Number>(
    bench: &mut Bench,
    kernel: &str,
    size: String,
    matrix: Matrix,
    launch: Launch<T>,
) -> Result<()> {
    let Matrix { task, rows, columns } = matrix;
    let matrices = 1 + task.inputs.iter().filter(|whole| **whole).count();
    let bytes = matrices * rows as usize * columns as usize * size_of::<T>();
    let round = if bench.measures_memory() { ROUND } else { 1 };
    let sets: Vec<Set<T>> = (0..round.div_ceil(bytes)).map(|_| Set::new(bench, matrix)).collect::<Result<_>>()?;
    let last = Cell::new(0);
    let mut case = Case {
        kernel,
        size,
        work: Work::Bytes(bytes as f64),
        poison: Box::new(|stream| sets.iter().try_for_each(|set| data::poison(stream, &mut set.out.borrow_mut()))),
        check: Box::new(|stream| sets[last.get()].error(stream, matrix)),
        limit: T::LIMIT,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    case.ours("ours", |stream| {
        let Set { inputs, out } = &sets[next(&last, sets.len())];
        launch(stream, inputs, &mut out.borrow_mut(), rows, columns)
    });
    if let Some(norm) = norm::<T>(kernel, matrix).filter(|_| !bench.options.alone) {
        let (plans, last) = (by_cudnn(bench, norm, &sets), &last);
        case.rival_if("cuDNN", plans.map(|plans| move |_: &Stream| plans[next(last, plans.len())].launch()));
    }
    bench.contest(case)
}

/// The next one of so many sets.
fn next(last: &Cell<usize>, sets: usize) -> usize {
    last.set((last.get() + 1) % sets);
    last.get()
}

/// cuDNN's problem for a kernel, if it has one.
fn norm<T>(kernel: &str, Matrix { rows, columns, .. }: Matrix) -> Option<Norm> {
    let norms = [("rms_norm", false, RMS_EPSILON), ("layer_norm", true, LAYER_EPSILON)];
    let (_, layer, epsilon) = norms.into_iter().find(|(name, ..)| kernel.starts_with(name))?;
    Some(Norm { rows, columns, bf16: size_of::<T>() == 2, layer, epsilon })
}

/// The library on the same memory.
fn by_cudnn<T: Value + Number>(bench: &Bench, norm: Norm, sets: &[Set<T>]) -> Result<Vec<cudnn::Plan>> {
    let addresses = |set: &Set<T>| -> Vec<u64> {
        set.inputs.iter().map(Buffer::address).chain([set.out.borrow().address()]).collect()
    };
    let plan = Dnn::open(&bench.device, &bench.stream)?.plan(norm.graphs(), &addresses(&sets[0]), &bench.stream)?;
    sets.iter().map(|set| plan.on(&addresses(set))).collect()
}

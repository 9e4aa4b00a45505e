//! The choice of a kernel for each norm, and its launch.

use super::backward::kernels::{self as two_passes, backward_columns, backward_rows, reduce_slices};
use super::hopper::kernels::{self as hopper, layer_norm, rms_norm};
use super::portable::kernels::{self as portable, normalize};
use super::ring::ring::{self, backward_ring};
use crate::rows::{Rows, is_hopper};
use crate::workspace::{self, Workspace};
use ptx_launch::{Element, Result, StreamRef, TensorMut, TensorRef, ViewMut};

/// A norm and its constant.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub center: bool,
    pub epsilon: f32,
    /// Kernels for every chip only.
    pub portable: bool,
}

/// The arguments of a norm.
pub struct Forward<'f, 'm, T> {
    pub kind: Kind,
    pub rows: Rows<3>,
    pub x: &'f TensorRef<'m, T, 2>,
    pub residual: Option<&'f mut TensorMut<'m, T, 2>>,
    pub weight: Option<&'f TensorRef<'m, T, 1>>,
    pub bias: Option<&'f TensorRef<'m, T, 1>>,
}

/// The arguments of a norm's gradient.
pub struct Backward<'f, 'm, T> {
    pub kind: Kind,
    pub rows: Rows<4>,
    pub x: &'f TensorRef<'m, T, 2>,
    pub dy: &'f TensorRef<'m, T, 2>,
    pub sum: Option<&'f TensorRef<'m, T, 2>>,
    pub weight: Option<&'f TensorRef<'m, T, 1>>,
    pub dw: Option<&'f mut TensorMut<'m, T, 1>>,
    pub db: Option<&'f mut TensorMut<'m, T, 1>>,
    pub workspace: Option<&'f mut Workspace>,
}

/// The launches of the types for which there are kernels.
pub trait Launch: Element {
    #[doc(hidden)]
    fn forward(stream: StreamRef<'_>, arguments: Forward<'_, '_, Self>, out: &mut TensorMut<'_, Self, 2>)
    -> Result<()>;

    #[doc(hidden)]
    fn backward(
        stream: StreamRef<'_>,
        arguments: Backward<'_, '_, Self>,
        dx: &mut TensorMut<'_, Self, 2>,
    ) -> Result<()>;

    /// Fills vectors with zeros.
    #[doc(hidden)]
    fn clear(stream: StreamRef<'_>, vectors: [Option<TensorMut<'_, Self, 1>>; 2]) -> Result<()>;
}

/// The instance for a norm and accesses of 16 bytes, or of one element.
macro_rules! pick {
    ($kernel:ident, $T:ty, $center:expr, $wide:expr) => {
        match ($center, $wide, size_of::<$T>()) {
            (false, false, _) => $kernel::Instance::rms_1,
            (false, true, 4) => $kernel::Instance::rms_4,
            (false, true, _) => $kernel::Instance::rms_8,
            (true, false, _) => $kernel::Instance::layer_1,
            (true, true, 4) => $kernel::Instance::layer_4,
            (true, true, _) => $kernel::Instance::layer_8,
        }
    };
}

/// The instance for a class of rows.
macro_rules! tune {
    ($kernel:ident, $T:ty, $length:expr) => {
        match ($length, size_of::<$T>()) {
            (Length::Short, 4) => $kernel::Instance::short_4,
            (Length::Short, _) => $kernel::Instance::short_8,
            (Length::Medium, 4) => $kernel::Instance::medium_4,
            (Length::Medium, _) => $kernel::Instance::medium_8,
            (Length::Long, 4) => $kernel::Instance::long_4,
            (Length::Long, _) => $kernel::Instance::long_8,
        }
    };
}

impl<T: Element> Launch for T
where
    normalize::Types<T>: normalize::Exists,
    backward_rows::Types<T>: backward_rows::Exists,
    backward_columns::Types<T>: backward_columns::Exists,
    reduce_slices::Types<T>: reduce_slices::Exists + reduce_slices::exists::of_type,
    rms_norm::Types<T>: rms_norm::Exists,
    layer_norm::Types<T>: layer_norm::Exists,
    backward_ring::Types<T>: backward_ring::Exists,
{
    fn forward(stream: StreamRef<'_>, arguments: Forward<'_, '_, T>, out: &mut TensorMut<'_, T, 2>) -> Result<()> {
        let Forward { kind: Kind { center, epsilon, portable }, rows, x, residual, weight, bias } = arguments;
        let Rows { rows, columns, strides: [s, t, u], wide } = rows;
        if let (true, None, Some(weight)) = (wide && !portable && is_hopper(stream)?, &residual, weight) {
            match (center, find_length(columns), bias) {
                (false, Some(length), None) => {
                    let instance = tune!(rms_norm, T, length);
                    let tensors = hopper::RmsTensors { x, weight, out };
                    let strides = hopper::Strides { x_stride: s, out_stride: u };
                    return rms_norm::launch(instance, stream, tensors, strides, epsilon, rows, columns);
                }
                (true, Some(length), Some(bias)) => {
                    let instance = tune!(layer_norm, T, length);
                    let tensors = hopper::LayerTensors { x, weight, bias, out };
                    let strides = hopper::Strides { x_stride: s, out_stride: u };
                    return layer_norm::launch(instance, stream, tensors, strides, epsilon, rows, columns);
                }
                _ => {}
            }
        }
        let instance = pick!(normalize, T, center, wide);
        let tensors = portable::Tensors { x, residual, weight, bias, out };
        let strides = portable::Strides { x_stride: s, residual_stride: t, out_stride: u };
        normalize::launch(instance, stream, tensors, strides, epsilon, rows, columns)
    }

    fn backward(stream: StreamRef<'_>, arguments: Backward<'_, '_, T>, dx: &mut TensorMut<'_, T, 2>) -> Result<()> {
        let most = 2048 * 16 / size_of::<T>() as u32;
        let one_pass = arguments.rows.wide && arguments.rows.columns <= most && !arguments.kind.portable;
        if one_pass && (arguments.kind.center || arguments.db.is_none()) && is_hopper(stream)? {
            return backward_in_one_pass(stream, arguments, dx);
        }
        let Backward { kind, rows, x, dy, sum, weight, dw, db, workspace } = arguments;
        let Rows { rows, columns, strides: [s, t, u, v], wide } = rows;
        let instance = pick!(backward_rows, T, kind.center, wide);
        let by_rows = |statistics: Option<&mut ViewMut<'_, u8>>, dx: &mut TensorMut<'_, T, 2>| {
            let tensors = two_passes::RowTensors { x, dy, sum, weight, dx, statistics };
            let strides = two_passes::RowStrides { x_stride: s, dy_stride: t, sum_stride: u, dx_stride: v };
            backward_rows::launch(instance, stream, tensors, strides, kind.epsilon, rows, columns)
        };
        if dw.is_none() && db.is_none() {
            return by_rows(None, dx);
        }
        let plan = Slices::of(rows, columns, if wide { 16 / size_of::<T>() } else { 1 }, db.is_some());
        workspace::with(stream, workspace, plan.bytes(rows, columns), |memory| {
            let (mut statistics, mut rest) = memory.scratch().split_at_mut(rows as usize * 8)?;
            by_rows(Some(&mut statistics), dx)?;
            let (n, arrays) = (plan.slices, plan.arrays);
            let instance = match (wide, size_of::<T>()) {
                (false, _) => backward_columns::Instance::by_1,
                (true, 4) => backward_columns::Instance::by_4,
                (true, _) => backward_columns::Instance::by_8,
            };
            let tensors = two_passes::ColumnTensors { x, dy, statistics: &statistics.view(), partial: &mut rest };
            let strides = two_passes::ColumnStrides { x_stride: s, dy_stride: t };
            backward_columns::launch(instance, stream, tensors, strides, n, arrays, rows, columns)?;
            reduce_slices::of_type(stream, &rest.view(), dw, db, n, arrays, columns)
        })
    }

    fn clear(stream: StreamRef<'_>, [mut dw, mut db]: [Option<TensorMut<'_, T, 1>>; 2]) -> Result<()> {
        let columns = [&dw, &db].into_iter().flatten().map(|vector| vector.shape()[0]).max().unwrap_or(0) as u32;
        if columns == 0 {
            return Ok(());
        }
        let partial: Option<&TensorRef<'_, u8, 1>> = None;
        reduce_slices::of_type(stream, partial, dw.as_mut(), db.as_mut(), 0, 2, columns)
    }
}

/// Classes of rows that have kernels of their own.
#[derive(Clone, Copy)]
enum Length {
    Short,
    Medium,
    Long,
}

/// The class of rows of so many columns.
fn find_length(columns: u32) -> Option<Length> {
    match columns {
        0..=2048 => Some(Length::Short),
        2049..=8192 => Some(Length::Medium),
        8193..=32768 => Some(Length::Long),
        _ => None,
    }
}

/// dx and one partial sum per block in one pass, and the sum of those.
fn backward_in_one_pass<T>(
    stream: StreamRef<'_>,
    arguments: Backward<'_, '_, T>,
    dx: &mut TensorMut<'_, T, 2>,
) -> Result<()>
where
    T: Element,
    backward_ring::Types<T>: backward_ring::Exists,
    reduce_slices::Types<T>: reduce_slices::Exists + reduce_slices::exists::of_type,
{
    let Backward { kind, rows, x, dy, sum, weight, dw, db, workspace } = arguments;
    let Rows { rows, columns, strides: [s, t, u, v], .. } = rows;
    let (instance, config) = ring_instance(kind.center, columns, size_of::<T>());
    let resident = (stream.properties()?.multiprocessors * config.blocks()).max(config.cluster());
    let blocks = rows.min(resident / config.cluster() * config.cluster()).next_multiple_of(config.cluster());
    let clusters = blocks / config.cluster();
    let strides = ring::Strides { x_stride: s, dy_stride: t, sum_stride: u, dx_stride: v };
    if dw.is_none() && db.is_none() {
        let partial: Option<&mut TensorMut<'_, u8, 1>> = None;
        let tensors = ring::Tensors { x, dy, sum, weight, dx, partial };
        let schedule = ring::Schedule { blocks, arrays: 1 };
        return backward_ring::launch(instance, stream, tensors, strides, kind.epsilon, schedule, rows, columns);
    }
    let arrays = if db.is_some() { 2 } else { 1 };
    let bytes = clusters as usize * arrays as usize * columns as usize * 4;
    workspace::with(stream, workspace, bytes, |memory| {
        let partial = memory.scratch();
        let tensors = ring::Tensors { x, dy, sum, weight, dx, partial: &mut *partial };
        let schedule = ring::Schedule { blocks, arrays };
        backward_ring::launch(instance, stream, tensors, strides, kind.epsilon, schedule, rows, columns)?;
        reduce_slices::of_type(stream, &*partial, dw, db, clusters, arrays, columns)
    })
}

/// The instance for rows of so many columns.
fn ring_instance(center: bool, columns: u32, bytes: usize) -> (backward_ring::Instance, ring::Config) {
    use backward_ring::Instance;
    const OF_4: [[Instance; 4]; 2] = [
        [Instance::rms_128_4, Instance::rms_256_4, Instance::rms_512_4, Instance::rms_1024_4],
        [Instance::layer_128_4, Instance::layer_256_4, Instance::layer_512_4, Instance::layer_1024_4],
    ];
    const OF_8: [[Instance; 4]; 2] = [
        [Instance::rms_128_8, Instance::rms_256_8, Instance::rms_512_8, Instance::rms_1024_8],
        [Instance::layer_128_8, Instance::layer_256_8, Instance::layer_512_8, Instance::layer_1024_8],
    ];
    let threads = (columns * bytes as u32).div_ceil(32).next_power_of_two().max(128);
    let all = if bytes == 4 { &OF_4 } else { &OF_8 };
    let config = ring::Config { center: u32::from(center), threads, each: 16 / bytes as u32 };
    (all[usize::from(center)][(threads / 128).ilog2() as usize], config)
}

/// Slices of rows for the sums of dw and db: enough for all SMs of a large chip, of at least 8 rows. They depend on the shape alone, and
/// with them the order of the sums.
struct Slices {
    slices: u32,
    arrays: u32,
}

impl Slices {
    fn of(rows: u32, columns: u32, each: usize, two: bool) -> Slices {
        let strips = columns.div_ceil(32 * each as u32);
        let slices = 1024u32.div_ceil(strips).min(rows.div_ceil(8)).max(1);
        Slices { slices, arrays: if two { 2 } else { 1 } }
    }

    /// Bytes of workspace: the statistics of the rows, and the partial sums.
    fn bytes(&self, rows: u32, columns: u32) -> usize {
        rows as usize * 8 + self.slices as usize * self.arrays as usize * columns as usize * 4
    }
}

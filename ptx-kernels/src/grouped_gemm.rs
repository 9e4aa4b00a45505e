//! Grouped matrix products, for a mixture of experts: the rows of A are sorted by expert, and each group of rows is multiplied with the
//! matrix of its expert. One launch for all groups; only the device has their heights, and empty groups cost nothing.
//!
//! For `sm_90a` and the CPU device. Operands are `bf16`, sums `f32`, results `bf16` or `f32`: each product is exact, each sum is that of
//! Hopper's tensor cores, and the result is rounded once. The order of the sums is that of K. [`blackwell`] has a kernel for `sm_100a`,
//! which is not tuned. [`GroupedGemm::gradient_b`] has the gradient of the experts' matrices.
//!
//! **Error.** Let S be the sum of the magnitudes of the K products of an element. The sum is off by at most 4 · (K + 32) · 2⁻²⁴ · S, as in
//! [`gemm`](mod@crate::gemm), and `bf16` results are rounded to nearest even. With equal operands, all launches give the same bits.
//!
//! On an H200 with groups of N = 64 and results in `bf16`, in TFLOP/s: 62 and 126 (8 and 16 groups of 512 rows, K = 512), 195 (8 of 1024 rows, K =
//! 1024), 264 and 220 (4 and 8 of 2048 rows, K = 2048), 1.6 to 3.5 times cuBLAS's grouped product. Other chips have not been measured.
//!
//! ```no_run
//! use ptx_kernels::grouped_gemm::GroupedGemm;
//! use ptx_launch::prelude::*;
//! # fn main() -> ptx_launch::Result<()> {
//! let device = Device::cuda(0)?;
//! let (m, n, k, groups) = (384, 256, 512, 3);
//! let (a, b) = (device.zeros::<bf16>(m * k)?, device.zeros::<bf16>(groups * k * n)?);
//! let mut c = device.zeros::<bf16>(m * n)?;
//! let offsets = device.upload(&[0u32, 100, 100, 384])?;          // 100 rows, none, and 284
//! let grouped = GroupedGemm::new(&device)?;
//! grouped.run(&device, a.tile([m, k])?, b.tile([groups, k, n])?, &offsets, c.tile_mut([m, n])?)?;
//! # Ok(())
//! # }
//! ```

pub mod blackwell;
pub mod gradient;
pub mod hopper;

use gradient::kernels::grouped_gradient;
use half::bf16;
use hopper::kernels::{Config, grouped_gemm};
use ptx_launch::prelude::{AsStream, Device, Kernel, ReadSlice};
use ptx_launch::{
    Config as Launch, Error, ErrorKind, IntoTensor, IntoTensorMut, Result, TensorElement, TensorMut, TensorRef, Tile,
};
use std::fmt;
use std::marker::PhantomData;

/// Bands of tiles have this many tiles along M, so that the rows of A in work at a time stay in the L2 cache.
const BAND: u32 = 8;

/// The blocks that the CPU device is given.
const CPU_BLOCKS: u32 = 8;

/// Grouped products on one device.
#[derive(Clone, Copy, Debug)]
pub struct GroupedGemm {
    /// Blocks that run at the same time, in clusters of one and of two.
    num_blocks: [u32; 2],
}

/// An element type of C: `bf16` or `f32`.
pub trait Output: TensorElement {
    #[doc(hidden)]
    fn kernels() -> &'static [(grouped_gemm::Instance, &'static Kernel)];
    #[doc(hidden)]
    fn launch(
        variant: Variant<Self>,
        stream: impl AsStream,
        arguments: Arguments<'_, Self>,
        offsets: impl ReadSlice<u32>,
    ) -> Result<()>
    where
        Self: Sized;
}

/// The arguments of a launch.
#[doc(hidden)]
#[derive(Debug)]
pub struct Arguments<'a, O> {
    a: TensorRef<'a, bf16, 2>,
    b: TensorRef<'a, bf16, 3>,
    c: TensorMut<'a, O, 2>,
    num_blocks: u32,
}

/// An instance of the kernel, for tuning: [`GroupedGemm::run`] picks one by shape and layout.
#[derive(Debug)]
pub struct Variant<O> {
    instance: grouped_gemm::Instance,
    config: Config,
    output: PhantomData<fn(O)>,
}

macro_rules! outputs {
    ($($o:ty)*) => { $(
        impl Output for $o {
            fn kernels() -> &'static [(grouped_gemm::Instance, &'static Kernel)] {
                <grouped_gemm::Types<bf16, $o> as grouped_gemm::Exists>::kernels()
            }

            fn launch(
                variant: Variant<$o>,
                stream: impl AsStream,
                arguments: Arguments<'_, $o>,
                offsets: impl ReadSlice<u32>,
            ) -> Result<()> {
                let Arguments { a, b, mut c, num_blocks } = arguments;
                let ([m, k], [groups, _, n]) = (a.shape(), b.shape());
                let a = Tile::of(&a, [m, k])?;
                let b = Tile::of(&b, if variant.b_k_major() { [groups, n, k] } else { [groups, k, n] })?;
                let c = Tile::of_mut(&mut c, [m, n])?;
                grouped_gemm::launch::<bf16, $o>(variant.instance, stream, a, b, c, offsets, num_blocks, BAND)
            }
        }
    )* };
}
outputs! { bf16 f32 }

/// All variants with results of this type.
pub fn variants<O: Output>() -> impl Iterator<Item = Variant<O>> {
    let config = |of| grouped_gemm::INSTANCES.iter().find(|(known, _)| *known == of).map(|(_, config)| *config);
    O::kernels().iter().filter_map(move |(instance, _)| {
        Some(Variant { instance: *instance, config: config(*instance)?, output: PhantomData })
    })
}

impl GroupedGemm {
    /// Asks the device how many blocks it runs at the same time.
    ///
    /// # Errors
    /// Those of loading the kernel.
    pub fn new(device: &Device) -> Result<GroupedGemm> {
        let mut num_blocks = [CPU_BLOCKS; 2];
        for (blocks, cluster) in num_blocks.iter_mut().zip([1, 2]).filter(|_| device.is_cuda()) {
            let of_cluster = bf16::kernels().iter().zip(variants::<bf16>());
            let Some(((_, kernel), _)) = of_cluster.into_iter().find(|(_, v)| v.config.cluster[1] == cluster) else {
                continue;
            };
            let config = Launch::grid(cluster).block(384).cluster(cluster).shared(kernel.dynamic_shared());
            let occupancy = kernel.occupancy(device, &config)?;
            *blocks = occupancy.clusters.map_or(occupancy.multiprocessors, |clusters| clusters * cluster);
        }
        Ok(GroupedGemm { num_blocks })
    }

    /// C (M × N): row r is row r of A (M × K) times the matrix of its group in B (G × K × N). Group g has rows `offsets[g]` to
    /// `offsets[g + 1]`; rows of no group are not written. Where offsets decrease, a group begins behind the rows of all groups before it,
    /// and offsets behind the end of A count as its end, so that no row of C is written twice. A and C are dense row by row; the matrices of B are dense
    /// row by row, or column by column (K-major, the faster layout). K and N are multiples of 8.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if the shapes do not fit or tensors have other strides, [`ErrorKind::Unsupported`] for other K and N and for
    /// K-major matrices with results in `f32`; those of a launch.
    pub fn run<'a, O: Output>(
        &self,
        stream: impl AsStream,
        a: impl IntoTensor<'a, bf16, 2>,
        b: impl IntoTensor<'a, bf16, 3>,
        offsets: impl ReadSlice<u32>,
        c: impl IntoTensorMut<'a, O, 2>,
    ) -> Result<()> {
        let (a, b, c) = (a.into(), b.into(), c.into());
        let [groups, k, n] = b.shape();
        check_shapes([("a", a.shape()), ("c", c.shape())], ("b", b.shape()), offsets.len())?;
        if c.shape().contains(&0) || groups == 0 {
            return Ok(());
        }
        let k_major = match b.strides() {
            [matrix, 1, column] if (groups == 1 || matrix == k * n) && column == k => true,
            [matrix, row, 1] if (groups == 1 || matrix == k * n) && row == n => false,
            strides => return Err(gaps("b", &b.shape(), &strides)),
        };
        // The fewest columns behind the end of C; then the widest tile.
        let cost = |variant: &Variant<O>| {
            let width = variant.width();
            ((n as u32).next_multiple_of(width), u32::MAX - width)
        };
        let Some(variant) = variants::<O>().filter(|v| v.b_k_major() == k_major).min_by_key(cost) else {
            return Err(not_possible(
                "C in `f32` and matrices of B that are dense along K",
                "C in `bf16`, or B dense along N",
            ));
        };
        self.run_variant(stream, variant, (a, b, c), offsets)
    }

    /// The gradient of B, from A and the gradient of C: the matrix of a group (K × N) is that of its rows of A, transposed, times its rows of
    /// dC (M × N, of at least one row). A matrix of a group without rows, or whose offsets decrease, is zero. All are dense row by row. The gradient of A is [`run`](Self::run) with dC and the transposed
    /// matrices of B.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn gradient_b<'a>(
        &self,
        stream: impl AsStream,
        a: impl IntoTensor<'a, bf16, 2>,
        dc: impl IntoTensor<'a, bf16, 2>,
        offsets: impl ReadSlice<u32>,
        db: impl IntoTensorMut<'a, bf16, 3>,
    ) -> Result<()> {
        let (a, dc, mut db) = (a.into(), dc.into(), db.into());
        let ([m, k], [groups, _, n]) = (a.shape(), db.shape());
        check_shapes([("a", a.shape()), ("dc", dc.shape())], ("db", db.shape()), offsets.len())?;
        if db.shape().contains(&0) {
            return Ok(());
        }
        if m == 0 {
            return Err(not_possible(
                "a gradient from matrices without rows",
                "one row or more; rows of no group change nothing",
            ));
        }
        for (name, matrix) in [("a", &a), ("dc", &dc)] {
            if !matrix.is_contiguous() {
                return Err(gaps(name, &matrix.shape(), &matrix.strides()));
            }
        }
        if !db.is_contiguous() {
            return Err(gaps("db", &db.shape(), &db.strides()));
        }
        // The fewest columns behind the end; then the widest tile.
        let cost = |config: &gradient::kernels::Config| {
            let width = config.tile[1];
            ((n as u32).next_multiple_of(width), u32::MAX - width)
        };
        let Some((instance, _)) = grouped_gradient::INSTANCES.iter().min_by_key(|(_, config)| cost(config)) else {
            return Err(not_possible("a gradient", "none: there is no kernel"));
        };
        let (a, dc, db) = (Tile::of(&a, [m, k])?, Tile::of(&dc, [m, n])?, Tile::of_mut(&mut db, [groups * k, n])?);
        let schedule = gradient::kernels::Schedule { num_blocks: self.num_blocks[0], band: BAND };
        grouped_gradient::launch::<bf16>(*instance, stream, a, dc, db, offsets, groups as u32, schedule)
    }

    /// The same as [`run`](Self::run) by one variant.
    ///
    /// # Errors
    /// As [`GroupedGemm::run`].
    pub fn run_variant<O: Output>(
        &self,
        stream: impl AsStream,
        variant: Variant<O>,
        (a, b, c): (TensorRef<'_, bf16, 2>, TensorRef<'_, bf16, 3>, TensorMut<'_, O, 2>),
        offsets: impl ReadSlice<u32>,
    ) -> Result<()> {
        if !a.is_contiguous() {
            return Err(gaps("a", &a.shape(), &a.strides()));
        }
        if !c.is_contiguous() {
            return Err(gaps("c", &c.shape(), &c.strides()));
        }
        let cluster = variant.config.cluster[1];
        let num_blocks = self.num_blocks[if cluster == 1 { 0 } else { 1 }] / cluster * cluster;
        O::launch(variant, stream, Arguments { a, b, c, num_blocks }, offsets)
    }
}

impl<O> Variant<O> {
    /// True if it reads matrices of B that are dense along K.
    pub fn b_k_major(&self) -> bool {
        self.config.majors[1] == 0
    }

    /// Rows and columns of a block's tile.
    pub fn block(&self) -> [u32; 2] {
        self.config.tile
    }

    /// Columns of a cluster's tile.
    fn width(&self) -> u32 {
        self.config.tile[1] * self.config.cluster[1]
    }
}

impl<O> fmt::Display for Variant<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.instance)
    }
}

impl<O> Clone for Variant<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Variant<O> {}

/// The element type's and TMA's unit: a row is a multiple of 16 bytes.
const UNIT: usize = 8;

/// Checks the shapes of A, of C, and of the groups' matrices.
fn check_shapes([a, c]: [(&str, [usize; 2]); 2], b: (&str, [usize; 3]), offsets: usize) -> Result<()> {
    let ([m, k], [rows, n], [groups, of_k, of_n]) = (a.1, c.1, b.1);
    if [rows, of_k, of_n] != [m, k, n] {
        let asked = format!("`{}` has the shape {:?}, `{}` {:?}, and `{}` {:?}", a.0, a.1, b.0, b.1, c.0, c.1);
        let possible = format!("`{}` of [m, k], `{}` of [groups, k, n], `{}` of [m, n]", a.0, b.0, c.0);
        return Err(Error::new(ErrorKind::Condition, asked).possible(possible));
    }
    if offsets <= groups {
        let asked = format!("`offsets` has {offsets} elements, for {groups} groups");
        return Err(Error::new(ErrorKind::Condition, asked)
            .possible(format!("{} elements: the first row of each group, and the end of the last one", groups + 1)));
    }
    let is_whole = k > 0 && k.is_multiple_of(UNIT) && n.is_multiple_of(UNIT);
    if is_whole { Ok(()) } else { Err(not_possible(&format!("K = {k} and N = {n}"), "multiples of 8")) }
}

#[cold]
fn gaps(name: &str, shape: &[usize], strides: &[usize]) -> Error {
    Error::new(ErrorKind::Condition, format!("`{name}` of shape {shape:?} has strides of {strides:?} elements"))
        .possible("matrices that are dense row by row; those of `b` also column by column")
        .help("copy it into a buffer of its own first")
}

#[cold]
fn not_possible(asked: &str, possible: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("a grouped product has {asked}")).possible(possible)
}

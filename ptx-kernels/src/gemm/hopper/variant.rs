//! The instances of the kernels: their launch, and the memory that they need.

use super::gemm::kernels::{self as tiles, gemm};
use super::scratch::Scratch;
use super::split_k::kernels::{self as split, split_k};
use super::stream_k::kernels::{self as stream, stream_k};
use half::{bf16, f16};
use ptx_launch::prelude::{AsStream, Kernel, e4m3};
use ptx_launch::{Result, TensorElement, TensorMut, TensorRef, Tile};
use std::fmt;
use std::marker::PhantomData;

/// The layouts of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Rows of A lie along K; otherwise its columns lie along M.
    pub a_k_major: bool,
    /// Columns of B lie along K; otherwise its rows lie along N.
    pub b_k_major: bool,
}

/// The order in which clusters take tiles: bands of `band` tiles along M, and in a band blocks of `run` tiles along N, row by row
/// (`scheduler::blocked`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Tiles of a band.
    pub band: u32,
    /// Tiles of a run.
    pub run: u32,
}

/// The division of tiles among clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Whole tiles.
    Whole,
    /// The tiles of the last round are shared.
    LastRound,
    /// K of every tile, among this number of clusters.
    Depth(u32),
}

/// An instance of a kernel.
#[derive(Debug)]
pub struct Variant<T> {
    instance: Instance,
    kernel: &'static Kernel,
    elements: PhantomData<fn(T)>,
}

/// A kernel's instance, and its constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instance {
    Gemm(gemm::Instance, tiles::Config),
    StreamK(stream_k::Instance, stream::Config),
    SplitK(split_k::Instance, split::Config),
}

/// An element type of A and B: `bf16`, `f16`, `e4m3`.
pub trait Operand: TensorElement {
    /// The element type of C.
    type Output: TensorElement;
    #[doc(hidden)]
    fn gemm() -> &'static [(gemm::Instance, &'static Kernel)];
    #[doc(hidden)]
    fn stream_k() -> &'static [(stream_k::Instance, &'static Kernel)];
    #[doc(hidden)]
    fn split_k() -> &'static [(split_k::Instance, &'static Kernel)];
    #[doc(hidden)]
    fn launch(
        variant: Variant<Self>,
        stream: impl AsStream,
        arguments: Arguments<'_, Self, Self::Output>,
    ) -> Result<()>
    where
        Self: Sized;
}

/// The arguments of a launch.
#[doc(hidden)]
#[derive(Debug)]
pub struct Arguments<'a, T, O> {
    a: TensorRef<'a, T, 2>,
    b: TensorRef<'a, T, 2>,
    c: TensorMut<'a, O, 2>,
    num_blocks: u32,
    order: Order,
    scratch: &'a mut Scratch,
}

macro_rules! operands {
    ($($t:ty => $o:ty;)*) => { $(
        impl Operand for $t {
            type Output = $o;
            fn gemm() -> &'static [(gemm::Instance, &'static Kernel)] {
                <gemm::Types<$t, $o> as gemm::Exists>::kernels()
            }
            fn stream_k() -> &'static [(stream_k::Instance, &'static Kernel)] {
                <stream_k::Types<$t, $o> as stream_k::Exists>::kernels()
            }
            fn split_k() -> &'static [(split_k::Instance, &'static Kernel)] {
                <split_k::Types<$t, $o> as split_k::Exists>::kernels()
            }

            fn launch(variant: Variant<$t>, on: impl AsStream, arguments: Arguments<'_, $t, $o>) -> Result<()> {
                let layout = variant.layout();
                let Arguments { a, b, mut c, num_blocks, order: Order { band, run }, scratch } = arguments;
                let ([m, k], [_, n]) = (a.shape(), b.shape());
                let a = Tile::of(&a, if layout.a_k_major { [m, k] } else { [k, m] })?;
                let b = Tile::of(&b, if layout.b_k_major { [n, k] } else { [k, n] })?;
                let c = Tile::of_mut(&mut c, [m, n])?;
                let Scratch { partials, flags, gpcs, claims, .. } = scratch;
                match variant.instance {
                    Instance::Gemm(i, _) => {
                        gemm::launch::<$t, $o>(i, on, a, b, c, &*gpcs, claims, k as u32, num_blocks, band, run)
                    }
                    Instance::StreamK(i, _) => {
                        stream_k::launch::<$t, $o>(i, on, a, b, c, partials, flags, &*gpcs, claims, num_blocks, band, run)
                    }
                    Instance::SplitK(i, _) => {
                        split_k::launch::<$t, $o>(i, on, a, b, c, partials, flags, num_blocks)
                    }
                }
            }
        }
    )* };
}
operands! {
    bf16 => bf16;
    f16 => f16;
    e4m3 => bf16;
}

/// All variants for an element type.
pub fn variants<T: Operand>() -> impl Iterator<Item = Variant<T>> {
    let whole = T::gemm().iter().filter_map(|(instance, kernel)| {
        let (_, config) = gemm::INSTANCES.iter().find(|(known, _)| known == instance)?;
        Some(Variant::new(Instance::Gemm(*instance, *config), kernel))
    });
    let last = T::stream_k().iter().filter_map(|(instance, kernel)| {
        let (_, config) = stream_k::INSTANCES.iter().find(|(known, _)| known == instance)?;
        Some(Variant::new(Instance::StreamK(*instance, *config), kernel))
    });
    let depth = T::split_k().iter().filter_map(|(instance, kernel)| {
        let (_, config) = split_k::INSTANCES.iter().find(|(known, _)| known == instance)?;
        Some(Variant::new(Instance::SplitK(*instance, *config), kernel))
    });
    whole.chain(last).chain(depth)
}

impl Layout {
    /// A is M × K and B is N × K, row by row.
    pub const K_MAJOR: Layout = Layout { a_k_major: true, b_k_major: true };

    /// The layouts of A (M × K), B (K × N) and C (M × N) as the kernels read and write them; `None` if they cannot. Operands are dense,
    /// and C is dense row by row; their rows (of transposed operands: columns) are multiples of 16 bytes, and none is empty.
    pub fn of<T, O>(a: &TensorRef<'_, T, 2>, b: &TensorRef<'_, T, 2>, c: &TensorMut<'_, O, 2>) -> Option<Layout> {
        let (a_k_major, b_n_major) = (is_row_major(a)?, is_row_major(b)?);
        let c = TensorView { shape: c.shape(), strides: c.strides(), address: c.address(), bytes: size_of::<O>() };
        (c.is_dense(true) && c.shape[0] > 0).then_some(Layout { a_k_major, b_k_major: !b_n_major })
    }
}

/// Shape and memory of a matrix.
struct TensorView {
    shape: [usize; 2],
    strides: [usize; 2],
    address: u64,
    bytes: usize,
}

impl TensorView {
    /// Returns true if the matrix is dense row by row, or else column by column, as TMA reads it.
    fn is_dense(&self, row_major: bool) -> bool {
        let (outer, inner) = if row_major { (0, 1) } else { (1, 0) };
        let row = self.shape[inner] * self.bytes;
        self.strides[inner] == 1
            && (self.strides[outer] == self.shape[inner] || self.shape[outer] == 1)
            && row > 0
            && row.is_multiple_of(16)
            && self.address.is_multiple_of(16)
    }
}

/// True if the matrix is dense row by row, false if it is dense column by column.
fn is_row_major<T>(matrix: &TensorRef<'_, T, 2>) -> Option<bool> {
    let (shape, strides) = (matrix.shape(), matrix.strides());
    let matrix = TensorView { shape, strides, address: matrix.address(), bytes: size_of::<T>() };
    [true, false].into_iter().find(|row_major| matrix.is_dense(*row_major) && !shape.contains(&0))
}

impl<T> Variant<T> {
    fn new(instance: Instance, kernel: &'static Kernel) -> Self {
        Variant { instance, kernel, elements: PhantomData }
    }

    /// Its kernel.
    pub fn kernel(&self) -> &'static Kernel {
        self.kernel
    }

    /// The layouts that it reads.
    pub fn layout(&self) -> Layout {
        match self.instance {
            Instance::Gemm(_, config) => Layout { a_k_major: config.major_a == 0, b_k_major: config.major_b == 0 },
            Instance::StreamK(_, config) => Layout { a_k_major: true, b_k_major: config.major_b == 0 },
            Instance::SplitK(..) => Layout::K_MAJOR,
        }
    }

    /// Rows and columns of a block's tile.
    pub fn block(&self) -> [u32; 2] {
        match self.instance {
            Instance::Gemm(_, config) => [config.block_m, config.block_n],
            Instance::StreamK(_, config) => [config.block_m, config.block_n],
            Instance::SplitK(_, config) => [128, config.block_n()],
        }
    }

    /// Blocks of a cluster, along M and along N.
    pub fn cluster(&self) -> [u32; 2] {
        match self.instance {
            Instance::Gemm(_, config) => [config.cluster_m, config.cluster_n],
            Instance::StreamK(_, config) => [config.cluster_m, config.cluster_n],
            Instance::SplitK(_, config) => [config.cluster_m, 1],
        }
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        match self.instance {
            Instance::Gemm(_, config) => 128 * (config.consumers() + 1),
            _ => 384,
        }
    }

    /// True if clusters share tiles.
    pub fn shares_tiles(&self) -> bool {
        self.sharing() != Sharing::Whole
    }

    pub(super) fn sharing(&self) -> Sharing {
        match self.instance {
            Instance::Gemm(..) => Sharing::Whole,
            Instance::StreamK(..) => Sharing::LastRound,
            Instance::SplitK(_, config) => Sharing::Depth(config.splits),
        }
    }

    /// Blocks that work on a tile together.
    pub(super) fn team(&self) -> u32 {
        let blocks: u32 = self.cluster().iter().product();
        if let Sharing::Depth(splits) = self.sharing() { blocks * splits } else { blocks }
    }

    /// Partial sums per block.
    pub(super) fn partial_sums(&self) -> usize {
        if self.shares_tiles() { self.block().iter().product::<u32>() as usize } else { 0 }
    }

    /// Flags per block.
    pub(super) fn flags(&self) -> usize {
        match self.sharing() {
            Sharing::Whole => 0,
            Sharing::LastRound => 2,
            Sharing::Depth(splits) => 2 * splits as usize,
        }
    }

    /// C = A · B. `a` is M × K and `b` is K × N, in the variant's [`layout`](Variant::layout); `c` is M × N, row by row. [`Layout::of`]
    /// checks all that.
    ///
    /// # Errors
    /// Those of a launch.
    pub fn launch(
        self,
        stream: impl AsStream,
        (a, b, c): (TensorRef<'_, T, 2>, TensorRef<'_, T, 2>, TensorMut<'_, T::Output, 2>),
        order: Order,
        scratch: &mut Scratch,
    ) -> Result<()>
    where
        T: Operand,
    {
        let num_blocks = scratch.num_blocks() / self.team() * self.team();
        T::launch(self, stream, Arguments { a, b, c, num_blocks, order, scratch })
    }
}

impl<T> fmt::Display for Variant<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.instance {
            Instance::Gemm(instance, _) => write!(f, "{instance:?}"),
            Instance::StreamK(instance, _) => write!(f, "{instance:?} stream-K"),
            Instance::SplitK(instance, _) => write!(f, "{instance:?}"),
        }
    }
}

impl<T> Clone for Variant<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Variant<T> {}

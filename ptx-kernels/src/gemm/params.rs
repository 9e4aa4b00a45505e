//! Parameters of the portable kernels, as the host fills them in: strides and steps count bytes, extents elements.

/// Codes and bits, as the kernels have them.
pub(crate) use super::reduce::kernels::{
    A_ALONG_K, A_BATCHES, A_WIDE, ACCUMULATE, B_ALONG_K, B_BATCHES, B_WIDE, BF16, BIAS_COLUMNS, BIAS_ROWS, BIAS_WIDE,
    C_WIDE, E4M3, E5M2, F16, F32, GELU, GELU_TANH, I8, I32, RELU, RESIDUAL, RESIDUAL_WIDE, SCALE_COLUMNS, SCALE_ROWS,
    SILU, TF32,
};
use ptx_launch::{Config, KernelParam};

/// The number of codes of element types.
pub(crate) const KINDS: usize = 8;

/// The flags that are set.
pub(crate) fn all_of(flags: &[(u32, bool)]) -> u32 {
    flags.iter().filter(|(_, is_set)| *is_set).fold(0, |all, (flag, _)| all | flag)
}

/// An operand: a matrix of lines (rows of A, columns of B) by K, of each batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KernelParam)]
#[repr(C)]
pub(crate) struct Source {
    pub(crate) at: u64,
    pub(crate) line: u64,
    pub(crate) k: u64,
    pub(crate) batch: u64,
}

/// A matrix of rows by columns, of each batch: C, and the residual.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub(crate) struct Matrix {
    pub(crate) at: u64,
    pub(crate) row: u64,
    pub(crate) column: u64,
    pub(crate) batch: u64,
}

/// A vector, with the bytes from element to element; zero repeats one.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub(crate) struct Vector {
    pub(crate) at: u64,
    pub(crate) step: u64,
}

/// The work between the sums and C: what [`Gemm`](super::Gemm) describes.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub(crate) struct Epilogue {
    pub(crate) scale_rows: Vector,
    pub(crate) scale_columns: Vector,
    pub(crate) bias_rows: Vector,
    pub(crate) bias_columns: Vector,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
    /// The parts that there are, and how wide accesses may be.
    pub(crate) flags: u32,
    /// Element type of C, of the residual and of the biases.
    pub(crate) kind: u32,
}

/// All that is written, or read on the way there.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub(crate) struct Output {
    pub(crate) c: Matrix,
    pub(crate) residual: Matrix,
    pub(crate) epilogue: Epilogue,
}

/// Extents, and their division among blocks.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub(crate) struct Problem {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    /// Layouts of A and B.
    pub(crate) flags: u32,
    /// Tiles along M and N.
    pub(crate) tiles_m: u32,
    pub(crate) tiles_n: u32,
    /// Parts of K, and the extent of each but the last one.
    pub(crate) splits: u32,
    pub(crate) k_split: u32,
    /// Sums of the parts: `splits` times `batches` matrices of M rows, `pitch` apart, a multiple of four.
    /// The kernels of `wgmma` have an order of their own.
    pub(crate) partial: u64,
    /// Counters of arrivals for these kernels: zeros between launches.
    pub(crate) counters: u64,
    pub(crate) batches: u32,
    pub(crate) pitch: u32,
}

/// The tiles of all clusters, as kernels with the static scheduler take them.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub(crate) struct TileGrid {
    /// Tiles of clusters along the rows and the columns, and of all batches.
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    pub(crate) tiles: u32,
    /// 2³¹ / rows, rounded up, by which tiles are divided; zero if they are too many for that.
    pub(crate) per_row: u32,
    pub(crate) k: u32,
    /// 1 if there is a matrix for each batch.
    pub(crate) a_batches: u32,
    pub(crate) b_batches: u32,
}

/// Extents, and the order of tiles: in bands of `band` tiles along M, and in runs of `run` along N.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub(crate) struct Raster {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) band: u32,
    pub(crate) run: u32,
}

impl Problem {
    /// A block for each tile, part of K, and batch.
    pub(crate) fn grid(&self) -> Config {
        Config::grid((u64::from(self.tiles_m) * u64::from(self.tiles_n), self.splits, self.batches))
    }
}

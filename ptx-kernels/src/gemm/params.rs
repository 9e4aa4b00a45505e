//! Parameters of the portable kernels, as the host fills them in: strides and steps count bytes, extents elements.

/// Codes and bits, as the kernels have them.
pub(crate) use super::reduce::kernels::{
    A_ALONG_K, A_BATCHES, A_WIDE, ACCUMULATE, B_ALONG_K, B_BATCHES, B_WIDE, BF16, BIAS_COLUMNS, BIAS_ROWS, BIAS_WIDE,
    C_WIDE, E4M3, E5M2, F16, F32, GELU, GELU_TANH, I8, I32, RELU, RESIDUAL, RESIDUAL_WIDE, SCALE_COLUMNS, SCALE_ROWS,
    SILU, TF32,
};
use ptx_launch::{KernelParam, ptx_contract};

/// The most runs of four neighbors in a matrix of sums: kernels count them in 32 bits, in whole blocks.
pub(crate) const RUNS: u64 = (1 << 32) - 1024;

/// The most rows or columns of whole tiles, and the most elements along K of whole parts: kernels count a few more in 32 bits.
const EXTENT: u64 = (1 << 32) - 65536;

/// The most matrices of sums: one for each part of K and batch.
const MATRICES: u64 = 1 << 27;

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
    /// Clusters of the launch, at most one for each tile.
    pub(crate) clusters: u32,
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

/// The conditions of launches on C and the epilogue, and the bytes of their operands. `words` are the codes of the element types that have four bytes; elements of all
/// others have two.
#[ptx_contract]
impl Output {
    /// Bytes of an element of C, of the residual and of the biases.
    fn size(&self, words: [u32; 2]) -> u64 {
        if self.has_words(words) { 4 } else { 2 }
    }

    /// Returns true if the flag `bit` is set.
    fn has(&self, bit: u32) -> bool {
        self.epilogue.flags / bit % 2 == 1
    }

    /// Bytes of C.
    pub(crate) fn c_bytes(&self, p: Problem, words: [u32; 2]) -> u64 {
        Self::reach(self.c.batch, p.batches)
            + Self::reach(self.c.row, p.m)
            + Self::reach(self.c.column, p.n)
            + self.size(words)
    }

    /// Returns true if the elements of C are apart: its columns, rows and batches lie in each other in some order.
    pub(crate) fn parts_c(&self, p: Problem, words: [u32; 2]) -> bool {
        let size = self.size(words);
        let (batch, row, column) = (self.c.batch, self.c.row, self.c.column);
        Self::nests(size, [column, row, batch], [p.n, p.m])
            || Self::nests(size, [row, column, batch], [p.m, p.n])
            || Self::nests(size, [column, batch, row], [p.n, p.batches])
            || Self::nests(size, [batch, column, row], [p.batches, p.n])
            || Self::nests(size, [row, batch, column], [p.m, p.batches])
            || Self::nests(size, [batch, row, column], [p.batches, p.m])
    }

    /// Returns true if so many elements of `size` bytes lie in each `middle`, and so many of these in each `outer`.
    fn nests(size: u64, [inner, middle, outer]: [u64; 3], [elements, groups]: [u32; 2]) -> bool {
        inner >= size && middle >= inner * u64::from(elements) && outer >= middle * u64::from(groups)
    }

    /// Bytes of the residual. Without the flag `bit` there is none: all its strides are zero.
    pub(crate) fn residual_bytes(&self, p: Problem, words: [u32; 2], bit: u32) -> u64 {
        Self::reach(self.residual.batch, p.batches)
            + Self::reach(self.residual.row, p.m)
            + Self::reach(self.residual.column, p.n)
            + if self.has(bit) { self.size(words) } else { 0 }
    }

    /// The same for the scales of rows, of columns, and for biases.
    pub(crate) fn scale_rows_bytes(&self, p: Problem, bit: u32) -> u64 {
        Self::reach(self.epilogue.scale_rows.step, p.m) + if self.has(bit) { 4 } else { 0 }
    }

    pub(crate) fn scale_columns_bytes(&self, p: Problem, bit: u32) -> u64 {
        Self::reach(self.epilogue.scale_columns.step, p.n) + if self.has(bit) { 4 } else { 0 }
    }

    pub(crate) fn bias_rows_bytes(&self, p: Problem, words: [u32; 2], bit: u32) -> u64 {
        Self::reach(self.epilogue.bias_rows.step, p.m) + if self.has(bit) { self.size(words) } else { 0 }
    }

    pub(crate) fn bias_columns_bytes(&self, p: Problem, words: [u32; 2], bit: u32) -> u64 {
        Self::reach(self.epilogue.bias_columns.step, p.n) + if self.has(bit) { self.size(words) } else { 0 }
    }

    /// Bytes from the first to the last of so many elements.
    fn reach(step: u64, count: u32) -> u64 {
        step * u64::from(count - 1)
    }

    /// Returns true if all elements are aligned: those of C, of the residual and of the biases at multiples of their size, and scales; and runs of four of
    /// them whose flags in `wide` are set.
    pub(crate) fn is_aligned(&self, words: [u32; 2], [c, residual, bias]: [u32; 3]) -> bool {
        self.is_all_of(2)
            && (!self.has_words(words) || self.is_all_of(4))
            && self.c_is_wide(words, c)
            && self.residual_is_wide(words, residual)
            && self.bias_is_wide(words, bias)
    }

    /// Returns true if the elements of C have four bytes.
    fn has_words(&self, [word, other]: [u32; 2]) -> bool {
        self.epilogue.kind == word || self.epilogue.kind == other
    }

    /// Returns true if elements are at multiples of `size` bytes.
    fn is_all_of(&self, size: u64) -> bool {
        let elements = [
            [self.c.at, self.c.row, self.c.column, self.c.batch],
            [self.residual.at, self.residual.row, self.residual.column, self.residual.batch],
            [
                self.epilogue.bias_rows.at,
                self.epilogue.bias_rows.step,
                self.epilogue.bias_columns.at,
                self.epilogue.bias_columns.step,
            ],
        ];
        let scales = [
            self.epilogue.scale_rows.at,
            self.epilogue.scale_rows.step,
            self.epilogue.scale_columns.at,
            self.epilogue.scale_columns.step,
        ];
        elements.iter().all(|part| part.iter().all(|bytes| bytes.is_multiple_of(size)))
            && scales.iter().all(|bytes| bytes.is_multiple_of(4))
    }

    /// Returns true if four neighbors of a row of C are one aligned access if the flag `bit` is set.
    fn c_is_wide(&self, words: [u32; 2], bit: u32) -> bool {
        !self.has(bit) || self.is_run([self.c.at, self.c.row, self.c.batch], self.c.column, words)
    }

    /// The same for the residual.
    fn residual_is_wide(&self, words: [u32; 2], bit: u32) -> bool {
        !self.has(bit)
            || self.is_run([self.residual.at, self.residual.row, self.residual.batch], self.residual.column, words)
    }

    /// The same for the biases of columns.
    fn bias_is_wide(&self, words: [u32; 2], bit: u32) -> bool {
        let bias = [self.epilogue.bias_columns.at, 0, 0];
        !self.has(bit) || self.is_run(bias, self.epilogue.bias_columns.step, words)
    }

    /// Returns true if neighbors have no bytes between them, and four of them are aligned.
    fn is_run(&self, aligned: [u64; 3], step: u64, words: [u32; 2]) -> bool {
        self.has_words(words) && step == 4 && aligned.iter().all(|bytes| bytes.is_multiple_of(16))
            || !self.has_words(words) && step == 2 && aligned.iter().all(|bytes| bytes.is_multiple_of(8))
    }
}

#[ptx_contract]
impl Raster {
    /// Returns true if there are tiles, and kernels count them in 32 bits.
    pub(crate) fn is_counted(&self) -> bool {
        [self.m, self.n].iter().all(|extent| *extent >= 1 && *extent <= 1 << 30)
            && self.k <= 1 << 30
            && [self.band, self.run].iter().all(|extent| *extent >= 1 && *extent <= 512)
    }
}

#[ptx_contract]
impl Source {
    /// Bytes of an operand of so many lines, with elements of `size` bytes.
    pub(crate) fn bytes(&self, lines: u32, p: Problem, size: u64) -> u64 {
        Self::reach(self.batch, p.batches) + Self::reach(self.line, lines) + Self::reach(self.k, p.k) + size
    }

    /// Bytes from the first to the last of so many elements.
    fn reach(step: u64, count: u32) -> u64 {
        step * u64::from(count - 1)
    }

    /// Returns true if all elements are at multiples of `size` bytes.
    pub(crate) fn is_aligned(&self, size: u64) -> bool {
        [self.at, self.line, self.k, self.batch].iter().all(|bytes| bytes.is_multiple_of(size))
    }

    /// Returns true if runs along K, or else where `major` is 1 along the lines, have no bytes between elements, and are aligned: by 16 bytes, or else by 4.
    pub(crate) fn has_runs(&self, major: u32, size: u64, is_wide: bool) -> bool {
        let (dense, outer) = if major == 0 { (self.k, self.line) } else { (self.line, self.k) };
        let parts = [self.at, outer, self.batch];
        dense == size
            && parts.iter().all(|bytes| bytes.is_multiple_of(4))
            && (!is_wide || parts.iter().all(|bytes| bytes.is_multiple_of(16)))
    }
}

#[ptx_contract]
impl Problem {
    /// Four neighbors of all rows of a batch.
    fn runs(&self) -> u64 {
        u64::from(self.m) * u64::from(self.pitch / 4)
    }

    /// The grid of the kernel that adds up the sums of parts of K, with so many threads in a block.
    pub(crate) fn grid_of_runs(&self, threads: u32) -> (u64, u32, u32) {
        (self.runs().div_ceil(u64::from(threads)), 1, self.batches)
    }

    /// Returns true if the flag `bit` is set.
    pub(crate) fn has(&self, bit: u32) -> bool {
        self.flags / bit % 2 == 1
    }

    /// The grid of the kernels without clusters: a block for each tile, part of K, and batch.
    pub(crate) fn grid_of_tiles(&self) -> (u64, u32, u32) {
        (u64::from(self.tiles_m) * u64::from(self.tiles_n), self.splits, self.batches)
    }

    /// Returns true if these tiles are all of C, and parts of K all of it, in numbers of 32 bits.
    pub(crate) fn has_tiles(&self, tile: [u32; 2]) -> bool {
        self.m >= 1
            && self.n >= 1
            && self.batches >= 1
            && self.splits >= 1
            && self.partial.is_multiple_of(16)
            && self.tiles_m == self.m.div_ceil(tile[0])
            && self.tiles_n == self.n.div_ceil(tile[1])
            && u64::from(self.tiles_m) * u64::from(tile[0]) <= EXTENT
            && u64::from(self.tiles_n) * u64::from(tile[1]) <= EXTENT
            && u64::from(self.splits) * u64::from(self.k_split) <= EXTENT
            && u64::from(self.splits) * u64::from(self.k_split) >= u64::from(self.k)
            && (self.splits == 1 || self.has_partials())
            && u64::from(self.splits) * u64::from(self.batches) <= MATRICES
            && self.partial_bytes() <= 1 << 46
    }

    /// Bytes of the sums of all parts of K.
    fn partial_bytes(&self) -> u64 {
        u64::from(self.splits) * u64::from(self.batches) * u64::from(self.m) * u64::from(self.pitch) * 4
    }

    /// The same where there are several parts.
    pub(crate) fn stored_bytes(&self) -> u64 {
        if self.splits > 1 { self.partial_bytes() } else { 0 }
    }

    /// Runs of the sums of all parts of K.
    pub(crate) fn partial_runs(&self) -> u64 {
        self.runs() * u64::from(self.batches) * u64::from(self.splits)
    }

    /// Returns true if there are sums of parts, which the kernels count in 32 bits.
    pub(crate) fn has_partials(&self) -> bool {
        self.m >= 1
            && self.n >= 1
            && self.batches >= 1
            && self.splits >= 1
            && self.pitch.is_multiple_of(4)
            && self.pitch >= self.n
            && self.runs() <= RUNS
    }
}

//! One product as kernels see it: addresses, strides in bytes, and an epilogue. C's columns are dense wherever one of its
//! dimensions is, by computing Cᵀ = Bᵀ · Aᵀ where its rows are.

use super::params::{self, Epilogue, Matrix, Output, Source};
use super::plan::BATCHES;
use std::mem::swap;

/// A product, checked and bound to a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// Element type of A and B, or `TF32`.
    pub(crate) kind: u32,
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) batches: usize,
    pub(crate) a: Source,
    pub(crate) b: Source,
    pub(crate) c: Matrix,
    pub(crate) residual: Matrix,
    pub(crate) epilogue: Epilogue,
    /// The epilogue changes sums.
    pub(crate) has_options: bool,
    /// The order of sums depends on the shape and the device alone.
    pub(crate) deterministic: bool,
}

/// Rows of the lowest tile.
const FEW: u32 = 16;

/// Bytes of an element of this type.
#[inline]
pub(crate) const fn size(kind: u32) -> u64 {
    match kind {
        params::F16 | params::BF16 => 2,
        params::E4M3 | params::E5M2 | params::I8 => 1,
        _ => 4,
    }
}

/// The runs of an operand's elements in one direction.
#[derive(Clone, Copy)]
pub(super) struct Runs {
    /// The bytes by which all runs are aligned, 16 or 4; zero without such runs.
    pub(super) bytes: u32,
    /// TMA can read them: strides are multiples of 16 bytes, and no map has one of zero or of 2⁴⁰.
    pub(super) has_map: bool,
}

impl Source {
    /// The runs of elements along K, or else along the lines, of `lines` lines by `k` elements of `size` bytes.
    #[inline(always)]
    pub(super) fn runs(&self, along_k: bool, lines: u32, k: u32, size: u64, batches: usize) -> Runs {
        let (dense, extent, outer, others) =
            if along_k { (self.k, k, self.line, lines) } else { (self.line, lines, self.k, k) };
        let outer = if others > 1 { outer } else { 0 };
        let batch = if batches > 1 { self.batch } else { 0 };
        let is_dense = extent <= 1 || dense == size;
        let aligned = |bytes: u64| is_dense && (self.at | outer | batch).is_multiple_of(bytes);
        let (wide, narrow) = (aligned(16), aligned(4));
        let has_map = wide && (outer | batch) < 1 << 40 && (others <= 1 || outer > 0);
        Runs { bytes: if wide { 16 } else { u32::from(narrow) * 4 }, has_map }
    }

    /// The same operand with the strides of runs along K, or else along the lines, also in dimensions of one element, where any others are as good.
    pub(super) fn in_runs(self, along_k: bool, [lines, k]: [u32; 2], size: u64, batches: usize) -> Source {
        let (outer, others) = if along_k { (self.line, lines) } else { (self.k, k) };
        let outer = if others > 1 { outer } else { 0 };
        let (line, k) = if along_k { (outer, size) } else { (size, outer) };
        Source { line, k, batch: if batches > 1 { self.batch } else { 0 }, ..self }
    }

    /// True if neighbors along K are at least as near in memory as neighbors along the lines.
    #[inline]
    pub(crate) fn is_along_k(&self, lines: u32, k: u32) -> bool {
        lines <= 1 || (k > 1 && self.k <= self.line)
    }
}

impl Matrix {
    /// The matrix as lines along its rows.
    pub(crate) fn rows(&self) -> Source {
        Source { at: self.at, line: self.row, k: self.column, batch: self.batch }
    }

    /// True if four neighboring columns are one aligned access.
    #[inline]
    pub(crate) fn is_wide(&self, size: u64) -> bool {
        self.column == size && (self.at | self.row | self.batch).is_multiple_of(4 * size)
    }
}

impl Product {
    /// The same product in the direction in which it is computed: Cᵀ instead where the rows of C are dense and its columns are not; and rather few
    /// rows than few columns, because tiles are wide rather than high. With the widths of its accesses.
    #[inline]
    pub(crate) fn oriented(mut self) -> Product {
        let size = size(self.epilogue.kind);
        if self.n <= 1 {
            (self.c.column, self.residual.column) = (size, size);
        }
        if self.c.column != size && self.c.row == size {
            self.transpose();
        }
        if self.n <= FEW && self.m > FEW {
            self.transpose();
        }
        self.mark_wide();
        self
    }

    /// Cᵀ = Bᵀ · Aᵀ.
    pub(crate) fn transposed(mut self) -> Product {
        self.transpose();
        self
    }

    fn transpose(&mut self) {
        swap(&mut self.a, &mut self.b);
        swap(&mut self.m, &mut self.n);
        swap(&mut self.c.row, &mut self.c.column);
        swap(&mut self.residual.row, &mut self.residual.column);
        let e = &mut self.epilogue;
        swap(&mut e.scale_rows, &mut e.scale_columns);
        swap(&mut e.bias_rows, &mut e.bias_columns);
        for (rows, columns) in [(params::SCALE_ROWS, params::SCALE_COLUMNS), (params::BIAS_ROWS, params::BIAS_COLUMNS)]
        {
            let (had_rows, had_columns) = (e.flags & rows != 0, e.flags & columns != 0);
            e.flags &= !(rows | columns);
            e.flags |= if had_rows { columns } else { 0 } | if had_columns { rows } else { 0 };
        }
    }

    /// True if sums are the result, in rows that TMA writes.
    #[inline]
    pub(crate) fn has_tma_result(&self) -> bool {
        let Product { m, n, batches, .. } = *self;
        !self.has_options && self.c.rows().runs(true, m, n, size(self.epilogue.kind), batches).has_map
    }

    fn mark_wide(&mut self) {
        let size = size(self.epilogue.kind);
        let e = &mut self.epilogue;
        let bias = e.bias_columns;
        let bias_is_wide = bias.step == size && bias.at.is_multiple_of(4 * size);
        let wide = [
            (params::C_WIDE, self.c.is_wide(size)),
            (params::RESIDUAL_WIDE, self.residual.is_wide(size)),
            (params::BIAS_WIDE, bias_is_wide),
        ];
        e.flags |= params::all_of(&wide);
    }
}

impl Product {
    /// Results and what is read on the way there, as kernels have them.
    pub(crate) fn output(&self) -> Output {
        Output { c: self.c_apart(), residual: self.residual, epilogue: self.epilogue }
    }

    /// C with the stride of a single row or batch as large as all that lies inside, so that no other one is in it: any number is as good there.
    fn c_apart(&self) -> Matrix {
        let size = size(self.epilogue.kind);
        let Matrix { at, row, column, batch } = self.c;
        let column = if self.n > 1 { column } else { size };
        let extents = [(column, self.n.into()), (row, self.m.into()), (batch, self.batches as u64)];
        let several = extents.iter().filter(|(_, extent)| *extent > 1);
        let most = several.map(|(stride, extent)| stride.saturating_mul(*extent)).fold(size, u64::max);
        // A multiple of the bytes of every access.
        let most = most.min(1 << 60).next_multiple_of(16);
        let row = if self.m > 1 { row } else { most };
        let batch = if self.batches > 1 { batch } else { most };
        Matrix { at, row, column, batch }
    }

    /// The batches of the first launch.
    pub(crate) fn first_batches(&self) -> Product {
        Product { batches: self.batches.min(BATCHES), ..*self }
    }

    /// Some of the batches.
    pub(crate) fn batch_range(&self, start: usize, batches: usize) -> Product {
        let start_of = |at: u64, stride: u64| at + stride * start as u64;
        let mut part = Product { batches, ..*self };
        part.a.at = start_of(self.a.at, self.a.batch);
        part.b.at = start_of(self.b.at, self.b.batch);
        part.c.at = start_of(self.c.at, self.c.batch);
        part.residual.at = start_of(self.residual.at, self.residual.batch);
        part
    }
}

/// Elements from row to row of the sums of a part of K, so that four neighbors are one access.
pub(crate) const fn pitch(n: u32) -> u32 {
    n.next_multiple_of(4)
}

/// The name of an element type.
pub(crate) const fn name(kind: u32) -> &'static str {
    match kind {
        params::F16 => "f16",
        params::BF16 => "bf16",
        params::E4M3 => "e4m3",
        params::E5M2 => "e5m2",
        params::I8 => "i8",
        params::TF32 => "tf32",
        params::I32 => "i32",
        _ => "f32",
    }
}

/// The element type of this name.
pub(crate) fn kind_of(word: &str) -> Option<u32> {
    (0..params::KINDS as u32).find(|kind| name(*kind) == word)
}

/// True if tensor cores take MN-major operands of this type: `ldmatrix` transposes units of 16 bits, and units of 32 bits are loaded alone.
#[inline]
pub(crate) const fn has_mn_major(kind: u32) -> bool {
    size(kind) > 1
}

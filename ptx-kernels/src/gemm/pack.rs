//! Copies of operands that the fast kernels cannot read as they lie: one launch for A and B.
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

use super::access::Packed;
use super::params::Source;
use super::problem::{self, Product};
use ptx_launch::{KernelParam, Result, StreamRef, ptx_contract};

/// An operand's matrix, and its copy. Strides count bytes.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub(crate) struct Transfer {
    /// The matrix: the last address in front of it that is a multiple of 16; from row to row, along a row, from batch to batch.
    from: u64,
    row: u64,
    element: u64,
    batch: u64,
    /// Bytes from `from` to the first element.
    skew: u64,
    to: u64,
    rows: u32,
    /// Elements of a row.
    extent: u32,
    /// Bytes from row to row of the copy.
    pitch: u32,
    batches: u32,
    /// Blocks of a batch; none for an operand that is not copied.
    blocks: u32,
    /// 1 if the elements of a row are neighbors in memory, 2 if those of a column are at least nearer than those of a row.
    layout: u32,
}

/// The conditions of launches, and the memory of the matrix and of its copy.
#[ptx_contract]
impl Transfer {
    /// The grid of the copies of two operands.
    pub(crate) fn grid(&self, b: Transfer) -> (u64, u32, u32) {
        let batches = if self.batches > b.batches { self.batches } else { b.batches };
        (u64::from(self.blocks) + u64::from(b.blocks), 1, batches)
    }

    /// Bytes of the matrix, with those in front of it.
    pub(crate) fn bytes(&self, size: u32) -> u64 {
        if self.blocks > 0 {
            self.skew
                + self.batch * u64::from(self.batches - 1)
                + self.row * u64::from(self.rows - 1)
                + self.element * u64::from(self.extent - 1)
                + u64::from(size)
        } else {
            0
        }
    }

    /// Bytes of the copy.
    pub(crate) fn copied_bytes(&self) -> u64 {
        u64::from(self.batches) * u64::from(self.rows) * u64::from(self.pitch)
    }

    /// Returns true if the blocks have all elements, which are aligned, in numbers of 32 bits: up to `most` rows, and bytes of one.
    pub(crate) fn is_divided(&self, size: u32, [dense, most]: [u32; 2], [band, span, tile]: [u32; 3]) -> bool {
        self.from.is_multiple_of(16)
            && self.to.is_multiple_of(16)
            && self.pitch.is_multiple_of(16)
            && self.skew < 16
            && self.skew.is_multiple_of(u64::from(size))
            && [self.row, self.element, self.batch].iter().all(|bytes| bytes.is_multiple_of(u64::from(size)))
            && self.rows >= 1
            && self.extent >= 1
            && self.batches >= 1
            && self.rows <= most
            && self.pitch <= most
            && self.extent * size <= self.pitch
            && u64::from(self.batches) * u64::from(self.rows) * u64::from(self.pitch) <= 1 << 46
            && if self.layout == dense {
                self.element == u64::from(size)
                    && u64::from(self.blocks)
                        <= u64::from(self.rows.div_ceil(band)) * u64::from((self.extent * size).div_ceil(span))
            } else {
                u64::from(self.blocks) <= u64::from(self.rows.div_ceil(tile)) * u64::from(self.extent.div_ceil(tile))
            }
    }
}

#[ptx_launch::ptx_module(arch("sm_75", "sm_90"), params(Transfer))]
#[allow(unreachable_pub, reason = "the module is private")]
pub mod kernels {
    use super::Transfer;

    /// Elements of the operands.
    #[derive(Clone, Copy, Debug)]
    pub struct Element {
        /// Bytes of an element.
        pub size: u32,
    }

    /// `Transfer::layout`.
    pub const DENSE: u32 = 1;
    pub const COLUMNS: u32 = 2;
    /// Rows and bytes of a dense block, and rows and columns of any other one.
    pub const BAND: u32 = 32;
    pub const SPAN: u32 = 512;
    pub const TILE: u32 = 64;
    /// The most rows of an operand, and bytes from row to row of its copy: kernels count a few more in 32 bits.
    pub const MOST: u32 = 0xfffff000;

    /// Copies A and B. The grid is (blocks of both, 1, batches).
    #[ptx_kernel(
        block = 256,
        grid = a.grid(b),
        pdl,
        instances = [bytes1 = (Element { size: 1 }), bytes2 = (Element { size: 2 }), bytes4 = (Element { size: 4 })],
        requires(
            a.is_divided(T.size, [DENSE, MOST], [BAND, SPAN, TILE]),
            b.is_divided(T.size, [DENSE, MOST], [BAND, SPAN, TILE])
        ),
        addresses(
            a.from = [u8; a.bytes(T.size)],
            b.from = [u8; b.bytes(T.size)],
            a.to = [u8; a.copied_bytes()],
            b.to = [u8; b.copied_bytes()]
        )
    )]
    pub fn pack<const T: Element>(a: Transfer, b: Transfer) {
        #[shared]
        let tile: [[b32; 65]; 64];

        grid::overlap();
        if ctaid.x < a.blocks {
            copy::<T>(&a, ctaid.x, tile);
        } else {
            copy::<T>(&b, ctaid.x - a.blocks, tile);
        }
    }

    /// A block's part of an operand.
    fn copy<const T: Element>(t: &Transfer, block: u32, tile: Shared<[[b32; 65]; 64]>) {
        cut!(block < t.blocks);
        if ctaid.z < t.batches {
            if t.layout == DENSE {
                copy_rows::<T>(t, block);
            } else {
                copy_tile::<T>(t, block, tile);
            }
        }
    }

    /// 32 rows by 512 bytes, 16 bytes at a time: each is shifted out of two aligned runs.
    fn copy_rows<const T: Element>(t: &Transfer, block: u32) {
        let bytes: u32 = t.extent * T.size;
        let across: u32 = (bytes - 1) / SPAN + 1;
        let band: u32 = block / across;
        let (first, start): (u32, u32) = (band * BAND + tid.x / 32 * 4, (block - band * across) * SPAN);
        cut!(first <= 0xfffff080 && start <= MOST && start % 512 == 0);
        let at: u32 = start + laneid * 16;
        let words: [[b32; 8]; 4];
        for i in 0..4 {
            let row: u32 = first + i;
            cut!(row <= 0xffffffff);
            let offset: u64 = offset_of(t, row);
            let skew: u32 = (offset as u32) & 15;
            let aligned: u64 = t.from + (offset + at as u64 - skew as u64);
            let whole: pred = (row < t.rows) & (at + reach_of(skew) <= bytes);
            let is_skew: pred = whole & (skew != 0);
            for j in 0..8 {
                ptx! { mov.b32 words[i][j], 0; }
            }
            ptx! {
                @whole ld.global.v4.b32 {words[i][0..4]}, [aligned];
                @is_skew ld.global.v4.b32 {words[i][4..8]}, [aligned + 16];
            }
        }
        for i in 0..4 {
            let row: u32 = first + i;
            if row < t.rows {
                let skew: u32 = (offset_of(t, row) as u32) & 15;
                let whole: pred = at + reach_of(skew) <= bytes;
                let to: u64 = copy_of(t, row) + at as u64;
                let run: [b32; 4] = shift_run(&mut words[i], skew);
                ptx! { @whole st.global.v4.b32 [to], {run[..]}; }
            }
        }
        if start + (SPAN + 32) > bytes {
            copy_ends::<T>(t, first, start, bytes);
        }
    }

    /// The bytes from the address of a run to the end of its aligned runs.
    fn reach_of(skew: u32) -> u32 {
        (skew == 0).select(16, 32 - skew)
    }

    /// The 16 bytes from byte `skew` on.
    fn shift_run(words: &mut [b32; 8], skew: u32) -> [b32; 4] {
        let (two, one, shift): (pred, pred, u32) = ((skew & 8) != 0, (skew & 4) != 0, (skew & 3) * 8);
        for j in 0..6 {
            words[j] = two.select(words[j + 2], words[j]);
        }
        for j in 0..5 {
            words[j] = one.select(words[j + 1], words[j]);
        }
        let run: [b32; 4];
        for j in 0..4 {
            ptx! { shf.r.wrap.b32 run[j], words[j], words[j + 1], shift; }
        }
        run
    }

    /// Copies what is left of a warp's four rows element by element, because an aligned run may reach beyond its row: fewer than 32 bytes of each, a
    /// word by each of eight lanes.
    fn copy_ends<const T: Element>(t: &Transfer, first: u32, start: u32, bytes: u32) {
        let row: u32 = first + laneid / 8;
        if row < t.rows {
            let (offset, to): (u64, u64) = (offset_of(t, row), copy_of(t, row));
            let (from, reach): (u64, u32) = (t.from + offset, reach_of((offset as u32) & 15));
            let runs: u32 = (bytes >= reach).select((bytes - reach) / 16 + 1, 0);
            let at: u32 = runs * 16 + laneid % 8 * 4;
            cut!(at % 4 == 0 && at <= 0xfffff080);
            let inside: pred = (at >= start) & (at < start + SPAN);
            let mut all: u32 = 0;
            for part in 0..4 / T.size {
                const BYTE: u32 = part * T.size;
                let there: pred = inside & (at + BYTE < bytes);
                all = all | (load::<T>(from + (at + BYTE) as u64, there) << (8 * BYTE));
            }
            let (there, place): (pred, u64) = (inside & (at < bytes), to + at as u64);
            ptx! { @there st.global.b32 [place], all; }
        }
    }

    /// The first byte of a row, counted from `from` on.
    fn offset_of(t: &Transfer, row: u32) -> u64 {
        t.skew + t.batch * (ctaid.z as u64) + t.row * (row as u64)
    }

    /// A row of the copy, which is there.
    fn copy_of(t: &Transfer, row: u32) -> u64 {
        let line: u64 = wide(ctaid.z) * t.rows + row as u64;
        cut!(line + 1 <= t.batches * t.rows);
        invariant!(line * t.pitch + t.pitch <= t.batches * t.rows * t.pitch);
        t.to + line * (t.pitch as u64)
    }

    /// 64 rows by 64 elements, through shared memory: read along the nearer neighbors, and written along the rows.
    fn copy_tile<const T: Element>(t: &Transfer, block: u32, tile: Shared<[[b32; 65]; 64]>) {
        let across: u32 = (t.extent + (TILE - 1)) / TILE;
        let band: u32 = block / across;
        let (row0, column0): (u32, u32) = (band * TILE, (block - band * across) * TILE);
        cut!(row0 <= MOST && column0 <= MOST);
        let columns: pred = t.layout == COLUMNS;
        let (slow, fast): (u32, u32) = (tid.x / 64, tid.x % 64);
        for i in 0..16 {
            let next: u32 = slow + i * 4;
            let (row, column): (u32, u32) = (columns.select(fast, next), columns.select(next, fast));
            let (below, across): (u32, u32) = (row0 + row, column0 + column);
            cut!(below <= 0xffffffff && across <= 0xffffffff);
            let there: pred = (below < t.rows) & (across < t.extent);
            let bits: u32 = load::<T>(t.from + offset_of(t, below) + t.element * (across as u64), there);
            let put = tile.at(row, column);
            ptx! { st.shared.b32 [put], bits; }
        }
        block::sync();
        for i in 0..16 {
            let (row, column): (u32, u32) = (slow + i * 4, fast);
            let get = tile.at(row, column);
            let (below, across): (u32, u32) = (row0 + row, column0 + column);
            cut!(across <= 0xffffffff);
            if below < t.rows {
                let at: u64 = copy_of(t, below) + wide(across) * T.size;
                let there: pred = across < t.extent;
                let bits: b32;
                ptx! { ld.shared.b32 bits, [get]; }
                if T.size == 4 {
                    ptx! { @there st.global.b32 [at], bits; }
                } else if T.size == 2 {
                    ptx! { @there st.global.u16 [at], bits; }
                } else {
                    ptx! { @there st.global.u8 [at], bits; }
                }
            }
        }
    }

    /// An element, or zero.
    fn load<const T: Element>(from: u64, there: pred) -> u32 {
        let bits: u32;
        if T.size == 4 {
            ptx! { mov.b32 bits, 0; @there ld.global.b32 bits, [from]; }
        } else if T.size == 2 {
            ptx! { mov.b32 bits, 0; @there ld.global.u16 bits, [from]; }
        } else {
            ptx! { mov.b32 bits, 0; @there ld.global.u8 bits, [from]; }
        }
        bits
    }
}

/// Copies the operands that have to be copied to `to`, and returns those to read, and the address of the end of the copies.
pub(super) fn pack(
    stream: StreamRef<'_>,
    product: &Product,
    packed: &[Option<Packed>; 2],
    to: u64,
) -> Result<([Source; 2], u64)> {
    let sources = [product.a, product.b];
    if packed.iter().all(Option::is_none) {
        return Ok((sources, to));
    }
    let size = problem::size(product.kind);
    let (mut to, mut read, mut transfers) = (to, sources, [Transfer::none(to, size); 2]);
    for (at, source) in sources.iter().enumerate() {
        if let Some(packed) = packed[at] {
            let transfer = Transfer::new(source, packed, product, to);
            if transfer.blocks > 0 {
                transfers[at] = transfer;
            }
            read[at] = packed.source(to, size);
            to += packed.bytes() as u64;
        }
    }
    let [a, b] = transfers;
    let instance = match size {
        1 => kernels::pack::Instance::bytes1,
        2 => kernels::pack::Instance::bytes2,
        _ => kernels::pack::Instance::bytes4,
    };
    // SAFETY: the operands are bound to the stream, and have elements for all rows and batches, in memory that begins at a multiple of 16; the
    // workspace has the bytes that the plan has counted.
    unsafe { kernels::pack::launch(instance, stream, a, b)? };
    Ok((read, to))
}

impl Transfer {
    /// An operand that is not copied: no block has its one element. The memory is that at `to`, which the copy of the other operand has.
    fn none(to: u64, size: u64) -> Transfer {
        Transfer {
            from: to,
            row: 0,
            element: size,
            batch: 0,
            skew: 0,
            to,
            rows: 1,
            extent: 1,
            pitch: 16,
            batches: 1,
            blocks: 0,
            layout: kernels::DENSE,
        }
    }

    fn new(source: &Source, packed: Packed, product: &Product, to: u64) -> Transfer {
        let size = problem::size(product.kind);
        let Packed { rows, extent, pitch, .. } = packed;
        let (row, element) = packed.strides(source);
        let is_dense = packed.is_dense(source, size);
        // In rows of one element, any stride is as good.
        let element = if is_dense { size } else { element };
        let (layout, down, across) = if is_dense {
            (kernels::DENSE, kernels::BAND, (u64::from(extent) * size).div_ceil(u64::from(kernels::SPAN)))
        } else {
            let layout = if rows > 1 && row < element { kernels::COLUMNS } else { 0 };
            (layout, kernels::TILE, u64::from(extent.div_ceil(kernels::TILE)))
        };
        let batches = packed.batches.min(product.batches) as u32;
        // A workspace has room for fewer than 2³¹ blocks.
        let blocks = (u64::from(rows.div_ceil(down)) * across) as u32;
        Transfer {
            from: source.at & !15,
            row,
            element,
            batch: source.batch,
            skew: source.at & 15,
            to,
            rows,
            extent,
            pitch,
            batches,
            blocks,
            layout,
        }
    }
}

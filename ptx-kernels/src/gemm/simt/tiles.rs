//! Kernels of whole tiles: a block makes a square tile, a thread 4 × 4 sums of each quarter of it. While a slice of K is multiplied from shared
//! memory, the next one is on its way to registers. Threads read along K or along the other dimension, whichever is dense in memory.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod tiles {
    /// The axes of a kernel of whole tiles.
    #[derive(Clone, Copy, Debug)]
    pub struct Square {
        /// Rows and columns of a block's tile.
        pub block: u32,
        /// Rows and columns of a thread, in groups of four.
        pub micro: u32,
    }

    impl Square {
        /// Square tiles.
        pub const fn new(block: u32, micro: u32) -> Square {
            Square { block, micro }
        }

        /// Threads of a block.
        pub const fn threads(&self) -> u32 {
            (self.block / self.micro) * (self.block / self.micro)
        }

        /// Elements of an operand's slice that a thread loads.
        pub const fn loads(&self) -> u32 {
            self.block * 16 / self.threads()
        }

        /// Words from K to K of a slice, and from row to row of the staged sums.
        pub const fn pitch(&self) -> u32 {
            self.block + 4
        }

        /// Rows, or columns, of a group of sums.
        pub const fn group(&self) -> u32 {
            self.block * 4 / self.micro
        }

        /// Words of shared memory: two slices, or the sums of a group of rows.
        pub const fn words(&self) -> u32 {
            64 * self.pitch()
        }
    }

    /// Extent of a slice along K.
    pub const DEPTH: u32 = 16;

    /// The sums of a block's tile, and the epilogue.
    fn multiply_tile<T, const C: Square>(
        a: &Source,
        b: &Source,
        out: &Output,
        p: &Problem,
        memory: Shared<[b32; C.words()]>,
    ) {
        let (tile_m, tile_n): (u32, u32) = scheduler::grouped(ctaid.x, p.tiles_m, p.tiles_n, 8);
        cut!(
            tile_m < p.tiles_m
                && tile_n < p.tiles_n
                && tile_m <= MOST_EXTENT / C.block
                && tile_n <= MOST_EXTENT / C.block
        );
        let (row0, column0): (u32, u32) = (tile_m * C.block, tile_n * C.block);
        invariant!(row0 < p.m && column0 < p.n);
        let mut k: u32 = ctaid.y * p.k_split;
        let k_end: u32 = (k + p.k_split).min(p.k);
        cut!(k <= MOST_EXTENT && k_end <= p.k && k_end <= MOST_EXTENT);
        let slices: u32 = memory;
        let slice_b: u32 = slices + DEPTH * C.pitch() * 4;
        let mut from_a = Loader::<C>::new(a, row0, p.m, k, has(p.flags, A_ALONG_K));
        let mut from_b = Loader::<C>::new(b, column0, p.n, k, has(p.flags, B_ALONG_K));

        let sums: [[b32; C.micro]; C.micro];
        clear(&mut sums);
        let (x, y): (u32, u32) = (tid.x % (C.block / C.micro), tid.x / (C.block / C.micro));
        let (at_a, at_b): (u32, u32) = (slices + y * 16, slice_b + x * 16);
        let (next_a, next_b): ([b32; C.loads()], [b32; C.loads()]);
        from_a.load::<T>(&mut next_a, k, k_end);
        from_b.load::<T>(&mut next_b, k, k_end);
        while k < k_end {
            block::sync();
            from_a.put(&next_a, slices);
            from_b.put(&next_b, slice_b);
            block::sync();
            k += DEPTH;
            from_a.load::<T>(&mut next_a, k, k_end);
            from_b.load::<T>(&mut next_b, k, k_end);
            multiply::<T, C>(&mut sums, at_a, at_b);
        }
        let place = Place { row: row0, column: column0, batch: ctaid.z, split: ctaid.y };
        write_tile::<T, C>(&sums, slices, &place, out, p);
    }

    /// This thread's part of an operand's slices: every so many-th element of a tile of lines by K.
    struct Loader<const C: Square> {
        from: [u64; C.loads()],
        inside: [pred; C.loads()],
        /// The first element's place along K, and its address in a slice; steps from element to element.
        depth: u32,
        depth_step: u32,
        to: u32,
        to_step: u32,
        /// Bytes from slice to slice.
        further: u64,
    }

    impl<const C: Square> Loader<C> {
        /// From line `line0` of `lines` on, and from `k` on. Neighboring threads are neighbors along K, or along the lines.
        fn new(source: &Source, line0: u32, lines: u32, k: u32, along_k: pred) -> Loader<C> {
            let line: u32 = along_k.select(tid.x / DEPTH, tid.x % C.block);
            let depth: u32 = along_k.select(tid.x % DEPTH, tid.x / C.block);
            let line_step: u32 = along_k.select(C.threads() / DEPTH, 0);
            let depth_step: u32 = along_k.select(0, C.threads() / C.block);
            let (from, inside): ([u64; C.loads()], [pred; C.loads()]);
            let mut at: u32 = line0 + line;
            let mut address: u64 = source.at + source.batch * (ctaid.z as u64) + source.line * (at as u64);
            address += source.k * ((k + depth) as u64);
            let step: u64 = source.line * (line_step as u64) + source.k * (depth_step as u64);
            for i in 0..C.loads() {
                from[i] = address;
                inside[i] = at < lines;
                address += step;
                at += line_step;
            }
            let to: u32 = (depth * C.pitch() + line) * 4;
            let to_step: u32 = (depth_step * C.pitch() + line_step) * 4;
            let further: u64 = source.k * 16;
            Loader::<C> { from, inside, depth, depth_step, to, to_step, further }
        }

        /// Loads this thread's elements of the slice at `k`, as `f32` or `i32`, zeros outside of the matrix, and goes on to the
        /// next slice.
        fn load<T>(&mut self, next: &mut [b32; C.loads()], k: u32, k_end: u32) {
            let mut depth: u32 = k + self.depth;
            for i in 0..C.loads() {
                let there: pred = self.inside[i] & (depth < k_end);
                next[i] = load_element::<T>(self.from[i], there);
                self.from[i] += self.further;
                depth += self.depth_step;
            }
        }

        /// Puts loaded elements into a slice.
        fn put(&self, next: &[b32; C.loads()], slice: u32) {
            let mut to: u32 = slice + self.to;
            for i in 0..C.loads() {
                ptx! { st.shared.b32 [to], next[i]; }
                to += self.to_step;
            }
        }
    }

    fn clear<const ROWS: u32, const COLUMNS: u32>(sums: &mut [[b32; COLUMNS]; ROWS]) {
        for i in 0..ROWS {
            for j in 0..COLUMNS {
                ptx! { mov.b32 sums[i][j], 0; }
            }
        }
    }

    /// An element as the `f32`, or of 8-bit integers the `i32`, that it is.
    fn load_element<T>(from: u64, there: pred) -> b32 {
        let bits: b32;
        if size_of::<T>() == 4 {
            ptx! { mov.b32 bits, 0; @there ld.global.b32 bits, [from]; }
        } else if size_of::<T>() == 2 {
            let h: b16;
            ptx! { mov.b16 h, 0; @there ld.global.b16 h, [from]; }
            if type_name::<T>() == "f16" {
                ptx! { cvt.f32.f16 bits, h; }
            } else {
                ptx! { mov.b32 bits, {0, h}; }
            }
        } else if type_name::<T>() == "i8" {
            ptx! { mov.b32 bits, 0; @there ld.global.s8 bits, [from]; }
        } else {
            ptx! { mov.b32 bits, 0; @there ld.global.u8 bits, [from]; }
            bits = from_float8::<T>(bits);
        }
        bits
    }

    /// The `f32` that 8 bits are: `e5m2` is the upper half of an `f16`; of `e4m3` the exponent and mantissa are moved to an `f16`'s,
    /// whose bias is 8 more, and all ones are no number.
    fn from_float8<T>(bits: b32) -> b32 {
        let (value, size): (b32, b32);
        let h: b16;
        if type_name::<T>() == "e5m2" {
            ptx! { shl.b32 size, bits, 8; cvt.u16.u32 h, size; cvt.f32.f16 value, h; }
        } else {
            let (sign, nan): (b32, pred);
            ptx! {
                and.b32 size, bits, 0x7f;
                setp.eq.u32 nan, size, 0x7f;
                shl.b32 size, size, 7;
                cvt.u16.u32 h, size;
                cvt.f32.f16 value, h;
                mul.rn.f32 value, value, 256.0;
                selp.b32 value, 0x7fffffff, value, nan;
                and.b32 sign, bits, 0x80;
                shl.b32 sign, sign, 24;
                or.b32 value, value, sign;
            }
        }
        value
    }

    /// Adds the products of a slice.
    fn multiply<T, const C: Square>(sums: &mut [[b32; C.micro]; C.micro], at_a: u32, at_b: u32) {
        for k in 0..DEPTH {
            let (a, b): ([b32; C.micro], [b32; C.micro]);
            for g in 0..C.micro / 4 {
                const OFFSET: u32 = (k * C.pitch() + g * C.group()) * 4;
                ptx! {
                    ld.shared.v4.b32 {a[4 * g..4 * g + 4]}, [at_a + OFFSET];
                    ld.shared.v4.b32 {b[4 * g..4 * g + 4]}, [at_b + OFFSET];
                }
            }
            for i in 0..C.micro {
                for j in 0..C.micro {
                    if type_name::<T>() == "i8" {
                        ptx! { mad.lo.s32 sums[i][j], a[i], b[j], sums[i][j]; }
                    } else {
                        ptx! { fma.rn.f32 sums[i][j], a[i], b[j], sums[i][j]; }
                    }
                }
            }
        }
    }

    /// Brings the sums to the epilogue, one group of rows after the other through shared memory.
    fn write_tile<T, const C: Square>(
        sums: &[[b32; C.micro]; C.micro],
        memory: u32,
        tile: &Place,
        out: &Output,
        p: &Problem,
    ) {
        const RUNS: u32 = C.block / 4;
        let (x, y): (u32, u32) = (tid.x % (C.block / C.micro), tid.x / (C.block / C.micro));
        let to: u32 = memory + (y * 4 * C.pitch() + x * 4) * 4;
        let mut group: u32 = 0;
        while group < C.micro / 4 {
            block::sync();
            for g in 0..C.micro / 4 {
                if group == g {
                    for i in 0..4 {
                        for h in 0..C.micro / 4 {
                            const OFFSET: u32 = (i * C.pitch() + h * C.group()) * 4;
                            ptx! { st.shared.v4.b32 [to + OFFSET], {sums[4 * g + i][4 * h..4 * h + 4]}; }
                        }
                    }
                }
            }
            block::sync();
            let mut run: u32 = tid.x;
            // Proofs take all turns at once.
            invariant!(run >= tid.x);
            while run < C.group() * RUNS {
                let (row, column): (u32, u32) = (run / RUNS, run % RUNS * 4);
                let four: [b32; 4];
                let from: u32 = memory + (row * C.pitch() + column) * 4;
                ptx! { ld.shared.v4.b32 {four[..]}, [from]; }
                let at = Place {
                    row: tile.row + group * C.group() + row,
                    column: tile.column + column,
                    batch: tile.batch,
                    split: tile.split,
                };
                finish_kind::<T>(&four, &at, out, p);
                run += C.threads();
            }
            group += 1;
        }
    }
}

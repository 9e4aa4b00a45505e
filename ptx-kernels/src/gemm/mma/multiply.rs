//! The main loop with `mma.sync`: `cp.async` fills a ring of slices, 64 bytes along K each, with zeros outside of the matrices. Rows in shared
//! memory are padded so that `ldmatrix` has no bank conflicts. 32 bytes along K are one step of `mma.sync`, whatever the type: 16 elements of 16
//! bits, 8 of `tf32`, 32 of 8 bits. The shapes of fragments are those of the PTX manual, section "Matrix fragments for mma".

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod multiply {
    /// The axes of a kernel.
    #[derive(Clone, Copy, Debug)]
    pub struct Config {
        /// Rows and columns of C in a block's tile.
        pub tile: [u32; 2],
        /// Rows and columns of C in a warp's part of the tile.
        pub warp: [u32; 2],
        /// Stages of the ring.
        pub stages: u32,
        /// For A and for B: 0 if K is the dimension of neighbors in memory, 1 if M or N is.
        pub majors: [u32; 2],
        /// Bytes of an element of A and B.
        pub size: u32,
    }

    /// Layouts of A and B.
    pub const KK: [u32; 2] = [0, 0];
    pub const KN: [u32; 2] = [0, 1];
    pub const MK: [u32; 2] = [1, 0];
    pub const MN: [u32; 2] = [1, 1];

    impl Config {
        /// A kernel for elements of `size` bytes.
        pub const fn new(tile: [u32; 2], warp: [u32; 2], stages: u32, majors: [u32; 2], size: u32) -> Config {
            Config { tile, warp, stages, majors, size }
        }

        /// Threads of a block.
        pub const fn threads(&self) -> u32 {
            self.tile[0] / self.warp[0] * (self.tile[1] / self.warp[1]) * 32
        }

        /// Elements of a slice along K.
        pub const fn depth(&self) -> u32 {
            64 / self.size
        }

        /// Rows of an operand's slice in shared memory, the bytes of each, and from row to row.
        pub const fn rows(&self, lines: u32, mn: u32) -> u32 {
            if mn == 1 { self.depth() } else { lines }
        }

        pub const fn row(&self, lines: u32, mn: u32) -> u32 {
            if mn == 1 { lines * self.size } else { 64 }
        }

        pub const fn pitch(&self, lines: u32, mn: u32) -> u32 {
            self.row(lines, mn) + if mn == 1 && self.size == 4 { 32 } else { 16 }
        }

        /// Bytes of A's slice, and of a stage.
        pub const fn slice_a(&self) -> u32 {
            self.rows(self.tile[0], self.majors[0]) * self.pitch(self.tile[0], self.majors[0])
        }

        pub const fn stage(&self) -> u32 {
            self.slice_a() + self.rows(self.tile[1], self.majors[1]) * self.pitch(self.tile[1], self.majors[1])
        }

        /// Words from row to row of the staged sums.
        pub const fn sums_pitch(&self) -> u32 {
            self.tile[1] + 8
        }

        /// Bytes of shared memory: the ring, or the sums.
        pub const fn bytes(&self) -> u32 {
            let (ring, sums) = (self.stages * self.stage(), self.tile[0] * self.sums_pitch() * 4);
            if ring > sums { ring } else { sums }
        }
    }

    /// The sums of a block's tile, and the epilogue; `memory` is the ring.
    fn multiply_block<T, const C: Config>(a: &Source, b: &Source, out: &Output, p: &Problem, ring: Shared<u8>) {
        const RUN: u32 = 16 / C.size;
        let (tile_m, tile_n): (u32, u32) = scheduler::grouped(ctaid.x, p.tiles_m, p.tiles_n, 8);
        cut!(
            tile_m < p.tiles_m
                && tile_n < p.tiles_n
                && tile_m <= MOST_EXTENT / C.tile[0]
                && tile_n <= MOST_EXTENT / C.tile[1]
        );
        let (row0, column0): (u32, u32) = (tile_m * C.tile[0], tile_n * C.tile[1]);
        invariant!(row0 < p.m && column0 < p.n);
        let mut k: u32 = ctaid.y * p.k_split;
        let k_end: u32 = (k + p.k_split).min(p.k);
        cut!(k % RUN == 0 && k <= MOST_EXTENT && k_end <= p.k && k_end <= MOST_EXTENT);
        let mut from_a = Copier::<{ C.tile[0] }, { C.majors[0] }, C>::new(a, row0, p.m, k, p.flags, A_WIDE);
        let mut from_b = Copier::<{ C.tile[1] }, { C.majors[1] }, C>::new(b, column0, p.n, k, p.flags, B_WIDE);
        let memory: u32 = ring;
        for stage in 0..C.stages - 1 {
            fetch::<C>(&mut from_a, &mut from_b, memory + stage * C.stage(), k, k_end);
            k += C.depth();
        }

        let sums: [[[b32; 4]; C.warp[1] / 8]; C.warp[0] / 16];
        for i in 0..C.warp[0] / 16 {
            for j in 0..C.warp[1] / 8 {
                for at in 0..4 {
                    ptx! { mov.b32 sums[i][j][at], 0; }
                }
            }
        }
        let (read_a, read_b): (u32, u32) = (offset_a::<C>(), offset_b::<C>() + C.slice_a());
        let (mut read, mut write): (u32, u32) = (0, (C.stages - 1) * C.stage());
        // Slices are on their way for so many turns.
        let k_last: u32 = k_end + (C.stages - 1) * C.depth();
        while k < k_last {
            cp_async::wait::<{ C.stages - 2 }>();
            block::sync();
            fetch::<C>(&mut from_a, &mut from_b, memory + write, k, k_end);
            multiply::<T, C>(&mut sums, memory + read + read_a, memory + read + read_b);
            read = next::<C>(read);
            write = next::<C>(write);
            k += C.depth();
        }
        cp_async::wait_all();
        block::sync();
        stage_sums::<C>(&sums, memory);
        block::sync();
        let tile = Place { row: row0, column: column0, batch: ctaid.z, split: ctaid.y };
        write_tile::<T, C>(memory, &tile, out, p);
    }

    /// The next stage: `add`, `setp`, and under it `mov`.
    fn next<const C: Config>(stage: u32) -> u32 {
        let mut after: u32 = stage + C.stage();
        if after == C.stages * C.stage() {
            after = 0;
        }
        after
    }

    /// Begins to copy the slices at `k`, if there are any, and ends a group of copies.
    fn fetch<const C: Config>(
        from_a: &mut Copier<{ C.tile[0] }, { C.majors[0] }, C>,
        from_b: &mut Copier<{ C.tile[1] }, { C.majors[1] }, C>,
        stage: u32,
        k: u32,
        k_end: u32,
    ) {
        if k < k_end {
            let count: u32 = (k_end - k).min(C.depth());
            from_a.copy(stage, count);
            from_b.copy(stage + C.slice_a(), count);
        }
        from_a.from += from_a.further;
        from_b.from += from_b.further;
        cp_async::commit();
    }

    /// This thread's part of an operand's slices: in one row of every so many, `16` or `4` bytes.
    struct Copier<const LINES: u32, const MN: u32, const C: Config> {
        from: u64,
        /// Bytes to the next row of this thread, and to the next slice.
        step: u64,
        further: u64,
        /// The first row and the byte in it, and their address in a slice.
        row: u32,
        byte: u32,
        to: u32,
        /// Lines inside of the matrix.
        lines: u32,
        wide_runs: pred,
    }

    impl<const LINES: u32, const MN: u32, const C: Config> Copier<LINES, MN, C> {
        /// From line `line0` of `lines` on, and from `k` on; runs are of 16 bytes if the flag `bit` is set.
        fn new(source: &Source, line0: u32, lines: u32, k: u32, flags: u32, bit: u32) -> Copier<LINES, MN, C> {
            const RUNS: u32 = C.row(LINES, MN) / 16;
            let wide_runs: pred = has(flags, bit);
            let row: u32 = wide_runs.select(tid.x / RUNS, tid.x / (4 * RUNS));
            let byte: u32 = wide_runs.select(tid.x % RUNS * 16, tid.x % (4 * RUNS) * 4);
            cut!(
                row < C.threads() / RUNS
                    && byte < C.row(LINES, MN)
                    && byte % 4 == 0
                    && (flags / bit % 2 == 0 || byte % 16 == 0)
            );
            let rows: u32 = wide_runs.select(C.threads() / RUNS, C.threads() / (4 * RUNS));
            let mut from: u64 = source.at + source.batch * (ctaid.z as u64);
            from += source.line * (line0 as u64) + source.k * (k as u64) + byte as u64;
            let (outer, further): (u64, u64);
            if MN == 1 {
                outer = source.k;
                further = source.k * (C.depth() as u64);
            } else {
                outer = source.line;
                further = 64;
            }
            from += outer * (row as u64);
            let to: u32 = row * C.pitch(LINES, MN) + byte;
            let step: u64 = outer * (rows as u64);
            Copier::<LINES, MN, C> { from, step, further, row, byte, to, lines: (lines - line0).min(LINES), wide_runs }
        }

        /// Begins to copy a slice of `count` elements along K to `slice`.
        fn copy(&mut self, slice: u32, count: u32) {
            let (rows, limit): (u32, u32);
            if MN == 1 {
                rows = count;
                limit = self.lines * C.size;
            } else {
                rows = self.lines;
                limit = count * C.size;
            }
            let bytes_left: u32 = limit.max(self.byte) - self.byte;
            if self.wide_runs {
                copy_runs::<16, { C.rows(LINES, MN) }, { C.row(LINES, MN) }, { C.pitch(LINES, MN) }, C>(
                    self.from,
                    slice + self.to,
                    self.step,
                    self.row,
                    rows,
                    bytes_left,
                );
            } else {
                copy_runs::<4, { C.rows(LINES, MN) }, { C.row(LINES, MN) }, { C.pitch(LINES, MN) }, C>(
                    self.from,
                    slice + self.to,
                    self.step,
                    self.row,
                    rows,
                    bytes_left,
                );
            }
        }
    }

    /// Begins to copy runs of `BYTES`: of all `ROWS` rows of a slice those of this thread. Zeros after `rows` rows and
    /// `bytes_left` bytes.
    fn copy_runs<const BYTES: u32, const ROWS: u32, const ROW: u32, const PITCH: u32, const C: Config>(
        from: u64,
        to: u32,
        step: u64,
        row: u32,
        rows: u32,
        bytes_left: u32,
    ) {
        const EACH: u32 = C.threads() * BYTES / ROW;
        let bytes: u32 = bytes_left.min(BYTES);
        let mut at: u64 = from;
        for i in 0..ROWS.div_ceil(EACH) {
            let number: u32 = row + i * EACH;
            let inside: u32 = (number < rows).select(bytes, 0);
            let mine: pred = number < ROWS;
            if BYTES == 16 {
                ptx! { @mine cp.async.cg.shared.global [to + i * EACH * PITCH], [at], 16, inside; }
            } else {
                ptx! { @mine cp.async.ca.shared.global [to + i * EACH * PITCH], [at], 4, inside; }
            }
            at += step;
        }
    }

    /// The rows and columns of this thread's warp in the tile.
    fn warp_place<const C: Config>() -> (u32, u32) {
        const WARPS_M: u32 = C.tile[0] / C.warp[0];
        let warp: u32 = tid.x / 32;
        (warp % WARPS_M * C.warp[0], warp / WARPS_M * C.warp[1])
    }

    /// This lane's place in A's slice: a row that it names to `ldmatrix`, or its own element.
    fn offset_a<const C: Config>() -> u32 {
        const PITCH: u32 = C.pitch(C.tile[0], C.majors[0]);
        let (row, column): (u32, u32) = warp_place::<C>();
        let lane: u32 = laneid;
        let mut offset: u32 = column;
        if C.majors[0] == 0 {
            offset = (row + (lane & 15)) * PITCH + (lane >> 4) * 16;
        } else if C.size == 2 {
            offset = ((lane & 7) + (lane >> 4) * 8) * PITCH + (row + ((lane >> 3) & 1) * 8) * 2;
        } else {
            offset = (lane & 3) * PITCH + (row + (lane >> 2)) * 4;
        }
        offset
    }

    /// The same for B.
    fn offset_b<const C: Config>() -> u32 {
        const PITCH: u32 = C.pitch(C.tile[1], C.majors[1]);
        let (row, column): (u32, u32) = warp_place::<C>();
        let lane: u32 = laneid;
        let mut offset: u32 = row;
        if C.majors[1] == 0 {
            offset = (column + (lane & 7) + (lane >> 4) * 8) * PITCH + ((lane >> 3) & 1) * 16;
        } else if C.size == 2 {
            offset = ((lane & 7) + ((lane >> 3) & 1) * 8) * PITCH + (column + (lane >> 4) * 8) * 2;
        } else {
            offset = (lane & 3) * PITCH + (column + (lane >> 2)) * 4;
        }
        offset
    }

    /// Adds the products of a stage: two steps of 32 bytes along K.
    fn multiply<T, const C: Config>(sums: &mut [[[b32; 4]; C.warp[1] / 8]; C.warp[0] / 16], from_a: u32, from_b: u32) {
        const MMA: &str = shape::<T>();
        for step in 0..2 {
            let (a, b): ([[b32; 4]; C.warp[0] / 16], [[b32; 4]; C.warp[1] / 16]);
            for i in 0..C.warp[0] / 16 {
                load_a::<step, i, C>(&mut a[i], from_a);
            }
            for j in 0..C.warp[1] / 16 {
                load_b::<step, j, C>(&mut b[j], from_b);
            }
            for i in 0..C.warp[0] / 16 {
                for j in 0..C.warp[1] / 8 {
                    const HALF: u32 = 2 * (j % 2);
                    ptx! {
                        mma.sync.aligned.{MMA} {sums[i][j][..]}, {a[i][..]}, {b[j / 2][HALF], b[j / 2][HALF + 1]}, {sums[i][j][..]};
                    }
                }
            }
        }
    }

    /// 16 rows of A: `ldmatrix`, or where its units are too small four loads.
    fn load_a<const STEP: u32, const I: u32, const C: Config>(a: &mut [b32; 4], from: u32) {
        const PITCH: u32 = C.pitch(C.tile[0], C.majors[0]);
        if C.majors[0] == 0 {
            *a = matrix::load_x4(from + (I * 16 * PITCH + STEP * 32));
        } else if C.size == 2 {
            *a = matrix::load_x4_transposed(from + (STEP * 16 * PITCH + I * 32));
        } else {
            const AT: u32 = STEP * 8 * PITCH + I * 64;
            ptx! {
                ld.shared.b32 a[0], [from + AT];
                ld.shared.b32 a[1], [from + AT + 32];
                ld.shared.b32 a[2], [from + AT + 4 * PITCH];
                ld.shared.b32 a[3], [from + AT + 4 * PITCH + 32];
            }
        }
    }

    /// 16 columns of B: the first and the second eight of each step along K of eight columns, then of the others.
    fn load_b<const STEP: u32, const J: u32, const C: Config>(b: &mut [b32; 4], from: u32) {
        const PITCH: u32 = C.pitch(C.tile[1], C.majors[1]);
        if C.majors[1] == 0 {
            *b = matrix::load_x4(from + (J * 16 * PITCH + STEP * 32));
        } else if C.size == 2 {
            *b = matrix::load_x4_transposed(from + (STEP * 16 * PITCH + J * 32));
        } else {
            const AT: u32 = STEP * 8 * PITCH + J * 64;
            ptx! {
                ld.shared.b32 b[0], [from + AT];
                ld.shared.b32 b[1], [from + AT + 4 * PITCH];
                ld.shared.b32 b[2], [from + AT + 32];
                ld.shared.b32 b[3], [from + AT + 4 * PITCH + 32];
            }
        }
    }

    /// The shape and the types of `mma`.
    fn shape<T>() -> &str {
        match type_name::<T>() {
            "f16" => "m16n8k16.row.col.f32.f16.f16.f32",
            "bf16" => "m16n8k16.row.col.f32.bf16.bf16.f32",
            "f32" => "m16n8k8.row.col.f32.tf32.tf32.f32",
            "i8" => "m16n8k32.row.col.s32.s8.s8.s32",
            "e4m3" => "m16n8k32.row.col.f32.e4m3.e4m3.f32",
            _ => "m16n8k32.row.col.f32.e5m2.e5m2.f32",
        }
    }

    /// Stores a block's sums to shared memory, row by row.
    fn stage_sums<const C: Config>(sums: &[[[b32; 4]; C.warp[1] / 8]; C.warp[0] / 16], memory: u32) {
        let (row, column): (u32, u32) = warp_place::<C>();
        let lane: u32 = laneid;
        let to: u32 = memory + ((row + lane / 4) * C.sums_pitch() + column + lane % 4 * 2) * 4;
        for i in 0..C.warp[0] / 16 {
            for half in 0..2 {
                for j in 0..C.warp[1] / 8 {
                    const OFFSET: u32 = ((i * 16 + half * 8) * C.sums_pitch() + j * 8) * 4;
                    ptx! { st.shared.v2.b32 [to + OFFSET], {sums[i][j][2 * half], sums[i][j][2 * half + 1]}; }
                }
            }
        }
    }

    /// Brings the sums to the epilogue, four neighbors of a row each time.
    fn write_tile<T, const C: Config>(memory: u32, tile: &Place, out: &Output, p: &Problem) {
        const RUNS: u32 = C.tile[1] / 4;
        let mut run: u32 = tid.x;
        // Proofs take all turns at once.
        invariant!(run >= tid.x);
        while run < C.tile[0] * RUNS {
            let (row, column): (u32, u32) = (run / RUNS, run % RUNS * 4);
            let four: [b32; 4];
            let from: u32 = memory + (row * C.sums_pitch() + column) * 4;
            ptx! { ld.shared.v4.b32 {four[..]}, [from]; }
            let at = Place { row: tile.row + row, column: tile.column + column, batch: tile.batch, split: tile.split };
            if type_name::<T>() == "i8" {
                finish::<1>(&four, &at, out, p);
            } else {
                finish::<0>(&four, &at, out, p);
            }
            run += C.threads();
        }
    }
}

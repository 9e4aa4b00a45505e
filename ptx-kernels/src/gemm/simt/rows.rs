//! Kernels for few rows of C, as in decoding: no tiles, each element of B goes from memory to registers once.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod rows {
    /// The axes of a kernel for a few rows of C.
    #[derive(Clone, Copy, Debug)]
    pub struct Rows {
        /// 1 if neighboring threads read neighbors of B along K; else along its columns.
        pub along_k: u32,
        /// Threads of a block.
        pub threads: u32,
    }

    impl Rows {
        /// Threads that read along K.
        pub const fn along_k(threads: u32) -> Rows {
            Rows { along_k: 1, threads }
        }

        /// Threads that read along the columns of B.
        pub const fn along_n(threads: u32) -> Rows {
            Rows { along_k: 0, threads }
        }

        /// Columns of a thread.
        pub const fn columns(&self) -> u32 {
            if self.along_k == 1 { 4 } else { 1 }
        }

        /// Rows and columns of a block.
        pub const fn tile(&self) -> [u32; 2] {
            [4, if self.along_k == 1 { 4 } else { 32 }]
        }

        /// Steps along K whose elements are on their way at the same time.
        pub const fn ahead(&self) -> u32 {
            if self.along_k == 1 { 3 } else { 4 }
        }

        /// Words of shared memory: the sums of each warp.
        pub const fn words(&self) -> u32 {
            self.threads / 32 * (if self.along_k == 1 { 16 } else { 128 })
        }
    }

    /// The sums of a block, and the epilogue.
    fn multiply_rows<T, const C: Rows>(
        a: &Source,
        b: &Source,
        out: &Output,
        p: &Problem,
        memory: Shared<[b32; C.words()]>,
    ) {
        const STEP: u32 = if C.along_k == 1 { C.threads } else { C.threads / 32 };
        let place: Place = place_of_rows::<C>(p);
        let (lane, mut k): (u32, u32) =
            (if C.along_k == 1 { 0 } else { laneid }, if C.along_k == 1 { tid.x } else { tid.x / 32 });
        let column0: u32 = place.column + lane;
        k += place.split * p.k_split;
        let k_end: u32 = end_of_part(&place, p);
        let (mut from_a, mut from_b): (u64, u64) = (element_at(a, place.row, k), element_at(b, column0, k));
        let (step_a, step_b): (u64, u64) = (a.k * (STEP as u64), b.k * (STEP as u64));
        let sums: [[b32; C.columns()]; 4];
        clear(&mut sums);
        invariant!(k_end <= p.k);
        while k < k_end {
            let (rows, columns): ([[b32; 4]; C.ahead()], [[b32; C.columns()]; C.ahead()]);
            for step in 0..C.ahead() {
                let there: pred = k < k_end;
                invariant!(k >= k_end || k + 1 <= p.k);
                load_lines::<T>(&mut rows[step], from_a, a.line, place.row, p.m, there);
                load_lines::<T>(&mut columns[step], from_b, b.line, column0, p.n, there);
                k += STEP;
                from_a += step_a;
                from_b += step_b;
            }
            for step in 0..C.ahead() {
                add_products::<T, { C.columns() }>(&mut sums, &rows[step], &columns[step]);
            }
        }
        if C.along_k == 1 {
            add_lanes::<T, C>(&sums, memory, &place, out, p);
        } else {
            add_warps::<T, C>(&sums, memory, &place, out, p);
        }
    }

    /// The first element of a block. Tiles of the same columns are neighbors.
    fn place_of_rows<const C: Rows>(p: &Problem) -> Place {
        let tile_n: u32 = ctaid.x / p.tiles_m;
        let row: u32 = (ctaid.x - tile_n * p.tiles_m) * 4;
        let column: u32 = tile_n * (if C.along_k == 1 { 4 } else { 32 });
        Place { row, column, batch: ctaid.z, split: ctaid.y }
    }

    /// The address of an element of a line of an operand, in this block's batch.
    fn element_at(source: &Source, line: u32, k: u32) -> u64 {
        source.at + source.batch * (ctaid.z as u64) + source.line * (line as u64) + source.k * (k as u64)
    }

    /// The end of a part of K.
    fn end_of_part(place: &Place, p: &Problem) -> u32 {
        (place.split * p.k_split + p.k_split).min(p.k)
    }

    /// The elements of lines from `first` on, at `from` and `line` bytes apart, if they are `there`; zeros from line `end` on.
    fn load_lines<T, const N: u32>(elements: &mut [b32; N], from: u64, line: u64, first: u32, end: u32, there: pred) {
        let mut at: u64 = from;
        for i in 0..N {
            elements[i] = load_element::<T>(at, there & (first + i < end));
            at += line;
        }
    }

    /// Adds the products of four rows and some columns, of one element along K.
    fn add_products<T, const N: u32>(sums: &mut [[b32; N]; 4], row: &[b32; 4], column: &[b32; N]) {
        for i in 0..4 {
            for j in 0..N {
                if type_name::<T>() == "i8" {
                    ptx! { mad.lo.s32 sums[i][j], row[i], column[j], sums[i][j]; }
                } else {
                    ptx! { fma.rn.f32 sums[i][j], row[i], column[j], sums[i][j]; }
                }
            }
        }
    }

    /// `a` + `b`.
    fn add<T>(a: b32, b: b32) -> b32 {
        let sum: b32;
        if type_name::<T>() == "i8" {
            ptx! { add.s32 sum, a, b; }
        } else {
            ptx! { add.rn.f32 sum, a, b; }
        }
        sum
    }

    /// Adds up the sums of all threads: first within a warp, where each exchange halves the sums of a lane, then across warps.
    fn add_lanes<T, const C: Rows>(sums: &[[b32; 4]; 4], memory: u32, place: &Place, out: &Output, p: &Problem) {
        const WARPS: u32 = C.threads / 32;
        let left: [b32; 16];
        for i in 0..16 {
            ptx! { mov.b32 left[i], sums[i / 4][i % 4]; }
        }
        for step in 0..4 {
            const HALF: u32 = 8 >> step;
            const LANE: u32 = 16 >> step;
            let upper: pred = laneid & LANE != 0;
            for i in 0..HALF {
                let (kept, sent, got): (b32, b32, b32);
                ptx! {
                    selp.b32 kept, left[i + HALF], left[i], upper;
                    selp.b32 sent, left[i], left[i + HALF], upper;
                    shfl.sync.bfly.b32 got, sent, LANE, 31, 0xffffffff;
                }
                left[i] = add::<T>(kept, got);
            }
        }
        let other: b32;
        ptx! { shfl.sync.bfly.b32 other, left[0], 1, 31, 0xffffffff; }
        left[0] = add::<T>(left[0], other);
        let (warp, put): (u32, u32) = (tid.x / 32, memory + (tid.x / 2) * 4);
        // Both lanes of a pair have the same sum.
        let is_first: pred = laneid & 1 == 0;
        ptx! { @is_first st.shared.b32 [put], left[0]; }
        block::sync();
        if warp < 4 {
            let four: [b32; 4];
            for j in 0..4 {
                ptx! { mov.b32 four[j], 0; }
            }
            if laneid < WARPS {
                let get: u32 = memory + (laneid * 16 + warp * 4) * 4;
                ptx! { ld.shared.v4.b32 {four[..]}, [get]; }
            }
            for step in 0..5 {
                const LANE: u32 = 16 >> step;
                for j in 0..4 {
                    let got: b32;
                    ptx! { shfl.sync.bfly.b32 got, four[j], LANE, 31, 0xffffffff; }
                    four[j] = add::<T>(four[j], got);
                }
            }
            let at = Place { row: place.row + warp, column: place.column, batch: place.batch, split: place.split };
            if laneid == 0 {
                finish_kind::<T>(&four, &at, out, p);
            }
        }
    }

    /// Adds the sums of all warps up.
    fn add_warps<T, const C: Rows>(sums: &[[b32; 1]; 4], memory: u32, place: &Place, out: &Output, p: &Problem) {
        let put: u32 = memory + (tid.x / 32 * 128 + laneid) * 4;
        for i in 0..4 {
            ptx! { st.shared.b32 [put + 128 * i], sums[i][0]; }
        }
        block::sync();
        if tid.x < 32 {
            let (row, column): (u32, u32) = (tid.x / 8, tid.x % 8 * 4);
            let mut get: u32 = memory + (row * 32 + column) * 4;
            let four: [b32; 4];
            ptx! { ld.shared.v4.b32 {four[..]}, [get]; }
            for warp in 1..C.threads / 32 {
                let more: [b32; 4];
                ptx! { ld.shared.v4.b32 {more[..]}, [get + 512 * warp]; }
                for j in 0..4 {
                    four[j] = add::<T>(four[j], more[j]);
                }
            }
            let at =
                Place { row: place.row + row, column: place.column + column, batch: place.batch, split: place.split };
            finish_kind::<T>(&four, &at, out, p);
        }
    }

    fn finish_kind<T>(four: &[b32; 4], at: &Place, out: &Output, p: &Problem) {
        if type_name::<T>() == "i8" {
            finish::<1>(four, at, out, p);
        } else {
            finish::<0>(four, at, out, p);
        }
    }
}

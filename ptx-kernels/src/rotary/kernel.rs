//! The rotation of pairs of elements: a thread has two accesses of each of two heads, which have the same angles. One family for every chip:
//! from `sm_90` on grids overlap (`griddepcontrol`).
#![allow(unreachable_pub, reason = "a struct that the host shares says `pub`")]

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch("sm_75", "sm_90"))]
pub(super) mod rotations {
    /// Few, because a block waits for its position and its angles one after the other, and other blocks load meanwhile.
    const THREADS: u32 = 64;
    /// Heads of a thread.
    const HEADS: u32 = 2;

    /// The instance: pairs of neighbors or of halves, and elements per access.
    #[derive(Clone, Copy)]
    pub struct Config {
        /// 1 for pairs of neighbors.
        pub interleaved: u32,
        /// Elements per access.
        pub each: u32,
    }

    impl Config {
        /// Cosines that a thread reads at once, up to 16 bytes: every row of a table begins at a multiple of them.
        pub(crate) const fn angles(&self) -> u32 {
            if self.each > 4 { 4 } else { self.each }
        }
    }

    /// `N` cosines or sines of consecutive pairs: `ld.global.nc` of up to 16 bytes.
    fn read_table<const N: u32>(from: Global<f32>) -> [f32; N] {
        let values: [f32; N];
        if N == 1 {
            ptx! { ld.global.nc.f32 values[0], [from]; }
        } else if N == 2 {
            ptx! { ld.global.nc.v2.f32 {values[..]}, [from]; }
        } else {
            for i in 0..N / 4 {
                ptx! { ld.global.nc.v4.f32 {values[4 * i..4 * i + 4]}, [from + 16 * i]; }
            }
        }
        values
    }

    /// The cosines or sines of a thread's pairs, from a row of a table. Its two accesses begin at `pair` and `half + pair` of the head: they hold
    /// both elements of the same pairs, or, with neighbors, each its own pairs.
    fn read_angles<const C: Config>(row: Global<f32>, pair: u32, half: u32) -> [f32; C.each] {
        if C.interleaved == 0 || C.each == 1 {
            read_table::<{ C.each }>(row.at(pair))
        } else {
            let low: [f32; C.each / 2] = read_table::<{ C.each / 2 }>(row.at(pair / 2));
            let high: [f32; C.each / 2] = read_table::<{ C.each / 2 }>(row.at((half + pair) / 2));
            let both: [f32; C.each];
            for i in 0..C.each / 2 {
                both[i] = low[i];
                both[C.each / 2 + i] = high[i];
            }
            both
        }
    }

    /// A pair of elements, rotated.
    fn rotate_pair(x: f32, y: f32, cosine: f32, sine: f32) -> (f32, f32) {
        (x * cosine - y * sine, y * cosine + x * sine)
    }

    /// The pairs of two accesses of a head, rotated.
    fn rotate_head<const C: Config>(
        a: [f32; C.each],
        b: [f32; C.each],
        cosines: [f32; C.each],
        sines: [f32; C.each],
    ) -> ([f32; C.each], [f32; C.each]) {
        const EACH: u32 = C.each;
        let (first, second): ([f32; EACH], [f32; EACH]);
        for i in 0..EACH {
            const K: u32 = 2 * i % EACH;
            if C.interleaved == 0 || EACH == 1 {
                (first[i], second[i]) = rotate_pair(a[i], b[i], cosines[i], sines[i]);
            } else if 2 * i < EACH {
                (first[K], first[K + 1]) = rotate_pair(a[K], a[K + 1], cosines[i], sines[i]);
            } else {
                (second[K], second[K + 1]) = rotate_pair(b[K], b[K + 1], cosines[i], sines[i]);
            }
        }
        (first, second)
    }

    /// The heads, the tables of cosines and sines, the position of each token, and the rotated heads.
    struct Tensors<T, I, const C: Config> {
        #[align(C.each * size_of::<T>())]
        x: &[T],
        #[align(4 * C.angles())]
        cos: &[f32],
        #[align(4 * C.angles())]
        sin: &[f32],
        positions: &[I],
        #[align(C.each * size_of::<T>())]
        out: &mut [T],
    }

    /// The distances of tokens, of heads and of the rows of the tables, in elements.
    struct Strides {
        x_token: u64,
        x_head: u64,
        out_token: u64,
        out_head: u64,
        table_stride: u64,
    }

    /// The rows of the tables, the extents of the tensors, and the pairs of a head.
    struct Shape {
        rows: u64,
        tokens: u32,
        heads: u32,
        half: u32,
        dim: u32,
    }

    /// out = (x1 · cos - x2 · sin, x2 · cos + x1 · sin) for each pair of the first 2 · `half` elements of a head; the others are copied. `sine_sign` is 1,
    /// or -1 for the inverse. A position that the tables do not have gives NaN.
    #[ptx_kernel(
        block = THREADS,
        grid = (shape.tokens * shape.heads.div_ceil(2) * ((shape.dim - shape.half) / C.each)).div_ceil(THREADS),
        pdl,
        instances = [
            halves_4 = (f32, i64, Config { interleaved: 0, each: 4 }),
            halves_8 = ([bf16, f16], i64, Config { interleaved: 0, each: 8 }),
            halves_1 = ([f32, bf16, f16], i64, Config { interleaved: 0, each: 1 }),
            neighbors_4 = (f32, i64, Config { interleaved: 1, each: 4 }),
            neighbors_8 = ([bf16, f16], i64, Config { interleaved: 1, each: 8 }),
            neighbors_1 = ([f32, bf16, f16], i64, Config { interleaved: 1, each: 1 }),
            halves_4 = (f32, u32, Config { interleaved: 0, each: 4 }),
            halves_8 = ([bf16, f16], u32, Config { interleaved: 0, each: 8 }),
            halves_1 = ([f32, bf16, f16], u32, Config { interleaved: 0, each: 1 }),
            neighbors_4 = (f32, u32, Config { interleaved: 1, each: 4 }),
            neighbors_8 = ([bf16, f16], u32, Config { interleaved: 1, each: 8 }),
            neighbors_1 = ([f32, bf16, f16], u32, Config { interleaved: 1, each: 1 })
        ],
        unsafe(requires(
            shape.tokens >= 1,
            shape.tokens < 1 << 31,
            shape.heads >= 1,
            shape.heads < 1 << 31,
            shape.dim >= 1,
            shape.dim < 1 << 31,
            2 * shape.half <= shape.dim,
            shape.half % C.each == 0,
            shape.dim % C.each == 0,
            shape.tokens * shape.heads.div_ceil(2) * ((shape.dim - shape.half) / C.each) <= 2147483392,
            shape.rows < 1 << 62,
            strides.x_token % C.each == 0,
            strides.x_head % C.each == 0,
            strides.out_token % C.each == 0,
            strides.out_head % C.each == 0,
            strides.table_stride % C.angles() == 0,
            tensors.x.len() >= (shape.tokens - 1) * strides.x_token + (shape.heads - 1) * strides.x_head + shape.dim,
            tensors.out.len() >= (shape.tokens - 1) * strides.out_token + (shape.heads - 1) * strides.out_head + shape.dim,
            (shape.heads == 1 || strides.out_head >= shape.dim)
                && (shape.tokens == 1 || strides.out_token >= (shape.heads - 1) * strides.out_head + shape.dim)
                || (shape.tokens == 1 || strides.out_token >= shape.dim)
                    && (shape.heads == 1 || strides.out_head >= (shape.tokens - 1) * strides.out_token + shape.dim),
            tensors.positions.len() >= shape.tokens,
            shape.rows == 0 || tensors.cos.len() >= (shape.rows - 1) * strides.table_stride + shape.half,
            shape.rows == 0 || tensors.sin.len() >= (shape.rows - 1) * strides.table_stride + shape.half
        ))
    )]
    pub fn rotate<T, I, const C: Config>(tensors: Tensors<T, I, C>, strides: Strides, sine_sign: f32, shape: Shape) {
        const EACH: u32 = C.each;
        let (slices, groups): (u32, u32) = ((shape.dim - shape.half) / EACH, (shape.heads + (HEADS - 1)) / HEADS);
        let index: u32 = ctaid.x * THREADS + tid.x;
        let item: u32 = index / slices;
        let slice: u32 = index - item * slices;
        let token: u32 = item / groups;
        let head: u32 = (item - token * groups) * HEADS;
        if token >= shape.tokens {
            return;
        }
        let from = tensors.x.at(token as u64 * strides.x_token + head as u64 * strides.x_head);
        let to = tensors.out.at(token as u64 * strides.out_token + head as u64 * strides.out_head);
        let pair: u32 = slice * EACH;
        grid::overlap();
        if pair >= shape.half {
            // Behind the pairs: as it is.
            for h in 0..HEADS {
                let inside: pred = head + h < shape.heads;
                let (same, copy) = (
                    from.at(h as u64 * strides.x_head).at(shape.half + pair),
                    to.at(h as u64 * strides.out_head).at(shape.half + pair),
                );
                vector::store_kept::<T, EACH>(copy, vector::load::<T, EACH>(same, inside, 0), inside);
            }
            return;
        }
        // The angles wait for it.
        let position: I;
        let at = tensors.positions.at(token);
        ptx! { ld.global.{I} position, [at]; }
        let table_row: i64 = position as i64;
        // A pair of neighbors is inside one access, unless that is one element.
        const SPLIT: pred = C.interleaved == 1 && EACH == 1;
        let (mut low, mut high): (u32, u32) = (pair, shape.half + pair);
        if SPLIT {
            low = 2 * pair;
            high = low + 1;
        }
        let (a, b): ([[b32; vector::words::<T, EACH>()]; HEADS], [[b32; vector::words::<T, EACH>()]; HEADS]);
        for h in 0..HEADS {
            let inside: pred = head + h < shape.heads;
            let of_head = from.at(h as u64 * strides.x_head);
            a[h] = vector::load::<T, EACH>(of_head.at(low), inside, 0);
            b[h] = vector::load::<T, EACH>(of_head.at(high), inside, 0);
        }
        let (mut c, mut s): ([f32; EACH], [f32; EACH]) = ([f32::NAN; EACH], [f32::NAN; EACH]);
        if unsigned(table_row) < shape.rows {
            let row: u64 = unsigned(table_row) * strides.table_stride;
            c = read_angles::<C>(tensors.cos.at(row), pair, shape.half);
            s = read_angles::<C>(tensors.sin.at(row), pair, shape.half);
        }
        for i in 0..EACH {
            s[i] *= sine_sign;
        }
        for h in 0..HEADS {
            let inside: pred = head + h < shape.heads;
            let of_head = to.at(h as u64 * strides.out_head);
            let (first, second): ([f32; EACH], [f32; EACH]) =
                rotate_head::<C>(vector::unpack::<T, EACH>(a[h]), vector::unpack::<T, EACH>(b[h]), c, s);
            vector::store_kept::<T, EACH>(of_head.at(low), vector::pack::<T, EACH>(first), inside);
            vector::store_kept::<T, EACH>(of_head.at(high), vector::pack::<T, EACH>(second), inside);
        }
    }
}

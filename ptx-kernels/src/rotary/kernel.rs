//! The rotation of pairs of elements: a thread has two accesses of one head. One family for every chip: from `sm_90` on grids overlap
//! (`griddepcontrol`).
#![allow(unreachable_pub, reason = "a struct that the host shares says `pub`")]

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch("sm_75", "sm_90"))]
pub(super) mod rotations {
    const THREADS: u32 = 256;

    /// The instance: pairs of neighbors or of halves, and elements per access.
    #[derive(Clone, Copy)]
    pub struct Config {
        /// 1 for pairs of neighbors.
        pub interleaved: u32,
        /// Elements per access.
        pub each: u32,
    }

    /// Cosines or sines of neighboring pairs: `ld.global.nc` of up to 16 bytes.
    fn read_table<const EACH: u32>(from: Global<f32>) -> [f32; EACH] {
        let values: [f32; EACH];
        if EACH == 1 {
            ptx! { ld.global.nc.f32 values[0], [from]; }
        } else {
            for i in 0..EACH / 4 {
                ptx! { ld.global.nc.v4.f32 {values[4 * i..4 * i + 4]}, [from + 16 * i]; }
            }
        }
        values
    }

    /// out = (x1 · cos - x2 · sin, x2 · cos + x1 · sin) for each pair of the first 2 · `half` elements of a head; the others are copied. `turn` is 1,
    /// or -1 for the inverse. A position that the tables do not have gives NaN.
    #[ptx_kernel(
        block = THREADS,
        grid = (tokens * heads * (dim - half) / C.each).div_ceil(THREADS),
        pdl,
        instances = [
            halves_4 = (f32, i64, Config { interleaved: 0, each: 4 }),
            halves_8 = (bf16, i64, Config { interleaved: 0, each: 8 }),
            halves_8 = (f16, i64, Config { interleaved: 0, each: 8 }),
            halves_1 = (f32, i64, Config { interleaved: 0, each: 1 }),
            halves_1 = (bf16, i64, Config { interleaved: 0, each: 1 }),
            halves_1 = (f16, i64, Config { interleaved: 0, each: 1 }),
            neighbors_4 = (f32, i64, Config { interleaved: 1, each: 4 }),
            neighbors_8 = (bf16, i64, Config { interleaved: 1, each: 8 }),
            neighbors_8 = (f16, i64, Config { interleaved: 1, each: 8 }),
            neighbors_1 = (f32, i64, Config { interleaved: 1, each: 1 }),
            neighbors_1 = (bf16, i64, Config { interleaved: 1, each: 1 }),
            neighbors_1 = (f16, i64, Config { interleaved: 1, each: 1 }),
            halves_4 = (f32, u32, Config { interleaved: 0, each: 4 }),
            halves_8 = (bf16, u32, Config { interleaved: 0, each: 8 }),
            halves_8 = (f16, u32, Config { interleaved: 0, each: 8 }),
            halves_1 = (f32, u32, Config { interleaved: 0, each: 1 }),
            halves_1 = (bf16, u32, Config { interleaved: 0, each: 1 }),
            halves_1 = (f16, u32, Config { interleaved: 0, each: 1 }),
            neighbors_4 = (f32, u32, Config { interleaved: 1, each: 4 }),
            neighbors_8 = (bf16, u32, Config { interleaved: 1, each: 8 }),
            neighbors_8 = (f16, u32, Config { interleaved: 1, each: 8 }),
            neighbors_1 = (f32, u32, Config { interleaved: 1, each: 1 }),
            neighbors_1 = (bf16, u32, Config { interleaved: 1, each: 1 }),
            neighbors_1 = (f16, u32, Config { interleaved: 1, each: 1 })
        ],
        unsafe(requires(
            tokens >= 1,
            heads >= 1,
            2 * half <= dim,
            half % C.each == 0,
            dim % C.each == 0,
            tokens * heads * (dim - half) / C.each <= 2147483392,
            x.len() >= (tokens - 1) * x_token + (heads - 1) * x_head + dim,
            out.len() >= (tokens - 1) * out_token + (heads - 1) * out_head + dim,
            positions.len() >= tokens,
            rows == 0 || cos.len() >= (rows - 1) * table_stride + half,
            rows == 0 || sin.len() >= (rows - 1) * table_stride + half
        ))
    )]
    pub fn rotate<T, I, const C: Config>(
        x: &[T],
        cos: &[f32],
        sin: &[f32],
        positions: &[I],
        out: &mut [T],
        x_token: u64,
        x_head: u64,
        out_token: u64,
        out_head: u64,
        table_stride: u64,
        turn: f32,
        rows: u64,
        tokens: u32,
        heads: u32,
        half: u32,
        dim: u32,
    ) {
        const EACH: u32 = C.each;
        let slices: u32 = (dim - half) / EACH;
        let index: u32 = ctaid.x * THREADS + tid.x;
        let item: u32 = index / slices;
        let slice: u32 = index - item * slices;
        let token: u32 = item / heads;
        let head: u32 = item - token * heads;
        if token >= tokens {
            return;
        }
        let from = x.at(token as u64 * x_token + head as u64 * x_head);
        let to = out.at(token as u64 * out_token + head as u64 * out_head);
        let pair: u32 = slice * EACH;
        if arch >= sm_90 {
            grid::wait();
            grid::launch_dependents();
        }
        if pair >= half {
            // Behind the pairs: as it is.
            vector::write::<T, EACH>(to.at(half + pair), vector::read::<T, EACH>(from.at(half + pair)));
            return;
        }
        let (mut low, mut high): (u32, u32) = (pair, half + pair);
        if C.interleaved == 1 {
            low = 2 * pair;
            high = low + EACH;
        }
        let (a, b): ([f32; EACH], [f32; EACH]) =
            (vector::read::<T, EACH>(from.at(low)), vector::read::<T, EACH>(from.at(high)));
        let position: I;
        let at = positions.at(token);
        ptx! { ld.global.{I} position, [at]; }
        let place: i64 = position as i64;
        let (mut c, mut s): ([f32; EACH], [f32; EACH]) = ([f32::NAN; EACH], [f32::NAN; EACH]);
        if unsigned(place) < rows {
            let row: u64 = unsigned(place) * table_stride + pair as u64;
            c = read_table::<EACH>(cos.at(row));
            s = read_table::<EACH>(sin.at(row));
        }
        let (mut first, mut second): ([f32; EACH], [f32; EACH]);
        for i in 0..EACH {
            const K: u32 = 2 * i % EACH;
            let (mut x, mut y): (f32, f32) = (a[i], b[i]);
            if C.interleaved == 1 {
                if EACH == 1 {
                    x = a[0];
                } else if 2 * i < EACH {
                    x = a[K];
                    y = a[K + 1];
                } else {
                    x = b[K];
                    y = b[K + 1];
                }
            }
            let sine: f32 = s[i] * turn;
            let rotated: [f32; 2] = [x * c[i] - y * sine, y * c[i] + x * sine];
            if C.interleaved == 0 || EACH == 1 {
                first[i] = rotated[0];
                second[i] = rotated[1];
            } else if 2 * i < EACH {
                first[K] = rotated[0];
                first[K + 1] = rotated[1];
            } else {
                second[K] = rotated[0];
                second[K + 1] = rotated[1];
            }
        }
        vector::write::<T, EACH>(to.at(low), first);
        vector::write::<T, EACH>(to.at(high), second);
    }
}

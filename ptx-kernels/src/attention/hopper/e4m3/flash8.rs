//! Parts of attention kernels whose operands have 8 bits: V by columns in shared memory, weights as `e4m3`, rows of O.
//!
//! `wgmma` reads operands of 8 bits along K alone. So V is turned in shared memory, and two orders save exchanges between lanes: the keys of
//! each 16 lie as a thread holds their weights, `2i, 2i + 1, 2i + 8, 2i + 9` for the thread `i` of four; and of each 16 columns the even ones
//! come first, so that a thread has four neighbors of a row of O. For `sm_90` and later.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod flash8 {
    /// Turns a tile of V, by `TEAM` warps from number `FIRST` on, each 32 keys of a part at a time. `from` has rows of `HEAD` bytes in parts of
    /// `WIDTH` swizzled ones, 64 or 128; `to` becomes, for each 32 keys, core matrices of 8 columns and 16 keys, the second 16 keys behind the first:
    /// the tile of `wgmma::descriptor_plain::<0, 128, 256>`. For each 16 columns `ldmatrix.x4.trans`, four `prmt` and `stmatrix.x4`, without bank
    /// conflicts.
    fn turn_tile<const KEYS: u32, const HEAD: u32, const WIDTH: u32, const FIRST: u32, const TEAM: u32>(
        from: u32,
        to: u32,
    ) {
        const PARTS: u32 = HEAD / WIDTH;
        // This lane names a key, whose 16 bytes lie where the swizzle has them.
        let swizzle: u32 = (laneid >> (if WIDTH == 128 { 0 } else { 1 })) & (WIDTH / 16 - 1);
        let key: u32 = from + laneid * WIDTH + (swizzle << 4);
        let column: u32 = to + ((laneid & 8) << 5) + ((laneid & 16) << 3) + ((laneid & 7) << 4);
        let mut unit: u32 = tid.x / 32 - FIRST;
        while unit < KEYS / 32 * PARTS {
            let (step, part): (u32, u32) = (unit / PARTS, unit % PARTS);
            let read: u32 = key + step * (32 * WIDTH) + part * (KEYS * WIDTH);
            let write: u32 = column + step * (32 * HEAD) + part * (32 * WIDTH);
            for i in 0..WIDTH / 16 {
                let pairs: [b32; 4] = matrix::load_x4_transposed(read ^ (16 * i));
                matrix::store_x4(write + 512 * i, separate(pairs));
            }
            unit += TEAM;
        }
    }

    /// Of pairs of columns for four times 8 keys, even and odd columns of the first 16 keys, then of the last ones: four `prmt`.
    fn separate(pairs: [b32; 4]) -> [b32; 4] {
        let columns: [b32; 4];
        for i in 0..2 {
            ptx! {
                prmt.b32 columns[2 * i], pairs[2 * i], pairs[2 * i + 1], 0x6420;
                prmt.b32 columns[2 * i + 1], pairs[2 * i], pairs[2 * i + 1], 0x7531;
            }
        }
        columns
    }

    /// Exponentials as the left operand of the product with a turned tile: two `cvt.rn.satfinite.e4m3x2` and a `mov` for each four.
    fn pack<const N: u32>(packed: &mut [b32; N / 4], s: &[f32; N]) {
        for i in 0..N / 4 {
            // Register `i % 4` of a product has the upper or lower row, and the first or last 16 keys.
            const AT: u32 = i / 4 * 16 + i % 4 / 2 * 8 + i % 2 * 2;
            let (low, high): (b16, b16);
            ptx! {
                cvt.rn.satfinite.e4m3x2.f32 low, s[AT + 1], s[AT];
                cvt.rn.satfinite.e4m3x2.f32 high, s[AT + 5], s[AT + 4];
                mov.b32 packed[i], {low, high};
            }
        }
    }

    /// Writes this thread's row `HALF` of sums by a turned tile, rounded to `T`, to the row at `to`; four lanes write whole sectors of 32 bytes.
    /// `cvt.rn` of pairs, and under `inside` `st.global.v2`.
    fn store_row<T, const HALF: u32, const N: u32>(sums: &[f32; N], to: u64, inside: pred) {
        let own: u64 = to + (laneid % 4 * 8) as u64;
        for i in 0..N / 8 {
            const AT: u32 = 8 * i + 2 * HALF;
            let (x, y): (b32, b32);
            ptx! {
                cvt.rn.{T}x2.f32 x, sums[AT + 4], sums[AT];
                cvt.rn.{T}x2.f32 y, sums[AT + 5], sums[AT + 1];
                @inside st.global.v2.b32 [own + 32 * i], {x, y};
            }
        }
    }
}

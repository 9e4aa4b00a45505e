//! The two products of decoding by `mma.sync`, also with a cache of bytes.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod products {
    /// The rows of Q as left operands. For a cache of bytes they are `f16`, with four columns of each sixteen in the lane that finds the
    /// same four of K in one register.
    fn load_queries<T, const C: Config>(tile: u32) -> [[b32; 4]; C.head / 16] {
        let queries: [[b32; 4]; C.head / 16];
        let a: u32 = fragment::rows_a::<{ C.head }>(tile);
        let own: u32 = tile + laneid / 4 * fragment::pitch(C.head) + laneid % 4 * 8;
        for k in 0..C.head / 16 {
            if C.size == 2 {
                queries[k] = matrix::load_x4(a + 32 * k);
            } else {
                for half in 0..2 {
                    const AT: u32 = 8 * half * (2 * C.head + 16) + 32 * k;
                    let pairs: [b32; 2];
                    ptx! { ld.shared.v2.b32 {pairs[..]}, [own + AT]; }
                    for i in 0..2 {
                        let values: [f32; 2] = vector::unpack::<T, 2>([pairs[i]]);
                        queries[k][half + 2 * i] = vector::pack_pair::<f16>(values[0], values[1]);
                    }
                }
            }
        }
        queries
    }

    /// Scores of the rows of Q and a tile of keys.
    fn multiply_keys<T, const C: Config>(
        s: &mut [[[f32; 4]; C.keys / 8]; 1],
        queries: &[[b32; 4]; C.head / 16],
        stage: &Stage,
    ) {
        let row: u32 = stage.keys::<C>();
        for k in 0..C.size * C.head / 32 {
            for j in 0..C.keys / 16 {
                let keys: [b32; 4] = matrix::load_x4(stage.atom::<C, { 16 * j }, k>(row));
                if C.size == 2 {
                    matrix::multiply::<T>(&mut s[0][2 * j], queries[k], [keys[0], keys[1]]);
                    matrix::multiply::<T>(&mut s[0][2 * j + 1], queries[k], [keys[2], keys[3]]);
                } else {
                    for i in 0..4 {
                        matrix::multiply::<f16>(
                            &mut s[0][2 * j + i / 2],
                            queries[2 * k + i % 2],
                            float8::widen(keys[i]),
                        );
                    }
                }
            }
        }
    }

    /// Adds the product of weights and a tile of values. Of a cache of bytes, each two tiles of sums have the even and the odd columns
    /// of sixteen.
    fn multiply_values<T, const C: Config>(
        o: &mut [[[f32; 4]; C.head / 8]; 1],
        weights: &[[[b32; 4]; C.keys / 16]; 1],
        stage: &Stage,
    ) {
        let row: u32 = stage.values::<C>();
        for k in 0..C.keys / 16 {
            for j in 0..C.size * C.head / 32 {
                let values: [b32; 4] = matrix::load_x4_transposed(stage.atom::<C, { 16 * k }, j>(row));
                for half in 0..2 {
                    if C.size == 2 {
                        matrix::multiply::<T>(
                            &mut o[0][2 * j + half],
                            weights[0][k],
                            [values[2 * half], values[2 * half + 1]],
                        );
                    } else {
                        let (mut first, mut last): (b32, b32) = (values[2 * half], values[2 * half + 1]);
                        ptx! {
                            prmt.b32 first, first, first, 0x3120;
                            prmt.b32 last, last, last, 0x3120;
                        }
                        let (upper, lower): ([b32; 2], [b32; 2]) = (float8::widen(first), float8::widen(last));
                        for odd in 0..2 {
                            matrix::multiply::<f16>(
                                &mut o[0][4 * j + 2 * half + odd],
                                weights[0][k],
                                [upper[odd], lower[odd]],
                            );
                        }
                    }
                }
            }
        }
    }
}

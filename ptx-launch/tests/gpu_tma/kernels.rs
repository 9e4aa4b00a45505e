//! An instance for each way of a tensor copy: a box into shared memory and out to `to` as it lies there, or from `from`
//! through shared memory into the tensor.

use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
pub mod moves {
    /// Content of shared memory before a copy.
    const UNTOUCHED: u32 = 0xabababab;
    /// Maximum number of polls of a barrier before the test fails instead of hanging.
    const PATIENCE: u32 = 2000;

    fn expect(base: u32, bar: u32, words: u32, bytes: u32) {
        let mut i: u32 = tid.x;
        let pattern: u32 = UNTOUCHED;
        while i < words {
            let at: u32 = base + i * 4;
            ptx! { st.shared.u32 [at], pattern; }
            i += 128;
        }
        tma::fence();
        if tid.x == 0 {
            mbarrier::init(bar, 1);
            mbarrier::fence_init();
            mbarrier::arrive_expect(bar, bytes);
        }
        ptx! { bar.sync 0; }
    }

    /// Copies `words` words out, and whether the bytes came.
    fn deliver(base: u32, bar: u32, to: u64, words: u32) {
        let (mut tries, mut done, phase): (u32, u32, u32) = (0, 0, 0);
        while tries < PATIENCE {
            let over: pred;
            ptx! { mbarrier.try_wait.parity.shared::cta.b64 over, [bar], phase; }
            if over {
                done = 1;
                break;
            }
            tries += 1;
        }
        let mut i: u32 = tid.x;
        while i < words {
            let word: u32;
            let (from, at): (u32, u64) = (base + i * 4, to + wide(i) * 4);
            ptx! {
                ld.shared.u32 word, [from];
                st.global.u32 [at], word;
            }
            i += 128;
        }
        if tid.x == 0 {
            let end: u64 = to + wide(words) * 4;
            ptx! { st.global.u32 [end], done; }
        }
    }

    /// From a tensor of `RANK` dimensions a box, or pixels. The coordinates and offsets of further dimensions mean nothing.
    #[ptx_kernel(
        block = 128,
        grid = 1,
        shared = 65536,
        instances = [(1, false), (2, false), (3, false), (4, false), (5, false), (3, true), (4, true), (5, true)]
    )]
    pub fn load<const RANK: u32, const IM2COL: bool>(
        map: TensorMap,
        to: &mut [u32],
        words: u32,
        bytes: u32,
        x: u32,
        y: u32,
        z: u32,
        w: u32,
        v: u32,
        right: u16,
        down: u16,
        deep: u16,
    ) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        #[shared]
        let barrier: u64;
        let (base, bar): (u32, u32) = (smem, barrier);
        expect(base, bar, words, bytes);
        if tid.x == 0 {
            if IM2COL {
                if RANK == 3 {
                    tma::load_3d_im2col(base, map, [x, y, z], right, bar);
                } else if RANK == 4 {
                    tma::load_4d_im2col(base, map, [x, y, z, w], [right, down], bar);
                } else {
                    tma::load_5d_im2col(base, map, [x, y, z, w, v], [right, down, deep], bar);
                }
            } else if RANK == 1 {
                tma::load_1d(base, map, x, bar);
            } else if RANK == 2 {
                tma::load_2d(base, map, x, y, bar);
            } else if RANK == 3 {
                tma::load_3d(base, map, [x, y, z], bar);
            } else if RANK == 4 {
                tma::load_4d(base, map, [x, y, z, w], bar);
            } else {
                tma::load_5d(base, map, [x, y, z, w, v], bar);
            }
        }
        deliver(base, bar, to, words);
    }

    /// Fills shared memory for a store.
    fn collect(base: u32, from: u64, words: u32) {
        let mut i: u32 = tid.x;
        while i < words {
            let word: u32;
            let (to, at): (u32, u64) = (base + i * 4, from + wide(i) * 4);
            ptx! {
                ld.global.u32 word, [at];
                st.shared.u32 [to], word;
            }
            i += 128;
        }
        tma::fence();
        ptx! { bar.sync 0; }
    }

    /// Into a tensor of `RANK` dimensions a box. The coordinates of further dimensions mean nothing.
    #[ptx_kernel(block = 128, grid = 1, shared = 65536, instances = [1, 2, 3, 4, 5])]
    pub fn store<const RANK: u32>(map: TensorMap, from: &[u32], words: u32, x: u32, y: u32, z: u32, w: u32, v: u32) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        let base: u32 = smem;
        collect(base, from, words);
        if tid.x == 0 {
            if RANK == 1 {
                tma::store_1d(map, x, base);
            } else if RANK == 2 {
                tma::store_2d(map, x, y, base);
            } else if RANK == 3 {
                tma::store_3d(map, [x, y, z], base);
            } else if RANK == 4 {
                tma::store_4d(map, [x, y, z, w], base);
            } else {
                tma::store_5d(map, [x, y, z, w, v], base);
            }
            tma::commit();
            tma::wait::<0>();
        }
    }

    /// A tile of a matrix, by a map that the launch makes.
    #[ptx_kernel(block = 128, grid = 1, shared = 65536, unsafe(requires(to.len() > 512)))]
    pub fn load_tile(
        #[tma(box = [16, 32], swizzle = 128, promotion = 256, fill = nan)] a: Tile<f32, (M, N)>,
        to: &mut [u32],
        x: u32,
        y: u32,
    ) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        #[shared]
        let barrier: u64;
        let (base, bar): (u32, u32) = (smem, barrier);
        expect(base, bar, 512, 2048);
        if tid.x == 0 {
            tma::load_2d(base, a_map, x, y, bar);
        }
        deliver(base, bar, to, 512);
    }
}

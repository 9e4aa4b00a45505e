//! The TMA epilogue of the static scheduler: subtiles of shared memory, swizzled by 128 bytes, from which TMA stores.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod store {
    /// Rows of 64 columns of C.
    #[align(1024)]
    struct Subtile<const BYTES: u32> {
        bytes: [u8; BYTES],
    }

    /// A warp group's subtiles.
    struct Store<const C: Config> {
        buffers: Shared<[Subtile<{ C.bytes() }>; C.buffers]>,
        /// The address of this thread's row of the first subtile, and its place in the first 32 bytes. Where operands have changed places, its
        /// place in 128 bytes is in the address.
        row: u32,
        swizzle: u32,
        /// The thread in the warp group.
        thread: u32,
        /// The named barrier of the warp group.
        barrier: u32,
    }

    impl<const C: Config> Store<C> {
        fn new(buffers: Shared<[Subtile<{ C.bytes() }>; C.buffers]>, thread: u32, barrier: u32) -> Store<C> {
            let (mut row, mut swizzle): (u32, u32) = (0, 0);
            if C.swap_ab == 1 {
                // Lane l has row l % 8 of the l / 8-th of four blocks of 8 x 8: two side by side, and the two below.
                let lane: u32 = thread & 31;
                let unit: u32 = (thread >> 5) * 2 + ((lane >> 3) & 1);
                row = buffers + (lane >> 4) * 1024 + (lane & 7) * 128 + ((unit ^ (lane & 7)) << 4);
            } else {
                row = epilogue::row_address(buffers, thread);
                swizzle = epilogue::row_swizzle(thread);
            }
            Store { buffers, row, swizzle, thread, barrier }
        }

        /// Stores a warp group's sums, whose first row and column are at `at`.
        fn store_tile<T, const N: u32>(&self, acc: &[f32; N], c: TensorMap, at: &TileAt) {
            for subtile in 0..C.subtiles() {
                const ROW: u32 = subtile / C.across() * 64;
                const COLUMN: u32 = subtile % C.across() * C.subtile();
                const FIRST: u32 = (ROW / 64 * C.block_n() + COLUMN) / 2;
                const BUFFER: u32 = subtile % C.buffers;
                if self.thread == 0 {
                    tma::wait_read::<{ epilogue::pending(subtile, C.buffers, C.subtiles()) }>();
                }
                barrier::sync::<128>(self.barrier);
                if C.swap_ab == 1 {
                    transpose_fragments::<T, FIRST, { C.subtile() }>(acc, self.row + BUFFER * C.bytes());
                } else {
                    epilogue::store_fragments::<T, FIRST>(acc, self.row + BUFFER * C.bytes(), self.swizzle);
                }
                tma::fence();
                barrier::sync::<128>(self.barrier);
                if self.thread == 0 {
                    let (row, column): (u32, u32) = (at.row + ROW, at.column + COLUMN);
                    let from: u32 = self.buffers.at(BUFFER);
                    if C.swap_ab == 1 {
                        tma::store_3d(c, [row, column, at.batch], from);
                    } else {
                        tma::store_3d(c, [column, row, at.batch], from);
                    }
                    tma::commit();
                }
            }
        }

        /// Waits until all stores have read shared memory, before the block exits.
        fn finish(&self) {
            if self.thread == 0 {
                tma::wait_read::<0>();
            }
        }
    }

    /// 64 rows by `COLUMNS` columns of a tile, from accumulator `FIRST` on, converted to `T`, as 64 columns of C: each column of the tile is a
    /// row. `row` is this thread's.
    fn transpose_fragments<T, const FIRST: u32, const COLUMNS: u32, const N: u32>(acc: &[f32; N], row: u32) {
        for pair in 0..COLUMNS / 16 {
            const A: u32 = FIRST + 8 * pair;
            let packed: [b32; 4];
            for i in 0..4 {
                ptx! { cvt.rn.{T}x2.f32 packed[i], acc[A + 2 * i + 1], acc[A + 2 * i]; }
            }
            matrix::store_x4_transposed(row + 2048 * pair, packed);
        }
        if COLUMNS % 16 == 8 {
            const A: u32 = FIRST + COLUMNS / 2 - 4;
            let (left, right): (b32, b32);
            ptx! {
                cvt.rn.{T}x2.f32 left, acc[A + 1], acc[A];
                cvt.rn.{T}x2.f32 right, acc[A + 3], acc[A + 2];
                stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [row + 128 * (COLUMNS - 8)], {left, right};
            }
        }
    }
}

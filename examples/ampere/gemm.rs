//! A matrix product as fast as `mma.sync` goes: `cp.async` fills a ring of stages, `ldmatrix` reads them without bank
//! conflicts through an XOR swizzle, and the fragments of the next step are on their way while this one is multiplied.

use ptx_examples::product::{Launch, check};
use ptx_examples::{Report, elements};
use ptx_launch::Result;
use ptx_launch::prelude::*;

use kernels::gemm;

/// The kernel, its sizes, and its helpers.
#[ptx_module(arch = "sm_80")]
pub mod kernels {
    /// Sizes of a kernel.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Config {
        /// Rows of a block's tile of C.
        pub block_m: u32,
        /// Columns of it.
        pub block_n: u32,
        /// Elements of a stage along K.
        pub block_k: u32,
        /// Rows of a warp's tile.
        pub warp_m: u32,
        /// Columns of it.
        pub warp_n: u32,
        /// Stages of the ring.
        pub stages: u32,
        /// Blocks that a multiprocessor holds.
        pub blocks: u32,
    }

    impl Config {
        /// Threads of a block.
        pub(crate) const fn threads(&self) -> u32 {
            32 * (self.block_m / self.warp_m) * (self.block_n / self.warp_n)
        }

        /// Bytes of a row of a stage.
        pub(crate) const fn pitch(&self) -> u32 {
            self.block_k * 2
        }

        /// Bytes of a stage: rows of A, then of B.
        pub(crate) const fn stage(&self) -> u32 {
            (self.block_m + self.block_n) * self.pitch()
        }

        /// Chunks of 16 bytes in a row of a stage.
        pub(crate) const fn chunks(&self) -> u32 {
            self.block_k / 8
        }

        /// Rows that the block copies at once.
        pub(crate) const fn rows(&self) -> u32 {
            self.threads() / self.chunks()
        }

        /// Chunks of a stage that a thread copies.
        pub(crate) const fn copies(&self) -> u32 {
            (self.block_m + self.block_n) / self.rows()
        }

        /// Products of 16 × 8 in a column of a warp's tile.
        pub(crate) const fn down(&self) -> u32 {
            self.warp_m / 16
        }

        /// Products in a row of it.
        pub(crate) const fn across(&self) -> u32 {
            self.warp_n / 8
        }
    }

    /// C = A · Bᵀ: A is `m` × `k`, B is `n` × `k`, C is `m` × `n`, all row by row, sums in `f32`.
    #[ptx_kernel(
        block = C.threads(),
        grid = m.div_ceil(C.block_m) * n.div_ceil(C.block_n),
        shared = C.stages * C.stage(),
        min_blocks = C.blocks,
        instances = [
            square = (bf16, Config { block_m: 128, block_n: 128, block_k: 32, warp_m: 64, warp_n: 64, stages: 4, blocks: 2 }),
            wide = (bf16, Config { block_m: 128, block_n: 256, block_k: 32, warp_m: 64, warp_n: 64, stages: 4, blocks: 1 }),
            tall = (bf16, Config { block_m: 256, block_n: 128, block_k: 32, warp_m: 64, warp_n: 64, stages: 4, blocks: 1 }),
            wide_deep = (bf16, Config { block_m: 128, block_n: 256, block_k: 64, warp_m: 64, warp_n: 64, stages: 4, blocks: 1 }),
            square_deep = (bf16, Config { block_m: 128, block_n: 128, block_k: 64, warp_m: 64, warp_n: 64, stages: 3, blocks: 2 }),
            square_long = (bf16, Config { block_m: 128, block_n: 128, block_k: 32, warp_m: 64, warp_n: 64, stages: 5, blocks: 2 }),
            square = (f16, Config { block_m: 128, block_n: 128, block_k: 32, warp_m: 64, warp_n: 64, stages: 4, blocks: 2 }),
        ],
        unsafe(requires(
            m <= 1 << 31, n <= 1 << 31, k <= 1 << 31, k % 8 == 0, n % 8 == 0, a.len() >= m * k, b.len() >= n * k, c.len() >= m * n))
    )]
    pub fn gemm<T, const C: Config>(
        #[align(16)] a: &[T],
        #[align(16)] b: &[T],
        #[align(16)] c: &mut [T],
        m: u32,
        n: u32,
        k: u32,
    ) {
        #[shared(dynamic, align = 128)]
        let ring: [u8];

        let (tiles_m, tiles_n): (u32, u32) = ((m + (C.block_m - 1)) / C.block_m, (n + (C.block_n - 1)) / C.block_n);
        let (tile_m, tile_n): (u32, u32) = scheduler::grouped(ctaid.x, tiles_m, tiles_n, 8);
        let (row0, column0): (u32, u32) = (tile_m * C.block_m, tile_n * C.block_n);
        let mut copier = Copier::<C>::new(ring);
        copier.locate::<0, { C.block_m / C.rows() }, T>(a, row0, m, k);
        copier.locate::<{ C.block_m / C.rows() }, { C.block_n / C.rows() }, T>(b, column0, n, k);
        for stage in 0..C.stages - 1 {
            copier.fetch(copier.to + stage * C.stage(), k);
        }
        let mut write: u32 = copier.to + (C.stages - 1) * C.stage();

        // The rows that this lane names to `ldmatrix`: 16 of A, 8 and 8 of B.
        let (warp, lane): (u32, u32) = (tid.x / 32, laneid);
        let (down, across): (u32, u32) =
            (warp % (C.block_m / C.warp_m) * C.warp_m, warp / (C.block_m / C.warp_m) * C.warp_n);
        let (a_row, b_row): (u32, u32) = (lane & 15, (lane & 7) + ((lane >> 4) << 3));
        let read_a: u32 = ring + (down + a_row) * C.pitch() + (((lane >> 4) ^ swizzle::<C>(a_row)) << 4);
        let read_b: u32 =
            ring + (C.block_m + across + b_row) * C.pitch() + ((((lane >> 3) & 1) ^ swizzle::<C>(b_row)) << 4);

        let sum: [[[f32; 4]; C.across()]; C.down()];
        for i in 0..C.down() {
            for j in 0..C.across() {
                sum[i][j] = [0.0; 4];
            }
        }
        let fa: [[[b32; 4]; C.down()]; 2];
        let fb: [[[b32; 4]; C.across() / 2]; 2];
        cp_async::wait::<{ C.stages - 2 }>();
        block::sync();
        load::<{ C.down() }, C>(&mut fa[0], read_a);
        load::<{ C.across() / 2 }, C>(&mut fb[0], read_b);

        let (mut done, mut stage): (u32, u32) = (0, 0);
        while done < k {
            for step in 0..C.block_k / 16 {
                // While a step is multiplied, the fragments of the next one are loaded.
                const NEXT: u32 = (step + 1) % (C.block_k / 16);
                if NEXT == 0 {
                    cp_async::wait::<{ C.stages - 2 }>();
                    block::sync();
                    stage = next::<C>(stage);
                }
                load::<{ C.down() }, C>(&mut fa[NEXT % 2], (read_a + stage) ^ (NEXT << 5));
                load::<{ C.across() / 2 }, C>(&mut fb[NEXT % 2], (read_b + stage) ^ (NEXT << 5));
                if step == 0 {
                    copier.fetch(write, k);
                    write = copier.to + stage;
                }
                multiply::<T, C>(&mut sum, &fa[step % 2], &fb[step % 2]);
            }
            done += C.block_k;
        }
        cp_async::wait_all();
        block::sync();
        let staged: u32 = ring + warp * (C.warp_m * C.warp_n * 2);
        stage_sums::<T, C>(&sum, staged);
        warp::sync();
        write_tile::<T, C>(staged, c, row0 + down, column0 + across, m, n);
    }

    /// The chunks that a thread copies of every stage: one of some rows of A, then of B.
    struct Copier<const C: Config> {
        /// The first one in shared memory.
        to: u32,
        /// Each in global memory, and true where its row is in the matrix.
        from: [u64; C.copies()],
        inside: [pred; C.copies()],
        /// Its place in the row, in chunks, and along K, in elements.
        row: u32,
        chunk: u32,
        column: u32,
    }

    impl<const C: Config> Copier<C> {
        /// The places of this thread in a stage.
        fn new(ring: u32) -> Copier<C> {
            let (row, chunk): (u32, u32) = (tid.x / C.chunks(), tid.x % C.chunks());
            let to: u32 = ring + row * C.pitch() + ((chunk ^ swizzle::<C>(row)) << 4);
            Copier { to, from: [0; C.copies()], inside: [false; C.copies()], row, chunk, column: chunk * 8 }
        }

        /// Finds the chunks from `FIRST` on, one in each of `N` rows, in a matrix whose rows from `row0` on belong to the block.
        fn locate<const FIRST: u32, const N: u32, T>(&mut self, matrix: Global<T>, row0: u32, rows: u32, k: u32) {
            for i in 0..N {
                let at: u32 = row0 + self.row + i * C.rows();
                self.inside[FIRST + i] = at < rows;
                self.from[FIRST + i] = matrix + (wide(at) * k + (self.chunk * 8) as u64) * 2;
            }
        }

        /// Begins to copy the next stage, zeros where it is outside of the matrices, and ends a group of copies.
        fn fetch(&mut self, to: u32, k: u32) {
            for i in 0..C.copies() {
                let both: pred = self.inside[i] & (self.column < k);
                cp_async::copy16_zero(to + i * C.rows() * C.pitch(), self.from[i], both.select(16, 0));
                self.from[i] += C.pitch() as u64;
            }
            cp_async::commit();
            self.column += C.block_k;
        }
    }

    /// The chunk with which a row's first one changes places, so that eight rows lie in eight chunks of 128 bytes.
    fn swizzle<const C: Config>(row: u32) -> u32 {
        if C.block_k == 64 { row & 7 } else { (row >> 1) & 3 }
    }

    /// The offset of the stage after this one: `add`, `setp` and `selp`.
    fn next<const C: Config>(stage: u32) -> u32 {
        (stage == (C.stages - 1) * C.stage()).select(0, stage + C.stage())
    }

    /// A column of fragments, 16 rows each.
    fn load<const N: u32, const C: Config>(fragments: &mut [[b32; 4]; N], row: u32) {
        for i in 0..N {
            fragments[i] = matrix::load_x4(row + i * 16 * C.pitch());
        }
    }

    /// The products of one step along K: an `mma.sync` for each.
    fn multiply<T, const C: Config>(
        sum: &mut [[[f32; 4]; C.across()]; C.down()],
        a: &[[b32; 4]; C.down()],
        b: &[[b32; 4]; C.across() / 2],
    ) {
        for i in 0..C.down() {
            for j in 0..C.across() {
                const PART: u32 = 2 * (j % 2);
                matrix::multiply::<T>(&mut sum[i][j], a[i], [b[j / 2][PART], b[j / 2][PART + 1]]);
            }
        }
    }

    /// Writes a warp's sums to shared memory, as `T`, so that it can read rows of 16-byte chunks.
    fn stage_sums<T, const C: Config>(sum: &[[[f32; 4]; C.across()]; C.down()], to: u32) {
        for i in 0..C.down() {
            for j in 0..C.across() {
                for half in 0..2 {
                    let at: u32 = i * 16 + half * 8 + laneid / 4;
                    let chunk: u32 = (j ^ (at & 7)) << 4;
                    let place: u32 = to + at * (C.warp_n * 2) + chunk + (laneid & 3) * 4;
                    let pair: b32;
                    ptx! {
                        cvt.rn.{T}x2.f32 pair, sum[i][j][2 * half + 1], sum[i][j][2 * half];
                        st.shared.b32 [place], pair;
                    }
                }
            }
        }
    }

    /// Writes a warp's tile from shared memory to C: its first row and column, and the extents of C.
    fn write_tile<T, const C: Config>(from: u32, c: GlobalMut<T>, row0: u32, column0: u32, m: u32, n: u32) {
        const WIDE: u32 = C.warp_n / 8;
        for i in 0..C.warp_m * WIDE / 32 {
            let at: u32 = i * (32 / WIDE) + laneid / WIDE;
            let chunk: u32 = laneid % WIDE;
            let (row, column): (u32, u32) = (row0 + at, column0 + chunk * 8);
            let there: pred = (row < m) & (column < n);
            let packed: [b32; 4];
            let place: u32 = from + at * (C.warp_n * 2) + ((chunk ^ (at & 7)) << 4);
            ptx! { ld.shared.v4.b32 {packed[..]}, [place]; }
            vector::store::<T, 8>(c + (wide(row) * n + column as u64) * 2, packed, there);
        }
    }
}

macro_rules! variants {
    ($($name:ident $label:literal)*) => {
        /// Every instance, the best at 4096 first. The ring of `wide_deep` is larger than the shared memory of `sm_80` itself.
        pub(crate) const VARIANTS: &[(&str, Launch)] = &[$(
            ($label, |stream, a, b, c, [m, n, k]| gemm::$name(stream, a, b, c, m, n, k)),
        )*];
    };
}
variants! {
    wide "128x256x32 s4"
    tall "256x128x32 s4"
    square "128x128x32 s4"
    wide_deep "128x256x64 s4"
    square_deep "128x128x64 s3"
    square_long "128x128x32 s5"
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let last = elements(device, 4096, 256);
    check(device, "ampere_gemm", &[[200, 136, 104], [3, 8, 8], [129, 520, 32], [last, last, last / 2]], VARIANTS[0].1)
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}

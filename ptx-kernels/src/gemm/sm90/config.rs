//! The axes of a kernel with TMA and `wgmma`, and its main loop: those of the GEMM, of grouped products and of products that communicate.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod config {
    /// The axes of a kernel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Rows and columns of C in a block's tile.
        pub tile: [u32; 2],
        /// Blocks of a cluster along M and N.
        pub cluster: [u32; 2],
        /// Stages of the ring.
        pub stages: u32,
        /// For A and for B: 0 if K is the dimension of neighbors in memory, 1 if M or N is.
        pub majors: [u32; 2],
        /// 1 if the kernel multiplies Bᵀ by Aᵀ.
        pub swap_ab: u32,
        /// `STATIC`, `CLAIMED`, `STREAM_K` or `SPLIT_K`.
        pub scheduler: u32,
        /// `TMA` or `GENERIC`.
        pub epilogue: u32,
        /// Subtiles of C in flight, for each warp group. For the TMA epilogue.
        pub buffers: u32,
        /// The order of tiles: bands of so many tiles along M, in runs of so many along N (`scheduler::Raster`).
        pub raster: [u32; 2],
    }

    /// Values of [`Config::scheduler`].
    pub const STATIC: u32 = 0;
    /// Tiles by the number of the cluster in its GPC.
    pub const CLAIMED: u32 = 1;
    /// The same, with shared tiles in the last round.
    pub const STREAM_K: u32 = 2;
    /// Parts of K of tiles.
    pub const SPLIT_K: u32 = 3;

    /// Values of [`Config::epilogue`].
    pub const TMA: u32 = 0;
    /// Every option.
    pub const GENERIC: u32 = 1;

    /// Layouts of A and B.
    pub const KK: [u32; 2] = [0, 0];
    /// A along K, B along N.
    pub const KN: [u32; 2] = [0, 1];
    /// A along M, B along K.
    pub const MK: [u32; 2] = [1, 0];
    /// A along M, B along N.
    pub const MN: [u32; 2] = [1, 1];

    impl Config {
        /// Tiles by the number of the cluster, and the TMA epilogue.
        pub const fn tma(tile: [u32; 2], cluster: [u32; 2], majors: [u32; 2], stages: u32, buffers: u32) -> Config {
            Config {
                tile,
                cluster,
                stages,
                majors,
                swap_ab: 0,
                scheduler: STATIC,
                epilogue: TMA,
                buffers,
                raster: [0, 0],
            }
        }

        /// Tiles by the number of the cluster in its GPC.
        pub const fn claimed(
            tile: [u32; 2],
            cluster: [u32; 2],
            majors: [u32; 2],
            stages: u32,
            buffers: u32,
            raster: [u32; 2],
        ) -> Config {
            Config { scheduler: CLAIMED, raster, ..Config::tma(tile, cluster, majors, stages, buffers) }
        }

        /// The same, with shared tiles in the last round.
        pub const fn stream_k(
            tile: [u32; 2],
            cluster: [u32; 2],
            majors: [u32; 2],
            stages: u32,
            buffers: u32,
            raster: [u32; 2],
        ) -> Config {
            Config { scheduler: STREAM_K, raster, ..Config::tma(tile, cluster, majors, stages, buffers) }
        }

        /// Parts of K at run time, and the generic epilogue.
        pub const fn generic(tile: [u32; 2], cluster: [u32; 2], majors: [u32; 2], stages: u32) -> Config {
            Config { scheduler: SPLIT_K, epilogue: GENERIC, ..Config::tma(tile, cluster, majors, stages, 0) }
        }

        /// The same kernel for Cᵀ = Bᵀ · Aᵀ.
        pub const fn swapped(&self) -> Config {
            Config { swap_ab: 1, ..*self }
        }

        /// Of a pair for the rows and columns of C, the one for the rows of the product that the kernel computes: C, or Cᵀ.
        pub const fn first(&self, pair: [u32; 2]) -> u32 {
            if self.swap_ab == 1 { pair[1] } else { pair[0] }
        }

        /// The one for its columns.
        pub const fn second(&self, pair: [u32; 2]) -> u32 {
            if self.swap_ab == 1 { pair[0] } else { pair[1] }
        }

        /// Rows and columns of a block's tile of this product.
        pub const fn block_m(&self) -> u32 {
            self.first(self.tile)
        }

        /// Columns of the tile.
        pub const fn block_n(&self) -> u32 {
            self.second(self.tile)
        }

        /// Blocks of a cluster along these rows and columns.
        pub const fn cluster_m(&self) -> u32 {
            self.first(self.cluster)
        }

        /// Blocks of a cluster along the columns.
        pub const fn cluster_n(&self) -> u32 {
            self.second(self.cluster)
        }

        /// The layouts of the kernel's operands: 0 if K is the dimension of neighbors in memory.
        pub const fn major_a(&self) -> u32 {
            self.first(self.majors)
        }

        /// The layout of the second operand.
        pub const fn major_b(&self) -> u32 {
            self.second(self.majors)
        }

        /// Blocks of a cluster.
        pub const fn blocks(&self) -> u32 {
            self.cluster[0] * self.cluster[1]
        }

        /// Warp groups that multiply: each has 64 rows of the tile, or 128 where it has 256.
        pub const fn consumers(&self) -> u32 {
            if self.block_m() == 256 { 2 } else { self.block_m() / 64 }
        }

        /// Threads of a block.
        pub const fn threads(&self) -> u32 {
            128 * (self.consumers() + 1)
        }

        /// Rows of the tile of a warp group.
        pub const fn rows(&self) -> u32 {
            self.block_m() / self.consumers()
        }

        /// Stages by which one of two warp groups multiplies before the other one at the end of a tile.
        pub const fn stagger(&self) -> u32 {
            if self.consumers() == 2 { 3 } else { 0 }
        }
    }

    /// The main loop of a kernel. `groups` is the number of operands with a dimension of matrices: the second one, or both.
    fn policy(c: Config, groups: u32) -> mainloop::Policy {
        mainloop::Policy {
            block_m: c.block_m(),
            block_n: c.block_n(),
            stages: c.stages,
            cluster_m: c.cluster_m(),
            cluster_n: c.cluster_n(),
            major_a: c.major_a(),
            major_b: c.major_b(),
            groups,
        }
    }
}

//! Products without options on Hopper's tensor cores, `sm_90a`: TMA in both directions, `wgmma`, tiles of many sizes, and clusters in two
//! dimensions. For products of a few rounds of tiles, where all counts that comes before the first load and behind the last product; large
//! ones have the kernels of [`hopper`](super::hopper).
//!
//! Persistent clusters take tiles of C. In each block a producer warp loads 128 bytes along K of the tile's rows and columns into a ring of
//! stages, each block of a cluster its share for all that need it, and one to three warp groups multiply (`mainloop`). Sums leave by
//! `stmatrix` and TMA, in subtiles of 64 columns of C.
//!
//! In most kernels the operands change places: rows of a tile are columns of C, and `stmatrix` transposes. Then a tile has any multiple of 16
//! rows of C. Names say so by a `t`: `t96x128_2x1_kk` makes tiles of 96 rows by 128 columns of C, in clusters of two that lie one below the
//! other, from operands along K.
#![allow(unsafe_code, reason = "kernels take maps of memory that `Gemm::run` has checked and bound")]

mod launch;
mod loads;
mod store;

use super::plan::Candidate;
use super::{params, tuning};
use half::{bf16, f16};
use launch::Grid;

/// The kernels, and for each type their entries in the table. The sizes are those of [`Config`](kernels::Config), in its order.
macro_rules! tiles {
    ($($instance:ident = $cost:ident(
        $block_m:literal, $block_n:literal, $stages:literal, $buffers:literal, [$cluster_m:literal, $cluster_n:literal], $swapped:literal,
        [$major_a:literal, $major_b:literal]
    ),)*) => {
        /// Of `f16` and `bf16`.
        #[ptx_launch::ptx_module(arch = "sm_90a", params(Grid), parts(loads::loads, store::store))]
        #[allow(unreachable_pub, reason = "the module is not public")]
        pub(crate) mod kernels {
            use super::Grid;

            /// Sizes and layouts of a kernel.
            #[derive(Clone, Copy, Debug)]
            pub struct Config {
                /// Rows of a block's tile: 64 for each warp group that multiplies, or 128 for each of two.
                pub block_m: u32,
                /// Columns of a block's tile.
                pub block_n: u32,
                /// Stages of the ring.
                pub stages: u32,
                /// Subtiles of a warp group that are on their way to C.
                pub buffers: u32,
                /// Blocks of a cluster along the rows.
                pub cluster_m: u32,
                /// Blocks of a cluster along the columns.
                pub cluster_n: u32,
                /// 1 if rows of a tile are columns of C, and the first operand is B.
                pub swapped: u32,
                /// 0 if rows of the first operand lie along K, 1 if neighbors in memory are elements of different rows.
                pub major_a: u32,
                /// The same of the second one's columns.
                pub major_b: u32,
            }

            impl Config {
                /// Warp groups that multiply.
                pub const fn groups(&self) -> u32 {
                    if self.block_m == 256 { 2 } else { self.block_m / 64 }
                }

                /// Threads of a block.
                pub const fn threads(&self) -> u32 {
                    128 * (self.groups() + 1)
                }

                /// Registers of each thread at the start: all that an SM has.
                pub const fn registers(&self) -> u32 {
                    if self.groups() == 1 {
                        240
                    } else if self.groups() == 2 {
                        168
                    } else {
                        128
                    }
                }

                /// Registers of a thread that multiplies, with those of the producer.
                pub const fn more_registers(&self) -> u32 {
                    if self.groups() == 2 { 232 } else { 152 }
                }

                /// True if the registers at the start are too few for the sums.
                pub const fn moves_registers(&self) -> bool {
                    self.block_m * self.block_n / self.groups() / 128 + 56 > self.registers()
                }

                /// Blocks of a cluster.
                pub const fn cluster(&self) -> u32 {
                    self.cluster_m * self.cluster_n
                }

                /// Rows of a tile of a warp group.
                pub const fn rows(&self) -> u32 {
                    self.block_m / self.groups()
                }

                /// Columns of a subtile, which has 64 rows: 64, or if they are rows of C the most up to 104 that divide a tile's.
                pub const fn subtile(&self) -> u32 {
                    let parts: u32 = self.block_n.div_ceil(104);
                    if self.swapped == 0 {
                        64
                    } else if self.block_n % (8 * parts) == 0 {
                        self.block_n / parts
                    } else {
                        self.block_n / (parts + 1)
                    }
                }

                /// Bytes of a subtile: rows of 64 columns of C.
                pub const fn bytes(&self) -> u32 {
                    if self.swapped == 1 { self.subtile() * 128 } else { 8192 }
                }

                /// Subtiles side by side.
                pub const fn across(&self) -> u32 {
                    self.block_n / self.subtile()
                }

                /// Subtiles of a warp group.
                pub const fn subtiles(&self) -> u32 {
                    self.rows() / 64 * self.across()
                }

                /// Stages by which one of two warp groups multiplies before the other one at the end of a tile.
                pub const fn stagger(&self) -> u32 {
                    if self.groups() == 2 { 3 } else { 0 }
                }
            }

            struct SharedMemory<const C: Config> {
                stages: [mainloop::Stage<{ policy(C) }>; C.stages],
                stores: [[Subtile<{ C.bytes() }>; C.buffers]; C.groups()],
                barriers: pipeline::Barriers<{ C.stages }>,
            }

            /// C by any number of clusters.
            #[ptx_kernel(
                block = C.threads(),
                cluster = C.cluster(),
                max_regs = C.registers(),
                pdl,
                instances = [
                    $($instance = (f16, Config {
                        block_m: $block_m, block_n: $block_n, stages: $stages, buffers: $buffers, cluster_m: $cluster_m,
                        cluster_n: $cluster_n, swapped: $swapped, major_a: $major_a, major_b: $major_b
                    }),)*
                    $($instance = (bf16, Config {
                        block_m: $block_m, block_n: $block_n, stages: $stages, buffers: $buffers, cluster_m: $cluster_m,
                        cluster_n: $cluster_n, swapped: $swapped, major_a: $major_a, major_b: $major_b
                    })),*
                ]
            )]
            pub fn gemm<T, const C: Config>(a: TensorMap, b: TensorMap, c: TensorMap, grid: Grid) {
                #[shared(dynamic)]
                let smem: SharedMemory<C>;
                if tid.x == 0 {
                    tma::prefetch(a);
                    tma::prefetch(b);
                    tma::prefetch(c);
                    smem.barriers.init::<1, { C.groups() * C.cluster() }>();
                }
                let warp_group: u32 = cluster::warp_group();
                if C.cluster() > 1 {
                    cluster::arrive_relaxed();
                    cluster::wait();
                } else {
                    block::sync();
                }
                grid::launch_dependents();
                if warp_group == 0 {
                    if C.moves_registers() {
                        wgmma::fewer_registers::<40>();
                    }
                    if tid.x < 32 {
                        load_tiles::<T, C>(a, b, smem, &grid);
                    }
                } else {
                    if C.moves_registers() {
                        wgmma::more_registers::<{ C.more_registers() }>();
                    }
                    multiply_tiles::<T, C>(c, smem, warp_group, &grid);
                }
            }

            /// A warp group of consumers.
            fn multiply_tiles<T, const C: Config>(c: TensorMap, smem: Shared<SharedMemory<C>>, warp_group: u32, grid: &Grid) {
                const P: mainloop::Policy = policy(C);
                let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
                let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
                let range = mainloop::KRange { begin: 0, end: grid.k, backward: 0 };
                let store = Store::<C>::new(smem.stores.at(warp_group - 1), consumer.thread, warp_group);
                let (mut index, step): (u32, u32) = (ctaid.x / C.cluster(), nctaid.x / C.cluster());
                while index < grid.tiles {
                    consumer.multiply_tile::<T, { C.stagger() }>(&mut acc, &range);
                    let mut at: At = tile_at::<C>(index, grid);
                    at.row += (warp_group - 1) * C.rows();
                    store.store_tile::<T>(&acc, c, &at);
                    index += step;
                }
                store.finish();
            }

            fn policy(c: Config) -> mainloop::Policy {
                mainloop::Policy {
                    block_m: c.block_m,
                    block_n: c.block_n,
                    stages: c.stages,
                    cluster_m: c.cluster_m,
                    cluster_n: c.cluster_n,
                    major_a: c.major_a,
                    major_b: c.major_b,
                    groups: 2,
                }
            }
        }

        candidates! { $($instance $cost [
            $block_m, $block_n, $stages, $buffers, $cluster_m, $cluster_n, $swapped, $major_a, $major_b
        ])* }
    };
}

/// The kernels of each type for the table.
macro_rules! candidates {
    ($($instance:ident $cost:ident $sizes:tt)*) => {
        /// Those of `f16`.
        pub(crate) const OF_F16: &[Candidate] = &[$(candidate!(f16 F16 $instance $cost $sizes)),*];
        /// Those of `bf16`.
        pub(crate) const OF_BF16: &[Candidate] = &[$(candidate!(bf16 BF16 $instance $cost $sizes)),*];
    };
}

/// A kernel of one type.
macro_rules! candidate {
    ($element:ident $kind:ident $instance:ident $cost:ident [
        $block_m:literal, $block_n:literal, $stages:literal, $buffers:literal, $cluster_m:literal, $cluster_n:literal, $swapped:literal,
        $major_a:literal, $major_b:literal
    ]) => {
        Candidate {
            name: concat!("tile_", stringify!($element), "_", stringify!($instance)),
            kind: params::$kind,
            capability: 90,
            cluster: Some(if $swapped == 1 { [$cluster_n, $cluster_m] } else { [$cluster_m, $cluster_n] }),
            majors: Some(if $swapped == 1 { [$major_b == 0, $major_a == 0] } else { [$major_a == 0, $major_b == 0] }),
            block_m: if $swapped == 1 { $block_n } else { $block_m },
            block_n: if $swapped == 1 { $block_m } else { $block_n },
            depth: 64,
            near: None,
            is_plain: true,
            cost: tuning::$cost,
            launch: |stream, product, _| {
                const CONFIG: kernels::Config = kernels::Config {
                    block_m: $block_m,
                    block_n: $block_n,
                    stages: $stages,
                    buffers: $buffers,
                    cluster_m: $cluster_m,
                    cluster_n: $cluster_n,
                    swapped: $swapped,
                    major_a: $major_a,
                    major_b: $major_b,
                };
                launch::launch::<$element>(kernels::gemm::Instance::$instance, &CONFIG, stream, product)
            },
        }
    };
}

tiles! {
    m64x64_1x2_kk = M64X64_1X2(64, 64, 12, 1, [1, 2], 0, [0, 0]),
    m128x192_2x1_kk = M128X192_2X1(128, 192, 4, 2, [2, 1], 0, [0, 0]),
    m192x192_1x2_kk = M192X192_1X2(192, 192, 4, 1, [1, 2], 0, [0, 0]),
    t16x64_1x1_kk = T16X64_1X1(64, 16, 12, 1, [1, 1], 1, [0, 0]),
    t32x64_1x1_kk = T32X64_1X1(64, 32, 12, 1, [1, 1], 1, [0, 0]),
    t64x64_1x1_kk = T64X64_1X1(64, 64, 12, 1, [1, 1], 1, [0, 0]),
    t112x64_1x1_kk = T112X64_1X1(64, 112, 9, 2, [1, 1], 1, [0, 0]),
    t64x128_1x1_kk = T64X128_1X1(128, 64, 8, 1, [1, 1], 1, [0, 0]),
    t80x128_4x2_kk = T80X128_4X2(128, 80, 7, 1, [2, 4], 1, [0, 0]),
    t96x128_2x1_kk = T96X128_2X1(128, 96, 7, 1, [1, 2], 1, [0, 0]),
    t128x128_2x1_kk = T128X128_2X1(128, 128, 6, 2, [1, 2], 1, [0, 0]),
    t96x192_2x1_kk = T96X192_2X1(192, 96, 5, 1, [1, 2], 1, [0, 0]),
    t160x128_2x1_kk = T160X128_2X1(128, 160, 5, 2, [1, 2], 1, [0, 0]),
    t224x128_1x2_kk = T224X128_1X2(128, 224, 4, 2, [2, 1], 1, [0, 0]),
    t160x192_2x1_kk = T160X192_2X1(192, 160, 4, 1, [1, 2], 1, [0, 0]),
    t176x256_2x1_kk = T176X256_2X1(256, 176, 3, 2, [1, 2], 1, [0, 0]),
    m64x64_1x1_kn = M64X64_1X1(64, 64, 12, 1, [1, 1], 0, [0, 1]),
    m64x128_1x1_kn = M64X128_1X1(64, 128, 8, 2, [1, 1], 0, [0, 1]),
    m128x256_2x1_kn = M128X256_2X1(128, 256, 4, 2, [2, 1], 0, [0, 1]),
    m192x192_1x1_kn = M192X192_1X1(192, 192, 4, 1, [1, 1], 0, [0, 1]),
    t16x64_1x1_kn = T16X64_1X1(64, 16, 12, 1, [1, 1], 1, [1, 0]),
    t32x64_1x1_kn = T32X64_1X1(64, 32, 12, 1, [1, 1], 1, [1, 0]),
    t64x64_1x4_kn = T64X64_1X4(64, 64, 12, 1, [4, 1], 1, [1, 0]),
    t128x64_1x4_kn = T128X64_1X4(64, 128, 8, 2, [4, 1], 1, [1, 0]),
    t96x128_2x1_kn = T96X128_2X1(128, 96, 7, 1, [1, 2], 1, [1, 0]),
    t128x128_1x2_kn = T128X128_1X2(128, 128, 6, 2, [2, 1], 1, [1, 0]),
    t128x128_2x1_kn = T128X128_2X1(128, 128, 6, 2, [1, 2], 1, [1, 0]),
    t128x128_2x4_kn = T128X128_2X4(128, 128, 6, 2, [4, 2], 1, [1, 0]),
    t144x128_2x1_kn = T144X128_2X1(128, 144, 5, 2, [1, 2], 1, [1, 0]),
    t192x128_1x2_kn = T192X128_1X2(128, 192, 4, 2, [2, 1], 1, [1, 0]),
    t240x128_1x2_kn = T240X128_1X2(128, 240, 4, 2, [2, 1], 1, [1, 0]),
    t160x256_2x1_kn = T160X256_2X1(256, 160, 3, 2, [1, 2], 1, [1, 0]),
}

//! C = A · B on Hopper's tensor cores: 16-bit operands, `f32` sums, any M, and any N and K whose rows are whole 16 bytes.
//!
//! Persistent blocks of three warp groups. One warp of the first is the *producer*: it asks TMA for 64 columns of A and of
//! B at a time, into a ring of stages. The other two are *consumers*: each multiplies 64 rows of the block's tile by all
//! of its columns with `wgmma`, straight from shared memory, and keeps the sums in registers. `setmaxnreg` moves the
//! registers from the one to the others.
//!
//! Two blocks make a cluster. They work on tiles that lie below each other, so they need the same part of B: each fetches
//! half of it for both (`.multicast::cluster`). A stage is empty when the consumers of both blocks are done with it.
//!
//! A finished tile goes out in panels of 64 columns: converted, through `stmatrix` into swizzled shared memory, and by TMA
//! to global memory, while the next tile is multiplied already.
//!
//! What the chip's power allows decides the speed of large products, so everything here saves energy: large tiles and
//! multicast save shared memory and L2 traffic, `grouped` order saves DRAM traffic.

use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorElement};

/// Bytes of shared memory: the stages, `panels` panels of each consumer, and the barriers.
pub const fn shared_bytes(columns: u32, stages: u32, panels: u32) -> u32 {
    stages * (128 + columns) * 128 + 2 * panels * 64 * 128 + 16 * stages
}

/// The kernel and what it is made of.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// Rows of a block's tile: 64 for each consumer.
    const ROWS: u32 = 128;
    /// Elements along K in a stage: rows of 128 bytes.
    const DEPTH: u32 = 64;
    /// Warp groups that multiply.
    const CONSUMERS: u32 = 2;
    /// Bytes of a panel: 64 rows, 64 columns.
    const PANEL: u32 = 64 * 128;

    /// Where everything lies in shared memory.
    fn stage_bytes(columns: u32) -> u32 {
        (ROWS + columns) * 128
    }

    /// C (M × N) = A (M × K) · Bᵀ (N × K).
    #[ptx_kernel(
        block = 384,
        cluster = BLOCKS,
        grid = blocks,
        shared = super::shared_bytes(COLUMNS, STAGES, PANELS),
        max_regs = 168,
        pdl,
        instances = [
            (bf16, bf16x2, 256, 4, 2, 2, 0), (bf16, bf16x2, 256, 4, 2, 2, 1), (bf16, bf16x2, 256, 4, 2, 2, 2),
            (bf16, bf16x2, 256, 3, 2, 4, 0), (bf16, bf16x2, 256, 3, 2, 4, 1), (bf16, bf16x2, 256, 4, 1, 2, 0),
            (bf16, bf16x2, 192, 4, 2, 3, 0), (bf16, bf16x2, 128, 6, 2, 2, 0), (bf16, bf16x2, 128, 6, 2, 2, 2),
            (f16, f16x2, 256, 4, 2, 2, 0)
        ],
        safe(K % 8 == 0, N % 8 == 0, blocks % BLOCKS == 0)
    )]
    pub fn gemm<T, T2, const COLUMNS: u32, const STAGES: u32, const BLOCKS: u32, const PANELS: u32, const LEAD: u32>(
        #[tma(box = [128, 64], swizzle = 128, promotion = 256)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS / BLOCKS, 64], swizzle = 128, promotion = 256)] b: Tile<T, (N, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        blocks: u32,
        group: u32,
    ) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        const STAGE: u32 = stage_bytes(COLUMNS);
        const RING: u32 = STAGES * STAGE;
        let stages: u32 = smem;
        let bars: u32 = stages + RING + CONSUMERS * PANELS * PANEL;
        if tid.x == 0 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            tma::prefetch(c_map);
            pipeline::init::<STAGES, 1, { CONSUMERS * BLOCKS }>(bars);
        }
        cluster::sync();
        // The kernel before this one may still run; what it wrote is read by the producer alone.
        grid::launch_dependents();

        // Tiles are shared out to clusters: BLOCKS tiles below each other.
        let rank: u32 = cluster::rank();
        let rows: u32 = (M + (ROWS * BLOCKS - 1)) / (ROWS * BLOCKS);
        let columns: u32 = (N + (COLUMNS - 1)) / COLUMNS;
        let depth: u32 = (K + (DEPTH - 1)) / DEPTH;
        let tiles: u32 = rows * columns;
        let workers: u32 = nctaid.x / BLOCKS;
        let tile: u32 = ctaid.x / BLOCKS;
        let (stage, phase): (u32, u32) = (0, 0);

        let role: u32 = cluster::warp_group();
        if role == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                let chosen: pred = warp::elect();
                grid::wait();
                while tile < tiles {
                    let (row, column): (u32, u32) = scheduler::grouped(tile, rows, columns, group);
                    let y_a: u32 = (row * BLOCKS + rank) * ROWS;
                    let y_b: u32 = column * COLUMNS + rank * (COLUMNS / BLOCKS);
                    let k: u32 = 0;
                    while k < K {
                        pipeline::wait_empty::<STAGES>(bars, stage, phase);
                        if chosen {
                            let full: u32 = pipeline::full(bars, stage);
                            let to_a: u32 = stages + stage * STAGE;
                            let to_b: u32 = to_a + ROWS * 128 + rank * (COLUMNS / BLOCKS * 128);
                            mbarrier::arrive_expect(full, STAGE);
                            tma::load_2d(to_a, a_map, k, y_a, full);
                            if BLOCKS == 1 {
                                tma::load_2d(to_b, b_map, k, y_b, full);
                            } else {
                                let all: u16 = (1 << BLOCKS) - 1;
                                tma::load_2d_multicast(to_b, b_map, k, y_b, full, all);
                            }
                        }
                        pipeline::advance::<STAGES>(stage, phase);
                        k += DEPTH;
                    }
                    tile += workers;
                }
            }
        } else {
            wgmma::more_registers::<232>();
            let consumer: u32 = role - 1;
            let thread: u32 = tid.x & 127;
            let panels: u32 = stages + RING + consumer * (PANELS * PANEL);
            let out: u32 = epilogue::row(panels, thread);
            let place: u32 = epilogue::place(thread);
            let from_a: u64 = wgmma::descriptor_k128(stages + consumer * (64 * 128));
            let from_b: u64 = wgmma::descriptor_k128(stages + ROWS * 128);
            let acc: [f32; COLUMNS / 2] = [0.0; COLUMNS / 2];
            let lead: u32 = depth - 1;
            ptx! { min.u32 lead, lead, LEAD; }
            while tile < tiles {
                // The first product of a tile does not count what was there.
                let accumulate: pred = false;
                let last: u32 = 0;
                let k: u32 = 0;
                // The second consumer keeps behind the first, so that one multiplies while the other one stores.
                if LEAD > 0 {
                    if role == 2 {
                        barrier::sync::<256>(3);
                    }
                }
                while k < depth {
                    let (da, db): (u64, u64) =
                        (from_a + wide(stage) * (STAGE / 16), from_b + wide(stage) * (STAGE / 16));
                    pipeline::wait_full(bars, stage, phase);
                    wgmma::fence();
                    for step in 0..4 {
                        wgmma::multiply16::<T, COLUMNS, 0, 0>(acc, da + 2 * step, db + 2 * step, accumulate);
                        if step == 0 {
                            accumulate = true;
                        }
                    }
                    wgmma::commit();
                    if LEAD > 0 {
                        if (k == lead) & (role == 1) {
                            barrier::arrive::<256>(3);
                        }
                    }
                    // While these products run, the stage of those before them is given back.
                    if k > 0 {
                        wgmma::wait::<1>();
                        pipeline::release::<STAGES, BLOCKS>(bars, last, thread);
                    }
                    last = stage;
                    pipeline::advance::<STAGES>(stage, phase);
                    k += 1;
                }
                wgmma::wait::<0>();
                pipeline::release::<STAGES, BLOCKS>(bars, last, thread);

                let (row, column): (u32, u32) = scheduler::grouped(tile, rows, columns, group);
                let y: u32 = (row * BLOCKS + rank) * ROWS + consumer * 64;
                let x: u32 = column * COLUMNS;
                for panel in 0..COLUMNS.div_ceil(64) {
                    const AT: u32 = panel % PANELS * PANEL;
                    // The panel's memory is free when the store from there has read it.
                    if thread == 0 {
                        tma::wait_read::<{ PANELS - 1 }>();
                    }
                    barrier::sync::<128>(role);
                    epilogue::store_panel::<T2, { 32 * panel }>(acc, out + AT, place);
                    tma::fence();
                    barrier::sync::<128>(role);
                    if thread == 0 {
                        tma::store_2d(c_map, x + 64 * panel, y, panels + AT);
                        tma::commit();
                    }
                }
                tile += workers;
            }
            if thread == 0 {
                tma::wait_read::<0>();
            }
        }
        // No block leaves while another one may still arrive at its barriers.
        warp::sync();
        cluster::sync();
    }
}

pub use kernels::gemm;

/// Launches an instance: A is M × K, B is N × K, C is M × N, row by row; then the blocks and the height of a band.
type Launch<T> = fn(&Stream, &Buffer<T>, &Buffer<T>, &mut Buffer<T>, [usize; 3], u32, u32) -> Result<()>;

/// An instance of the kernel, for the host.
#[derive(Clone, Copy)]
pub struct Variant<T> {
    /// `128x256 ×2`: the block's tile, and the blocks of a cluster.
    pub name: &'static str,
    /// Columns of a tile.
    pub columns: u32,
    /// Blocks of a cluster.
    pub blocks: u32,
    kernel: &'static Kernel,
    shared: u32,
    launch: Launch<T>,
}

macro_rules! variants {
    ($t:ident $t2:ident: $($name:literal $columns:literal $stages:literal $blocks:literal $panels:literal $lead:literal;)*) => {
        impl Operand for $t {
            const VARIANTS: &'static [Variant<$t>] = &[$(Variant {
                name: $name,
                columns: $columns,
                blocks: $blocks,
                shared: shared_bytes($columns, $stages, $panels),
                kernel: <kernels::gemm::Instance<$t, $t2, $columns, $stages, $blocks, $panels, $lead> as kernels::gemm::Exists>::KERNEL,
                launch: |stream, a, b, c, [m, n, k], blocks, group| {
                    let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
                    gemm::<$t, $t2, $columns, $stages, $blocks, $panels, $lead>(stream, a, b, c, blocks, group)
                },
            }),*];
        }
    };
}

/// A type that the kernel has instances for.
pub trait Operand: TensorElement {
    /// They.
    const VARIANTS: &'static [Variant<Self>];
}

variants! {
    bf16 bf16x2:
    "128x256 x2 S4" 256 4 2 2 0;
    "128x256 x2 S4 L1" 256 4 2 2 1;
    "128x256 x2 S4 L2" 256 4 2 2 2;
    "128x256 x2 S3" 256 3 2 4 0;
    "128x256 x2 S3 L1" 256 3 2 4 1;
    "128x256 S4" 256 4 1 2 0;
    "128x192 x2" 192 4 2 3 0;
    "128x128 x2" 128 6 2 2 0;
    "128x128 x2 L2" 128 6 2 2 2;
}
variants! {
    f16 f16x2:
    "128x256 x2 S4" 256 4 2 2 0;
}

impl<T: Operand> Variant<T> {
    /// How many blocks the device runs at the same time; the interpreter is given four.
    pub fn workers(&self, device: &Device) -> Result<u32> {
        if !device.is_cuda() {
            return Ok(4);
        }
        let config = Config::grid(self.blocks).block(384).cluster(self.blocks);
        let occupancy = self.kernel.occupancy(device, &config.shared(self.shared))?;
        Ok(occupancy.clusters.map_or(occupancy.multiprocessors, |clusters| clusters * self.blocks))
    }

    /// C = A · Bᵀ with `workers` blocks, fewer if there are fewer tiles, in bands of `group` clusters' tiles.
    pub fn launch(
        &self,
        stream: &Stream,
        (a, b, c): (&Buffer<T>, &Buffer<T>, &mut Buffer<T>),
        shape: [usize; 3],
        (workers, group): (u32, u32),
    ) -> Result<()> {
        let [m, n, _] = shape.map(|extent| extent as u32);
        let tiles = m.div_ceil(128 * self.blocks) * n.div_ceil(self.columns) * self.blocks;
        (self.launch)(stream, a, b, c, shape, workers.min(tiles), group)
    }
}

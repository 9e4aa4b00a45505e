//! Grouped GEMM on Hopper, for a mixture of experts: the rows of A are sorted by expert, and each group of rows is
//! multiplied with the matrix of its expert. One launch for all groups, of any heights; empty ones cost nothing. Operands
//! of 16 bits, `f32` sums, any M and K, and N whose rows are whole 16 bytes.
//!
//! Roles, ring and products are those of `gemm.rs`. What differs is whose tile is where: `offsets`, which some kernel
//! before this one wrote, says where a group begins, and every role finds the next tile's group from it, 32 groups at a
//! look (`scheduler::seek`). No host sees the heights.
//!
//! One tensor map serves all groups. A tile at a group's end reads rows of the next group, which change nothing in its own;
//! but it must not write them: a panel that reaches over the end leaves by the threads, row by row, every other one by TMA.
//! Matrices of experts that are MN-major lie behind each other in a third dimension, so that what is behind the last K of
//! one is zero, and not the first K of the next (zero times infinity would be seen).
//!
//! The `CN` blocks of a cluster lie side by side, share A's rows, and each fetches its part of them for all.

use ptx_examples::Report;
use ptx_examples::product::{Product, flops, offsets, resident};
use ptx_examples::rows::Number;
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::time::Duration;

/// Bytes of shared memory: the stages, `panels` panels of each consumer, and the barriers.
pub(crate) const fn shared_bytes(columns: u32, stages: u32, panels: u32) -> u32 {
    stages * (128 + columns) * 128 + 2 * panels * 64 * 128 + 16 * stages
}

/// The kernels and what they are made of.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// Rows of a tile, 64 for each consumer.
    const ROWS: u32 = 128;
    /// Warp groups that multiply.
    const CONSUMERS: u32 = 2;

    /// The whole kernel, whichever way the experts' matrices lie: `B_MN` is 0 for K-major ones below each other, 2 for
    /// MN-major ones behind each other.
    fn kernel<T, O, O2, const B_MN: u32, const COLUMNS: u32, const STAGES: u32, const CN: u32, const PANELS: u32>(
        a: TensorMap,
        b: TensorMap,
        c: TensorMap,
        to: u64,
        m: u32,
        n: u32,
        depth: u32,
        offsets: u64,
        groups: u32,
        band: u32,
    ) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        const STAGE: u32 = product::stage_bytes(ROWS, COLUMNS);
        const RING: u32 = STAGES * STAGE;
        const SHARE_A: u32 = ROWS / CN;
        const BYTES: u32 = size_of::<O>();
        let stages: u32 = smem;
        let bars: u32 = stages + RING + CONSUMERS * PANELS * product::PANEL;
        product::begin::<STAGES, { CONSUMERS * CN }>(a, b, c, bars);
        cluster::wait();
        grid::launch_dependents();

        let right: u32 = cluster::rank();
        let columns: u32 = (n + (COLUMNS * CN - 1)) / (COLUMNS * CN);
        let workers: u32 = nctaid.x / CN;
        let mut tile: u32 = ctaid.x / CN;
        let (mut stage, mut phase): (u32, u32) = (0, 0);
        let (mut ahead, mut group, mut start, mut next, mut first, mut end): (u32, u32, u32, u32, u32, u32) =
            (0, 0, 0, 0, 0, 0);
        let role: u32 = cluster::warp_group();
        // The offsets may be what the kernel before this one writes.
        grid::wait();
        if role == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                let chosen: pred = warp::elect();
                let masks: [u16; 2] = product::neighbours::<1, CN>(0, right);
                let (lines, places): ([u32; 2], [u32; 2]);
                places[0] = right * (SHARE_A * 128);
                places[1] = 0;
                loop {
                    scheduler::seek::<ROWS>(
                        tile, offsets, groups, m, columns, &mut ahead, &mut group, &mut start, &mut next, &mut first,
                        &mut end,
                    );
                    if group >= groups {
                        break;
                    }
                    let rows: u32 = (end - first + (ROWS - 1)) / ROWS;
                    let (row, column): (u32, u32) = scheduler::grouped(tile - start, rows, columns, band);
                    lines[0] = first + row * ROWS + right * SHARE_A;
                    lines[1] = (column * CN + right) * COLUMNS;
                    if B_MN == 0 {
                        lines[1] += group * n;
                    }
                    product::fill::<T, 0, B_MN, ROWS, COLUMNS, STAGES, 1, CN>(
                        a, b, lines, places, masks, group, stages, bars, &mut stage, &mut phase, 0, depth, 0, chosen,
                    );
                    tile += workers;
                }
            }
        } else {
            wgmma::more_registers::<232>();
            let consumer: u32 = role - 1;
            let thread: u32 = tid.x & 127;
            let panels: u32 = stages + RING + consumer * (PANELS * product::PANEL);
            let out: u32 = epilogue::row(panels, thread);
            let place: u32 = epilogue::place(thread);
            let from_a: u64 = product::descriptor::<0>(stages + consumer * product::PANEL);
            let from_b: u64 = product::descriptor::<B_MN>(stages + ROWS * 128);
            let pitch: u64 = wide(n) * BYTES;
            let mut acc: [f32; COLUMNS / 2] = [0.0; COLUMNS / 2];
            loop {
                scheduler::seek::<ROWS>(
                    tile, offsets, groups, m, columns, &mut ahead, &mut group, &mut start, &mut next, &mut first,
                    &mut end,
                );
                if group >= groups {
                    break;
                }
                product::sum::<T, 0, B_MN, COLUMNS, STAGES, CN, STAGE, 0>(
                    &mut acc, from_a, from_b, bars, &mut stage, &mut phase, 0, depth, thread, role,
                );
                let rows: u32 = (end - first + (ROWS - 1)) / ROWS;
                let (row, column): (u32, u32) = scheduler::grouped(tile - start, rows, columns, band);
                let y: u32 = first + row * ROWS + consumer * 64;
                let x: u32 = (column * CN + right) * COLUMNS;
                // What is left of the group from this warp group's first row on, and of the columns.
                let (mut below, mut aside): (u32, u32) = (0, 0);
                if y < end {
                    below = end - y;
                }
                if x < n {
                    aside = n - x;
                }
                let corner: u64 = to + (y as u64 * pitch + wide(x) * BYTES);
                if size_of::<O>() == 4 {
                    epilogue::store_pairs(&acc, thread, corner, pitch, below, aside);
                } else {
                    for panel in 0..COLUMNS / 64 {
                        const AT: u32 = panel % PANELS * product::PANEL;
                        product::panel::<O2, { 32 * panel }, PANELS>(&acc, out, place, thread, role);
                        if below < 64 {
                            let mut left: u32 = 0;
                            if aside > 64 * panel {
                                left = aside - 64 * panel;
                            }
                            epilogue::store_rows(
                                panels + AT,
                                thread,
                                corner + (128 * panel) as u64,
                                pitch,
                                below,
                                left,
                            );
                        } else if thread == 0 {
                            tma::store_2d(c, x + 64 * panel, y, panels + AT);
                        }
                        // A group of stores for each panel, an empty one where threads wrote: `panel` counts them.
                        if thread == 0 {
                            tma::commit();
                        }
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

    /// C (M × N): row r is row r of A (M × K) times the transposed matrix of its group, of those (W / N, each N × K) that
    /// stand below each other in B. Group g has the rows from `offsets[g]` to `offsets[g + 1]`; rows of no group are not
    /// written. `blocks` are started; bands of tiles are `band` high.
    #[ptx_kernel(
        block = 384,
        cluster = CN,
        grid = blocks,
        shared = super::shared_bytes(COLUMNS, STAGES, PANELS),
        max_regs = 168,
        pdl,
        instances = [
            (bf16, bf16, bf16x2, 256, 3, 2, 4), (bf16, bf16, bf16x2, 256, 3, 1, 4), (bf16, bf16, bf16x2, 128, 6, 2, 2),
            (bf16, bf16, bf16x2, 128, 6, 1, 2)
        ],
        unsafe(requires(blocks > 0, blocks % CN == 0, band > 0, W == groups * N, N % 8 == 0, offsets.len() > groups))
    )]
    pub fn by_rows<T, O, O2, const COLUMNS: u32, const STAGES: u32, const CN: u32, const PANELS: u32>(
        #[tma(box = [128 / CN, 64], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS, 64], swizzle = 128, promotion = 128)] b: Tile<T, (W, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<O, (M, N)>,
        offsets: &[u32],
        groups: u32,
        blocks: u32,
        band: u32,
    ) {
        kernel::<T, O, O2, 0, COLUMNS, STAGES, CN, PANELS>(a_map, b_map, c_map, c, M, N, K, offsets, groups, band);
    }

    /// The same, with matrices of the groups that lie the other way: B (G × K × N).
    #[ptx_kernel(
        block = 384,
        cluster = CN,
        grid = blocks,
        shared = super::shared_bytes(COLUMNS, STAGES, PANELS),
        max_regs = 168,
        pdl,
        instances = [
            (bf16, bf16, bf16x2, 256, 3, 2, 4), (bf16, bf16, bf16x2, 128, 6, 1, 2),
            (bf16, bf16, bf16x2, 64, 8, 1, 1), (bf16, f32, f32, 64, 8, 1, 0), (bf16, f32, f32, 128, 6, 1, 0)
        ],
        unsafe(requires(blocks > 0, blocks % CN == 0, band > 0, G == groups, N % 8 == 0, offsets.len() > groups))
    )]
    pub fn by_columns<T, O, O2, const COLUMNS: u32, const STAGES: u32, const CN: u32, const PANELS: u32>(
        #[tma(box = [128 / CN, 64], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [1, 64, 64], swizzle = 128, promotion = 128)] b: Tile<T, (G, K, N)>,
        #[tma(box = [64, 128 / size_of::<O>()], swizzle = 128)] c: TileMut<O, (M, N)>,
        offsets: &[u32],
        groups: u32,
        blocks: u32,
        band: u32,
    ) {
        kernel::<T, O, O2, 2, COLUMNS, STAGES, CN, PANELS>(a_map, b_map, c_map, c, M, N, K, offsets, groups, band);
    }
}

/// The groups of a launch: N and K of every product, and where the groups begin, on the device.
#[derive(Clone, Copy)]
pub(crate) struct Groups<'a> {
    /// Rows of A and C.
    pub(crate) m: usize,
    /// Columns of C.
    pub(crate) n: usize,
    /// What is summed over.
    pub(crate) k: usize,
    /// How many groups.
    pub(crate) count: usize,
    /// Where each begins, and behind them the end of the last.
    pub(crate) offsets: &'a Buffer<u32>,
}

/// Launches an instance: A, B, C, the groups, the blocks, the height of a band of tiles.
type Launch<O> = fn(&Stream, &Buffer<bf16>, &Buffer<bf16>, &mut Buffer<O>, Groups<'_>, u32, u32) -> Result<()>;

/// An instance of the kernel, for the host.
pub(crate) struct Variant<O: 'static> {
    /// `128x256 1x2`: the block's tile, and the cluster.
    pub(crate) name: &'static str,
    /// Whether the groups' matrices are N × K; else K × N.
    pub(crate) by_rows: bool,
    cluster: u32,
    kernel: &'static Kernel,
    shared: u32,
    launch: Launch<O>,
}

impl<O> Variant<O> {
    /// How many blocks the device runs at the same time.
    pub(crate) fn workers(&self, device: &Device) -> Result<u32> {
        resident(device, self.kernel, 384, self.cluster, self.shared)
    }

    /// Every group's C = A · B with `workers` blocks; bands of tiles are `band` high.
    pub(crate) fn launch(
        &self,
        stream: &Stream,
        (a, b, c): (&Buffer<bf16>, &Buffer<bf16>, &mut Buffer<O>),
        groups: Groups<'_>,
        workers: u32,
        band: u32,
    ) -> Result<()> {
        (self.launch)(stream, a, b, c, groups, workers, band)
    }
}

/// An instance of `by_rows` or `by_columns`.
macro_rules! variant {
    ($kernel:ident $o:ident $o2:ident $name:literal $columns:literal $stages:literal $cn:literal $panels:literal) => {
        Variant {
            name: $name,
            by_rows: variant!(@ $kernel true false),
            cluster: $cn,
            shared: shared_bytes($columns, $stages, $panels),
            kernel: <kernels::$kernel::Instance<bf16, $o, $o2, $columns, $stages, $cn, $panels> as kernels::$kernel::Exists>::KERNEL,
            launch: |stream, a, b, c, Groups { m, n, k, count, offsets }, blocks, band| {
                let b = b.tile(variant!(@ $kernel [count * n, k] [count, k, n]))?;
                let (a, c, groups) = (a.tile([m, k])?, c.tile_mut([m, n])?, count as u32);
                kernels::$kernel::<bf16, $o, $o2, $columns, $stages, $cn, $panels>(
                    stream, a, b, c, offsets, groups, blocks, band,
                )
            },
        }
    };
    (@ by_rows $rows:tt $columns:tt) => { $rows };
    (@ by_columns $rows:tt $columns:tt) => { $columns };
}

/// With C in `bf16`; the first of each way is the one to take where tiles are many.
pub(crate) const HALVES: &[Variant<bf16>] = &[
    variant!(by_rows bf16 bf16x2 "128x256 1x2" 256 3 2 4),
    variant!(by_rows bf16 bf16x2 "128x256" 256 3 1 4),
    variant!(by_rows bf16 bf16x2 "128x128 1x2" 128 6 2 2),
    variant!(by_rows bf16 bf16x2 "128x128" 128 6 1 2),
    variant!(by_columns bf16 bf16x2 "128x256 1x2" 256 3 2 4),
    variant!(by_columns bf16 bf16x2 "128x128" 128 6 1 2),
    variant!(by_columns bf16 bf16x2 "128x64" 64 8 1 1),
];

/// With C in `f32`.
pub(crate) const SINGLES: &[Variant<f32>] =
    &[variant!(by_columns f32 f32 "128x64 f32" 64 8 1 0), variant!(by_columns f32 f32 "128x128 f32" 128 6 1 0)];

/// Bands of tiles are so high: the rows that are worked on at a time stay in the second-level cache.
const BAND: u32 = 8;

/// N and K, and the rows of each group: some empty, some of many tiles, none a whole number of them; more groups than a
/// warp looks at.
fn shapes() -> [([usize; 2], Vec<usize>); 4] {
    let many = (0..40).map(|group| group % 3 * 7).collect();
    [([264, 72], vec![130, 0, 7, 128, 0]), ([72, 136], vec![0, 0, 260]), ([8, 8], vec![0]), ([16, 64], many)]
}

/// An instance's name, how far it was off as a share of the limit, and the time of its largest product.
type Found = (&'static str, f64, Duration);

fn check<O: Number>(device: &Device, variants: &[Variant<O>]) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for variant in variants {
        for (seed, (shape, heights)) in (0..).zip(shapes()) {
            let (error, time) = check_one(device, variant, shape, &heights, seed)?;
            found.push((variant.name, error, time));
        }
    }
    Ok(found)
}

/// The error and the time of one instance at groups of these heights.
fn check_one<O: Number>(
    device: &Device,
    variant: &Variant<O>,
    [n, k]: [usize; 2],
    heights: &[usize],
    seed: u32,
) -> Result<(f64, Duration)> {
    const AROUND: usize = 3;
    let workers = variant.workers(device)?;
    let product = Product::<bf16>::grouped([heights.iter().sum(), n, k], heights, seed).around(AROUND);
    let product = if variant.by_rows { product } else { product.by_columns() };
    let offsets = device.upload(&offsets(heights, AROUND))?;
    let groups = Groups { m: product.shape()[0], n, k, count: heights.len(), offsets: &offsets };
    product.check(device, |stream, a, b, c| variant.launch(stream, (a, b, c), groups, workers, BAND))
}

/// Every instance at ragged groups, against the sums in `f64`; on the CPU device where there is no such GPU.
pub(crate) fn run(device: &Device) -> Result<Report> {
    let device = &ptx_examples::chip_or_cpu(device, (9, 0));
    let found = [check(device, HALVES)?, check(device, SINGLES)?].concat();
    let worst = found.iter().copied().max_by(|(_, x, _), (_, y, _)| x.total_cmp(y)).unwrap_or_default();
    let mut report = Report {
        name: "hopper_grouped_gemm",
        device: device.name().to_owned(),
        size: format!("{} ragged", found.len()),
        error: worst.1,
        limit: 1.0,
        time: worst.2,
        figure: format!("worst: {}", worst.0),
    };
    if device.is_cuda() {
        // As a mixture of experts has it: the figure is that of the instance for many tiles.
        let ([n, k], heights) = ([4096, 4096], [1500, 700, 0, 2048, 1001, 1279, 640, 1024]);
        let (error, time) = check_one(device, &HALVES[0], [n, k], &heights, 9)?;
        let m = heights.iter().sum();
        report.error = report.error.max(error);
        report =
            Report { size: format!("8 groups, {m} × {n} × {k}"), time, figure: flops([m, n, k], time), ..report };
    }
    Ok(report)
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}

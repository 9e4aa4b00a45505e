//! The kernel's instances as the host sees them, and which of them a product takes.

use super::kernels::{self, gemm, gemm_kn, gemm_mk, gemm_mkn, split, stream};
use super::{consumers, shared_bytes};
use ptx_examples::gpcs::Numbering;
use ptx_examples::product::resident;
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorElement};

/// Which way the operands lie: whether A is M × K and B is N × K; otherwise they are K × M and K × N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Major {
    /// A is K-major.
    pub(crate) a_k: bool,
    /// B is K-major.
    pub(crate) b_k: bool,
}

/// Both K-major.
pub(crate) const K_MAJOR: Major = Major { a_k: true, b_k: true };

/// What clusters share of their tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// Each has its own.
    Nothing,
    /// The last ones, by stream-K.
    Last,
    /// K of every one, so many of them.
    Depth(u32),
}

/// What clusters leave to each other: sums of parts of tiles, and flags, which are zero between launches; and who has which
/// number.
pub(crate) struct Scratch {
    sums: Buffer<f32>,
    flags: Buffer<u32>,
    numbering: Numbering,
}

/// In which order tiles are taken: bands of so many rows of clusters, and in those blocks of so many columns, along their
/// rows (`scheduler::blocked`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// The height of a band.
    pub(crate) band: u32,
    /// The width of a block.
    pub(crate) run: u32,
}

/// Launches an instance: A, B, C, the shape M, N, K, the blocks, the order of tiles.
type Launch<T, O> =
    fn(&Stream, &Buffer<T>, &Buffer<T>, &mut Buffer<O>, [usize; 3], u32, Order, &mut Scratch) -> Result<()>;

/// An instance of the kernel, for the host.
pub(crate) struct Variant<T, O> {
    /// `128x256 2x1`: the block's tile, and the cluster.
    pub(crate) name: &'static str,
    /// Which way its operands lie.
    pub(crate) major: Major,
    /// Rows and columns of a block's tile.
    block: [u32; 2],
    /// Blocks of a cluster, below each other and side by side.
    cluster: [u32; 2],
    sharing: Sharing,
    kernel: &'static Kernel,
    shared: u32,
    launch: Launch<T, O>,
}

impl<T, O> Clone for Variant<T, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, O> Copy for Variant<T, O> {}

/// An instance of `gemm`.
macro_rules! k_major {
    ($t:ident $o:ident $o2:ident $name:literal
     $rows:literal $columns:literal $stages:literal $cm:literal $cn:literal $panels:literal) => {
        Variant {
            name: $name,
            major: K_MAJOR,
            block: [$rows, $columns],
            cluster: [$cm, $cn],
            sharing: Sharing::Nothing,
            shared: shared_bytes($rows, $columns, $stages, $panels),
            kernel: <gemm::Instance<$t, $o, $o2, $rows, $columns, $stages, $cm, $cn, $panels> as gemm::Exists>::KERNEL,
            launch: |stream, a, b, c, [m, n, k], blocks, Order { band, run }, Scratch { numbering, .. }| {
                let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
                let Numbering { gpcs, claims } = numbering;
                gemm::<$t, $o, $o2, $rows, $columns, $stages, $cm, $cn, $panels>(
                    stream, a, b, c, &*gpcs, claims, blocks, band, run,
                )
            },
        }
    };
}

/// An instance of `stream`.
macro_rules! stream_k {
    ($t:ident $o:ident $o2:ident $name:literal
     $rows:literal $columns:literal $stages:literal $cm:literal $cn:literal $panels:literal) => {
        Variant {
            name: $name,
            major: K_MAJOR,
            block: [$rows, $columns],
            cluster: [$cm, $cn],
            sharing: Sharing::Last,
            shared: shared_bytes($rows, $columns, $stages, $panels),
            kernel:
                <stream::Instance<$t, $o, $o2, $rows, $columns, $stages, $cm, $cn, $panels> as stream::Exists>::KERNEL,
            launch: |stream, a, b, c, [m, n, k], blocks, Order { band, run }, Scratch { sums, flags, numbering }| {
                let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
                let Numbering { gpcs, claims } = numbering;
                kernels::stream::<$t, $o, $o2, $rows, $columns, $stages, $cm, $cn, $panels>(
                    stream, a, b, c, sums, flags, &*gpcs, claims, blocks, band, run,
                )
            },
        }
    };
}

/// An instance of `split`.
macro_rules! split {
    ($t:ident $o:ident $o2:ident $name:literal $stages:literal $cm:literal $split:literal) => {
        Variant {
            name: $name,
            major: K_MAJOR,
            block: [128, 64 * $split],
            cluster: [$cm, 1],
            sharing: Sharing::Depth($split),
            shared: shared_bytes(128, 64 * $split, $stages, 1),
            kernel: <split::Instance<$t, $o, $o2, $stages, $cm, $split> as split::Exists>::KERNEL,
            launch: |stream, a, b, c, [m, n, k], blocks, _, Scratch { sums, flags, .. }| {
                let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
                split::<$t, $o, $o2, $stages, $cm, $split>(stream, a, b, c, sums, flags, blocks)
            },
        }
    };
}

/// An instance of one of the others.
macro_rules! other_major {
    ($t:ident $t2:ident $kernel:ident $a_k:literal $b_k:literal) => {
        Variant {
            name: stringify!($kernel),
            major: Major { a_k: $a_k, b_k: $b_k },
            block: [128, 256],
            cluster: [2, 1],
            sharing: Sharing::Nothing,
            shared: shared_bytes(128, 256, 3, 4),
            kernel: <kernels::$kernel::Instance<$t, $t2> as kernels::$kernel::Exists>::KERNEL,
            launch: |stream, a, b, c, [m, n, k], blocks, Order { band, run }, Scratch { numbering, .. }| {
                let Numbering { gpcs, claims } = numbering;
                let a = a.tile(if $a_k { [m, k] } else { [k, m] })?;
                let b = b.tile(if $b_k { [n, k] } else { [k, n] })?;
                $kernel::<$t, $t2>(stream, a, b, c.tile_mut([m, n])?, &*gpcs, claims, blocks, band, run)
            },
        }
    };
}

/// A variant and the order of its tiles.
pub(crate) type Way<T> = (Variant<T, <T as Operand>::Result>, Order);

/// A type that the kernel has instances for.
pub(crate) trait Operand: TensorElement {
    /// The type of C.
    type Result: TensorElement;
    /// Its instances.
    const VARIANTS: &'static [Variant<Self, Self::Result>];
}

impl Operand for bf16 {
    type Result = bf16;
    const VARIANTS: &'static [Variant<bf16, bf16>] = &[
        k_major!(bf16 bf16 bf16x2 "128x256 2x1" 128 256 3 2 1 4),
        k_major!(bf16 bf16 bf16x2 "128x320 2x1" 128 320 3 2 1 3),
        stream_k!(bf16 bf16 bf16x2 "256x192 1x2 stream-K" 256 192 3 1 2 3),
        k_major!(bf16 bf16 bf16x2 "128x128 2x1" 128 128 6 2 1 2),
        k_major!(bf16 bf16 bf16x2 "64x128 1x2" 64 128 7 1 2 2),
        split!(bf16 bf16 bf16x2 "128x256 2x1 split 4" 3 2 4),
        other_major!(bf16 bf16x2 gemm_kn true false),
        other_major!(bf16 bf16x2 gemm_mk false true),
        other_major!(bf16 bf16x2 gemm_mkn false false),
    ];
}

impl Operand for f16 {
    type Result = f16;
    const VARIANTS: &'static [Variant<f16, f16>] = &[
        k_major!(f16 f16 f16x2 "128x256 2x1" 128 256 3 2 1 4),
        k_major!(f16 f16 f16x2 "128x320 2x1" 128 320 3 2 1 3),
        stream_k!(f16 f16 f16x2 "256x192 1x2 stream-K" 256 192 3 1 2 3),
        other_major!(f16 f16x2 gemm_kn true false),
        other_major!(f16 f16x2 gemm_mk false true),
        other_major!(f16 f16x2 gemm_mkn false false),
    ];
}

impl Operand for e4m3 {
    type Result = bf16;
    const VARIANTS: &'static [Variant<e4m3, bf16>] = &[
        k_major!(e4m3 bf16 bf16x2 "128x256 2x1" 128 256 3 2 1 4),
        k_major!(e4m3 bf16 bf16x2 "128x320 2x1" 128 320 3 2 1 3),
        stream_k!(e4m3 bf16 bf16x2 "256x192 1x2 stream-K" 256 192 3 1 2 3),
    ];
}

/// Blocks' tiles: what a column of 128 rows costs, as measured on an H200 at the limit of its power, and the order of tiles.
///
/// A GPC has up to nine clusters, neighbours by number, and what several of them ask for at the same time the second-level
/// cache is asked for once; but not what one cluster asks for by multicast, A in clusters of 1 × 2 and B in those of 2 × 1.
/// So the former take tiles below each other, and the latter tiles side by side.
const TILES: [([u32; 2], f64, Order); 5] = [
    ([64, 128], 1.1, Order { band: 16, run: 1 }),
    ([128, 128], 1.05, Order { band: 4, run: 8 }),
    ([128, 256], 1.0, Order { band: 4, run: 8 }),
    ([128, 320], 0.985, Order { band: 4, run: 4 }),
    ([256, 192], 0.945, Order { band: 9, run: 1 }),
];

/// The variant for a product on this device, and the order of its tiles.
///
/// The cheapest: rounds of tiles, times the columns of a tile, times what a column costs in such a tile.
///
/// # Errors
/// Those of loading a kernel.
pub(crate) fn pick<T: Operand>(device: &Device, shape: [usize; 3]) -> Result<Option<Way<T>>> {
    let mut best = None;
    for variant in T::VARIANTS.iter().filter(|variant| variant.major == K_MAJOR) {
        let cost = variant.cost(variant.workers(device)?, shape);
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, *variant));
        }
    }
    Ok(best.map(|(_, variant)| (variant, variant.measured().1)))
}

impl<T, O> Variant<T, O> {
    /// Rows and columns of a cluster's tile.
    fn tile(&self) -> [u32; 2] {
        [self.block[0] * self.cluster[0], self.block[1] * self.cluster[1]]
    }

    /// Tiles of clusters.
    fn tiles(&self, [m, n, _]: [usize; 3]) -> u32 {
        let [rows, columns] = self.tile();
        (m as u32).div_ceil(rows) * (n as u32).div_ceil(columns)
    }

    /// Blocks of a cluster.
    fn in_cluster(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Blocks that work on a tile: a cluster, or the clusters that share its K.
    fn blocks(&self) -> u32 {
        let Sharing::Depth(parts) = self.sharing else { return self.in_cluster() };
        self.in_cluster() * parts
    }

    /// Whether clusters share tiles, so that there is something to try with more tiles than workers.
    pub(crate) fn shares(&self) -> bool {
        self.sharing != Sharing::Nothing
    }

    /// What a column costs, and the order of tiles.
    fn measured(&self) -> (f64, Order) {
        let (_, cost, order) = TILES.iter().find(|(block, ..)| *block == self.block).unwrap_or(&TILES[2]);
        (*cost, *order)
    }

    /// How long a product takes, in columns of 128 rows.
    fn cost(&self, workers: u32, shape: [usize; 3]) -> f64 {
        let columns = f64::from(self.block[0] * self.block[1]) / 128.0;
        self.rounds((workers / self.blocks()).max(1), shape) * columns * self.measured().0
    }

    /// How often `teams` of clusters take a tile, as their time goes.
    fn rounds(&self, teams: u32, shape @ [_, _, k]: [usize; 3]) -> f64 {
        let tiles = self.tiles(shape);
        let (rest, exact) = (tiles % teams, f64::from(tiles) / f64::from(teams));
        // Of a tile's time, that of 64 elements along K.
        let step = 64.0 / (k as f64).max(1.0);
        match self.sharing {
            // Who has nothing to do in the last round leaves its power to the others, and so half of the time is not lost.
            Sharing::Nothing => f64::midpoint(exact, exact.ceil()),
            Sharing::Last if rest == 0 => exact,
            // To leave and collect a part of a tile takes six steps. Clusters that begin at different places along K ask
            // for different parts of the operands at a time, which takes as long as 0.15 of a round.
            Sharing::Last => {
                let apart = if teams.is_multiple_of(rest) { 0.0 } else { 0.15 };
                // As `scheduler::stream_k` has it.
                let shared = if tiles > teams && 4 * rest < teams { rest + teams } else { rest };
                exact + apart + f64::from(6 * (teams.div_ceil(shared) - 1).max(1)) * step
            }
            // To meet takes five.
            Sharing::Depth(parts) => exact.ceil() * (1.0 / f64::from(parts) + 5.0 * step),
        }
    }

    /// How many blocks the device runs at the same time, for whole tiles; the interpreter is given eight.
    pub(crate) fn workers(&self, device: &Device) -> Result<u32> {
        let threads = 128 * (consumers(self.block[0]) + 1);
        let blocks = resident(device, self.kernel, threads, self.in_cluster(), self.shared)?;
        Ok(blocks / self.blocks() * self.blocks())
    }

    /// What the clusters of a launch with `workers` blocks leave to each other.
    pub(crate) fn scratch(&self, device: &Device, workers: u32) -> Result<Scratch> {
        let (blocks, parts) = match self.sharing {
            Sharing::Nothing => (0, 0),
            Sharing::Last => (workers as usize, 1),
            Sharing::Depth(parts) => (workers as usize, parts as usize),
        };
        let sums = self.block.iter().product::<u32>() as usize;
        let numbering = Numbering::find(device, self.in_cluster())?;
        Ok(Scratch { sums: device.zeros(blocks * sums)?, flags: device.zeros(2 * blocks * parts)?, numbering })
    }

    /// C = A · B with `workers` blocks. There may be fewer tiles: who has none leaves at once, but if fewer blocks were
    /// started, some would have to look for numbers in other GPCs.
    pub(crate) fn launch(
        &self,
        stream: &Stream,
        (a, b, c): (&Buffer<T>, &Buffer<T>, &mut Buffer<O>),
        shape: [usize; 3],
        workers: u32,
        order: Order,
        scratch: &mut Scratch,
    ) -> Result<()> {
        (self.launch)(stream, a, b, c, shape, workers, order, scratch)
    }
}

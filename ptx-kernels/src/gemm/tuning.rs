//! The cost model behind the choice of a kernel: [`SHIPPED`] has the times of the kernels, in picoseconds. They are fitted to
//! measurements of random products: `bench --filter "gemm choice" --records FILE` takes them with [`Tuner`](ptx_launch::Tuner) and keeps
//! them as [`Records`](ptx_launch::Records), with `--row 10` for launches in a row, and `bench --fit FILE` writes the body of [`SHIPPED`].
//! [`Trial`] is for that program.

use super::builder::Choice;
use super::choice::{self, Setting};
use super::hopper;
use super::params::{self, Epilogue, Matrix, Source};
use super::plan::Way;
use super::problem::{Product, size};
use ptx_launch::Properties;

/// The times of one kind of tile.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Of a slice of K on a busy SM.
    pub slice: f32,
    /// The least time of a slice.
    pub latency: f32,
    /// Before the first slice of a tile and behind the last one.
    pub tile: f32,
    /// For each part of K that is added up.
    pub part: f32,
}

/// The times of everything.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Of each kind of tile.
    pub tiles: [Cost; NAMES.len()],
    /// Of a launch that copies operands.
    pub pack: f32,
    /// Of a byte of a copy.
    pub copied_byte: f32,
    /// Of a launch that adds up parts of K.
    pub reduce: f32,
    /// Of the same in the kernel.
    pub reduce_inside: f32,
    /// Of a byte of a part.
    pub part_byte: f32,
    /// Of a byte of A, B or C in memory.
    pub byte: f32,
    /// Of an element of C in rows at odd addresses, by kernels of `wgmma`.
    pub ragged: f32,
    /// Of a cache line more of a row, for kernels of TMA.
    pub line: f32,
    /// Of `hopper`: a column of 128 rows for 128 bytes along K on a busy device.
    pub column: f32,
    /// The least time of such a column.
    pub column_latency: f32,
    /// Of a column in each round of tiles.
    pub column_round: f32,
    /// Of all that is before and behind.
    pub hopper: f32,
    /// The part of the time that `hopper` seems to take less in long products.
    pub saved: f32,
}

/// The part of the time of a byte in memory that a byte of C takes, which may stay in the second-level cache.
const WRITTEN: f32 = 0.5;

macro_rules! tiles {
    ($($name:ident)*) => {
        tiles! { @at 0; $($name)* }
        /// The kinds of tiles.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
    (@at $at:expr; $name:ident $($rest:ident)*) => {
        pub(crate) const $name: usize = $at;
        tiles! { @at $at + 1; $($rest)* }
    };
    (@at $at:expr;) => {};
}
tiles! {
    SIMT_LARGE SIMT_F32 SIMT_16 SIMT_8 ROWS_K ROWS_K_SMALL ROWS_N ROWS_N_SMALL RUNS_K RUNS_K_SMALL
    MMA_LARGE MMA_MEDIUM MMA_NARROW
    WIDE MIDDLE MIDDLE_ALONE SQUARE SLIM SMALL TINY LEAN FEW192 FEW160 FEW128 FEW64 FEW16
    THIN SLIM_ALONE LOW SMALL_PAIR FEW96 FEW64_PAIR FEW32 FEW32_LOW
    M64X64_1X1 M64X64_1X2 M64X128_1X1 M128X192_2X1 M128X256_2X1 M192X192_1X1 M192X192_1X2 T16X64_1X1 T32X64_1X1
    T64X64_1X1 T64X64_1X4 T112X64_1X1 T64X128_1X1 T128X64_1X4 T80X128_4X2 T96X128_2X1 T128X128_1X2 T128X128_2X1
    T128X128_2X4 T96X192_2X1 T144X128_2X1 T160X128_2X1 T192X128_1X2 T224X128_1X2 T160X192_2X1 T240X128_1X2 T160X256_2X1
    T176X256_2X1
}

/// A measured product: C = A · B with this algorithm and K in so many parts.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    product: Product,
    /// Nothing for `hopper`.
    way: Option<Way>,
    multiprocessors: u32,
}

impl Trial {
    /// The product of dense operands of the type that algorithms call `kind`, A along K and B along K or else along N, on a device with so
    /// many SMs; `None` if the algorithm does not take it.
    pub fn new(
        kind: &str,
        shape: [u32; 3],
        b_k_major: bool,
        (algorithm, splits): (&str, u32),
        multiprocessors: u32,
    ) -> Option<Trial> {
        let product = dense(kind, shape, b_k_major)?;
        if algorithm == super::tuned::NAME {
            let _layout = super::tuned::layout(&product)?;
            return Some(Trial { product, way: None, multiprocessors });
        }
        let product = product.oriented();
        Some(Trial { product, way: Some(Way::named(&product, algorithm, splits)?), multiprocessors })
    }

    /// The kind of tile, of [`NAMES`]; `None` for `hopper`.
    pub fn tile(&self) -> Option<usize> {
        self.way.map(|way| way.tile())
    }

    /// The time by the model, in picoseconds, beside that of any launch.
    pub fn time(&self, costs: &Costs) -> f32 {
        let Trial { product, way, multiprocessors } = self;
        match way {
            Some(way) => way.time(product, *multiprocessors, costs),
            None => super::tuned::layout(product)
                .map_or(f32::INFINITY, |layout| hopper_time(product, *multiprocessors, layout, costs).0),
        }
    }
}

/// The product of dense operands of a type, A along K and B along K or else along N.
fn dense(kind: &str, [m, n, k]: [u32; 3], b_k_major: bool) -> Option<Product> {
    let (kind, output) = match kind {
        "f16" => (params::F16, params::F16),
        "bf16" => (params::BF16, params::BF16),
        "tf32" => (params::TF32, params::F32),
        "e4m3" => (params::E4M3, params::BF16),
        "i8" => (params::I8, params::I32),
        _ => return None,
    };
    let (element, row) = (size(kind), u64::from(n) * size(output));
    let dense = |extent: u32| if extent > 1 { element } else { 0 };
    let pitch = |extent: u32, others: u32| if others > 1 { u64::from(extent) * element } else { 0 };
    let (line, along) = if b_k_major { (pitch(k, n), dense(k)) } else { (dense(n), pitch(n, k)) };
    Some(Product {
        kind,
        m,
        n,
        k,
        batches: 1,
        a: Source { at: 0, line: pitch(k, m), k: dense(k), batch: 0 },
        b: Source { at: 0, line, k: along, batch: 0 },
        c: Matrix { at: 0, row: if m > 1 { row } else { 0 }, column: size(output), batch: 0 },
        residual: Matrix::default(),
        epilogue: Epilogue { kind: output, ..Epilogue::default() },
        has_options: false,
        deterministic: false,
    })
}

/// The choice that [`Gemm::choose`](super::Gemm::choose) makes on a Hopper chip with so many SMs. The operands are those of [`Trial::new`]; the product
/// may have options, such as a bias. `None` for a type without kernels.
pub fn choice(kind: &str, shape: [u32; 3], b_k_major: bool, has_options: bool, multiprocessors: u32) -> Option<Choice> {
    let product = Product { has_options, ..dense(kind, shape, b_k_major)? };
    chosen(&product, multiprocessors)
}

/// The same for batches, whose operands may lie anywhere: `padding` has for A, B and C the bytes that are added to the address, to the stride of
/// batches and to that of lines. For tests of what a kept choice depends on.
#[doc(hidden)]
pub fn choice_of_batches(
    (kind, shape, b_k_major): (&str, [u32; 3], bool),
    batches: usize,
    padding: [[u64; 3]; 3],
    deterministic: bool,
) -> Option<Choice> {
    let mut product = Product { batches, deterministic, ..dense(kind, shape, b_k_major)? };
    let [m, n, k] = shape.map(u64::from);
    let element = size(product.kind);
    for (of, lines, [at, batch, line]) in
        [(&mut product.a, m * k * element, padding[0]), (&mut product.b, n * k * element, padding[1])]
    {
        let pitch = if of.k == element { &mut of.line } else { &mut of.k };
        (*pitch, of.at, of.batch) = (*pitch + line, at, lines + batch);
    }
    let [at, batch, line] = padding[2];
    let c = &mut product.c;
    (c.at, c.row, c.batch) = (at, c.row + line, m * c.row + batch);
    chosen(&product, 132)
}

/// The choice on a Hopper chip with so many SMs, where memory never decides.
fn chosen(product: &Product, multiprocessors: u32) -> Option<Choice> {
    let device = Properties::of_chip(90, multiprocessors);
    let setting = Setting { device, available: usize::MAX / 2, is_plain: !product.has_options };
    choice::choose(product, &setting).ok().map(Choice::from)
}

/// The time of the kernels of `hopper`, and the one that takes it.
pub(super) fn hopper_time(
    product: &Product,
    multiprocessors: u32,
    layout: hopper::Layout,
    costs: &Costs,
) -> (f32, hopper::Pick) {
    let Product { m, n, k, kind, .. } = *product;
    hopper::estimate(multiprocessors / 2 * 2, [m, n, k], size(kind), layout, costs)
}

impl Costs {
    /// The least time in which memory moves A, B and C, of elements of `size` bytes, and for C `to`.
    #[inline(always)]
    pub(super) fn memory(&self, [m, n, k]: [f32; 3], size: f32, to: f32) -> f32 {
        self.byte * (size * k * (m + n) + WRITTEN * to * m * n)
    }

    /// All times, tile by tile, then the others in the order of the fields.
    pub fn values(&self) -> Vec<f32> {
        let mut costs = *self;
        costs.times().map(|time| *time).collect()
    }

    /// The same with other values; those that are missing stay.
    pub fn with_values(mut self, values: &[f32]) -> Costs {
        self.times().zip(values).for_each(|(old, new)| *old = *new);
        self
    }

    fn times(&mut self) -> impl Iterator<Item = &mut f32> {
        let tiles = self.tiles.iter_mut().flat_map(|t| [&mut t.slice, &mut t.latency, &mut t.tile, &mut t.part]);
        tiles.chain([
            &mut self.pack,
            &mut self.copied_byte,
            &mut self.reduce,
            &mut self.reduce_inside,
            &mut self.part_byte,
            &mut self.byte,
            &mut self.ragged,
            &mut self.line,
            &mut self.column,
            &mut self.column_latency,
            &mut self.column_round,
            &mut self.hopper,
            &mut self.saved,
        ])
    }
}

const fn cost(slice: f32, latency: f32, tile: f32, part: f32) -> Cost {
    Cost { slice, latency, tile, part }
}

/// The times that choices use for operands of this type.
pub(super) const fn shipped(kind: u32) -> &'static Costs {
    if size(kind) == 2 { &SHIPPED } else { &SHIPPED_OF_OTHERS }
}

/// The times of operands of 16 bits on an H100: fitted to single launches of 2,692 products of `bf16`, then moved by 0.6 of the way to those that
/// fit 136 products of ten launches in a row (and, in single ones, the kernels chosen for 1,754). Those of `M192X192_1X2` went all of the way, because
/// they were a fifth too short for products with a short K. The times of `hopper` fit its own launches in a row. `saved` is larger than these say: in
/// more launches in a row the power limit slows the other kernels down.
pub const SHIPPED: Costs = Costs {
    tiles: [
        cost(567e3, 2900e3, 503e3, 189e3), // SIMT_LARGE
        cost(834e3, 916e3, 565e3, 310e3),  // SIMT_F32
        cost(585e3, 710e3, 1497e3, 280e3), // SIMT_16
        cost(418e3, 1109e3, 191e3, 144e3), // SIMT_8
        cost(340e3, 70e3, 387e3, 421e3),   // ROWS_K
        cost(55e3, 279e3, 109e3, 224e3),   // ROWS_K_SMALL
        cost(544e3, 669e3, 498e3, 103e3),  // ROWS_N
        cost(143e3, 202e3, 61e3, 120e3),   // ROWS_N_SMALL
        cost(863e3, 82e3, 686e3, 112e3),   // RUNS_K
        cost(138e3, 451e3, 1015e3, 766e3), // RUNS_K_SMALL
        cost(565e3, 599e3, 2682e3, 162e3), // MMA_LARGE
        cost(273e3, 405e3, 1e3, 313e3),    // MMA_MEDIUM
        cost(184e3, 203e3, 69e3, 212e3),   // MMA_NARROW
        cost(651e3, 608e3, 3846e3, 429e3), // WIDE
        cost(425e3, 394e3, 3910e3, 2e3),   // MIDDLE
        cost(619e3, 387e3, 3624e3, 1e3),   // MIDDLE_ALONE
        cost(160e3, 306e3, 2773e3, 621e3), // SQUARE
        cost(180e3, 242e3, 1296e3, 133e3), // SLIM
        cost(66e3, 174e3, 1258e3, 136e3),  // SMALL
        cost(48e3, 106e3, 963e3, 60e3),    // TINY
        cost(357e3, 315e3, 5586e3, 168e3), // LEAN
        cost(466e3, 605e3, 3381e3, 0.0),   // FEW192
        cost(338e3, 378e3, 3733e3, 40e3),  // FEW160
        cost(355e3, 210e3, 4300e3, 66e3),  // FEW128
        cost(262e3, 258e3, 1503e3, 258e3), // FEW64
        cost(46e3, 227e3, 611e3, 39e3),    // FEW16
        cost(288e3, 244e3, 2772e3, 73e3),  // THIN
        cost(287e3, 233e3, 1270e3, 76e3),  // SLIM_ALONE
        cost(156e3, 167e3, 2639e3, 62e3),  // LOW
        cost(147e3, 133e3, 1913e3, 134e3), // SMALL_PAIR
        cost(280e3, 245e3, 2549e3, 39e3),  // FEW96
        cost(314e3, 187e3, 1626e3, 243e3), // FEW64_PAIR
        cost(87e3, 178e3, 2222e3, 168e3),  // FEW32
        cost(130e3, 88e3, 1322e3, 90e3),   // FEW32_LOW
        cost(83e3, 157e3, 437e3, 0.0),     // M64X64_1X1
        cost(113e3, 131e3, 350e3, 0.0),    // M64X64_1X2
        cost(214e3, 210e3, 884e3, 0.0),    // M64X128_1X1
        cost(379e3, 412e3, 1821e3, 0.0),   // M128X192_2X1
        cost(540e3, 456e3, 2059e3, 0.0),   // M128X256_2X1
        cost(500e3, 673e3, 2062e3, 0.0),   // M192X192_1X1
        cost(525e3, 613e3, 1750e3, 0.0),   // M192X192_1X2
        cost(176e3, 56e3, 195e3, 0.0),     // T16X64_1X1
        cost(46e3, 110e3, 381e3, 0.0),     // T32X64_1X1
        cost(182e3, 86e3, 1223e3, 0.0),    // T64X64_1X1
        cost(147e3, 91e3, 695e3, 0.0),     // T64X64_1X4
        cost(238e3, 167e3, 496e3, 0.0),    // T112X64_1X1
        cost(165e3, 234e3, 695e3, 0.0),    // T64X128_1X1
        cost(230e3, 135e3, 707e3, 0.0),    // T128X64_1X4
        cost(227e3, 159e3, 1611e3, 0.0),   // T80X128_4X2
        cost(301e3, 242e3, 852e3, 0.0),    // T96X128_2X1
        cost(363e3, 265e3, 1105e3, 0.0),   // T128X128_1X2
        cost(313e3, 303e3, 562e3, 0.0),    // T128X128_2X1
        cost(324e3, 255e3, 1385e3, 0.0),   // T128X128_2X4
        cost(362e3, 280e3, 1142e3, 0.0),   // T96X192_2X1
        cost(294e3, 378e3, 872e3, 0.0),    // T144X128_2X1
        cost(319e3, 359e3, 671e3, 0.0),    // T160X128_2X1
        cost(265e3, 437e3, 1213e3, 0.0),   // T192X128_1X2
        cost(486e3, 406e3, 1896e3, 0.0),   // T224X128_1X2
        cost(284e3, 469e3, 2327e3, 0.0),   // T160X192_2X1
        cost(305e3, 469e3, 2038e3, 0.0),   // T240X128_1X2
        cost(724e3, 591e3, 2069e3, 0.0),   // T160X256_2X1
        cost(416e3, 682e3, 3689e3, 0.0),   // T176X256_2X1
    ],
    pack: 1181e3,
    copied_byte: 0.672,
    reduce: 2838e3,
    reduce_inside: 938e3,
    part_byte: 0.438,
    byte: 0.169,
    ragged: 0.223,
    line: 167.1,
    column: 2.45e3,
    column_latency: 500.0,
    column_round: 5.3e3,
    hopper: 1000e3,
    saved: 0.25,
};

/// The times of some tiles; the others are only of 16 bits.
const fn and_of_16_bits<const N: usize>(some: [Cost; N]) -> [Cost; NAMES.len()] {
    let (mut tiles, mut at) = (SHIPPED.tiles, 0);
    while at < N {
        tiles[at] = some[at];
        at += 1;
    }
    tiles
}

/// Those of all others, fitted to 1,458 products of `bf16`, `tf32`, `e4m3` and `i8`, but for tiles that no kernel of theirs has, and `RUNS_K` and
/// `RUNS_K_SMALL`, whose times are those of 16 bits.
pub const SHIPPED_OF_OTHERS: Costs = Costs {
    tiles: and_of_16_bits([
        cost(3316e3, 2783e3, 295e3, 416e3), // SIMT_LARGE
        cost(243e3, 818e3, 413e3, 186e3),   // SIMT_F32
        cost(369e3, 1453e3, 511e3, 190e3),  // SIMT_16
        cost(409e3, 758e3, 614e3, 295e3),   // SIMT_8
        cost(328e3, 323e3, 891e3, 303e3),   // ROWS_K
        cost(80e3, 339e3, 146e3, 146e3),    // ROWS_K_SMALL
        cost(609e3, 893e3, 861e3, 172e3),   // ROWS_N
        cost(104e3, 806e3, 245e3, 173e3),   // ROWS_N_SMALL
        cost(664e3, 189e3, 797e3, 95e3),    // RUNS_K
        cost(122e3, 431e3, 401e3, 673e3),   // RUNS_K_SMALL
        cost(653e3, 552e3, 3023e3, 127e3),  // MMA_LARGE
        cost(240e3, 559e3, 4e3, 257e3),     // MMA_MEDIUM
        cost(151e3, 207e3, 351e3, 293e3),   // MMA_NARROW
        cost(512e3, 715e3, 1851e3, 694e3),  // WIDE
        cost(526e3, 481e3, 1538e3, 2e3),    // MIDDLE
        cost(640e3, 696e3, 1445e3, 3e3),    // MIDDLE_ALONE
        cost(302e3, 364e3, 1085e3, 398e3),  // SQUARE
        cost(355e3, 253e3, 582e3, 202e3),   // SLIM
        cost(245e3, 155e3, 591e3, 283e3),   // SMALL
        cost(134e3, 239e3, 667e3, 179e3),   // TINY
        cost(428e3, 367e3, 1621e3, 151e3),  // LEAN
        cost(483e3, 461e3, 4890e3, 0.0),    // FEW192
        cost(432e3, 1046e3, 4518e3, 63e3),  // FEW160
        cost(330e3, 392e3, 1820e3, 152e3),  // FEW128
        cost(263e3, 278e3, 808e3, 247e3),   // FEW64
        cost(338e3, 161e3, 528e3, 58e3),    // FEW16
        cost(277e3, 108e3, 1039e3, 329e3),  // THIN
        cost(274e3, 303e3, 478e3, 203e3),   // SLIM_ALONE
        cost(111e3, 217e3, 997e3, 187e3),   // LOW
        cost(80e3, 138e3, 587e3, 193e3),    // SMALL_PAIR
        cost(200e3, 385e3, 1808e3, 94e3),   // FEW96
        cost(344e3, 283e3, 737e3, 301e3),   // FEW64_PAIR
        cost(153e3, 121e3, 383e3, 119e3),   // FEW32
        cost(103e3, 116e3, 467e3, 89e3),    // FEW32_LOW
    ]),
    pack: 2576e3,
    copied_byte: 0.693,
    reduce: 2061e3,
    reduce_inside: 1202e3,
    part_byte: 1.011,
    byte: 0.0,
    ragged: 0.0,
    line: 163.1,
    column: 3.40e3,
    column_latency: 94.7,
    column_round: 12.3,
    hopper: 854e3,
    saved: 0.4,
};

//! The cost model behind the choice of a kernel: [`SHIPPED`] has the times of the kernels, in picoseconds. They are fitted to
//! measurements of random products: `bench --filter "gemm choice" --records FILE` takes them with [`Tuner`](ptx_launch::Tuner) and keeps
//! them as [`Records`](ptx_launch::Records), and `bench --fit FILE` writes the body of [`SHIPPED`]. [`Trial`] is for that program.

use super::hopper;
use super::params::{self, Epilogue, Matrix, Source};
use super::plan::Way;
use super::problem::{Product, size};

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
    /// Of `hopper`: a column of 128 rows for 128 bytes along K on a busy device.
    pub column: f32,
    /// The least time of such a column.
    pub column_latency: f32,
    /// Of a column in each round of tiles.
    pub column_round: f32,
    /// Of all that is before and behind.
    pub hopper: f32,
}

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
        [m, n, k]: [u32; 3],
        b_k_major: bool,
        (algorithm, splits): (&str, u32),
        multiprocessors: u32,
    ) -> Option<Trial> {
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
        let a = Source { at: 0, line: pitch(k, m), k: dense(k), batch: 0 };
        let (line, along) = if b_k_major { (pitch(k, n), dense(k)) } else { (dense(n), pitch(n, k)) };
        let product = Product {
            kind,
            m,
            n,
            k,
            batches: 1,
            a,
            b: Source { at: 0, line, k: along, batch: 0 },
            c: Matrix { at: 0, row: if m > 1 { row } else { 0 }, column: size(output), batch: 0 },
            residual: Matrix::default(),
            epilogue: Epilogue { kind: output, ..Epilogue::default() },
            deterministic: false,
        };
        if algorithm == super::tuned::NAME {
            let _layout = super::tuned::layout(&product)?;
            return Some(Trial { product, way: None, multiprocessors });
        }
        let product = product.oriented();
        Some(Trial { product, way: Some(Way::named(&product, algorithm, splits)?), multiprocessors })
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
            &mut self.column,
            &mut self.column_latency,
            &mut self.column_round,
            &mut self.hopper,
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

/// The times of operands of 16 bits, fitted to 2,395 products of `bf16` on an H100.
pub const SHIPPED: Costs = Costs {
    tiles: [
        cost(1105e3, 2445e3, 879e3, 265e3), // SIMT_LARGE
        cost(1279e3, 1151e3, 798e3, 366e3), // SIMT_F32
        cost(718e3, 750e3, 709e3, 173e3),   // SIMT_16
        cost(713e3, 897e3, 577e3, 121e3),   // SIMT_8
        cost(264e3, 213e3, 414e3, 233e3),   // ROWS_K
        cost(59e3, 191e3, 93e3, 430e3),     // ROWS_K_SMALL
        cost(253e3, 934e3, 697e3, 164e3),   // ROWS_N
        cost(144e3, 502e3, 103e3, 217e3),   // ROWS_N_SMALL
        cost(579e3, 128e3, 1193e3, 320e3),  // RUNS_K
        cost(159e3, 544e3, 400e3, 674e3),   // RUNS_K_SMALL
        cost(487e3, 765e3, 2991e3, 126e3),  // MMA_LARGE
        cost(324e3, 365e3, 2e3, 90e3),      // MMA_MEDIUM
        cost(173e3, 81e3, 54e3, 250e3),     // MMA_NARROW
        cost(643e3, 675e3, 2389e3, 469e3),  // WIDE
        cost(245e3, 668e3, 1075e3, 4e3),    // MIDDLE
        cost(613e3, 594e3, 3767e3, 5e3),    // MIDDLE_ALONE
        cost(419e3, 421e3, 1097e3, 290e3),  // SQUARE
        cost(267e3, 311e3, 562e3, 147e3),   // SLIM
        cost(266e3, 158e3, 636e3, 172e3),   // SMALL
        cost(176e3, 104e3, 329e3, 84e3),    // TINY
        cost(446e3, 415e3, 2719e3, 124e3),  // LEAN
        cost(439e3, 510e3, 3042e3, 0.0),    // FEW192
        cost(448e3, 438e3, 2597e3, 49e3),   // FEW160
        cost(374e3, 382e3, 1469e3, 204e3),  // FEW128
        cost(355e3, 344e3, 570e3, 261e3),   // FEW64
        cost(359e3, 109e3, 305e3, 38e3),    // FEW16
        cost(337e3, 348e3, 1066e3, 244e3),  // THIN
        cost(403e3, 285e3, 636e3, 194e3),   // SLIM_ALONE
        cost(236e3, 221e3, 1143e3, 203e3),  // LOW
        cost(217e3, 167e3, 747e3, 123e3),   // SMALL_PAIR
        cost(289e3, 341e3, 1209e3, 56e3),   // FEW96
        cost(425e3, 277e3, 853e3, 146e3),   // FEW64_PAIR
        cost(155e3, 342e3, 286e3, 96e3),    // FEW32
        cost(270e3, 76e3, 298e3, 168e3),    // FEW32_LOW
    ],
    pack: 1313e3,
    copied_byte: 0.685,
    reduce: 2383e3,
    reduce_inside: 749e3,
    part_byte: 0.922,
    byte: 0.081,
    ragged: 0.610,
    column: 2.88e3,
    column_latency: 203.0,
    column_round: 27.4,
    hopper: 1630e3,
};

/// Those of all others, fitted to 1,458 products of `bf16`, `tf32`, `e4m3` and `i8`, but for tiles that no kernel of theirs has, and `RUNS_K` and
/// `RUNS_K_SMALL`, whose times are those of 16 bits.
pub const SHIPPED_OF_OTHERS: Costs = Costs {
    tiles: [
        cost(1690e3, 2059e3, 375e3, 234e3), // SIMT_LARGE
        cost(526e3, 725e3, 535e3, 205e3),   // SIMT_F32
        cost(442e3, 1161e3, 494e3, 220e3),  // SIMT_16
        cost(650e3, 766e3, 477e3, 282e3),   // SIMT_8
        cost(287e3, 269e3, 860e3, 323e3),   // ROWS_K
        cost(50e3, 292e3, 265e3, 280e3),    // ROWS_K_SMALL
        cost(270e3, 715e3, 763e3, 196e3),   // ROWS_N
        cost(66e3, 713e3, 241e3, 205e3),    // ROWS_N_SMALL
        cost(579e3, 128e3, 1193e3, 320e3),  // RUNS_K
        cost(159e3, 544e3, 400e3, 674e3),   // RUNS_K_SMALL
        cost(554e3, 542e3, 2030e3, 143e3),  // MMA_LARGE
        cost(284e3, 472e3, 4e3, 180e3),     // MMA_MEDIUM
        cost(156e3, 181e3, 263e3, 253e3),   // MMA_NARROW
        cost(607e3, 779e3, 3115e3, 710e3),  // WIDE
        cost(620e3, 456e3, 1996e3, 2e3),    // MIDDLE
        cost(658e3, 720e3, 1605e3, 3e3),    // MIDDLE_ALONE
        cost(410e3, 368e3, 1368e3, 450e3),  // SQUARE
        cost(290e3, 207e3, 754e3, 248e3),   // SLIM
        cost(200e3, 190e3, 560e3, 250e3),   // SMALL
        cost(140e3, 150e3, 560e3, 150e3),   // TINY
        cost(450e3, 430e3, 1800e3, 150e3),  // LEAN
        cost(369e3, 520e3, 5291e3, 0.0),    // FEW192
        cost(402e3, 417e3, 3900e3, 57e3),   // FEW160
        cost(435e3, 314e3, 2501e3, 114e3),  // FEW128
        cost(324e3, 212e3, 811e3, 216e3),   // FEW64
        cost(213e3, 149e3, 655e3, 111e3),   // FEW16
        cost(320e3, 300e3, 1000e3, 250e3),  // THIN
        cost(300e3, 300e3, 489e3, 216e3),   // SLIM_ALONE
        cost(220e3, 230e3, 800e3, 200e3),   // LOW
        cost(146e3, 179e3, 547e3, 116e3),   // SMALL_PAIR
        cost(340e3, 300e3, 1400e3, 130e3),  // FEW96
        cost(300e3, 247e3, 1101e3, 118e3),  // FEW64_PAIR
        cost(110e3, 190e3, 600e3, 90e3),    // FEW32
        cost(143e3, 129e3, 382e3, 135e3),   // FEW32_LOW
    ],
    pack: 3018e3,
    copied_byte: 0.448,
    reduce: 1535e3,
    reduce_inside: 715e3,
    part_byte: 0.511,
    byte: 0.0,
    ragged: 0.0,
    column: 3.49e3,
    column_latency: 95.6,
    column_round: 17.0,
    hopper: 2163e3,
};

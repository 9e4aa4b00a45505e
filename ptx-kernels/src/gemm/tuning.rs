//! The cost model behind the choice of a kernel: [`SHIPPED`] has the times of the kernels on an H200, in picoseconds. They are fitted to
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
    SIMT_LARGE SIMT_F32 SIMT_16 SIMT_8 ROWS_K ROWS_K_SMALL ROWS_N ROWS_N_SMALL
    MMA_LARGE MMA_MEDIUM MMA_NARROW
    WIDE MIDDLE MIDDLE_ALONE SQUARE SLIM FEW192 FEW128 FEW64 FEW16
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
        let tiles = self.tiles.iter().flat_map(|tile| [tile.slice, tile.latency, tile.tile, tile.part]);
        tiles.chain(self.others()).collect()
    }

    /// The same with other values; those that are missing stay.
    pub fn with_values(mut self, values: &[f32]) -> Costs {
        let mut values = values.iter().copied();
        let tiles = self.tiles.iter_mut().flat_map(|t| [&mut t.slice, &mut t.latency, &mut t.tile, &mut t.part]);
        tiles.zip(&mut values).for_each(|(old, new)| *old = new);
        let Costs {
            pack,
            copied_byte,
            reduce,
            reduce_inside,
            part_byte,
            column,
            column_latency,
            column_round,
            hopper,
            ..
        } = &mut self;
        let others =
            [pack, copied_byte, reduce, reduce_inside, part_byte, column, column_latency, column_round, hopper];
        others.into_iter().zip(values).for_each(|(old, new)| *old = new);
        self
    }

    fn others(&self) -> [f32; 9] {
        let Costs {
            pack,
            copied_byte,
            reduce,
            reduce_inside,
            part_byte,
            column,
            column_latency,
            column_round,
            hopper,
            ..
        } = *self;
        [pack, copied_byte, reduce, reduce_inside, part_byte, column, column_latency, column_round, hopper]
    }
}

const fn cost(slice: f32, latency: f32, tile: f32, part: f32) -> Cost {
    Cost { slice, latency, tile, part }
}

/// The times that choices use.
pub const SHIPPED: Costs = Costs {
    tiles: [
        cost(1589e3, 1700e3, 449e3, 317e3), // SIMT_LARGE
        cost(469e3, 788e3, 549e3, 269e3),   // SIMT_F32
        cost(494e3, 1055e3, 547e3, 197e3),  // SIMT_16
        cost(934e3, 692e3, 512e3, 406e3),   // SIMT_8
        cost(211e3, 286e3, 621e3, 249e3),   // ROWS_K
        cost(50e3, 235e3, 182e3, 369e3),    // ROWS_K_SMALL
        cost(338e3, 749e3, 767e3, 227e3),   // ROWS_N
        cost(82e3, 710e3, 230e3, 176e3),    // ROWS_N_SMALL
        cost(461e3, 620e3, 2401e3, 101e3),  // MMA_LARGE
        cost(256e3, 405e3, 3e3, 210e3),     // MMA_MEDIUM
        cost(193e3, 119e3, 187e3, 189e3),   // MMA_NARROW
        cost(658e3, 742e3, 2710e3, 602e3),  // WIDE
        cost(667e3, 495e3, 1764e3, 3e3),    // MIDDLE
        cost(628e3, 776e3, 2119e3, 3e3),    // MIDDLE_ALONE
        cost(380e3, 332e3, 1458e3, 429e3),  // SQUARE
        cost(338e3, 181e3, 628e3, 192e3),   // SLIM
        cost(392e3, 525e3, 4067e3, 0.0),    // FEW192
        cost(383e3, 330e3, 1611e3, 149e3),  // FEW128
        cost(303e3, 175e3, 1002e3, 126e3),  // FEW64
        cost(225e3, 167e3, 466e3, 62e3),    // FEW16
    ],
    pack: 3441e3,
    copied_byte: 0.465,
    reduce: 1747e3,
    reduce_inside: 989e3,
    part_byte: 0.671,
    column: 3.49e3,
    column_latency: 107.8,
    column_round: 19.8,
    hopper: 2165e3,
};

//! The cost model behind the choice of a kernel: [`Costs`] has the times of the kernels, in picoseconds. They are fitted to
//! measurements of random products: `bench --filter "gemm choice" --records FILE` takes them with [`Tuner`](ptx_launch::Tuner) and keeps
//! them as [`Records`](ptx_launch::Records), with `--row 10` for launches in a row, and `bench --fit FILE` prints [`Costs`] as source text.
//! [`Dense`] is for that program.

use super::builder::Choice;
use super::cost::{self, Extents};
use super::costs::{BITS_16, BITS_32, FLOATS_8, INTEGERS_8};
use super::instance::{Instance, instances};
use super::params::{self, Epilogue, Matrix, Source};
use super::plan::{Operation, Operations};
use super::problem::{self, Product, size};
use super::search::{self, Setting};
use ptx_launch::Properties;
use std::borrow::Cow;

/// The times of an instance, or of those that differ in their majors alone.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The instance, in the latter case without its majors.
    pub name: &'static str,
    /// Of a slice of K on a busy SM. With the claimed and stream-K schedulers of a column of 128 rows in such a slice.
    pub slice: f32,
    /// The least time of a slice, or column.
    pub latency: f32,
    /// The prologue and the epilogue of a tile. With these schedulers of a column in each round of tiles.
    pub tile: f32,
    /// The part of them that each later tile of an SM adds. The slices of other tiles hide the rest, and more of it where several blocks share the SM.
    pub later: f32,
    /// For each part of K that is added up.
    pub part: f32,
}

/// Defines [`Costs`]: the times that instances share, listed once.
macro_rules! costs {
    ($($(#[$doc:meta])* $time:ident,)*) => {
        /// The times of everything, for types of operands whose kernels take the same times.
        #[derive(Clone, Debug)]
        pub struct Costs {
            /// Their constant in `gemm::costs`.
            pub name: &'static str,
            /// Of each instance.
            pub tiles: Cow<'static, [Cost]>,
            $($(#[$doc])* pub $time: f32,)*
        }

        impl Costs {
            /// The names of the times that follow those of the instances, in the order of [`values`](Costs::values).
            pub const NAMES: &'static [&'static str] = &[$(stringify!($time)),*];

            /// The times of the instances, then the others in the order of the fields.
            fn times(&mut self) -> impl Iterator<Item = &mut f32> {
                let tiles = self.tiles.to_mut().iter_mut();
                let of_tiles = tiles.flat_map(|cost| [&mut cost.slice, &mut cost.latency, &mut cost.tile, &mut cost.later, &mut cost.part]);
                of_tiles.chain([$(&mut self.$time),*])
            }
        }
    };
}
costs! {
    /// Of a launch that copies operands.
    pack,
    /// Of a byte of a copy, where rows are dense.
    copied_byte,
    /// The same of other rows, which go through shared memory element by element.
    turned_byte,
    /// Of a launch that adds up parts of K.
    reduce,
    /// Of the same in the kernel.
    reduce_inside,
    /// Of a byte of a part.
    part_byte,
    /// Of a byte of A, B or C in memory.
    byte,
    /// Of an element of C in rows at odd addresses, by kernels with the generic epilogue and TMA.
    ragged,
    /// Of a byte that copies of 4 bytes move, where rows are not aligned for 16, for kernels that load operands by runs.
    narrow,
    /// Of an element of B that lies along N, for kernels of few rows that read it along K.
    across,
    /// By how many times this grows where the rows of B are a multiple of 128 bytes apart: then all lanes read from one bank.
    banks,
    /// Of a cache line more of a row, for kernels of TMA.
    line,
    /// Of a cache line, where all SMs load, with the claimed and stream-K schedulers.
    claimed_line,
    /// The prologue and the epilogue of their launch.
    claimed_start,
    /// The part of the time that they take less in long products.
    saved,
    /// The part of the shorter one of a slice's two times, that of its own latency and that on a busy chip, by which it is longer than the longer
    /// one, for other kernels of TMA.
    contention,
}

/// The part of the time of a byte in memory that a byte of C takes, which may stay in the second-level cache.
const WRITTEN: f32 = 0.5;

/// A product of dense operands, A along K and B along K or else along N, on a Hopper chip with so many SMs: what times are measured of.
pub struct Dense {
    operations: Operations,
    multiprocessors: u32,
}

/// A way to make a product: an algorithm, with K in so many parts.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    instance: &'static Instance,
    splits: u32,
    is_tried: bool,
}

/// A product by the times of some [`Costs`].
pub struct Estimates<'c> {
    straight: Extents,
    turned: Option<Extents>,
    costs: &'c Costs,
}

impl Dense {
    /// The product of operands of the type that algorithms call `kind`; `None` for a type without kernels.
    pub fn new(kind: &str, shape: [u32; 3], b_k_major: bool, multiprocessors: u32) -> Option<Dense> {
        let operations = Operations::new(&dense(kind, shape, b_k_major)?.oriented());
        Some(Dense { operations, multiprocessors })
    }

    /// The way by an algorithm with K in so many parts; `None` if the algorithm does not take the product.
    pub fn trial(&self, algorithm: &str, splits: u32) -> Option<Trial> {
        let product = &self.operations.straight.product;
        let instance = instances(product.kind).find(|instance| instance.name == algorithm)?;
        let device = Properties::of_chip(90, self.multiprocessors);
        let is_tried = search::Tried::new(product, &self.operations.straight.ways, device).includes(instance);
        instance.takes(self.operations.of(instance)).then_some(Trial { instance, splits, is_tried })
    }

    /// The times that choices use for it.
    pub fn costs(&self) -> &'static Costs {
        shipped(self.operations.straight.product.kind)
    }

    /// The product by these times.
    pub fn estimates<'c>(&self, costs: &'c Costs) -> Estimates<'c> {
        let of = |operation: &Operation| Extents::new(&operation.product, &operation.ways, self.multiprocessors, costs);
        let Operations { straight, turned } = &self.operations;
        Estimates { straight: of(straight), turned: turned.as_ref().map(of), costs }
    }
}

impl Trial {
    /// The row of [`Costs::tiles`] with the times of its algorithm.
    pub fn tile(&self) -> usize {
        self.instance.cost
    }

    /// True if a choice considers the algorithm for the product.
    pub fn is_tried(&self) -> bool {
        self.is_tried
    }
}

impl Estimates<'_> {
    /// The time of a way to make the product, in picoseconds, without that of any launch.
    pub fn time(&self, trial: &Trial) -> f32 {
        let turned = self.turned.as_ref().filter(|_| trial.instance.family.has_scratch());
        cost::time(trial.instance, turned.unwrap_or(&self.straight), trial.splits, self.costs)
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

/// The choice that [`Gemm::choose`](super::Gemm::choose) makes on a Hopper chip with so many SMs. The operands are those of [`Dense`]; the product
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
    let setting = Setting { device, available: usize::MAX / 2 };
    search::choose(&product.oriented(), &setting, || true).ok().map(Choice::from)
}

/// The times that choices use for operands of a type, by the name that [`algorithms`](super::algorithms) takes.
pub fn shipped_for(kind: &str) -> Option<&'static Costs> {
    problem::kind_of(kind).map(shipped)
}

/// The times that choices use for operands of this type.
pub(super) fn shipped(kind: u32) -> &'static Costs {
    match kind {
        params::F16 | params::BF16 => &BITS_16,
        params::E4M3 | params::E5M2 => &FLOATS_8,
        params::I8 => &INTEGERS_8,
        _ => &BITS_32,
    }
}

/// True if `row` is `m16n64k32_1x1_mma` for `m16n64k32_1x1_kn_mma`.
pub fn is_without_majors(row: &str, name: &str) -> bool {
    row.split('_').eq(name.split('_').enumerate().filter(|(at, _)| *at != 2).map(|(_, word)| word))
}

impl Cost {
    pub(super) const fn new(name: &'static str, [slice, latency, tile, later, part]: [f32; 5]) -> Cost {
        Cost { name, slice, latency, tile, later, part }
    }
}

impl Costs {
    /// The row of an instance: its own one, or that of all instances which differ from it in their majors alone.
    pub(super) fn find(&self, name: &str) -> usize {
        let is_of = |row: &str| row == name || is_without_majors(row, name);
        let row = self.tiles.iter().position(|cost| is_of(cost.name));
        debug_assert!(row.is_some(), "`{name}` has no times in `gemm::costs`");
        row.unwrap_or(0)
    }

    /// The least time in which memory moves A, B and C, of elements of `size` bytes, and for C `to`.
    pub(super) fn memory(&self, [m, n, k]: [f32; 3], size: f32, to: f32) -> f32 {
        self.byte * (size * k * (m + n) + WRITTEN * to * m * n)
    }

    /// All times, instance by instance, then the others in the order of the fields.
    pub fn values(&self) -> Vec<f32> {
        self.clone().times().map(|time| *time).collect()
    }

    /// The same with other values; those that are missing stay.
    pub fn with_values(mut self, values: &[f32]) -> Costs {
        self.times().zip(values).for_each(|(old, new)| *old = *new);
        self
    }
}

//! Element-wise kernels: activations and gated activations, forward and backward. One family for every chip: from `sm_90` on
//! grids overlap (`griddepcontrol`), and blocks fetch ahead into the second-level cache.

use super::Activation;
use crate::rows::Rows;
use kernels::{gated, gated_backward, unary, unary_backward};
use ptx_launch::prelude::*;
use ptx_launch::{Element, Result, StreamRef, TensorMut, TensorRef};

/// The extents of all matrices of an operation: a parameter of the kernels, by value.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub(crate) struct Shape {
    rows: u32,
    columns: u32,
}

#[ptx_contract]
impl Shape {
    /// The blocks of a grid: each has `tile` elements of a row.
    fn grid(&self, tile: u32) -> u32 {
        self.rows * self.columns.div_ceil(tile)
    }

    /// Returns true if there are rows, and each is made of whole accesses of `each` elements.
    fn is_whole(&self, each: u32) -> bool {
        self.rows >= 1 && self.columns.is_multiple_of(each) && self.columns < 1 << 31
    }

    /// Returns true if `len` elements hold all rows, which are `stride` apart and begin at multiples of an access.
    fn fits(&self, len: u64, stride: u64, each: u32) -> bool {
        stride.is_multiple_of(u64::from(each)) && len >= u64::from(self.rows - 1) * stride + u64::from(self.columns)
    }

    /// Returns true if they do, and rows do not overlap.
    fn fits_apart(&self, len: u64, stride: u64, each: u32) -> bool {
        stride >= u64::from(self.columns) && self.fits(len, stride, each)
    }
}

/// The instance for accesses of 16 bytes, or of one element.
macro_rules! pick {
    ($kernel:ident, $T:ty, $wide:expr) => {
        match ($wide, size_of::<$T>()) {
            (false, _) => $kernel::Instance::by_1,
            (true, 4) => $kernel::Instance::by_4,
            (true, _) => $kernel::Instance::by_8,
        }
    };
}

type In<'a, T> = &'a TensorRef<'a, T, 2>;
type Out<'a, 'm, T> = &'a mut TensorMut<'m, T, 2>;

/// The launches of the types for which there are kernels.
pub trait Launch: Element {
    #[doc(hidden)]
    fn unary(
        stream: StreamRef<'_>,
        f: Activation,
        rows: Rows<2>,
        x: In<'_, Self>,
        out: Out<'_, '_, Self>,
    ) -> Result<()>;

    #[doc(hidden)]
    fn unary_backward(
        stream: StreamRef<'_>,
        f: Activation,
        rows: Rows<3>,
        read: [In<'_, Self>; 2],
        dx: Out<'_, '_, Self>,
    ) -> Result<()>;

    #[doc(hidden)]
    fn gated(
        stream: StreamRef<'_>,
        f: Activation,
        rows: Rows<3>,
        read: [In<'_, Self>; 2],
        out: Out<'_, '_, Self>,
    ) -> Result<()>;

    #[doc(hidden)]
    fn gated_backward(
        stream: StreamRef<'_>,
        f: Activation,
        rows: Rows<5>,
        read: [In<'_, Self>; 3],
        written: [Out<'_, '_, Self>; 2],
    ) -> Result<()>;
}

impl<T: Element> Launch for T
where
    unary::Types<T>: unary::Exists,
    unary_backward::Types<T>: unary_backward::Exists,
    gated::Types<T>: gated::Exists,
    gated_backward::Types<T>: gated_backward::Exists,
{
    fn unary(stream: StreamRef<'_>, f: Activation, rows: Rows<2>, x: In<'_, T>, out: Out<'_, '_, T>) -> Result<()> {
        let Rows { rows, columns, strides: [s, t], wide } = rows;
        let instance = pick!(unary, T, wide);
        let strides = kernels::UnaryStrides { x_stride: s, out_stride: t };
        unary::launch(instance, stream, x, out, strides, Shape { rows, columns }, f as u32)
    }

    fn unary_backward(
        stream: StreamRef<'_>,
        f: Activation,
        rows: Rows<3>,
        [x, dy]: [In<'_, T>; 2],
        dx: Out<'_, '_, T>,
    ) -> Result<()> {
        let Rows { rows, columns, strides: [s, t, u], wide } = rows;
        let instance = pick!(unary_backward, T, wide);
        let strides = kernels::UnaryGradStrides { x_stride: s, dy_stride: t, dx_stride: u };
        unary_backward::launch(instance, stream, x, dy, dx, strides, Shape { rows, columns }, f as u32)
    }

    fn gated(
        stream: StreamRef<'_>,
        f: Activation,
        rows: Rows<3>,
        [gate, up]: [In<'_, T>; 2],
        out: Out<'_, '_, T>,
    ) -> Result<()> {
        let Rows { rows, columns, strides: [s, t, u], wide } = rows;
        let instance = pick!(gated, T, wide);
        let strides = kernels::GatedStrides { gate_stride: s, up_stride: t, out_stride: u };
        gated::launch(instance, stream, gate, up, out, strides, Shape { rows, columns }, f as u32)
    }

    fn gated_backward(
        stream: StreamRef<'_>,
        f: Activation,
        rows: Rows<5>,
        [gate, up, dy]: [In<'_, T>; 3],
        [dgate, dup]: [Out<'_, '_, T>; 2],
    ) -> Result<()> {
        let Rows { rows, columns, strides: [s, t, u, v, w], wide } = rows;
        let instance = pick!(gated_backward, T, wide);
        let (inputs, outputs) = (kernels::GatedInputs { gate, up, dy }, kernels::GatedGrads { dgate, dup });
        let strides =
            kernels::GatedGradStrides { gate_stride: s, up_stride: t, dy_stride: u, dgate_stride: v, dup_stride: w };
        gated_backward::launch(instance, stream, inputs, outputs, strides, Shape { rows, columns }, f as u32)
    }
}

/// The kernels and their parts. `EACH` elements are an access: 16 bytes, or one element where rows are not aligned.
#[ptx_module(arch("sm_75", "sm_90"), params(Shape))]
pub(super) mod kernels {
    use super::Shape;

    const THREADS: u32 = 256;

    // Numbers of `Activation`.
    const GELU: u32 = 0;
    const GELU_TANH: u32 = 1;
    const SILU: u32 = 2;
    const RELU: u32 = 3;

    /// Part of a row that a thread works on.
    struct Place {
        row: u64,
        column: u64,
        inside: pred,
        whole: pred,
    }

    impl Place {
        /// The number of the place's first element: `mad.lo` by ptxas, `mul.lo` and `add` here.
        fn offset(&self, stride: u64) -> u64 {
            self.row * stride + self.column
        }
    }

    /// The place of this thread: blocks go along the rows. `div`, `mul.lo`, `sub` and others.
    fn find_place<const EACH: u32>(columns: u32) -> Place {
        const TILE: u32 = EACH * THREADS;
        let blocks: u32 = (columns + (TILE - 1)) / TILE;
        let row: u32 = ctaid.x / blocks;
        let first: u32 = (ctaid.x - row * blocks) * TILE;
        let column: u32 = first + tid.x * EACH;
        Place { row: row as u64, column: column as u64, inside: column < columns, whole: first + TILE <= columns }
    }

    /// Before `wait`: has the second-level cache fetch the part of a row that the block reads.
    fn fetch_ahead<T, const EACH: u32>(place: &Place, from: Global<T>) {
        if arch >= sm_90 {
            if EACH > 1 {
                if place.whole {
                    grid::fetch_ahead::<{ 2048 / THREADS }>(from, EACH * THREADS * size_of::<T>());
                }
            }
        }
    }

    /// Waits for the grid before, where grids overlap.
    fn wait() {
        if arch >= sm_90 {
            grid::wait();
        }
    }

    /// Lets the next grid start, where grids overlap.
    fn launch_dependents() {
        if arch >= sm_90 {
            grid::launch_dependents();
        }
    }

    /// The values of a place.
    fn load<T, const EACH: u32>(from: Global<T>, inside: pred) -> [f32; EACH] {
        vector::unpack::<T, EACH>(vector::load::<T, EACH>(from, inside, 0))
    }

    /// Rounds and writes values.
    fn store<T, const EACH: u32>(to: GlobalMut<T>, values: [f32; EACH], inside: pred) {
        vector::store::<T, EACH>(to, vector::pack::<T, EACH>(values), inside);
    }

    /// The activation of `x`, and its derivative there.
    fn differentiate<const F: u32>(x: f32) -> (f32, f32) {
        if F == RELU {
            let off: pred = x <= 0.0;
            return (off.select(0.0, x), off.select(0.0, 1.0));
        }
        let square: f32 = x * x;
        let (share, mut slope): (f32, f32);
        if F == GELU {
            share = math::normal_cdf(x);
            ptx! {
                mul.rn.f32          slope, square, -0.7213475204444817;
                ex2.approx.ftz.f32  slope, slope;
                mul.rn.f32          slope, slope, 0.3989422804014327;
            }
        } else if F == GELU_TANH {
            share = math::sigmoid_approx(x * square.fma(0.07135481282553443, 1.5957691216057308));
            slope = (share - share * share) * square.fma(0.2140644384766033, 1.5957691216057308);
        } else {
            share = math::sigmoid_approx(x);
            slope = share - share * share;
        }
        (x * share, x.fma(slope, share))
    }

    /// Values become their activations, and `slopes` the derivatives: one branch that all threads take alike.
    fn differentiate_all<const EACH: u32>(function: u32, values: &mut [f32; EACH], slopes: &mut [f32; EACH]) {
        if function == GELU {
            for i in 0..EACH {
                (values[i], slopes[i]) = differentiate::<GELU>(values[i]);
            }
        } else if function == GELU_TANH {
            for i in 0..EACH {
                (values[i], slopes[i]) = differentiate::<GELU_TANH>(values[i]);
            }
        } else if function == SILU {
            for i in 0..EACH {
                (values[i], slopes[i]) = differentiate::<SILU>(values[i]);
            }
        } else {
            for i in 0..EACH {
                (values[i], slopes[i]) = differentiate::<RELU>(values[i]);
            }
        }
    }

    /// The distance of two rows of each matrix, in elements.
    struct UnaryStrides {
        x_stride: u64,
        out_stride: u64,
    }

    /// out = f(x).
    #[ptx_kernel(
        block = THREADS,
        grid = shape.grid(EACH * THREADS),
        pdl,
        instances = [by_4 = (f32, 4), by_8 = ([bf16, f16], 8), by_1 = ([f32, bf16, f16], 1)],
        unsafe(requires(
            shape.is_whole(EACH),
            shape.fits(x.len(), strides.x_stride, EACH),
            shape.fits_apart(out.len(), strides.out_stride, EACH)
        ))
    )]
    pub fn unary<T, const EACH: u32>(
        #[align(EACH * size_of::<T>())] x: &[T],
        #[align(EACH * size_of::<T>())] out: &mut [T],
        strides: UnaryStrides,
        shape: Shape,
        function: u32,
    ) {
        let place = find_place::<EACH>(shape.columns);
        let from_x = x.at(place.offset(strides.x_stride));
        fetch_ahead::<T, EACH>(&place, from_x);
        wait();
        let mut v: [f32; EACH] = load::<T, EACH>(from_x, place.inside);
        launch_dependents();
        let mut slopes: [f32; EACH];
        differentiate_all(function, &mut v, &mut slopes);
        store::<T, EACH>(out.at(place.offset(strides.out_stride)), v, place.inside);
    }

    /// The distance of two rows of each matrix, in elements.
    struct UnaryGradStrides {
        x_stride: u64,
        dy_stride: u64,
        dx_stride: u64,
    }

    /// dx = dy · f'(x).
    #[ptx_kernel(
        block = THREADS,
        grid = shape.grid(EACH * THREADS),
        pdl,
        instances = [by_4 = (f32, 4), by_8 = ([bf16, f16], 8), by_1 = ([f32, bf16, f16], 1)],
        unsafe(requires(
            shape.is_whole(EACH),
            shape.fits(x.len(), strides.x_stride, EACH),
            shape.fits(dy.len(), strides.dy_stride, EACH),
            shape.fits_apart(dx.len(), strides.dx_stride, EACH)
        ))
    )]
    pub fn unary_backward<T, const EACH: u32>(
        #[align(EACH * size_of::<T>())] x: &[T],
        #[align(EACH * size_of::<T>())] dy: &[T],
        #[align(EACH * size_of::<T>())] dx: &mut [T],
        strides: UnaryGradStrides,
        shape: Shape,
        function: u32,
    ) {
        let place = find_place::<EACH>(shape.columns);
        let from_x = x.at(place.offset(strides.x_stride));
        let from_dy = dy.at(place.offset(strides.dy_stride));
        fetch_ahead::<T, EACH>(&place, from_x);
        fetch_ahead::<T, EACH>(&place, from_dy);
        wait();
        let mut v: [f32; EACH] = load::<T, EACH>(from_x, place.inside);
        let mut d: [f32; EACH] = load::<T, EACH>(from_dy, place.inside);
        launch_dependents();
        let mut slopes: [f32; EACH];
        differentiate_all(function, &mut v, &mut slopes);
        for i in 0..EACH {
            d[i] *= slopes[i];
        }
        store::<T, EACH>(dx.at(place.offset(strides.dx_stride)), d, place.inside);
    }

    /// The distance of two rows of each matrix, in elements.
    struct GatedStrides {
        gate_stride: u64,
        up_stride: u64,
        out_stride: u64,
    }

    /// out = f(gate) · up.
    #[ptx_kernel(
        block = THREADS,
        grid = shape.grid(EACH * THREADS),
        pdl,
        instances = [by_4 = (f32, 4), by_8 = ([bf16, f16], 8), by_1 = ([f32, bf16, f16], 1)],
        unsafe(requires(
            shape.is_whole(EACH),
            shape.fits(gate.len(), strides.gate_stride, EACH),
            shape.fits(up.len(), strides.up_stride, EACH),
            shape.fits_apart(out.len(), strides.out_stride, EACH)
        ))
    )]
    pub fn gated<T, const EACH: u32>(
        #[align(EACH * size_of::<T>())] gate: &[T],
        #[align(EACH * size_of::<T>())] up: &[T],
        #[align(EACH * size_of::<T>())] out: &mut [T],
        strides: GatedStrides,
        shape: Shape,
        function: u32,
    ) {
        let place = find_place::<EACH>(shape.columns);
        let from_gate = gate.at(place.offset(strides.gate_stride));
        let from_up = up.at(place.offset(strides.up_stride));
        fetch_ahead::<T, EACH>(&place, from_gate);
        fetch_ahead::<T, EACH>(&place, from_up);
        wait();
        let mut v: [f32; EACH] = load::<T, EACH>(from_gate, place.inside);
        let mut u: [f32; EACH] = load::<T, EACH>(from_up, place.inside);
        launch_dependents();
        let mut slopes: [f32; EACH];
        differentiate_all(function, &mut v, &mut slopes);
        for i in 0..EACH {
            v[i] *= u[i];
        }
        store::<T, EACH>(out.at(place.offset(strides.out_stride)), v, place.inside);
    }

    /// The operands of the gradients of a gated activation.
    struct GatedInputs<T, const EACH: u32> {
        #[align(EACH * size_of::<T>())]
        gate: &[T],
        #[align(EACH * size_of::<T>())]
        up: &[T],
        #[align(EACH * size_of::<T>())]
        dy: &[T],
    }

    /// The gradients of a gated activation.
    struct GatedGrads<T, const EACH: u32> {
        #[align(EACH * size_of::<T>())]
        dgate: &mut [T],
        #[align(EACH * size_of::<T>())]
        dup: &mut [T],
    }

    /// The distance of two rows of each matrix, in elements.
    struct GatedGradStrides {
        gate_stride: u64,
        up_stride: u64,
        dy_stride: u64,
        dgate_stride: u64,
        dup_stride: u64,
    }

    /// dgate = dy · up · f'(gate), dup = dy · f(gate).
    #[ptx_kernel(
        block = THREADS,
        grid = shape.grid(EACH * THREADS),
        pdl,
        instances = [by_4 = (f32, 4), by_8 = ([bf16, f16], 8), by_1 = ([f32, bf16, f16], 1)],
        unsafe(requires(
            shape.is_whole(EACH),
            shape.fits(inputs.gate.len(), strides.gate_stride, EACH),
            shape.fits(inputs.up.len(), strides.up_stride, EACH),
            shape.fits(inputs.dy.len(), strides.dy_stride, EACH),
            shape.fits_apart(outputs.dgate.len(), strides.dgate_stride, EACH),
            shape.fits_apart(outputs.dup.len(), strides.dup_stride, EACH)
        ))
    )]
    pub fn gated_backward<T, const EACH: u32>(
        inputs: GatedInputs<T, EACH>,
        outputs: GatedGrads<T, EACH>,
        strides: GatedGradStrides,
        shape: Shape,
        function: u32,
    ) {
        let place = find_place::<EACH>(shape.columns);
        let from_gate = inputs.gate.at(place.offset(strides.gate_stride));
        let from_up = inputs.up.at(place.offset(strides.up_stride));
        let from_dy = inputs.dy.at(place.offset(strides.dy_stride));
        fetch_ahead::<T, EACH>(&place, from_gate);
        fetch_ahead::<T, EACH>(&place, from_up);
        fetch_ahead::<T, EACH>(&place, from_dy);
        wait();
        let mut v: [f32; EACH] = load::<T, EACH>(from_gate, place.inside);
        let mut u: [f32; EACH] = load::<T, EACH>(from_up, place.inside);
        let mut d: [f32; EACH] = load::<T, EACH>(from_dy, place.inside);
        launch_dependents();
        let mut slopes: [f32; EACH];
        differentiate_all(function, &mut v, &mut slopes);
        for i in 0..EACH {
            v[i] *= d[i];
            u[i] *= d[i] * slopes[i];
        }
        store::<T, EACH>(outputs.dgate.at(place.offset(strides.dgate_stride)), u, place.inside);
        store::<T, EACH>(outputs.dup.at(place.offset(strides.dup_stride)), v, place.inside);
    }
}

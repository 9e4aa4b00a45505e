//! Gradients of RMSNorm and LayerNorm for every chip and every row, in three kernels: dx row by row with each row's mean and scale,
//! partial sums of dw and db over slices of rows, and their sum over the slices. The order of all sums depends on the shape alone.
#![allow(unreachable_pub, reason = "a struct that the host shares says `pub`")]

use ptx_launch::prelude::*;

/// The kernels. `EACH` elements are an access: 16 bytes, or one element where rows are not aligned.
#[ptx_module(arch("sm_75", "sm_90"))]
pub(super) mod kernels {
    const THREADS: u32 = 256;
    const WARPS: u32 = THREADS / 32;
    /// Loads that a thread of `reduce_slices` has in flight: the partial sums of 132 clusters are one round.
    const LOADS: u32 = 17;

    /// The instance: LayerNorm or RMSNorm, and elements per access.
    #[derive(Clone, Copy)]
    pub struct Config {
        /// 1 for LayerNorm, which subtracts the mean.
        pub center: u32,
        /// Elements per access.
        pub each: u32,
    }

    /// x and w · dy of `EACH` elements; w is one where `scales` is false.
    fn factors<T, const EACH: u32>(
        x: Global<T>,
        dy: Global<T>,
        weight: Global<T>,
        scales: pred,
    ) -> ([f32; EACH], [f32; EACH]) {
        let v: [f32; EACH] = vector::read::<T, EACH>(x);
        let mut g: [f32; EACH] = vector::read::<T, EACH>(dy);
        let w: [f32; EACH] = vector::unpack::<T, EACH>(vector::load::<T, EACH>(weight, scales, vector::ones::<T>()));
        for i in 0..EACH {
            g[i] *= w[i];
        }
        (v, g)
    }

    /// The operands of the gradient, and the results.
    struct RowTensors<T, const C: Config> {
        #[align(C.each * size_of::<T>())]
        x: &[T],
        #[align(C.each * size_of::<T>())]
        dy: &[T],
        #[align(C.each * size_of::<T>())]
        sum: &[T],
        #[align(C.each * size_of::<T>())]
        weight: &[T],
        #[align(C.each * size_of::<T>())]
        dx: &mut [T],
        #[align(8)]
        statistics: &mut [u8],
    }

    /// The distance of two rows of each matrix, in elements.
    struct RowStrides {
        x_stride: u64,
        dy_stride: u64,
        sum_stride: u64,
        dx_stride: u64,
    }

    /// dx, and the mean and the scale of each row as two `f32` of `statistics`. With g = w · dy and centered x:
    /// dx = scale · (g - mean(g) - x · scale² · mean(g · x)), where RMSNorm has no mean(g). `sum` is a gradient that is added.
    #[ptx_kernel(
        block = THREADS,
        grid = rows,
        pdl,
        instances = [
            rms_4 = (f32, Config { center: 0, each: 4 }),
            rms_8 = ([bf16, f16], Config { center: 0, each: 8 }),
            rms_1 = ([f32, bf16, f16], Config { center: 0, each: 1 }),
            layer_4 = (f32, Config { center: 1, each: 4 }),
            layer_8 = ([bf16, f16], Config { center: 1, each: 8 }),
            layer_1 = ([f32, bf16, f16], Config { center: 1, each: 1 })
        ],
        unsafe(requires(
            rows >= 1,
            columns % C.each == 0,
            columns < 1 << 31,
            strides.x_stride % C.each == 0,
            tensors.x.len() >= (rows - 1) * strides.x_stride + columns,
            strides.dy_stride % C.each == 0,
            tensors.dy.len() >= (rows - 1) * strides.dy_stride + columns,
            strides.sum_stride % C.each == 0,
            tensors.sum.len() == 0 || tensors.sum.len() >= (rows - 1) * strides.sum_stride + columns,
            tensors.weight.len() == 0 || tensors.weight.len() >= columns,
            strides.dx_stride % C.each == 0,
            strides.dx_stride >= columns,
            tensors.dx.len() >= (rows - 1) * strides.dx_stride + columns,
            tensors.statistics.len() == 0 || tensors.statistics.len() >= 8 * rows
        ))
    )]
    pub fn backward_rows<T, const C: Config>(
        tensors: RowTensors<T, C>,
        strides: RowStrides,
        epsilon: f32,
        rows: u32,
        columns: u32,
    ) {
        const EACH: u32 = C.each;
        const STEP: u32 = EACH * THREADS;

        let (row, first): (u64, u32) = (ctaid.x as u64, tid.x * EACH);
        let (from, slopes, to) = (
            tensors.x.at(row * strides.x_stride),
            tensors.dy.at(row * strides.dy_stride),
            tensors.dx.at(row * strides.dx_stride),
        );
        let added = tensors.sum.at(row * strides.sum_stride);
        let (sum_at, weight_at, statistics_at): (u64, u64, u64) = (tensors.sum, tensors.weight, tensors.statistics);
        let (adds, scales): (pred, pred) = (sum_at != 0, weight_at != 0);
        grid::overlap();

        let (mut a, mut b): (f32, f32) = (0.0, 0.0);
        let mut column: u32 = first;
        while column < columns {
            let (v, g): ([f32; EACH], [f32; EACH]) =
                factors::<T, EACH>(from.at(column), slopes.at(column), tensors.weight.at(column), scales);
            for i in 0..EACH {
                if C.center == 1 {
                    a += v[i];
                    b += g[i];
                } else {
                    a = v[i].fma(v[i], a);
                    b = g[i].fma(v[i], b);
                }
            }
            column += STEP;
        }
        let share: f32 = 1.0 / columns as f32;
        a = block::reduce_sum::<WARPS, f32>(a) * share;
        b = block::reduce_sum::<WARPS, f32>(b) * share;
        let (mut mean, mut slope): (f32, f32) = (0.0, 0.0);
        if C.center == 1 {
            mean = a;
            slope = b;
            a = 0.0;
            b = 0.0;
            column = first;
            while column < columns {
                let (v, g): ([f32; EACH], [f32; EACH]) =
                    factors::<T, EACH>(from.at(column), slopes.at(column), tensors.weight.at(column), scales);
                for i in 0..EACH {
                    let rest: f32 = v[i] - mean;
                    a = rest.fma(rest, a);
                    b = g[i].fma(rest, b);
                }
                column += STEP;
            }
            a = block::reduce_sum::<WARPS, f32>(a) * share;
            b = block::reduce_sum::<WARPS, f32>(b) * share;
        }
        let mut scale: f32 = a + epsilon;
        ptx! { rsqrt.approx.f32 scale, scale; }
        if tid.x == 0 {
            if statistics_at != 0 {
                let at = tensors.statistics.at(row * 8);
                ptx! { st.global.v2.f32 [at], {mean, scale}; }
            }
        }

        b = b * scale * scale;
        column = first;
        while column < columns {
            let (v, mut g): ([f32; EACH], [f32; EACH]) =
                factors::<T, EACH>(from.at(column), slopes.at(column), tensors.weight.at(column), scales);
            let s: [f32; EACH] = vector::unpack::<T, EACH>(vector::load::<T, EACH>(added.at(column), adds, 0));
            for i in 0..EACH {
                let rest: f32 = g[i] - slope - (v[i] - mean) * b;
                g[i] = rest.fma(scale, s[i]);
            }
            vector::write::<T, EACH>(to.at(column), g);
            column += STEP;
        }
    }

    /// The operands of the sums over columns, and the partial sums.
    struct ColumnTensors<T, const EACH: u32> {
        #[align(EACH * size_of::<T>())]
        x: &[T],
        #[align(EACH * size_of::<T>())]
        dy: &[T],
        #[align(8)]
        statistics: &[u8],
        #[align(4)]
        partial: &mut [u8],
    }

    /// The distance of two rows of each matrix, in elements.
    struct ColumnStrides {
        x_stride: u64,
        dy_stride: u64,
    }

    /// Partial sums over slices of rows: of dy · (x - mean) · scale, and behind them, if `arrays` is 2, of dy. `partial` has
    /// `slices` · `arrays` · `columns` elements of `f32`. A block has 32 accesses of columns and a slice; each warp every eighth row.
    #[ptx_kernel(
        block = THREADS,
        grid = columns.div_ceil(32 * EACH) * slices,
        pdl,
        instances = [by_4 = (f32, 4), by_8 = ([bf16, f16], 8), by_1 = ([f32, bf16, f16], 1)],
        unsafe(requires(
            rows >= 1,
            rows < 1 << 31,
            slices >= 1,
            slices < 1 << 31,
            arrays == 1 || arrays == 2,
            columns % EACH == 0,
            columns < 1 << 31,
            strides.x_stride % EACH == 0,
            tensors.x.len() >= (rows - 1) * strides.x_stride + columns,
            strides.dy_stride % EACH == 0,
            tensors.dy.len() >= (rows - 1) * strides.dy_stride + columns,
            tensors.statistics.len() >= 8 * rows,
            tensors.partial.len() >= 4 * slices * arrays * columns
        ))
    )]
    pub fn backward_columns<T, const EACH: u32>(
        tensors: ColumnTensors<T, EACH>,
        strides: ColumnStrides,
        slices: u32,
        arrays: u32,
        rows: u32,
        columns: u32,
    ) {
        const STRIP: u32 = 32 * EACH;
        #[shared(align = 16)]
        let sums: [[[f32; STRIP]; WARPS]; 2];

        let strips: u32 = (columns + (STRIP - 1)) / STRIP;
        let slice: u32 = ctaid.x / strips;
        let begin: u32 = (ctaid.x - slice * strips) * STRIP;
        let column: u32 = begin + laneid * EACH;
        let inside: pred = column < columns;
        let each_slice: u32 = (rows + (slices - 1)) / slices;
        let mut row: u32 = slice * each_slice + (tid.x >> 5);
        let end: u32 = (slice * each_slice + each_slice).min(rows);
        grid::overlap();

        let (mut dw, mut db): ([f32; EACH], [f32; EACH]) = ([0.0; EACH], [0.0; EACH]);
        while row < end {
            let (mean, scale): (f32, f32);
            let at = tensors.statistics.at(row as u64 * 8);
            ptx! { ld.global.v2.f32 {mean, scale}, [at]; }
            let (from, slopes) = (
                tensors.x.at(row as u64 * strides.x_stride + column as u64),
                tensors.dy.at(row as u64 * strides.dy_stride + column as u64),
            );
            let v: [f32; EACH] = vector::unpack::<T, EACH>(vector::load::<T, EACH>(from, inside, 0));
            let g: [f32; EACH] = vector::unpack::<T, EACH>(vector::load::<T, EACH>(slopes, inside, 0));
            for i in 0..EACH {
                dw[i] = g[i].fma((v[i] - mean) * scale, dw[i]);
                db[i] += g[i];
            }
            row += WARPS;
        }
        let own = sums.at(0).at(tid.x >> 5).at(laneid * EACH);
        for i in 0..EACH {
            ptx! {
                st.shared.f32 [own + 4 * i], dw[i];
                st.shared.f32 [own + 4 * i + 4 * STRIP * WARPS], db[i];
            }
        }
        block::sync();
        let mut array: u32 = 0;
        while array < arrays {
            if tid.x < STRIP {
                if begin + tid.x < columns {
                    let mut sum: f32 = 0.0;
                    let from = sums.at(array).at(0).at(tid.x);
                    for warp in 0..WARPS {
                        let part: f32;
                        ptx! { ld.shared.f32 part, [from + 4 * STRIP * warp]; }
                        sum += part;
                    }
                    let to = tensors
                        .partial
                        .cast::<f32>()
                        .at((slice * arrays + array) as u64 * columns as u64 + (begin + tid.x) as u64);
                    ptx! { st.global.f32 [to], sum; }
                }
            }
            array += 1;
        }
    }

    /// Sums over the slices: the first array of `partial` becomes dw, the second, if there is one, db.
    #[ptx_kernel(
        block = THREADS,
        grid = columns.div_ceil(32) * arrays,
        pdl,
        instances = [of_type = ([f32, bf16, f16])],
        unsafe(requires(
            slices < 1 << 31,
            arrays == 1 || arrays == 2,
            columns < 1 << 31,
            partial.len() >= 4 * slices * arrays * columns,
            dw.len() == 0 || dw.len() >= columns,
            db.len() == 0 || db.len() >= columns
        ))
    )]
    pub fn reduce_slices<T>(
        #[align(4)] partial: &[u8],
        dw: &mut [T],
        db: &mut [T],
        slices: u32,
        arrays: u32,
        columns: u32,
    ) {
        #[shared]
        let sums: [[f32; 32]; WARPS];
        let strips: u32 = (columns + 31) / 32;
        let array: u32 = ctaid.x / strips;
        let column: u32 = (ctaid.x - array * strips) * 32 + laneid;
        let mut slice: u32 = tid.x >> 5;
        let (dw_at, db_at): (u64, u64) = (dw, db);
        let base: u64 = (array == 0).select(dw_at, db_at);
        grid::overlap();

        let mut sum: f32 = 0.0;
        while slice < slices {
            let mut parts: [f32; LOADS] = [0.0; LOADS];
            for i in 0..LOADS {
                let next: u32 = slice + i * WARPS;
                let inside: pred = (column < columns) & (next < slices);
                let at = partial.cast::<f32>().at((next * arrays + array) as u64 * columns as u64 + column as u64);
                ptx! { @inside ld.global.f32 parts[i], [at]; }
            }
            for part in parts {
                sum += part;
            }
            slice += LOADS * WARPS;
        }
        let own = sums.at(tid.x >> 5).at(laneid);
        ptx! { st.shared.f32 [own], sum; }
        block::sync();
        if tid.x < 32 {
            if column < columns {
                if base != 0 {
                    let mut total: [f32; 1] = [0.0];
                    let from = sums.at(0).at(laneid);
                    for warp in 0..WARPS {
                        let part: f32;
                        ptx! { ld.shared.f32 part, [from + 128 * warp]; }
                        total[0] += part;
                    }
                    vector::write::<T, 1>(GlobalMut::<T>::from_addr(base).at(column), total);
                }
            }
        }
    }
}

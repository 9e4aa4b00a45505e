//! Cross entropy and its gradient. Forward, a block reads a row of logits once; backward, element by element. One family for every
//! chip: from `sm_90` on grids overlap (`griddepcontrol`).

use ptx_launch::prelude::*;

/// The kernels. `EACH` elements are an access: 16 bytes, or one element where rows are not aligned; `I` is the type of targets.
#[ptx_module(arch("sm_75", "sm_90"))]
pub(super) mod losses {
    const THREADS: u32 = 256;
    const WARPS: u32 = THREADS / 32;
    /// Accesses that are on their way at once.
    const VECTORS: u32 = 4;

    /// The running maximum without elements: -∞ minus it is still -∞.
    const LEAST: f32 = f32::MIN;

    /// The target of a row.
    fn target<I>(targets: Global<I>, row: u32) -> i64 {
        let at = targets.at(row);
        let found: I;
        ptx! { ld.global.{I} found, [at]; }
        found as i64
    }

    /// The running maximum, the sum of exponentials relative to it, and the sum of the logits.
    struct Sums {
        row_max: f32,
        row_sum: f32,
        logit_sum: f32,
    }

    impl Sums {
        /// Adds elements: two instructions and one exponential each, and one more exponential.
        fn add<const N: u32>(&mut self, v: [f32; N], smooth: pred) {
            let mut most: [f32; 2] = [self.row_max, self.row_max];
            for i in 0..N {
                most[i % 2] = most[i % 2].max(v[i]);
            }
            let row_max: f32 = most[0].max(most[1]);
            let mut sums: [f32; 4] = [self.row_sum * math::exp_approx(self.row_max - row_max), 0.0, 0.0, 0.0];
            for i in 0..N {
                sums[i % 4] += math::exp_approx(v[i] - row_max);
            }
            self.row_max = row_max;
            self.row_sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
            if smooth {
                for i in 0..N {
                    self.logit_sum += v[i];
                }
            }
        }

        /// The sums of the whole block.
        fn of_block(&mut self) {
            let top: f32 = block::reduce_max::<WARPS, f32>(self.row_max);
            self.row_sum = block::reduce_sum::<WARPS, f32>(self.row_sum * math::exp_approx(self.row_max - top));
            self.logit_sum = block::reduce_sum::<WARPS, f32>(self.logit_sum);
            self.row_max = top;
        }
    }

    /// The operands and the results of the loss.
    struct LossTensors<T, I, const EACH: u32> {
        #[align(EACH * size_of::<T>())]
        x: &[T],
        targets: &[I],
        loss: &mut [f32],
        lse: &mut [f32],
    }

    /// The target that does not count, and the label smoothing.
    struct Options {
        ignored: i64,
        smoothing: f32,
    }

    /// lse = log(sum of exp(x)), loss = lse - (1 - smoothing) · x\[target\] - smoothing · mean(x), row by row; the loss of an
    /// ignored target is zero, that of any other target outside of the row NaN.
    #[ptx_kernel(
        block = THREADS,
        grid = rows,
        pdl,
        min_blocks = 4,
        instances = [
            by_4 = (f32, i64, 4),
            by_8 = ([bf16, f16], i64, 8),
            by_1 = ([f32, bf16, f16], i64, 1),
            by_4 = (f32, u32, 4),
            by_8 = ([bf16, f16], u32, 8),
            by_1 = ([f32, bf16, f16], u32, 1)
        ],
        unsafe(requires(
            rows >= 1,
            columns % EACH == 0,
            columns < 1 << 31,
            x_stride % EACH == 0,
            tensors.x.len() >= (rows - 1) * x_stride + columns,
            tensors.targets.len() >= rows,
            tensors.loss.len() >= rows,
            tensors.lse.len() >= rows
        ))
    )]
    pub fn cross_entropy<T, I, const EACH: u32>(
        tensors: LossTensors<T, I, EACH>,
        x_stride: u64,
        options: Options,
        rows: u32,
        columns: u32,
    ) {
        const STEP: u32 = EACH * THREADS;
        const WORDS: u32 = vector::words::<T, EACH>();
        let from = tensors.x.at(ctaid.x as u64 * x_stride);
        let smooth: pred = options.smoothing != 0.0;
        grid::overlap();

        let mut sums = Sums { row_max: LEAST, row_sum: 0.0, logit_sum: 0.0 };
        let mut column: u32 = tid.x * EACH;
        let mut at = from.at(column);
        while column + (VECTORS - 1) * STEP < columns {
            let packed: [[b32; WORDS]; VECTORS];
            for i in 0..VECTORS {
                packed[i] = vector::load_once::<T, EACH>(at.at(i * STEP), column < columns, 0);
            }
            for i in 0..VECTORS {
                sums.add::<EACH>(vector::unpack::<T, EACH>(packed[i]), smooth);
            }
            column += VECTORS * STEP;
            at = at.at(VECTORS * STEP);
        }
        while column < columns {
            sums.add::<EACH>(vector::read::<T, EACH>(at), smooth);
            column += STEP;
            at = at.at(STEP);
        }
        sums.of_block();

        if tid.x == 0 {
            let (label, to, log) =
                (target(tensors.targets, ctaid.x), tensors.loss.at(ctaid.x), tensors.lse.at(ctaid.x));
            let total: f32 = sums.row_max + math::log(sums.row_sum);
            let mut y: f32 = f32::NAN;
            if unsigned(label) < columns as u64 {
                let logit: [f32; 1] = vector::read::<T, 1>(from.at(unsigned(label)));
                y = total - logit[0];
                if smooth {
                    y = (1.0 - options.smoothing) * y + options.smoothing * (total - sums.logit_sum / columns as f32);
                }
            }
            if label == options.ignored {
                y = 0.0;
            }
            ptx! {
                st.global.f32 [to], y;
                st.global.f32 [log], total;
            }
        }
    }

    /// The operands of the gradient, and the result.
    struct GradTensors<T, I, const EACH: u32> {
        #[align(EACH * size_of::<T>())]
        x: &[T],
        targets: &[I],
        lse: &[f32],
        dloss: &[f32],
        #[align(EACH * size_of::<T>())]
        dx: &mut [T],
    }

    /// The distances of two rows of the matrices, and of two elements of `dloss`, in elements.
    struct GradStrides {
        x_stride: u64,
        dloss_stride: u64,
        dx_stride: u64,
    }

    /// dx = dloss · (exp(x - lse) - smoothing / columns - (1 - smoothing) · \[column = target\]), row by row; zero for an ignored target, NaN
    /// for any other target outside of the row. Without `x` the logits are in `dx`.
    #[ptx_kernel(
        block = THREADS,
        grid = rows * columns.div_ceil(EACH * THREADS * VECTORS),
        pdl,
        instances = [
            by_4 = (f32, i64, 4),
            by_8 = ([bf16, f16], i64, 8),
            by_1 = ([f32, bf16, f16], i64, 1),
            by_4 = (f32, u32, 4),
            by_8 = ([bf16, f16], u32, 8),
            by_1 = ([f32, bf16, f16], u32, 1)
        ],
        unsafe(requires(
            rows >= 1,
            columns % EACH == 0,
            columns < 1 << 31,
            strides.x_stride % EACH == 0,
            tensors.x.len() == 0 || tensors.x.len() >= (rows - 1) * strides.x_stride + columns,
            tensors.targets.len() >= rows,
            tensors.lse.len() >= rows,
            tensors.dloss.len() >= (rows - 1) * strides.dloss_stride + 1,
            strides.dx_stride % EACH == 0,
            strides.dx_stride >= columns,
            tensors.dx.len() >= (rows - 1) * strides.dx_stride + columns
        ))
    )]
    pub fn cross_entropy_backward<T, I, const EACH: u32>(
        tensors: GradTensors<T, I, EACH>,
        strides: GradStrides,
        options: Options,
        rows: u32,
        columns: u32,
    ) {
        const STEP: u32 = EACH * THREADS;
        const WORDS: u32 = vector::words::<T, EACH>();
        let blocks: u32 = (columns + (STEP * VECTORS - 1)) / (STEP * VECTORS);
        let row: u32 = ctaid.x / blocks;
        let column: u32 = (ctaid.x - row * blocks) * (STEP * VECTORS) + tid.x * EACH;
        let offset: u64 = column as u64;
        let to = tensors.dx.at(row as u64 * strides.dx_stride + offset);
        let (separate, own): (u64, u64) = (tensors.x, to);
        let elsewhere: u64 = tensors.x.at(row as u64 * strides.x_stride + offset);
        let from: u64 = (separate != 0).select(elsewhere, own);
        grid::overlap();

        let packed: [[b32; WORDS]; VECTORS];
        for i in 0..VECTORS {
            const AT: u64 = (i * STEP * size_of::<T>()) as u64;
            packed[i] = vector::load::<T, EACH>(from + AT, column + i * STEP < columns, 0);
        }
        let (log, slope): (f32, f32);
        let (lse_at, slope_at) = (tensors.lse.at(row), tensors.dloss.at(row as u64 * strides.dloss_stride));
        ptx! {
            ld.global.f32 log, [lse_at];
            ld.global.f32 slope, [slope_at];
        }
        let label: i64 = target(tensors.targets, row);
        let ignore: pred = label == options.ignored;
        if unsigned(label) >= columns as u64 {
            slope = f32::NAN;
        }
        let spread: f32 = options.smoothing / columns as f32;
        let share: f32 = (1.0 - options.smoothing) * slope;
        for i in 0..VECTORS {
            let mut v: [f32; EACH] = vector::unpack::<T, EACH>(packed[i]);
            let first: u64 = (column + i * STEP) as u64;
            for j in 0..EACH {
                v[j] = (math::exp_approx(v[j] - log) - spread) * slope;
            }
            let label_offset: u64 = unsigned(label) - first;
            if label_offset < EACH as u64 {
                for j in 0..EACH {
                    let subtracted: f32 = (label_offset == j as u64).select(share, 0.0);
                    v[j] -= subtracted;
                }
            }
            for j in 0..EACH {
                v[j] = ignore.select(0.0, v[j]);
            }
            vector::store::<T, EACH>(to.at(i * STEP), vector::pack::<T, EACH>(v), column + i * STEP < columns);
        }
    }
}

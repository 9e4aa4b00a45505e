//! Gradients of RMSNorm and LayerNorm for `sm_90` and later in one pass over memory, for rows of whole 16 bytes up to 32 KiB. Persistent blocks
//! take every so many-th row. A ring of stages in shared memory receives x and dy by bulk copies, several rows ahead. Each thread keeps its
//! columns' sums of dw and db in registers. The blocks of a cluster add them up through their shared memory, so that one partial sum per
//! cluster goes to memory.
//!
//! Rows of LayerNorm are read three times there: for means, for sums of what is centered, and for the gradient.
#![allow(unreachable_pub, reason = "a struct that the host shares says `pub`")]

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_90")]
pub(super) mod ring {
    /// Accesses of a thread per row and matrix.
    const VECTORS: u32 = 2;
    /// Rows of a block that are in flight or in use.
    const STAGES: u32 = 3;

    /// The instance: LayerNorm or RMSNorm, and threads, which also decide the longest row.
    #[derive(Clone, Copy)]
    pub struct Config {
        /// 1 for LayerNorm, which subtracts the mean.
        pub center: u32,
        /// Threads of a block.
        pub threads: u32,
        /// Elements of 16 bytes.
        pub each: u32,
    }

    impl Config {
        /// The most columns of a row: two accesses per thread.
        pub const fn most(&self) -> u32 {
            self.threads * self.each * 2
        }

        /// Blocks per SM.
        pub const fn blocks(&self) -> u32 {
            1024 / self.threads
        }

        /// Blocks of a cluster. Clusters of four took a quarter more time on an H200.
        pub const fn cluster(&self) -> u32 {
            2
        }

        /// Bytes of the longest row of x or dy.
        pub const fn row(&self) -> u32 {
            32 * self.threads
        }

        /// Bytes of a sum of each of the most columns.
        pub const fn sums(&self) -> u32 {
            8 * self.threads * self.each
        }

        /// Bytes of the stages.
        pub const fn stage_bytes(&self) -> u32 {
            3 * 2 * self.row()
        }
    }

    /// The first column of a thread's access `i`.
    fn column<const C: Config>(i: u32) -> u32 {
        (tid.x + i * C.threads) * C.each
    }

    /// Shared memory: the stages, a barrier for each, and numbers that warps exchange, twice two for each warp.
    struct Ring<const C: Config> {
        stages: u32,
        full: u32,
        numbers: u32,
    }

    impl<const C: Config> Ring<C> {
        /// The barriers, and zeros behind rows of so many columns: threads without a column read them.
        fn init(&self, columns: u32) {
            if tid.x == 0 {
                for stage in 0..STAGES {
                    mbarrier::init(self.full + 8 * stage, 1);
                }
                mbarrier::fence_init();
            }
            for i in 0..VECTORS {
                let own: u32 = self.stages + (tid.x + i * C.threads) * 16;
                if column::<C>(i) >= columns {
                    for array in 0..2 * STAGES {
                        const AT: u32 = array * C.row();
                        ptx! { st.shared.v4.b32 [own + AT], {0, 0, 0, 0}; }
                    }
                }
            }
            block::sync();
        }

        /// Begins the copies of a row of x and dy to a stage, in one thread.
        fn load(&self, stage: u32, x: u64, dy: u64, bytes: u32) {
            let (to, bar): (u32, u32) = (self.stages + stage * (2 * C.row()), self.full + 8 * stage);
            mbarrier::arrive_expect(bar, 2 * bytes);
            bulk::load(to, x, bytes, bar);
            bulk::load(to + C.row(), dy, bytes, bar);
        }

        /// Waits for a row. The address of this thread's first elements of x.
        fn wait(&self, stage: u32, phase: u32) -> u32 {
            mbarrier::wait(self.full + 8 * stage, phase);
            self.stages + stage * (2 * C.row()) + tid.x * 16
        }

        /// The sums of two values over the block, in every thread. `turn` is 0 or 1, and not that of the call before. The lower half of a warp adds the
        /// first value up and the upper half the second.
        fn sum_pair(&self, values: [f32; 2], turn: u32) -> (f32, f32) {
            const WARPS: u32 = C.threads / 32;
            const READERS: u32 = if WARPS < 16 { WARPS } else { 16 };
            let half: u32 = laneid / 16;
            let numbers: u32 = self.numbers + (turn * 2 + half) * (4 * WARPS);
            let own: f32 = add_lanes::<16>(swap(values[0], values[1]));
            if laneid % 16 == 0 {
                let to: u32 = numbers + tid.x / 32 * 4;
                ptx! { st.shared.f32 [to], own; }
            }
            block::sync();
            let from: u32 = numbers + laneid % READERS * (4 * WARPS / READERS);
            let mut sum: f32;
            if WARPS == 32 {
                let other: f32;
                ptx! { ld.shared.v2.f32 {sum, other}, [from]; }
                sum += other;
            } else {
                ptx! { ld.shared.f32 sum, [from]; }
            }
            sum = add_lanes::<READERS>(sum);
            (warp::broadcast::<f32>(sum, 0), warp::broadcast::<f32>(sum, 16))
        }
    }

    /// The sum over each `LANES` lanes, in all of them.
    fn add_lanes<const LANES: u32>(x: f32) -> f32 {
        let mut sum: f32 = x;
        for step in [16, 8, 4, 2, 1] {
            if step < LANES {
                let other: f32;
                warp::exchange::<"bfly", f32>(&mut other, sum, step, 31);
                sum += other;
            }
        }
        sum
    }

    /// Of two values, the first for the lower 16 lanes and the second for the others, with that of the lane opposite: two `selp`, `shfl.sync` and `add`.
    fn swap(low: f32, high: f32) -> f32 {
        let upper: pred = laneid >= 16;
        let given: f32 = upper.select(low, high);
        let taken: f32;
        warp::exchange::<"bfly", f32>(&mut taken, given, 16, 31);
        upper.select(high, low) + taken
    }

    /// The values of 16 bytes of shared memory, packed.
    fn load_stage(from: u32) -> [b32; 4] {
        let packed: [b32; 4];
        ptx! { ld.shared.v4.b32 {packed[..]}, [from]; }
        packed
    }

    /// This thread's columns: their weights, and their sums of dw and db.
    struct Sums<const C: Config> {
        inside: [pred; VECTORS],
        weights: [[b32; 4]; VECTORS],
        dw: [f32; { C.each } * VECTORS],
        db: [f32; { C.each } * VECTORS],
    }

    /// This thread's sums of x and g for LayerNorm, of x² and g · x for RMSNorm, where g = w · dy.
    fn sum_row<T, const C: Config>(own: u32, columns: &Sums<C>) -> [f32; 2] {
        let (mut a, mut b): (f32, f32) = (0.0, 0.0);
        for i in 0..VECTORS {
            const AT: u32 = 16 * C.threads * i;
            let x: [f32; C.each] = vector::unpack::<T, { C.each }>(load_stage(own + AT));
            let g: [f32; C.each] = vector::unpack::<T, { C.each }>(load_stage(own + (C.row() + AT)));
            let w: [f32; C.each] = vector::unpack::<T, { C.each }>(columns.weights[i]);
            for j in 0..C.each {
                if C.center == 1 {
                    a += x[j];
                    b = g[j].fma(w[j], b);
                } else {
                    a = x[j].fma(x[j], a);
                    b = (g[j] * w[j]).fma(x[j], b);
                }
            }
        }
        [a, b]
    }

    /// This thread's sums of (x - mean)² and g · (x - mean).
    fn sum_centered<T, const C: Config>(own: u32, columns: &Sums<C>, mean: f32) -> [f32; 2] {
        let (mut a, mut b): (f32, f32) = (0.0, 0.0);
        for i in 0..VECTORS {
            const AT: u32 = 16 * C.threads * i;
            let inside: pred = columns.inside[i];
            let x: [f32; C.each] = vector::unpack::<T, { C.each }>(load_stage(own + AT));
            let g: [f32; C.each] = vector::unpack::<T, { C.each }>(load_stage(own + (C.row() + AT)));
            let w: [f32; C.each] = vector::unpack_again::<T, { C.each }, 0>(columns.weights[i]);
            for j in 0..C.each {
                let rest: f32 = x[j] - mean;
                ptx! { @inside fma.rn.f32 a, rest, rest, a; }
                b = (g[j] * w[j]).fma(rest, b);
            }
        }
        [a, b]
    }

    /// The gradient of a row, at `own` in shared memory: dx = (g · scale) + (x - mean) · spread + slope.
    struct Line {
        own: u32,
        mean: f32,
        scale: f32,
        spread: f32,
        slope: f32,
    }

    /// Adds a row to the sums, and writes its gradient to `to`; with `adds`, plus what is at `more`.
    fn write_row<T, const C: Config>(sums: &mut Sums<C>, line: &Line, to: GlobalMut<T>, more: Global<T>, adds: pred) {
        const EACH: u32 = C.each;
        for i in 0..VECTORS {
            const AT: u32 = 16 * C.threads * i;
            let (column, inside): (u32, pred) = (column::<C>(i), sums.inside[i]);
            let x: [f32; EACH] = vector::unpack_again::<T, EACH, 0>(load_stage(line.own + AT));
            let mut g: [f32; EACH] = vector::unpack::<T, EACH>(load_stage(line.own + (C.row() + AT)));
            let w: [f32; EACH] = vector::unpack_again::<T, EACH, 1>(sums.weights[i]);
            for j in 0..EACH {
                const K: u32 = i * EACH + j;
                let scaled: f32 = g[j] * line.scale;
                if C.center == 1 {
                    let rest: f32 = x[j] - line.mean;
                    sums.db[K] += g[j];
                    sums.dw[K] = scaled.fma(rest, sums.dw[K]);
                    g[j] = scaled.fma(w[j], rest.fma(line.spread, line.slope));
                } else {
                    sums.dw[K] = scaled.fma(x[j], sums.dw[K]);
                    g[j] = scaled.fma(w[j], x[j] * line.spread);
                }
            }
            if adds {
                let s: [f32; EACH] = vector::unpack::<T, EACH>(vector::load::<T, EACH>(more.at(column), inside, 0));
                for j in 0..EACH {
                    g[j] += s[j];
                }
            }
            vector::store::<T, EACH>(to.at(column), vector::pack::<T, EACH>(g), inside);
        }
    }

    /// Leaves this thread's columns of a sum in shared memory, from `to` on: four neighbors of each thread after another, so that no two lanes meet in a
    /// bank.
    fn store_sums<const C: Config>(to: u32, sums: [f32; { C.each } * VECTORS]) {
        let own: u32 = to + tid.x * 16;
        for four in 0..C.each * VECTORS / 4 {
            ptx! { st.shared.v4.f32 [own + four * (16 * C.threads)], {sums[4 * four..4 * four + 4]}; }
        }
    }

    /// Adds the sums of the cluster's blocks up, in their order, in `ARRAYS` arrays from `from` on; each block makes some of the columns. All loads come
    /// before the first addition, because another block's memory is far.
    fn add_cluster<const C: Config, const ARRAYS: u32>(partial: GlobalMut<f32>, from: u32, columns: u32) {
        const BLOCKS: u32 = C.cluster();
        const FOURS: u32 = C.each * VECTORS / 4 / BLOCKS;
        const COUNT: u32 = ARRAYS * FOURS;
        let own: u32 = from + (cluster::rank() * FOURS * C.threads + tid.x) * 16;
        let parts: [[[f32; 4]; BLOCKS]; COUNT];
        for i in 0..COUNT {
            const AT: u32 = i / FOURS * C.sums() + i % FOURS * (16 * C.threads);
            for block in 0..BLOCKS {
                let remote: u32 = cluster::map(own, block);
                ptx! { ld.shared::cluster.v4.f32 {parts[i][block][..]}, [remote + AT]; }
            }
        }
        for i in 0..COUNT {
            let mut total: [f32; 4] = parts[i][0];
            for block in 1..BLOCKS {
                for j in 0..4 {
                    total[j] += parts[i][block][j];
                }
            }
            let four: u32 = cluster::rank() * FOURS + i % FOURS;
            let at: u32 = column::<C>(four / (C.each / 4)) + four % (C.each / 4) * 4;
            let (to, inside): (GlobalMut<f32>, pred) = (partial.at(i / FOURS * columns + at), at < columns);
            ptx! { @inside st.global.v4.f32 [to], {total[..]}; }
        }
    }

    /// The operands of the gradient, and the results.
    struct Tensors<T> {
        #[align(16)]
        x: &[T],
        #[align(16)]
        dy: &[T],
        #[align(16)]
        sum: &[T],
        #[align(16)]
        weight: &[T],
        #[align(16)]
        dx: &mut [T],
        #[align(16)]
        partial: &mut [u8],
    }

    /// The distance of two rows of each matrix, in elements.
    struct Strides {
        x_stride: u64,
        dy_stride: u64,
        sum_stride: u64,
        dx_stride: u64,
    }

    /// The blocks that share the rows, and the sums that each leaves: 1 for dw, 2 for dw and db.
    struct Schedule {
        blocks: u32,
        arrays: u32,
    }

    /// dx, and partial sums of dw and db: `partial` has `arrays` · `columns` elements of `f32` for each cluster, where the second array is db. With
    /// g = w · dy and centered x: dx = scale · (g - mean(g) - x · scale² · mean(g · x)) + sum, where RMSNorm has no mean(g).
    #[ptx_kernel(
        block = C.threads,
        cluster = C.cluster(),
        grid = schedule.blocks,
        shared = C.stage_bytes(),
        min_blocks = C.blocks(),
        pdl,
        instances = [
            rms_128_4 = (f32, Config { center: 0, threads: 128, each: 4 }),
            rms_128_8 = ([bf16, f16], Config { center: 0, threads: 128, each: 8 }),
            rms_256_4 = (f32, Config { center: 0, threads: 256, each: 4 }),
            rms_256_8 = ([bf16, f16], Config { center: 0, threads: 256, each: 8 }),
            rms_512_4 = (f32, Config { center: 0, threads: 512, each: 4 }),
            rms_512_8 = ([bf16, f16], Config { center: 0, threads: 512, each: 8 }),
            rms_1024_4 = (f32, Config { center: 0, threads: 1024, each: 4 }),
            rms_1024_8 = ([bf16, f16], Config { center: 0, threads: 1024, each: 8 }),
            layer_128_4 = (f32, Config { center: 1, threads: 128, each: 4 }),
            layer_128_8 = ([bf16, f16], Config { center: 1, threads: 128, each: 8 }),
            layer_256_4 = (f32, Config { center: 1, threads: 256, each: 4 }),
            layer_256_8 = ([bf16, f16], Config { center: 1, threads: 256, each: 8 }),
            layer_512_4 = (f32, Config { center: 1, threads: 512, each: 4 }),
            layer_512_8 = ([bf16, f16], Config { center: 1, threads: 512, each: 8 }),
            layer_1024_4 = (f32, Config { center: 1, threads: 1024, each: 4 }),
            layer_1024_8 = ([bf16, f16], Config { center: 1, threads: 1024, each: 8 })
        ],
        unsafe(requires(
            rows >= 1,
            schedule.blocks >= 1,
            schedule.blocks % C.cluster() == 0,
            schedule.arrays == 1 || schedule.arrays == 2,
            columns % C.each == 0,
            columns <= C.most(),
            strides.x_stride % C.each == 0,
            tensors.x.len() >= (rows - 1) * strides.x_stride + columns,
            strides.dy_stride % C.each == 0,
            tensors.dy.len() >= (rows - 1) * strides.dy_stride + columns,
            strides.sum_stride % C.each == 0,
            tensors.sum.len() == 0 || tensors.sum.len() >= (rows - 1) * strides.sum_stride + columns,
            tensors.weight.len() == 0 || tensors.weight.len() >= columns,
            strides.dx_stride % C.each == 0,
            tensors.dx.len() >= (rows - 1) * strides.dx_stride + columns,
            tensors.partial.len() == 0 || tensors.partial.len() >= 4 * (schedule.blocks / C.cluster()) * schedule.arrays * columns
        ))
    )]
    pub fn backward_ring<T, const C: Config>(
        tensors: Tensors<T>,
        strides: Strides,
        epsilon: f32,
        schedule: Schedule,
        rows: u32,
        columns: u32,
    ) {
        #[shared(dynamic, align = 128)]
        let stages: [u8];
        #[shared]
        let full: [u64; STAGES];
        #[shared(align = 16)]
        let numbers: [f32; 4 * (C.threads / 32)];

        let bytes: u32 = columns * size_of::<T>();
        let (weight_at, sum_at, partial_at): (u64, u64, u64) = (tensors.weight, tensors.sum, tensors.partial);
        let (scales, adds): (pred, pred) = (weight_at != 0, sum_at != 0);
        let ring = Ring::<C> { stages, full, numbers };
        ring.init(columns);
        let step: u64 = schedule.blocks as u64;
        let mut row: u64 = ctaid.x as u64;
        grid::wait();
        if tid.x == 0 {
            for stage in 0..STAGES {
                let ahead: u64 = row + stage as u64 * step;
                if ahead < rows as u64 {
                    ring.load(
                        stage,
                        tensors.x.at(ahead * strides.x_stride),
                        tensors.dy.at(ahead * strides.dy_stride),
                        bytes,
                    );
                }
            }
        }
        let (inside, weights): ([pred; VECTORS], [[b32; 4]; VECTORS]);
        for i in 0..VECTORS {
            let column: u32 = column::<C>(i);
            inside[i] = column < columns;
            weights[i] =
                vector::load::<T, { C.each }>(tensors.weight.at(column), inside[i] & scales, vector::ones::<T>());
        }
        let share: f32 = 1.0 / columns as f32;
        let zeros: [f32; { C.each } * VECTORS] = [0.0; { C.each } * VECTORS];
        let mut sums = Sums::<C> { inside, weights, dw: zeros, db: zeros };
        let (mut stage, mut phase, mut turn): (u32, u32, u32) = (0, 0, 0);
        let mut last: u32 = STAGES;
        while row < rows as u64 {
            let own: u32 = ring.wait(stage, phase);
            let (mut square, mut product): (f32, f32) = ring.sum_pair(sum_row::<T, C>(own, &sums), turn);
            // All threads are done with the stage before this one.
            if tid.x == 0 {
                let ahead: u64 = row + (STAGES - 1) as u64 * step;
                if (last < STAGES) & (ahead < rows as u64) {
                    ring.load(
                        last,
                        tensors.x.at(ahead * strides.x_stride),
                        tensors.dy.at(ahead * strides.dy_stride),
                        bytes,
                    );
                }
            }
            let (mut mean, mut slope): (f32, f32) = (0.0, 0.0);
            if C.center == 1 {
                mean = square * share;
                slope = product;
                (square, product) = ring.sum_pair(sum_centered::<T, C>(own, &sums, mean), 1);
            } else {
                turn = turn ^ 1;
            }
            let mut scale: f32 = square.fma(share, epsilon);
            ptx! { rsqrt.approx.f32 scale, scale; }
            let spread: f32 = -(product * share * scale * scale * scale);
            let line = Line { own, mean, scale, spread, slope: -(slope * share * scale) };
            let (to, more) = (tensors.dx.at(row * strides.dx_stride), tensors.sum.at(row * strides.sum_stride));
            write_row::<T, C>(&mut sums, &line, to, more, adds);
            last = stage;
            stage += 1;
            if stage == STAGES {
                stage = 0;
                phase = phase ^ 1;
            }
            row += step;
        }
        grid::launch_dependents();
        if partial_at != 0 {
            // All threads are done with the last stage.
            block::sync();
            store_sums::<C>(ring.stages, sums.dw);
            if C.center == 1 {
                store_sums::<C>(ring.stages + C.sums(), sums.db);
            }
            cluster::sync();
            let to =
                tensors.partial.cast::<f32>().at((ctaid.x / C.cluster() * schedule.arrays) as u64 * columns as u64);
            if (C.center == 0) | (schedule.arrays == 1) {
                add_cluster::<C, 1>(to, ring.stages, columns);
            } else {
                add_cluster::<C, 2>(to, ring.stages, columns);
            }
            // No block ends while another one reads its sums.
            cluster::sync();
        }
    }
}

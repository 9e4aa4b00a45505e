//! Gradients of RMSNorm and LayerNorm for `sm_90` and later in one pass over memory, for rows of whole 16 bytes up to 32 KiB. Persistent blocks
//! take every so many-th row. A ring of stages in shared memory receives x and dy by bulk copies, several rows ahead. Each thread keeps its
//! columns' sums of dw and db in registers. The blocks of a cluster add them up through their shared memory, so that one partial sum per
//! cluster goes to memory.
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

        /// Bytes of the stages.
        pub const fn stage_bytes(&self) -> u32 {
            3 * 2 * 32 * self.threads
        }

        /// Blocks per SM.
        pub const fn blocks(&self) -> u32 {
            1024 / self.threads
        }

        /// Blocks of a cluster. Clusters of four took a quarter more time on an H200.
        pub const fn cluster(&self) -> u32 {
            2
        }
    }

    /// The sums of `a` and `b` over a block of `WARPS` warps, in every thread. `scratch` is not used by the next call.
    fn reduce_pair<const WARPS: u32>(a: &mut f32, b: &mut f32, scratch: u32) {
        *a = warp::reduce_sum(*a);
        *b = warp::reduce_sum(*b);
        if laneid == 0 {
            let own: u32 = scratch + (tid.x >> 5) * 8;
            ptx! { st.shared.v2.f32 [own], {a, b}; }
        }
        block::sync();
        let from: u32 = scratch + (laneid % WARPS) * 8;
        ptx! { ld.shared.v2.f32 {a, b}, [from]; }
        for step in [1, 2, 4, 8, 16] {
            if step < WARPS {
                let (c, d): (f32, f32);
                ptx! {
                    shfl.sync.bfly.b32 c, a, step, 31, 0xffffffff;
                    shfl.sync.bfly.b32 d, b, step, 31, 0xffffffff;
                    add.f32 a, a, c;
                    add.f32 b, b, d;
                }
            }
        }
    }

    /// The values of 16 bytes of shared memory, zeros where `inside` is false.
    fn load_stage<T, const EACH: u32>(from: u32, inside: pred) -> [f32; EACH] {
        let mut packed: [b32; 4] = [0; 4];
        ptx! { @inside ld.shared.v4.b32 {packed[..]}, [from]; }
        vector::unpack::<T, EACH>(packed)
    }

    /// Begins the copies of a row of x and dy to a stage.
    fn copy_row<const ROW: u32>(stage: u32, bar: u32, x: u64, dy: u64, bytes: u32) {
        mbarrier::arrive_expect(bar, 2 * bytes);
        bulk::load(stage, x, bytes, bar);
        bulk::load(stage + ROW, dy, bytes, bar);
    }

    /// This thread's sums of x and g for LayerNorm, of x² and g · x for RMSNorm, where g = w · dy.
    fn sum_row<T, const C: Config>(own: u32, inside: [pred; VECTORS], weights: [[b32; 4]; VECTORS]) -> (f32, f32) {
        let (mut a, mut b): (f32, f32) = (0.0, 0.0);
        for i in 0..VECTORS {
            const AT: u32 = 16 * C.threads * i;
            let v: [f32; C.each] = load_stage::<T, { C.each }>(own + AT, inside[i]);
            let g: [f32; C.each] = load_stage::<T, { C.each }>(own + (32 * C.threads + AT), inside[i]);
            let w: [f32; C.each] = vector::unpack::<T, { C.each }>(weights[i]);
            for j in 0..C.each {
                if C.center == 1 {
                    a += v[j];
                    b = g[j].fma(w[j], b);
                } else {
                    a = v[j].fma(v[j], a);
                    b = (g[j] * w[j]).fma(v[j], b);
                }
            }
        }
        (a, b)
    }

    /// This thread's sums of (x - mean)² and g · (x - mean).
    fn sum_centered<T, const C: Config>(
        own: u32,
        inside: [pred; VECTORS],
        weights: [[b32; 4]; VECTORS],
        mean: f32,
    ) -> (f32, f32) {
        let (mut a, mut b): (f32, f32) = (0.0, 0.0);
        for i in 0..VECTORS {
            const AT: u32 = 16 * C.threads * i;
            let v: [f32; C.each] = load_stage::<T, { C.each }>(own + AT, inside[i]);
            let g: [f32; C.each] = load_stage::<T, { C.each }>(own + (32 * C.threads + AT), inside[i]);
            let w: [f32; C.each] = vector::unpack_again::<T, { C.each }, 0>(weights[i]);
            for j in 0..C.each {
                let rest: f32 = v[j] - mean;
                ptx! { @inside[i] fma.rn.f32 a, rest, rest, a; }
                b = (g[j] * w[j]).fma(rest, b);
            }
        }
        (a, b)
    }

    /// This thread's columns: their weights, and their sums of dw and db.
    struct Sums<const C: Config> {
        inside: [pred; VECTORS],
        weights: [[b32; 4]; VECTORS],
        dw: [f32; { C.each } * VECTORS],
        db: [f32; { C.each } * VECTORS],
    }

    /// A row: the address of its stage, and what its gradient depends on.
    struct Line {
        own: u32,
        mean: f32,
        slope: f32,
        scale: f32,
        spread: f32,
    }

    /// Adds a row to the sums, and writes its gradient to `to`; with `adds`, plus what is at `more`.
    fn write_row<T, const C: Config>(sums: &mut Sums<C>, line: &Line, to: GlobalMut<T>, more: Global<T>, adds: pred) {
        const EACH: u32 = C.each;
        const STEP: u32 = 16 * C.threads;
        for i in 0..VECTORS {
            let column: u32 = (tid.x + i * C.threads) * EACH;
            let inside: pred = sums.inside[i];
            let v: [f32; EACH] = load_stage::<T, EACH>(line.own + i * STEP, inside);
            let mut g: [f32; EACH] = load_stage::<T, EACH>(line.own + (VECTORS * STEP + i * STEP), inside);
            let w: [f32; EACH] = vector::unpack_again::<T, EACH, 1>(sums.weights[i]);
            for j in 0..EACH {
                const AT: u32 = i * EACH + j;
                let mut rest: f32 = v[j];
                if C.center == 1 {
                    rest = v[j] - line.mean;
                    sums.db[AT] += g[j];
                }
                sums.dw[AT] = (g[j] * line.scale).fma(rest, sums.dw[AT]);
                if C.center == 1 {
                    g[j] = g[j].fma(w[j], -line.slope) - rest * line.spread;
                } else {
                    g[j] = g[j] * w[j] - rest * line.spread;
                }
                g[j] *= line.scale;
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

    /// Leaves this thread's columns of a sum in shared memory, from `to` on.
    fn store_sums<const C: Config>(to: u32, sums: [f32; { C.each } * VECTORS]) {
        for i in 0..VECTORS {
            let own: u32 = to + (tid.x + i * C.threads) * (4 * C.each);
            for part in 0..C.each / 4 {
                const K: u32 = i * C.each + 4 * part;
                ptx! { st.shared.v4.f32 [own + 16 * part], {sums[K..K + 4]}; }
            }
        }
    }

    /// Adds the sums at `from` of all blocks of the cluster up, in the order of the blocks; each block makes some of the columns.
    fn add_cluster<const C: Config>(partial: GlobalMut<f32>, from: u32, columns: u32) {
        let mut column: u32 = (cluster::rank() * C.threads + tid.x) * 4;
        while column < columns {
            let mut total: [f32; 4] = [0.0; 4];
            for block in 0..C.cluster() {
                let remote: u32 = cluster::map(from + column * 4, block);
                let four: [f32; 4];
                ptx! { ld.shared::cluster.v4.f32 {four[..]}, [remote]; }
                for j in 0..4 {
                    total[j] += four[j];
                }
            }
            let to = partial.at(column);
            ptx! { st.global.v4.f32 [to], {total[..]}; }
            column += 4 * C.threads * C.cluster();
        }
    }

    /// dx, and partial sums of dw and db: `partial` has `arrays` · `columns` elements of `f32` for each cluster, where the second array is db. With
    /// g = w · dy and centered x: dx = scale · (g - mean(g) - x · scale² · mean(g · x)) + sum, where RMSNorm has no mean(g).
    #[ptx_kernel(
        block = C.threads,
        cluster = C.cluster(),
        grid = blocks,
        shared = C.stage_bytes(),
        min_blocks = C.blocks(),
        pdl,
        instances = [
            rms_128_4 = (f32, Config { center: 0, threads: 128, each: 4 }),
            rms_128_8 = (bf16, Config { center: 0, threads: 128, each: 8 }),
            rms_128_8 = (f16, Config { center: 0, threads: 128, each: 8 }),
            rms_256_4 = (f32, Config { center: 0, threads: 256, each: 4 }),
            rms_256_8 = (bf16, Config { center: 0, threads: 256, each: 8 }),
            rms_256_8 = (f16, Config { center: 0, threads: 256, each: 8 }),
            rms_512_4 = (f32, Config { center: 0, threads: 512, each: 4 }),
            rms_512_8 = (bf16, Config { center: 0, threads: 512, each: 8 }),
            rms_512_8 = (f16, Config { center: 0, threads: 512, each: 8 }),
            rms_1024_4 = (f32, Config { center: 0, threads: 1024, each: 4 }),
            rms_1024_8 = (bf16, Config { center: 0, threads: 1024, each: 8 }),
            rms_1024_8 = (f16, Config { center: 0, threads: 1024, each: 8 }),
            layer_128_4 = (f32, Config { center: 1, threads: 128, each: 4 }),
            layer_128_8 = (bf16, Config { center: 1, threads: 128, each: 8 }),
            layer_128_8 = (f16, Config { center: 1, threads: 128, each: 8 }),
            layer_256_4 = (f32, Config { center: 1, threads: 256, each: 4 }),
            layer_256_8 = (bf16, Config { center: 1, threads: 256, each: 8 }),
            layer_256_8 = (f16, Config { center: 1, threads: 256, each: 8 }),
            layer_512_4 = (f32, Config { center: 1, threads: 512, each: 4 }),
            layer_512_8 = (bf16, Config { center: 1, threads: 512, each: 8 }),
            layer_512_8 = (f16, Config { center: 1, threads: 512, each: 8 }),
            layer_1024_4 = (f32, Config { center: 1, threads: 1024, each: 4 }),
            layer_1024_8 = (bf16, Config { center: 1, threads: 1024, each: 8 }),
            layer_1024_8 = (f16, Config { center: 1, threads: 1024, each: 8 })
        ],
        unsafe(requires(
            rows >= 1,
            blocks >= 1,
            blocks % C.cluster() == 0,
            arrays == 1 || arrays == 2,
            columns % C.each == 0,
            columns <= C.most(),
            x.len() >= (rows - 1) * x_stride + columns,
            dy.len() >= (rows - 1) * dy_stride + columns,
            sum.len() == 0 || sum.len() >= (rows - 1) * sum_stride + columns,
            weight.len() == 0 || weight.len() >= columns,
            dx.len() >= (rows - 1) * dx_stride + columns,
            partial.len() == 0 || partial.len() >= 4 * (blocks / C.cluster()) * arrays * columns
        ))
    )]
    pub fn backward_ring<T, const C: Config>(
        x: &[T],
        dy: &[T],
        sum: &[T],
        weight: &[T],
        dx: &mut [T],
        partial: &mut [u8],
        x_stride: u64,
        dy_stride: u64,
        sum_stride: u64,
        dx_stride: u64,
        epsilon: f32,
        blocks: u32,
        arrays: u32,
        rows: u32,
        columns: u32,
    ) {
        const EACH: u32 = C.each;
        const WARPS: u32 = C.threads / 32;
        const ROW: u32 = VECTORS * (16 * C.threads);
        #[shared(dynamic, align = 128)]
        let stages: [u8];
        #[shared]
        let full: [u64; STAGES];
        #[shared(align = 16)]
        let scratch: [f32; 4 * 2 * WARPS];

        let bytes: u32 = columns * size_of::<T>();
        let (all, bars, pairs): (u32, u32, u32) = (stages, full, scratch);
        let (weight_at, sum_at, partial_at): (u64, u64, u64) = (weight, sum, partial);
        let (scales, adds): (pred, pred) = (weight_at != 0, sum_at != 0);
        if tid.x == 0 {
            for stage in 0..STAGES {
                mbarrier::init(bars + 8 * stage, 1);
            }
            mbarrier::fence_init();
        }
        block::sync();
        grid::wait();
        if tid.x == 0 {
            for stage in 0..STAGES {
                let ahead: u64 = ctaid.x as u64 + stage as u64 * blocks as u64;
                if ahead < rows as u64 {
                    let (from, slopes) = (x.at(ahead * x_stride), dy.at(ahead * dy_stride));
                    copy_row::<ROW>(all + stage * (2 * ROW), bars + 8 * stage, from, slopes, bytes);
                }
            }
        }
        let (inside, weights): ([pred; VECTORS], [[b32; 4]; VECTORS]);
        for i in 0..VECTORS {
            let column: u32 = (tid.x + i * C.threads) * EACH;
            inside[i] = column < columns;
            weights[i] = vector::load::<T, EACH>(weight.at(column), inside[i] & scales, vector::ones::<T>());
        }
        let share: f32 = 1.0 / columns as f32;
        let zeros: [f32; EACH * VECTORS] = [0.0; EACH * VECTORS];
        let mut sums = Sums::<C> { inside, weights, dw: zeros, db: zeros };
        let (mut stage, mut phase, mut turn): (u32, u32, u32) = (0, 0, 0);
        let mut last: u32 = STAGES;
        let mut row: u64 = ctaid.x as u64;
        while row < rows as u64 {
            mbarrier::wait(bars + 8 * stage, phase);
            let own: u32 = all + stage * (2 * ROW) + tid.x * 16;
            let (mut a, mut b): (f32, f32) = sum_row::<T, C>(own, inside, weights);
            reduce_pair::<WARPS>(&mut a, &mut b, pairs + turn * (8 * WARPS));
            // All threads are done with the stage before this one.
            if tid.x == 0 {
                let ahead: u64 = row + (STAGES - 1) as u64 * blocks as u64;
                if (last < STAGES) & (ahead < rows as u64) {
                    let (from, slopes) = (x.at(ahead * x_stride), dy.at(ahead * dy_stride));
                    copy_row::<ROW>(all + last * (2 * ROW), bars + 8 * last, from, slopes, bytes);
                }
            }
            let (mut mean, mut slope): (f32, f32) = (0.0, 0.0);
            if C.center == 1 {
                mean = a * share;
                slope = b * share;
                (a, b) = sum_centered::<T, C>(own, inside, weights, mean);
                reduce_pair::<WARPS>(&mut a, &mut b, pairs + (turn + 2) * (8 * WARPS));
            }
            let mut scale: f32 = a.fma(share, epsilon);
            ptx! { rsqrt.approx.f32 scale, scale; }
            let line = Line { own, mean, slope, scale, spread: b * share * scale * scale };
            let (to, more) = (dx.at(row * dx_stride), sum.at(row * sum_stride));
            write_row::<T, C>(&mut sums, &line, to, more, adds);
            last = stage;
            stage += 1;
            if stage == STAGES {
                stage = 0;
                phase = phase ^ 1;
            }
            turn = turn ^ 1;
            row += blocks as u64;
        }
        grid::launch_dependents();
        if partial_at != 0 {
            const SUMS: u32 = 8 * C.threads * C.each;
            // All threads are done with the last stage.
            block::sync();
            store_sums::<C>(all, sums.dw);
            if C.center == 1 {
                if arrays == 2 {
                    store_sums::<C>(all + SUMS, sums.db);
                }
            }
            cluster::sync();
            let to = partial.cast::<f32>().at((ctaid.x / C.cluster() * arrays) as u64 * columns as u64);
            add_cluster::<C>(to, all, columns);
            if C.center == 1 {
                if arrays == 2 {
                    add_cluster::<C>(to.at(columns), all + SUMS, columns);
                }
            }
            // No block ends while another one reads its sums.
            cluster::sync();
        }
    }
}

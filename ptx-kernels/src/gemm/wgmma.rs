//! The product on Hopper's tensor cores with every option, `sm_90a`: TMA and `wgmma`, operands of any type, strides and batches, and the
//! epilogue of the portable kernels. Products without options have the kernels of [`hopper`](super::hopper).
//!
//! Persistent clusters take units of work: a tile of C, or a part of K of one. In each block a producer warp loads 128 bytes along K of
//! the tile's rows and columns into a ring of stages, and one or two warp groups multiply 64 rows each (`mainloop`). Sums leave through shared
//! memory, 64 columns at a time, so that the epilogue sees four neighbors of a row of C in each thread.
//!
//! Where blocks share K, each leaves its sums in the workspace and counts itself. The last one of a tile adds all parts up, in order: no
//! block waits for another one, and the same operands give the same bits.
//!
//! For few rows of C, up to 192, as in decoding, the operands change places: the 128 rows of a tile are columns of C, and it has as many
//! columns as C has rows.
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

mod epilogue;
mod launch;

use super::maps::BOX;
use super::plan::Candidate;
use super::{params, tuning};
use epilogue::with_tile_epilogue;

/// A module of kernels for one type of elements, and their entries in the table.
macro_rules! warp_groups {
    (
        $(#[doc = $doc:literal])*
        mod $name:ident of $element:ident, $sum:ident = $kind:ident, $size:literal:
        $($instance:ident = $tile:ident($rows:literal, $n:literal, $stages:literal, $cluster:literal, $swapped:literal)
            $a:literal $b:literal,)*
    ) => {
        pub(crate) mod $name {
            use super::*;
            /// The kernels of this type.
            pub(crate) const CANDIDATES: &[Candidate] = &[$(
                Candidate {
                    name: concat!("wgmma_", stringify!($name), "_", stringify!($instance)),
                    kind: params::$kind,
                    capability: 90,
                    cluster: Some(if $swapped == 1 { [1, $cluster] } else { [$cluster, 1] }),
                    majors: Some(if $swapped == 1 { [$b == 0, $a == 0] } else { [$a == 0, $b == 0] }),
                    block_m: if $swapped == 1 { $n } else { $rows },
                    block_n: if $swapped == 1 { $rows } else { $n },
                    depth: 128 / $size,
                    near: None,
                    is_plain: false,
                    cost: tuning::$tile,
                    launch: |stream, product, problem| {
                        let tile = launch::Tile {
                            rows: $rows,
                            columns: $n,
                            cluster: $cluster,
                            k_major: [$a == 0, $b == 0],
                            swapped: $swapped == 1,
                        };
                        let work = launch::Work::new(stream, product, &problem, tile)?;
                        // SAFETY: all memory is bound to the stream, and has elements for the extents of the problem; `partial` and
                        // `counters` are as large as the plan says.
                        unsafe {
                            kernels::gemm::$instance(
                                stream, work.config, &work.maps[0], &work.maps[1], work.output, work.problem,
                            )
                        }
                    },
                },
            )*];

            // Each block of a cluster loads whole boxes of an MN-major operand.
            $(const _: () = assert!($b == 0 || $n / $cluster % BOX == 0, stringify!($instance));)*

            with_tile_epilogue! {
                $(#[doc = $doc])*
                mod kernels for "sm_90a" {
                    /// Sizes and layouts of a kernel.
                    #[derive(Clone, Copy, Debug)]
                    pub struct Config {
                        /// Rows of a block's tile: 64 for each warp group that multiplies.
                        pub block_m: u32,
                        /// Columns of a block's tile.
                        pub block_n: u32,
                        /// Stages of the ring.
                        pub stages: u32,
                        /// Blocks of a cluster, along the rows.
                        pub cluster_m: u32,
                        /// 1 if rows of the first operand, or columns of the second one, are neighbors in memory; else elements along K are.
                        pub a_mn: u32,
                        pub b_mn: u32,
                        /// 1 if rows of a tile are columns of C, and the first operand is B.
                        pub swapped: u32,
                    }

                    impl Config {
                        /// Columns of a tile that leave at a time.
                        pub const fn chunk(&self) -> u32 {
                            if self.block_n % 64 == 0 {
                                64
                            } else if self.block_n % 32 == 0 {
                                32
                            } else {
                                16
                            }
                        }

                        /// Warp groups that multiply.
                        pub const fn groups(&self) -> u32 {
                            self.block_m / 64
                        }

                        /// Threads of a block.
                        pub const fn threads(&self) -> u32 {
                            128 * (self.groups() + 1)
                        }

                        /// Stages by which one of two warp groups multiplies before the other one at the end of a tile.
                        pub const fn stagger(&self) -> u32 {
                            if self.groups() == 2 { 3 } else { 0 }
                        }

                        /// Rows of C, and its columns, of a warp's sums that leave at a time.
                        pub const fn rows(&self) -> u32 {
                            if self.swapped == 1 { self.chunk() } else { 16 }
                        }

                        pub const fn columns(&self) -> u32 {
                            if self.swapped == 1 { 16 } else { self.chunk() }
                        }

                        /// Words from one of these rows to the next, so that no two threads of an access meet in a bank.
                        pub const fn pitch(&self) -> u32 {
                            if self.swapped == 1 { 20 } else { self.chunk() + 8 }
                        }
                    }

                    struct SharedMemory<const C: Config> {
                        stages: [mainloop::Stage<{ policy(C) }>; C.stages],
                        /// The sums of each warp on their way to C.
                        #[align(128)]
                        sums: [[u32; C.rows() * C.pitch()]; 4 * C.groups()],
                        barriers: pipeline::Barriers<{ C.stages }>,
                        /// For each warp group, the parts of K that came before.
                        arrived: [u32; 2],
                    }

                    /// A unit of work: a part of K of a tile, in a batch. The tile's number counts all batches.
                    struct Unit {
                        tile: u32,
                        row: u32,
                        column: u32,
                        batch: u32,
                        split: u32,
                        k: mainloop::KRange,
                    }

                    /// C by any number of clusters.
                    #[ptx_kernel(
                        block = C.threads(),
                        cluster = C.cluster_m,
                        max_regs = 168,
                        pdl,
                        instances = [$(
                            $instance = (Config {
                                block_m: $rows, block_n: $n, stages: $stages, cluster_m: $cluster, a_mn: $a, b_mn: $b,
                                swapped: $swapped
                            })
                        ),*]
                    )]
                    pub fn gemm<const C: Config>(a: TensorMap, b: TensorMap, out: Output, p: Problem) {
                        #[shared(dynamic)]
                        let smem: SharedMemory<C>;
                        if tid.x == 0 {
                            tma::prefetch(a);
                            tma::prefetch(b);
                            smem.barriers.init::<1, { C.groups() * C.cluster_m }>();
                        }
                        warp::sync();
                        cluster::arrive_relaxed();
                        cluster::wait();
                        grid::launch_dependents();
                        let warp_group: u32 = cluster::warp_group();
                        if warp_group == 0 {
                            wgmma::fewer_registers::<40>();
                            if tid.x < 32 {
                                load_units::<$element, C>(a, b, smem, &p);
                            }
                        } else {
                            wgmma::more_registers::<232>();
                            grid::wait();
                            multiply_units::<$element, $sum, C>(smem, warp_group, &out, &p);
                        }
                    }

                    /// The producer warp.
                    fn load_units<T, const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<SharedMemory<C>>, p: &Problem) {
                        let rank: u32 = cluster::rank();
                        let mut producer =
                            mainloop::Producer::<{ policy(C) }>::new(a, b, smem.stages, smem.barriers, rank, 0);
                        let (mut index, step): (u32, u32) = (ctaid.x / C.cluster_m, nctaid.x / C.cluster_m);
                        grid::wait();
                        while index < units::<C>(p) {
                            let unit: Unit = unit_at::<C>(index, rank, p);
                            producer.a.group = has(p.flags, A_BATCHES).select(unit.batch, 0);
                            producer.b.group = has(p.flags, B_BATCHES).select(unit.batch, 0);
                            let column: u32 = unit.column + rank * (C.block_n / C.cluster_m);
                            producer.load_tile::<T>(unit.row, column, &unit.k);
                            index += step;
                        }
                        producer.pipeline.drain();
                    }

                    /// A warp group of consumers.
                    fn multiply_units<T, S, const C: Config>(
                        smem: Shared<SharedMemory<C>>, warp_group: u32, out: &Output, p: &Problem,
                    ) {
                        const P: mainloop::Policy = policy(C);
                        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
                        let acc: [S; P.accumulators()];
                        clear(&mut acc);
                        let (rank, warp): (u32, u32) = (cluster::rank(), (tid.x >> 5) - 4);
                        let sums: u32 = smem.sums.at(warp);
                        let (mut index, step): (u32, u32) = (ctaid.x / C.cluster_m, nctaid.x / C.cluster_m);
                        while index < units::<C>(p) {
                            let unit: Unit = unit_at::<C>(index, rank, p);
                            consumer.multiply_tile::<T, { C.stagger() }>(&mut acc, &unit.k);
                            let mut complete: pred = true;
                            if p.splits > 1 {
                                let arrived = smem.arrived.at(warp_group - 1);
                                let slot: u32 = unit.tile * C.groups() + (warp_group - 1);
                                complete = add_parts(&mut acc, &unit, p, arrived, slot);
                            }
                            if complete {
                                write_tile::<S, C>(&acc, sums, &unit, out, p);
                            }
                            index += step;
                        }
                    }

                    fn clear<S, const N: u32>(acc: &mut [S; N]) {
                        for i in 0..N {
                            ptx! { mov.b32 acc[i], 0; }
                        }
                    }

                    /// Tiles along the rows, in clusters, and along the columns.
                    fn tiles<const C: Config>(p: &Problem) -> (u32, u32) {
                        let (rows, columns): (u32, u32);
                        if C.swapped == 1 {
                            rows = p.tiles_n;
                            columns = p.tiles_m;
                        } else {
                            rows = p.tiles_m;
                            columns = p.tiles_n;
                        }
                        ((rows + (C.cluster_m - 1)) / C.cluster_m, columns)
                    }

                    /// Units of all clusters.
                    fn units<const C: Config>(p: &Problem) -> u32 {
                        let (rows, columns): (u32, u32) = tiles::<C>(p);
                        rows * columns * p.splits * p.batches
                    }

                    /// A unit of a cluster, for its block `rank`. Units of one part of K are neighbors, in bands of eight clusters.
                    fn unit_at<const C: Config>(index: u32, rank: u32, p: &Problem) -> Unit {
                        let (rows, columns): (u32, u32) = tiles::<C>(p);
                        let round: u32 = index / (rows * columns);
                        let inside: u32 = index - round * (rows * columns);
                        let (row, column): (u32, u32) = scheduler::grouped(inside, rows, columns, 8);
                        let batch: u32 = round / p.splits;
                        let split: u32 = round - batch * p.splits;
                        let begin: u32 = split * p.k_split;
                        let k = mainloop::KRange { begin, end: (begin + p.k_split).min(p.k), backward: 0 };
                        let tile: u32 = (batch * (rows * columns) + inside) * C.cluster_m + rank;
                        let row: u32 = (row * C.cluster_m + rank) * C.block_m;
                        Unit { tile, row, column: column * C.block_n, batch, split, k }
                    }

                    /// Leaves the sums of a part of K of a warp group's 64 rows in the workspace. The warp group that is the last one of a
                    /// tile returns true; it has added the sums of all parts up, in order.
                    fn add_parts<S, const N: u32>(
                        acc: &mut [S; N], unit: &Unit, p: &Problem, arrived: Shared<u32>, slot: u32,
                    ) -> pred {
                        const BYTES: u64 = (N * 512) as u64;
                        let barrier: u32 = tid.x / 128;
                        let part: u64 = p.partial + wide(slot) * p.splits * BYTES + wide(tid.x & 127) * 16;
                        let to: u64 = part + wide(unit.split) * (N * 512);
                        for quad in 0..N / 4 {
                            ptx! { st.global.v4.b32 [to + 2048 * quad], {acc[4 * quad..4 * quad + 4]}; }
                        }
                        barrier::sync::<128>(barrier);
                        if (tid.x & 127) == 0 {
                            let (counter, most, before): (u64, u32, u32);
                            counter = p.counters + wide(slot) * 4;
                            most = p.splits - 1;
                            ptx! {
                                atom.acq_rel.gpu.global.inc.u32 before, [counter], most;
                                st.shared.u32 [arrived], before;
                            }
                        }
                        barrier::sync::<128>(barrier);
                        let before: u32;
                        ptx! { ld.shared.u32 before, [arrived]; }
                        let last: pred = before == p.splits - 1;
                        if last {
                            clear(acc);
                            let (mut from, mut left): (u64, u32) = (part, p.splits);
                            while left > 0 {
                                add_group(acc, from, left);
                                from += BYTES * group(N) as u64;
                                left -= left.min(group(N));
                            }
                        }
                        last
                    }

                    /// Parts of `n` sums that are added at a time: up to 128 registers are on their way.
                    fn group(n: u32) -> u32 {
                        if n < 128 { 128 / n } else { 1 }
                    }

                    /// Adds the next parts of K to the sums, in order; `left` are there.
                    fn add_group<S, const N: u32>(acc: &mut [S; N], from: u64, left: u32) {
                        const EVEN: u32 = if N % 64 == 0 { 64 } else if N % 32 == 0 { 32 } else { 16 };
                        const AT_ONCE: u32 = if N % EVEN == 0 { EVEN } else if N < EVEN { N } else { 4 };
                        for piece in 0..N / AT_ONCE {
                            let more: [[S; AT_ONCE]; group(N)];
                            for part in 0..group(N) {
                                let there: pred = left > part;
                                for quad in 0..AT_ONCE / 4 {
                                    const AT: u32 = part * (N * 512) + (piece * (AT_ONCE / 4) + quad) * 2048;
                                    for i in 0..4 {
                                        ptx! { mov.b32 more[part][4 * quad + i], 0; }
                                    }
                                    ptx! { @there ld.global.v4.b32 {more[part][4 * quad..4 * quad + 4]}, [from + AT]; }
                                }
                            }
                            for part in 0..group(N) {
                                for i in 0..AT_ONCE {
                                    acc[piece * AT_ONCE + i] += more[part][i];
                                }
                            }
                        }
                    }

                    /// Brings a warp's 16 rows of a tile to the epilogue, some columns at a time.
                    fn write_tile<S, const C: Config, const N: u32>(
                        acc: &[S; N], sums: u32, unit: &Unit, out: &Output, p: &Problem,
                    ) {
                        let row: u32 = unit.row + ((tid.x >> 5) - 4) * 16;
                        let mut chunk: u32 = 0;
                        while chunk < C.block_n / C.chunk() {
                            for at in 0..C.block_n / C.chunk() {
                                if chunk == at {
                                    stage_sums::<S, { at * C.chunk() / 2 }, C>(acc, sums);
                                }
                            }
                            warp::sync();
                            let column: u32 = unit.column + chunk * C.chunk();
                            let mut at = Place { row, column, batch: unit.batch, split: 0 };
                            if C.swapped == 1 {
                                at.row = column;
                                at.column = row;
                            }
                            write_sums::<S, { C.rows() }, { C.columns() }, { C.pitch() }>(sums, &at, out, p);
                            warp::sync();
                            chunk += 1;
                        }
                    }

                    /// Leaves the sums of some columns of a warp's tile, from accumulator `FIRST` on, in shared memory: row by row of C.
                    fn stage_sums<S, const FIRST: u32, const C: Config, const N: u32>(acc: &[S; N], sums: u32) {
                        const PITCH: u32 = 4 * C.pitch();
                        let (row, column): (u32, u32) = (laneid / 4, laneid % 4 * 2);
                        if C.swapped == 1 {
                            let to: u32 = sums + column * PITCH + row * 4;
                            for i in 0..C.chunk() / 2 {
                                // Of each four, two neighbors of a row, and those eight rows below.
                                const AT: u32 = (i / 4 * 8 + i % 2) * PITCH + i / 2 % 2 * 32;
                                ptx! { st.shared.b32 [to + AT], acc[FIRST + i]; }
                            }
                        } else {
                            let to: u32 = sums + row * PITCH + column * 4;
                            for pair in 0..C.chunk() / 4 {
                                const AT: u32 = pair / 2 * 32 + pair % 2 * (8 * PITCH);
                                const FROM: u32 = FIRST + 2 * pair;
                                ptx! { st.shared.v2.b32 [to + AT], {acc[FROM], acc[FROM + 1]}; }
                            }
                        }
                    }

                    fn policy(c: Config) -> mainloop::Policy {
                        mainloop::Policy {
                            block_m: c.block_m,
                            block_n: c.block_n,
                            stages: c.stages,
                            cluster_m: c.cluster_m,
                            cluster_n: 1,
                            major_a: c.a_mn,
                            major_b: c.b_mn,
                            groups: 2,
                        }
                    }
                }
            }
        }
    };
}

macro_rules! any_major {
    ($(#[doc = $doc:literal])* mod $name:ident of $element:ident = $kind:ident) => {
        warp_groups! {
            $(#[doc = $doc])*
            mod $name of $element, f32 = $kind, 2:
            wide_kk = WIDE(128, 256, 3, 2, 0) 0 0,
            wide_kn = WIDE(128, 256, 3, 2, 0) 0 1,
            wide_mk = WIDE(128, 256, 3, 2, 0) 1 0,
            wide_mn = WIDE(128, 256, 3, 2, 0) 1 1,
            square_kk = SQUARE(128, 128, 5, 2, 0) 0 0,
            square_kn = SQUARE(128, 128, 5, 2, 0) 0 1,
            square_mk = SQUARE(128, 128, 5, 2, 0) 1 0,
            square_mn = SQUARE(128, 128, 5, 2, 0) 1 1,
            middle_kk = MIDDLE(128, 192, 4, 2, 0) 0 0,
            middle_kn = MIDDLE_ALONE(128, 192, 4, 1, 0) 0 1,
            lean_kk = LEAN(128, 160, 5, 2, 0) 0 0,
            thin_kk = THIN(128, 96, 7, 2, 0) 0 0,
            slim_kk = SLIM(128, 64, 7, 2, 0) 0 0,
            slim_kn = SLIM_ALONE(128, 64, 7, 1, 0) 0 1,
            low_kk = LOW(64, 96, 10, 2, 0) 0 0,
            small_kk = SMALL(64, 64, 12, 1, 0) 0 0,
            small_kn = SMALL(64, 64, 12, 1, 0) 0 1,
            small_pair_kk = SMALL_PAIR(64, 64, 12, 2, 0) 0 0,
            tiny_kk = TINY(64, 32, 16, 2, 0) 0 0,
            few192_kk = FEW192(128, 192, 4, 2, 1) 0 0,
            few192_kn = FEW192(128, 192, 4, 2, 1) 1 0,
            few160_kn = FEW160(128, 160, 5, 2, 1) 1 0,
            few128_kk = FEW128(128, 128, 5, 2, 1) 0 0,
            few96_kk = FEW96(128, 96, 6, 2, 1) 0 0,
            few96_kn = FEW96(128, 96, 6, 2, 1) 1 0,
            few64_kk = FEW64(128, 64, 7, 1, 1) 0 0,
            few64_kn = FEW64_PAIR(128, 64, 7, 2, 1) 1 0,
            few32_kk = FEW32(128, 32, 9, 1, 1) 0 0,
            few32_kn = FEW32(128, 32, 9, 1, 1) 1 0,
            few32_low_kn = FEW32_LOW(64, 32, 16, 2, 1) 1 0,
            few16_kk = FEW16(128, 16, 10, 1, 1) 0 0,
            few16_kn = FEW16(128, 16, 10, 1, 1) 1 0,
        }
    };
}

macro_rules! k_major {
    ($(#[doc = $doc:literal])* mod $name:ident of $element:ident, $sum:ident = $kind:ident, $size:literal) => {
        warp_groups! {
            $(#[doc = $doc])*
            mod $name of $element, $sum = $kind, $size:
            wide = WIDE(128, 256, 3, 2, 0) 0 0,
            square = SQUARE(128, 128, 5, 2, 0) 0 0,
            middle = MIDDLE(128, 192, 4, 2, 0) 0 0,
            slim = SLIM(128, 64, 7, 1, 0) 0 0,
            small = SMALL(64, 64, 12, 1, 0) 0 0,
            few192 = FEW192(128, 192, 4, 2, 1) 0 0,
            few128 = FEW128(128, 128, 5, 2, 1) 0 0,
            few64 = FEW64(128, 64, 7, 1, 1) 0 0,
            few16 = FEW16(128, 16, 10, 1, 1) 0 0,
        }
    };
}

any_major! {
    /// Of `f16`.
    mod f16 of f16 = F16
}
any_major! {
    /// Of `bf16`.
    mod bf16 of bf16 = BF16
}
k_major! {
    /// Of `f32`, cut to `tf32`.
    mod tf32 of f32, f32 = TF32, 4
}
k_major! {
    /// Of `i8`.
    mod i8 of i8, i32 = I8, 1
}
k_major! {
    /// Of `e4m3`.
    mod e4m3 of e4m3, f32 = E4M3, 1
}
k_major! {
    /// Of `e5m2`.
    mod e5m2 of e5m2, f32 = E5M2, 1
}

//! Counters of the profiler, worked out by hand.

use crate::harness::{kernel, program};
use ptx_interp::chip::{Chip, Needs};
use ptx_interp::profile::{self, Counts, Profile};
use ptx_interp::{Launch, Machine, Options};

/// The profile of a body (see [`kernel`]) in one block.
fn profile_of(body: &str, block: u32) -> Profile {
    let mut machine = Machine::new();
    let out = machine.alloc(1 << 16).unwrap();
    let launch = Launch {
        entry: "k",
        grid: [1; 3],
        block: [block, 1, 1],
        cluster: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        params: &out.to_le_bytes(),
        options: Options::default(),
    };
    machine.profile(&program(&kernel(body)), &launch, &profile::Options::default()).unwrap().1
}

fn counter(counts: &Counts, name: &str) -> u64 {
    counts.entries().into_iter().find(|(found, _)| *found == name).unwrap_or_else(|| panic!("no counter `{name}`")).1
}

/// Name, threads, body, and the counters that it has.
type Case<'a> = (&'a str, u32, &'a str, &'a [(&'a str, u64)]);

/// Each thread's address is `%r1` in shared memory, `%d1` in global memory.
const PLACES: &str = ".shared .align 1024 .b8 sm[32768]; mov.u32 %r2, sm; ";

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("words in a stride of 32", 32, "mad.lo.u32 %r1, %t, 128, %r2; st.shared.u32 [%r1], %t; ld.shared.u32 %r3, [%r1];",
        &[("shared_store_requests", 1), ("shared_store_wavefronts", 32), ("shared_store_wavefronts_ideal", 1),
          ("shared_load_requests", 1), ("shared_load_wavefronts", 32), ("shared_load_wavefronts_ideal", 1), ("shared_load_bytes", 128)]),
    ("words in a stride of 33, two warps", 64, "mad.lo.u32 %r1, %t, 132, %r2; st.shared.u32 [%r1], %t;",
        &[("shared_store_requests", 2), ("shared_store_wavefronts", 2), ("shared_store_wavefronts_ideal", 2)]),
    ("neighbors", 32, "mad.lo.u32 %r1, %t, 4, %r2; st.shared.u32 [%r1], %t; ld.shared.u32 %r3, [%r1];",
        &[("shared_store_wavefronts", 1), ("shared_load_wavefronts", 1), ("shared_load_wavefronts_ideal", 1)]),
    ("neighbors of 8 bytes", 32, "mad.lo.u32 %r1, %t, 8, %r2; st.shared.u64 [%r1], %d1; ld.shared.v2.u32 {%r3, %r4}, [%r1];",
        &[("shared_store_wavefronts", 2), ("shared_store_wavefronts_ideal", 2), ("shared_load_wavefronts", 2), ("shared_load_wavefronts_ideal", 2)]),
    ("neighbors of 16 bytes", 32, "mad.lo.u32 %r1, %t, 16, %r2; st.shared.v4.u32 [%r1], {%t, %t, %t, %t}; ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r1];",
        &[("shared_store_wavefronts", 4), ("shared_store_wavefronts_ideal", 4), ("shared_load_wavefronts", 4), ("shared_load_wavefronts_ideal", 4)]),
    ("one word for all", 32, "st.shared.u32 [%r2], 5; ld.shared.u32 %r3, [%r2];",
        &[("shared_store_wavefronts", 1), ("shared_load_wavefronts", 1), ("shared_load_bytes", 128)]),
    ("a generic address of shared memory", 32, "mad.lo.u32 %r1, %t, 8, %r2; cvt.u64.u32 %d1, %r1; cvta.shared.u64 %d1, %d1; ld.u32 %r3, [%d1]; st.u32 [%d1], %r3;",
        &[("shared_load_wavefronts", 2), ("shared_store_wavefronts", 2), ("global_load_requests", 0), ("global_store_requests", 0)]),
    ("a generic address of global memory", 32, "mad.wide.u32 %d1, %t, 4, %out; ld.u32 %r3, [%d1]; st.u32 [%d1], %r3;",
        &[("global_load_requests", 1), ("global_load_sectors", 4), ("global_store_requests", 1), ("global_store_sectors", 4), ("shared_load_requests", 0)]),
    ("global words, 4 bytes further", 32, "mad.wide.u32 %d1, %t, 4, %out; ld.global.u32 %r3, [%d1+4];",
        &[("global_load_requests", 1), ("global_load_sectors", 5), ("global_load_sectors_ideal", 4), ("global_load_bytes", 128)]),
    ("global words in a stride of 8", 32, "mad.wide.u32 %d1, %t, 32, %out; ld.global.nc.u32 %r3, [%d1]; st.global.u32 [%d1], %r3;",
        &[("global_load_sectors", 32), ("global_load_sectors_ideal", 4), ("global_store_sectors", 32), ("global_store_sectors_ideal", 4)]),
    ("16 bytes of global memory", 40, "mad.wide.u32 %d1, %t, 16, %out; ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%d1];",
        &[("global_load_requests", 2), ("global_load_sectors", 20), ("global_load_sectors_ideal", 20)]),
    ("one word of global memory", 32, "ld.global.u32 %r3, [%out];",
        &[("global_load_requests", 1), ("global_load_sectors", 1), ("global_load_sectors_ideal", 1)]),
    ("lanes that a predicate turns off", 64, "mad.wide.u32 %d1, %t, 4, %out; setp.lt.u32 %p1, %t, 16; @%p1 ld.global.u32 %r3, [%d1];",
        &[("global_load_requests", 1), ("global_load_sectors", 2), ("instructions", 14), ("thread_instructions", 448), ("thread_instructions_pred_on", 400)]),
    ("cp.async", 32, "mad.lo.u32 %r1, %t, 16, %r2; mad.wide.u32 %d1, %t, 16, %out; cp.async.cg.shared.global [%r1], [%d1], 16; cp.async.wait_all;",
        &[("async_copy_requests", 1), ("async_copy_sectors", 16), ("async_copy_wavefronts", 4), ("async_copy_wavefronts_ideal", 4), ("async_copy_bytes", 512),
          ("global_load_requests", 0), ("shared_store_requests", 0)]),
    ("reductions of one word", 32, "red.global.add.u32 [%out], 1; red.shared.add.u32 [%r2], 1;",
        &[("global_reduction_requests", 1), ("global_reduction_sectors", 32), ("atomic_updates", 64), ("atomic_conflicts", 62),
          ("shared_atomic_requests", 1), ("shared_atomic_wavefronts", 1), ("global_load_requests", 0), ("global_store_requests", 0)]),
    ("atomics on neighbors", 32, "mad.wide.u32 %d1, %t, 4, %out; atom.global.add.u32 %r3, [%d1], 1; mov.u32 %r4, %r3;",
        &[("global_atomic_requests", 1), ("global_atomic_sectors", 4), ("atomic_updates", 32), ("atomic_conflicts", 0)]),
    ("an atomic whose result nothing reads", 32, "shr.u32 %r4, %t, 3; mad.wide.u32 %d1, %r4, 4, %out; atom.global.add.u32 %r3, [%d1], 1;",
        &[("global_atomic_requests", 0), ("global_reduction_requests", 1), ("global_reduction_sectors", 8), ("atomic_conflicts", 28)]),
    ("updates of shared memory by 2, and by comparison", 32, "red.shared.add.u32 [%r2], 2; atom.shared.cas.b32 %r3, [%r2], 1, 2; mov.u32 %r4, %r3;",
        &[("shared_atomic_requests", 2), ("shared_atomic_wavefronts", 32 + 64)]),
    ("a generic load of 16 bytes that agrees in pairs", 32, "shr.u32 %r4, %t, 1; mad.lo.u32 %r1, %r4, 16, %r2; ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r1]; \
        cvt.u64.u32 %d1, %r1; cvta.shared.u64 %d1, %d1; ld.v4.u32 {%r3, %r4, %r5, %r6}, [%d1];",
        &[("shared_load_wavefronts", 2 + 4)]),
    ("one sector of every 128 bytes", 32, "mad.wide.u32 %d1, %t, 128, %out; ld.global.u32 %r3, [%d1]; ld.global.u32 %r3, [%d1+32];",
        &[("global_load_sectors", 64), ("l2_read_sectors", 64), ("l2_hit_sectors", 0), ("dram_read_bytes", 2048)]),
    ("ldmatrix of rows of 128 bytes", 32, "and.b32 %r3, %t, 15; shl.b32 %r3, %r3, 7; shr.u32 %r4, %t, 4; shl.b32 %r4, %r4, 4; add.u32 %r3, %r3, %r4; add.u32 %r1, %r2, %r3; \
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r1]; ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r5, %r6}, [%r1]; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r1];",
        &[("shared_load_requests", 3), ("shared_load_wavefronts", 32 + 16 + 8), ("shared_load_wavefronts_ideal", 4 + 2 + 1)]),
    ("ldmatrix and stmatrix with a swizzle", 32, "and.b32 %r3, %t, 15; shl.b32 %r4, %r3, 7; shr.u32 %r5, %t, 4; and.b32 %r6, %t, 7; xor.b32 %r5, %r5, %r6; mad.lo.u32 %r4, %r5, 16, %r4; add.u32 %r1, %r2, %r4; \
        ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r5, %r6, %r7, %r8}, [%r1]; stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r5, %r6, %r7, %r8};",
        &[("shared_load_wavefronts", 4), ("shared_load_wavefronts_ideal", 4), ("shared_store_wavefronts", 4), ("shared_store_wavefronts_ideal", 4)]),
    ("local memory", 32, ".local .align 16 .b32 x[4]; mov.u64 %d1, x; st.local.u32 [%d1], %t; ld.local.v2.u32 {%r3, %r4}, [%d1];",
        &[("local_store_requests", 1), ("local_store_sectors", 4), ("local_load_requests", 1), ("local_load_sectors", 8)]),
    ("a branch that half of the lanes take", 32, "setp.lt.u32 %p1, %t, 16; @%p1 bra L; mov.u32 %r1, 1; L: mov.u32 %r1, 2;",
        &[("divergent_branches", 1), ("instructions", 8), ("thread_instructions", 240)]),
    ("a branch that whole warps take", 64, "setp.lt.u32 %p1, %t, 32; @%p1 bra L; mov.u32 %r1, 1; L: mov.u32 %r1, 2;",
        &[("divergent_branches", 0), ("instructions", 15)]),
    ("operations", 32, "fma.rn.f32 %f1, %f2, %f3, %f4; add.rn.f64 %g1, %g2, %g3; fma.rn.f16x2 %r1, %r1, %r1, %r1; add.u32 %r1, %r1, 1; \
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};",
        &[("flops_fp32", 64), ("flops_fp64", 32), ("flops_fp16", 128), ("flops_tensor", 4096)]),
    ("a bulk copy", 32, ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared::cta.b64 [bar], 1; \
        @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256; \
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%out], 256, [bar];",
        &[("bulk_load_bytes", 256), ("bulk_load_sectors", 8), ("bulk_shared_bytes", 256), ("global_load_requests", 0), ("shared_store_requests", 0)]),
];

#[test]
fn instructions_count_as_worked_out_by_hand() {
    for (name, threads, body, counters) in CASES {
        let totals = profile_of(&format!("{PLACES}{body}"), *threads).totals;
        for (counter_name, value) in *counters {
            assert_eq!(counter(&totals, counter_name), *value, "{counter_name} of {name}");
        }
    }
}

/// Profiling changes nothing that a kernel computes, and counts as many instructions as a plain run.
#[test]
fn profiles_agree_with_plain_runs() {
    let body = "setp.lt.u32 %p1, %t, 7; @%p1 bra L; mad.wide.u32 %d1, %t, 4, %out; st.global.u32 [%d1], %t; L: bar.sync 0; atom.global.add.u32 %r1, [%out], 3;";
    let program = program(&kernel(body));
    let run = |profiled: bool| {
        let mut machine = Machine::new();
        let out = machine.alloc(512).unwrap();
        let params = out.to_le_bytes();
        let options = Options { watch: false, ..Options::default() };
        let launch = Launch {
            entry: "k",
            grid: [3, 1, 1],
            block: [100, 1, 1],
            cluster: [1; 3],
            dynamic_shared: 0,
            cooperative: false,
            params: &params,
            options,
        };
        let (stats, counted) = match profiled {
            true => machine
                .profile(&program, &launch, &profile::Options::default())
                .map(|(stats, profile)| (stats, Some(profile.totals)))
                .unwrap(),
            false => (machine.launch(&program, &launch).unwrap(), None),
        };
        let mut bytes = vec![0; 512];
        machine.read(out, &mut bytes).unwrap();
        (stats, bytes, counted)
    };
    let (plain, profiled) = (run(false), run(true));
    assert_eq!((&plain.0, &plain.1), (&profiled.0, &profiled.1));
    let totals = profiled.2.unwrap();
    assert_eq!(totals.instructions, plain.0.warp_instructions);
    assert_eq!(totals.thread_instructions_pred_on, plain.0.instructions);
}

/// A second load of the same bytes is found in L1, unless the instruction passes it by; stores and atomics are in L2.
#[test]
fn caches_keep_what_was_loaded() {
    let body = "mad.wide.u32 %d1, %t, 4, %out; ld.global.u32 %r1, [%d1]; ld.global.u32 %r2, [%d1]; ld.global.cg.u32 %r3, [%d1]; \
        st.global.u32 [%d1], %r1; st.global.u32 [%d1], %r2; red.global.add.u32 [%out], 1;";
    let totals = profile_of(body, 32).totals;
    let expected = [
        ("l1_hit_sectors", 4),
        ("l1_miss_sectors", 8),
        ("l2_read_sectors", 8),
        ("l2_hit_sectors", 4),
        ("l2_write_sectors", 9),
        ("dram_read_bytes", 128),
        ("dram_write_bytes", 128),
    ];
    for (name, value) in expected {
        assert_eq!(counter(&totals, name), value, "{name}");
    }
}

/// Of 64 blocks, which store more the larger their x is, 16 run: the estimate lies within three standard errors.
#[test]
fn samples_estimate_the_whole() {
    let body = "mov.u32 %r1, %ctaid.x; setp.le.u32 %p1, %t, %r1; mad.wide.u32 %d1, %t, 32, %out; @%p1 st.global.u32 [%d1], %t;";
    let program = program(&kernel(body));
    let run = |blocks: Option<u64>| {
        let mut machine = Machine::new();
        let params = machine.alloc(1 << 12).unwrap().to_le_bytes();
        let launch = Launch {
            entry: "k",
            grid: [16, 2, 2],
            block: [64, 1, 1],
            cluster: [2, 1, 1],
            dynamic_shared: 0,
            cooperative: false,
            params: &params,
            options: Options::default(),
        };
        machine.profile(&program, &launch, &profile::Options { blocks, ..Default::default() }).unwrap().1
    };
    let (whole, part) = (run(None), run(Some(16)));
    assert_eq!((whole.sample, run(Some(64)).sample), (None, None));
    let sample = part.sample.unwrap();
    assert_eq!((sample.ran, sample.blocks), (16, 64));
    assert_eq!(part.totals.instructions, whole.totals.instructions);
    let error = sample.errors.iter().find(|(name, _)| *name == "global_store_sectors").unwrap().1;
    let [estimate, exact] = [part.totals, whole.totals].map(|totals| totals.global_store_sectors as f64);
    assert!(error > 0.0 && (estimate - exact).abs() <= 3.0 * error * estimate, "{estimate} for {exact}, error {error}");
}

/// Chip, threads, registers, shared memory; blocks of a multiprocessor, and the limit.
type Held = (&'static str, u64, Option<u64>, u64, u64, &'static str);

const OCCUPANCIES: &[Held] = &[
    ("H100", 128, Some(32), 0, 16, "warps"),
    ("H100", 128, None, 0, 16, "warps"),
    ("H100", 256, Some(64), 0, 4, "registers"),
    ("H100", 384, Some(168), 231_424, 1, "registers"),
    ("H100", 32, Some(16), 0, 32, "blocks"),
    ("A100", 256, Some(40), 48 << 10, 3, "shared memory"),
    ("A100", 1024, Some(64), 0, 1, "registers"),
    ("L40S", 256, Some(48), 0, 5, "registers"),
    ("T4", 512, Some(32), 0, 2, "warps"),
];

#[test]
fn occupancy_follows_the_rules_of_the_chip() {
    for (name, threads, registers, shared, blocks, limit) in OCCUPANCIES {
        let needs = Needs { threads: *threads, registers: *registers, shared: *shared };
        let occupancy = Chip::find(name).unwrap().occupancy(needs);
        assert_eq!(occupancy.blocks, *blocks, "{name} {needs:?}: {occupancy:?}");
        assert!(occupancy.limits.contains(&(*limit, *blocks)), "{name} {needs:?}: {occupancy:?}");
    }
}

#[test]
fn the_manual_names_every_counter() {
    let manual = include_str!("../../../docs/profile.md");
    for (name, _) in Counts::default().entries() {
        assert!(manual.contains(&format!("`{name}`")), "docs/profile.md has no `{name}`");
    }
}

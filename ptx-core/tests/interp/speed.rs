//! How fast the engine is: `cargo test --release -p ptx-core --features interp --test interp speed -- --ignored --nocapture`.

use crate::harness::{kernel, launch, program};
use ptx_core::interp::{Machine, Options};
use std::time::Instant;

const BLOCKS: u32 = 4096;
/// `y[i] = 3 · x[i] + y[i]` over 2^20 floats, in two arrays one after the other.
const SAXPY: &str = "
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %t; mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d1, %out;
  ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d1+4194304]; fma.rn.f32 %f2, %f1, 0f40400000, %f2; st.global.f32 [%d1+4194304], %f2; ret;";
/// A thousand steps of a generator of random numbers in each of 2^16 threads.
const LOOP: &str = "
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %t; mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d1, %out; mov.u32 %r4, 0;
L: xor.b32 %r5, %r3, %r4; shl.b32 %r6, %r5, 13; xor.b32 %r5, %r5, %r6; shr.u32 %r6, %r5, 17; xor.b32 %r5, %r5, %r6;
  mad.lo.u32 %r3, %r5, 1664525, %r4; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 1000; @%p1 bra L;
  st.global.u32 [%d1], %r3; ret;";

const RUNS: u32 = 5;

/// Seconds that this process has been on a core, on Linux: what a busy machine does not change.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    behind_name.take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

#[test]
#[ignore = "a measurement, for release builds"]
fn threads_and_instructions_per_second() {
    for (name, body, blocks) in [("saxpy of 2^20", SAXPY, BLOCKS), ("integers", LOOP, 256)] {
        let program = program(&kernel(body));
        for (how, watch, cores) in [("watched", true, 1), ("one core", false, 1), ("two cores", false, 2)] {
            let mut machine = Machine::new();
            machine.cores(cores);
            let out = machine.alloc(8 << 20).unwrap();
            machine.write(out, &vec![0; 8 << 20]).unwrap();
            let options = Options { watch, ..Options::default() };
            let before = cpu_seconds();
            let all = (0..RUNS).map(|_| {
                let start = Instant::now();
                let stats = launch(&mut machine, &program, blocks, 256, &out.to_le_bytes(), options).unwrap();
                (start.elapsed().as_secs_f64(), stats.instructions)
            });
            let (seconds, instructions) = all.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            let rate = |seconds: f64| instructions as f64 / seconds / 1e6;
            let busy = (cpu_seconds() - before) / f64::from(RUNS);
            println!(
                "{name}, {how}: best of {RUNS} {:.1} ms, {:.0} million thread-instructions/s; CPU time of a run {:.0} ms, {:.0}",
                seconds * 1e3,
                rate(seconds),
                busy * 1e3,
                rate(busy)
            );
        }
    }
}

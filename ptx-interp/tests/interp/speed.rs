//! Speed of the engine: `cargo test --release -p ptx-tests --test interp speed -- --ignored --nocapture`.
//!
//! The texts in `speed/` have only what other interpreters of PTX know too, so that they can be run beside this one.

use crate::harness::program;
use ptx_interp::{Launch, Machine, Options, Program, Stats};
use std::fmt::Write;
use std::time::Instant;

/// An entry, its launch, and the bytes of each of its buffers; scalars follow.
struct Case {
    name: &'static str,
    text: String,
    entry: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    buffers: &'static [usize],
    scalars: Vec<u8>,
}

const MATRIX: usize = 256 * 256 * 4;

fn cases() -> [Case; 4] {
    let case = |name, text: &str, entry, (grid, block), buffers, scalars: &[u8]| {
        let (text, scalars) = (text.to_string(), scalars.to_vec());
        Case { name, text, entry, grid, block, buffers, scalars }
    };
    let flat = |grid, block| ([grid, 1, 1], [block, 1, 1]);
    let [saxpy, turns, product] =
        [include_str!("speed/saxpy.ptx"), include_str!("speed/turns.ptx"), include_str!("speed/product.ptx")];
    [
        case("saxpy of 2^20 floats", saxpy, "saxpy", flat(4096, 256), &[4 << 20, 4 << 20], &3f32.to_le_bytes()),
        case(
            "a thousand turns of integers in 2^16 threads",
            turns,
            "turns",
            flat(256, 256),
            &[4 << 16],
            &1000u64.to_le_bytes(),
        ),
        case(
            "256 × 256 × 256 f32, a thread an element",
            product,
            "product",
            ([16, 16, 1], [16, 16, 1]),
            &[MATRIX; 3],
            &256u64.to_le_bytes(),
        ),
        case(
            "256 × 256 × 64 bf16 by wgmma, one block",
            &block(),
            "block",
            flat(1, 512),
            &[32 << 10, 32 << 10, MATRIX],
            &[],
        ),
    ]
}

/// A block of four warpgroups: both operands into swizzled shared memory, four `wgmma` each, and the sums to global memory.
fn block() -> String {
    let sums = (0..128).map(|i| format!("%f{i}")).collect::<Vec<_>>().join(",");
    let mut body = String::new();
    for step in 0..4 {
        let [a, b] = ["a", "b"].map(|m| format!("add.s64 %{m}{step}, %{m}d, {};", 2 * step));
        writeln!(body, "{a} {b} wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{sums}}}, %a{step}, %b{step}, {}, 1, 1, 0, 0;", u32::from(step > 0)).unwrap();
    }
    let store = |i: usize| {
        // Row 8 · (i / 2 mod 2) and column 8 · (i / 4) + i mod 2 from the thread's own.
        let at = (i / 2 % 2 * 8 * 256 + i / 4 * 8 + i % 2) * 4;
        format!("st.global.f32 [%o+{at}], %f{i};\n")
    };
    let stores: String = (0..128).map(store).collect();
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 sm[];
.visible .entry block(.param .u64 a, .param .u64 b, .param .u64 c) {{
.reg .b64 %a,%b,%o,%x,%ad,%bd,%a<4>,%b<4>; .reg .b32 %t,%i,%r,%k,%s,%v<4>; .reg .f32 %f<128>; .reg .pred %p;
ld.param.u64 %a,[a]; ld.param.u64 %b,[b]; ld.param.u64 %o,[c]; mov.u32 %t,%tid.x; mov.u32 %i,%t;
COPY: shr.u32 %r,%i,3; and.b32 %k,%i,7; and.b32 %s,%r,7; xor.b32 %k,%k,%s; shl.b32 %r,%r,7; shl.b32 %k,%k,4; add.u32 %s,%r,%k; mov.u32 %k,sm; add.u32 %s,%s,%k;
mad.wide.u32 %x,%i,16,%a; ld.global.v4.u32 {{%v0,%v1,%v2,%v3}},[%x]; st.shared.v4.u32 [%s],{{%v0,%v1,%v2,%v3}};
mad.wide.u32 %x,%i,16,%b; ld.global.v4.u32 {{%v0,%v1,%v2,%v3}},[%x]; st.shared.v4.u32 [%s+32768],{{%v0,%v1,%v2,%v3}};
add.u32 %i,%i,512; setp.lt.u32 %p,%i,2048; @%p bra COPY;
fence.proxy.async; bar.sync 0;
shr.u32 %r,%t,7; mad.lo.u32 %s,%r,8192,%k; shr.u32 %s,%s,4; cvt.u64.u32 %ad,%s; add.u32 %s,%k,32768; shr.u32 %s,%s,4; cvt.u64.u32 %bd,%s;
or.b64 %ad,%ad,0x4000004000010000; or.b64 %bd,%bd,0x4000004000010000;
wgmma.fence.sync.aligned;
{body}wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
shr.u32 %r,%t,5; shl.b32 %r,%r,4; shr.u32 %k,%t,2; and.b32 %k,%k,7; add.u32 %r,%r,%k; mad.wide.u32 %o,%r,1024,%o;
and.b32 %k,%t,3; mad.wide.u32 %o,%k,8,%o;
{stores}ret; }}\n"
    )
}

impl Case {
    fn program(&self) -> Program {
        program(&self.text)
    }

    /// A machine with the buffers, each of numbers between -2 and 2 in the halves of its words, and the parameters.
    fn machine(&self) -> (Machine, Vec<u64>, Vec<u8>) {
        let mut machine = Machine::new();
        let mut params = Vec::new();
        let mut addresses = Vec::new();
        for (number, bytes) in self.buffers.iter().enumerate() {
            let address = machine.alloc(*bytes as u64).unwrap();
            let halves: Vec<u8> = (0..bytes / 2).flat_map(|i| (bf16(number, i)).to_le_bytes()).collect();
            machine.write(address, &halves).unwrap();
            params.extend(address.to_le_bytes());
            addresses.push(address);
        }
        params.extend(&self.scalars);
        (machine, addresses, params)
    }

    fn run(&self, machine: &mut Machine, program: &Program, params: &[u8], options: Options) -> Stats {
        self.with_launch(params, options, |launch| machine.launch(program, launch).unwrap())
    }

    fn with_launch(&self, params: &[u8], options: Options, run: impl FnOnce(&Launch) -> Stats) -> Stats {
        let dynamic_shared = if self.entry == "block" { 64 << 10 } else { 0 };
        let Case { entry, grid, block, .. } = *self;
        run(&Launch { entry, grid, block, cluster: [1; 3], dynamic_shared, cooperative: false, params, options })
    }
}

/// An element of a buffer: the upper half of a small integer's `f32`.
fn bf16(buffer: usize, at: usize) -> u16 {
    (small(buffer, at).to_bits() >> 16) as u16
}

fn small(buffer: usize, at: usize) -> f32 {
    ((at * (7 + buffer) + at / 64) % 5) as f32 - 2.0
}

/// Seconds that this process has been on cores, or the calling thread, on Linux: what a busy machine does not change.
fn cpu_seconds(of: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{of}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    behind_name.take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

const RUNS: u32 = 5;

#[test]
#[ignore = "a measurement, for release builds"]
fn threads_and_instructions_per_second() {
    for case in cases() {
        let program = case.program();
        let ways =
            [("one core", false, 1), ("two cores", false, 2), ("watched", true, 1), ("watched, two cores", true, 2)];
        for (how, watch, cores) in ways {
            let (mut machine, _, params) = case.machine();
            machine.cores(cores);
            let options = Options { watch, ..Options::default() };
            let before = ["self", "thread-self"].map(cpu_seconds);
            let all = (0..RUNS).map(|_| {
                let start = Instant::now();
                let stats = case.run(&mut machine, &program, &params, options);
                (start.elapsed().as_secs_f64(), stats.instructions)
            });
            let mut all: Vec<_> = all.collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            let ((best, _), (seconds, instructions)) = (all[0], all[all.len() / 2]);
            let after = ["self", "thread-self"].map(cpu_seconds);
            let [busy, first] = [0, 1].map(|i| (after[i] - before[i]) / f64::from(RUNS));
            let rate = |seconds: f64| instructions as f64 / seconds / 1e6;
            println!(
                "{}, {how}: {instructions} thread-instructions; of {RUNS} runs the best {:.1} ms, the median {:.1} ms, {:.0} million/s; CPU time of a run {:.0} ms, {:.0} million/s; of the first core {:.0} ms",
                case.name,
                best * 1e3,
                seconds * 1e3,
                rate(seconds),
                busy * 1e3,
                rate(busy),
                first * 1e3
            );
        }
    }
}

#[test]
#[ignore = "a measurement, for release builds"]
fn seconds_of_the_profiler() {
    for case in cases() {
        let program = case.program();
        let seconds = [false, true].map(|profiled| {
            let (mut machine, _, params) = case.machine();
            machine.cores(1);
            let runs = (0..RUNS).map(|_| {
                let start = Instant::now();
                case.with_launch(&params, Options { watch: false, ..Options::default() }, |launch| match profiled {
                    true => machine.profile(&program, launch, &Default::default()).map(|(stats, _)| stats).unwrap(),
                    false => machine.launch(&program, launch).unwrap(),
                });
                start.elapsed().as_secs_f64()
            });
            runs.fold(f64::INFINITY, f64::min)
        });
        let [plain, profiled] = seconds.map(|seconds| seconds * 1e3);
        println!("{}: {plain:.1} ms on one core, profiled {profiled:.1} ms, {:.1}x", case.name, profiled / plain);
    }
}

/// A copy of floats, a thread four of them.
const COPY: &str = ".version 7.0\n.target sm_80\n.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to) {
.reg .b64 %from, %to; .reg .b32 %i, %n, %t, %v<4>;
ld.param.u64 %from, [from]; ld.param.u64 %to, [to]; mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x;
mad.lo.u32 %i, %i, %n, %t; mad.wide.u32 %from, %i, 16, %from; mad.wide.u32 %to, %i, 16, %to;
ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%from]; st.global.v4.u32 [%to], {%v0, %v1, %v2, %v3}; ret; }\n";

/// The most bytes of memory that this process has had since it was last asked, on Linux.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    kib << 10
}

#[test]
#[ignore = "a measurement, for release builds"]
fn bytes_of_the_watcher() {
    let [_, _, product, _] = cases();
    let copy = Case {
        name: "4096 × 4096 floats copied",
        text: COPY.into(),
        entry: "copy",
        grid: [16384, 1, 1],
        block: [256, 1, 1],
        buffers: &[64 << 20, 64 << 20],
        scalars: Vec::new(),
    };
    for case in [copy, product] {
        let program = case.program();
        let watched: usize = case.buffers.iter().sum();
        let more = [(false, 1), (true, 1), (true, 2)].map(|(watch, cores)| {
            let (mut machine, _, params) = case.machine();
            machine.cores(cores);
            peak();
            let before = peak();
            case.run(&mut machine, &program, &params, Options { watch, ..Options::default() });
            peak().saturating_sub(before)
        });
        println!(
            "{}: {watched} bytes; more at the peak of a launch, unwatched, watched, watched on two cores: {more:?}",
            case.name
        );
    }
}

#[test]
fn the_block_of_wgmma_is_a_product() {
    let [.., case] = cases();
    let (mut machine, addresses, params) = case.machine();
    case.run(&mut machine, &case.program(), &params, Options::default());
    let mut bytes = vec![0; MATRIX];
    machine.read(addresses[2], &mut bytes).unwrap();
    for (at, found) in bytes.chunks_exact(4).enumerate() {
        let (row, column) = (at / 256, at % 256);
        let expected: f32 = (0..64).map(|k| small(0, row * 64 + k) * small(1, column * 64 + k)).sum();
        assert_eq!(f32::from_le_bytes(found.try_into().unwrap()), expected, "row {row}, column {column}");
    }
}

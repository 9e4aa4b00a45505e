//! Kernels that nobody would write: random instructions, launched with limits. Each ends, with a result or with a fault.

use crate::harness::{kernel, launch, one_in, program};
use arbitrary::Unstructured;
use ptx_core::check::check;
use ptx_core::lower;
use ptx_core::parse::parse_text;
use ptx_interp::{Fault, FaultKind, Machine, Options, Program, Reporter};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Instructions with holes: `R`, `D`, `P` are registers, `L` a label, `N` a number.
const PIECES: &[&str] = &[
    "add.u32 R, R, N;",
    "mul.wide.u32 D, R, N;",
    "add.u64 D, D, %out;",
    "mov.u32 R, %tid.x;",
    "mov.u32 R, N;",
    "setp.lt.u32 P, R, N;",
    "@P bra L;",
    "@!P bra L;",
    "bra L;",
    "ld.global.u32 R, [%out+N];",
    "st.global.u32 [D], R;",
    "ld.shared.u32 R, [N];",
    "st.shared.u32 [R], R;",
    "ld.u32 R, [D];",
    "atom.global.add.u32 R, [%out], R;",
    "atom.shared.cas.b32 R, [R], R, N;",
    "bar.sync 0;",
    "@P bar.sync 1, 64;",
    "bar.warp.sync R;",
    "shfl.sync.idx.b32 R, R, R, 31, R;",
    "mbarrier.init.shared.b64 [R], N;",
    "mbarrier.arrive.shared.b64 D, [R];",
    "mbarrier.try_wait.parity.shared.b64 P, [R], N;",
    "cp.async.ca.shared.global [R], [D], 4;",
    "cp.async.wait_all;",
    "fence.acq_rel.gpu;",
    "fence.proxy.async;",
    "nanosleep.u32 N;",
    "@P exit;",
    "@P trap;",
];

/// A body of such instructions, each with a label.
fn body(random: &mut Unstructured) -> arbitrary::Result<String> {
    let count = random.int_in_range(1..=40)?;
    let mut text = String::from(".shared .align 16 .b8 room[256];\n");
    for at in 0..count {
        text += &format!("L{at}: ");
        for letter in random.choose(PIECES)?.chars() {
            match letter {
                'R' => text += &format!("%r{}", random.int_in_range(0..=5)?),
                'D' => text += &format!("%d{}", random.int_in_range(0..=3)?),
                'P' => text += &format!("%p{}", random.int_in_range(0..=3)?),
                'L' => text += &format!("L{}", random.int_in_range(0..=count - 1)?),
                'N' => text += &random.choose(&[0u32, 1, 4, 16, 31, 64, 256, 4096, u32::MAX >> 1])?.to_string(),
                other => text.push(other),
            }
        }
        text.push('\n');
    }
    Ok(text + "ret;\n")
}

#[test]
fn random_kernels_end() {
    arbtest::arbtest(|random| {
        let text = kernel(&body(random)?);
        let (tree, errors) = parse_text(text.as_bytes());
        // Some read registers before they are written: those are refused, which is an end, too.
        let (Some(checked), _) = check(tree, errors, &lower::Options::default()) else { return Ok(()) };
        let Ok(program) = Program::new(&checked) else { return Ok(()) };
        let mut machine = Machine::new();
        let out = machine.alloc(4096).unwrap();
        machine.write(out, &[0; 4096]).unwrap();
        let options =
            Options { watch: random.arbitrary()?, seed: random.int_in_range(0..=9)?, step_limit: Some(20_000) };
        let start = Instant::now();
        let _ended = launch(&mut machine, &program, 3, 96, &out.to_le_bytes(), options);
        assert!(start.elapsed().as_secs() < 30, "{text}");
        Ok(())
    })
    .budget_ms(3_000 / one_in(3) as u64);
}

/// End of a kernel that nobody should launch, and its duration.
fn ends(text: &str, grid: u32, step_limit: u64) -> Result<(), Fault> {
    let start = Instant::now();
    let (tree, errors) = parse_text(text.as_bytes());
    let (checked, diagnostics) = check(tree, errors, &lower::Options::default());
    let checked = checked.unwrap_or_else(|| panic!("{diagnostics:#?}"));
    let program = Program::new(&checked).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let mut machine = Machine::new();
    let out = machine.alloc(4096).unwrap();
    let options = Options { watch: false, seed: 0, step_limit: Some(step_limit) };
    let ended = launch(&mut machine, &program, grid, 32, &out.to_le_bytes(), options);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    ended.map(drop)
}

/// A module whose entry is as in [`kernel`], with declarations before it.
fn with(declarations: &str, body: &str) -> String {
    kernel(body).replace(".visible .entry", &format!("{declarations}\n.visible .entry"))
}

#[test]
fn loops_and_recursion_without_end() {
    let endless = ends(&kernel("L: bra L;"), 1, 1_000_000).unwrap_err();
    assert_eq!(endless.kind, FaultKind::StepLimit, "{endless}");
    let recursion = with(
        ".func f(.param .b32 a);\n.func f(.param .b32 a) { .param .b32 b; call f, (b); ret; }",
        "{ .param .b32 p; call f, (p); } ret;",
    );
    let deep = ends(&recursion, 1, 100_000_000).unwrap_err();
    assert_eq!(deep.kind, FaultKind::OutOfMemory, "{deep}");
    let wide = with(".func f() { .local .b8 x[4096]; call f; ret; }", "call f; ret;");
    assert_eq!(ends(&wide, 1, 100_000_000).unwrap_err().kind, FaultKind::OutOfMemory);
}

/// A loop that changes something in each turn is no state that comes back: only the limit ends it, if nobody set one, too.
#[test]
fn a_loop_that_counts_ends_at_the_limit() {
    let fault = ends(&kernel("mov.u64 %d1, 0; L: add.u64 %d1, %d1, 1; bra L;"), 1, 100_000).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StepLimit, "{fault}");
    assert!(fault.to_string().contains("ptx run --steps"), "{fault}");
    let seconds = Options::default().step_limit.unwrap() / 10_000_000;
    assert!((10..=300).contains(&seconds), "{seconds} seconds at ten million warp instructions a second");
}

/// Who waits for a launch is told how far it is, and may end it: with one core and with several.
#[test]
fn whoever_waits_may_end_a_launch() {
    let body = "mov.u64 %d1, 0; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 40; @%p1 bra E; L: add.u64 %d1, %d1, 1; bra L; E: ret;";
    let program = program(&kernel(body));
    for (watch, cores) in [(false, 1), (true, 1), (true, 3)] {
        let (mut machine, told) = (Machine::new(), Arc::new(Mutex::new(Vec::new())));
        machine.cores(cores);
        let out = machine.alloc(4).unwrap();
        let all = told.clone();
        machine.report(Some(Reporter::new(move |progress| {
            all.lock().unwrap().push(progress);
            if progress.warp_instructions < 1 << 21 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })));
        let options = Options { watch, ..Options::default() };
        let fault = launch(&mut machine, &program, 64, 32, &out.to_le_bytes(), options).unwrap_err();
        assert_eq!(fault.kind, FaultKind::StepLimit, "{fault}");
        assert!(fault.to_string().contains("in the loop at `L`"), "{fault}");
        let told = told.lock().unwrap();
        assert!(told.iter().all(|progress| progress.blocks == 64));
        assert!(told.last().is_some_and(|progress| progress.ended == 63), "{:?}", told.last());
    }
}

#[test]
fn the_largest_grid_is_beyond_the_limit() {
    assert_eq!(ends(&kernel("ret;"), 0x7fff_ffff, 200_000).unwrap_err().kind, FaultKind::Launch);
}

#[test]
fn arrays_that_no_memory_holds() {
    let kind = |declarations: &str, body: &str| ends(&with(declarations, body), 1, 1000).map_err(|fault| fault.kind);
    let used = "ld.global.u8 %r1, [x]; ret;";
    assert_eq!(kind(".global .b8 x[1099511627776];", used), Err(FaultKind::OutOfMemory));
    // Nor registers by the thousand million, nor a frame on the stack that each thread would have.
    let start = Instant::now();
    assert_eq!(kind("", ".reg .b32 %many<1000000000>; mov.u32 %many1, %many999999999; ret;"), Ok(()));
    let many = ".reg .b32 %many<1000000000>; mov.u32 %many999999999, 1; mov.u32 %many1, %many999999999; ret;";
    assert_eq!(kind("", many), Ok(()));
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    // What nobody touches costs nothing.
    assert_eq!(kind(".global .b8 x[8589934592];", used), Ok(()));
    assert_eq!(kind("", ".local .b8 x[1073741824]; st.local.u8 [x], %t; ret;"), Err(FaultKind::OutOfMemory));
    assert_eq!(kind("", "mov.u64 %d1, 1; LOOP: alloca.u64 %d2, %d1; bra LOOP;"), Err(FaultKind::StepLimit));
}

/// `malloc` without `free`, in every thread, until there is no more: as on a GPU it gives null.
#[test]
fn the_heap_ends() {
    let declared = ".extern .func (.param .b64 r) malloc (.param .b64 n);\n.extern .func free (.param .b64 p);";
    let body = "
LOOP: { .param .b64 n; .param .b64 r; mov.u64 %d1, 0; st.param.b64 [n], %d1; call (r), malloc, (n); ld.param.b64 %d2, [r]; }
  setp.ne.u64 %p1, %d2, 0; @%p1 bra LOOP; ret;";
    assert_eq!(ends(&with(declared, body), 1, 100_000_000), Ok(()));
    let given_back = body.replace("setp", "{ .param .b64 p; st.param.b64 [p], %d2; call free, (p); } add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 40000; @!%p2 ret; setp");
    assert_eq!(ends(&with(declared, &format!("mov.u32 %r2, 0; {given_back}")), 1, 100_000_000), Ok(()));
}

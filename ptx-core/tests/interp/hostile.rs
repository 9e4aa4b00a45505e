//! Kernels that nobody would write: random instructions, launched with limits. Each ends, with a result or with a fault.

use crate::harness::{kernel, launch};
use arbitrary::Unstructured;
use ptx_core::check::check;
use ptx_core::interp::{Machine, Options, Program};
use ptx_core::lower;
use ptx_core::parse::parse_text;

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
        let start = std::time::Instant::now();
        let _ended = launch(&mut machine, &program, 3, 96, &out.to_le_bytes(), options);
        assert!(start.elapsed().as_secs() < 30, "{text}");
        Ok(())
    })
    .budget_ms(3_000);
}

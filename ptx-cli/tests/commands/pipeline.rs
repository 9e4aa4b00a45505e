//! Pipelines of `mbarrier`s: a ring whose automata are explored whole, and mutants of it that are harmful and never proved.

use super::{file, said};
use ptx_core::check::check;
use ptx_interp::{Launch, Machine, Options, Program};

/// A ring of two stages of 128 bytes: lane 0 of the first warp fills them, the second warp adds their words.
const RING: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry ring(.param .u64 x, .param .u64 out, .param .u32 n)
{
    .shared .align 128 .b8 stages[256];
    .shared .align 8 .b8 bars[32];
    .reg .pred %p, %q;
    .reg .b32 %n, %t, %k, %s, %phase, %parity, %b, %o, %f, %a, %v, %sum;
    .reg .b64 %x, %out, %w;
    ld.param.u64 %x, [x];
    ld.param.u64 %out, [out];
    ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x;
    mov.u32 %b, bars;
    setp.ne.u32 %p, %t, 0;
    @%p bra READY;
    mbarrier.init.shared.b64 [%b], 1;
    mbarrier.init.shared.b64 [%b+8], 1;
    mbarrier.init.shared.b64 [%b+16], 32;
    mbarrier.init.shared.b64 [%b+24], 32;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    mov.u32 %k, 0;
    mov.u32 %s, 0;
    mov.u32 %phase, 0;
    mov.u32 %sum, 0;
    setp.ge.u32 %p, %t, 32;
    @%p bra CONSUME;
    setp.ne.u32 %p, %t, 0;
    @%p bra DONE;
PRODUCE:
    setp.ge.u32 %p, %k, %n;
    @%p bra DONE;
    shl.b32 %o, %s, 3;
    add.u32 %f, %b, %o;
    xor.b32 %parity, %phase, 1;
EMPTY:
    mbarrier.try_wait.parity.shared.b64 %q, [%f+16], %parity;
    @!%q bra EMPTY;
    mbarrier.arrive.expect_tx.shared.b64 _, [%f], 128;
    shl.b32 %o, %s, 7;
    mov.u32 %a, stages;
    add.u32 %a, %a, %o;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%a], [%x], 128, [%f];
    add.u64 %x, %x, 128;
    add.u32 %k, %k, 1;
    add.u32 %s, %s, 1;
    setp.eq.u32 %q, %s, 2;
    @%q xor.b32 %phase, %phase, 1;
    @%q mov.u32 %s, 0;
    bra PRODUCE;
CONSUME:
    setp.ge.u32 %p, %k, %n;
    @%p bra STORE;
    shl.b32 %o, %s, 3;
    add.u32 %f, %b, %o;
FULL:
    mbarrier.try_wait.parity.shared.b64 %q, [%f], %phase;
    @!%q bra FULL;
    shl.b32 %o, %s, 7;
    mad.lo.u32 %o, %t, 4, %o;
    mov.u32 %a, stages;
    add.u32 %a, %a, %o;
    ld.shared.u32 %v, [%a+-128];
    mbarrier.arrive.shared.b64 _, [%f+16];
    add.u32 %sum, %sum, %v;
    add.u32 %k, %k, 1;
    add.u32 %s, %s, 1;
    setp.eq.u32 %q, %s, 2;
    @%q xor.b32 %phase, %phase, 1;
    @%q mov.u32 %s, 0;
    bra CONSUME;
STORE:
    mul.wide.u32 %w, %t, 4;
    add.u64 %out, %out, %w;
    st.global.u32 [%out+-128], %sum;
DONE:
    ret;
}
";

/// Changes that make the ring harmful: what is replaced, and by what.
const MUTANTS: [(&str, &str, &str); 14] = [
    ("a phase early", "xor.b32 %parity, %phase, 1", "mov.u32 %parity, %phase"),
    ("the consumer's phase", "%q, [%f], %phase", "%q, [%f], 0"),
    ("more bytes are expected", "_, [%f], 128", "_, [%f], 256"),
    ("fewer bytes are expected", "_, [%f], 128", "_, [%f], 64"),
    ("a shorter copy", "[%x], 128, [%f]", "[%x], 112, [%f]"),
    ("too many consumers", "[%b+24], 32", "[%b+24], 33"),
    ("too few consumers", "[%b+24], 32", "[%b+24], 31"),
    ("too many producers", "[%b], 1;", "[%b], 2;"),
    ("no wait for a full stage", "    mbarrier.try_wait.parity.shared.b64 %q, [%f], %phase;\n    @!%q bra FULL;\n", ""),
    (
        "no wait for an empty stage",
        "    mbarrier.try_wait.parity.shared.b64 %q, [%f+16], %parity;\n    @!%q bra EMPTY;\n",
        "",
    ),
    ("no release", "    mbarrier.arrive.shared.b64 _, [%f+16];\n", ""),
    (
        "one stage for two",
        "shl.b32 %o, %s, 7;\n    mov.u32 %a, stages;\n    add.u32 %a, %a, %o;\n    cp",
        "mov.u32 %a, stages;\n    cp",
    ),
    (
        "a stage is released early",
        "    ld.shared.u32 %v, [%a+-128];\n    mbarrier.arrive.shared.b64 _, [%f+16];\n",
        "    mbarrier.arrive.shared.b64 _, [%f+16];\n    ld.shared.u32 %v, [%a+-128];\n",
    ),
    ("the consumer reads one stage more", "CONSUME:\n    setp.ge.u32", "CONSUME:\n    setp.gt.u32"),
];

fn verdict(text: &str) -> (String, String) {
    let file = file(text);
    let options = ["--block", "64", "--grid", "1", "--assume", "len(x) >= 128 * n", "--assume", "len(out) >= 128"];
    let (_, out, err) = said(&[&["prove", file.name()], &options[..]].concat());
    let line = out.lines().find(|line| line.starts_with("pipeline: ")).unwrap_or_default().to_owned();
    (line, format!("{out}{err}"))
}

/// The finding of the watcher in a run with so many stages.
fn fault(text: &str, stages: u32) -> Option<String> {
    let (tree, found) = ptx_core::parse::parse_text(text);
    let (checked, found) = check(tree, found, &Default::default());
    let program = Program::new(&checked.unwrap_or_else(|| panic!("{found:?}"))).unwrap();
    let mut machine = Machine::new();
    let (x, out) = (machine.alloc(128 * u64::from(stages)).unwrap(), machine.alloc(128).unwrap());
    machine.write(x, &vec![1; 128 * stages as usize]).unwrap();
    let params: Vec<u8> = [&x.to_le_bytes()[..], &out.to_le_bytes(), &stages.to_le_bytes()].concat();
    let options = Options { watch: true, seed: 0, step_limit: Some(100_000) };
    let (grid, block, cluster) = ([1; 3], [64, 1, 1], [1; 3]);
    let launch =
        Launch { entry: "ring", grid, block, cluster, dynamic_shared: 0, cooperative: false, params: &params, options };
    machine.launch(&program, &launch).err().map(|fault| fault.message)
}

#[test]
fn a_ring_is_proved_and_its_harmful_mutants_are_not() {
    let (line, all) = verdict(RING);
    assert!(line.starts_with("pipeline: proved (2 warps, 4 barriers, "), "{all}");
    assert_eq!(fault(RING, 5), None);
    let mut wrong = Vec::new();
    for (name, from, to) in MUTANTS {
        let text = RING.replacen(from, to, 1);
        assert_ne!(text, RING, "{name}");
        let (line, all) = verdict(&text);
        if line.is_empty() || line.contains("proved") {
            wrong.push(format!("{name}: {all}"));
        }
        if [1, 2, 5].into_iter().all(|stages| fault(&text, stages).is_none()) {
            wrong.push(format!("{name} is not harmful"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_product_with_tensor_maps_is_proved() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hopper/wgmma_tile.rs");
    let (_, out, err) = said(&["prove", path, "--entry", "tile"]);
    assert!(out.contains("pipeline: proved (4 warps, 1 barriers, "), "{out}{err}");
}

#[test]
fn boxes_of_tensor_maps_are_said() {
    let (code, _, err) = said(&["prove", "x.ptx", "--box", "a"]);
    assert!(code == 2 && err.contains("write a parameter and its bytes, such as `a=16384`"), "{err}");
}

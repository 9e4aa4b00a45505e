//! Short kernels that are proved, each with changes of it that PTX does not define, or that hang.

use super::{file, said};

/// A kernel of one block of 64 threads with 256 bytes for each of them at `x` and at `sm`, and its number in `%t`.
fn verdict(body: &str) -> (i32, String) {
    let head = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u32 n)\n{";
    let names = ".shared .align 16 .b8 sm[16384];\n.reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<9>;\n.reg .b32 %t;\n.reg .b64 %d<9>;";
    let first = "ld.param.u64 %d0, [x];\nld.param.u32 %r0, [n];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %d1, %t, 256, %d0;\nmov.u32 %r1, sm;\nmad.lo.u32 %r1, %t, 256, %r1;";
    let file = file(&format!("{head}\n{names}\n{first}\n{body}\nret;\n}}\n"));
    let (code, out, err) = said(&["prove", file.name(), "--block", "64", "--grid", "1", "--assume", "len(x) >= 16384"]);
    (code, out + &err)
}

/// A kernel that is proved, a part of it, what takes its place, and a part of the answer.
type Case = (&'static str, &'static [(&'static str, &'static str, &'static str)]);

#[rustfmt::skip]
const CASES: [Case; 6] = [
    // Strong accesses that overlap in part race.
    ("setp.lt.u32 %p0, %t, 32; @%p0 red.global.add.u32 [%d0], 1; @!%p0 atom.global.exch.b32 %r2, [%d0], %t;", &[
        ("atom.global.exch.b32 %r2, [%d0], %t", "atom.global.exch.b64 %d2, [%d0], %d1", "races: 1 proved, 1 unknown"),
        ("atom.global.exch.b32 %r2, [%d0], %t", "ld.relaxed.gpu.global.u8 %r2, [%d0]", "races: 1 proved, 1 unknown"),
    ]),
    // A generic address is none in its state space.
    ("st.shared.u32 [%r1], %t; cvt.u64.u32 %d2, %r1; cvta.shared.u64 %d3, %d2; ld.u32 %r2, [%d3+0];", &[
        ("[%d3+0]", "[%d2+0]", "the address is generic where one in its state space is due, or the reverse"),
        ("ld.u32", "ld.shared.u32", "the address is generic where one in its state space is due, or the reverse"),
        ("[%d3+0]", "[%d3+256]", "without order"),
    ]),
    // A copy reads no more than it writes.
    ("min.u32 %r2, %r0, 16; cp.async.cg.shared.global [%r1], [%d1], 16, %r2; cp.async.wait_all;", &[
        ("%r0, 16;", "%r0, 17;", "the copy may be told to read more bytes than it writes"),
    ]),
    // All lanes of a mask come to a barrier of a warp, and no others.
    ("and.b32 %r2, %t, 16; setp.eq.u32 %p0, %r2, 0; @!%p0 bra END; bar.warp.sync 0xffff; END:", &[
        ("@!%p0 bra END; ", "", "lane 16 with member mask 0x0000ffff, which does not name it"),
        ("0xffff", "0x1ffff", "the mask names lanes that are not known to come here together"),
        ("0xffff", "%r0", "which does not name it"),
    ]),
    // What a launch writes is not what it reads by a cache that is not coherent.
    ("st.global.u32 [%d1], %t; bar.sync 0; ld.global.nc.u32 %r2, [%d1+4];", &[
        ("[%d1+4]", "[%d1]", "not coherent"),
        ("ld.global.nc.u32 %r2, [%d1+4]", "ldu.global.u32 %r2, [%d1]", "not coherent"),
        ("[%d1+4]", "[%d1+2]", "is no multiple of 4"),
        ("[%d1], %t", "[%d1+260], %t", "bytes"),
    ]),
    // A number has all bits in common with itself.
    ("xor.b32 %r2, %r0, %r0; mad.wide.u32 %d2, %r2, 4, %d0; ld.global.u32 %r3, [%d2+16380];", &[
        ("%r0, %r0", "%r0, 1", "bytes"),
    ]),
];

#[test]
fn undefined_changes_of_proved_kernels_are_not_proved() {
    for (kernel, changes) in CASES {
        let (code, out) = verdict(kernel);
        assert_eq!(code, 0, "{kernel}\n{out}");
        for (old, new, expected) in changes {
            assert!(kernel.contains(old), "{old}");
            let changed = kernel.replacen(old, new, 1);
            let (code, out) = verdict(&changed);
            assert!(code != 0 && out.contains(expected), "{changed}\n{out}");
        }
    }
}

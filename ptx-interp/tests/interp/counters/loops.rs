//! Kernels that move more: whole buffers of 4 MiB in several ways, for the caches, and kernels of several sizes, for the occupancy.

use super::patterns::Case;

const HEAD: &str = ".version 8.6\n.target sm_90\n.address_size 64\n";

/// Name, blocks, threads, and the text: `%r1` is the number of the thread, `%r2` that in its block, `%r3` the block; `%d2` and `%d3` are `data` and `out`.
#[rustfmt::skip]
const LOOPS: &[(&str, u32, u32, &str)] = &[
    ("copy.v4", 1024, 256, "mad.wide.u32 %d4, %r1, 16, %d2; mad.wide.u32 %d5, %r1, 16, %d3; ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%d4]; st.global.v4.u32 [%d5], {%r4,%r5,%r6,%r7};"),
    ("copy.u32", 4096, 256, "mad.wide.u32 %d4, %r1, 4, %d2; mad.wide.u32 %d5, %r1, 4, %d3; ld.global.u32 %r4, [%d4]; st.global.u32 [%d5], %r4;"),
    ("read.every.second", 2048, 256, "mad.wide.u32 %d4, %r1, 8, %d2; ld.global.u32 %r4, [%d4]; ONCE"),
    ("read.every.eighth", 512, 256, "mad.wide.u32 %d4, %r1, 32, %d2; ld.global.u32 %r4, [%d4]; ONCE"),
    ("read.every.32nd", 128, 256, "mad.wide.u32 %d4, %r1, 128, %d2; ld.global.u32 %r4, [%d4]; ONCE"),
    ("write.every.eighth", 512, 256, "mad.wide.u32 %d5, %r1, 32, %d3; st.global.u32 [%d5], %r1;"),
    ("write.v4", 1024, 256, "mad.wide.u32 %d5, %r1, 16, %d3; st.global.v4.u32 [%d5], {%r1,%r1,%r1,%r1};"),
    // A block reads 16 KiB of its own eight times: L1 has them after the first.
    ("again.in.l1", 132, 128, "mul.wide.u32 %d4, %r3, 16384; add.u64 %d4, %d4, %d2; mad.wide.u32 %d4, %r2, 16, %d4; mov.u32 %r8, 0; mov.u32 %r9, 0;\n\
        L: mul.wide.u32 %d6, %r8, 2048; and.b64 %d6, %d6, 16383; add.u64 %d6, %d6, %d4; ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%d6]; bar.sync 0; add.u32 %r9, %r9, %r4;\n\
        add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 64; @%p1 bra L; mov.u32 %r4, %r9; ONCE"),
    // Every block reads the same MiB: L2 has it, L1 does not.
    ("same.in.l2", 64, 512, "mad.wide.u32 %d4, %r2, 16, %d2; mov.u32 %r8, 0; mov.u32 %r9, 0;\n\
        L: mul.wide.u32 %d6, %r8, 8192; add.u64 %d6, %d6, %d4; ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%d6]; add.u32 %r9, %r9, %r4;\n\
        add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 128; @%p1 bra L; mov.u32 %r4, %r9; ONCE"),
    ("past.l1", 132, 128, "mul.wide.u32 %d4, %r3, 16384; add.u64 %d4, %d4, %d2; mad.wide.u32 %d4, %r2, 16, %d4; mov.u32 %r8, 0; mov.u32 %r9, 0;\n\
        L: mul.wide.u32 %d6, %r8, 2048; and.b64 %d6, %d6, 16383; add.u64 %d6, %d6, %d4; ld.global.cg.v4.u32 {%r4,%r5,%r6,%r7}, [%d6]; bar.sync 0; add.u32 %r9, %r9, %r4;\n\
        add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 64; @%p1 bra L; mov.u32 %r4, %r9; ONCE"),
    ("gather", 1024, 256, "mul.lo.u32 %r4, %r1, 0x9E3779B1; shr.u32 %r4, %r4, 12; mad.wide.u32 %d4, %r4, 4, %d2; ld.global.u32 %r4, [%d4]; ONCE"),
    ("scatter", 512, 256, "mul.lo.u32 %r4, %r1, 0x9E3779B1; shr.u32 %r4, %r4, 12; mad.wide.u32 %d5, %r4, 4, %d3; st.global.u32 [%d5], %r1;"),
    // A matrix of 1024 by 1024 words: rows are read, columns written.
    ("transpose.naive", 4096, 256, "and.b32 %r4, %r1, 1023; shr.u32 %r5, %r1, 10; mad.wide.u32 %d4, %r1, 4, %d2; mad.lo.u32 %r6, %r4, 1024, %r5; mad.wide.u32 %d5, %r6, 4, %d3; \
        ld.global.u32 %r4, [%d4]; st.global.u32 [%d5], %r4;"),
    ("stencil", 4092, 256, "add.u32 %r4, %r1, 512; mad.wide.u32 %d4, %r4, 4, %d2; mad.wide.u32 %d5, %r4, 4, %d3; ld.global.u32 %r4, [%d4]; ld.global.u32 %r5, [%d4+-4]; ld.global.u32 %r6, [%d4+4]; \
        ld.global.u32 %r7, [%d4+2044]; ld.global.u32 %r8, [%d4+-2044]; add.u32 %r4, %r4, %r5; add.u32 %r6, %r6, %r7; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r8; st.global.u32 [%d5], %r4;"),
    ("histogram", 512, 256, "mul.lo.u32 %r4, %r1, 0x9E3779B1; shr.u32 %r4, %r4, 24; mad.wide.u32 %d5, %r4, 4, %d3; red.global.add.u32 [%d5], 1;"),
    ("counter", 256, 256, "mad.wide.u32 %d4, %r1, 4, %d2; ld.global.u32 %r4, [%d4]; atom.global.add.u32 %r5, [%d3], %r4; st.global.u32 [%d4], %r5;"),
];

const ONCE: &str = "setp.eq.u32 %p2, %r4, 305419896; @%p2 st.global.u32 [%d3], %r4;";

/// Whole buffers, for the caches.
pub(super) fn loops() -> Vec<Case> {
    let case = |(name, grid, block, body): &(&str, u32, u32, &str)| Case {
        name: format!("loop/{name}"),
        text: format!(
            "{HEAD}.visible .entry k(.param .u64 table, .param .u64 data, .param .u64 out, .param .u32 mask)\n{{\n\
             .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<16>;\n\
             ld.param.u64 %d2, [data]; ld.param.u64 %d3, [out];\n\
             mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r1, %r3, %r4, %r2;\n{}\nret;\n}}\n",
            body.replace("ONCE", ONCE)
        ),
        grid: *grid,
        block: *block,
        dynamic: 0,
        mask: u32::MAX,
        table: Vec::new(),
    };
    LOOPS.iter().map(case).collect()
}

/// Values that live at once, threads, static and dynamic shared memory.
#[rustfmt::skip]
const SIZES: &[(u32, u32, u32, u32)] = &[
    (4, 32, 0, 0), (4, 64, 0, 0), (4, 96, 0, 0), (8, 128, 0, 0), (8, 160, 0, 0), (8, 192, 0, 0), (8, 256, 0, 0), (8, 384, 0, 0), (8, 512, 0, 0), (8, 768, 0, 0), (8, 1024, 0, 0),
    (24, 128, 0, 0), (24, 256, 0, 0), (30, 320, 0, 0), (40, 96, 0, 0), (40, 1024, 0, 0), (56, 256, 0, 0), (64, 224, 0, 0), (72, 128, 0, 0), (90, 384, 0, 0), (100, 64, 0, 0), (120, 256, 0, 0),
    (150, 128, 0, 0), (180, 32, 0, 0), (220, 256, 0, 0),
    (8, 128, 1, 0), (8, 128, 1000, 0), (8, 128, 1024, 0), (8, 128, 4096, 0), (8, 64, 8192, 0), (8, 256, 12_345, 0), (8, 256, 16_384, 0), (8, 128, 24_576, 0), (8, 128, 32_768, 0), (8, 128, 49_152, 0),
    (8, 128, 0, 1), (8, 128, 256, 50_000), (8, 128, 0, 65_536), (8, 128, 0, 75_000), (8, 256, 0, 100_000), (8, 512, 0, 115_000), (8, 128, 0, 116_736), (8, 128, 0, 200_000), (8, 128, 0, 232_448),
    (60, 128, 20_000, 0), (100, 256, 40_000, 0), (30, 512, 0, 70_000),
];

/// Kernels of several sizes, for registers and occupancy.
pub(super) fn sizes() -> Vec<Case> {
    let case = |(values, block, fixed, dynamic): &(u32, u32, u32, u32)| {
        let mut body = String::new();
        for value in 0..*values {
            body += &format!("ld.global.u32 %r{}, [%d4+{}];\n", value + 10, 4 * 131 * value);
        }
        body += "bar.sync 0;\n";
        for value in 1..*values {
            body += &format!("mad.lo.u32 %r10, %r10, %r{}, %r2;\n", value + 10);
        }
        let shared = match (fixed, dynamic) {
            (0, 0) => String::new(),
            (0, _) => ".extern .shared .align 16 .b8 tile[];\n".to_owned(),
            _ => format!(".shared .align 1 .b8 tile[{fixed}];\n"),
        };
        let (inner, outer) = if *fixed == 0 { ("", &shared[..]) } else { (&shared[..], "") };
        let (inner, outer) = (inner.to_owned(), outer.to_owned());
        let use_shared = if shared.is_empty() {
            ""
        } else {
            "st.shared.u8 [tile], %r10; bar.sync 0; ld.shared.u8 %r2, [tile]; add.u32 %r10, %r10, %r2;\n"
        };
        Case {
            name: format!("size/{values}.{block}.{fixed}.{dynamic}"),
            text: format!(
                "{HEAD}{outer}.visible .entry k(.param .u64 table, .param .u64 data, .param .u64 out, .param .u32 mask)\n.maxntid {block}\n{{\n\
                 .reg .b32 %r<300>; .reg .b64 %d<8>;\n{inner}\
                 ld.param.u64 %d2, [data]; ld.param.u64 %d3, [out]; mov.u32 %r2, %tid.x; mad.wide.u32 %d4, %r2, 4, %d2; mad.wide.u32 %d5, %r2, 4, %d3;\n\
                 {body}{use_shared}st.global.u32 [%d5], %r10;\nret;\n}}\n"
            ),
            grid: 1,
            block: *block,
            dynamic: *dynamic,
            mask: u32::MAX,
            table: Vec::new(),
        }
    };
    SIZES.iter().map(case).collect()
}

//! Kernels with generated access patterns: each has one access, and a table gives the offset of every thread.

/// One launch of `k(table, data, out, mask)`.
pub(super) struct Case {
    pub name: String,
    pub text: String,
    pub grid: u32,
    pub block: u32,
    pub dynamic: u32,
    /// The lanes that access memory.
    pub mask: u32,
    /// The offset of each thread, the same for every block.
    pub table: Vec<u32>,
}

/// Threads for which a table has offsets.
pub(super) const THREADS: usize = 128;
/// Bytes of `data` and of `out`.
pub(super) const BUFFER: usize = 4 << 20;

/// Offsets reach so far in shared, local and global memory.
const SHARED: u64 = 32 << 10;
const LOCAL: u64 = 256;
const GLOBAL: u64 = 1 << 20;

/// An access: its name, the bytes that its address is a multiple of, how far offsets reach, how many patterns, and its text. In the text `?` is the
/// predicate, `S`, `G`, `C` and `L` are the addresses in shared, global, generic (shared) and local memory, and `T` is a shared address in the order of the threads.
type Access = (&'static str, u64, u64, usize, &'static str);

#[rustfmt::skip]
const ACCESSES: &[Access] = &[
    ("ld.shared.u8", 1, SHARED, 4, "?ld.shared.u8 %r10, [S];"),
    ("ld.shared.u16", 2, SHARED, 4, "?ld.shared.u16 %h1, [S]; cvt.u32.u16 %r10, %h1;"),
    ("ld.shared.v2.u8", 2, SHARED, 3, "?ld.shared.v2.u8 {%h1,%h2}, [S]; mov.b32 %r10, {%h1,%h2};"),
    ("ld.shared.u32", 4, SHARED, 10, "?ld.shared.u32 %r10, [S];"),
    ("ld.shared.v2.u16", 4, SHARED, 3, "?ld.shared.v2.u16 {%h1,%h2}, [S]; mov.b32 %r10, {%h1,%h2};"),
    ("ld.shared.v2.u32", 8, SHARED, 12, "?ld.shared.v2.u32 {%r10,%r11}, [S];"),
    ("ld.shared.u64", 8, SHARED, 8, "?ld.shared.u64 %d10, [S]; mov.b64 {%r10,%r11}, %d10;"),
    ("ld.shared.v4.u32", 16, SHARED, 14, "?ld.shared.v4.u32 {%r10,%r11,%r12,%r13}, [S];"),
    ("ld.shared.v2.u64", 16, SHARED, 6, "?ld.shared.v2.u64 {%d10,%d11}, [S]; mov.b64 {%r10,%r11}, %d10; mov.b64 {%r12,%r13}, %d11;"),
    ("ld.u32", 4, SHARED, 3, "?ld.u32 %r10, [C];"),
    ("ld.v4.u32", 16, SHARED, 3, "?ld.v4.u32 {%r10,%r11,%r12,%r13}, [C];"),
    ("ld.volatile.shared.u32", 4, SHARED, 2, "?ld.volatile.shared.u32 %r10, [S];"),
    ("st.shared.u8", 1, SHARED, 4, "?st.shared.u8 [S], %r10; KEEP"),
    ("st.shared.u16", 2, SHARED, 4, "cvt.u16.u32 %h1, %r10; ?st.shared.u16 [S], %h1; KEEP"),
    ("st.shared.u32", 4, SHARED, 10, "?st.shared.u32 [S], %r10; KEEP"),
    ("st.shared.v2.u32", 8, SHARED, 12, "?st.shared.v2.u32 [S], {%r10,%r11}; KEEP"),
    ("st.shared.u64", 8, SHARED, 6, "mov.b64 %d10, {%r10,%r11}; ?st.shared.u64 [S], %d10; KEEP"),
    ("st.shared.v4.u32", 16, SHARED, 14, "?st.shared.v4.u32 [S], {%r10,%r11,%r12,%r13}; KEEP"),
    ("st.u32", 4, SHARED, 3, "?st.u32 [C], %r10; KEEP"),
    ("st.v4.u32", 16, SHARED, 3, "?st.v4.u32 [C], {%r10,%r11,%r12,%r13}; KEEP"),
    ("ldmatrix.x1", 16, SHARED, 5, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [S];"),
    ("ldmatrix.x2", 16, SHARED, 5, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10,%r11}, [S];"),
    ("ldmatrix.x4", 16, SHARED, 8, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10,%r11,%r12,%r13}, [S];"),
    ("ldmatrix.x1.trans", 16, SHARED, 3, "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r10}, [S];"),
    ("ldmatrix.x4.trans", 16, SHARED, 5, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10,%r11,%r12,%r13}, [S];"),
    ("stmatrix.x1", 16, SHARED, 4, "stmatrix.sync.aligned.m8n8.x1.shared.b16 [S], {%r10}; KEEP"),
    ("stmatrix.x2", 16, SHARED, 4, "stmatrix.sync.aligned.m8n8.x2.shared.b16 [S], {%r10,%r11}; KEEP"),
    ("stmatrix.x4", 16, SHARED, 6, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [S], {%r10,%r11,%r12,%r13}; KEEP"),
    ("stmatrix.x4.trans", 16, SHARED, 4, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [S], {%r10,%r11,%r12,%r13}; KEEP"),
    ("atom.shared.add.u32", 4, SHARED, 8, "?atom.shared.add.u32 %r10, [S], %r11;"),
    ("atom.shared.exch.b32", 4, SHARED, 5, "?atom.shared.exch.b32 %r10, [S], %r11;"),
    ("atom.shared.cas.b32", 4, SHARED, 5, "?atom.shared.cas.b32 %r10, [S], 0, %r11;"),
    ("atom.shared.max.s32", 4, SHARED, 4, "?atom.shared.max.s32 %r10, [S], %r11;"),
    ("atom.shared.or.b32", 4, SHARED, 3, "?atom.shared.or.b32 %r10, [S], %r11;"),
    ("atom.shared.add.u64", 8, SHARED, 4, "mov.b64 %d10, {%r10,%r11}; ?atom.shared.add.u64 %d10, [S], %d10; mov.b64 {%r10,%r11}, %d10;"),
    ("atom.shared.exch.b64", 8, SHARED, 4, "mov.b64 %d10, {%r10,%r11}; ?atom.shared.exch.b64 %d10, [S], %d10; mov.b64 {%r10,%r11}, %d10;"),
    ("atom.shared.add.f32", 4, SHARED, 4, "mov.b32 %f1, %r10; ?atom.shared.add.f32 %f1, [S], 0f3F800000; mov.b32 %r10, %f1;"),
    ("red.shared.add.u32", 4, SHARED, 6, "?red.shared.add.u32 [S], %r11; KEEP"),
    ("red.shared.add.one", 4, SHARED, 4, "?red.shared.add.u32 [S], 1; KEEP"),
    ("red.shared.and.b32", 4, SHARED, 3, "?red.shared.and.b32 [S], %r11; KEEP"),
    ("ld.global.u8", 1, GLOBAL, 4, "?ld.global.u8 %r10, [G];"),
    ("ld.global.u16", 2, GLOBAL, 3, "?ld.global.u16 %h1, [G]; cvt.u32.u16 %r10, %h1;"),
    ("ld.global.u32", 4, GLOBAL, 8, "?ld.global.u32 %r10, [G];"),
    ("ld.global.v2.u32", 8, GLOBAL, 5, "?ld.global.v2.u32 {%r10,%r11}, [G];"),
    ("ld.global.u64", 8, GLOBAL, 4, "?ld.global.u64 %d10, [G]; mov.b64 {%r10,%r11}, %d10;"),
    ("ld.global.v4.u32", 16, GLOBAL, 8, "?ld.global.v4.u32 {%r10,%r11,%r12,%r13}, [G];"),
    ("ld.global.nc.u32", 4, GLOBAL, 3, "?ld.global.nc.u32 %r10, [G];"),
    ("ld.global.nc.v4.u32", 16, GLOBAL, 3, "?ld.global.nc.v4.u32 {%r10,%r11,%r12,%r13}, [G];"),
    ("ld.global.cg.u32", 4, GLOBAL, 3, "?ld.global.cg.u32 %r10, [G];"),
    ("ld.volatile.global.u32", 4, GLOBAL, 2, "?ld.volatile.global.u32 %r10, [G];"),
    ("ld.acquire.gpu.global.u32", 4, GLOBAL, 2, "?ld.acquire.gpu.global.u32 %r10, [G];"),
    ("ld.generic.global.u32", 4, GLOBAL, 2, "?ld.u32 %r10, [G];"),
    ("st.global.u8", 1, GLOBAL, 4, "?st.global.u8 [G], %r10;"),
    ("st.global.u16", 2, GLOBAL, 3, "cvt.u16.u32 %h1, %r10; ?st.global.u16 [G], %h1;"),
    ("st.global.u32", 4, GLOBAL, 8, "?st.global.u32 [G], %r10;"),
    ("st.global.v2.u32", 8, GLOBAL, 5, "?st.global.v2.u32 [G], {%r10,%r11};"),
    ("st.global.v4.u32", 16, GLOBAL, 8, "?st.global.v4.u32 [G], {%r10,%r11,%r12,%r13};"),
    ("st.global.cs.u32", 4, GLOBAL, 2, "?st.global.cs.u32 [G], %r10;"),
    ("st.generic.global.u32", 4, GLOBAL, 2, "?st.u32 [G], %r10;"),
    ("atom.global.add.u32", 4, GLOBAL, 8, "?atom.global.add.u32 %r10, [G], %r11;"),
    ("atom.global.exch.b32", 4, GLOBAL, 4, "?atom.global.exch.b32 %r10, [G], %r11;"),
    ("atom.global.cas.b32", 4, GLOBAL, 4, "?atom.global.cas.b32 %r10, [G], 0, %r11;"),
    ("atom.global.min.u32", 4, GLOBAL, 3, "?atom.global.min.u32 %r10, [G], %r11;"),
    ("atom.global.add.u64", 8, GLOBAL, 4, "mov.b64 %d10, {%r10,%r11}; ?atom.global.add.u64 %d10, [G], %d10; mov.b64 {%r10,%r11}, %d10;"),
    ("atom.global.add.f32", 4, GLOBAL, 3, "mov.b32 %f1, %r10; ?atom.global.add.f32 %f1, [G], 0f3F800000; mov.b32 %r10, %f1;"),
    ("red.global.add.u32", 4, GLOBAL, 8, "?red.global.add.u32 [G], %r11;"),
    ("red.global.add.f32", 4, GLOBAL, 4, "?red.global.add.f32 [G], 0f3F800000;"),
    ("red.global.add.u64", 8, GLOBAL, 4, "mov.b64 %d10, {%r10,%r11}; ?red.global.add.u64 [G], %d10;"),
    ("red.global.add.v4.f32", 16, GLOBAL, 4, "mov.b32 %f1, %r10; ?red.global.v4.f32.add [G], {%f1,%f1,%f1,%f1};"),
    ("cp.async.ca.4.from", 4, GLOBAL, 4, "?cp.async.ca.shared.global [T], [G], 4; COPIED"),
    ("cp.async.ca.8.from", 8, GLOBAL, 4, "?cp.async.ca.shared.global [T], [G], 8; COPIED"),
    ("cp.async.ca.16.from", 16, GLOBAL, 4, "?cp.async.ca.shared.global [T], [G], 16; COPIED"),
    ("cp.async.cg.16.from", 16, GLOBAL, 6, "?cp.async.cg.shared.global [T], [G], 16; COPIED"),
    ("cp.async.ca.4.to", 4, SHARED, 4, "?cp.async.ca.shared.global [S], [O], 4; COPIED"),
    ("cp.async.ca.8.to", 8, SHARED, 4, "?cp.async.ca.shared.global [S], [O], 8; COPIED"),
    ("cp.async.cg.16.to", 16, SHARED, 6, "?cp.async.cg.shared.global [S], [O], 16; COPIED"),
    ("st.local.u32", 4, LOCAL, 4, "?st.local.u32 [L], %r10; ld.local.u32 %r10, [loc+8];"),
    ("ld.local.u32", 4, LOCAL, 4, "st.local.u32 [loc+8], %r10; ?ld.local.u32 %r10, [L];"),
    ("st.local.v4.u32", 16, LOCAL, 3, "?st.local.v4.u32 [L], {%r10,%r11,%r12,%r13}; ld.local.u32 %r10, [loc+8];"),
    ("ld.local.v4.u32", 16, LOCAL, 3, "st.local.u32 [loc+8], %r10; ?ld.local.v4.u32 {%r10,%r11,%r12,%r13}, [L];"),
    ("bulk.load.64", 16, GLOBAL, 3, "BULK 64; "),
    ("bulk.load.4096", 16, GLOBAL, 3, "BULK 4096; "),
    ("bulk.store.64", 16, GLOBAL, 3, "setp.eq.u32 %p2, %r2, 0; @%p2 cp.async.bulk.global.shared::cta.bulk_group [G], [tile], 64; DRAIN"),
    ("bulk.store.4096", 16, GLOBAL, 3, "setp.eq.u32 %p2, %r2, 0; @%p2 cp.async.bulk.global.shared::cta.bulk_group [G], [tile], 4096; DRAIN"),
    ("bulk.reduce.1024", 16, GLOBAL, 2, "setp.eq.u32 %p2, %r2, 0; @%p2 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [G], [tile], 1024; DRAIN"),
];

/// Longer texts that the list names by one word.
const WORDS: &[(&str, &str)] = &[
    // Something reads what was stored, so that no compiler leaves the store out.
    ("KEEP", "bar.sync 0; ld.shared.u32 %r10, [tile];"),
    ("COPIED", "cp.async.wait_all; bar.sync 0; ld.shared.u32 %r10, [tile];"),
    ("DRAIN", "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"),
];

const BULK: &str = "setp.eq.u32 %p2, %r2, 0; @%p2 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0; \
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], SIZE; \
    @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [G], SIZE, [bar]; \
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0; @!%p3 bra WAIT; ld.shared.u32 %r10, [tile];";

const ADDRESSES: &[(char, &str)] =
    &[('S', "%r4"), ('G', "%d5"), ('C', "%d7"), ('L', "%d8"), ('T', "%r7"), ('O', "%d9")];

/// The guard by which some lanes take no part in an access.
#[derive(Clone, Copy, PartialEq)]
enum Guard {
    None,
    Predicate,
    Branch,
}

fn expand(text: &str, unit: u64, guard: Guard) -> String {
    let mut text = match text.strip_prefix("BULK ").and_then(|rest| rest.split_once(';')) {
        Some((size, _)) => BULK.replace("SIZE", size),
        None => text.to_owned(),
    };
    for (word, long) in WORDS {
        text = text.replace(word, long);
    }
    for (letter, register) in ADDRESSES {
        text = text.replace(&format!("[{letter}]"), &format!("[{register}]"));
    }
    let text = match (guard, text.split_once('?')) {
        (Guard::Branch, Some((before, after))) => {
            let (access, after) = after.split_once(';').unwrap();
            format!("{before}@!%p1 bra SKIP; {access}; SKIP: {after}")
        }
        (Guard::Predicate, _) => text.replace('?', "@%p1 "),
        _ => text.replace('?', ""),
    };
    frame(&text, unit)
}

/// The words of an access that require variables or addresses, with these.
const NEEDS: &[(&[&str], &str, &str)] = &[
    (
        &["tile", "%r4", "%d7", "%r7"],
        ".shared .align 1024 .b8 tile[32768];\n",
        "mov.u32 %r8, tile; add.u32 %r4, %r8, %r3; mad.lo.u32 %r7, %r2, UNIT, %r8; cvt.u64.u32 %d7, %r4; cvta.shared.u64 %d7, %d7;\n",
    ),
    (&["[bar]"], ".shared .align 8 .b64 bar;\n", ""),
    (
        &["%d8"],
        ".local .align 16 .b8 loc[256];\n",
        "mov.u64 %d8, loc; cvt.u64.u32 %d12, %r3; add.u64 %d8, %d8, %d12;\n",
    ),
];

/// The kernel around an access.
fn frame(access: &str, unit: u64) -> String {
    let needed = NEEDS.iter().filter(|(words, ..)| words.iter().any(|word| access.contains(word)));
    let (mut variables, mut addresses) = (String::new(), String::new());
    for (_, variable, address) in needed {
        variables += variable;
        addresses += &address.replace("UNIT", &unit.to_string());
    }
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 table, .param .u64 data, .param .u64 out, .param .u32 mask)\n{{\n\
         .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<24>; .reg .b64 %d<24>; .reg .f32 %f<8>;\n{variables}\
         ld.param.u64 %d1, [table]; ld.param.u64 %d2, [data]; ld.param.u64 %d3, [out]; ld.param.u32 %r1, [mask];\n\
         mov.u32 %r2, %tid.x; mad.wide.u32 %d4, %r2, 4, %d1; ld.global.u32 %r3, [%d4];\n\
         {addresses}cvt.u64.u32 %d5, %r3; add.u64 %d5, %d5, %d2; mad.wide.u32 %d6, %r2, 4, %d3; mad.wide.u32 %d9, %r2, {unit}, %d2;\n\
         and.b32 %r5, %r2, 31; shr.u32 %r6, %r1, %r5; and.b32 %r6, %r6, 1; setp.ne.u32 %p1, %r6, 0;\n\
         mov.u32 %r10, %r2; mov.u32 %r11, %r3; mov.u32 %r12, %r2; mov.u32 %r13, %r3; mov.u16 %h1, 1; mov.u16 %h2, 2;\n\
         mov.b64 %d10, {{%r10, %r11}}; mov.b64 %d11, {{%r12, %r13}};\n\
         {access}\n\
         xor.b32 %r10, %r10, %r11; xor.b32 %r12, %r12, %r13; xor.b32 %r10, %r10, %r12; st.global.u32 [%d6], %r10;\nret;\n}}\n"
    )
}

/// A generator of numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// The kinds of patterns, by the unit of each thread.
const KINDS: &[&str] =
    &["stride", "random", "swizzle", "pairs", "shuffle", "near", "broadcast", "rows", "apart", "lines", "few", "mixed"];

fn offsets(kind: &str, random: &mut Random, units: u64, unit: u64) -> Vec<u64> {
    let threads = 0..THREADS as u64;
    let mut order: Vec<u64> = threads.clone().collect();
    match kind {
        "stride" => {
            let step = random.pick(&[1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 64]);
            threads.map(|t| t * step).collect()
        }
        "random" => threads.map(|_| random.below(units)).collect(),
        "swizzle" => {
            let (row, bits) = (random.pick(&[8, 16, 32]), random.pick(&[1, 3, 7]));
            threads.map(|t| t / row * row + ((t % row) ^ ((t / row) & bits))).collect()
        }
        "pairs" => {
            let (same, step) = (random.pick(&[2, 4, 8]), random.pick(&[1, 1, 3, 8]));
            threads.map(|t| t / same * step).collect()
        }
        "shuffle" => {
            for at in (1..order.len()).rev() {
                order.swap(at, random.below(at as u64 + 1) as usize);
            }
            order
        }
        "near" => {
            let range = random.pick(&[4, 16, 40, 100]);
            threads.map(|_| random.below(range)).collect()
        }
        "broadcast" => {
            let place = random.below(units);
            threads.map(|_| place).collect()
        }
        "rows" => {
            let (pitch, high) = (random.pick(&[8, 9, 32, 33, 40]), random.pick(&[4, 8, 16]));
            threads.map(|t| t % high * pitch + t / high).collect()
        }
        // Lanes agree with those two, four or eight further.
        "apart" => {
            let step = random.pick(&[2, 2, 4, 8]);
            threads.map(|t| t / (2 * step) * step + t % step).collect()
        }
        // Rows of 128 bytes, perhaps padded or with their swizzle.
        "lines" => {
            let (columns, way) = (128 / unit, random.below(3));
            let pitch = columns + u64::from(way == 1);
            threads.map(|t| t % 32 * pitch + if way == 2 { t % 8 % columns } else { 0 }).collect()
        }
        "few" => {
            let places: Vec<u64> = (0..random.pick(&[2, 3, 5])).map(|_| random.below(units)).collect();
            threads.map(|_| places[random.below(places.len() as u64) as usize]).collect()
        }
        _ => threads.map(|t| if t % 3 == 0 { random.below(units) } else { t }).collect(),
    }
}

/// The masks of partly active warps.
fn masks(random: &mut Random) -> (u32, Guard) {
    let mask = match random.below(4) {
        0 => (1u64 << (1 + random.below(31))) as u32 - 1,
        1 => 0x5555_5555,
        2 => u32::MAX << random.below(31),
        _ => random.below(1 << 32) as u32,
    };
    (mask, random.pick(&[Guard::Predicate, Guard::Branch]))
}

/// Every case with one access.
pub(super) fn accesses() -> Vec<Case> {
    let mut random = Random(42);
    let mut cases = Vec::new();
    let mut at = 0;
    for (name, unit, reach, count, text) in ACCESSES {
        for number in 0..*count {
            let kind = KINDS[at % KINDS.len()];
            at += 1;
            let units = reach / unit;
            let mut table = offsets(kind, &mut random, units, *unit);
            // Some patterns start in the middle of the banks or of a sector.
            let shift = random.pick(&[0, 0, 1, 5]);
            table.iter_mut().for_each(|offset| *offset = (*offset + shift) % units);
            let guarded = text.contains('?') && number % 3 == 2;
            let (mask, guard) = if guarded { masks(&mut random) } else { (u32::MAX, Guard::None) };
            let block = if number % 4 == 3 { random.pick(&[64, 45, 128]) } else { 32 };
            cases.push(Case {
                name: format!("{name}/{number}.{kind}"),
                text: expand(text, *unit, guard),
                grid: 1,
                block: if text.contains("aligned") { 32 } else { block },
                dynamic: 0,
                mask,
                table: table.iter().map(|offset| (offset * unit) as u32).collect(),
            });
        }
    }
    cases
}

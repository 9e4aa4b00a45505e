//! Kernels around `mma`, `wgmma` and `wmma`: one instruction each, operands from pools of random numbers.
//!
//! A scene runs once for each variant of the pools, a block each: small integers, numbers of moderate and of very different
//! size, mostly zeros, special values, any bits.

use crate::forms::{Choice, Sample, choices, random};
use ptx_core::isa::{Row, table};
use std::fmt::Write;

pub(crate) const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";
/// Number of variants of a pool.
pub(crate) const VARIANTS: usize = 6;
/// Bytes of a variant.
pub(crate) const POOL: usize = 64 << 10;

#[derive(Clone)]
/// An instruction in an entry that takes four pools (A, B, C, metadata) and a buffer.
pub(crate) struct Scene {
    /// Its unique name.
    pub name: String,
    pub entry: String,
    /// The elements of A, B, C and the metadata.
    pub pools: [&'static str; 4],
    pub threads: u32,
    /// Bytes of its output in each variant.
    pub out: usize,
    /// The elements of a tensor map of the output, if it takes one: rows of 64 bytes, boxes of 8 of them. `blob` is 128 bytes
    /// that mean nothing, `tma:…` the map of `tma_forms`.
    pub map: Option<&'static str>,
    /// Blocks of a cluster.
    pub cluster: u32,
}

/// Bits of an element, of its fraction, its bias, and its largest exponent field of finite numbers; integers have none.
fn shape(element: &str) -> (u32, Option<(u32, i64, i64)>) {
    match element {
        "f16" => (16, Some((10, 15, 30))),
        "bf16" => (16, Some((7, 127, 254))),
        "tf32" | "f32" => (32, Some((23, 127, 254))),
        "f64" => (64, Some((52, 1023, 2046))),
        "e4m3" => (8, Some((3, 7, 14))),
        "e5m2" => (8, Some((2, 15, 30))),
        _ => (32, None),
    }
}

/// A number in a variant.
fn element(kind: &str, variant: usize, state: &mut u64) -> u64 {
    let r = random(state);
    let pick = random(state) >> 20;
    let (bits, Some((fraction, bias, most))) = shape(kind) else {
        return match kind {
            // Two of four, two bits for each, in order; or one of two.
            "pairs" => (0..8).fold(0, |w, i| w | [4, 8, 12, 9, 13, 14][(r >> (8 * i)) as usize % 6] << (4 * i)),
            "halves" => (0..8).fold(0, |w, i| w | [4, 14][(r >> (8 * i)) as usize % 2] << (4 * i)),
            _ => r >> 7 & 0xffff_ffff,
        };
    };
    let sign = (pick & 1) << (bits - 1);
    let low = r & ((1 << fraction) - 1);
    let float = |exponent: i64, low: u64| sign | (exponent.clamp(0, most) as u64) << fraction | low;
    let spread = |width: u64| (pick >> 8) as i64 % (2 * width as i64 + 1) - width as i64;
    match variant {
        0 => [0, float(bias, 0), float(bias + 1, 0), float(bias + 1, 1 << (fraction - 1))][pick as usize >> 4 & 3],
        1 => float(bias + spread(3), low),
        2 => float(bias + spread(11), low),
        3 if pick & 0x1e0 != 0 => sign,
        3 => float(bias + spread(24), low),
        4 => match pick >> 4 & 63 {
            0 => sign | ((most as u64 + 1) << fraction),
            1 => sign | ((most as u64 + 1) << fraction) | low,
            2..20 => sign | low,
            20..30 => sign,
            30..34 => float(most, low),
            _ => float(bias + spread(6), low),
        },
        _ => float((r >> 40) as i64 % (most + 1), low),
    }
}

/// The numbers of a kind of element.
pub(crate) fn pool(kind: &str, seed: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15
        ^ seed.wrapping_mul(0xd134_2543_de82_ef95)
        ^ kind.bytes().fold(7, |h: u64, b| h * 131 + u64::from(b));
    let bytes = shape(kind).0 as usize / 8;
    let mut all = Vec::new();
    for variant in 0..VARIANTS {
        for _ in 0..POOL / bytes {
            all.extend_from_slice(&element(kind, variant, &mut state).to_le_bytes()[..bytes]);
        }
    }
    all
}

/// The pool of a type.
pub(crate) fn kind(ty: &str) -> &'static str {
    const KINDS: [&str; 7] = ["f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2"];
    KINDS.into_iter().find(|k| *k == ty).unwrap_or("bits")
}

/// An entry: parameters, the block's part of each pool, the body.
pub(crate) fn entry(out: usize, body: &str) -> String {
    format!(
        ".visible .entry NAME(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 e, .param .u64 out) {{\n\
         .reg .b64 %a, %b, %c, %e, %out, %at, %x; .reg .b32 %t, %w; .reg .pred %p;\n\
         ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u64 %e, [e]; ld.param.u64 %out, [out];\n\
         mov.u32 %w, %ctaid.x; mov.u32 %t, %tid.x; mul.wide.u32 %at, %w, {POOL}; mul.wide.u32 %x, %w, {out};\n\
         add.u64 %a, %a, %at; add.u64 %b, %b, %at; add.u64 %c, %c, %at; add.u64 %e, %e, %at; add.u64 %out, %out, %x;\n\
         {body}\nret; }}\n"
    )
}

/// The scenes of `mma`: each form of the table.
fn mma(row: &'static Row, choice: &Choice) -> Vec<Scene> {
    let mut sample = Sample::new(choice);
    let (mut words, mut loads, mut stores, mut out) = (Vec::new(), String::new(), String::new(), 0);
    let mut selectors = 0..=0;
    for spec in &row.operands {
        let first = sample.used.len();
        let Some(word) = sample.operand(spec) else { return Vec::new() };
        for (i, (register, class, written)) in sample.used[first..].iter().enumerate() {
            let bytes = if class.ends_with("64") { 8 } else { 4 };
            let address = format!("mad.wide.u32 %x, %t, {bytes}");
            if *written {
                write!(stores, "{address}, %out; st.global.b{} [%x+{out}], {register}; ", bytes * 8).unwrap();
                out += 32 * bytes;
            } else {
                let from = i * 32 * bytes + if spec.name == "b" { 16384 } else { 0 };
                write!(loads, "{address}, %{}; ld.global.b{} {register}, [%x+{from}]; ", spec.name, bytes * 8).unwrap();
            }
        }
        if let (true, ptx_core::isa::OperandKind::Value(value)) = (spec.name == "f", &spec.kind) {
            selectors = value.range.map_or(0..=0, |r| r.lo..=r.hi);
        }
        words.push(word);
    }
    let modifiers: String = choice.iter().flatten().map(|m| format!(".{}", m.text)).collect();
    let types: Vec<&str> = choice.iter().flatten().filter(|m| m.ty.is_some()).map(|m| m.text).collect();
    let [_, a, b, c] = types[..] else { return Vec::new() };
    let meta = if a == "tf32" { "halves" } else { "pairs" };
    let scene = |selector: i128| {
        let mut words = words.clone();
        if selectors != (0..=0) {
            *words.last_mut().unwrap() = selector.to_string();
        }
        let instruction = format!("{}{modifiers} {};", row.name, words.join(", "));
        Scene {
            name: format!("{}{modifiers} {selector}", row.name),
            entry: entry(out, &format!("{}\n{loads}\n{instruction}\n{stores}", sample.declarations())),
            pools: [kind(a), kind(b), kind(c), meta],
            threads: 32,
            out,
            map: None,
            cluster: 1,
        }
    };
    selectors.clone().map(|s| scene(s as i128)).collect()
}

/// Types of a `wgmma`: D, A, B, and K of the dense form.
const WGMMA: [[&str; 4]; 18] = [
    ["f16", "f16", "f16", "16"],
    ["f32", "f16", "f16", "16"],
    ["f32", "bf16", "bf16", "16"],
    ["f32", "tf32", "tf32", "8"],
    ["f32", "e4m3", "e4m3", "32"],
    ["f32", "e4m3", "e5m2", "32"],
    ["f32", "e5m2", "e4m3", "32"],
    ["f32", "e5m2", "e5m2", "32"],
    ["f16", "e4m3", "e4m3", "32"],
    ["f16", "e4m3", "e5m2", "32"],
    ["f16", "e5m2", "e4m3", "32"],
    ["f16", "e5m2", "e5m2", "32"],
    ["s32", "s8", "s8", "32"],
    ["s32", "u8", "u8", "32"],
    ["s32", "s8", "u8", "32"],
    ["s32", "u8", "s8", "32"],
    ["sat", "s8", "s8", "32"],
    ["s32", "b1", "b1", "256"],
];

/// Spelling of a `wgmma`.
#[derive(Clone, Copy)]
struct Wgmma {
    types: [&'static str; 4],
    n: u32,
    /// A from registers.
    registers: bool,
    /// The swizzle mode of both descriptors, and the base offset.
    mode: u64,
    base: u64,
    /// The predicate `scale-d`, and the signs of A and B.
    accumulate: bool,
    signs: [i32; 2],
    /// MN-major flags of A and B.
    trans: [u32; 2],
    /// The selector of a sparse form.
    sparse: Option<u32>,
}

impl Wgmma {
    fn descriptor(self, start: u64, trans: u32) -> u64 {
        let (leading, stride) = match (self.mode, trans) {
            (0, _) => (128, 256),
            (1, _) => (2048, 1024),
            _ => (1024, 512),
        };
        self.mode << 62 | self.base << 49 | (stride >> 4) << 32 | (leading >> 4) << 16 | start >> 4
    }

    fn scene(self) -> Scene {
        let [d, a, b, k] = self.types;
        let k: u32 = k.parse::<u32>().unwrap() * if self.sparse.is_some() { 2 } else { 1 };
        let count = if d == "f16" { self.n / 4 } else { self.n / 2 };
        let (dtype, sat) = if d == "sat" { ("s32", ".satfinite") } else { (d, "") };
        let list = |prefix: &str, n: u32| {
            format!("{{{}}}", (0..n).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>().join(", "))
        };
        let each = |n: u32, f: &dyn Fn(u32) -> String| (0..n).map(f).collect::<String>();
        let float = !["s32", "sat"].contains(&d);
        let sixteen = a.ends_with("f16");
        let mut operands = vec![list("d_", count)];
        operands.push(if self.registers { list("ra_", 4) } else { "%desc_x".into() });
        operands.push("%desc_y".into());
        if let Some(selector) = self.sparse {
            operands.extend(["%meta".into(), selector.to_string()]);
        }
        operands.push("%scale".into());
        if float {
            operands.extend(self.signs.map(|s| s.to_string()));
        }
        if sixteen {
            operands.extend(self.trans[usize::from(self.registers)..].iter().map(|t| t.to_string()));
        }
        let sp = if self.sparse.is_some() { ".sp" } else { "" };
        let op = if a == "b1" { ".and.popc" } else { "" };
        let mnemonic = format!("wgmma.mma_async{sp}.sync.aligned.m64n{}k{k}{sat}.{dtype}.{a}.{b}{op}", self.n);
        let body = format!(
            ".shared .align 1024 .b8 sm[49152]; .reg .b32 %d_<{count}>; .reg .b32 %ra_<4>, %meta, %s; .reg .pred %scale, %q;\n\
             .reg .b64 %desc_x, %desc_y; .reg .b32 %v_<4>;\n\
             mul.wide.u32 %at, %t, 16; add.u64 %x, %a, %at; mov.u32 %s, sm; mad.lo.u32 %s, %t, 16, %s; mov.u32 %w, 0;\n\
             A_LOOP: ld.global.v4.b32 {{%v_0, %v_1, %v_2, %v_3}}, [%x]; st.shared.v4.b32 [%s], {{%v_0, %v_1, %v_2, %v_3}};\n\
             add.u64 %x, %x, 2048; add.u32 %s, %s, 2048; add.u32 %w, %w, 1; setp.lt.u32 %q, %w, 8; @%q bra A_LOOP;\n\
             add.u64 %x, %b, %at; add.u64 %x, %x, 16384; mov.u32 %w, 0;\n\
             B_LOOP: ld.global.v4.b32 {{%v_0, %v_1, %v_2, %v_3}}, [%x]; st.shared.v4.b32 [%s], {{%v_0, %v_1, %v_2, %v_3}};\n\
             add.u64 %x, %x, 2048; add.u32 %s, %s, 2048; add.u32 %w, %w, 1; setp.lt.u32 %q, %w, 16; @%q bra B_LOOP;\n\
             fence.proxy.async.shared::cta; bar.sync 0;\n\
             mad.wide.u32 %x, %t, 4, %a; {}mad.wide.u32 %x, %t, 4, %e; ld.global.b32 %meta, [%x];\n\
             mad.wide.u32 %x, %t, 4, %c; {}\n\
             mov.u32 %s, sm; shr.u32 %s, %s, 4; cvt.u64.u32 %at, %s;\n\
             mov.u64 %desc_x, {}; add.u64 %desc_x, %desc_x, %at; mov.u64 %desc_y, {}; add.u64 %desc_y, %desc_y, %at;\n\
             setp.{}.u32 %scale, %t, 4096;\n\
             wgmma.fence.sync.aligned;\n{mnemonic} {};\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n\
             mad.wide.u32 %x, %t, 4, %out; {}",
            each(4, &|i| format!("ld.global.b32 %ra_{i}, [%x+{}]; ", i * 512)),
            each(count, &|i| format!("ld.global.b32 %d_{i}, [%x+{}]; ", i * 512)),
            self.descriptor(0, self.trans[0]),
            self.descriptor(16384, self.trans[1]),
            if self.accumulate { "lt" } else { "ge" },
            operands.join(", "),
            each(count, &|i| format!("st.global.b32 [%x+{}], %d_{i}; ", i * 512)),
        );
        let out = count as usize * 512;
        let c = if float { d } else { "bits" };
        let [sa, sb] = self.signs;
        let [ta, tb] = self.trans;
        Scene {
            name: format!(
                "{mnemonic} {}swizzle {} base {} scale {} {sa} {sb} trans {ta} {tb} select {}",
                if self.registers { "registers " } else { "" },
                self.mode,
                self.base,
                u32::from(self.accumulate),
                self.sparse.unwrap_or(0),
            ),
            entry: entry(out, &body),
            pools: [kind(a), kind(b), kind(c), if a == "tf32" { "halves" } else { "pairs" }],
            threads: 128,
            out,
            map: None,
            cluster: 1,
        }
    }
}

fn wgmma() -> Vec<Scene> {
    let mut found = Vec::new();
    for types in WGMMA {
        let first = Wgmma {
            types,
            n: 16,
            registers: false,
            mode: 1,
            base: 0,
            accumulate: true,
            signs: [1, 1],
            trans: [0, 0],
            sparse: None,
        };
        let float = !["s32", "sat"].contains(&types[0]);
        let signs = if float { [-1, 1] } else { [1, 1] };
        found.extend([first, Wgmma { registers: true, n: 32, ..first }]);
        found.push(Wgmma { mode: 0, n: 8, accumulate: false, signs, ..first });
        found.push(Wgmma { mode: 2, n: 24, signs: [signs[1], signs[0]], ..first });
        found.push(Wgmma { mode: 3, n: if types[3] == "16" { 256 } else { 48 }, signs: [signs[0]; 2], ..first });
        for sparse in 0..if types[3].len() == 2 && types[3] == "32" { 1 } else { 2 } {
            let sparse = Wgmma { sparse: Some(sparse), ..first };
            if types[1] != "b1" {
                found.extend([sparse, Wgmma { registers: true, mode: 2, n: 24, ..sparse }]);
            }
        }
        if types[1].ends_with("f16") {
            for (mode, trans) in (0..4).flat_map(|m| [[0, 1], [1, 0], [1, 1]].map(|t| (m, t))) {
                found.push(Wgmma { mode, trans, n: 64, ..first });
                found.push(Wgmma { mode, trans, n: 16, sparse: Some(1), ..first });
            }
            found.push(Wgmma { trans: [0, 1], registers: true, ..first });
            found.extend((1..4).map(|mode| Wgmma { mode, base: 3, ..first }));
        }
    }
    found.into_iter().map(Wgmma::scene).collect()
}

/// Shapes of `wmma`: m, n, k, the types of A, C and D, and registers of A, B, C and D.
type Wmma = (u32, u32, u32, [&'static str; 3], [u32; 4]);
const WMMA: [Wmma; 22] = [
    (16, 16, 16, ["f16", "f32", "f32"], [8, 8, 8, 8]),
    (16, 16, 16, ["f16", "f16", "f16"], [8, 8, 4, 4]),
    (16, 16, 16, ["f16", "f16", "f32"], [8, 8, 4, 8]),
    (16, 16, 16, ["f16", "f32", "f16"], [8, 8, 8, 4]),
    (8, 32, 16, ["f16", "f32", "f32"], [8, 8, 8, 8]),
    (32, 8, 16, ["f16", "f32", "f32"], [8, 8, 8, 8]),
    (8, 32, 16, ["f16", "f16", "f16"], [8, 8, 4, 4]),
    (32, 8, 16, ["f16", "f16", "f16"], [8, 8, 4, 4]),
    (16, 16, 16, ["bf16", "f32", "f32"], [4, 4, 8, 8]),
    (8, 32, 16, ["bf16", "f32", "f32"], [2, 8, 8, 8]),
    (32, 8, 16, ["bf16", "f32", "f32"], [8, 2, 8, 8]),
    (16, 16, 8, ["tf32", "f32", "f32"], [4, 4, 8, 8]),
    (8, 8, 4, ["f64", "f64", "f64"], [1, 1, 2, 2]),
    (16, 16, 16, ["s8", "s32", "s32"], [2, 2, 8, 8]),
    (16, 16, 16, ["u8", "s32", "s32"], [2, 2, 8, 8]),
    (8, 32, 16, ["s8", "s32", "s32"], [1, 4, 8, 8]),
    (32, 8, 16, ["u8", "s32", "s32"], [4, 1, 8, 8]),
    (8, 8, 32, ["s4", "s32", "s32"], [1, 1, 2, 2]),
    (8, 8, 32, ["u4", "s32", "s32"], [1, 1, 2, 2]),
    (8, 8, 128, ["b1", "s32", "s32"], [1, 1, 2, 2]),
    (16, 16, 16, ["s8", "s32", "sat"], [2, 2, 8, 8]),
    (8, 8, 32, ["s4", "s32", "sat"], [1, 1, 2, 2]),
];

fn wmma_scene(index: usize, a_layout: &str, b_layout: &str, round: &str) -> Scene {
    let (m, n, k, [a, c, d], counts) = WMMA[index];
    let (d, sat) = if d == "sat" { ("s32", ".satfinite") } else { (d, "") };
    let shape = format!("m{m}n{n}k{k}");
    let class = |ty: &str| if ty == "f64" { "f64" } else { "b32" };
    let list = |p: &str, n: u32| format!("{{{}}}", (0..n).map(|i| format!("%{p}_{i}")).collect::<Vec<_>>().join(", "));
    // More than a row, so that strides are seen.
    let stride = |rows: u32, columns: u32, layout: &str, ty: &str| match ty {
        "b1" => 256,
        "s4" | "u4" => 64,
        _ => {
            if layout == "row" {
                columns + 16
            } else {
                rows + 16
            }
        }
    };
    let (sa, sb) = (stride(m, k, a_layout, a), stride(k, n, b_layout, a));
    let mul = match a {
        "f16" => format!("{shape}.{d}.{c}{sat}"),
        "b1" => format!("{shape}.s32.b1.b1.s32"),
        _ => format!("{shape}{round}.{d}.{a}.{a}.{c}{sat}"),
    };
    let name = if a == "b1" { "wmma.mma.and.popc.sync.aligned" } else { "wmma.mma.sync.aligned" };
    let body = format!(
        ".reg .{} %a_<8>, %b_<8>; .reg .{} %c_<8>; .reg .{} %d_<8>; add.u64 %b, %b, 16384;\n\
         wmma.load.a.sync.aligned.{a_layout}.{shape}.global.{a} {}, [%a], {sa};\n\
         wmma.load.b.sync.aligned.{b_layout}.{shape}.global.{a} {}, [%b], {sb};\n\
         wmma.load.c.sync.aligned.{b_layout}.{shape}.global.{c} {}, [%c], 40;\n\
         {name}.{a_layout}.{b_layout}.{mul} {}, {}, {}, {};\n\
         wmma.store.d.sync.aligned.{a_layout}.{shape}.global.{d} [%out], {}, 40;",
        class(a),
        class(c),
        class(d),
        list("a", counts[0]),
        list("b", counts[1]),
        list("c", counts[2]),
        list("d", counts[3]),
        list("a", counts[0]),
        list("b", counts[1]),
        list("c", counts[2]),
        list("d", counts[3]),
    );
    let out = 40 * m.max(n) as usize * if d == "f64" { 8 } else { 4 };
    Scene {
        name: format!("{name}.{a_layout}.{b_layout}.{mul}"),
        entry: entry(out, &body),
        pools: [kind(a), kind(a), kind(c), "pairs"],
        threads: 32,
        out,
        map: None,
        cluster: 1,
    }
}

fn wmma() -> Vec<Scene> {
    let mut found = Vec::new();
    for (index, shape) in WMMA.iter().enumerate() {
        let layouts: &[[&str; 2]] = match shape.3[0] {
            "b1" | "s4" | "u4" => &[["row", "col"]],
            _ => &[["row", "row"], ["row", "col"], ["col", "row"], ["col", "col"]],
        };
        found.extend(layouts.iter().map(|[a, b]| wmma_scene(index, a, b, "")));
        if shape.3[0] == "f64" {
            found.extend([".rn", ".rz", ".rm", ".rp"].map(|round| wmma_scene(index, "row", "col", round)));
        }
    }
    found
}

/// One in so many scenes, if sm_90a takes it, with its entry's name filled in.
pub(crate) fn scenes(step: usize, accepted: impl Fn(&str) -> bool) -> Vec<Scene> {
    let rows = table().rows().filter(|r| r.file == "mma.isa" && r.name == "mma");
    let mut all: Vec<Scene> =
        rows.flat_map(|row| choices(row, 600).into_iter().flat_map(move |c| mma(row, &c))).collect();
    all.extend(wgmma());
    all.extend(wmma());
    all.extend(crate::async_forms::scenes());
    all.extend(crate::memory_forms::scenes());
    all.extend(crate::atomic_forms::scenes());
    all.extend(crate::warp_forms::scenes());
    all.extend(crate::tma_forms::scenes());
    let mut all: Vec<Scene> = all.into_iter().step_by(step).collect();
    all.retain(|scene| accepted(&scene.entry.replace("NAME", "k")));
    for (i, scene) in all.iter_mut().enumerate() {
        scene.entry = scene.entry.replace("NAME", &format!("s{i}"));
    }
    all
}

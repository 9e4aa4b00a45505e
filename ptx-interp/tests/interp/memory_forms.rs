//! Kernels around `ld`, `st`, `cp.async` and what moves matrices between memory and registers.

use crate::tensor_forms::{Scene, entry};
use std::fmt::Write;

/// Bytes of a thread in every space.
const BYTES: usize = 64;
const THREADS: usize = 32;
/// Words of a variable in constant memory: every other thread has the same.
const CONSTANTS: u32 = 32;
const TYPES: [&str; 14] =
    ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"];

/// A space: what stands behind `ld`, the register that has the address of the thread's bytes, and how it got there.
struct Space {
    name: &'static str,
    address: &'static str,
    setup: &'static str,
    /// True if `st` can write there.
    writable: bool,
}

const SPACES: [Space; 12] = [
    Space { name: ".global", address: "%x", setup: "mad.wide.u32 %x, %t, 64, %own; ", writable: true },
    Space { name: ".shared", address: "%s", setup: "", writable: true },
    Space { name: ".shared::cta", address: "%s", setup: "", writable: true },
    Space { name: ".shared::cluster", address: "%s", setup: "", writable: true },
    Space { name: ".local", address: "%x", setup: "mov.b64 %x, lc; ", writable: true },
    Space {
        name: ".const",
        address: "%x",
        setup: "and.b32 %w, %t, 1; mov.b64 %x, NAME_k; mad.wide.u32 %x, %w, 64, %x; ",
        writable: false,
    },
    Space {
        name: ".param",
        address: "%x",
        setup: "and.b32 %w, %t, 1; mov.b64 %x, map; mad.wide.u32 %x, %w, 64, %x; ",
        writable: false,
    },
    Space { name: "", address: "%x", setup: "mad.wide.u32 %x, %t, 64, %own; ", writable: true },
    Space { name: "", address: "%x", setup: "cvt.u64.u32 %x, %s; cvta.shared.u64 %x, %x; ", writable: true },
    Space { name: "", address: "%x", setup: "mov.b64 %x, lc; cvta.local.u64 %x, %x; ", writable: true },
    Space {
        name: "",
        address: "%x",
        setup: "and.b32 %w, %t, 1; cvta.const.u64 %x, NAME_k; mad.wide.u32 %x, %w, 64, %x; ",
        writable: false,
    },
    Space {
        name: "",
        address: "%x",
        setup: "and.b32 %w, %t, 1; mov.b64 %x, map; cvta.param.u64 %x, %x; mad.wide.u32 %x, %w, 64, %x; ",
        writable: false,
    },
];

const LOADS: [&str; 22] = [
    "",
    ".weak",
    ".ca",
    ".cg",
    ".cs",
    ".lu",
    ".cv",
    ".volatile",
    ".relaxed.cta",
    ".relaxed.gpu",
    ".relaxed.sys",
    ".relaxed.cluster",
    ".acquire.cta",
    ".acquire.gpu",
    ".acquire.sys",
    ".acquire.cluster",
    ".L1::evict_first",
    ".L1::no_allocate",
    ".L2::64B",
    ".L2::128B",
    ".nc",
    ".mmio.relaxed.sys",
];
const STORES: [&str; 17] = [
    "",
    ".weak",
    ".wb",
    ".cg",
    ".cs",
    ".wt",
    ".volatile",
    ".relaxed.cta",
    ".relaxed.gpu",
    ".relaxed.sys",
    ".relaxed.cluster",
    ".release.cta",
    ".release.gpu",
    ".release.sys",
    ".L1::evict_last",
    ".L1::evict_unchanged",
    ".mmio.relaxed.sys",
];

fn bits(ty: &str) -> usize {
    ty[1..].parse().unwrap()
}

/// `ld.relaxed.gpu.global.v2.u16`: some modifiers stand behind the space.
fn mnemonic(opcode: &str, modifier: &str, space: &str, vector: &str, ty: &str) -> String {
    let behind = modifier.starts_with(".c")
        || modifier.starts_with(".w") && modifier != ".weak"
        || modifier.starts_with(".L")
        || modifier == ".nc"
        || modifier == ".lu";
    let (before, after) = if behind { ("", modifier) } else { (modifier, "") };
    format!("{opcode}{before}{space}{after}{vector}.{ty}")
}

/// A vector operand, or a single one.
fn operand(prefix: &str, count: usize) -> String {
    let all: Vec<String> = (0..count).map(|i| format!("%{prefix}_{i}")).collect();
    if count == 1 { all.concat() } else { format!("{{{}}}", all.join(", ")) }
}

/// Every space filled from pool A; `%own` is global memory with the same bytes; then a body, with the space's address.
fn filled(space: &Space, body: &str) -> String {
    let mut fill = String::new();
    for at in (0..BYTES).step_by(8) {
        write!(fill, "ld.global.b64 %v, [%x+{at}]; st.shared.b64 [%s+{at}], %v; st.local.b64 [lc+{at}], %v; st.global.b64 [%z+{at}], %v; ").unwrap();
    }
    let text = entry(
        THREADS * BYTES * 2,
        &format!(
            ".shared .align 64 .b8 sm[{}]; .local .align 64 .b8 lc[{BYTES}]; .reg .b64 %v, %z, %own; .reg .b32 %s;\n\
             mad.wide.u32 %x, %t, {BYTES}, %a; add.u64 %own, %out, {}; mad.wide.u32 %z, %t, {BYTES}, %own; \
             mov.u32 %s, sm; mad.lo.u32 %s, %t, {BYTES}, %s;\n{fill}\n{}{body}",
            THREADS * BYTES,
            THREADS * BYTES,
            space.setup,
        ),
    );
    let text = text.replace("out)", "out, .param .align 128 .b8 map[128])");
    // A module has 64 KiB of constants.
    if !text.contains("NAME_k") {
        return text;
    }
    let constant: Vec<String> =
        (0..CONSTANTS).map(|i: u32| format!("{:#x}", i.wrapping_mul(0x9e37_79b9) ^ 0x8040_2010)).collect();
    format!(".const .align 64 .b32 NAME_k[{CONSTANTS}] = {{{}}};\n{text}", constant.join(", "))
}

fn scene(name: String, entry: String, out: usize) -> Scene {
    Scene { name, entry, pools: ["bits"; 4], threads: THREADS as u32, out, map: Some("blob"), cluster: 1 }
}

fn load(space: &Space, modifier: &str, count: usize, ty: &str, class: usize, offset: i32) -> Scene {
    let vector = if count == 1 { String::new() } else { format!(".v{count}") };
    let mnemonic = mnemonic("ld", modifier, space.name, &vector, ty);
    let registers = operand("r", count);
    let instruction = format!("{mnemonic} {registers}, [{}+{offset}];", space.address);
    let base = if offset < 0 {
        format!("add.u64 %x, %x, {}; add.u32 %s, %s, {}; ", -offset + 16, -offset + 16)
    } else {
        String::new()
    };
    let mut body = format!(".reg .b{class} %r_<{count}>; {base}\n{instruction}\nmad.wide.u32 %z, %t, {BYTES}, %out; ");
    for i in 0..count {
        write!(body, "st.global.b{class} [%z+{}], %r_{i}; ", i * class / 8).unwrap();
    }
    // What is read as constant must not have been written by the same kernel.
    let setup = if modifier == ".nc" { space.setup.replace("%own", "%a") } else { space.setup.to_string() };
    let name = format!("{instruction} of b{class} {setup}");
    scene(name, filled(space, &body).replace(space.setup, &setup), THREADS * BYTES * 2)
}

fn store(space: &Space, modifier: &str, count: usize, ty: &str, class: usize, offset: i32) -> Scene {
    let vector = if count == 1 { String::new() } else { format!(".v{count}") };
    let mnemonic = mnemonic("st", modifier, space.name, &vector, ty);
    let registers = operand("r", count);
    let base = if offset < 0 {
        format!("add.u64 %x, %x, {}; add.u32 %s, %s, {}; ", -offset + 16, -offset + 16)
    } else {
        String::new()
    };
    let instruction = format!("{mnemonic} [{}+{offset}], {registers};", space.address);
    let mut body = format!(".reg .b{class} %r_<{count}>; mad.wide.u32 %z, %t, {BYTES}, %c; ");
    for i in 0..count {
        write!(body, "ld.global.b{class} %r_{i}, [%z+{}]; ", i * class / 8).unwrap();
    }
    write!(
        body,
        "{base}\n{instruction}\nmad.wide.u32 %z, %t, {BYTES}, %out; mov.u32 %s, sm; mad.lo.u32 %s, %t, {BYTES}, %s; "
    )
    .unwrap();
    for at in (0..BYTES).step_by(8) {
        let of = match space.setup {
            setup if setup.contains("lc") || space.name == ".local" => format!("ld.local.b64 %v, [lc+{at}]; "),
            "" => format!("ld.shared.b64 %v, [%s+{at}]; "),
            setup if setup.contains("shared") => format!("ld.shared.b64 %v, [%s+{at}]; "),
            _ => continue,
        };
        write!(body, "{of}st.global.b64 [%z+{at}], %v; ").unwrap();
    }
    let name = format!("{instruction} of b{class} {}", space.setup);
    scene(name, filled(space, &body), THREADS * BYTES * 2)
}

/// Every type, vector, space and width of register; each modifier now and then.
fn moves() -> Vec<Scene> {
    let (mut found, mut turn) = (Vec::new(), 0);
    for space in &SPACES {
        for ty in TYPES {
            for count in [1, 2, 4].into_iter().filter(|n| n * bits(ty) <= 128) {
                for class in
                    [16, 32, 64].into_iter().filter(|w| *w >= bits(ty) && (!ty.starts_with('f') || *w == bits(ty)))
                {
                    turn += 1;
                    let offset = [16, 0, -16][turn % 3];
                    found.push(load(space, "", count, ty, class, offset));
                    found.push(load(space, LOADS[turn % LOADS.len()], count, ty, class, offset));
                    if space.writable {
                        found.push(store(space, "", count, ty, class, offset));
                        found.push(store(space, STORES[turn % STORES.len()], count, ty, class, offset));
                    }
                }
            }
        }
        for modifier in LOADS {
            found.push(load(space, modifier, 1, "s16", 32, 16));
            found.push(load(space, modifier, 4, "u8", 16, 16));
        }
        for modifier in STORES.into_iter().filter(|_| space.writable) {
            found.push(store(space, modifier, 1, "s16", 32, 16));
            found.push(store(space, modifier, 4, "u8", 16, 16));
        }
    }
    for (ty, class) in [("u8", 32), ("s8", 64), ("s16", 32), ("b32", 32), ("s32", 64), ("b64", 64)] {
        for count in [1, 2] {
            let vector = if count == 1 { "" } else { ".v2" };
            let plain = load(&SPACES[0], "", count, ty, class, 16);
            let (from, to) = (format!("ld.global{vector}.{ty}"), format!("ldu.global{vector}.{ty}"));
            found.push(Scene { name: plain.name.replace(&from, &to), entry: plain.entry.replace(&from, &to), ..plain });
        }
    }
    found
}

/// `cp.async`: sizes, how many bytes are read, and the predicate that ignores the source.
fn copies() -> Vec<Scene> {
    let mut found = Vec::new();
    for (cache, size) in [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)] {
        let mut rests = vec![String::new(), ", %p".into(), ", !%p".into(), ", %w".into()];
        rests.extend((0..=size).map(|n| format!(", {n}")));
        for rest in rests {
            for space in ["shared", "shared::cta"] {
                let instruction = format!("cp.async.{cache}.{space}.global [%s+16], [%z], {size}{rest};");
                let body = format!(
                    "mad.wide.u32 %z, %t, 16, %c; ld.global.b32 %w, [%z+8192]; and.b32 %w, %w, 1; setp.eq.u32 %p, %w, 1; \
                     ld.global.u32 %w, [%z+8196]; rem.u32 %w, %w, {};\n{instruction}\ncp.async.wait_all;\n\
                     mad.wide.u32 %z, %t, {BYTES}, %out; ld.shared.v2.b64 {{%v, %x}}, [%s+16]; st.global.v2.b64 [%z], {{%v, %x}};",
                    size + 1
                );
                found.push(scene(instruction, filled(&SPACES[1], &body), THREADS * BYTES * 2));
            }
        }
    }
    found
}

/// `ldmatrix`, `stmatrix` and `movmatrix`: rows anywhere in shared memory.
fn matrices() -> Vec<Scene> {
    let mut found = Vec::new();
    for (num, trans, space) in [1, 2, 4]
        .into_iter()
        .flat_map(|n| ["", ".trans"].into_iter().flat_map(move |t| [".shared", ".shared::cta", ""].map(|s| (n, t, s))))
    {
        let registers = format!("{{{}}}", (0..num).map(|i| format!("%r_{i}")).collect::<Vec<_>>().join(", "));
        let each = |f: &dyn Fn(usize) -> String| (0..num).map(f).collect::<String>();
        let generic = if space.is_empty() { "cvta.shared.u64 %x, %x; " } else { "" };
        let row =
            |scale: &str| format!("mov.u32 %w, sm; {scale} mad.lo.u32 %s, %s, 16, %w; cvt.u64.u32 %x, %s; {generic}");
        let instruction = format!("ldmatrix.sync.aligned.m8n8.x{num}{trans}{space}.b16 {registers}, [%x];");
        let body = format!(
            ".reg .b32 %r_<4>; bar.sync 0; mad.wide.u32 %z, %t, 4, %c; ld.global.u32 %s, [%z]; {}\n{instruction}\n\
             mad.wide.u32 %z, %t, 16, %out; {}",
            row("and.b32 %s, %s, 127;"),
            each(&|i| format!("st.global.b32 [%z+{}], %r_{i}; ", i * 4)),
        );
        found.push(scene(instruction, filled(&SPACES[1], &body), THREADS * BYTES * 2));
        let instruction = format!("stmatrix.sync.aligned.m8n8.x{num}{trans}{space}.b16 [%x], {registers};");
        let body = format!(
            ".reg .b32 %r_<4>; bar.sync 0; mad.wide.u32 %z, %t, 16, %c; {} {}\n{instruction}\nbar.sync 0;\n\
             mov.u32 %s, sm; mad.lo.u32 %s, %t, {BYTES}, %s; mad.wide.u32 %z, %t, {BYTES}, %out; {}",
            each(&|i| format!("ld.global.b32 %r_{i}, [%z+{}]; ", i * 4)),
            row("mul.lo.u32 %s, %t, 29; add.u32 %s, %s, 11; and.b32 %s, %s, 31; mul.lo.u32 %s, %s, 3;"),
            (0..BYTES)
                .step_by(8)
                .map(|at| format!("ld.shared.b64 %v, [%s+{at}]; st.global.b64 [%z+{at}], %v; "))
                .collect::<String>(),
        );
        found.push(scene(instruction, filled(&SPACES[1], &body), THREADS * BYTES * 2));
    }
    let instruction = "movmatrix.sync.aligned.m8n8.trans.b16 %s, %w;";
    let body = format!(
        "mad.wide.u32 %z, %t, 4, %c; ld.global.u32 %w, [%z];\n{instruction}\nmad.wide.u32 %z, %t, 4, %out; st.global.u32 [%z], %s;"
    );
    found.push(scene(instruction.into(), filled(&SPACES[1], &body), THREADS * BYTES * 2));
    found
}

/// Queries of addresses: `isspacep` and `cvta` there and back.
fn addresses() -> Vec<Scene> {
    const TESTS: [&str; 8] =
        ["const", "global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry"];
    let mut found = Vec::new();
    for space in SPACES.iter().filter(|s| s.name.is_empty()) {
        for test in TESTS {
            let body = format!(
                "isspacep.{test} %p, %x;\nselp.u32 %w, 1, 0, %p; mad.wide.u32 %z, %t, 4, %out; st.global.u32 [%z], %w;"
            );
            found.push(scene(format!("isspacep.{test} {}", space.setup), filled(space, &body), THREADS * BYTES * 2));
        }
    }
    for (space, variable) in [
        ("shared", "sm"),
        ("local", "lc"),
        ("const", "NAME_k"),
        ("shared::cta", "sm"),
        ("param", "map"),
        ("global", "%own"),
    ] {
        let body = format!(
            ".reg .b64 %y; mov.b64 %x, {variable}; mad.wide.u32 %x, %t, 4, %x; cvta.{space}.u64 %y, %x; cvta.to.{space}.u64 %y, %y; sub.u64 %y, %y, %x;\n\
             mad.wide.u32 %z, %t, 8, %out; st.global.u64 [%z], %y;"
        );
        found.push(scene(format!("cvta.{space} and back"), filled(&SPACES[1], &body), THREADS * BYTES * 2));
    }
    found
}

pub(crate) fn scenes() -> Vec<Scene> {
    [moves(), copies(), matrices(), addresses()].concat()
}

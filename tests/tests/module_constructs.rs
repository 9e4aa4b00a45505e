//! Modules made from lists against ptxas: headers, initial values and names in odd forms, two declarations of one name in every pair
//! of kinds and scopes, and what PTX 1 to 3 had, in the versions around its end. A part of the modules; `PTX_THOROUGH=1` judges all.
#![allow(clippy::expect_used, reason = "tests")]

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_core::check::check;
use ptx_core::parse::parse_text;
use ptx_tests::judge::{Judge, Verdict};
use ptx_tests::ptxas;
use std::process::ExitCode;

/// Declarations of `x` in a module.
const OUTSIDE: &[&str] = &[
    ".global .u32 x;",
    ".const .u32 x;",
    ".shared .u32 x;",
    ".extern .global .u32 x;",
    ".func x() { ret; }",
    ".visible .func x() { ret; }",
    ".entry x() { ret; }",
    ".global .u32 x[4];",
    ".global .u32 x<4>;",
    ".global .texref x;",
    ".extern .func x();",
];

/// Declarations of `x`, or of `x1`, in a body.
const INSIDE: &[&str] = &[
    ".reg .u32 x;",
    ".reg .u32 x<4>;",
    ".reg .pred x;",
    ".reg .u32 x1;",
    ".reg .u32 x01;",
    ".local .u32 x;",
    ".local .u32 x<4>;",
    ".local .u32 x1;",
    ".shared .u32 x;",
    ".global .u32 x;",
    ".const .u32 x;",
    ".param .b32 x;",
    "x:",
    "x1:",
    "x01:",
    "x: .callprototype _ ();",
    "x: .calltargets other;",
    ".func x();",
];

/// Parameters named `x` or `x1`.
const PARAMETERS: &[&str] = &[".param .u32 x", ".param .u32 x1", ".param .align 4 .b8 x[8]"];

/// Uses of `x` behind both declarations.
const USES: &[&str] =
    &["", "mov.u32 y, x;", "ld.u32 y, [x];", "bra x1;", "add.u32 y, x1, 1;", "add.u32 y, x01, 1;", "call x;"];

/// Headers, between a `.version` and a kernel.
const HEADERS: &[&str] = &[
    ".version 8.10\n",
    ".version 8.16\n",
    ".version 7.10\n",
    ".version 7.6\n",
    ".version 8.010\n",
    ".version 5.35\n",
    ".version 0.80\n",
    ".version/**/8.0\n",
    ".version /* a */ 8.0\n",
    ".version\n8.0\n",
    ".version 8.0/**/",
    "// a\n.version\t8.0\n",
    "\x1a.version\x1a8.0\x1a\n",
    ".version\x0b8.0\n",
    ";.version 8.0\n",
];

/// Initial values.
const GLOBALS: &[&str] = &[
    ".global .u64 g = g;",
    ".global .u64 g = g + 1 + 2;",
    ".global .u64 g = g - 8;",
    ".global .u64 g = g * 2;",
    ".global .u64 g = 8 + g;",
    ".global .u64 g = (g);",
    ".global .u64 g = generic(g);",
    ".global .u64 g[] = {g, g+8};",
    ".global .u8 g[2] = {0xFF(g), 0xFF00(g)};",
    ".global .u32 g = g;",
    ".global .u16 g = g;",
    ".global .s64 g = g;",
    ".global .f64 g = g;",
    ".const .u64 g = g;",
    ".global .u64 a, b = a;",
    ".global .u64 a = b, b = a;",
    ".global .u64 g<2> = g0;",
    ".shared .u64 s;\n.global .u64 g = s;",
    ".global .u64 other = other;",
    ".global .u64 g = h;\n.global .u32 h;",
];

/// Instructions, with registers `r0` to `r8`, the vectors `v` and `w0` to `w2`, and predicates `p0` to `p3`.
const BODIES: &[&str] = &[
    "mov.u32 r1, %tid .x;",
    "mov.u32 r1, %tid\n.x;",
    "mov.u32 r1, %tid/**/.x;",
    "mov.u32 r1, %tid. x;",
    "mov.u32 %tid .x, r1;",
    "mov.u32 r1, %laneid .x;",
    "mov.u32 r1, v .x;",
    "mov.u32 r1, v .r;",
    "mov.u32 v .x, r1;",
    "mov.u32 r1, w01 .y;",
    "mov.u32 r1, w1 .z;",
    "mov.u32 r1, r2 .x;",
    "mov.b64 {r1.x, r2}, 1;",
    "st.shared.v2.u32 [r1], {r2, r3.x};",
    "st.shared.v2.u32 [r1], {r2, v.w};",
    "ld.shared.v2.u32 {r1.x, r2}, [r1];",
    "vadd.u32.u32.u32 r1, r2 .b0, r3;",
    "vadd.u32.u32.u32 r1 .b0, r2, r3, r1;",
    "vadd.u32.u32.u32 r1, r2 .b4, r3;",
    "vadd2.u32.u32.u32 r1 .h10, r2, r3, r1;",
    "mov.u32 r01, 1;",
    "mov.u32 r001, r1;",
    "mov.u32 r09, 1;",
    "mov.u32 r4294967297, 1;",
    "mov.u32 r18446744073709551617, 1;",
    "mov.u32 r2147483649, 1;",
    "@p01 mov.u32 r1, 1;",
    "{ .reg .u32 r<2>; mov.u32 r02, 1; }",
    ".reg .f32 r01; mov.u32 r1, 1;",
    ".reg .u32 q<12>, q1<3>; mov.u32 q11, 1;",
    ".reg .f32 q0<3>; .reg .u32 q<12>; mov.u32 q01, 1;",
    ".reg .f32 q01; .reg .u32 q<12>; mov.u32 q01, 1;",
    ".reg .f32 q01; .reg .u32 q<12>; mov.f32 q01, 0f00000000;",
    "add\x1a.u32 r1\x1a, r2,\x1ar3;",
    "mov.u32 r\x1a1, 1;",
    "mov.u32 r1, 1\x1a2;",
    "mov.u32 r1, 1\x042;",
    "add .u32 r1, r2, r3;",
    "add. u32 r1, r2, r3;",
    ".global .u64 s = s;",
];

/// What stands in front of an old kernel, and in it.
const OLD: &[(&str, &str)] = &[
    (".tex .u32 t;", "tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [t, {f4, f5, f6, f7}];"),
    (".tex .u64 t, u;", ""),
    (".tex .f32 t;", ""),
    (".tex .u32 t[3];", ""),
    ("", ".tex .u32 t;"),
    (".reg .u32 g;", "mov.u32 r0, g;"),
    (".reg .u32 g<4>;", "mov.u32 g1, g2;"),
    (".reg .pred g;", "@g mov.u32 r0, r1;"),
    (".local .u32 g;", "ld.local.u32 r0, [g];"),
    (".local .align 8 .b8 g[64];", ""),
    (".param .u32 g;", ""),
    (".func f (.reg .u32 a)\n.file 1 \"x.cu\"\n.func f (.reg .u32 a) { ret; }", ""),
    (".func f (.reg .u32 a)\n.pragma \"nounroll\";\n.func f (.reg .u32 a) { ret; }", ""),
    ("", "mad.f64 e0, e1, e2, e3;"),
    ("", "mad.rn.f64 e0, e1, e2, e3;"),
    ("", "fma.rn.f64 e0, e1, e2, e3;"),
    ("", "div.f32 f0, f1, f2;"),
    ("", "div.f64 e0, e1, e2;"),
    ("", "div.rn.f64 e0, e1, e2;"),
    ("", "div.approx.f32 f0, f1, f2;"),
    ("", "rcp.f32 f0, f1;"),
    ("", "rcp.f64 e0, e1;"),
    ("", "sqrt.f32 f0, f1;"),
    ("", "sqrt.rn.f64 e0, e1;"),
    ("", "rsqrt.f32 f0, f1;"),
    ("", "rsqrt.f64 e0, e1;"),
    ("", "sin.f32 f0, f1;"),
    ("", "cos.f32 f0, f1;"),
    ("", "lg2.f32 f0, f1;"),
    ("", "ex2.f32 f0, f1;"),
    ("", "neg.ftz.f32 f0, f1;"),
    ("", "setp.eq.ftz.f32 p0, f0, f1;"),
    ("", "cvt.f64.f32 e0, f1;"),
    ("", "cvt.rn.ftz.f32.f64 f0, e1;"),
    ("", "ld.u32 r0, [d0];"),
    ("", "ld.global.cg.u32 r0, [d0];"),
    ("", "atom.global.add.u32 r0, [d0], r1;"),
    ("", "atom.shared.add.u32 r0, [r2], r1;"),
    ("", "atom.add.u32 r0, [d0], r1;"),
    ("", "red.global.add.f32 [d0], f1;"),
    ("", "cvta.global.u64 d0, d1;"),
    ("", "prefetch.global.L1 [d0];"),
    ("", "ldu.global.u32 r0, [d0];"),
    ("", "mov.b32 r0, %envreg0;"),
    ("", "st.global.u32 [r0], r1;"),
];

/// Versions and targets around the ends of those.
const POINTS: &[(&str, &str)] = &[
    ("1.0", "sm_10"),
    ("1.2", "sm_11"),
    ("1.3", "sm_13"),
    ("1.4", "sm_10"),
    ("1.4", "sm_13"),
    ("1.5", "sm_13"),
    ("2.0", "sm_20"),
    ("2.3", "sm_20"),
    ("3.0", "sm_20"),
    ("3.1", "sm_30"),
    ("4.0", "sm_50"),
];

/// Words of `.target`, and the bodies that they are judged with.
const OPTIONS: &[&str] = &["map_f64_to_f32", "texmode_unified", "map_f64_to_f32, texmode_unified"];

fn main() -> ExitCode {
    let trials = match Judge::find() {
        Some(judge) => {
            let trial = |name: &str, modules: Vec<String>| {
                let judge = judge.clone();
                Trial::test(name, move || agree(&judge, &modules))
            };
            vec![
                trial("names", names()),
                trial("uses_of_names", uses()),
                trial("old_versions", old()),
                trial("forms", forms()),
            ]
        }
        None => {
            vec![Trial::test(format!("constructs (ignored: {})", ptxas::ABSENT), || Ok(())).with_ignored_flag(true)]
        }
    };
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.func other() { ret; }\n";

fn names() -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |text: String| all.push(format!("{HEADER}{text}\n"));
    for a in OUTSIDE {
        OUTSIDE.iter().for_each(|b| add(format!("{a}\n{b}\n.entry k() {{ ret; }}")));
        for b in INSIDE {
            add(format!("{a}\n.entry k() {{ {b}\nret; }}"));
            add(format!(".entry k() {{ {b}\nret; }}\n{a}"));
        }
        for b in PARAMETERS {
            add(format!("{a}\n.entry k({b}) {{ ret; }}"));
            add(format!(".func f({b}) {{ ret; }}\n{a}"));
        }
    }
    for a in INSIDE {
        for b in INSIDE {
            add(format!(".entry k() {{ {a}\n{b}\nret; }}"));
            add(format!(".entry k() {{ {a}\n{{ {b}\n}} ret; }}"));
            add(format!(".entry k() {{ {{ {a}\n}} {b}\nret; }}"));
        }
        for b in PARAMETERS {
            add(format!(".entry k({b}) {{ {a}\nret; }}"));
            add(format!(".func ({b}) f() {{ {{ {a}\n}} ret; }}"));
        }
        add(format!(".entry x() {{ {a}\nret; }}"));
    }
    for a in PARAMETERS {
        PARAMETERS.iter().for_each(|b| add(format!(".func ({a}) f({b}) {{ ret; }}")));
    }
    all
}

fn uses() -> Vec<String> {
    let mut all = Vec::new();
    for (a, b) in INSIDE.iter().flat_map(|a| INSIDE.iter().map(move |b| (a, b))) {
        let with = |u: &&str| format!("{HEADER}.entry k() {{ .reg .u32 y; {a}\n{{ {b}\n{u}\n}} ret; }}\n");
        all.extend(USES.iter().map(with));
    }
    all
}

fn forms() -> Vec<String> {
    let rest = ".target sm_80\n.address_size 64\n";
    let registers = ".reg .u32 r<9>; .reg .v4 .u32 v, w<3>; .reg .pred p<4>;";
    let headers = HEADERS.iter().map(|header| format!("{header}{rest}.entry k() {{ ret; }}\n"));
    let globals = GLOBALS.iter().map(|global| format!("{HEADER}{global}\n.entry k() {{ ret; }}\n"));
    let bodies = BODIES.iter().map(|body| format!("{HEADER}.entry k() {{ {registers}\n{body}\nret; }}\n"));
    let end = format!("{HEADER}.entry k() {{ ret; }}\x1a");
    headers.chain(globals).chain(bodies).chain([end.clone() + "\n", end.clone() + "x", end]).collect()
}

fn old() -> Vec<String> {
    let registers = ".reg .u32 r<4>; .reg .u64 d<4>; .reg .f32 f<8>; .reg .f64 e<4>; .reg .pred p<2>;";
    let mut all = Vec::new();
    for (version, target) in POINTS {
        for (outside, inside) in OLD {
            all.push(format!(
                ".version {version}\n.target {target}\n{outside}\n.entry k () {{ {registers}\n{inside}\nexit; }}\n"
            ));
        }
        for option in OPTIONS {
            all.push(format!(".version {version}\n.target {target}, {option}\n.entry k () {{ exit; }}\n"));
        }
    }
    all
}

/// ptxas refuses the modules that have an error, and no other.
fn agree(judge: &Judge, modules: &[String]) -> Result<(), Failed> {
    // Short lists are judged whole.
    let step = if std::env::var_os("PTX_THOROUGH").is_some() || modules.len() < 200 { 1 } else { 7 };
    let mut wrong = Vec::new();
    for text in modules.iter().step_by(step) {
        let (tree, earlier) = parse_text(text.as_bytes());
        let (_, diagnostics) = check(tree, earlier, &Default::default());
        let ours = diagnostics.iter().find(|d| d.is_error()).map(|d| d.message.as_str());
        let target = if text.contains(".target sm_80") { "sm_80" } else { "sm_75" };
        match (ours, judge.code_verdict("", target, text)?) {
            (_, Verdict::Endless) => return Err(ptxas::ENDLESS.into()),
            (Some(ours), Verdict::Taken) => wrong.push(format!("we say: {ours}\n{text}")),
            (None, Verdict::Refused(theirs)) => wrong.push(format!("ptxas says: {theirs}\n{text}")),
            _ => {}
        }
    }
    match wrong.len() {
        0 => Ok(()),
        n => Err(format!("{n} verdicts differ:\n{}", wrong[..n.min(10)].join("\n")).into()),
    }
}

//! Directives and other constructs that are no instruction against ptxas: each in every PTX version, for the newest target
//! of that version, and on every target, in the newest version.
#![allow(clippy::panic, reason = "tests")]

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_core::isa::{Arch, Suffix, Version, table};
use ptx_tests::judge::{Judge, Verdict};
use ptx_tests::ptxas;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every PTX version.
const VERSIONS: &str = "1.0 1.1 1.2 1.3 1.4 1.5 2.0 2.1 2.2 2.3 3.0 3.1 3.2 4.0 4.1 4.2 4.3 5.0 6.0 6.1 6.2 6.3 6.4 6.5 \
                        7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0 9.1 9.2 9.3 9.4 9.5";

/// The features of the table, by their names there, and directives; `|` is a line's end. In front of each stand the
/// version and the target; options of the target stand before a `;;`.
const MODULES: &[(&str, &str)] = &[
    ("section negative number", ".entry k() { ret; }|.section .debug_info {|.b32 -1|}"),
    ("section name and offset", ".entry k() { L0: ret; }|.section .debug_info {|.b64 L0+4|}"),
    ("section label", ".entry k() { ret; }|.section .debug_info {|L1:|.b8 1|}"),
    ("section label difference", ".entry k() { ret; }|.section .debug_info {|L1:|.b8 1|L2:|.b32 L2-L1|}"),
    ("address as initial value", ".global .u32 a[2];|.global .u64 b = a+4;|.entry k() { ret; }"),
    ("function as initial value", ".func f() { ret; }|.global .u64 b[2] = {f, f};|.entry k() { ret; }"),
    ("address of a function", ".func f() { ret; }|.entry k() { .reg .u64 a; mov.u64 a, f; ret; }"),
    ("address of an entry", ".entry k() { .reg .u64 a; mov.u64 a, k; ret; }"),
    ("handle", ".global .texref t;|.entry k() { .reg .u64 a; mov.u64 a, t; ret; }"),
    ("entry as initial value", ".entry k() { ret; }|.const .u64 b = k;"),
    ("generic()", ".const .u32 a[2];|.global .u64 b = generic(a);|.entry k() { ret; }"),
    ("mask()", ".global .u32 a[2];|.global .u8 b[2] = {0xFF(a), 0xFF00(a)};|.entry k() { ret; }"),
    ("pragma used_bytes_mask", ".entry k() { .pragma \"used_bytes_mask 0xfff\"; ret; }"),
    ("pragma enable_smem_spilling", ".entry k() { .pragma \"enable_smem_spilling\"; ret; }"),
    ("pragma frequency", ".func f() { .pragma \"frequency 1\"; ret; }|.entry k() { ret; }"),
    ("file time and size", ".file 1 \"a.cu\", 1, 2|.entry k() { ret; }"),
    (
        "inlined code",
        ".file 1 \"a.cu\"|.entry k() {|.loc 1 2 3|.loc 1 4 5, function_name .debug_str, inlined_at 1 2 3|ret; }\
         |.section .debug_str {|.b8 1|.b8 0|}",
    ),
    ("entry declaration", ".entry k();|.entry k() { ret; }"),
    ("parameter without size", ".func f(.param .b32 a, .param .align 8 .b8 b[]) { ret; }|.entry k() { ret; }"),
    ("function parameter in .param", ".func f(.param .u32 a) { ret; }|.entry k() { ret; }"),
    (".param of a function: array", ".func (.param .align 8 .b8 r[16]) f() { ret; }|.entry k() { ret; }"),
    ("texmode_independent", "texmode_independent;;.entry k() { ret; }"),
    ("debug", "debug;;.entry k() { ret; }|.section .debug_info {|.b8 1|}"),
    ("texmode_unified", "texmode_unified;;.entry k() { ret; }"),
    ("entry parameter", ".entry k(.param .u32 a) { ret; }"),
    ("256 bytes of parameters", ".entry k(.param .b8 a[256]) { ret; }"),
    ("260 bytes of parameters", ".entry k(.param .b8 a[260]) { ret; }"),
    ("4356 bytes of parameters", ".entry k(.param .b8 a[4356]) { ret; }"),
    ("section", ".entry k() { L0: ret; }|.section .debug_info {|.b8 1,2|.b64 L0|.b32 .debug_info|}"),
    (".branchtargets", ".entry k() { ts: .branchtargets A, B; A: ret; B: ret; }"),
    (".calltargets", ".func f() { ret; }|.entry k() { ts: .calltargets f; ret; }"),
    ("callprototype", ".entry k() { P: .callprototype (.reg .b32 _) _ (.reg .b32 _); ret; }"),
    (".callprototype with .param", ".entry k() { P: .callprototype _ (.param .b32 _); ret; }"),
    (".noreturn of a prototype", ".entry k() { P: .callprototype _ () .noreturn; ret; }"),
    (".abi_preserve of a prototype", ".entry k() { P: .callprototype _ () .abi_preserve 3; ret; }"),
    (".abi_preserve_control of a prototype", ".entry k() { P: .callprototype _ () .abi_preserve_control 3; ret; }"),
    (".noreturn", ".func f() .noreturn { trap; }|.entry k() { ret; }"),
    (".abi_preserve", ".func f() .abi_preserve 3 { ret; }|.entry k() { ret; }"),
    (".abi_preserve_control", ".func f() .abi_preserve_control 3 { ret; }|.entry k() { ret; }"),
    (".reg .b128", ".entry k() { .reg .b128 x; ret; }"),
    (".global .b128", ".global .b128 x;|.entry k() { ret; }"),
    (".local .b128", ".entry k() { .local .b128 x; ret; }"),
    (".b128 of an entry", ".entry k(.param .b128 x) { ret; }"),
    (".b128 of a function", ".func f(.param .b128 x) { ret; }|.entry k() { ret; }"),
    (".reg .f16x2", ".entry k() { .reg .f16x2 x; ret; }"),
    (".reg .v2 .f16x2", ".entry k() { .reg .v2 .f16x2 x; ret; }"),
    (".global .f16x2", ".global .f16x2 x;|.entry k() { ret; }"),
    (".f16x2 of a function", ".func f(.reg .f16x2 x) { ret; }|.entry k() { ret; }"),
    (".reg .f16", ".entry k() { .reg .f16 x; ret; }"),
    (".pragma", ".pragma \"nounroll\";|.entry k() { .pragma \"other\"; ret; }"),
    (".file", ".file 1 \"a.cu\"|.entry k() {|.loc 1 2 3|ret; }"),
    (".loc_intermediate", ".file 1 \"a.cu\"|.entry k() {|.loc 1 2 3|.loc_intermediate 1 2 3|ret; }"),
    (".attribute", ".global .attribute(.managed) .u32 a;|.entry k() { ret; }"),
    (".weak", ".weak .global .u32 a;|.entry k() { ret; }"),
    (".weak of a function", ".weak .func f() { ret; }|.entry k() { ret; }"),
    (".weak of an entry", ".weak .entry k() { ret; }"),
    (".common", ".common .global .u32 a;|.entry k() { ret; }"),
    (".visible", ".visible .const .u32 a;|.visible .func f() { ret; }|.visible .entry k() { ret; }"),
    (".extern", ".extern .shared .u32 a[];|.entry k() { ret; }"),
    (".alias", ".visible .func f() { ret; }|.visible .func g();|.alias g, f;|.entry k() { ret; }"),
    (".maxnreg", ".entry k() .maxnreg 32 { ret; }"),
    (".maxntid", ".entry k() .maxntid 32, 1 { ret; }"),
    (".reqntid", ".entry k() .reqntid 32, 1, 1 { ret; }"),
    (".maxnctapersm", ".entry k() .maxntid 32 .maxnctapersm 1 { ret; }"),
    ("constant bank", ".extern .const[2] .u32 a[];|.entry k() { ret; }"),
    (".const[0]", ".const[0] .u32 a;|.entry k() { ret; }"),
    ("@@DWARF", ".entry k() { ret; }|@@DWARF .section .debug_info, \"\", @progbits|@@DWARF .byte 1"),
    ("abi_param_reg", ".func f() { .pragma \"abi_param_reg 4\"; ret; }|.entry k() { ret; }"),
    ("abi_param_reg of a module", ".pragma \"abi_param_reg all\";|.func f() { ret; }|.entry k() { ret; }"),
    (
        "abi_param_reg twice",
        ".pragma \"abi_param_reg 3\";|.func f() { .pragma \"abi_param_reg 4\"; ret; }|.entry k() { ret; }",
    ),
    ("abi_param_reg of an entry", ".entry k() { .pragma \"abi_param_reg 4\"; ret; }"),
    (".minnctapersm", ".entry k() .maxntid 32 .minnctapersm 1 { ret; }"),
    (".local_maxnreg", ".func f() .local_maxnreg 32 { ret; }|.entry k() .local_maxnreg 32 { ret; }"),
    (".minperctamemory", ".entry k() .minperctamemory 1024 { ret; }"),
    (".language", ".func f() .language 1 { ret; }|.entry k() .language 1 { ret; }"),
    (".explicitcluster", ".entry k() .explicitcluster { ret; }"),
    (".reqnctapercluster", ".entry k() .reqnctapercluster 2, 1, 1 { ret; }"),
    (".maxclusterrank", ".entry k() .maxclusterrank 4 { ret; }"),
    (".blocksareclusters", ".entry k() .reqntid 32 .reqnctapercluster 2 .blocksareclusters { ret; }"),
    ("a prototype's parameter without size", ".entry k() { P: .callprototype _ (.param .align 8 .b8 _[]); ret; }"),
    ("opaque type", ".global .texref t;|.global .samplerref s;|.global .surfref u;|.entry k() { ret; }"),
    ("opaque type of an entry", ".entry k(.param .texref t) { ret; }"),
    ("declaration of a module's name", ".func f();|.func f() { ret; }|.entry k() { ret; }"),
    ("parameter in a body", ".entry k() { .param .b32 x; ret; }"),
    (".ptr", ".entry k(.param .u64 .ptr .global .align 16 x) { ret; }"),
    (
        "variables",
        ".global .v4 .f32 a;|.const .align 1048576 .b8 b[] = {1, 2};|.entry k() { .local .u16 c[2][3]; ret; }",
    ),
];

fn main() -> std::process::ExitCode {
    let judged = Arc::new(AtomicUsize::new(0));
    let mut trials = vec![Trial::test("every feature has a module", covered)];
    match Judge::find() {
        Some(judge) => trials.extend(MODULES.iter().map(|(name, module)| {
            let (judge, judged) = (judge.clone(), judged.clone());
            Trial::test(*name, move || agree(&judge, module, &judged))
        })),
        None => {
            let name = format!("features (ignored: {})", ptxas::ABSENT);
            trials.push(Trial::test(name, || Ok(())).with_ignored_flag(true));
        }
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    println!("{} verdicts compared", judged.load(Ordering::Relaxed));
    conclusion.exit_code()
}

fn covered() -> Result<(), Failed> {
    let named = |name: &&&str| !MODULES.iter().any(|(module, _)| module == *name);
    let missing: Vec<_> = table().features.keys().filter(named).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("no module has {missing:?}").into()) }
}

fn agree(judge: &Judge, module: &str, judged: &AtomicUsize) -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for (arch, version) in points()? {
        let text = text(module, arch, version);
        let assembled =
            if table().targets.iter().any(|t| t.arch == arch && t.assembled) { arch } else { Arch::base(75) };
        let theirs = judge.code_verdict("", &assembled.to_string(), &text)?;
        judged.fetch_add(1, Ordering::Relaxed);
        match (refusal(&text), theirs) {
            (_, Verdict::Endless) => return Err(ptxas::ENDLESS.into()),
            (Some(ours), Verdict::Taken) => wrong.push(format!("{arch} {version}: ptxas takes it: {ours}")),
            (None, Verdict::Refused(theirs)) => wrong.push(format!("{arch} {version}: ptxas refuses it: {theirs}")),
            _ => {}
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Each version on its newest target, each target in the newest version.
fn points() -> Result<BTreeSet<(Arch, Version)>, Failed> {
    let versions: Vec<Version> = VERSIONS.split_whitespace().filter_map(|v| v.parse().ok()).collect();
    let newest = *versions.last().ok_or("no version")?;
    let known = || table().targets.iter().filter(|t| t.assembled || t.arch < Arch::base(75));
    let plain = || known().filter(|t| t.arch.suffix == Suffix::None);
    let of_version =
        |version: &Version| Some((plain().filter(|t| t.since <= *version).map(|t| t.arch).max()?, *version));
    Ok(known().map(|t| (t.arch, newest)).chain(versions.iter().filter_map(of_version)).collect())
}

fn text(module: &str, arch: Arch, version: Version) -> String {
    let (options, module) = module.split_once(";;").unwrap_or(("", module));
    let option = if options.is_empty() { String::new() } else { format!(", {options}") };
    let wide = version >= Version { major: 2, minor: 3 } && arch >= Arch::base(20);
    let size = if wide { ".address_size 64\n" } else { "" };
    format!(".version {version}\n.target {arch}{option}\n{size}{}\n", module.replace('|', "\n"))
}

/// The first error of the checker.
fn refusal(text: &str) -> Option<String> {
    let (tree, earlier) = ptx_core::parse::parse_text(text);
    let (checked, diagnostics) = ptx_core::check::check(tree, earlier, &ptx_core::lower::Options::default());
    let first = diagnostics.iter().find(|d| d.is_error());
    checked.is_none().then(|| first.map(|d| d.message.clone()).unwrap_or_default())
}

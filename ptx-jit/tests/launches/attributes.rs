//! Attributes and signatures that no launch can have are errors of the text, with their place.

use ptx_jit::Source;

/// A kernel with this attribute, and items in front of it.
fn text(options: &str, items: &str) -> String {
    format!(
        "{items}\n#[ptx_kernel(arch = \"sm_90\", {options})]\nfn k(x: &mut [f32], y: Tile<f32, (N,)>, n: u32, f: f32) {{}}"
    )
}

/// The code, the column and the message of the first problem, or nothing.
fn wrong(text: &str) -> Option<(&'static str, (usize, usize), String)> {
    let problems = Source::text("k.rs", text).compile().err()?;
    problems.problems().first().map(|first| (first.code, first.start, first.message.clone()))
}

#[test]
fn sizes_that_no_launch_has() {
    for (options, code, at, message) in [
        ("block = 0", "P0609", "0", "`0` is no extent of a block"),
        ("block = -1", "P0609", "-1", "`-1` is no extent of a block"),
        ("block = (32, 0)", "P0609", "0)", "`0` is no extent of a block"),
        ("block = \"x\"", "P0609", "\"x\"", "`x` is no extent of a block"),
        ("block = 1.5", "P0609", "1.5", "`1.5` is no extent of a block"),
        ("block = (1, 1, 65)", "P0609", "1, 1, 65", "a block has at most 64 threads along z"),
        ("block = NONE", "P0903", "NONE", "`0` is no extent of a block"),
        ("block = [64]", "P0903", "[64]", "a block has one, two or three extents, and this has 1"),
        ("block = 64 / 0", "P0903", "64 / 0", "`64 / 0` divides by zero"),
        ("block = 64, cluster = 0", "P0609", "0)]", "`0` is no extent of a cluster"),
        ("block = 64, grid = foo", "P0801", "foo", "there is no `foo` here"),
        ("block = 64, grid = foo(3)", "P0801", "foo", "there is no function `foo` here"),
        ("block = 64, grid = \"x\"", "P0802", "\"x\"", "`\"x\"` is no number"),
        ("block = 64, grid = x", "P0802", "x)]", "`x` is memory, and no number"),
        ("block = 64, grid = -1", "P0903", "-1", "`-1` is no extent of a grid"),
        ("block = 64, grid = f", "P0903", "f)]", "a grid counts in integers"),
        ("block = 64, grid = n > 3", "P0903", "n > 3", "a grid counts in integers"),
        ("block = 64, grid = (1, 2, 3, 4)", "P0903", "(1, 2", "a grid has one, two or three extents, and this has 4"),
        ("block = 64, shared = -4", "P0903", "-4", "`-4` counts no bytes"),
        ("block = 64, shared = f", "P0903", "f)]", "shared memory counts in bytes"),
        ("block = 64, requires(n)", "P0903", "n)", "a condition is true or false"),
        ("block = 64, requires(n > f)", "P0903", "n > f", "the types in `n > f` do not fit"),
        ("block = 64, requires(N < 3 && n)", "P0903", "N < 3", "the types in `N < 3 && n` do not fit"),
    ] {
        let text = text(options, "const NONE: u32 = 0;");
        let line = text.lines().nth(1).unwrap();
        let column = line.rfind(at).unwrap() + 1;
        assert_eq!(wrong(&text), Some((code, (2, column), message.to_owned())), "{options}");
    }
}

#[test]
fn names_that_may_exist_are_errors_of_the_launch_alone() {
    for items in ["use other::foo;", "use other::*;", "use other::{bar as foo};", "items! {}", "static foo: u32 = 1;"] {
        assert_eq!(wrong(&text("block = 64, grid = foo", items)), None, "{items}");
    }
    for items in ["", "use ptx_launch::prelude::*;", "const fool: u32 = 1;", "mod other { const foo: u32 = 1; }"] {
        assert!(wrong(&text("block = 64, grid = foo", items)).is_some(), "{items}");
    }
    assert_eq!(wrong(&text("block = 64, grid = 0, requires(n > 0, f > 0.0, x.is_empty() | (N == 1))", "")), None);
}

#[test]
fn names_are_declared_once_in_the_letters_of_ptx() {
    let kernel = |signature: &str| wrong(&format!("#[ptx_kernel(arch = \"sm_80\", block = 1)]\nfn k{signature} {{}}"));
    let twice = |column, name: &str| Some(("P0502", (2, column), format!("`{name}` is declared twice")));
    assert_eq!(kernel("(n: u32, x: &[f32], n: u32)"), twice(25, "n"));
    let generic = "#[ptx_kernel(arch = \"sm_80\", block = 1, instances = [1])]\nfn k<const B: u32>(B: u32) {}";
    assert_eq!(wrong(generic), twice(20, "B"));
    assert_eq!(kernel("(n: u32, r#in: u32)"), None);
    let letters = Some(("P0001", (2, 6), "`é` has letters that names in PTX cannot have".to_owned()));
    assert_eq!(kernel("(é: u32)"), letters);
    let helper =
        "#[ptx_module(arch = \"sm_80\")]\nmod m { fn f(a: u32, a: u32) {} #[ptx_kernel(block = 1)] fn k() {} }";
    assert_eq!(wrong(helper), twice(22, "a"));
    let kernel = "#[ptx_kernel(arch = \"sm_80\", block = 1)]\nfn k() {}\n";
    assert_eq!(wrong(&kernel.repeat(2)), Some(("P0502", (4, 4), "`k` is declared twice".to_owned())));
    assert_eq!(wrong(&format!("#[cfg(unix)]{kernel}mod other {{ {kernel} }}#[cfg(windows)]{kernel}")), None);
}

#[test]
fn generic_arguments_have_a_parameter() {
    let text = "#[ptx_module(arch = \"sm_80\")] mod m {
        #[ptx_kernel(block = BLOCK)] fn a<const BLOCK: u32>() {}
        #[ptx_kernel(block = WIDE)] fn b<const WIDE: u32>() {}
    }";
    let source = || Source::text("k.rs", text).with("BLOCK", 64).with("WIDE", 32);
    let error = |source: Source| source.compile().unwrap_err().to_string();
    assert!(source().compile().is_ok());
    let unknown = error(source().with("BLOC", 3));
    assert!(unknown.contains("there is no generic parameter `BLOC`\n  = help: did you mean `BLOCK`?"), "{unknown}");
    let twice = error(source().with("WIDE", 3));
    assert!(twice.contains("the generic parameter `WIDE` has two arguments, `32` and `3`"), "{twice}");
    let other = error(Source::text("k.rs", text).with("BLOCK", 64).with("WIDE", 3).only("a"));
    assert!(other.contains("there is no generic parameter `WIDE`"), "{other}");
}

//! Attributes and signatures that no launch can have are errors of the text, with their place.

use ptx_jit::{JitModule, Source};
use ptx_runtime::Device;

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
        ("block = (1, 1, 1, 1)", "P0903", "(1, 1", "a block has one, two or three extents"),
        ("block = 64, grid = ()", "P0903", "()", "a grid has one, two or three extents, and this has 0"),
        ("block = 64, grid = (-1,)", "P0903", "(-1,)", "`-1` is no extent of a grid"),
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
fn a_list_of_one_extent_is_that_extent() {
    let items = "const ONE: (u32,) = (32,);";
    for options in ["block = (32,)", "block = [32]", "block = ONE", "block = 32, cluster = (2,)", "max_block = (32,)"] {
        assert_eq!(wrong(&text(options, items)), None, "{options}");
    }
    let device = Device::cpu();
    for grid in ["2", "(2,)", "[2]", "(n,)", "ONE", "if LARGE { (2,) } else { [3] }"] {
        let text = format!(
            "const ONE: (u32,) = (2,); const LARGE: bool = true;
            #[ptx_kernel(arch = \"sm_80\", block = (32,), grid = {grid}, unsafe(requires(x.len() >= 64)))]
            fn k(x: &mut [u32], n: u32) {{
                let i: u32 = ctaid.x * ntid.x + tid.x;
                let to = x.at(i);
                let blocks: u32 = nctaid.x;
                ptx! {{ st.global.u32 [to], blocks; }}
            }}"
        );
        let source = Source::text("k.rs", text);
        assert!(source.compile().unwrap().ptx("k").unwrap().contains(".reqntid 32\n"), "{grid}");
        let module = JitModule::load(&device, &source).unwrap();
        let mut x = device.zeros::<u32>(64).unwrap();
        module.kernel("k").unwrap().launch().write(&mut x).unwrap().value(2u32).unwrap().run(&device).unwrap();
        assert_eq!(x.download().unwrap(), [2; 64], "{grid}");
    }
}

#[test]
fn memory_has_elements_that_a_launch_can_pass() {
    let items = "struct Empty {} struct Pair { a: f32, b: u32 } struct Wrong { a: u32, map: TensorMap }";
    for (params, message) in [
        ("x: &[pred]", "`pred` is no element of memory"),
        ("x: &mut [[pred; 4]]", "`pred` is no element of memory"),
        ("x: TileMut<pred, (N,)>", "`pred` is no element of memory"),
        ("#[bare] x: &[pred]", "`pred` is no element of memory"),
        ("x: &[(u32, u32)]", "a tuple is no element of memory"),
        ("x: &[Global<f32>]", "an address is no element of memory"),
        ("x: &[Shared<f32>]", "an address is no element of memory"),
        ("x: &[&f32]", "a reference is no element of memory"),
        ("x: &[Empty]", "a type without bytes is no element of memory"),
        ("x: &[[f32; 0]]", "a type without bytes is no element of memory"),
        ("x: &[Tile<f32, (N,)>]", "a `Tile` is a parameter of its own"),
        ("x: Tile<Tile<f32, (N,)>, (M,)>", "a `Tile` is a parameter of its own"),
        ("x: &[TensorMap]", "a `TensorMap` is a parameter of its own"),
        ("x: &[[Texture; 2]]", "a `Texture` is a parameter of its own"),
        ("x: [TensorMap; 2]", "a `TensorMap` is a parameter of its own"),
        ("x: &[Wrong]", "a `TensorMap` is a parameter of its own"),
        ("x: [pred; 4]", "a kernel cannot take this"),
    ] {
        let text = format!(
            "#[ptx_module(arch = \"sm_80\")] mod m {{ {items}\n#[ptx_kernel(block = 1)] fn k({params}) {{}} }}"
        );
        let problem = wrong(&text);
        assert_eq!(
            problem.as_ref().map(|(code, (_, column), text)| (*code, *column > 1, &text[..])),
            Some(("P0812", true, message)),
            "{params}"
        );
    }
    for params in [
        "x: &[Pair]",
        "x: &mut [[f32; 4]]",
        "x: Tile<e4m3, (N,)>, y: &[f16x2]",
        "x: [f32; 2], m: TensorMap, t: Texture",
        "x: Wrong",
    ] {
        let text = format!(
            "#[ptx_module(arch = \"sm_80\")] mod m {{ {items}\n#[ptx_kernel(block = 1)] fn k({params}) {{}} }}"
        );
        assert_eq!(wrong(&text), None, "{params}");
    }
}

#[test]
fn a_mistake_is_reported_once() {
    let module = |items: &str| format!("#[ptx_module(arch = \"sm_80\")] mod m {{ {items} }}");
    let (kernel, helper, constant) = ("#[ptx_kernel(block = 1)] fn k() {}", "fn k() {}", "const k: u32 = 1;");
    let pairs = [[kernel, helper], [helper, kernel], [kernel, kernel], [constant, kernel], [helper, helper]];
    for (at, items) in pairs.iter().enumerate() {
        let error = Source::text("k.rs", module(&items.join("\n"))).compile().unwrap_err();
        let problems: Vec<_> = error.problems().iter().map(|problem| (problem.code, problem.start.0)).collect();
        // A module names the kernel, as the macro does.
        assert_eq!(problems, [("P0502", if at == 0 { 1 } else { 2 })], "{items:?}: {error}");
    }
    let alone = kernel.replace("block", "arch = \"sm_80\", block");
    for items in [[&alone, helper], [helper, &alone], [&alone, constant]] {
        let error = Source::text("k.rs", items.join("\n")).compile().unwrap_err();
        assert_eq!(error.problems().iter().map(|problem| problem.start.0).collect::<Vec<_>>(), [2], "{error}");
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

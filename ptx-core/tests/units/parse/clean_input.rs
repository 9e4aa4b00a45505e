//! Contents of real files that parse without a diagnostic.

use super::{body_outline, clean, clean_body, module, outline, outline_of, show};
use ptx_core::syntax::{Stmt, StmtKind};

#[test]
fn a_module() {
    let text = "//\n.version 8.7\n.target sm_90a, debug\n.address_size 64\r\n\n\
        .extern .func (.param .b32 func_retval0) vprintf\n(\n\t.param .b64 vprintf_param_0,\n\t.param .b64 b\n)\n;\n\
        .visible .entry k(.param .u64 .ptr .global .align 4 p, .param .align 8 .b8 q[16])\n\
        .maxntid 128, 1, 1\n.minnctapersm 2\n{ ret; }\n// end\n\0\0";
    clean(text);
    assert_eq!(outline_of(text), ".version .target .address_size func func(ret)");
}

#[test]
fn function_headers() {
    clean(".func f;");
    clean(".entry k { ret; }");
    clean(".visible .func (.reg .b32 %r) f (.reg .b32 %a, .reg .b32 %b) { ret; }");
    clean(".extern .func (.param .b32 r) printf (.param .b64 f, ...);");
    clean(".func (.param .b32 r) f (...);");
    clean(".weak .func .attribute(.unified(19, 95)) f () .noreturn ;");
    clean(".func .noreturn f () { exit; }");
    clean(".entry k () .pragma \"nounroll\"; .reqntid 1 { ret; }");
    clean(".entry k () .explicitcluster .reqnctapercluster 2, 1, 1\n{ ret; }");
    clean(".func f (.param .b32, .param .b64);");
}

#[test]
fn function_parts_are_found() {
    let (tree, _) = module(".visible .func (.param .b32 r) f (.param .b64 a, .param .b64 b) .abi_preserve 3 { ret; }");
    let StmtKind::Func(func) = &tree.stmt(tree.items[0]).kind else { panic!() };
    assert_eq!(tree.source.text(func.keyword), ".func");
    assert_eq!(func.name.map(|n| tree.source.text(n)), Some("f"));
    assert_eq!((func.returns.len(), func.params.len(), func.directives.len()), (1, 2, 1));
    assert_eq!(tree.source.text(tree.names(&func.params[1])[0].name), "b");
}

#[test]
fn declarations() {
    clean(".global .align 4 .b8 a[2][3] = {{1, 2, 3}, {4}};");
    clean(".visible .const .align 8 .u64 t[] = {f, generic(g), g+8, generic(g)+4, 0};");
    clean(".global .u8 m[4] = {0xff(f), 0xFF00(f), mask(f)};");
    clean(".global .f32 x\n = -0f3F800000, y = {1.5, 0f3f800000, 1e3};");
    clean(".extern .shared .align 16 .b8 s[];");
    clean(".common .global .b32 c;");
    clean(".global .texref t; .global .samplerref s = { addr_mode_0 = wrap, filter_mode = nearest };");
    clean(".global .attribute(.managed) .align 4 .b32 m;");
    clean(".tex .u32 t;");
    clean(".const[2] .f32 x;");
    clean(".global .v4 .f32 v[2] = {{1.0, 2.0}};");
    clean(".global .b8 .str1[4];");
    clean_body(
        ".reg .b32 %r<5>; .reg.pred p, q; .reg .v4 .f32 v; .reg .b128 %w; .param .align 4 .b8 r0[4]; .local .b32 x;",
    );
}

#[test]
fn declaration_parts_are_found() {
    let (tree, _) = module(".visible .global .align 4 .b8 a[2][] = {1}, b;");
    let StmtKind::Var(var) = &tree.stmt(tree.items[0]).kind else { panic!() };
    let text = |t: Option<u32>| t.map(|t| tree.source.text(t));
    assert_eq!(
        (text(var.linkage), text(Some(var.space)), text(var.ty)),
        (Some(".visible"), Some(".global"), Some(".b8"))
    );
    assert_eq!(tree.attributes(var).len(), 1);
    let names = tree.names(var);
    assert_eq!((names.len(), tree.list(&names[0].dims).len(), names[0].init.is_some()), (2, 2, true));
}

#[test]
fn arguments_of_directives() {
    let tree = clean_body("ts: .branchtargets a, b<4>;\n.loc 1 WARP_SZ\n3\n.file WARP_SZ \"w\"\nret;");
    let arguments = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Directive(d) => tree.list(&d.args).iter().map(|e| show(&tree, *e)).collect(),
        _ => Vec::new(),
    };
    let all: Vec<_> = tree.items.iter().map(|id| arguments(tree.stmt(*id)).join(", ")).collect();
    assert_eq!(all, ["", "a, (range b 4)", "1, WARP_SZ, 3", "WARP_SZ, \"w\"", ""]);
}

#[test]
fn statements_of_a_body() {
    let text = "$L1: L2: mov.b32 %r1, 1; @p bra $L1; @!p bra L2;\n@ ! %r28 bra L2;\n{ .reg .b32 %r1; { ret; } }\n\
        .loc 1 2 3\n.loc\t1 12 9, function_name $L__info_string0+8, inlined_at 1 30 5\nbar.sync 0;\n\
        .pragma \"nounroll\", \"x\";\nts: .branchtargets\n L1,\n L2;\nproto: .callprototype (.param .b32 _) _ (.param .b64 _);\n\
        brx.idx %r1, ts; a.b: bra a.b; call.uni\n(r),\nf,\n(\na,\nb\n);";
    clean_body(text);
    assert_eq!(
        body_outline(text),
        "label label mov bra bra bra block(var block(ret)) .loc .loc bar .pragma label .branchtargets label prototype \
         brx label bra call"
    );
}

#[test]
fn files_and_sections() {
    let text = ".file 1 \"a.cu\"\n.file\t2 \"b\", 1700000000, 123\n.file 1 \"dir\" \"name\"\n\
        .section .debug_abbrev\n{\n.b8 1\n.b8 17, 0\n.b32 .debug_abbrev\ninfo0:\n.b64 a+4\n.b32 end-begin\n\t}\n\
        @@DWARF .section .debug_pubnames, \"\", @progbits\n.alias a, b;\n.section .debug_loc { }";
    clean(text);
    assert_eq!(outline_of(text), ".file .file .file section(.b8 .b8 .b32 label .b64 .b32) dwarf .alias section");
}

#[test]
fn comments_anywhere() {
    clean("/* a */ .version /* b */ 8.7 // c\n.entry /* d */ k /* e */ ( ) { add /* f */ .s32 a , b /* g */ , 1 ; }");
}

#[test]
fn nothing_at_all() {
    for text in ["", "\n", "\0", "// a", "/* a */"] {
        clean(text);
    }
    let (tree, diagnostics) = super::parse(ptx_core::token::Source::default());
    assert_eq!((outline(&tree, &tree.items).as_str(), diagnostics.len()), ("", 0));
}

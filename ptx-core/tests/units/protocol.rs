//! Each warning on its tokens; and what looks like it but is right.
mod barriers;
mod groups;
mod memory;
mod threads;

use expect_test::Expect;
use ptx_core::check::check;
use ptx_core::lex::lex;
use ptx_core::lower::Options;
use ptx_core::parse::parse;

/// The P07 warnings of a kernel with this body, as `code: message`, the line and carets under the tokens.
fn shown(module: &str) -> String {
    let (tree, earlier) = parse(lex(module.as_bytes()).0);
    let (checked, found) = check(tree, earlier, &Options::default());
    assert!(checked.is_some(), "the test's module has errors: {found:?}");
    let mut text = String::new();
    for d in found.iter().filter(|d| d.code.id.starts_with("P07")) {
        let at = d.span.lo as usize;
        let start = module[..at].rfind('\n').map_or(0, |n| n + 1);
        let line = module[start..].lines().next().unwrap();
        let carets = "^".repeat((d.span.hi as usize).min(start + line.len()) - at);
        text += &format!("{}: {}\n  {}\n  {}{carets}\n", d.code.id, d.message, line, " ".repeat(at - start));
    }
    text
}

/// A kernel of one parameter with registers of every kind.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 128 .b8 dynamic[];\n\
         .visible .entry k(.param .u64 out, .param .u32 n) .maxnreg 168 {{\n\
         .reg .pred p, q; .reg .b32 r<16>; .reg .b64 x<8>; .reg .f32 f<8>;\n\
         .shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 128 .b8 tile[4096];\n{body}\nret;\n}}\n"
    )
}

fn says(body: &str, expect: Expect) {
    expect.assert_eq(&shown(&kernel(body)));
}

fn is_right(body: &str) {
    assert_eq!(shown(&kernel(body)), "", "{body}");
}

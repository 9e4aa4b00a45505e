//! Edits that keep a module valid.

use ptx_core::check::check;
use ptx_core::emit::ptx::print;
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;

#[test]
fn an_edit_changes_only_its_tokens() {
    let text = "// .version 9.5, .reg .s64\n.version 9.5\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n    \
                .reg .s64 %a, %b;\n\t{ .reg  .s32 %c; .reg .f32 %f; mov.s32 %c, 1; }\n    mov.s64 %a, 1; ret;\n}\n";
    let (tree, found) = parse_text(text);
    let (checked, _) = check(tree, found, &Options::default());
    let edited = checked.unwrap().with_minimum_version().unwrap().with_untyped_registers().unwrap();
    let expected = text.replace("\n.version 9.5", "\n.version 7.0");
    let expected = expected.replace("    .reg .s64", "    .reg .b64").replace(".reg  .s32", ".reg  .b32");
    assert_eq!(print(&edited), expected);
    assert_eq!(edited.module().version.to_string(), "7.0");
}

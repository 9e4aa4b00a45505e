//! Hints for names that are not declared.

use ptx_core::check::check;
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;

/// The help for the register `name`, beside `.reg .b32 %r<8>`.
fn help(name: &str) -> Vec<String> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{{\n.reg .b32 %r<8>;\nmov.b32 %r1, {name};\nret;\n}}\n"
    );
    let (tree, earlier) = parse_text(text);
    let (_, found) = check(tree, earlier, &Options::default());
    assert_eq!(found[0].message, format!("`{name}` is not declared here"));
    found[0].help.clone()
}

#[test]
fn a_register_behind_the_last_of_its_range_is_told_so() {
    assert_eq!(help("%r9"), ["`%r<8>` declares `%r0` to `%r7`"]);
    assert_eq!(help("%rr"), ["did you mean `%r`?"]);
    assert_eq!(help("%counter"), ["declare it before its use: `.reg .b32 %counter;`"]);
}

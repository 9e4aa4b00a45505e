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

/// The first help for an instruction beside `.reg .b32 %r<8>`, on Hopper.
fn help_for(instruction: &str) -> String {
    let text = format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n.reg .b32 %r<8>;\n.reg .b64 %d<3>;\n.shared .b32 s;\n{instruction};\nret;\n}}\n"
    );
    let (tree, earlier) = parse_text(text);
    let (_, found) = check(tree, earlier, &Options::default());
    assert_eq!(found[0].code.id, "P0206", "{}", found[0].message);
    found[0].help[0].clone()
}

#[test]
fn rules_with_names_are_sentences() {
    assert_eq!(
        help_for(
            "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16 {_, %r1}, {%r2, %r3, %r4, %r5}, {%r2, %r3}, {%r4, %r5}"
        ),
        "on sm_90 and later and before sm_120, vectors must be written in braces, and no element of a vector may be `_`"
    );
    assert_eq!(
        help_for("cvta.global.u64 %d1, s+4"),
        "no operand may be the name of a function, or of a variable with an offset"
    );
}

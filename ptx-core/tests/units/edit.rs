//! Edits of the tree.

use ptx_core::edit::EditError;
use ptx_core::emit::tree::print_tree;
use ptx_core::parse::parse_text;
use ptx_core::syntax::{ExprKind, StmtId, Tree};

const MODULE: &str = "// head\r\n.version 8.7 // v\n.target sm_80, debug\n.address_size 64\n\n\
.visible .entry k(.param .u64 p) {\n\t.reg .b32 %r<5>;\n\t.reg .b32 %rx;\n\n\t// first\n\tmov.b32 %r1, 7; // seven\n\
L1:\tadd.s32 %r1, %r1, 1; add.s32 %r2,%r1,%rx;\n\tbra L1;\n}\n.entry l() { .reg .b32 %r<2>; mov.b32 %r1, 0; }\n";

/// Edits `text` and shows the lines that changed, `-` and `+`. Checks that the result parses back to itself.
fn diff_of(text: &str, edit: impl FnOnce(&mut Tree)) -> String {
    let (mut tree, diagnostics) = parse_text(text.as_bytes());
    assert_eq!(diagnostics, []);
    edit(&mut tree);
    let after = String::from_utf8(print_tree(&tree)).unwrap();
    let (again, diagnostics) = parse_text(after.as_bytes());
    assert_eq!(diagnostics, [], "{after}");
    assert_eq!(print_tree(&again), after.as_bytes());
    let (old, new): (Vec<_>, Vec<_>) = (text.split('\n').collect(), after.split('\n').collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let show = |sign: char, lines: &[&str]| lines.iter().map(|l| format!("{sign}{l}\n")).collect::<String>();
    show('-', &old[same..old.len() - tail]) + &show('+', &new[same..new.len() - tail])
}

fn diff(edit: impl FnOnce(&mut Tree)) -> String {
    diff_of(MODULE, edit)
}

/// The first statement whose own tokens start with this text.
fn find(tree: &Tree, text: &str) -> StmtId {
    let starts = |s: &ptx_core::syntax::Stmt| tree.compact(&s.head).starts_with(text);
    StmtId(tree.stmts.iter().position(starts).unwrap() as u32)
}

#[test]
fn version_and_target() {
    assert_eq!(
        diff(|t| t.set_directive(".target", "sm_90a").unwrap()),
        "-.target sm_80, debug\n+.target sm_90a, debug\n"
    );
    assert_eq!(diff(|t| t.set_directive(".version", "9.0").unwrap()), "-.version 8.7 // v\n+.version 9.0 // v\n");
    assert_eq!(diff(|t| assert_eq!(t.set_directive(".target", "a b"), Err(EditError::NotOneToken("a b".into())))), "");
    assert_eq!(diff(|t| assert_eq!(t.set_directive(".pragma", "\"\""), Err(EditError::NotFound))), "");
}

#[test]
fn rename_a_label() {
    let edit = |t: &mut Tree| assert_eq!(t.rename(None, "L1", "$loop").unwrap(), 2);
    assert_eq!(
        diff(edit),
        "-L1:\tadd.s32 %r1, %r1, 1; add.s32 %r2,%r1,%rx;\n-\tbra L1;\n\
         +$loop:\tadd.s32 %r1, %r1, 1; add.s32 %r2,%r1,%rx;\n+\tbra $loop;\n"
    );
}

#[test]
fn rename_a_register_range_in_one_function() {
    let edit = |t: &mut Tree| {
        let function = find(t, ".entryl");
        assert_eq!(t.rename(Some(function), "%r", "%acc").unwrap(), 2);
    };
    assert_eq!(
        diff(edit),
        "-.entry l() { .reg .b32 %r<2>; mov.b32 %r1, 0; }\n+.entry l() { .reg .b32 %acc<2>; mov.b32 %acc1, 0; }\n"
    );
}

#[test]
fn a_taken_name_is_refused() {
    let edit = |t: &mut Tree| assert_eq!(t.rename(None, "%rx", "%r3"), Err(EditError::Taken("%r3".into())));
    assert_eq!(diff(edit), "");
    let edit = |t: &mut Tree| assert_eq!(t.rename(None, "%rx", "%r1"), Err(EditError::Taken("%r1".into())));
    assert_eq!(diff(edit), "");
}

#[test]
fn replace_an_operand() {
    let (mut tree, _) = parse_text(b".entry k { mov.b32 a, /* seven */ 7; }");
    let int = tree.exprs.iter().position(|e| e.kind == ExprKind::Int(7)).unwrap();
    tree.replace_token(tree.exprs[int].tokens.start, "0x10").unwrap();
    assert_eq!(print_tree(&tree), b".entry k { mov.b32 a, /* seven */ 0x10; }");
    assert_eq!(tree.exprs[int].kind, ExprKind::Int(16));
}

#[test]
fn insert_before_and_after() {
    let before = |t: &mut Tree| drop(t.insert_before(find(t, "mov"), "mov.b32 %r3, 1;").unwrap());
    assert_eq!(diff(before), "+\tmov.b32 %r3, 1;\n");
    let after = |t: &mut Tree| drop(t.insert_after(find(t, "mov"), "\n  mov.b32 %r3, 1; // new\n").unwrap());
    assert_eq!(diff(after), "+\tmov.b32 %r3, 1; // new\n");
    let last = |t: &mut Tree| drop(t.insert_after(find(t, "bra"), "ret;").unwrap());
    assert_eq!(diff(last), "+\tret;\n");
    let item = |t: &mut Tree| drop(t.insert_before(find(t, ".entryl"), ".global .b32 g;").unwrap());
    assert_eq!(diff(item), "+.global .b32 g;\n");
    let end = |t: &mut Tree| drop(t.insert_after(find(t, ".entryl"), ".global .b32 g; .global .b32 h;").unwrap());
    assert_eq!(diff(end), "+.global .b32 g; .global .b32 h;\n");
}

#[test]
fn insert_into_a_line() {
    let text = ".entry k() { a; /* c\n */ b; }";
    let before = |t: &mut Tree| drop(t.insert_before(find(t, "b"), "x;").unwrap());
    assert_eq!(diff_of(text, before), "- */ b; }\n+ */ x; b; }\n");
    let after = |t: &mut Tree| drop(t.insert_after(find(t, "a"), "x;").unwrap());
    assert_eq!(diff_of(text, after), "-.entry k() { a; /* c\n+.entry k() { a; x; /* c\n");
    let tight = |t: &mut Tree| drop(t.insert_before(find(t, ".entry"), ".version 8.0").unwrap());
    assert_eq!(diff_of(".entry k(){}", tight), "-.entry k(){}\n+.version 8.0 .entry k(){}\n");
    let comment = |t: &mut Tree| drop(t.insert_before(find(t, ".entry"), ".version 8.0 // v").unwrap());
    assert_eq!(diff_of(".entry k(){}", comment), "+.version 8.0 // v\n");
}

#[test]
fn remove_a_statement() {
    let remove = |text: &'static str| move |t: &mut Tree| t.remove(find(t, text)).unwrap();
    assert_eq!(diff(remove("bra")), "-\tbra L1;\n");
    assert_eq!(diff(remove("mov")), "-\t// first\n-\tmov.b32 %r1, 7; // seven\n+\t// first // seven\n");
    assert_eq!(diff(remove(".entryl")), "-.entry l() { .reg .b32 %r<2>; mov.b32 %r1, 0; }\n");
    assert_eq!(diff_of(".entry k() { a; b; c; }", remove("b")), "-.entry k() { a; b; c; }\n+.entry k() { a; c; }\n");
    assert_eq!(diff_of(".entry k() { a; b; c; }", remove("a")), "-.entry k() { a; b; c; }\n+.entry k() { b; c; }\n");
}

#[test]
fn what_does_not_parse_is_not_inserted() {
    let edit = |t: &mut Tree| {
        let Err(EditError::Syntax(found)) = t.insert_before(find(t, "mov"), "add.s32 a b;") else { panic!() };
        assert_eq!((found.len(), found[0].span.lo), (1, 10));
        assert_eq!(t.insert_before(find(t, "mov"), " "), Err(EditError::Syntax(vec![])));
        assert!(t.insert_before(find(t, ".version"), "ret;").is_err());
    };
    assert_eq!(diff(edit), "");
}

#[test]
fn edits_beside_tokens_that_are_long() {
    let (long, longer) = ("y".repeat(70_000), "z".repeat(80_000));
    let (mut tree, _) = parse_text(format!(".entry k {{ add.s32 a, {long}, /* one */ b; }}\n"));
    let name = |tree: &Tree, text: &str| (0..).find(|t| tree.source.text(*t) == text).unwrap();
    let (a, b) = (name(&tree, "a"), name(&tree, "b"));
    tree.replace_token(a, &longer).unwrap();
    tree.replace_token(b, "c").unwrap();
    tree.replace_token(a, "d").unwrap();
    assert_eq!(print_tree(&tree), format!(".entry k {{ add.s32 d, {long}, /* one */ c; }}\n").into_bytes());
}

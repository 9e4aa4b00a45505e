//! Changes of a text that a tree follows, against parsing the new text.

use ptx_core::emit::tree::print_tree;
use ptx_core::parse::parse_text;
use ptx_core::syntax::{ExprId, ExprKind, StmtId, StmtKind, Tree};
use std::fmt::Write;

const MODULE: &str = ".version 8.7\n.target sm_80\n.address_size 64\n.func f;\n.visible .entry k(.param .u64 p)\n{\n\t.reg .b32 %r<5>, x;\n\
    \t.shared .align 4 .b8 s[16];\n\t// a comment\n\tmov.b32 %r1, 7; // seven\n\n$L1:\n\t@!%p1 add.s32 %r1, -%r1, 1+2; add.s32 %r2,%r1,x;\n\
    \t{\n\t.param .b32 q;\n\tst.param.b32 [q+0], %r1;\n\tcall (r), f, (q, 1);\n\t}\n\tmov.b64 {%r1, _}, %d1.x;\n\
    { { ld.const[2].u32 x, [s+4]; }\n bra $L1; }\nt: .branchtargets $L1, a<4>;\n\tprmt.b32 x, 0xff, 0f3F800000, 5U;\n\t.loc 1 2 3, function_name x+8\n\tret;\n\n}\n\
    .entry l() { .reg .b32 %r<2>; mov.b32 %r1, (1 ? 2 : 3);\n ret; }\n";

/// The texts that an edit inserts: parts of statements, and characters that change the statements around them.
const TYPED: [&str; 31] = [
    "",
    "a",
    "1",
    ".",
    " ",
    "\n",
    ";",
    ",",
    "add.u32 %r1, %r2, 3;\n",
    "%r",
    "{",
    "}",
    "{ ret; }",
    "[",
    "]",
    "(",
    "//",
    "/*",
    "*/",
    "\"",
    "@p ",
    ":",
    "L2:\n",
    ".reg .b32 y;\n",
    "::cta",
    "\r\n",
    ".func g();",
    ".const",
    "-",
    "# 1\n",
    "\n\n\tret;\n\tret;\n",
];

/// The statements with their tokens and expressions, by structure.
fn shape(tree: &Tree) -> String {
    let mut out = String::new();
    tree.items.iter().for_each(|item| stmt(tree, *item, &mut out));
    let _ = write!(out, "{:?}", tree.eof.map(|eof| tree.source.place(eof)));
    out
}

fn stmt(tree: &Tree, id: StmtId, out: &mut String) {
    let found = tree.stmt(id);
    let _ = write!(out, "{:?} {:?}: ", std::mem::discriminant(&found.kind), tree.span(&found.head));
    match &found.kind {
        StmtKind::Inst(inst) => {
            let guard = inst.guard.map(|guard| tree.source.span(guard.register));
            let _ = write!(out, "{guard:?} {} {} ", tree.source.text(inst.opcode), tree.compact(&inst.modifiers));
            tree.list(&inst.operands).iter().for_each(|operand| expr(tree, *operand, out));
        }
        StmtKind::Label(name) => out.push_str(&tree.compact(name)),
        StmtKind::Var(var) => {
            let _ = write!(out, "{} {:?} ", tree.source.text(var.space), var.ty.map(|ty| tree.source.text(ty)));
            for name in tree.names(var) {
                out.push_str(tree.source.text(name.name));
                name.count
                    .iter()
                    .chain(&name.init)
                    .chain(tree.list(&name.dims))
                    .for_each(|inner| expr(tree, *inner, out));
            }
            tree.attributes(var).iter().for_each(|one| out.push_str(tree.source.text(one.name)));
        }
        StmtKind::Func(func) => {
            let _ = write!(out, "{:?} {}", func.name.map(|name| tree.source.text(name)), func.params.len());
            func.params
                .iter()
                .flat_map(|var| tree.names(var))
                .for_each(|name| out.push_str(tree.source.text(name.name)));
        }
        StmtKind::Directive(directive) | StmtKind::Data(directive) => {
            out.push_str(tree.source.text(directive.name));
            tree.list(&directive.args).iter().for_each(|arg| expr(tree, *arg, out));
        }
        _ => {}
    }
    out.push_str(" <");
    found.children().iter().for_each(|child| stmt(tree, *child, out));
    let _ = writeln!(out, "> {:?}", tree.span(&found.tail()));
}

fn expr(tree: &Tree, id: ExprId, out: &mut String) {
    let found = tree.expr(id);
    let _ = write!(out, "({:?} {} ", std::mem::discriminant(&found.kind), tree.compact(&found.tokens));
    match &found.kind {
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) | ExprKind::Select(a, _) => expr(tree, *a, out),
        ExprKind::Binary(_, a, b) | ExprKind::Pair(a, b) | ExprKind::Index(a, b) | ExprKind::Range(a, b) => {
            [a, b].into_iter().for_each(|inner| expr(tree, *inner, out));
        }
        ExprKind::Ternary(a, b, c) => [a, b, c].into_iter().for_each(|inner| expr(tree, *inner, out)),
        ExprKind::Group(all) | ExprKind::Braces(all) | ExprKind::Brackets(all) | ExprKind::Apply(_, all) => {
            tree.list(all).iter().for_each(|inner| expr(tree, *inner, out));
        }
        ExprKind::Int(value) => out.push_str(&value.to_string()),
        _ => {}
    }
    out.push(')');
}

/// A number below `end` from a state that goes on.
fn below(state: &mut u64, end: usize) -> usize {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 33) as usize % end.max(1)
}

#[test]
fn a_tree_follows_what_is_typed() {
    let (mut followed, mut tries) = (0, 0);
    for seed in 0..600 {
        let mut state = seed;
        let mut text = MODULE.to_owned();
        let mut tree = parse_text(text.as_bytes()).0;
        for _ in 0..5 {
            let start = below(&mut state, text.len() + 1);
            let end = (start + [0, 0, 1, 2, 30][below(&mut state, 5)]).min(text.len());
            let new = TYPED[below(&mut state, TYPED.len())];
            let before = text.clone();
            text.replace_range(start..end, new);
            tries += 1;
            let fresh = parse_text(text.as_bytes()).0;
            if tree.retype(start..end, new) {
                followed += 1;
                assert_eq!(shape(&tree), shape(&fresh), "{seed}: {new:?} at {start}..{end} of\n{before}");
                assert_eq!(String::from_utf8(print_tree(&tree)).unwrap(), text);
            } else {
                tree = fresh;
            }
        }
    }
    assert!(followed * 3 > tries, "only {followed} of {tries}");
}

#[test]
fn what_changes_a_function_is_parsed_again() {
    for (old, new) in [("mov.b32 %r1, 7", "{"), ("\tret;\n", "}"), ("// a comment", "/*"), (".version", ".target")] {
        let mut tree = parse_text(MODULE.as_bytes()).0;
        let at = MODULE.find(old).unwrap();
        assert!(!tree.retype(at..at + old.len(), new), "{new}");
    }
}

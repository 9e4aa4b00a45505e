//! Statements and expressions of the tree.

use ptx_core::diag::Diagnostic;
use ptx_core::emit::tree::print_tree;
use ptx_core::lex::lex;
use ptx_core::parse::{parse, parse_body};
use ptx_core::syntax::{ExprId, ExprKind, StmtId, StmtKind, Tree};

/// Parses a body and checks that it prints back and that every token has one statement.
fn body(text: &str) -> (Tree, Vec<Diagnostic>) {
    checked(text, parse_body(lex(text.as_bytes()).0))
}

fn module(text: &str) -> (Tree, Vec<Diagnostic>) {
    checked(text, parse(lex(text.as_bytes()).0))
}

fn checked(text: &str, result: (Tree, Vec<Diagnostic>)) -> (Tree, Vec<Diagnostic>) {
    assert_eq!(String::from_utf8(print_tree(&result.0)).unwrap(), text);
    result
}

fn clean(text: &str) {
    assert_eq!(module(text).1, [], "{text}");
}

fn clean_body(text: &str) -> Tree {
    let (tree, diagnostics) = body(text);
    assert_eq!(diagnostics, [], "{text}");
    tree
}

/// An expression with all its parentheses: `(+ a 1)`.
fn show(tree: &Tree, id: ExprId) -> String {
    let expr = tree.expr(id);
    let many = |list: &ptx_core::syntax::ExprList| {
        tree.list(list).iter().map(|&e| show(tree, e)).collect::<Vec<_>>().join(" ")
    };
    match &expr.kind {
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Name | ExprKind::Float | ExprKind::Str | ExprKind::Dot => tree.compact(&expr.tokens),
        ExprKind::Unary(op, a) => format!("({} {})", *op as char, show(tree, *a)),
        ExprKind::Binary(op, a, b) => {
            let op = String::from_utf8_lossy(op).replace('\0', "");
            format!("({op} {} {})", show(tree, *a), show(tree, *b))
        }
        ExprKind::Ternary(a, b, c) => format!("(? {} {} {})", show(tree, *a), show(tree, *b), show(tree, *c)),
        ExprKind::Cast(ty, a) => format!("(cast {} {})", tree.source.text(*ty), show(tree, *a)),
        ExprKind::Group(list) => format!("<{}>", many(list)),
        ExprKind::Braces(list) => format!("{{{}}}", many(list)),
        ExprKind::Brackets(list) => format!("[{}]", many(list)),
        ExprKind::Pair(a, b) => format!("{}|{}", show(tree, *a), show(tree, *b)),
        ExprKind::Index(a, b) => format!("(index {} {})", show(tree, *a), show(tree, *b)),
        ExprKind::Range(a, b) => format!("(range {} {})", show(tree, *a), show(tree, *b)),
        ExprKind::Select(a, dot) => format!("(select {} {})", show(tree, *a), tree.source.text(*dot)),
        ExprKind::Apply(name, list) => format!("{}({})", tree.source.text(*name), many(list)),
        ExprKind::Error => "error".to_owned(),
    }
}

/// The operands of a single instruction.
fn operands(text: &str) -> String {
    let tree = clean_body(text);
    let StmtKind::Inst(inst) = &tree.stmt(tree.items[0]).kind else { panic!("no instruction: {text}") };
    tree.list(&inst.operands).iter().map(|&e| show(&tree, e)).collect::<Vec<_>>().join(", ")
}

/// One word per statement of a body, with children in parentheses.
fn outline(tree: &Tree, ids: &[StmtId]) -> String {
    let one = |&id: &StmtId| {
        let stmt = tree.stmt(id);
        let name = match &stmt.kind {
            StmtKind::Inst(inst) => tree.source.text(inst.opcode),
            StmtKind::Label(_) => "label",
            StmtKind::Var(_) => "var",
            StmtKind::Func(_) => "func",
            StmtKind::Block => "block",
            StmtKind::Directive(d) | StmtKind::Data(d) => tree.source.text(d.name),
            StmtKind::Section(_) => "section",
            StmtKind::Prototype(_) => "prototype",
            StmtKind::Dwarf => "dwarf",
            StmtKind::Empty => "empty",
            StmtKind::Error => "error",
        };
        match stmt.children() {
            [] => name.to_owned(),
            children => format!("{name}({})", outline(tree, children)),
        }
    };
    ids.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn outline_of(text: &str) -> String {
    let (tree, _) = module(text);
    outline(&tree, &tree.items)
}

fn body_outline(text: &str) -> String {
    let (tree, _) = body(text);
    outline(&tree, &tree.items)
}

/// Codes, and the text each diagnostic is on.
fn mistakes(text: &str, result: (Tree, Vec<Diagnostic>)) -> Vec<String> {
    let on = |d: &Diagnostic| format!("{} {}", d.code.id, &text[d.span.lo as usize..d.span.hi as usize]);
    result.1.iter().map(on).collect()
}

mod clean_input;
mod expressions;
mod recovery;

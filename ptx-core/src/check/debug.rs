//! Debug information: `.file` numbers, where `.loc` marks inlined code, the lines of sections.

use super::error;
use crate::diag::{Diagnostic, codes};
use crate::hash::{Map, Set};
use crate::ir::Module;
use crate::isa::{Type, Version, table};
use crate::lower::constant::integer;
use crate::span::Span;
use crate::syntax::{Directive, Expr, ExprId, ExprKind, StmtKind, Tokens, Tree};
use crate::token::Kind;

/// The first version in which ptxas reads `function_name` and `inlined_at`.
pub(super) const FIRST_WITH_INLINED_CODE: Version = Version { major: 4, minor: 0 };

/// Values allowed in a section's line: the type, the least and the greatest number, and names. ptxas does not check
/// the range of 32-bit numbers.
const DATA: &[(&str, i64, i64, bool)] = &[
    (".b8", -0x80, 0xff, false),
    (".b16", -0x8000, 0xffff, false),
    (".b32", -0x8000_0000, i64::MAX, true),
    (".b64", i64::MIN, i64::MAX, true),
];

/// Values allowed in a line of `@@DWARF`, and their kind.
const LINES: &[(&str, &str)] = &[
    (".byte", ".b8"),
    (".4byte", ".b32"),
    (".quad", ".b64"),
    (".b8", ".b8"),
    (".b16", ".b16"),
    (".b32", ".b32"),
    (".b64", ".b64"),
];

pub(super) fn check_debug(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    files(tree, out);
    let mut in_section = false;
    for stmt in tree.items.iter().map(|id| tree.stmt(*id)).filter(|stmt| matches!(stmt.kind, StmtKind::Dwarf)) {
        if let Err(why) = line(tree, &stmt.head, module, &mut in_section) {
            out.push(error(&codes::P0609, tree.span(&stmt.head), why, "11.5.1"));
        }
    }
    let labels = sections(tree, out);
    // Earlier versions ignore everything after the column.
    if module.version >= FIRST_WITH_INLINED_CODE {
        inlined(tree, &labels, out);
    }
}

fn named<'t>(tree: &'t Tree, name: &'static str) -> impl Iterator<Item = &'t Directive> {
    tree.stmts.iter().filter_map(move |stmt| match &stmt.kind {
        StmtKind::Directive(d) if tree.source.text(d.name) == name => Some(d),
        _ => None,
    })
}

/// Each number stands for one file.
fn files(tree: &Tree, out: &mut Vec<Diagnostic>) {
    let mut seen = Map::default();
    for file in named(tree, ".file") {
        let Some((first, index)) = tree.list(&file.args).first().and_then(|e| Some((*e, integer(tree, *e)?))) else {
            continue;
        };
        let span = tree.span(&tree.expr(first).tokens);
        if let Some(earlier) = seen.insert(index, span) {
            let text = format!("there is a file {index} already");
            out.push(error(&codes::P0502, span, text, "11.5.3").label(earlier, "here"));
        }
    }
}

/// The names of sections and of the labels in them.
fn sections<'t>(tree: &'t Tree, out: &mut Vec<Diagnostic>) -> Map<&'t str, Span> {
    let mut labels = Map::default();
    for stmt in &tree.stmts {
        let StmtKind::Section(name) = stmt.kind else { continue };
        let (text, span) = (tree.source.text(name), tree.source.span(name));
        if !text.starts_with('.') {
            out.push(error(&codes::P0608, span, "a section's name begins with a dot", "11.5.2"));
        }
        labels.entry(text).or_insert(span);
        for line in stmt.children().iter().map(|id| tree.stmt(*id)) {
            match &line.kind {
                StmtKind::Label(name) => {
                    let (text, span) = (tree.source.text(name.start), tree.span(name));
                    if let Some(earlier) = labels.insert(text, span) {
                        let text = format!("`{text}` is a label of a section already");
                        out.push(error(&codes::P0502, span, text, "11.5.2").label(earlier, "here"));
                    }
                }
                StmtKind::Data(data) => {
                    if tree.source.bytes(line.head.end - 1) == b";" {
                        let span = tree.source.span(line.head.end - 1);
                        out.push(error(&codes::P0101, span, "no `;` ends a section's line", "11.5.2"));
                    }
                    values(tree, data, out);
                }
                _ => {}
            }
        }
    }
    labels
}

/// `.b8 1, 2`, `.b32 label+4`: numbers, or one address.
fn values(tree: &Tree, data: &Directive, out: &mut Vec<Diagnostic>) {
    let ty = tree.source.text(data.name);
    let Some((_, least, most, names)) = DATA.iter().find(|(name, ..)| *name == ty) else {
        let text = format!("a section's line is of `.b8`, `.b16`, `.b32` or `.b64`, not of `{ty}`");
        out.push(error(&codes::P0306, tree.source.span(data.name), text, "11.5.2"));
        return;
    };
    let list = tree.list(&data.args);
    for id in list {
        let why = match number(tree, *id) {
            Some(n) if (*least..=*most).contains(&n) => continue,
            Some(n) => format!("{n} does not fit into `{ty}`"),
            None if tree.expr(*id).kind == ExprKind::Error => continue,
            None if !is_address(tree, *id) => "this is neither a number nor the address of a label".to_owned(),
            None if !*names => format!("an address does not fit into `{ty}`"),
            None if list.len() > 1 => "an address has a line of its own".to_owned(),
            None => continue,
        };
        out.push(error(&codes::P0304, tree.span(&tree.expr(*id).tokens), why, "11.5.2"));
    }
}

/// `1` or `-1`; no arithmetic.
fn number(tree: &Tree, id: ExprId) -> Option<i64> {
    match tree.expr(id).kind {
        ExprKind::Int(n) => Some(i64::try_from(n).unwrap_or(i64::MAX)),
        ExprKind::Unary(b'-', x) => match tree.expr(x).kind {
            ExprKind::Int(n) => i64::try_from(n).ok().map(i64::wrapping_neg),
            _ => None,
        },
        _ => None,
    }
}

/// `label`, `.section`, `label+4`, `.section+4`, `label-label`
fn is_address(tree: &Tree, id: ExprId) -> bool {
    let is_int = |id: ExprId| matches!(tree.expr(id).kind, ExprKind::Int(_));
    match tree.expr(id).kind {
        ExprKind::Binary([b'+', 0], a, b) => place_of(tree, a).is_some() && is_int(b),
        ExprKind::Binary([b'-', 0], a, b) => [a, b].iter().all(|id| place_of(tree, *id) == Some(ExprKind::Name)),
        _ => place_of(tree, id).is_some(),
    }
}

/// The kind of a name that can be a label's or a section's.
fn place_of(tree: &Tree, id: ExprId) -> Option<ExprKind> {
    let Expr { tokens, kind } = tree.expr(id);
    let named = matches!(kind, ExprKind::Name | ExprKind::Dot)
        && tokens.len() == 1
        && place_name(tree.source.text(tokens.start));
    named.then_some(kind)
}

/// Returns true if a word means nothing else in PTX.
fn place_name(word: &str) -> bool {
    let is_type = word.strip_prefix('.').is_some_and(|name| Type::find(name).is_some());
    let of_ptx = table().directives.contains_key(word) || is_type;
    !matches!(word, "WARP_SZ" | "_") && !of_ptx
}

/// `@@DWARF .byte 1, 2`, `@@DWARF .4byte label`, or the beginning of a section, which must come first.
fn line(tree: &Tree, head: &Tokens, module: &Module, in_section: &mut bool) -> Result<(), String> {
    let tokens: Vec<_> = head.clone().map(|token| (tree.source.kind(token), tree.source.text(token))).collect();
    let begins = [1, 2].iter().all(|n| tree.source.touches(head.start + n));
    let [_, _, (_, "DWARF"), (_, first), rest @ ..] = tokens.as_slice() else {
        return Err(if begins { LINE } else { BEGIN }.to_owned());
    };
    match *first {
        _ if !begins => Err(BEGIN.to_owned()),
        ".section" if module.version.major >= 2 => Err("since PTX 2.0 a section is `.section name { … }`".to_owned()),
        ".section" => {
            *in_section = true;
            let at = head.end - 1;
            match rest {
                [(Kind::Dot, name), (_, ","), (Kind::Str, _), (_, ","), (_, "@"), (_, "progbits")]
                    if place_name(name) && tree.source.touches(at) =>
                {
                    Ok(())
                }
                _ => Err("a section of PTX 1 begins with `.section .name, \"\", @progbits`".to_owned()),
            }
        }
        _ if !*in_section => Err("no line says `.section .name, \"\", @progbits` in front of this".to_owned()),
        first => line_data(first, rest),
    }
}

const BEGIN: &str = "`@@` begins a line of `@@DWARF`";
const LINE: &str = "a line of `@@DWARF` holds `.byte`, `.4byte` or `.quad`";

/// One name, or numbers with commas.
fn line_data(word: &str, values: &[(Kind, &str)]) -> Result<(), String> {
    let ty = LINES.iter().find(|(name, _)| *name == word).map(|(_, ty)| *ty);
    let (ty, _, most, names) = ty.and_then(|ty| DATA.iter().find(|(name, ..)| *name == ty)).ok_or(LINE)?;
    match values {
        [(Kind::Word | Kind::Dot, name)] if *names && place_name(name) => return Ok(()),
        [(Kind::Int, _), ..] => {}
        _ => return Err("this is neither a number nor the address of a label".to_owned()),
    }
    for (at, value) in values.iter().enumerate() {
        match value {
            (Kind::Int, text) if at % 2 == 0 => {
                let number = crate::parse::integer_value(text.as_bytes());
                if i64::try_from(number).unwrap_or(i64::MAX) > *most {
                    return Err(format!("{number} does not fit into `{ty}`"));
                }
            }
            (Kind::Punct(b','), _) if at % 2 == 1 && at + 1 < values.len() => {}
            (_, text) if at % 2 == 1 && *text != "," => return Err(format!("`{text}` does not end this line")),
            _ => return Err("a number follows the comma".to_owned()),
        }
    }
    Ok(())
}

/// `.loc 1 2 3, function_name label, inlined_at 1 5 3`: that place must have been in an earlier `.loc`.
fn inlined(tree: &Tree, labels: &Map<&str, Span>, out: &mut Vec<Diagnostic>) {
    let mut seen = Set::default();
    if !named(tree, ".loc").any(|loc| loc.args.len() > 3) {
        return;
    }
    for loc in named(tree, ".loc") {
        let args = tree.list(&loc.args);
        for id in args.iter().skip(3) {
            let ExprKind::Apply(word, inner) = &tree.expr(*id).kind else { continue };
            let (inner, span) = (tree.list(inner), tree.span(&tree.expr(*id).tokens));
            let name = || inner.first().map(|e| tree.source.text(tree.expr(*e).tokens.start)).unwrap_or_default();
            match tree.source.text(*word) {
                "function_name" if !labels.contains_key(name()) && name() != ".debug_str" => {
                    let text = format!("`{}` is no label of a section", name());
                    out.push(error(&codes::P0501, span, text, "11.5.4"));
                }
                "inlined_at" if !seen.contains(&place(tree, inner)) => {
                    let text = "no `.loc` before this one names the place".to_owned();
                    out.push(error(&codes::P0501, span, text, "11.5.4"));
                }
                _ => {}
            }
        }
        seen.insert(place(tree, args));
    }
}

/// File, line and column.
fn place(tree: &Tree, args: &[ExprId]) -> [Option<i64>; 3] {
    [0, 1, 2].map(|n| args.get(n).and_then(|e| integer(tree, *e)))
}

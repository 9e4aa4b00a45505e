//! Completion: what can stand at a position, by the instruction table and the names in scope.

use crate::document::{Document, Language, Part};
use crate::names::{declarations, parameters};
use crate::rust;
use crate::typed::{Context, Typed, operands};
use ptx_core::hash::Set;
use ptx_core::isa::find::Form;
use ptx_core::isa::{Class, OperandKind, OperandSpec, SpaceOf, Type, TypeInfo, Value, Version, show, table};
use ptx_core::syntax::{Declarator, ExprKind, StmtId, StmtKind, Var};
use ptx_core::token::{Kind as TokenKind, TokenId};
use std::ops::Range;

/// A word that can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The word.
    pub label: String,
    /// Its kind.
    pub kind: Kind,
    /// A line about it.
    pub detail: String,
    /// Smaller is likelier.
    pub rank: u8,
}

/// Kind of a word, as editors show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Opcode,
    Modifier,
    Directive,
    Type,
    Register,
    Special,
    Variable,
    Parameter,
    Function,
    Label,
    Constant,
    Field,
}

/// What can be written at a position, and the bytes that it replaces.
#[derive(Clone, Debug, Default)]
pub struct Completions {
    /// The bytes of the word that is being typed, up to the position.
    pub replace: Range<usize>,
    /// The words.
    pub items: Vec<Completion>,
    /// True if there are more than these.
    pub is_incomplete: bool,
}

/// The most words of one answer.
const MOST: usize = 2000;

/// Completes the word that a position ends.
pub fn complete(document: &Document, offset: usize) -> Completions {
    let Some(typed) = document.typed(offset) else { return outside(document, offset) };
    let text = document.text().as_str();
    let mut list =
        List { word: text.get(typed.word.clone()).unwrap_or_default(), items: Vec::new(), seen: Set::default() };
    match &typed.context {
        Context::Start => start(&mut list, &typed),
        Context::Modifier { opcode, before } => modifiers(&mut list, opcode, before),
        Context::Operand { opcode, modifiers, at, in_brackets } => {
            operand(document, &mut list, &typed, &operands(opcode, modifiers, *at), *in_brackets);
        }
        Context::Guard => registers(&mut list, &typed, &|ty| u8::from(ty.class() != Class::Pred) * 2),
        Context::Directive { words } => directive(&mut list, words),
        Context::Nothing => {}
    }
    let is_incomplete = list.items.len() > MOST;
    list.items.truncate(MOST);
    Completions { replace: typed.word, items: list.items, is_incomplete }
}

/// Outside of `ptx!`: helpers of the library, components of special registers, fields.
fn outside(document: &Document, offset: usize) -> Completions {
    let found = match document.language() {
        Language::Rust => rust::members(document.text().as_str(), offset),
        Language::Ptx => None,
    };
    let Some((start, members)) = found else { return Completions::default() };
    let items = members.into_iter().map(|member| Completion {
        label: member.name,
        kind: if member.is_function { Kind::Function } else { Kind::Field },
        detail: member.detail,
        rank: 0,
    });
    Completions { replace: start..offset, items: items.collect(), is_incomplete: false }
}

/// The words found so far.
struct List<'d> {
    /// The word as typed.
    word: &'d str,
    items: Vec<Completion>,
    seen: Set<String>,
}

impl List<'_> {
    /// Adds a word, if what is typed may become it.
    fn add(&mut self, label: &str, kind: Kind, rank: u8, detail: &dyn Fn() -> String) {
        if self.items.len() <= MOST && may_become(self.word, label) && self.seen.insert(label.to_owned()) {
            self.items.push(Completion { label: label.to_owned(), kind, detail: detail(), rank });
        }
    }
}

/// Returns true if the letters of a word stand in another in this order; the first one must be the same.
fn may_become(word: &str, label: &str) -> bool {
    let mut letters = label.chars().map(|c| c.to_ascii_lowercase());
    let mut typed = word.chars().map(|c| c.to_ascii_lowercase());
    let first = typed.next();
    (first.is_none() || letters.next() == first) && typed.all(|c| letters.any(|letter| letter == c))
}

fn start(list: &mut List<'_>, typed: &Typed<'_>) {
    let in_body = typed.part.body || inside_function(typed);
    if in_body {
        for opcode in table().opcodes() {
            list.add(opcode, Kind::Opcode, 0, &|| forms_of(opcode));
        }
    }
    for line in table().directives.values() {
        let fits = match line.place {
            "module" | "debug" => !in_body,
            "body" => in_body,
            _ => true,
        };
        list.add(line.name, Kind::Directive, if fits { 0 } else { 3 }, &|| line.text.to_owned());
    }
}

/// Returns true if a position is between the braces of a function.
fn inside_function(typed: &Typed<'_>) -> bool {
    let tree = typed.part.tree;
    let source = &tree.source;
    typed.path.first().is_some_and(|id| {
        let stmt = tree.stmt(*id);
        let closed = stmt.body.is_some()
            && stmt.tail().end > stmt.head.end
            && source.place(stmt.tail().end - 1).hi as usize + typed.part.base <= typed.word.start;
        matches!(&stmt.kind, StmtKind::Func(func) if func.has_body) && stmt.body.is_some() && !closed
    })
}

fn forms_of(opcode: &str) -> String {
    let forms = table().forms(opcode);
    match forms {
        [] => String::new(),
        [form] => show::form(form),
        [form, more @ ..] => format!("{} (+{} forms)", show::form(form), more.len()),
    }
}

fn modifiers(list: &mut List<'_>, opcode: &str, before: &[&str]) {
    for next in table().following(Version::NEWEST, opcode, before) {
        let required = next.slot.is_none_or(|slot| !slot.optional);
        let kind = if next.member.is_some_and(|member| member.ty.is_some()) { Kind::Type } else { Kind::Modifier };
        let gate = next.member.and_then(|member| member.gate.as_ref());
        let detail = || match (gate, next.slot) {
            (Some(gate), _) => show::since(gate),
            (None, Some(slot)) if slot.name != next.text => format!(".{} of {}", slot.name, show::form(next.row)),
            _ => show::form(next.row),
        };
        list.add(&format!(".{}", next.text), kind, u8::from(!required), &detail);
    }
}

fn directive(list: &mut List<'_>, words: &[&str]) {
    match words {
        [".target", ..] => {
            for target in table().targets.iter().rev() {
                let name = target.arch.to_string();
                list.add(&name, Kind::Constant, u8::from(!target.assembled), &|| format!("since PTX {}", target.since));
            }
        }
        [".version"] => list.add(&Version::NEWEST.to_string(), Kind::Constant, 0, &|| "the newest version".to_owned()),
        [".address_size"] => list.add("64", Kind::Constant, 0, &String::new),
        _ if list.word.starts_with('.') || list.word.is_empty() => {
            let is_register = words.first() == Some(&".reg");
            for ty in table().types.iter().filter(|ty| ty.declares || !is_register) {
                list.add(&format!(".{}", ty.name), Kind::Type, 0, &|| type_detail(ty));
            }
            for line in table().directives.values() {
                list.add(line.name, Kind::Directive, 1, &|| line.text.to_owned());
            }
        }
        _ => {}
    }
}

fn type_detail(ty: &TypeInfo) -> String {
    format!("{} bits", ty.bits)
}

fn operand(
    document: &Document,
    list: &mut List<'_>,
    typed: &Typed<'_>,
    forms: &[(Form, Option<&'static OperandSpec>)],
    in_brackets: bool,
) {
    let specs: Vec<(&Form, &OperandSpec)> = forms.iter().filter_map(|(form, spec)| Some((form, (*spec)?))).collect();
    let any = |test: &dyn Fn(&OperandKind) -> bool| specs.is_empty() || specs.iter().any(|(_, spec)| test(&spec.kind));
    let labels = |kind: &OperandKind| matches!(kind, OperandKind::Label | OperandKind::Branches | OperandKind::Callees);
    let functions = |kind: &OperandKind| matches!(kind, OperandKind::Func | OperandKind::Symbol(_));
    if any(&labels) && !in_brackets {
        self::labels(list, typed);
    }
    let only_names =
        !specs.is_empty() && specs.iter().all(|(_, spec)| labels(&spec.kind) || matches!(spec.kind, OperandKind::Func));
    if !only_names {
        let rank = |ty: Type| specs.iter().map(|(form, spec)| rank(form, spec, ty, in_brackets)).min().unwrap_or(1);
        registers(list, typed, &rank);
        if document.language() == Language::Rust && typed.part.body {
            for local in rust::locals(document.text().as_str(), typed.word.start).into_iter().rev() {
                let fits = Type::find(&local.ty).map_or(1, &rank);
                list.add(&local.name, Kind::Register, fits, &|| local.ty.clone());
            }
        }
        variables(document, list, typed, u8::from(!in_brackets));
        let special = |kind: &OperandKind| matches!(kind, OperandKind::Value(Value { special: true, .. }));
        if any(&special) && !in_brackets || list.word.starts_with('%') {
            for register in table().specials.values() {
                list.add(register.name, Kind::Special, 2, &|| {
                    format!(".{} · {}", register.ty.name(), show::since(&register.gate))
                });
            }
        }
    }
    if any(&functions) {
        self::functions(document, list);
    }
}

/// 0 for a register that fits the operand, 2 for one that does not.
fn rank(form: &Form, spec: &OperandSpec, ty: Type, in_brackets: bool) -> u8 {
    match &spec.kind {
        OperandKind::Value(value) => fits(value, form, ty),
        OperandKind::Memory { space: SpaceOf::Register(own), .. } => u8::from(!own.held_by(ty)) * 2,
        OperandKind::Memory { .. } if in_brackets => match (ty.class(), ty.bits()) {
            (Class::Bits | Class::Unsigned | Class::Signed, 64) => 0,
            (Class::Bits | Class::Unsigned | Class::Signed, 32) => 1,
            _ => 2,
        },
        OperandKind::Pair(first, second) => rank(form, first, ty, in_brackets).min(rank(form, second, ty, in_brackets)),
        OperandKind::Group(list) => list.iter().map(|spec| rank(form, spec, ty, in_brackets)).min().unwrap_or(1),
        _ => 1,
    }
}

fn fits(value: &Value, form: &Form, ty: Type) -> u8 {
    match value.ty.given(&form.slots) {
        Some(wanted) if wanted.held_by(ty) || value.wider && ty.bits() >= wanted.bits() => 0,
        Some(_) => 2,
        None => 1,
    }
}

/// The registers in scope, the innermost first; of a range those that are used, and the next one.
fn registers(list: &mut List<'_>, typed: &Typed<'_>, rank: &dyn Fn(Type) -> u8) {
    let tree = typed.part.tree;
    let mut ranges: Vec<(&str, u64, Type)> = Vec::new();
    let mut visit = |var: &Var, declarator: &Declarator| {
        let Some(ty) = var.ty.filter(|_| tree.source.text(var.space) == ".reg") else { return };
        let Some(ty) = Type::find(tree.source.text(ty).trim_start_matches('.')) else { return };
        let name = tree.source.text(declarator.name);
        match declarator.count.map(|count| tree.expr(count).kind) {
            Some(ExprKind::Int(count)) => ranges.push((name, count, ty)),
            _ => list.add(name, Kind::Register, rank(ty), &|| format!(".reg .{}", ty.name())),
        }
    };
    for scope in typed.path.iter().rev() {
        declarations(tree, tree.stmt(*scope).children(), &mut visit);
        parameters(tree, *scope, &mut visit);
    }
    if typed.part.body {
        declarations(tree, &tree.items, &mut visit);
    }
    for (prefix, count, ty) in ranges {
        let used = numbers(&typed.part, &typed.path, prefix);
        let next = used.iter().max().map_or(0, |last| last + 1);
        for number in used.into_iter().chain([next]).filter(|number| *number < count) {
            list.add(&format!("{prefix}{number}"), Kind::Register, rank(ty), &|| {
                format!(".reg .{}{}", ty.name(), if number == next { ", not used yet" } else { "" })
            });
        }
    }
}

/// The numbers of a range that the function uses.
fn numbers(part: &Part<'_>, path: &[StmtId], prefix: &str) -> Vec<u64> {
    let source = &part.tree.source;
    let tokens = match path.first().map(|id| part.tree.stmt(*id)) {
        Some(stmt) => stmt.head.start..stmt.tail().end,
        None => 0..source.tokens.len() as TokenId,
    };
    let words = tokens.filter(|token| source.kind(*token) == TokenKind::Word);
    let numbers: Set<u64> =
        words.filter_map(|token| source.text(token).strip_prefix(prefix)?.parse().ok()).take(MOST * 100).collect();
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers
}

/// Variables in scope: of the function, its parameters, and the module's.
fn variables(document: &Document, list: &mut List<'_>, typed: &Typed<'_>, rank: u8) {
    let tree = typed.part.tree;
    let mut kind = Kind::Variable;
    for scope in typed.path.iter().rev() {
        let mut visit = |var: &Var, declarator: &Declarator| variable(list, &typed.part, var, declarator, (kind, rank));
        declarations(tree, tree.stmt(*scope).children(), &mut visit);
        kind = Kind::Parameter;
        let mut visit = |var: &Var, declarator: &Declarator| variable(list, &typed.part, var, declarator, (kind, rank));
        parameters(tree, *scope, &mut visit);
        kind = Kind::Variable;
    }
    for part in document.parts().filter(|part| !part.body) {
        declarations(part.tree, &part.tree.items, &mut |var, declarator| {
            variable(list, &part, var, declarator, (Kind::Variable, rank));
        });
    }
}

fn variable(list: &mut List<'_>, part: &Part<'_>, var: &Var, declarator: &Declarator, (kind, rank): (Kind, u8)) {
    let source = &part.tree.source;
    let space = source.text(var.space);
    if space != ".reg" {
        let ty = var.ty.map_or("", |ty| source.text(ty));
        list.add(source.text(declarator.name), kind, rank, &|| format!("{space} {ty}"));
    }
}

fn labels(list: &mut List<'_>, typed: &Typed<'_>) {
    let tree = typed.part.tree;
    for scope in typed.path.iter().rev() {
        for id in tree.stmt(*scope).children() {
            if let StmtKind::Label(name) = &tree.stmt(*id).kind {
                list.add(&tree.compact(name), Kind::Label, 0, &|| "label".to_owned());
            }
        }
    }
}

fn functions(document: &Document, list: &mut List<'_>) {
    for part in document.parts().filter(|part| !part.body) {
        for id in &part.tree.items {
            let StmtKind::Func(func) = &part.tree.stmt(*id).kind else { continue };
            let keyword = part.tree.source.text(func.keyword);
            if let Some(name) = func.name.map(|name| part.tree.source.text(name)) {
                list.add(name, Kind::Function, 1, &|| keyword.to_owned());
            }
        }
    }
}

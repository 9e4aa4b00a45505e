//! The text beside a token: the form of an instruction, the declaration and the uses of a name, the value of a number.

use crate::document::{Document, Language};
use crate::fragments;
use crate::names::parameters;
use crate::place::{Role, Spot, forms};
use crate::rust;
use ptx_core::isa::find::{Form, Misfit};
use ptx_core::isa::{Access, Gate, Row, TargetInfo, show, table};
use ptx_core::syntax::{Declarator, StmtKind, Tokens, Tree, Var};
use ptx_core::token::Kind;
use std::ops::Range;

/// A text in Markdown, and what it is about.
#[derive(Clone, Debug)]
pub struct Hover {
    /// The bytes of the document that it explains.
    pub range: Range<usize>,
    /// The text.
    pub markdown: String,
}

/// The most forms of one instruction that are shown.
const MOST_FORMS: usize = 4;

/// Sets with more members are cut.
const MOST_MEMBERS: usize = 16;

/// The most lines that a list of uses names.
const MOST_LINES: usize = 8;

/// The text for a position, if something there has one.
pub fn hover(document: &Document, offset: usize) -> Option<Hover> {
    let Some(spot) = document.spot(offset) else {
        let found = || rust::hover(document.text().as_str(), offset);
        let (range, markdown) = (document.language() == Language::Rust).then(found).flatten()?;
        return Some(Hover { range, markdown });
    };
    let markdown = match (spot.role(), spot.part.tree.source.kind(spot.token)) {
        (Role::Opcode | Role::Modifier(_), _) => instruction(&spot),
        (_, Kind::Int | Kind::Float) => return Some(Hover { range: spot.range(), markdown: number(&spot)? }),
        (Role::Directive, _) => directive(spot.text()),
        _ => None,
    };
    if let Some(markdown) = markdown {
        return Some(Hover { range: spot.range(), markdown });
    }
    let name = spot.name();
    let range = spot.part.range(spot.part.tree.span(&name));
    let found = special(&spot, &name).or_else(|| named(document, &spot)).or_else(|| directive(spot.text()));
    let markdown = found.or_else(|| kernel_variable(document, &spot))?;
    Some(Hover { range, markdown })
}

/// An entry of the table: its form as code, and what belongs to it as text, which is no PTX.
fn described(text: &str) -> String {
    let (form, more) = text.split_once('\n').unwrap_or((text, ""));
    let more: Vec<&str> = more.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    format!("{}\n```text\n{}\n```", code(form), more.join("\n"))
}

fn code(text: &str) -> String {
    format!("```ptx\n{text}\n```")
}

fn instruction(spot: &Spot<'_>) -> Option<String> {
    let tree = spot.part.tree;
    let inst = spot.inst()?;
    let opcode = tree.source.text(inst.opcode);
    match forms(tree, inst) {
        Ok(forms) => {
            let mut text = Vec::new();
            if let Role::Modifier(_) = spot.role() {
                text.extend(forms.first().and_then(|form| modifier(form, spot.text())));
            }
            text.extend(forms.iter().take(MOST_FORMS).map(|form| entry(form.row)));
            text.extend(forms.first().and_then(fragments::pictures));
            Some(text.join("\n\n"))
        }
        Err(misfits) if misfits.is_empty() => None,
        Err(misfits) => Some(misfit(opcode, &misfits)),
    }
}

fn entry(row: &Row) -> String {
    described(&show::entry(row, MOST_MEMBERS))
}

fn misfit(opcode: &str, misfits: &[Misfit]) -> String {
    let nearest = misfits.iter().take(MOST_FORMS).map(|misfit| entry(misfit.row));
    format!("no form of `{opcode}` has these modifiers; the nearest:\n\n{}", nearest.collect::<Vec<_>>().join("\n\n"))
}

/// The slot that a modifier fills, and the targets that have it.
fn modifier(form: &Form, text: &str) -> Option<String> {
    let text = text.trim_start_matches('.');
    let (slot, member) = form.row.slots.iter().zip(form.slots.iter()).find_map(|(slot, member)| {
        let member = member.filter(|member| member.text == text)?;
        Some((slot, member))
    })?;
    let mut words = format!("`.{text}`");
    if slot.name != text {
        words += &format!(", a choice of `.{}`", slot.name);
    }
    if let Some(ty) = member.ty {
        words += &format!(": {} bits, in registers of `.{}`", ty.bits(), ty.info().registers.join("`, `."));
    }
    Some(words + &member.gate.as_ref().map(since).unwrap_or_default())
}

fn since(gate: &Gate) -> String {
    format!(" ({})", show::since(gate))
}

fn directive(text: &str) -> Option<String> {
    let types = || {
        let ty = ptx_core::isa::Type::find(text.strip_prefix('.')?)?.info();
        let holders = ty.registers.join("`, `.");
        Some(format!("`.{}`: {} bits, in registers of `.{holders}`", ty.name, ty.bits))
    };
    table().directives.get(text).map(|line| described(&show::directive(line))).or_else(types)
}

/// A special register, or a target.
fn special(spot: &Spot<'_>, name: &Tokens) -> Option<String> {
    let text = spot.part.tree.compact(name);
    let first = spot.part.tree.source.text(name.start);
    let register = table().specials.get(text.as_str()).or_else(|| table().specials.get(first));
    register.map(|register| described(&show::special(register))).or_else(|| {
        let arch = text.parse().ok()?;
        table().target(arch).map(target)
    })
}

fn target(target: &TargetInfo) -> String {
    let limits: Vec<String> = target.limits.iter().map(|(name, most)| format!("{most} {name}")).collect();
    let more = match target.assembled {
        true => format!("limits: {}", limits.join(", ")),
        false => "ptxas 13 no longer assembles for it".to_owned(),
    };
    format!("`{}`, since PTX {}  \n{more}", target.arch, target.since)
}

/// A number in the other notations.
fn number(spot: &Spot<'_>) -> Option<String> {
    let text = spot.text();
    let bits = |digits: &str| u64::from_str_radix(digits, 16).ok();
    if let Some(digits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        let value = f32::from_bits(u32::try_from(bits(digits)?).ok()?);
        return Some(format!("`{value:?}` as `.f32`"));
    }
    if let Some(digits) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return Some(format!("`{:?}` as `.f64`", f64::from_bits(bits(digits)?)));
    }
    match spot.part.tree.source.kind(spot.token) {
        Kind::Int => {
            let value = ptx_core::parse::integer_value(text.as_bytes());
            Some(format!("`{value}` = `{value:#x}` = `{value:#b}`"))
        }
        _ => {
            let value: f64 = text.parse().ok()?;
            Some(format!("`0d{:016X}` as `.f64`, `0f{:08X}` as `.f32`", value.to_bits(), (value as f32).to_bits()))
        }
    }
}

/// A declared name: its declaration, and the lines that use it.
fn named(document: &Document, spot: &Spot<'_>) -> Option<String> {
    let binding = document.binding(spot)?;
    let declared = document.declaration(&binding)?;
    let declaration = declaration(document, &declared)?;
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for found in document.uses(&binding).iter().filter(|found| !found.declares) {
        let line = document.text().line_of(found.range.start) + 1;
        match found.access {
            Access::Write => writes.push(line),
            Access::Read => reads.push(line),
            Access::ReadWrite => {
                writes.push(line);
                reads.push(line);
            }
        }
    }
    let title = match (binding.ranged, binding.number) {
        (true, Some(number)) => format!("`{}{number}`, one of\n\n", binding.name),
        _ => String::new(),
    };
    let comment = comment(document, &declared);
    let mut text = format!("{title}{}{comment}\n\n", code(&declaration));
    let is_register = declaration.contains(".reg");
    match (is_register, writes.is_empty() && reads.is_empty()) {
        (_, true) => text += "not used",
        (true, _) => text += &format!("written {}  \nread {}", lines(&mut writes), lines(&mut reads)),
        (false, _) => {
            writes.append(&mut reads);
            text += &format!("used {}", lines(&mut writes));
        }
    }
    Some(text)
}

/// A variable of the kernel around a `ptx!`.
fn kernel_variable(document: &Document, spot: &Spot<'_>) -> Option<String> {
    let text = document.text().as_str();
    let local = spot.part.body.then(|| rust::local(text, spot.range().start, spot.text())).flatten()?;
    let line = document.text().line_of(local.range.start) + 1;
    let ty = if local.ty.is_empty() { String::new() } else { format!(": {}", local.ty) };
    Some(format!("```rust\nlet {}{ty}\n```\ndeclared on line {line}", local.name))
}

/// `on lines 3, 5 and 7`
fn lines(lines: &mut Vec<usize>) -> String {
    lines.sort_unstable();
    lines.dedup();
    let shown: Vec<String> = lines.iter().take(MOST_LINES).map(usize::to_string).collect();
    match (lines.len(), lines.len() - shown.len()) {
        (0, _) => "nowhere".to_owned(),
        (1, _) => format!("on line {}", shown.concat()),
        (_, 0) => format!("on lines {}", shown.join(", ")),
        (_, more) => format!("on lines {} and {more} more", shown.join(", ")),
    }
}

/// The text of the statement or parameter that declares a name.
fn declaration(document: &Document, name: &Range<usize>) -> Option<String> {
    let spot = document.spot(name.start)?;
    let (tree, stmt) = (spot.part.tree, spot.stmt()?);
    let mut tokens = stmt.head.clone();
    let mut visit = |var: &Var, declarator: &Declarator| {
        if declarator.name == spot.token && matches!(stmt.kind, StmtKind::Func(_)) {
            tokens = var.linkage.unwrap_or(var.space)..end_of(tree, declarator);
        }
    };
    if let Some(id) = spot.path.last() {
        parameters(tree, *id, &mut visit);
    }
    if let (StmtKind::Func(func), true) = (&stmt.kind, tokens == stmt.head) {
        tokens.end -= u32::from(func.has_body);
    }
    Some(spaced(document, spot.part.range(tree.span(&tokens))))
}

fn end_of(tree: &Tree, declarator: &Declarator) -> u32 {
    let dims = tree.list(&declarator.dims).last().map(|id| tree.expr(*id).tokens.end);
    dims.unwrap_or(declarator.name + 1)
}

/// The most bytes of a declaration that are shown.
const LONGEST: usize = 2000;

/// A piece of the text without empty lines and without its end if it is long.
fn spaced(document: &Document, range: Range<usize>) -> String {
    let text = document.text().as_str().get(range).unwrap_or_default();
    let cut = crate::text::floor_char(text, LONGEST);
    let lines = text[..cut].lines().filter(|line| !line.trim().is_empty());
    lines.collect::<Vec<_>>().join("\n") + if cut < text.len() { " …" } else { "" }
}

/// The comment behind a declaration on its line.
fn comment(document: &Document, name: &Range<usize>) -> String {
    let line = document.text().line(document.text().line_of(name.start));
    let rest = document.text().as_str().get(name.end..line.end).unwrap_or_default();
    rest.split_once("//").map(|(_, comment)| format!("\n\n{}", comment.trim())).unwrap_or_default()
}

//! Opcodes and modifiers that no row has: unknown, left out, torn apart.

use super::forms::{MOST_MEMBERS, with_forms};
use crate::diag::near::nearest;
use crate::diag::{Diagnostic, codes};
use crate::isa::find::{Form, Misfit};
use crate::isa::{Row, table};
use crate::lower::form::modifier;
use crate::span::Span;
use crate::syntax::{Inst, Tree};

/// No row has these modifiers.
pub(in crate::lower) fn misfit(tree: &Tree, inst: &Inst, misfits: &[Misfit], name: Span) -> Diagnostic {
    let opcode = tree.source.text(inst.opcode);
    let Some(best) = misfits.first() else {
        let d = Diagnostic::error(
            &codes::P0201,
            tree.source.span(inst.opcode),
            format!("there is no instruction `{opcode}`"),
        );
        return match nearest(opcode, table().opcodes()) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d,
        };
    };
    if let Some(d) = best.missing.is_none().then(|| nameless(tree, inst, name)).flatten() {
        return d;
    }
    let mut rows: Vec<&Row> = misfits.iter().map(|m| m.row).collect();
    let d = match (best.unplaced, best.missing) {
        (Some(at), _) => unplaced(tree, inst, misfits, at, &mut rows),
        (None, Some(_)) => missing(opcode, misfits, name),
        (None, None) => {
            let wanted = best.row.name;
            Diagnostic::error(&codes::P0203, name, format!("`{opcode}` alone is no instruction"))
                .help(format!("write `{wanted}`"))
        }
    };
    with_forms(d, rows.into_iter())
}

/// A piece of the name is left out: `mul.s32` for `mul.lo.s32`.
fn nameless(tree: &Tree, inst: &Inst, name: Span) -> Option<Diagnostic> {
    let opcode = tree.source.text(inst.opcode);
    let modifiers: Vec<&str> = inst.modifiers.clone().map(|m| modifier(tree, m)).collect();
    let whole = |row: &&'static Row| {
        let all: Vec<&str> = row.parts.iter().chain(&modifiers).copied().collect();
        !row.parts.is_empty() && table().find(opcode, &all).is_ok_and(|forms| forms.iter().any(|f| f.row == *row))
    };
    let rows: Vec<&Row> = table().forms(opcode).iter().filter(whole).collect();
    let mut names: Vec<String> = rows.iter().map(|r| format!("`.{}`", r.parts.join("."))).collect();
    names.dedup();
    if names.is_empty() || names.len() > 6 {
        return None;
    }
    let one_of = if names.len() == 1 { "" } else { "one of " };
    let text = format!("`{opcode}` lacks {one_of}{}", names.join(" "));
    Some(with_forms(Diagnostic::error(&codes::P0203, name, text), rows.into_iter()))
}

/// A modifier without a place. If a near one makes it whole, `rows` becomes the forms that it then has.
fn unplaced(tree: &Tree, inst: &Inst, misfits: &[Misfit], at: usize, rows: &mut Vec<&'static Row>) -> Diagnostic {
    let opcode = tree.source.text(inst.opcode);
    let token = inst.modifiers.start + u32::try_from(at).unwrap_or(0);
    let (text, span) = (modifier(tree, token), tree.source.span(token));
    let elsewhere = table().forms(opcode).iter().any(|r| has_member(r, text));
    let free = words(misfits);
    // `.wait.ld` for `.wait::ld`.
    let next = inst.modifiers.clone().nth(at + 1).map(|next| format!("{text}::{}", modifier(tree, next)));
    let torn = next.and_then(|whole| free.iter().copied().find(|known| *known == whole));
    let near = torn.or_else(|| kin(text, &free)).or_else(|| nearest(text, free.iter().copied()));
    let d = match elsewhere {
        true => Diagnostic::error(&codes::P0203, span, format!("`.{text}` has no place here in `{opcode}`")),
        false => Diagnostic::error(&codes::P0202, span, format!("`{opcode}` has no modifier `.{text}`")),
    };
    let Some(near) = near else { return d };
    let mut modifiers: Vec<&str> = inst.modifiers.clone().map(|m| modifier(tree, m)).collect();
    if let Some(wrong) = modifiers.get_mut(at) {
        *wrong = near;
    }
    if torn.is_some() {
        modifiers.remove(at + 1);
    }
    if let Ok(forms) = table().find(opcode, &modifiers) {
        *rows = forms.iter().map(|f| f.row).collect();
    }
    d.help(format!("did you mean `.{near}`?"))
}

/// The modifiers of the rows, then the pieces of their names.
fn words(misfits: &[Misfit]) -> Vec<&'static str> {
    let mut words = Vec::new();
    for misfit in misfits {
        for slot in misfit.row.slots {
            words.extend(slot.members.iter().map(|member| member.text));
        }
    }
    misfits.iter().for_each(|misfit| words.extend(&misfit.row.parts));
    words
}

/// Integer types that are meant where another is written, the likeliest first: the kernel language's `i32` is `.s32` here.
const KIN: [(&str, [&str; 2]); 4] = [("i", ["s", "b"]), ("b", ["u", "s"]), ("u", ["b", "s"]), ("s", ["b", "u"])];

/// The type of the same width that was probably meant.
fn kin<'a>(text: &str, known: &[&'a str]) -> Option<&'a str> {
    let (class, width) = text.split_at_checked(1)?;
    let (_, others) = KIN.iter().find(|(letter, _)| *letter == class && width.parse::<u32>().is_ok())?;
    others.iter().find_map(|other| known.iter().copied().find(|k| k.strip_prefix(other) == Some(width)))
}

fn has_member(row: &Row, text: &str) -> bool {
    row.parts.contains(&text) || row.slots.iter().any(|s| s.members.iter().any(|m| m.text == text))
}

fn missing(opcode: &str, misfits: &[Misfit], name: Span) -> Diagnostic {
    let mut wanted: Vec<String> = Vec::new();
    for misfit in misfits {
        let Some(slot) = misfit.missing.and_then(|s| misfit.row.slots.get(s)) else { continue };
        for member in slot.members.iter().map(|m| format!("`.{}`", m.text)) {
            if !wanted.contains(&member) {
                wanted.push(member);
            }
        }
    }
    let text = match &wanted[..] {
        [only] => format!("`{opcode}` lacks {only}"),
        _ => {
            let more = if wanted.len() > MOST_MEMBERS { " …" } else { "" };
            wanted.truncate(MOST_MEMBERS);
            format!("`{opcode}` lacks one of {}{more}", wanted.join(" "))
        }
    };
    Diagnostic::error(&codes::P0203, name, text)
}

/// The pieces that name an instruction stand apart: `tcgen05 .mma`.
pub(in crate::lower) fn torn(tree: &Tree, inst: &Inst, form: &Form, name: Span) -> Option<Diagnostic> {
    let mut parts = inst.modifiers.clone().take(form.row.parts.len());
    parts.any(|part| !tree.source.trivia(part).is_empty()).then(|| {
        let whole = form.row.name;
        Diagnostic::error(&codes::P0203, name, format!("`{whole}` is one name; nothing may stand inside it"))
            .help(format!("write `{whole}` without blanks"))
    })
}

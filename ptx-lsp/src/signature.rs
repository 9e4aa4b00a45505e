//! Signature help: the forms of the instruction that is being typed, and the operand that comes next.

use crate::document::Document;
use crate::typed::{Context, operands};
use ptx_core::isa::show;
use std::ops::Range;

/// The forms of an instruction.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    /// Each as the manual would print it.
    pub forms: Vec<Signature>,
    /// The operand that a position is at, from 0.
    pub operand: usize,
}

/// A form with its operands.
#[derive(Clone, Debug)]
pub struct Signature {
    /// `add{.sat}.s32 d, a, b;`
    pub label: String,
    /// The bytes of each operand in the label.
    pub operands: Vec<Range<usize>>,
    /// The operands in words, and the first target and version.
    pub about: String,
}

/// The forms for a position among operands.
pub fn signatures(document: &Document, offset: usize) -> Option<Signatures> {
    let typed = document.typed(offset)?;
    let Context::Operand { opcode, modifiers, at, .. } = typed.context else { return None };
    let forms = operands(opcode, &modifiers, at).into_iter().map(|(form, _)| {
        let label = show::form(form.row);
        let operands = pieces(&label);
        Signature { operands, about: format!("{}  \n{}", show::operands(form.row), show::since(&form.row.gate)), label }
    });
    let forms: Vec<Signature> = forms.collect();
    (!forms.is_empty()).then_some(Signatures { forms, operand: at })
}

/// The operands of a printed form: what stands between its outer commas.
fn pieces(label: &str) -> Vec<Range<usize>> {
    let Some(start) = label.find(' ') else { return Vec::new() };
    let mut pieces = Vec::new();
    let (mut from, mut depth) = (start + 1, 0usize);
    for (at, c) in label.char_indices().skip_while(|(at, _)| *at <= start) {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            ',' | ';' if depth == 0 => {
                pieces.push(from..at);
                from = at + 1;
            }
            _ => {}
        }
    }
    let trimmed = |range: Range<usize>| {
        let text = &label[range.clone()];
        let start = range.start + (text.len() - text.trim_start_matches([' ', '{', ',']).len());
        start.min(range.end)..range.end
    };
    pieces.into_iter().map(trimmed).filter(|range| !range.is_empty()).collect()
}

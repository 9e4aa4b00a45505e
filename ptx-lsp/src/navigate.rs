//! Definition, references and rename.

use crate::document::Document;
use crate::names::Use;
use crate::rust;
use ptx_core::isa::{Access, table};
use std::ops::Range;

/// The place that declares the name at a position.
pub fn definition(document: &Document, offset: usize) -> Option<Range<usize>> {
    let spot = document.spot(offset)?;
    match document.binding(&spot) {
        Some(binding) => document.declaration(&binding),
        // A name in a `ptx!` may be a variable of the kernel around it.
        None if spot.part.body => Some(rust::local(document.text().as_str(), spot.range().start, spot.text())?.range),
        None => None,
    }
}

/// A place that has the name at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its bytes.
    pub range: Range<usize>,
    /// True where the instruction writes it.
    pub writes: bool,
    /// True for the declaration.
    pub declares: bool,
}

/// Every place that means the same as the name at a position, in order.
pub fn references(document: &Document, offset: usize) -> Vec<Reference> {
    let binding = document.spot(offset).and_then(|spot| document.binding(&spot));
    let uses = binding.map(|binding| document.uses(&binding)).unwrap_or_default();
    let reference = |Use { range, access, declares }| Reference { range, writes: access != Access::Read, declares };
    uses.into_iter().map(reference).collect()
}

/// The name at a position and its bytes, if it can be renamed; else the reason, for a message.
///
/// # Errors
/// The reason.
pub fn renamable(document: &Document, offset: usize) -> Result<(Range<usize>, String), String> {
    let spot = document.spot(offset).ok_or("there is no name here")?;
    let name = spot.name();
    let text = spot.part.tree.source.text(name.start).to_owned();
    if table().specials.contains_key(text.as_str()) {
        return Err(format!("`{text}` is a special register, whose name is fixed"));
    }
    let binding = document.binding(&spot).ok_or_else(|| format!("`{text}` is not a name that this file declares"))?;
    if let (true, Some(_)) = (binding.ranged, binding.number) {
        return Err(format!(
            "`{text}` is one of the range `{}<…>`; rename the range where it is declared",
            binding.name
        ));
    }
    Ok((spot.part.token(name.start), text))
}

/// The changes that give the name at a position another one.
///
/// # Errors
/// The reason why it cannot have that name.
pub fn rename(document: &Document, offset: usize, new: &str) -> Result<Vec<(Range<usize>, String)>, String> {
    let (_, old) = renamable(document, offset)?;
    if !is_name(new) {
        return Err(format!("`{new}` is not a name of PTX; write letters, digits, `_` and `$`, and no digit first"));
    }
    let spot = document.spot(offset).ok_or("there is no name here")?;
    let binding = document.binding(&spot).ok_or("there is no name here")?;
    if binding.ranged && new.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("ptxas takes the digits at the end of `{new}` for the number; end it in a letter"));
    }
    if document.is_taken(&spot, new) {
        return Err(format!("`{new}` is declared already"));
    }
    let rest = |range: &Range<usize>| {
        let text = document.text().as_str().get(range.clone()).unwrap_or_default();
        text.strip_prefix(old.as_str()).unwrap_or_default().to_owned()
    };
    let uses = document.uses(&binding).into_iter();
    Ok(uses.map(|found| (found.range.clone(), format!("{new}{}", rest(&found.range)))).collect())
}

/// Returns true for an identifier of PTX that means nothing yet.
fn is_name(text: &str) -> bool {
    let (source, diagnostics) = ptx_core::lex::lex(text.as_bytes());
    let one =
        source.tokens.len() == 2 && source.kind(0) == ptx_core::token::Kind::Word && source.bytes(0) == text.as_bytes();
    one && diagnostics.is_empty() && text != "_" && text != "WARP_SZ" && !table().specials.contains_key(text)
}

//! The user's names for the registers of the PTX, for messages.

use ptx_core::hash::Map;

/// The names of registers in the source, by their names in the PTX.
#[derive(Clone, Debug, Default)]
pub struct Spoken {
    /// `None` where two functions call different things by one name.
    names: Map<String, Option<Name>>,
}

/// A name in the source, and the extents of the array that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    text: String,
    extents: Vec<u64>,
}

impl Spoken {
    /// Notes what the register, or the registers of an array of these extents, that begin with `emitted` are called.
    pub(super) fn note(&mut self, emitted: &str, text: &str, extents: Vec<u64>) {
        let name = Name { text: text.to_owned(), extents };
        let known = self.names.entry(emitted.to_owned()).or_insert_with(|| Some(name.clone()));
        if known.as_ref() != Some(&name) {
            *known = None;
        }
    }

    /// A message with the source's names: `` `%acc3` `` is `` `acc[3]` ``.
    pub fn in_source(&self, message: &str) -> String {
        let mut quoted = false;
        let parts = message.split('`').map(|part| {
            let name = if quoted { self.name(part) } else { None };
            quoted = !quoted;
            name.unwrap_or_else(|| part.to_owned())
        });
        parts.collect::<Vec<_>>().join("`")
    }

    fn name(&self, register: &str) -> Option<String> {
        if let Some(name) = self.names.get(register) {
            return name.as_ref().filter(|name| name.extents.is_empty()).map(|name| name.text.clone());
        }
        // No name of an array ends in a digit.
        let base = register.trim_end_matches(|c: char| c.is_ascii_digit());
        let name = self.names.get(base)?.as_ref()?;
        let mut rest: u64 = register[base.len()..].parse().ok()?;
        let mut indices = Vec::new();
        for extent in name.extents.iter().rev().filter(|extent| **extent > 0) {
            indices.push(format!("[{}]", rest % extent));
            rest /= extent;
        }
        indices.push(name.text.clone());
        (rest == 0 && !name.extents.is_empty()).then(|| indices.into_iter().rev().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_called_as_in_the_source() {
        let mut spoken = Spoken::default();
        spoken.note("%v_1", "v", Vec::new());
        spoken.note("%acc", "acc", vec![2, 4]);
        spoken.note("%twice", "a", Vec::new());
        spoken.note("%twice", "b", Vec::new());
        let said = spoken.in_source("`%v_1`, `%acc6`, `%acc8`, `%twice`, %v_1 and `%tid.x`");
        assert_eq!(said, "`v`, `acc[1][2]`, `%acc8`, `%twice`, %v_1 and `%tid.x`");
    }
}

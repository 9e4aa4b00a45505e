//! The likely meaning of an unknown name: from its place in the instruction, so that the help declares the right
//! thing.

use super::Copy;
use crate::types;
use ptx_core::isa::find::Form;
use ptx_core::isa::{self, OperandKind, OperandSpec};
use ptx_core::token::{Kind, TokenId};

/// Meaning of a place in an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lower) enum Meant {
    /// A register of this type, as the user writes it.
    Register(String),
    /// A label.
    Label,
}

impl Meant {
    /// The meaning of an unspecific place.
    pub(in crate::lower) fn unsaid() -> Meant {
        Meant::Register("u32".to_owned())
    }

    /// A declaration that makes the name known.
    pub(in crate::lower) fn help(&self, name: &str) -> String {
        match self {
            Meant::Register(ty) => format!("declare it: `let {name}: {ty};`"),
            Meant::Label => format!("write `{name}:` in front of an instruction"),
        }
    }
}

impl Copy<'_> {
    /// The likely meaning of the name at the cursor.
    pub(super) fn meant(&self) -> Meant {
        let Some(opcode) = self.statement.opcode_at else {
            return if self.statement.guarded { Meant::Register("pred".to_owned()) } else { Meant::unsaid() };
        };
        let modifiers: Vec<&str> = (opcode + 1..self.at)
            .take_while(|at| self.source.kind(*at) == Kind::Dot)
            .map(|at| self.text(at).trim_start_matches('.'))
            .collect();
        let punct = |byte| (opcode..self.at).filter(move |at| self.is(*at, byte)).count();
        if punct(b'[') > punct(b']') {
            let narrow = modifiers.iter().any(|m| m.starts_with("shared"));
            return Meant::Register(if narrow { "u32" } else { "u64" }.to_owned());
        }
        let place = self.operand_number(opcode);
        let forms = isa::table().find(self.text(opcode), &modifiers).unwrap_or_default();
        let meant = |form: &Form| of_operand(form.row.operands.get(place)?, form);
        forms.iter().find_map(meant).unwrap_or_else(Meant::unsaid)
    }

    /// Number of operands before the cursor.
    fn operand_number(&self, opcode: TokenId) -> usize {
        let (mut depth, mut commas) = (0usize, 0);
        for at in opcode..self.at {
            match self.source.kind(at) {
                Kind::Punct(b'{' | b'[' | b'(') => depth += 1,
                Kind::Punct(b'}' | b']' | b')') => depth = depth.saturating_sub(1),
                Kind::Punct(b',') if depth == 0 => commas += 1,
                _ => {}
            }
        }
        commas
    }
}

fn of_operand(spec: &OperandSpec, form: &Form) -> Option<Meant> {
    match &spec.kind {
        OperandKind::Label => Some(Meant::Label),
        OperandKind::Pair(first, _) => of_operand(first, form),
        OperandKind::Value(value) => {
            let ty = value.ty.given(&form.slots)?;
            types::register(ty).map(|_| Meant::Register(types::name(ty)))
        }
        _ => None,
    }
}

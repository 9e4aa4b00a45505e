//! Annotations of a body: the pragmas that are conditions over its registers.

use super::body::{Body, index};
use super::names::Entity;
use super::operand;
use crate::diag::{Diagnostic, codes};
use crate::ir::Operand;
use crate::ir::annotation::{self, Annotation, Number};
use crate::isa::Type;
use crate::syntax::Directive;

impl<'t> Body<'_, 't> {
    /// Keeps the annotations among the texts of a `.pragma`.
    pub(super) fn annotations(&mut self, directive: &'t Directive) {
        let tree = self.cx.tree;
        if tree.source.bytes(directive.name) != b".pragma" {
            return;
        }
        for id in tree.list(&directive.args) {
            let tokens = &tree.expr(*id).tokens;
            let pragma = tree.source.text(tokens.start).trim_matches('"');
            let Some((kind, text)) = annotation::split(pragma) else { continue };
            let span = tree.span(tokens);
            let found = annotation::parse(text, &mut |name, ty| self.number(name, ty));
            match found {
                Ok((numbers, condition)) => {
                    let at = index(self.function.insts.len());
                    let text = text.to_owned();
                    let one = Annotation { kind, at, is_before_label: false, numbers, condition, text, span };
                    self.function.annotations.push(one);
                }
                Err(why) => {
                    let help = "compare registers: `.pragma \"assume %i < %n\";`";
                    self.cx.diagnostics.push(Diagnostic::warning(&codes::P0771, span, why).help(help));
                }
            }
        }
    }

    /// A register or a special register that holds an integer.
    fn number(&mut self, name: &'t str, ty: Option<Type>) -> Option<Number> {
        let (operand, declared) = match self.cx.names.find(name, &mut self.function.registers) {
            Some(Entity::Reg(register)) => {
                let declared = self.function.registers.get(register.index()).filter(|own| own.vector <= 1)?;
                (Operand::Reg(register), declared.ty)
            }
            Some(_) => return None,
            None => operand::special(name).map(|special| (Operand::Special(special), special.ty))?,
        };
        // A number of another width is none of this register.
        let ty = ty.unwrap_or(declared);
        Number::new(name, operand, ty).filter(|number| number.bits <= declared.bits() && Number::has_integers(declared))
    }
}

//! Elements of a vector in braces. ptxas gives the whole vector one type and holds that against the instruction:
//! untyped registers mix with all others, integers with integers, and a vector of integers passes for any type of its width.

use super::{Access, Binder, Class, Fit, Operand, Type, TypeOf, Value, Why, declared};

impl Binder<'_> {
    /// Whether the elements may stand where `value` is wanted.
    pub(super) fn elements(&self, value: &Value, access: Access, elements: &[Operand]) -> Fit {
        let wanted = self.type_of(&value.ty);
        let types: Vec<Type> = elements.iter().filter_map(|e| self.element_type(value, e)).collect();
        match elements {
            [Operand::F32(_)] if access == Access::Read && wanted.is_some_and(holds_single) => return Ok(()),
            [only] => return self.scalar(value, access, only),
            _ => {}
        }
        let of_vector = joined(&types)?;
        if let (Some(found), Some(wanted)) = (of_vector, wanted) {
            whole(found, wanted, value)?;
        }
        if of_vector.is_none() && elements.iter().all(|e| *e == Operand::Sink) {
            return Err(Why::Shape("a register among the elements".to_owned()));
        }
        let doubles = || elements.iter().any(|e| matches!(e, Operand::F64(_)));
        if let Some(wanted) = wanted.filter(|w| of_vector.is_none() && holds_single(*w) && doubles()) {
            return Err(Why::Literal(wanted));
        }
        elements.iter().enumerate().try_for_each(|(at, element)| match element {
            Operand::Reg(_) | Operand::Part(..) if value.register => Ok(()),
            Operand::Int(_) if value.literal && at > 0 => literal(of_vector, wanted, false),
            Operand::Int(_) if value.literal => literal(of_vector, None, false),
            Operand::F32(_) | Operand::F64(_) if value.literal => literal(of_vector, None, true),
            Operand::Int(_) if access == Access::Read && of_vector.is_some() => literal(of_vector, None, false),
            Operand::F64(_) if access == Access::Read && of_vector.is_some() => literal(of_vector, None, true),
            Operand::F32(_) if access == Access::Read => literal(of_vector.or(wanted), None, true),
            other => self.scalar(value, access, other),
        })
    }

    fn element_type(&self, value: &Value, element: &Operand) -> Option<Type> {
        match element {
            Operand::Reg(reg) if value.register => self.registers.get(reg.index()).map(|r| r.ty),
            Operand::Part(reg, _) if value.register => self.registers.get(reg.index()).map(|r| r.ty),
            _ => None,
        }
    }
}

/// The one type of registers side by side.
fn joined(types: &[Type]) -> Result<Option<Type>, Why> {
    let Some(first) = types.first() else { return Ok(None) };
    let typed = types.iter().find(|t| t.class() != Class::Bits).unwrap_or(first);
    let odd = types.iter().find(|t| t.bits() != first.bits() || t.class() != Class::Bits && !alike(**t, *typed));
    if let Some(odd) = odd {
        return Err(Why::Class { found: odd.name(), wanted: if odd.bits() == first.bits() { *typed } else { *first } });
    }
    Ok(Some(*types.iter().find(|t| t.class() == Class::Bits).unwrap_or(typed)))
}

fn alike(a: Type, b: Type) -> bool {
    a.class() == b.class() || is_integer(a) && is_integer(b)
}

fn is_integer(ty: Type) -> bool {
    matches!(ty.class(), Class::Unsigned | Class::Signed)
}

/// Integers pass for a float type of their width that a modifier names.
fn whole(found: Type, wanted: Type, value: &Value) -> Fit {
    let named = value.ty != TypeOf::Fixed(wanted) && wanted.class() == Class::Float && wanted.info().declares;
    let passes = named && is_integer(found) && found.bits() == wanted.bits();
    if passes { Ok(()) } else { declared(found, Some(wanted), value.wider) }
}

/// Untyped 32 bits: a literal like `0f3F800000` is one, `1.0` has 64.
fn holds_single(ty: Type) -> bool {
    ty.class() == Class::Bits && ty.bits() == 32
}

/// A literal among registers: integers stand beside integers, floats beside floats, both beside untyped registers.
fn literal(of_vector: Option<Type>, wanted: Option<Type>, float: bool) -> Fit {
    let fits = |ty: Type| match ty.class() {
        Class::Bits => true,
        Class::Unsigned | Class::Signed => !float,
        Class::Float => float,
        _ => false,
    };
    let wanted = wanted.filter(|w| w.class() != Class::Packed);
    match [of_vector, wanted].into_iter().flatten().find(|ty| !fits(*ty)) {
        Some(ty) => Err(Why::Literal(ty)),
        None => Ok(()),
    }
}

//! Elements of a vector in braces. ptxas holds each against the one before it (untyped registers go with all others, integers
//! with integers, so that `.b32` may stand between `.s32` and `.f32`), gives the whole vector one type and holds that against
//! the instruction: a vector of integers passes for any type of its width.

use super::{
    Access, Binder, Class, Fit, Operand, OperandKind, OperandSpec, Range, Type, TypeOf, Value, Why, declared,
    literal_float, literal_int,
};

impl Binder<'_> {
    /// Checks that the elements fit `value`.
    pub(super) fn elements(&self, value: &Value, access: Access, elements: &[Operand]) -> Fit {
        let odd = |e: &Operand, range: Range| matches!(e, Operand::Int(bits) if !range.contains(bits.cast_signed()));
        match value.range.filter(|range| elements.iter().any(|e| odd(e, *range))) {
            Some(range) => Err(Why::Range(range)),
            None => self.whole_vector(value, access, elements),
        }
    }

    /// The same, whatever the literals are.
    fn whole_vector(&self, value: &Value, access: Access, elements: &[Operand]) -> Fit {
        let wanted = self.type_of(&value.ty);
        match elements {
            [Operand::F32(_)] if access == Access::Read && wanted.is_some_and(|ty| holds_single(value, ty)) => {
                return Ok(());
            }
            [Operand::Special(special)] if access == Access::Read && !special.vector && special.ty.bits() > 1 => {}
            [Operand::Sink] => return Err(Why::Shape("a register".into())),
            [Operand::Reg(reg)] if self.vector_of(reg.index()) == 1 => {}
            [only] => return self.scalar(value, access, only),
            _ => {}
        }
        let links: Vec<Link> =
            elements.iter().filter_map(|e| self.link(value, access, e).transpose()).collect::<Result<_, _>>()?;
        if wanted.is_some_and(|wanted| hides_widths(value, wanted, &links)) {
            return Ok(());
        }
        let of_vector = joined(&links)?.ok_or_else(|| Why::Shape("a register among the elements".into()))?;
        let Some(wanted) = wanted else { return Ok(()) };
        let named = value.ty != TypeOf::Fixed(wanted);
        if !named && mixes_literals(&links) || names_float(value, wanted) && has_odd_literal(&links, wanted) {
            return Err(Why::Literal(wanted));
        }
        let leads = matches!(elements.first(), Some(Operand::Int(_)));
        if access == Access::Read && elements.contains(&Operand::Sink) && of_vector.bits().is_none() && !leads {
            return Err(Why::Shape("a register among the elements".into()));
        }
        match of_vector {
            Link::Register(found) if is_regrouped(value) => regrouped(found, elements.len() as u32, wanted),
            Link::Register(found) | Link::Flag(found) => whole(found, wanted, value),
            Link::Single => Type::find("f32").map_or(Ok(()), |found| whole(found, wanted, value)),
            Link::Integer if value.literal => literal_int(value, Some(wanted), 0),
            Link::Double if value.literal && wanted.class() == Class::Bits => literal_float(Some(wanted), 64),
            Link::Double if names_float(value, wanted) => Ok(()),
            Link::Integer | Link::Double => Err(Why::Literal(wanted)),
        }
    }

    /// Checks a group. If all of it is of one type, it is a vector, and only literals are looked at one by one.
    pub(super) fn group(&self, specs: &[OperandSpec], written: &[Operand]) -> Fit {
        let Some(value) = of_one_type(specs).filter(|_| specs.len() == written.len()) else {
            self.inside(specs, written)?;
            return self.neighbors(specs, written);
        };
        self.whole_vector(value, Access::Read, written)?;
        let integers = specs.iter().zip(written).filter(|(_, operand)| matches!(operand, Operand::Int(_)));
        integers.into_iter().try_for_each(|(spec, literal)| self.fit(spec, literal))
    }

    /// Checks that neighboring elements of one type in a group fit each other.
    fn neighbors(&self, specs: &[OperandSpec], written: &[Operand]) -> Fit {
        let of_value = |at: usize| match specs.get(at).map(|s| &s.kind) {
            Some(OperandKind::Value(value)) => Some(value),
            _ => None,
        };
        for (at, pair) in written.windows(2).enumerate() {
            let (Some(a), Some(b)) = (of_value(at), of_value(at + 1)) else { continue };
            let links = (self.link(a, Access::Read, &pair[0])?, self.link(b, Access::Read, &pair[1])?);
            if let (Some(before), Some(odd)) = links
                && a.ty == b.ty
                && !before.goes_with(odd)
            {
                return Err(odd.odd(before));
            }
        }
        Ok(())
    }

    /// Returns true if ptxas takes a predicate among the results: where a modifier names their type, and in `ldmatrix`. Of
    /// other instructions it makes several.
    fn counts_flags(&self, value: &Value, flag: Type) -> bool {
        let named = !matches!(value.ty, TypeOf::Fixed(_));
        self.type_of(&value.ty).is_some_and(|ty| ty.held_by(flag) || named && ty.class() != Class::Packed)
    }

    /// Relation of an element to the next; `None` for `_`.
    fn link(&self, value: &Value, access: Access, element: &Operand) -> Result<Option<Link>, Why> {
        match element {
            // Inside of braces, a register alone has no component, not even `.x`.
            Operand::Part(reg, selector)
                if self.vector_of(reg.index()) == 1
                    || access != Access::Write && !super::has_component(self.vector_of(reg.index()), selector) =>
            {
                Err(Why::Shape(format!("an element without `.{selector}`").into()))
            }
            Operand::Reg(reg) | Operand::Part(reg, _) if value.register => {
                if matches!(element, Operand::Reg(_)) && self.vector_of(reg.index()) != 1 {
                    return Err(Why::Shape("a scalar register".into()));
                }
                Ok(self.registers.get(reg.index()).map(|r| match (r.ty.class(), access) {
                    (Class::Pred, Access::Write) if self.counts_flags(value, r.ty) => Link::Flag(r.ty),
                    _ => Link::Register(r.ty),
                }))
            }
            Operand::Special(special) if access == Access::Read && !special.vector => {
                Ok(untyped(special.ty.bits()).map(Link::Register))
            }
            Operand::Int(_) if access == Access::Read => Ok(Some(Link::Integer)),
            Operand::F32(_) if access == Access::Read => Ok(Some(Link::Single)),
            Operand::F64(_) if access == Access::Read => Ok(Some(Link::Double)),
            other => self.scalar(value, access, other).map(|()| None),
        }
    }
}

/// The type of all operands of a group, if it is the same.
fn of_one_type(specs: &[OperandSpec]) -> Option<&Value> {
    let mut all = specs.iter().map(|spec| match &spec.kind {
        OperandKind::Value(value) if value.count.is_none() => Some(value),
        _ => None,
    });
    let first = all.next().flatten()?;
    all.all(|other| other.is_some_and(|v| v.ty == first.ty)).then_some(first)
}

/// Relation of an element to the next: a register, a predicate that is written (ptxas counts it as 32 bits), an integer,
/// `0f3F800000`, `1.0`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Link {
    Register(Type),
    Flag(Type),
    Integer,
    Single,
    Double,
}

impl Link {
    fn class(self) -> Class {
        match self {
            Link::Register(ty) | Link::Flag(ty) => ty.class(),
            Link::Integer => Class::Signed,
            Link::Single | Link::Double => Class::Float,
        }
    }

    fn bits(self) -> Option<u32> {
        match self {
            Link::Register(ty) => Some(ty.bits()),
            Link::Flag(_) => Some(32),
            Link::Integer | Link::Single | Link::Double => None,
        }
    }

    fn ty(self) -> Option<Type> {
        if let Link::Register(ty) | Link::Flag(ty) = self { Some(ty) } else { None }
    }

    fn goes_with(self, other: Link) -> bool {
        let (a, b) = (self.class(), other.class());
        a == b || a == Class::Bits || b == Class::Bits || is_integer(a) && is_integer(b)
    }

    /// Why it cannot stand behind `before`.
    fn odd(self, before: Link) -> Why {
        match (self.ty(), before.ty()) {
            (Some(found), Some(before)) => Why::Beside { found: found.name(), before: before.name() },
            (None, Some(ty)) | (Some(ty), None) => Why::Literal(ty),
            (None, None) => Why::Shape("a register".into()),
        }
    }
}

/// The one type of what stands side by side: untyped if they are not all the same.
fn joined(links: &[Link]) -> Result<Option<Link>, Why> {
    let Some(first) = links.first() else { return Ok(None) };
    if let Some([before, odd]) = links.windows(2).find(|pair| !pair[0].goes_with(pair[1])) {
        return Err(odd.odd(*before));
    }
    let registers = || links.iter().filter(|l| l.bits().is_some());
    let widest = registers().next().and_then(|l| l.bits());
    if let (Some(first), Some(odd)) = (registers().next(), registers().find(|l| l.bits() != widest)) {
        return Err(odd.odd(*first));
    }
    let f32 = Type::find("f32");
    let single = |l: &Link| *l == Link::Single || matches!(l, Link::Register(ty) if Some(*ty) == f32);
    let all_alike = links.iter().all(|l| l == first) || links.iter().all(single);
    Ok(if all_alike { Some(*first) } else { untyped(widest.unwrap_or(32)).map(Link::Register) })
}

fn untyped(bits: u32) -> Option<Type> {
    Type::find(match bits {
        8 => "b8",
        16 => "b16",
        64 => "b64",
        _ => "b32",
    })
}

/// Returns true if an integer in front hides the widths of the integer registers behind it.
fn hides_widths(value: &Value, wanted: Type, links: &[Link]) -> bool {
    let integer = |ty: &Type| is_integer(ty.class()) || ty.class() == Class::Bits;
    let fits = |link: &Link| matches!(link, Link::Integer) || matches!(link, Link::Register(ty) if integer(ty));
    let odd = |link: &Link| link.bits().is_some_and(|bits| bits != wanted.bits());
    let fixed_width = value.count.as_ref().is_some_and(|count| count.braces) || wanted.bits() > 64;
    links.first() == Some(&Link::Integer)
        && value.literal
        && !fixed_width
        && links.iter().all(fits)
        && links.iter().any(odd)
}

/// Checks that elements of one type have the bits that are wanted.
pub(super) fn regrouped(found: Type, elements: u32, wanted: Type) -> Fit {
    match found.bits() * elements >= wanted.bits() && found.class() != Class::Pred {
        true => Ok(()),
        false => Err(Why::Class { found: found.name(), wanted }),
    }
}

/// Returns true if the bits of all elements count, and not those of each: surfaces take two of 16 bits for one of 32.
pub(super) fn is_regrouped(value: &Value) -> bool {
    value.wider && value.count.as_ref().is_some_and(|count| count.most.is_some())
}

/// Returns true if the type is a float that a modifier names.
fn names_float(value: &Value, wanted: Type) -> bool {
    value.literal && value.ty != TypeOf::Fixed(wanted) && matches!(wanted.class(), Class::Float | Class::Packed)
}

/// Returns true if a literal stands where ptxas takes none for a float: an integer behind the first element, and
/// anything in front that does not give the vector its type.
fn has_odd_literal(links: &[Link], wanted: Type) -> bool {
    let in_front = match links.first() {
        Some(Link::Integer) => is_odd(wanted),
        Some(Link::Single | Link::Double) => is_odd(wanted) || wanted.bits() < 32,
        _ => false,
    };
    in_front || links.iter().skip(1).any(|l| *l == Link::Integer)
}

/// Returns true if a number of 32 bits is in front, and one of another kind behind it.
fn mixes_literals(links: &[Link]) -> bool {
    links.first() == Some(&Link::Single) && links.iter().any(|l| matches!(l, Link::Integer | Link::Double))
}

/// Returns true if no register is declared with it, or several numbers stand in one.
fn is_odd(ty: Type) -> bool {
    !ty.info().declares || ty.class() == Class::Packed
}

fn is_integer(class: Class) -> bool {
    matches!(class, Class::Unsigned | Class::Signed)
}

/// Integers pass for a float type of their width that a modifier names.
fn whole(found: Type, wanted: Type, value: &Value) -> Fit {
    let named = value.ty != TypeOf::Fixed(wanted) && wanted.class() == Class::Float && wanted.info().declares;
    let passes = named && is_integer(found.class()) && found.bits() == wanted.bits();
    if passes { Ok(()) } else { declared(found, Some(wanted), value.wider) }
}

/// Untyped 32 bits: a literal like `0f3F800000` is one, `1.0` has 64. Where no modifier names the type, 64 bits take it, too.
fn holds_single(value: &Value, ty: Type) -> bool {
    let fixed = matches!(value.ty, TypeOf::Fixed(_));
    ty.class() == Class::Bits && (ty.bits() == 32 || fixed && ty.bits() == 64)
}

//! Addresses and names of variables: which spaces they may be in.

use super::{Binder, Class, Fit, Type, Why};
use crate::ir::{Base, Element, Param, Register, Space, Symbol, VarId, Variable};
use crate::isa::{Arch, Handles, Short, SpaceOf};

/// The space of an address that ptxas does not look at.
const UNSEEN: &str = "unseen";

/// Registers and names that ptxas takes for an address in one place and not in another.
#[derive(Clone, Copy)]
pub(super) struct Holders {
    /// 32 bits for 64.
    pub(super) narrow: bool,
    /// 8 and 16 bits.
    pub(super) short: Short,
    /// The name of a texture, sampler or surface.
    pub(super) handles: Handles,
}

impl Holders {
    /// Returns true if 8 or 16 bits will do; `whole` for a generic or global address.
    fn short(self, whole: bool, arch: Arch) -> bool {
        let Short { refused, whole: only_whole, from } = self.short;
        !refused || only_whole && !whole || from.is_some_and(|first| !arch.provides(first))
    }

    /// Returns true if the name of a texture will do; `generic` for an address without a space.
    fn handle(self, generic: bool) -> bool {
        match self.handles {
            Handles::Refused => false,
            Handles::InSpaces => !generic,
            Handles::Taken => true,
        }
    }
}

impl Binder<'_> {
    /// `[base+offset]`.
    pub(super) fn base(&self, space: &SpaceOf, holders: Holders, base: Base, offset: i64) -> Fit {
        if let SpaceOf::Register(ty) = space {
            return if ty.class() == Class::Opaque && offset != 0 {
                Err(Why::Shape("a handle without an offset".into()))
            } else {
                self.held(*ty, base)
            };
        }
        let spaces = self.spaces(space);
        match base {
            Base::Reg(reg) if spaces == [UNSEEN] => self.small(reg.index()),
            _ if spaces == [UNSEEN] => Ok(()),
            Base::Absolute if spaces.contains(&"local") => Ok(()),
            Base::Absolute => Err(Why::Shape("an address in a register or of a variable".into())),
            Base::Reg(reg) => self.registers.get(reg.index()).map_or(Ok(()), |r| self.address(spaces, holders, r)),
            Base::Symbol(Symbol::Func(_)) => Err(Why::Space("func")),
            Base::Symbol(Symbol::Var(var)) if self.is_opaque(var) => {
                if holders.handle(spaces.is_empty()) {
                    return Ok(());
                }
                Err(Why::Space(self.variable_space(var).unwrap_or_default()))
            }
            Base::Symbol(Symbol::Var(var)) | Base::Element(Element { array: var, .. }) if spaces.is_empty() => {
                self.generic(space, var)
            }
            Base::Symbol(Symbol::Var(var)) | Base::Element(Element { array: var, .. }) => self.variable(space, var),
        }
    }

    /// A register in brackets that is not looked at: of one number.
    fn small(&self, reg: usize) -> Fit {
        let wide = self.registers.get(reg).is_some_and(|r| r.vector != 1 || r.ty.bits() > 64);
        if wide { Err(Why::Shape("an address in a 32- or 64-bit integer register".into())) } else { Ok(()) }
    }

    /// A variable where a generic address stands.
    fn generic(&self, space: &SpaceOf, var: VarId) -> Fit {
        match (space, self.variable_space(var)) {
            (SpaceOf::Slot(_, only), Some(found)) if !only.is_empty() && !only.contains(&found) => {
                Err(Why::Space(found))
            }
            (_, Some(found @ ("const" | "param"))) => Err(Why::Space(found)),
            _ => Ok(()),
        }
    }

    /// A value that is no address: a handle (of a texture: also its variable), an address of tensor memory.
    fn held(&self, ty: Type, base: Base) -> Fit {
        match base {
            Base::Reg(reg) if self.vector_of(reg.index()) == 1 => self.register(Some(ty), false, reg.index()),
            Base::Symbol(Symbol::Var(var)) if self.is_one_handle(var, ty) => Ok(()),
            _ => Err(Why::Shape("a register".into())),
        }
    }

    /// Returns true for a texture, sampler or surface of a module or of an entry; an array holds several.
    pub(super) fn is_one_handle(&self, var: VarId, ty: Type) -> bool {
        let variable = self.module.variables.get(var.index());
        variable.is_some_and(|v| v.ty == ty && v.dims.is_empty() && matches!(v.space, Space::Opaque | Space::Param))
    }

    /// A variable by its name.
    pub(super) fn variable(&self, space: &SpaceOf, var: VarId) -> Fit {
        let (Some(found), spaces) = (self.variable_space(var), self.spaces(space)) else { return Ok(()) };
        let number = |param: &Param| match param {
            Param::Var(id) => Some(*id),
            Param::Reg(_) => None,
        };
        let of_entry = self.entry_params.binary_search_by_key(&Some(var), number).is_ok();
        let fits = |name: &&str| match name.split_once("::") {
            Some(("param", "func")) => found == "param" && !of_entry,
            Some(("param", "entry")) => found == "param" && of_entry,
            Some((space, _)) => space == found,
            // A handle as a number is what `mov.u64` and `cvta` give.
            None => {
                *name == found && !(spaces.len() > 1 && self.is_opaque(var))
                    || spaces == ["global"] && found != "param" && self.is_opaque(var)
            }
        };
        if spaces.is_empty() || spaces.iter().any(fits) { Ok(()) } else { Err(Why::Space(found)) }
    }

    /// Returns true for a `.param` variable of the body. It holds an argument of a call, and has no address.
    pub(super) fn is_argument(&self, var: VarId) -> bool {
        self.variable_space(var) == Some("param") && self.locals.binary_search(&var).is_ok()
    }

    /// Textures, samplers and surfaces are in global memory; ptxas takes their addresses for such.
    fn is_opaque(&self, var: VarId) -> bool {
        self.module.variables.get(var.index()).is_some_and(|v| v.ty.class() == Class::Opaque)
    }

    /// A function by its name.
    pub(super) fn function(&self, space: &SpaceOf) -> Fit {
        let spaces = self.spaces(space);
        if spaces.is_empty() || spaces.contains(&"func") { Ok(()) } else { Err(Why::Space("func")) }
    }

    /// The spaces an address may be in; none for a generic one.
    fn spaces<'w>(&self, wanted: &'w SpaceOf) -> &'w [&'static str] {
        match wanted {
            SpaceOf::Generic | SpaceOf::Register(_) => &[],
            SpaceOf::Fixed(names) => names,
            SpaceOf::Slot(slot, _) => {
                self.form.slots.get(*slot).copied().flatten().map_or(&[], |m| std::slice::from_ref(&m.text))
            }
        }
    }

    /// An address in a register. Handles, and addresses in windows as large as the memory, take all 64 bits.
    fn address(&self, spaces: &[&'static str], holders: Holders, register: &Register) -> Fit {
        let handle = spaces.iter().any(|s| Type::find(s).is_some());
        let whole = spaces.iter().all(|s| *s == "global") && self.module.address_size == 64;
        match register.ty.bits() {
            _ if register.vector != 1 || !is_address(register.ty) || spaces == ["param::func"] => {
                Err(Why::Shape("an address in a 32- or 64-bit integer register".into()))
            }
            32 if whole && !holders.narrow || handle => Err(Why::Shape("a 64-bit address".into())),
            8 | 16 if !holders.short(whole, self.module.arch) => {
                Err(Why::Shape("an address in a 32- or 64-bit integer register".into()))
            }
            _ => Ok(()),
        }
    }

    /// The space of a variable as instructions name it; an opaque variable's is its type.
    fn variable_space(&self, var: VarId) -> Option<&'static str> {
        self.module.variables.get(var.index()).map(space_name)
    }
}

fn space_name(variable: &Variable) -> &'static str {
    match variable.space {
        Space::Global => "global",
        Space::Shared => "shared",
        Space::Const => "const",
        Space::Local => "local",
        Space::Param => "param",
        Space::Opaque => variable.ty.name(),
    }
}

fn is_address(ty: Type) -> bool {
    matches!(ty.class(), Class::Bits | Class::Unsigned | Class::Signed) && matches!(ty.bits(), 8 | 16 | 32 | 64)
}

//! To which variable an address belongs: the one that the instruction names, or whose address its register was made from.
//!
//! It is found once, when a function is decoded. A register that may hold addresses of several variables belongs to none, and
//! so does what comes from memory or from a parameter.

use crate::layout::{Home, Layout};
use crate::space::Where;
use ptx_core::check::access;
use ptx_core::ir::{Base, Element, Function, Inst, Module, Operand, Symbol, VarId};
use ptx_core::isa::Access;

/// The variables of an instruction's addresses, at most one of each space.
#[derive(Clone, Debug)]
pub(crate) struct Within(Vec<Extent>);

/// Extent of a variable.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub space: Where,
    /// In local memory from the start of the frame.
    pub at: u64,
    pub size: u64,
    pub name: String,
}

/// Origins of the registers of a function.
pub(crate) struct Bases(Vec<Made>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// From no address of a variable.
    Plain,
    From(VarId),
    /// From several.
    Mixed,
}

impl Made {
    fn with(self, other: Made) -> Made {
        match (self, other) {
            (Made::Plain, one) | (one, Made::Plain) => one,
            (a, b) if a == b => a,
            _ => Made::Mixed,
        }
    }
}

impl Bases {
    pub(crate) fn new(function: &Function) -> Bases {
        let mut bases = Bases(vec![Made::Plain; function.registers.len()]);
        let makes: Vec<&Inst> = function.insts.iter().filter(|inst| !inst.operands.iter().any(is_memory)).collect();
        loop {
            let mut changed = false;
            for inst in &makes {
                let made = bases.sources(inst);
                access::registers(inst, &mut |register, access| {
                    if let Some(old) = bases.0.get_mut(register.index()).filter(|_| access != Access::Read) {
                        let new = old.with(made);
                        changed |= new != *old;
                        *old = new;
                    }
                });
            }
            if !changed {
                return bases;
            }
        }
    }

    /// Sources of an instruction's results: two addresses, even of one variable, are a difference or a choice.
    fn sources(&self, inst: &Inst) -> Made {
        let mut found = Vec::new();
        for operand in &inst.operands {
            let symbol = match operand {
                Operand::Symbol(symbol, _) => Some(*symbol),
                Operand::Element(base, _) => base.symbol(),
                _ => None,
            };
            if let Some(Symbol::Var(id)) = symbol {
                found.push(Made::From(id));
            }
        }
        access::registers(inst, &mut |register, access| {
            if access == Access::Read {
                found.extend(self.0.get(register.index()).filter(|made| **made != Made::Plain));
            }
        });
        match found.as_slice() {
            [] => Made::Plain,
            [only] => *only,
            _ => Made::Mixed,
        }
    }

    /// The variables to which an instruction's addresses belong.
    pub(crate) fn within_of(&self, inst: &Inst, module: &Module, layout: &Layout) -> Option<Box<Within>> {
        let mut found: Vec<Extent> = Vec::new();
        for operand in &inst.operands {
            let Operand::Memory { base, .. } = operand else { continue };
            let made = match base {
                Base::Reg(register) => self.0.get(register.index()).copied().unwrap_or(Made::Mixed),
                Base::Symbol(Symbol::Var(id)) | Base::Element(Element { array: id, .. }) => Made::From(*id),
                _ => Made::Plain,
            };
            let Made::From(id) = made else { continue };
            let extent = extent(module, layout, id)?;
            if found.iter().any(|other| other.space == extent.space) {
                return None;
            }
            found.push(extent);
        }
        let memory = inst.operands.iter().filter(|operand| is_memory(operand)).count();
        (!found.is_empty() && found.len() == memory).then(|| Box::new(Within(found)))
    }
}

fn is_memory(operand: &Operand) -> bool {
    matches!(operand, Operand::Memory { .. })
}

/// Extent of a variable, if others are beside it in its space.
fn extent(module: &Module, layout: &Layout, id: VarId) -> Option<Extent> {
    let variable = module.variables.get(id.index())?;
    let (space, at) = match layout.home(id)? {
        Home::Shared(at) => (Where::Shared, at),
        Home::Const(at) => (Where::Const, at),
        Home::Param(at) => (Where::Param, at),
        Home::Frame(at) => (Where::Local, at),
        Home::Global(_) | Home::Dynamic => return None,
    };
    Some(Extent { space, at, size: variable.size, name: variable.name.clone() })
}

impl Within {
    /// The variable of this space that does not hold `at .. at + size`.
    #[inline]
    pub(crate) fn leaves(&self, space: Where, at: u64, size: u64) -> Option<&Extent> {
        let extent = self.0.iter().find(|extent| extent.space == space)?;
        let inside = at >= extent.at && at.saturating_add(size) <= extent.at.saturating_add(extent.size);
        (!inside).then_some(extent)
    }
}

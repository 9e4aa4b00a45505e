//! Decoding: a module becomes one step an instruction, once.

use super::field::{Field, encode_floats, is_float};
use super::layout::{Home, Layout, Slot};
use super::listing::{Code, Data, Entry, Listing};
use super::names::Names;
use super::ops::{self, role::find_role};
use super::program::{Instruction, Program};
use super::role::Role;
use super::site::Site;
use ptx_core::check::{Checked, access};
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::ir::{Function, Inst, Module, Operand, Param, Variable};
use ptx_core::isa::{Access, SpecialRegister, Type};
use std::sync::atomic::{AtomicU64, Ordering};

impl Program {
    /// Decodes every function of a checked module, without notes for an observer; over the real numbers if there is a field.
    pub(super) fn decode(checked: &Checked, field: Option<Field>) -> Result<Program, Vec<Diagnostic>> {
        let module = checked.module();
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let layout = Layout::new(module);
        let starts = starts(module);
        let (mut decoded, mut errors, mut loops) = (Vec::new(), Vec::new(), Vec::new());
        for (index, function) in module.functions.iter().enumerate().filter(|(_, f)| f.defined) {
            for inst in &function.insts {
                match decode((module, &layout, index), inst, &starts, field) {
                    Ok(instruction) => decoded.push(instruction),
                    Err(error) => errors.push(error),
                }
            }
            decoded.push(fall_off(function, index));
            loops.extend(loops_of(function, starts[index]));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let (instructions, code) = decoded.into_iter().unzip();
        let listing = Listing {
            arch: module.arch,
            functions: (0..module.functions.len()).map(|i| entry(module, &layout, i, &starts)).collect(),
            code,
            registers: module
                .functions
                .iter()
                .zip(&layout.functions)
                .map(|(f, sizes)| names(f, &sizes.slots))
                .collect(),
            names: (0..module.functions.len()).map(|i| Names::new(module, &layout, i)).collect(),
            layout,
            variables: module.variables.iter().map(|variable| data(variable, field)).collect(),
            loops,
        };
        let alone = module.functions.iter().any(sees_order);
        Ok(Program { id: NEXT.fetch_add(1, Ordering::Relaxed), instructions, listing, alone, notes: None, field })
    }
}

/// The first instruction of each function; each has one more than its IR: the return at its end.
pub(super) fn starts(module: &Module) -> Vec<u32> {
    let mut next = 0;
    let mut starts = Vec::with_capacity(module.functions.len());
    for function in &module.functions {
        starts.push(next);
        next += if function.defined { function.insts.len() as u32 + 1 } else { 0 };
    }
    starts
}

fn decode(
    (module, layout, function): (&Module, &Layout, usize),
    inst: &Inst,
    starts: &[u32],
    field: Option<Field>,
) -> Result<(Instruction, Code), Diagnostic> {
    let refuse = |what: String| {
        let place = if field.is_some() { "the field of a proof" } else { "the CPU device" };
        Diagnostic::error(&codes::P0990, inst.name_span, format!("{place} cannot run this: {what}"))
    };
    let row = inst.row.ok_or_else(|| refuse("it stands in `unchecked`, so its meaning is unknown".into()))?;
    let site = Site::new(module, layout, function, inst, row, starts).over(field);
    let step = ops::decode(&site).and_then(|step| site.with_element(step));
    let step = step.map_err(|what| refuse(what).section(row.section))?;
    let guard = match inst.guard {
        Some(guard) => Some((site.slot(guard.register).map_err(refuse)?, guard.negated)),
        None => None,
    };
    let code = Code {
        span: inst.span,
        function: function as u32,
        name: row.name,
        row: Some(row),
        modifiers: site.modifiers.clone().into(),
        role: find_role(&site),
        reads: accessed(&site, Access::Write),
        writes: accessed(&site, Access::Read),
        constant: inst.operands.iter().rfind(|operand| **operand != Operand::Absent).and_then(
            |operand| match operand {
                Operand::Int(value) => Some(*value),
                _ => None,
            },
        ),
    };
    Ok((Instruction { step, guard, reported: false }, code))
}

/// Instructions of which the blocks' order decides what they give: where two blocks use them on one address, running ahead
/// would be in vain.
const ORDERED: [&str; 4] = ["atom", "red", "multimem", "sured"];
/// Special registers that tell how long others have run.
const CLOCKS: [&str; 2] = ["%clock", "%globaltimer"];
/// Functions that hand out memory of all blocks.
const SERVICES: [&str; 2] = ["malloc", "free"];

/// Returns true if a function's code can observe the order in which blocks run.
fn sees_order(function: &Function) -> bool {
    let shared = |inst: &Inst| inst.slots.iter().flatten().any(|m| m.text.starts_with("shared"));
    let ordered = |inst: &Inst| inst.row.is_some_and(|row| ORDERED.contains(&row.opcode()));
    let reads = |inst: &Inst| {
        let mut found = false;
        let clock = |register: &SpecialRegister| CLOCKS.iter().any(|clock| register.name.starts_with(clock));
        inst.operands.iter().for_each(|o| access::specials(o, &mut |register| found |= clock(register)));
        found
    };
    let serves = SERVICES.contains(&function.name.as_str()) && !function.defined;
    serves || function.insts.iter().any(|inst| ordered(inst) && !shared(inst) || reads(inst))
}

/// The registers of an instruction, its guard aside, without those that it only accesses so.
fn accessed(site: &Site, not: Access) -> Box<[u32]> {
    let plain = Inst { guard: None, ..site.inst.clone() };
    let mut found = Vec::new();
    access::registers(&plain, &mut |register, access| {
        if access != not {
            found.extend(site.slot(register));
        }
    });
    found.into()
}

/// The registers of a function, by slot.
fn names(function: &Function, slots: &[u32]) -> Vec<(u32, String)> {
    function.registers.iter().zip(slots).map(|(register, slot)| (*slot, register.name.clone())).collect()
}

/// `.maxnreg`.
fn max_registers(function: &Function) -> Option<u32> {
    let limit = function.limit("maxnreg")?;
    u32::try_from(*limit.values.first()?).ok()
}

/// The return at the end of every function.
fn fall_off(function: &Function, index: usize) -> (Instruction, Code) {
    let code = Code {
        span: function.span,
        function: index as u32,
        name: "ret",
        row: None,
        modifiers: Box::default(),
        role: Role::PLAIN,
        constant: None,
        reads: Box::default(),
        writes: Box::default(),
    };
    (Instruction { step: Box::new(ops::control::ret), guard: None, reported: false }, code)
}

/// The jumps back of a function: from label to jump.
fn loops_of(function: &Function, start: u32) -> Vec<(u32, u32, String)> {
    let mut found = Vec::new();
    for (at, inst) in function.insts.iter().enumerate() {
        for operand in &inst.operands {
            let Operand::Label(id) = operand else { continue };
            let Some(label) = function.labels.get(id.index()).filter(|l| l.at as usize <= at) else { continue };
            found.push((start + label.at, start + at as u32, label.name.clone()));
        }
    }
    found
}

fn entry(module: &Module, layout: &Layout, index: usize, starts: &[u32]) -> Entry {
    let function = &module.functions[index];
    let sizes = &layout.functions[index];
    let slot = |param: &Param| match param {
        Param::Reg(register) => {
            let (bits, count) =
                function.registers.get(register.index()).map_or((64, 1), |r| (r.ty.bits(), r.vector.max(1)));
            sizes.slots.get(register.index()).map(|slot| Slot::Register { slot: *slot, bits, count })
        }
        Param::Var(id) => layout.frame_slot(module, *id),
    };
    let dynamic =
        module.variables.iter().enumerate().filter(|(i, _)| layout.homes.get(*i) == Some(&Some(Home::Dynamic)));
    Entry {
        name: function.name.clone(),
        entry: function.entry,
        defined: function.defined,
        start: starts[index],
        registers: sizes.registers,
        frame: sizes.frame,
        params: sizes.params,
        shared: sizes.shared,
        max_registers: max_registers(function),
        dynamic_align: dynamic.map(|(_, v)| v.align).max().unwrap_or(1).max(16),
        arguments: function.params.iter().filter_map(slot).collect(),
        results: function.returns.iter().filter_map(slot).collect(),
        floats: function.params.iter().filter_map(|param| float(module, layout, param)).collect(),
    }
}

/// A parameter of an entry that is a float: its place and its type.
fn float(module: &Module, layout: &Layout, param: &Param) -> Option<(u64, Type)> {
    let Param::Var(id) = param else { return None };
    match (layout.home(*id)?, module.variables.get(id.index())?) {
        (Home::Param(at), variable) if is_float(variable.ty) => Some((at, variable.ty)),
        _ => None,
    }
}

fn data(variable: &Variable, field: Option<Field>) -> Data {
    let mut init = variable.init.clone();
    if let (Some(field), Some(init)) = (field, &mut init) {
        encode_floats(field, variable.ty, &mut init.bytes);
    }
    Data { name: variable.name.clone(), size: variable.size, init }
}

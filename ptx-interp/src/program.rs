//! Decoding: a module becomes one step an instruction, once.

use super::ctx::Step;
use super::fault::Party;
use super::layout::{Home, Layout};
use super::names::Names;
use super::ops;
use super::role::{Act, Role};
use super::site::Site;
use ptx_core::check::{Checked, access};
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::ir::{Function, Init, Inst, Module, Operand, Param, VarId};
use ptx_core::isa::{Access, Arch};
use ptx_core::span::Span;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A module, decoded for the machine. Its variables in global memory belong to the machine that launches it: every
/// machine has its own, initialised at the first launch.
pub struct Program {
    pub(super) id: u64,
    pub(super) arch: Arch,
    pub(super) functions: Vec<Entry>,
    pub(super) code: Vec<Code>,
    pub(super) layout: Layout,
    /// Name, size and initialiser of every variable, by its number in the module.
    pub(super) variables: Vec<Data>,
    /// The slots and names of each function's registers.
    registers: Vec<Vec<(u32, String)>>,
    /// True if its blocks can see in which order they run, by other means than memory: they stay on one core.
    pub(super) alone: bool,
    /// Targets of jumps back, with the label: for naming loops.
    loops: Vec<(u32, u32, String)>,
    /// Names of the variables that each function sees.
    pub(super) names: Vec<Names>,
    /// What an observer needs of each instruction.
    pub(super) notes: Option<Arc<dyn Any + Send + Sync>>,
}

/// One instruction.
pub(super) struct Code {
    pub step: Step,
    /// The predicate's slot and whether it is negated.
    pub guard: Option<(u32, bool)>,
    pub span: Span,
    pub function: u32,
    /// The name of its row.
    pub name: &'static str,
    /// Its meaning beside its result.
    pub role: Role,
    /// True if the observer is told before and after it runs, see [`super::observe`].
    pub reported: bool,
    /// The registers that it reads and writes (its guard aside), for those who trace it.
    pub reads: Box<[u32]>,
    pub writes: Box<[u32]>,
}

/// Data for running a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub name: String,
    pub entry: bool,
    pub defined: bool,
    /// Its first instruction.
    pub start: u32,
    /// 64-bit slots of registers.
    pub registers: u32,
    /// Bytes of local memory.
    pub frame: u64,
    /// Bytes of parameters (entries).
    pub params: u64,
    /// Bytes of static shared memory (entries).
    pub shared: u64,
    /// The alignment of dynamic shared memory.
    pub dynamic_align: u64,
    /// The registers that a thread starts with, if its directives say.
    pub max_registers: Option<u32>,
    /// Destinations of arguments.
    pub arguments: Vec<Slot>,
    /// Places of results.
    pub results: Vec<Slot>,
}

/// A parameter of a function: registers, or bytes of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A register of so many components, each of so many bits in slots of its own.
    Register {
        slot: u32,
        bits: u32,
        count: u32,
    },
    Frame {
        offset: u64,
        size: u64,
    },
}

/// A variable's contents.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub name: String,
    pub size: u64,
    pub init: Option<Init>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.functions.iter().map(|e| e.name.as_str()).collect();
        f.debug_struct("Program").field("arch", &self.arch).field("functions", &names).finish_non_exhaustive()
    }
}

impl Program {
    /// Decodes every function of a checked module, without notes for an observer.
    pub(super) fn decode(checked: &Checked) -> Result<Program, Vec<Diagnostic>> {
        let module = checked.module();
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let layout = Layout::new(module);
        let starts = starts(module);
        let (mut code, mut errors, mut loops) = (Vec::new(), Vec::new(), Vec::new());
        for (index, function) in module.functions.iter().enumerate().filter(|(_, f)| f.defined) {
            for inst in &function.insts {
                match decode(module, &layout, index, inst, &starts) {
                    Ok(step) => code.push(step),
                    Err(error) => errors.push(error),
                }
            }
            code.push(fall_off(function, index));
            loops.extend(loops_of(function, starts[index]));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Program {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
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
            variables: module.variables.iter().map(data).collect(),
            alone: module.functions.iter().any(sees_order),
            loops,
            notes: None,
        })
    }

    /// The target it was written for.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The names of the entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter(|f| f.entry && f.defined).map(|f| f.name.as_str())
    }

    /// Number of bytes of parameters of an entry.
    pub fn param_bytes(&self, entry: &str) -> Option<u64> {
        self.functions.iter().find(|f| f.entry && f.name == entry).map(|f| f.params)
    }

    /// Number of bytes of static shared memory of an entry.
    pub fn shared_bytes(&self, entry: &str) -> Option<u64> {
        self.functions.iter().find(|f| f.entry && f.name == entry).map(|f| f.shared)
    }

    /// The name of the register that begins at a slot of a function's frame.
    pub(super) fn register_name(&self, function: u32, slot: u32) -> &str {
        let names = self.registers.get(function as usize).map_or(&[][..], Vec::as_slice);
        names.binary_search_by_key(&slot, |(slot, _)| *slot).map_or("", |at| &names[at].1)
    }

    /// Returns true if an entry waits for the launch before, so that it may begin earlier.
    pub(super) fn waits_for_launch(&self, entry: &Entry) -> bool {
        let code = self
            .code
            .iter()
            .filter(|code| self.functions.get(code.function as usize).is_some_and(|f| std::ptr::eq(f, entry)));
        code.into_iter().any(|code| code.role.act == Act::Launch)
    }

    pub(super) fn function_name(&self, index: u32) -> Option<String> {
        self.functions.get(index as usize).map(|f| f.name.clone())
    }

    /// The bytes of the frame of the function that holds an instruction.
    pub(super) fn frame_at(&self, pc: u32) -> u64 {
        let function = self.code.get(pc as usize).and_then(|code| self.functions.get(code.function as usize));
        function.map_or(0, |f| f.frame)
    }

    /// The smallest loop around an instruction: its first and last instruction, and its label.
    pub(super) fn loop_around(&self, pc: u32) -> Option<(u32, u32, &str)> {
        let around = self.loops.iter().filter(|(first, last, _)| (*first..=*last).contains(&pc));
        around.min_by_key(|(first, last, _)| last - first).map(|(first, last, name)| (*first, *last, name.as_str()))
    }
}

/// An instruction of the program, with what happened there.
pub(super) fn party(program: &Program, pc: u32, text: String) -> Option<Party> {
    let span = program.code.get(pc as usize)?.span;
    Some(Party { text, span, thread: None, block: None })
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

fn decode(module: &Module, layout: &Layout, function: usize, inst: &Inst, starts: &[u32]) -> Result<Code, Diagnostic> {
    let refuse = |what: String| {
        Diagnostic::error(&codes::P0990, inst.name_span, format!("the CPU device cannot run this: {what}"))
    };
    let row = inst.row.ok_or_else(|| refuse("it stands in `unchecked`, so its meaning is unknown".into()))?;
    let site = Site::new(module, layout, function, inst, row, starts);
    let step = ops::decode(&site).map_err(|what| refuse(what).section(row.section))?;
    let guard = match inst.guard {
        Some(guard) => Some((site.slot(guard.register).map_err(refuse)?, guard.negated)),
        None => None,
    };
    Ok(Code {
        step,
        guard,
        span: inst.span,
        function: function as u32,
        name: row.name,
        role: Role::of(&site),
        reported: false,
        reads: accessed(&site, Access::Write),
        writes: accessed(&site, Access::Read),
    })
}

/// Instructions of which the blocks' order decides what they give: where two blocks use them on one address, running ahead
/// would be in vain.
const ORDERED: [&str; 4] = ["atom", "red", "multimem", "sured"];
/// Special registers that tell how long others have run.
const CLOCKS: [&str; 2] = ["%clock", "%globaltimer"];
/// Functions that hand out memory of all blocks.
const SERVICES: [&str; 2] = ["malloc", "free"];

/// Returns true if a function's code tells in which order blocks run.
fn sees_order(function: &Function) -> bool {
    let shared = |inst: &Inst| inst.slots.iter().flatten().any(|m| m.text.starts_with("shared"));
    let ordered = |inst: &Inst| inst.row.is_some_and(|row| ORDERED.contains(&row.opcode()));
    let clock =
        |operand: &Operand| matches!(operand, Operand::Special(r) if CLOCKS.iter().any(|c| r.name.starts_with(c)));
    let reads = |inst: &Inst| inst.operands.iter().any(clock);
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
    let limit = function.limits.iter().find(|limit| limit.name == "maxnreg")?;
    u32::try_from(*limit.values.first()?).ok()
}

/// The return at the end of every function.
fn fall_off(function: &Function, index: usize) -> Code {
    Code {
        step: Box::new(ops::control::ret),
        guard: None,
        span: function.span,
        function: index as u32,
        name: "ret",
        role: Role::PLAIN,
        reported: false,
        reads: Box::default(),
        writes: Box::default(),
    }
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
        Param::Var(id) => frame_slot(module, layout, *id),
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
    }
}

/// A parameter variable of a `.func`, or one of a body that a call names.
pub(super) fn frame_slot(module: &Module, layout: &Layout, id: VarId) -> Option<Slot> {
    match layout.home(id)? {
        Home::Frame(offset) => Some(Slot::Frame { offset, size: module.variables.get(id.index())?.size }),
        _ => None,
    }
}

fn data(variable: &ptx_core::ir::Variable) -> Data {
    Data { name: variable.name.clone(), size: variable.size, init: variable.init.clone() }
}

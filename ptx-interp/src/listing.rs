//! The facts about a decoded module beside its steps: instructions, functions, variables and their names.

use super::fault::Party;
use super::layout::{Layout, Slot};
use super::names::Names;
use super::role::{Act, Role};
use ptx_core::ir::Init;
use ptx_core::isa::{Arch, Row, Type};
use ptx_core::span::Span;

/// The instructions, functions and variables of a program, as messages, observers and calls see them.
pub(super) struct Listing {
    pub arch: Arch,
    pub functions: Vec<Entry>,
    /// One for each instruction of the program.
    pub code: Vec<Code>,
    pub layout: Layout,
    /// Name, size and initializer of every variable, by its number in the module.
    pub variables: Vec<Data>,
    /// The slots and names of each function's registers.
    pub registers: Vec<Vec<(u32, String)>>,
    /// Targets of jumps back, with the label: for naming loops.
    pub loops: Vec<(u32, u32, String)>,
    /// Names of the variables that each function sees.
    pub names: Vec<Names>,
}

/// The facts about one instruction.
pub(super) struct Code {
    pub span: Span,
    pub function: u32,
    /// The name of its row.
    pub name: &'static str,
    /// Its row, and the modifiers as written; the return at the end of a function has none.
    pub row: Option<&'static Row>,
    pub modifiers: Box<[&'static str]>,
    /// Its meaning beside its result.
    pub role: Role,
    /// The registers that it reads and writes (its guard aside), for those who trace it.
    pub reads: Box<[u32]>,
    pub writes: Box<[u32]>,
    /// Its last operand that is written, if that is an integer constant.
    pub constant: Option<u64>,
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
    /// The parameters that are floats, by their first byte (entries).
    pub floats: Vec<(u64, Type)>,
}

/// A variable's contents.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub name: String,
    pub size: u64,
    pub init: Option<Init>,
}

impl Listing {
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

    /// The name of an instruction, for messages.
    pub(super) fn name_at(&self, pc: u32) -> &'static str {
        self.code.get(pc as usize).map_or("an instruction", |code| code.name)
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
pub(super) fn party(listing: &Listing, pc: u32, text: String) -> Option<Party> {
    let span = listing.code.get(pc as usize)?.span;
    Some(Party { text, span, thread: None, block: None })
}

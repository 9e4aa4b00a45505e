//! Uses of a kernel's address parameters: the types of the elements that it reads and writes there, and whether it
//! writes. PTX declares most pointers as 64 bits only.
//!
//! A guess for people, taken from the code that is there: nothing of the PTX depends on it, only the types of the launch.

use ptx_core::syntax::{ExprId, ExprKind, Inst, StmtId, StmtKind, Tree};
use std::collections::HashMap;

/// Facts about a parameter that is used as an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Pointer {
    /// The types of what is read and written: Rust's name for it.
    elements: Vec<&'static str>,
    /// True if something may write there.
    pub(super) written: bool,
    /// True if it is used as an address at all.
    pub(super) used: bool,
}

impl Pointer {
    /// The type of its elements: the one that all accesses agree on, or bytes.
    pub(super) fn element(&self) -> &'static str {
        match self.elements.as_slice() {
            [first, rest @ ..] if rest.iter().all(|ty| ty == first) => first,
            // `u32` is what a move of any 32 bits is called.
            many if many.iter().all(|ty| ty.ends_with("32")) => one_of(many, "u32"),
            many if many.iter().all(|ty| ty.ends_with("64")) => one_of(many, "u64"),
            _ => "u8",
        }
    }
}

/// The only type beside the one without a meaning.
fn one_of(types: &[&'static str], plain: &'static str) -> &'static str {
    let mut others = types.iter().filter(|ty| **ty != plain);
    match others.next() {
        Some(first) if others.all(|ty| ty == first) => first,
        _ => plain,
    }
}

/// Uses of the parameters of an entry, by their symbol.
pub(super) fn pointers(tree: &Tree, children: &[StmtId]) -> HashMap<String, Pointer> {
    let mut insts = Vec::new();
    collect(tree, children, &mut insts);
    let mut finder = Finder { tree, floats: HashMap::new(), from: HashMap::new(), found: HashMap::new() };
    insts.iter().for_each(|inst| finder.note_floats(inst));
    insts.iter().for_each(|inst| finder.inst(inst));
    finder.found
}

fn collect<'t>(tree: &'t Tree, ids: &[StmtId], out: &mut Vec<&'t Inst>) {
    for id in ids {
        let stmt = tree.stmt(*id);
        if let StmtKind::Inst(inst) = &stmt.kind {
            out.push(inst);
        }
        collect(tree, stmt.children(), out);
    }
}

struct Finder<'t> {
    tree: &'t Tree,
    /// Registers that instructions on floats name, and their type.
    floats: HashMap<String, &'static str>,
    /// The parameter that an address in a register is made from.
    from: HashMap<String, String>,
    found: HashMap<String, Pointer>,
}

/// Modifiers that say a type, and Rust's name for it.
const TYPES: [(&str, &str); 18] = [
    (".f32", "f32"),
    (".f64", "f64"),
    (".s32", "i32"),
    (".u32", "u32"),
    (".b32", "u32"),
    (".s64", "i64"),
    (".u64", "u64"),
    (".b64", "u64"),
    (".s16", "i16"),
    (".u16", "u16"),
    (".b16", "u16"),
    (".f16", "u16"),
    (".bf16", "u16"),
    (".f16x2", "u32"),
    (".bf16x2", "u32"),
    (".s8", "i8"),
    (".u8", "u8"),
    (".b8", "u8"),
];

/// Instructions whose result is an address if one of their operands is.
const DERIVE: [&str; 8] = ["mov", "cvta", "add", "sub", "mad", "or", "selp", "and"];

impl Finder<'_> {
    fn modifiers(&self, inst: &Inst) -> Vec<&str> {
        inst.modifiers.clone().map(|t| self.tree.source.text(t)).collect()
    }

    /// The register or symbol that an operand is, or that an address starts with.
    fn name(&self, id: ExprId) -> Option<String> {
        let expr = self.tree.expr(id);
        match &expr.kind {
            ExprKind::Name => Some(self.tree.compact(&expr.tokens)),
            ExprKind::Brackets(list) => self.name(*self.tree.list(list).first()?),
            ExprKind::Binary(_, base, _) => self.name(*base),
            _ => None,
        }
    }

    /// The registers among an operand, which may be a list.
    fn registers(&self, id: ExprId) -> Vec<String> {
        match &self.tree.expr(id).kind {
            ExprKind::Braces(list) => self.tree.list(list).iter().flat_map(|id| self.registers(*id)).collect(),
            ExprKind::Name => self.name(id).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn note_floats(&mut self, inst: &Inst) {
        let moves = ["ld", "st", "mov", "cvt", "setp", "selp"].contains(&self.tree.source.text(inst.opcode));
        let float =
            |m: &str| TYPES.iter().find(|(ptx, rust)| *ptx == m && rust.starts_with('f')).map(|(_, rust)| *rust);
        let Some(ty) = self.modifiers(inst).into_iter().find_map(float).filter(|_| !moves) else { return };
        for id in self.tree.list(&inst.operands) {
            for register in self.registers(*id) {
                self.floats.insert(register, ty);
            }
        }
    }

    fn inst(&mut self, inst: &Inst) {
        let opcode = self.tree.source.text(inst.opcode);
        let modifiers = self.modifiers(inst);
        let operands = self.tree.list(&inst.operands);
        if opcode == "ld" && modifiers.iter().any(|m| m.starts_with(".param")) {
            if let [dest, source] = operands
                && let (Some(dest), Some(symbol)) = (self.name(*dest), self.name(*source))
            {
                self.from.insert(dest, symbol);
            }
            return;
        }
        let bases: Vec<Option<String>> =
            operands.iter().map(|id| self.name(*id).and_then(|name| self.from.get(&name).cloned())).collect();
        let is_address = |id: &ExprId| matches!(self.tree.expr(*id).kind, ExprKind::Brackets(_));
        let addresses: Vec<bool> = operands.iter().map(is_address).collect();
        let to_global = opcode == "cvta" && modifiers.contains(&".to");
        let memory = matches!(opcode, "ld" | "ldu" | "st" | "atom" | "red");
        let element = memory.then(|| self.element(&modifiers, operands)).flatten();
        for (at, symbol) in bases.iter().enumerate() {
            let Some(symbol) = symbol else { continue };
            let pointer = self.found.entry(symbol.clone()).or_default();
            pointer.used |= addresses[at] || to_global;
            // What is stored, passed on or unknown may be written through.
            pointer.written |= !matches!(opcode, "ld" | "ldu") && !DERIVE.contains(&opcode) && opcode != "setp";
            pointer.elements.extend(element.filter(|_| addresses[at]));
        }
        if DERIVE.contains(&opcode)
            && let Some(dest) = operands.first().and_then(|id| self.name(*id))
            && let Some(symbol) = bases.iter().skip(1).flatten().next()
        {
            self.from.insert(dest, symbol.clone());
        }
    }

    /// The type of what an access of memory moves.
    fn element(&self, modifiers: &[&str], operands: &[ExprId]) -> Option<&'static str> {
        let ty = modifiers.iter().rev().find_map(|m| TYPES.iter().find(|(ptx, _)| ptx == m)).map(|(_, rust)| *rust)?;
        let floats: Vec<&&str> =
            operands.iter().flat_map(|id| self.registers(*id)).filter_map(|r| self.floats.get(&r)).collect();
        Some(match (ty, floats.first()) {
            ("u32", Some(&&"f32")) => "f32",
            ("u64", Some(&&"f64")) => "f64",
            _ => ty,
        })
    }
}

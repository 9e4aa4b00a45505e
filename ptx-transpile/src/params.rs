//! The signature of an entry in Rust; and pass `params`: loads at the top that are those of the language's own prologue,
//! so that a parameter's name is its value.

use super::body::{Body, Node, Piece};
use super::pointers::{self, Pointer};
use ptx_core::lower::constant::integer;
use ptx_core::syntax::{Func, StmtId, Tree, Var};
use std::collections::{HashMap, HashSet};

/// A parameter.
#[derive(Clone, Debug)]
pub(super) struct Param {
    /// Its name in the PTX.
    pub(super) symbol: String,
    /// Its name in Rust.
    pub(super) name: String,
    /// `#[align(64)] `, or nothing.
    pub(super) attributes: String,
    /// Its type in Rust.
    pub(super) ty: String,
    /// The type in `ld`; empty for a parameter that the prologue does not load unchanged into a register.
    stored: String,
    /// The type of its value in the kernel language.
    value: String,
    /// True if the prologue makes its pointer an address in global memory.
    global: bool,
}

impl Param {
    /// The type of its value as an address, and the bytes of an element.
    pub(super) fn address(&self) -> Option<(String, i64)> {
        let (space, element) = match self.ty.strip_prefix("&mut [") {
            Some(element) => ("GlobalMut", element),
            None => ("Global", self.ty.strip_prefix("&[")?),
        };
        let element = element.strip_suffix(']')?;
        self.global.then(|| (format!("{space}<{element}>"), bytes(element)))
    }
}

/// The parameters of an entry, in a module with or without tensor maps; `None` where one of them has no type in Rust.
pub(super) fn params(tree: &Tree, func: &Func, body: &[StmtId], entry: &str, maps: bool) -> Option<Vec<Param>> {
    let known = Known { maps, pointers: pointers::pointers(tree, body) };
    let mut params: Vec<Param> =
        func.params.iter().enumerate().map(|(at, var)| param(tree, var, at, entry, &known)).collect::<Option<_>>()?;
    let mut taken: HashSet<String> = HashSet::new();
    for (at, param) in params.iter_mut().enumerate() {
        let others = (at..).map(|number| format!("arg{number}"));
        let free = std::iter::once(param.name.clone()).chain(others).find(|name| taken.insert(name.clone()));
        param.name = free.unwrap_or_default();
    }
    Some(params)
}

/// Facts about the parameters from the code of an entry.
struct Known {
    /// True if it uses tensor maps.
    maps: bool,
    pointers: HashMap<String, Pointer>,
}

fn param(tree: &Tree, var: &Var, at: usize, entry: &str, known: &Known) -> Option<Param> {
    let declared = tree.names(var).first()?;
    let symbol = tree.source.text(declared.name).to_owned();
    let pointer = known.pointers.get(&symbol);
    let written = symbol.strip_prefix(entry).unwrap_or(&symbol).trim_start_matches('_');
    let plain = written.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let name = if written.is_empty() || !plain || written.starts_with("param_") || symbol.starts_with("_Z") {
        format!("arg{at}")
    } else {
        format!(
            "{written}{}",
            if ptx_core::isa::table().specials.contains_key(format!("%{written}").as_str()) { "_" } else { "" }
        )
    };
    let name = match name.trim_start_matches(|c: char| c.is_ascii_digit()) {
        "" => format!("arg{at}"),
        name => super::no_keyword(name.to_owned()),
    };
    let ty = tree.source.text(var.ty?).trim_start_matches('.');
    let mut said: Vec<(&str, Option<i64>)> = Vec::new();
    for attribute in tree.attributes(var) {
        let value = tree.list(&attribute.args).first().and_then(|arg| integer(tree, *arg));
        said.push((tree.source.text(attribute.name), value));
    }
    let align = said.iter().find(|(name, _)| *name == ".align").and_then(|(_, value)| *value);
    let names: Vec<&str> = said.iter().map(|(name, _)| *name).filter(|name| *name != ".align").collect();
    let whole = ty == "u64" || ty == "b64";
    let global_pointer = names == [".ptr", ".global"];
    let (attributes, ty, stored) = match (names.as_slice(), tree.list(&declared.dims), pointer) {
        ([], [], Some(pointer)) if align.is_none() && whole && pointer.used => {
            ("#[bare] ".to_owned(), slice(pointer), ty.to_owned())
        }
        ([], [], _) if align.is_none() => (String::new(), scalar(ty)?.to_owned(), ty.to_owned()),
        ([".ptr"], [], _) if whole => {
            let align = align.filter(|align| *align != 1).map_or(String::new(), |align| format!("#[align({align})] "));
            (format!("#[generic] {align}"), slice(pointer.unwrap_or(&Pointer::default())), ty.to_owned())
        }
        ([".ptr", ".global"], [], _) if whole => {
            let (attributes, slice) = global(align?, pointer.unwrap_or(&Pointer::default()));
            (attributes, slice, ty.to_owned())
        }
        ([], [dimension], _) if ty == "b8" => {
            let ptx_core::syntax::ExprKind::Brackets(size) = &tree.expr(*dimension).kind else { return None };
            let size = integer(tree, *tree.list(size).first()?)?;
            let map = known.maps && size == 128 && align? >= 64;
            let ty = if map { "TensorMap".to_owned() } else { format!("[u8; {size}]") };
            let natural = if map { 128 } else { 1 };
            let text = if align? == natural { String::new() } else { format!("#[align({})] ", align?) };
            (text, ty, String::new())
        }
        _ => return None,
    };
    let value = if ty.starts_with('&') { "u64".to_owned() } else { ty.clone() };
    let global = global_pointer && !stored.is_empty();
    Some(Param { symbol, name, attributes, ty, stored, value, global })
}

/// `&[f32]` or `&mut [f32]`
fn slice(pointer: &Pointer) -> String {
    format!("&{}[{}]", if pointer.written { "mut " } else { "" }, pointer.element())
}

/// The Rust number of a PTX type's width.
fn scalar(ty: &str) -> Option<&'static str> {
    const TYPES: [(&str, &str); 15] = [
        ("b8", "u8"),
        ("u8", "u8"),
        ("s8", "i8"),
        ("b16", "u16"),
        ("u16", "u16"),
        ("s16", "i16"),
        ("b32", "u32"),
        ("u32", "u32"),
        ("s32", "i32"),
        ("b64", "u64"),
        ("u64", "u64"),
        ("s64", "i64"),
        ("f32", "f32"),
        ("f64", "f64"),
        ("f16", "u16"),
    ];
    TYPES.iter().find(|(ptx, _)| *ptx == ty).map(|(_, rust)| *rust)
}

/// A pointer to global memory of this alignment.
fn global(align: i64, pointer: &Pointer) -> (String, String) {
    let natural = align == bytes(pointer.element());
    (if natural { String::new() } else { format!("#[align({align})] ") }, slice(pointer))
}

/// The bytes of a number of Rust.
fn bytes(element: &str) -> i64 {
    match element {
        "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "f32" => 4,
        _ => 8,
    }
}

/// Returns how many loads it took away; 0 if they are not the prologue's.
pub(super) fn pass(body: &mut Body, params: &[Param]) -> usize {
    let mut loads: Vec<(usize, usize)> = Vec::new();
    let mut count = 0;
    while let Some((reg, param)) = body.nodes.get(count).and_then(|node| load(node, params)) {
        let fits = ptx_core::isa::Type::find(&params[param].stored).map(ptx_core::isa::Type::bits)
            == ptx_core::isa::Type::find(&body.regs[reg].declared).map(ptx_core::isa::Type::bits);
        if !fits || loads.last().is_some_and(|(_, last)| *last >= param) {
            break;
        }
        let global = params[param].global;
        if global && !body.nodes.get(count + 1).is_some_and(|node| is_made_global(node, reg)) {
            break;
        }
        count += 1 + usize::from(global);
        loads.push((reg, param));
    }
    let is_param = |text: &str| params.iter().any(|p| p.name == text);
    let mut others = false;
    for node in &body.nodes[count..] {
        let mut look = |node: &Node| node.pieces(&mut |p| others |= matches!(p, Piece::Text(t) if is_param(t)));
        look(node);
    }
    // What nothing reads, the prologue does not load.
    let mut read = HashSet::new();
    body.nodes[count..].iter().for_each(|node| {
        node.mentions(body, &mut |reg| {
            read.insert(reg);
        });
    });
    others |= !loads.iter().all(|(reg, _)| read.contains(reg));
    if loads.is_empty() || others {
        return 0;
    }
    body.nodes.drain(..count);
    for (reg, param) in &loads {
        let (name, ty) = (params[*param].name.clone(), params[*param].value.clone());
        let reg = &mut body.regs[*reg];
        (reg.name, reg.ty, reg.param, reg.declared) = (name, ty, true, params[*param].stored.clone());
    }
    body.prologue = true;
    loads.len()
}

/// `cvta.to.global.u64 r, r;`
fn is_made_global(node: &Node, reg: usize) -> bool {
    let Node::Inst(inst) = node else { return false };
    let own = |operand: &Vec<Piece>| *operand == [Piece::Reg(reg)];
    inst.guard.is_none()
        && inst.name == "cvta.to.global.u64"
        && inst.operands.len() == 2
        && inst.operands.iter().all(own)
}

/// `ld.param.u32 r, [p];`: the register and the parameter.
fn load(node: &Node, params: &[Param]) -> Option<(usize, usize)> {
    let Node::Inst(inst) = node else { return None };
    let stored = inst.name.strip_prefix("ld.param.").filter(|_| inst.guard.is_none())?;
    let [dest, source] = inst.operands.as_slice() else { return None };
    let ([Piece::Reg(reg)], [Piece::Text(_), Piece::Text(name), Piece::Text(close)]) =
        (dest.as_slice(), source.as_slice())
    else {
        return None;
    };
    // The prologue calls the type by the parameter's name for it.
    let at = params.iter().position(|p| p.name == *name && p.stored == stored && p.value.ends_with(&stored[1..]))?;
    (close == "]" && !stored.starts_with('b')).then_some((*reg, at))
}

//! The signature of an entry in Rust; and pass `params`: loads at the top that are those of the language's own prologue,
//! so that a parameter's name is its value.

use super::body::{Body, Node, Piece};
use crate::lower::constant::integer;
use crate::syntax::{Func, Tree, Var};

/// A parameter.
#[derive(Clone, Debug)]
pub(super) struct Param {
    /// Its name in the PTX.
    pub(super) symbol: String,
    /// Its name in Rust.
    pub(super) name: String,
    /// `#[align(64)] `, or nothing.
    pub(super) align: String,
    /// Its type in Rust.
    pub(super) ty: String,
    /// What `ld` calls it; empty for what a register cannot hold.
    stored: String,
}

/// The parameters of an entry; `None` where one of them has no type in Rust.
pub(super) fn params(tree: &Tree, func: &Func, entry: &str) -> Option<Vec<Param>> {
    let uses_maps = tree.source.bytes.windows(7).any(|w| w == b".tensor");
    func.params.iter().enumerate().map(|(at, var)| param(tree, var, at, entry, uses_maps)).collect()
}

fn param(tree: &Tree, var: &Var, at: usize, entry: &str, uses_maps: bool) -> Option<Param> {
    let declared = tree.names(var).first()?;
    let symbol = tree.source.text(declared.name).to_owned();
    let written = symbol.strip_prefix(entry).unwrap_or(&symbol).trim_start_matches('_');
    let plain = written.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let name = if written.is_empty() || !plain || written.starts_with("param_") || symbol.starts_with("_Z") {
        format!("arg{at}")
    } else {
        format!(
            "{written}{}",
            if crate::isa::table().specials.contains_key(format!("%{written}").as_str()) { "_" } else { "" }
        )
    };
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    let ty = tree.source.text(var.ty?).trim_start_matches('.');
    let mut said: Vec<(&str, Option<i64>)> = Vec::new();
    for attribute in tree.attributes(var) {
        let value = tree.list(&attribute.args).first().and_then(|arg| integer(tree, *arg));
        said.push((tree.source.text(attribute.name), value));
    }
    let align = said.iter().find(|(name, _)| *name == ".align").and_then(|(_, value)| *value);
    let names: Vec<&str> = said.iter().map(|(name, _)| *name).filter(|name| *name != ".align").collect();
    let (align, ty, stored) = match (names.as_slice(), tree.list(&declared.dims)) {
        ([], []) if align.is_none() => (String::new(), scalar(ty)?.to_owned(), ty.to_owned()),
        ([".ptr"], []) if align == Some(1) => (String::new(), scalar(ty)?.to_owned(), ty.to_owned()),
        ([".ptr", ".global"], []) => pointer(align?),
        ([], [dimension]) if ty == "b8" => {
            let crate::syntax::ExprKind::Brackets(size) = &tree.expr(*dimension).kind else { return None };
            let size = integer(tree, *tree.list(size).first()?)?;
            let map = uses_maps && size == 128 && align? >= 64;
            let ty = if map { "TensorMap".to_owned() } else { format!("[u8; {size}]") };
            let natural = if map { 128 } else { 1 };
            let text = if align? == natural { String::new() } else { format!("#[align({})] ", align?) };
            (text, ty, String::new())
        }
        _ => return None,
    };
    Some(Param { symbol, name, align, ty, stored })
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
fn pointer(align: i64) -> (String, String, String) {
    let element = match align {
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "u8",
    };
    let natural = matches!(align, 1 | 2 | 4 | 8);
    let attribute = if natural { String::new() } else { format!("#[align({align})] ") };
    (attribute, format!("&mut [{element}]"), String::new())
}

/// Returns how many loads it took away; 0 if they are not the prologue's.
pub(super) fn pass(body: &mut Body, params: &[Param]) -> usize {
    let mut loads: Vec<(usize, usize)> = Vec::new();
    for node in &body.nodes {
        let Some((reg, param)) = load(node, params) else { break };
        let fits = crate::isa::Type::find(&params[param].stored).map(crate::isa::Type::bits)
            == crate::isa::Type::find(&body.regs[reg].declared).map(crate::isa::Type::bits);
        if !fits || loads.last().is_some_and(|(_, last)| *last >= param) {
            break;
        }
        loads.push((reg, param));
    }
    let is_param = |text: &str| params.iter().any(|p| p.name == text);
    let mut others = false;
    for node in &body.nodes[loads.len()..] {
        let mut look = |node: &Node| node.pieces(&mut |p| others |= matches!(p, Piece::Text(t) if is_param(t)));
        look(node);
    }
    // What nothing reads, the prologue does not load.
    let mut read = std::collections::HashSet::new();
    body.nodes[loads.len()..].iter().for_each(|node| {
        node.mentions(body, &mut |reg| {
            read.insert(reg);
        });
    });
    others |= !loads.iter().all(|(reg, _)| read.contains(reg));
    if loads.is_empty() || others {
        return 0;
    }
    body.nodes.drain(..loads.len());
    for (reg, param) in &loads {
        let (name, ty) = (params[*param].name.clone(), params[*param].ty.clone());
        let reg = &mut body.regs[*reg];
        (reg.name, reg.ty, reg.param, reg.declared) = (name, ty, true, params[*param].stored.clone());
    }
    body.prologue = true;
    loads.len()
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
    let at = params.iter().position(|p| p.name == *name && p.stored == stored && p.ty.ends_with(&stored[1..]))?;
    (close == "]" && !stored.starts_with('b')).then_some((*reg, at))
}

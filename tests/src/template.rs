//! Instructions of files with holes where their registers stand, so that they can be written again in a kernel of their own.

use crate::instruction::Instruction;
use crate::random::Random;
use ptx_core::syntax::{Inst, StmtKind, Tree};
use ptx_core::token::{Kind, TokenId};
use std::collections::HashMap;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// The opcode and the modifiers, without dots.
    pub mnemonic: Vec<String>,
    /// The operands.
    pub operands: Vec<Vec<Piece>>,
}

/// A piece of an operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// As it stands in the file.
    Text(String),
    /// A register that is declared so: `b32`, `v4 .b32`.
    Register(String),
    /// Something whose type the file does not say: `%0` of an `asm` statement.
    Open,
}

/// The classes that an open hole is tried with, beside those that the modifiers name.
const OPEN: &[&str] = &["b32", "b64", "b32", "b64", "pred", "b16", "f32", "u32"];

impl Template {
    /// The instruction with registers of its own.
    pub fn fill(&self, random: &mut Random) -> Instruction {
        let mut out = Instruction { mnemonic: self.mnemonic.clone(), ..Instruction::default() };
        out.operands = self.operands.iter().map(|pieces| self.operand(pieces, &mut out.registers, random)).collect();
        out
    }

    /// An operand, whose registers it declares.
    pub fn operand(&self, pieces: &[Piece], registers: &mut Vec<(String, String)>, random: &mut Random) -> String {
        let mut text = String::new();
        for piece in pieces {
            let class = match piece {
                Piece::Text(word) => {
                    text += word;
                    continue;
                }
                Piece::Register(class) => class.clone(),
                Piece::Open if text == "[" => "b64".to_owned(),
                Piece::Open => self.class(random),
            };
            let name = format!("%r{}", registers.len());
            registers.push((class, name.clone()));
            text += &name;
        }
        text
    }

    /// A class for an open hole: most often one that a modifier names.
    fn class(&self, random: &mut Random) -> String {
        let known = |word: &&String| crate::spelling::CLASSES.contains(&word.as_str());
        let named: Vec<&String> = self.mnemonic.iter().skip(1).filter(known).collect();
        match random.pick(&named).filter(|_| !random.once_in(3)) {
            Some(class) => (*class).clone(),
            None => random.pick(OPEN).map_or_else(String::new, |class| (*class).to_owned()),
        }
    }

    /// The common shape of two templates that differ in literals only.
    pub fn shape(&self) -> Template {
        let literal = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
        let shape = |piece: &Piece| match piece {
            Piece::Text(word) if literal(word) => Piece::Text("0".to_owned()),
            piece => piece.clone(),
        };
        let operands = self.operands.iter().map(|pieces| pieces.iter().map(shape).collect()).collect();
        Template { mnemonic: self.mnemonic.clone(), operands }
    }
}

/// The instructions of a module that can be written elsewhere: not those that name parameters, or variables whose names
/// are taken by something else in another function.
pub fn of_module(tree: &Tree) -> Vec<Template> {
    let names = names(tree);
    let instruction = |inst: &Inst| template(tree, inst, &names);
    let kinds = tree.stmts.iter().map(|stmt| &stmt.kind);
    kinds.filter_map(|kind| if let StmtKind::Inst(inst) = kind { instruction(inst) } else { None }).collect()
}

/// Pieces for each name: a register's class, or the name of something that the comparison's module declares.
fn names(tree: &Tree) -> HashMap<String, Piece> {
    let mut names = HashMap::new();
    let text = |token: TokenId| tree.source.text(token).to_owned();
    for stmt in &tree.stmts {
        match &stmt.kind {
            StmtKind::Var(var) => {
                let Some(ty) = var.ty else { continue };
                let vector = tree.attributes(var).iter().map(|a| text(a.name)).find(|a| a.starts_with(".v"));
                let ty = text(ty).trim_start_matches('.').to_owned();
                let class = vector.map_or_else(|| ty.clone(), |v| format!("{} .{ty}", v.trim_start_matches('.')));
                let piece = match (text(var.space).as_str(), ty.as_str()) {
                    (".reg", _) => Piece::Register(class),
                    (".global", "texref") => Piece::Text("t".to_owned()),
                    (".global", "surfref") => Piece::Text("u".to_owned()),
                    (".global", _) => Piece::Text("g".to_owned()),
                    (".const", _) => Piece::Text("c".to_owned()),
                    (".shared" | ".shared::cta", _) => Piece::Text("s".to_owned()),
                    _ => continue,
                };
                for declarator in tree.names(var) {
                    names.insert(text(declarator.name), piece.clone());
                }
            }
            StmtKind::Label(tokens) => drop(names.insert(tree.compact(tokens), Piece::Text("L".to_owned()))),
            StmtKind::Func(func) => {
                let known = func.params.iter().filter(|_| text(func.keyword) == ".entry");
                for name in known.flat_map(|var| tree.names(var)) {
                    names.insert(text(name.name), Piece::Text("q".to_owned()));
                }
                names.extend(func.name.map(|name| (text(name), Piece::Text("f".to_owned()))));
            }
            _ => {}
        }
    }
    names
}

fn template(tree: &Tree, inst: &Inst, names: &HashMap<String, Piece>) -> Option<Template> {
    let dots = inst.modifiers.clone().map(|t| tree.source.text(t).trim_start_matches('.').to_owned());
    let mnemonic = std::iter::once(tree.source.text(inst.opcode).to_owned()).chain(dots).collect();
    let operands = tree.list(&inst.operands).iter().map(|id| {
        let tokens = tree.expr(*id).tokens;
        let piece = |token| piece(tree, token, names);
        if tokens.len() > 300 { None } else { tokens.map(piece).collect::<Option<Vec<Piece>>>() }
    });
    Some(Template { mnemonic, operands: operands.collect::<Option<_>>()? })
}

/// A token of an operand; `None` where it is a name that nothing here can stand for.
fn piece(tree: &Tree, token: TokenId, names: &HashMap<String, Piece>) -> Option<Piece> {
    let text = tree.source.text(token);
    match tree.source.kind(token) {
        Kind::Word => named(text, names),
        Kind::Punct(b',') => Some(Piece::Text(", ".to_owned())),
        _ => Some(Piece::Text(text.to_owned())),
    }
}

fn named(text: &str, names: &HashMap<String, Piece>) -> Option<Piece> {
    let range = || names.get(text.trim_end_matches(|c: char| c.is_ascii_digit()));
    let special = || text.starts_with('%') || matches!(text, "_" | "WARP_SZ");
    match names.get(text).or_else(range) {
        Some(piece) => Some(piece.clone()),
        None => special().then(|| Piece::Text(text.to_owned())),
    }
}

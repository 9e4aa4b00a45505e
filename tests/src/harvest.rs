//! Reads instructions out of files: whole modules (`.ptx`), and whatever else holds some, as headers with `asm` statements, the
//! tests of compilers and the words that an assembler has.

use crate::corpus;
use crate::template::{Piece, Template, of_module};
use crate::vocabulary::Vocabulary;
use ptx_core::parse::parse_text;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

/// Result of the harvest.
#[derive(Debug, Default)]
pub struct Harvest {
    /// The instructions, by opcode; each shape once.
    pub templates: BTreeMap<String, Vec<Template>>,
    /// The words, the opcodes of which are those that a module has.
    pub words: Vocabulary,
    /// Number of files read.
    pub files: usize,
}

/// Maximum number of templates of one opcode: a few have so many shapes that they would displace the others.
const MOST: usize = 4000;

/// Larger files say nothing new.
const LARGEST: u64 = 4_000_000;

/// Harvest of the files in this folder, and of the corpus, where it exists.
///
/// # Errors
/// If a folder or file cannot be read.
pub fn harvest(folder: Option<&Path>) -> io::Result<Harvest> {
    let mut paths = Vec::new();
    for folder in folder.map(Path::to_owned).into_iter().chain(corpus::folder()) {
        paths.extend(files(&folder)?);
    }
    paths.sort();
    let (mut gathered, mut loose) = (Gathered::default(), Vec::new());
    for path in &paths {
        let bytes = std::fs::read(path)?;
        match is_module(path) {
            true => of_module(&parse_text(bytes).0).into_iter().for_each(|template| gathered.add(template)),
            false => loose.push(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
    let opcodes: HashSet<String> = gathered.templates.keys().cloned().collect();
    let mut more = Vec::new();
    for text in &loose {
        written(text, &opcodes).into_iter().for_each(|template| gathered.add(template));
        more.extend(lone_words(text));
    }
    let chains = gathered.templates.values().flatten().map(|template| template.mnemonic.clone());
    let words = Vocabulary::new(chains, more);
    Ok(Harvest { templates: gathered.templates, words, files: paths.len() })
}

#[derive(Default)]
struct Gathered {
    templates: BTreeMap<String, Vec<Template>>,
    shapes: HashSet<Template>,
    count: HashMap<Vec<String>, usize>,
}

impl Gathered {
    /// Each shape once, and of one chain the first few.
    fn add(&mut self, template: Template) {
        const OF_A_CHAIN: usize = 12;
        let Some(opcode) = template.mnemonic.first().cloned() else { return };
        let known = self.templates.entry(opcode).or_default();
        if known.len() < MOST && self.shapes.insert(template.shape()) {
            let count = self.count.entry(template.mnemonic.clone()).or_default();
            *count += 1;
            if *count <= OF_A_CHAIN {
                known.push(template);
            }
        }
    }
}

/// All files in a folder and those inside it, but for the largest.
///
/// # Errors
/// If one of the folders cannot be read.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    walk(folder, &mut paths)?;
    Ok(paths)
}

/// Returns true if a file is called `.ptx`.
pub fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "ptx")
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.metadata()? {
            kind if kind.is_dir() => walk(&entry.path(), paths)?,
            kind if kind.len() <= LARGEST => paths.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

/// Modifiers that stand on a line of their own.
fn lone_words(text: &str) -> impl Iterator<Item = String> {
    let word = |line: &str| line.strip_prefix('.').filter(|w| w.chars().all(is_of_word)).map(str::to_owned);
    text.lines().filter_map(word)
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// The instructions that stand in a text, in string literals or without them, of these opcodes.
fn written(text: &str, opcodes: &HashSet<String>) -> Vec<Template> {
    let joined = if text.contains("asm") { literals(text) } else { text.to_owned() };
    let statements = joined.split([';', '\n']).map(str::trim_start);
    statements.filter_map(|statement| statement_of(statement, opcodes)).collect()
}

/// The string literals of C and C++, those with only blanks between them as one.
fn literals(text: &str) -> String {
    let mut out = String::new();
    let mut pieces = text.split('"');
    while let (Some(between), Some(literal)) = (pieces.next(), pieces.next()) {
        if !between.trim().is_empty() {
            out.push('\n');
        }
        out += &literal.replace("\\n", "\n").replace("\\t", " ");
    }
    out
}

fn statement_of(statement: &str, opcodes: &HashSet<String>) -> Option<Template> {
    let guarded = statement.strip_prefix('@').and_then(|rest| rest.split_once(' ')).map_or(statement, |(_, rest)| rest);
    let start = guarded.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let end = start.find(|c: char| !is_of_word(c) && c != '.').unwrap_or(start.len());
    let (chain, operands) = start.split_at(end);
    let mnemonic: Vec<String> = chain.split('.').map(str::to_owned).collect();
    let known = mnemonic.len() > 1 && opcodes.contains(&mnemonic[0]) && mnemonic.iter().all(|word| !word.is_empty());
    let operands = known.then(|| open_operands(operands))??;
    Some(Template { mnemonic, operands })
}

/// Operands whose names are holes; `None` where the text is no list of operands.
fn open_operands(text: &str) -> Option<Vec<Vec<Piece>>> {
    let (mut all, mut depth, mut current, mut rest) = (Vec::new(), 0_usize, Vec::new(), text.trim());
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '$' | '_' | '.');
        let length = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        match first {
            ',' if depth == 0 => all.push(std::mem::take(&mut current)),
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        let taken = match first {
            ',' if depth == 0 => 1,
            '_' if length == 1 => push(&mut current, Piece::Text("_".to_owned()), 1),
            c if c.is_ascii_digit() || c == '.' => push(&mut current, Piece::Text(rest[..length].to_owned()), length),
            c if is_name(c) => push(&mut current, Piece::Open, length),
            '{' | '}' | '[' | ']' | '(' | ')' | '|' | ',' | '+' | '-' | '!' => {
                push(&mut current, Piece::Text(first.to_string()), 1)
            }
            ' ' | '\t' => 1,
            _ => return None,
        };
        rest = &rest[taken..];
    }
    if !current.is_empty() {
        all.push(current);
    }
    (depth == 0 && all.iter().all(|pieces| !pieces.is_empty())).then_some(all)
}

fn push(pieces: &mut Vec<Piece>, piece: Piece, length: usize) -> usize {
    pieces.push(piece);
    length
}

/// The folder that `PTX_HARVEST` names.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("PTX_HARVEST").map(PathBuf::from)
}

//! PTX to Rust that a person could have written, and the proof that nothing was changed on the way.
//!
//! `read` makes a `body` of every entry, the passes raise it, one file each, `print` writes it. `prove` keeps what
//! survives: it expands the Rust as a build would and compares with `same`.

#![forbid(unsafe_code)]
mod addresses;
mod affine;
mod arrays;
mod body;
mod constants;
mod debug;
mod expressions;
mod flow;
mod infer;
mod islands;
mod labels;
mod lets;
mod names;
mod operators;
mod params;
mod pointers;
mod print;
pub mod prove;
mod read;
mod repeats;
pub mod same;
mod taken;
mod waits;

pub use debug::without_debug;

use ptx_core::emit::rust::statement;
use ptx_core::lower::constant::integer;
use ptx_core::syntax::{Directive, Func, Stmt, StmtKind, Tree, Var};
use ptx_core::token::{Kind, TokenId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

/// The passes, in the order in which they run, and what each is for.
pub const PASSES: [(&str, &str); 13] = [
    ("labels", "labels that nothing jumps to left out; for --verify, as ptxas may schedule differently"),
    ("params", "parameters by name"),
    ("waits", "spin loops to mbarrier::wait"),
    ("flow", "branches to loop, if and else"),
    ("arrays", "wide register lists to arrays and ranges"),
    ("constants", "numbers as decimals and by name"),
    ("operators", "single instructions to operators, special registers by name"),
    ("expressions", "chains of operators to expressions"),
    ("names", "demangled names, registers after what they hold"),
    ("repeats", "repeated statements to for and arrays"),
    ("islands", "lone operators among instructions back to them"),
    ("addresses", "addresses by an index of a slice"),
    ("lets", "registers declared where they live"),
];

/// Words that cannot be names in Rust.
const KEYWORDS: [&str; 52] = [
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
    "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// The name of a Rust module like this one: that of a file, for example. A keyword gets an underscore.
pub fn module_name(name: &str) -> String {
    let mut letters = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_ascii_lowercase();
    if letters.is_empty() || letters == "_" || letters.starts_with(|c: char| c.is_ascii_digit()) {
        letters.insert(0, '_');
    }
    if letters == "_" {
        letters.push_str("module");
    }
    no_keyword(letters)
}

/// The name, or the name with an underscore if it is a keyword.
fn no_keyword(name: String) -> String {
    if KEYWORDS.contains(&name.as_str()) { name + "_" } else { name }
}

/// Returns true if a Rust module can have this name: `a_b`, or a keyword as `r#type`.
pub fn is_module_name(name: &str) -> bool {
    // No raw identifiers either.
    const NEVER: [&str; 4] = ["_", "crate", "self", "super"];
    let (raw, letters) = name.strip_prefix("r#").map_or((false, name), |letters| (true, letters));
    let sound = letters.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && letters.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    sound && !NEVER.contains(&letters) && letters != "Self" && (raw || !KEYWORDS.contains(&letters))
}

/// Which passes a kernel goes without.
pub type Without = BTreeSet<&'static str>;

/// A module in the kernel language.
#[derive(Clone, Debug)]
pub struct Sugared {
    /// The source: one `#[ptx_module]`.
    pub text: String,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
}

/// A kernel of a [`Sugared`] module.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name in the PTX.
    pub entry: String,
    /// Its name in Rust.
    pub name: String,
    /// Number of changes of each pass, in the order of [`PASSES`].
    pub applied: Vec<(&'static str, usize)>,
    /// Its lines of Rust.
    pub lines: usize,
}

/// A module in the kernel language, each kernel without the passes that are named for it (by its place). The error names
/// what the language cannot declare.
///
/// # Errors
/// What of the module has no place in the kernel language.
pub fn sugar(tree: &Tree, name: &str, without: &[Without]) -> Result<Sugared, String> {
    module(tree, name, without, None)
}

/// `only` leaves out all entries but one.
fn module(tree: &Tree, name: &str, without: &[Without], only: Option<usize>) -> Result<Sugared, String> {
    let mut header = Header::default();
    let mut writer = Writer {
        tree,
        maps: tree.source.bytes.windows(7).any(|w| w == b".tensor"),
        outside: String::new(),
        helpers: BTreeMap::new(),
        constants: BTreeMap::new(),
        kernels: Vec::new(),
        taken: taken::Taken::default(),
    };
    let mut entries = Vec::new();
    let mentions = mentions(tree);
    for &id in &tree.items {
        let stmt = tree.stmt(id);
        match &stmt.kind {
            StmtKind::Directive(directive) => header.directive(tree, directive)?,
            StmtKind::Func(func) if is_entry(tree, func) => entries.push((func, stmt)),
            // The language declares an entry where it defines it.
            StmtKind::Func(func) if tree.source.text(func.keyword) == ".entry" => {}
            StmtKind::Var(var) if is_unused(tree, var, &mentions) => {}
            StmtKind::Func(_) | StmtKind::Var(_) => writer.outside.push_str(&statement(tree, id)),
            // Debug information contains the PTX's own names.
            StmtKind::Empty | StmtKind::Section(_) => {}
            _ => return Err("statements that only PTX has".to_owned()),
        }
    }
    let mut text = String::new();
    for (at, (func, stmt)) in entries.into_iter().enumerate().filter(|(at, _)| only.is_none_or(|only| only == *at)) {
        let empty = Without::new();
        text.push_str(&writer.kernel(func, stmt, without.get(at).unwrap_or(&empty))?);
    }
    if writer.kernels.is_empty() && writer.outside.trim().is_empty() {
        return Err("a module without a function".to_owned());
    }
    Ok(Sugared { text: writer.module(&header, name, &text), kernels: writer.kernels })
}

/// Number of occurrences of each word in a module.
fn mentions(tree: &Tree) -> HashMap<&[u8], usize> {
    let mut count = HashMap::new();
    for token in (0..tree.source.tokens.len() as TokenId).filter(|t| tree.source.kind(*t) == Kind::Word) {
        *count.entry(tree.source.bytes(token)).or_default() += 1;
    }
    count
}

/// Returns true if a declaration is of something elsewhere that nothing here names.
fn is_unused(tree: &Tree, var: &Var, mentions: &HashMap<&[u8], usize>) -> bool {
    let external = var.linkage.is_some_and(|l| tree.source.text(l) == ".extern");
    let once = |name: TokenId| mentions.get(tree.source.bytes(name)) == Some(&1);
    external && tree.names(var).iter().all(|declared| once(declared.name))
}

/// Number of entries that a module defines.
fn entries(tree: &Tree) -> usize {
    tree.items.iter().filter(|id| matches!(&tree.stmt(**id).kind, StmtKind::Func(f) if is_entry(tree, f))).count()
}

fn is_entry(tree: &Tree, func: &Func) -> bool {
    tree.source.text(func.keyword) == ".entry" && func.has_body
}

/// Statements at the top of a module.
#[derive(Default)]
struct Header {
    version: String,
    target: String,
    address_size: bool,
}

impl Header {
    fn directive(&mut self, tree: &Tree, directive: &Directive) -> Result<(), String> {
        let args: Vec<String> =
            tree.list(&directive.args).iter().map(|a| tree.compact(&tree.expr(*a).tokens)).collect();
        match (tree.source.text(directive.name), args.as_slice()) {
            (".version", [version]) => self.version.clone_from(version),
            (".target", [target, options @ ..]) if options.iter().all(|o| o == "debug") => {
                self.target.clone_from(target)
            }
            (".target", [_, option, ..]) => return Err(format!("the option `{option}` of .target")),
            (".address_size", [size]) if size == "64" => self.address_size = true,
            (".file", _) => {}
            (name, _) => return Err(format!("the directive `{name}`")),
        }
        Ok(())
    }
}

struct Writer<'t> {
    tree: &'t Tree,
    /// True if something in the module uses tensor maps.
    maps: bool,
    /// Variables and functions, in PTX.
    outside: String,
    /// Helper functions: name and text.
    helpers: BTreeMap<String, String>,
    /// Numbers that have a name: their value.
    constants: BTreeMap<String, String>,
    kernels: Vec<Kernel>,
    taken: taken::Taken,
}

impl Writer<'_> {
    fn module(&self, header: &Header, name: &str, kernels: &str) -> String {
        let mut out = format!(
            "#[::ptx_launch::ptx_module(arch = \"{}\", version = \"{}\")]\n#[allow(non_snake_case, unused_imports, unused_variables)]\n\
             pub mod {name} {{\n    use ::ptx_launch::prelude::*;\n",
            header.target, header.version
        );
        if !self.constants.is_empty() {
            out.push('\n');
        }
        for (name, value) in &self.constants {
            let _ = writeln!(out, "    const {name}: f32 = {value};");
        }
        if !self.outside.trim().is_empty() {
            // Comments of the last line end before the brace.
            let lines = self.outside.lines().map(str::trim_end).filter(|line| !line.is_empty());
            let text: Vec<String> =
                lines.map(|line| format!("        {}", line.strip_prefix('\t').unwrap_or(line))).collect();
            let _ = write!(out, "\n    ptx! {{\n{}\n    }}\n", text.join("\n"));
        }
        for (name, text) in &self.helpers {
            let text = format!("fn {name}{text}").replace('\n', "\n    ");
            let _ = write!(out, "\n    {}\n", text.trim_end());
        }
        out.push_str(kernels);
        out.push_str("}\n");
        out
    }

    /// An entry as a kernel.
    fn kernel(&mut self, func: &Func, stmt: &Stmt, without: &Without) -> Result<String, String> {
        let entry = func.name.map_or("", |n| self.tree.source.text(n)).to_owned();
        let params = params::params(self.tree, func, stmt.children(), &entry, self.maps)
            .ok_or("a parameter that has no type in Rust")?;
        let symbols: HashMap<String, String> = params.iter().map(|p| (p.symbol.clone(), p.name.clone())).collect();
        let mut body = read::read(self.tree, stmt.children(), &symbols).ok_or("statements that only PTX has")?;
        let applied = raise(&mut body, &params, without);
        let mut options = self.options(func)?;
        if !body.prologue {
            options.insert(0, "raw".to_owned());
        }
        let demangled = if without.contains("names") { entry.clone() } else { names::demangled(&entry) };
        let name = self.free(&demangled);
        let writes = body.writes();
        let own = |name: &str| body.regs.iter().position(|reg| reg.param && reg.name == name);
        let written = |name: &str| own(name).is_some_and(|reg| writes.contains_key(&reg));
        let param = |p: &params::Param| {
            let again = if written(&p.name) { "mut " } else { "" };
            format!("{}{again}{}: {}", p.attributes, p.name, p.ty)
        };
        let list: Vec<String> = params.iter().map(param).collect();
        let options = if options.is_empty() { String::new() } else { format!("({})", options.join(", ")) };
        self.constants.append(&mut body.constants);
        let before = std::mem::take(&mut body.helpers);
        let mut text = print::print(&body, 2);
        for (helper, source) in before {
            text = self.helper(&helper, source, text);
        }
        let mut out = String::from("\n");
        if name != entry {
            let _ = writeln!(out, "    /// `{entry}`");
        }
        let signature = match list.join(", ") {
            short if short.len() + name.len() < 96 => short,
            _ => format!("\n        {},\n    ", list.join(",\n        ")),
        };
        let _ = write!(out, "    #[ptx_kernel{options}]\n    pub fn {name}({signature}) {{\n{text}    }}\n");
        let lines = out.lines().count();
        self.kernels.push(Kernel { entry, name, applied, lines });
        Ok(out)
    }

    /// Adds a helper, under a name of its own if another one has its.
    fn helper(&mut self, name: &str, source: String, text: String) -> String {
        let mut named = (1..).map(|n| if n == 1 { name.to_owned() } else { format!("{name}_{n}") });
        let free = |n: &String| self.helpers.get(n).is_none_or(|known| *known == source) && !self.taken.contains(n);
        let new = named.find(free).unwrap_or_default();
        self.helpers.insert(new.clone(), source);
        if new == name { text } else { text.replace(&format!(" {name}("), &format!(" {new}(")) }
    }

    fn free(&mut self, name: &str) -> String {
        let letters: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let letters = if letters.starts_with(|c: char| c.is_ascii_digit()) { format!("_{letters}") } else { letters };
        self.taken.free(&no_keyword(letters))
    }

    /// The directives of an entry as options of the attribute.
    fn options(&self, func: &Func) -> Result<Vec<String>, String> {
        const NAMES: [(&str, &str); 6] = [
            (".maxntid", "max_block"),
            (".reqntid", "block"),
            (".minnctapersm", "min_blocks"),
            (".maxnreg", "max_regs"),
            (".maxclusterrank", "max_cluster"),
            (".reqnctapercluster", "required_cluster"),
        ];
        let mut found = Vec::new();
        let text = |directive: &Directive| self.tree.source.text(directive.name);
        let has = |name: &str| func.directives.iter().any(|d| text(d) == name);
        let explicit = has(".explicitcluster");
        let whole = explicit && has(".reqnctapercluster");
        if explicit && !whole {
            found.push("explicit_cluster".to_owned());
        }
        for directive in func.directives.iter().filter(|d| text(d) != ".explicitcluster") {
            let name = text(directive);
            let values: Option<Vec<i64>> =
                self.tree.list(&directive.args).iter().map(|arg| integer(self.tree, *arg)).collect();
            let known = NAMES.iter().find(|(ptx, _)| *ptx == name).map(|(_, option)| match *option {
                "required_cluster" if whole => "cluster",
                option => option,
            });
            match (known, values.as_deref()) {
                (Some(option), Some([one])) => found.push(format!("{option} = {one}")),
                (Some(option), Some(many @ [_, ..])) => {
                    let many: Vec<String> = many.iter().map(i64::to_string).collect();
                    found.push(format!("{option} = ({})", many.join(", ")));
                }
                _ => return Err(format!("the directive `{name}` of an entry")),
            }
        }
        Ok(found)
    }
}

/// Runs the passes.
fn raise(body: &mut body::Body, params: &[params::Param], without: &Without) -> Vec<(&'static str, usize)> {
    if !without.contains("params") {
        labels::in_front(body);
    }
    let mut applied = Vec::new();
    for (pass, _) in PASSES {
        if without.contains(pass) {
            if pass == "lets" {
                lets::at_top(body);
            }
            continue;
        }
        let times = match pass {
            "labels" => labels::pass(body),
            "params" => params::pass(body, params),
            "waits" => waits::pass(body),
            "flow" => flow::pass(body),
            "arrays" => arrays::pass(body),
            "constants" => constants::pass(body),
            "operators" => operators::pass(body),
            "expressions" => expressions::pass(body),
            "names" => names::pass(body),
            "repeats" => repeats::pass(body),
            "islands" => islands::pass(body),
            "addresses" => addresses::pass(body, params),
            _ => {
                lets::pass(body);
                body.regs.len()
            }
        };
        applied.push((pass, times));
    }
    applied
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

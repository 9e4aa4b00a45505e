//! The helper library: modules in the kernel language itself, in `prelude/`. A kernel that names `warp::reduce_sum`
//! gets the module `warp`; the host reads the file then, and never before.
//!
//! The files are Rust syntax, but no Rust: they are text here. Every helper's comment names its instructions.

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("prelude/", $name, ".rs")))),*]
    };
}

/// Every module: its name and its source. A static, because each crate that names a constant has its own copy of the texts.
pub static FILES: &[(&str, &str)] = files! {
    "warp" "block" "vector" "matrix" "fragment" "barrier" "cluster" "cp_async" "mbarrier" "swizzle" "tcgen05" "bulk" "tma"
    "wgmma" "cache" "grid" "math" "pipeline" "scheduler" "epilogue" "mainloop" "float8" "node"
};

/// The source of a module.
pub fn source(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

/// Purpose of a module: the text at its head.
pub fn about(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
}

/// A function, a method or a struct of a module, as it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper<'s> {
    /// The name, without the module's: `wait`, `Pipeline::advance`.
    pub name: String,
    /// Its effect, and its instructions.
    pub about: String,
    /// `fn load(to: u32, from: u64)`, `struct Barrier`
    pub signature: String,
    /// All of it, comments included.
    pub text: &'s str,
}

/// The functions, methods and structs of a module, in order: each ends in a brace below its first word.
pub fn helpers(source: &str) -> Vec<Helper<'_>> {
    let mut found = Vec::new();
    let mut owner: Option<&str> = None;
    for at in lines(source) {
        let line = source[at..].lines().next().unwrap_or_default();
        if let Some(target) = line.strip_prefix("impl") {
            owner = Some(target.trim_end_matches(" {"));
        } else if line == "}" {
            owner = None;
        }
        let margin = if line.starts_with("    ") && owner.is_some() { "    " } else { "" };
        let code = line.strip_prefix(margin).unwrap_or_default();
        if ["fn ", "const fn ", "struct "].iter().any(|word| code.starts_with(word)) {
            found.push(helper(source, at, margin, owner));
        }
    }
    found
}

/// Where each line begins.
fn lines(source: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1))
}

/// The item whose code begins at `at`, with the comments and attributes above it.
fn helper<'s>(source: &'s str, at: usize, margin: &str, owner: Option<&str>) -> Helper<'s> {
    let (before, code) = source.split_at(at);
    let mut from = at;
    for line in before.lines().rev() {
        let line_text = line.trim_start();
        if !(line_text.starts_with("///") || line_text.starts_with("#[")) {
            break;
        }
        from -= line.len() + 1;
    }
    let above = source.get(from..at).unwrap_or_default();
    let about: Vec<_> = above.lines().filter_map(|line| line.trim_start().strip_prefix("/// ")).collect();
    let end = code.find(&format!("\n{margin}}}\n")).map_or(code.len(), |end| end + 2 + margin.len());
    let head = code.split(" {\n").next().unwrap_or_default();
    let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = head.trim_start_matches("const ").trim_start_matches("fn ").trim_start_matches("struct ");
    let own = words.split(['(', '<', ' ']).next().unwrap_or_default();
    let (name, signature) = match owner {
        Some(target) => {
            let target = target.rsplit_once("> ").map_or(target, |(_, target)| target).trim();
            (format!("{}::{own}", bare(target)), format!("{target}: {}", tidy(&head)))
        }
        None => (own.to_owned(), tidy(&head)),
    };
    Helper { name, about: about.join(" "), signature, text: source.get(from..at + end).unwrap_or_default() }
}

/// `Barrier` of `Shared<Barrier>`, `Pipeline` of `Pipeline<STAGES>`.
fn bare(target: &str) -> &str {
    target.strip_prefix("Shared<").unwrap_or(target).split(['<', '>']).next().unwrap_or_default()
}

/// One line, as if it had never been several.
fn tidy(signature: &str) -> String {
    signature.replace("( ", "(").replace(", )", ")").replace("< ", "<").replace(", >", ">")
}

//! Every real file that ptxas accepts, through rustc: its Rust, plain and raised, compiles as it stands, and the PTX in the
//! binary is what `ptx transpile` has proved. (`ptx transpile --sugar --verify` on the same folders compares the machine
//! code.) Crates of many modules, so that it takes minutes and not hours:
//!
//!     cargo test -p ptx-tests --test transpile_rustc -- --ignored
//!
//! `PTX_CRATE=9` builds only the ninth.

#![allow(clippy::unwrap_used, reason = "tests")]

use ptx_core::emit::rust;
use ptx_core::parse::parse_text;
use ptx_core::syntax::{StmtId, StmtKind, Tree};
use ptx_tests::random::setting;
use ptx_tests::{corpus, own, scratch};
use ptx_transpile::Without;
use ptx_transpile::prove::prove;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Number of bytes of PTX per crate.
const CRATE: usize = 3 << 20;

/// A module of a crate: the file that it is from, the PTX that it must hold, and where; a plain module without an entry has
/// no constant.
struct Module {
    from: PathBuf,
    rust: String,
    ptx: String,
    constant: Option<String>,
}

#[test]
#[ignore = "builds crates of all files of the corpus: some minutes"]
fn every_file_compiles_to_what_is_proved() {
    let (mut crates, mut size) = (vec![Vec::new()], 0);
    for file in files() {
        let bytes = std::fs::read(&file).unwrap();
        size += bytes.len();
        if size > CRATE {
            crates.push(Vec::new());
            size = bytes.len();
        }
        crates.last_mut().unwrap().push((file, bytes));
    }
    let (mut wrong, mut compiled, mut all) = (String::new(), 0, 0);
    let only = setting("PTX_CRATE", 0);
    for (number, files) in crates.iter().enumerate().filter(|(number, _)| only == 0 || only == number + 1) {
        let modules: Vec<Module> = files.iter().flat_map(|(file, bytes)| modules(file, bytes)).collect();
        let refused = build(&modules, &mut wrong);
        compiled += modules.len() - refused;
        all += modules.len();
        println!("crate {} of {}: {compiled} of {all} modules compile", number + 1, crates.len());
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Files that ptxas accepts, ours and others'.
fn files() -> Vec<PathBuf> {
    let ours = own::samples().unwrap().into_iter().filter(|s| s.ptxas == "accepted").map(|s| s.file());
    let others = corpus::folder().map(|folder| corpus::samples(&folder).unwrap()).unwrap_or_default();
    ours.chain(others.into_iter().filter(|s| s.accepted).map(|s| s.path)).collect()
}

fn expand(source: &str) -> Result<String, String> {
    let modules = ptx_expand::modules(source).map_err(|e| e.to_string())?;
    modules.into_iter().next().and_then(|m| m.ptx.into_iter().next()).ok_or_else(|| "no module".to_owned())
}

/// A file plain, and raised if anything of it can be.
fn modules(file: &Path, bytes: &[u8]) -> Vec<Module> {
    let tree = parse_text(bytes).0;
    let plain = rust::plain(&tree, "k").text;
    let ptx = expand(&plain).unwrap();
    let constant = entry(&tree).map(|entry| format!("k::{entry}::PTX"));
    let mut modules = vec![Module { from: file.to_owned(), rust: plain, ptx, constant }];
    let raised = prove(&tree, "k", &Without::from(["labels"]), &expand);
    let whole = Some("k::PTX".to_owned());
    modules.extend(raised.ok().map(|p| Module { from: file.to_owned(), rust: p.text, ptx: p.ptx, constant: whole }));
    modules
}

/// Keywords of Rust that C++ takes as names of kernels; the macro renames these.
const KEYWORDS: [&str; 8] = ["use", "type", "loop", "move", "match", "fn", "mod", "ref"];

/// The first entry that is defined, as the macro names it; `None` also where its name is none in Rust.
fn entry(tree: &Tree) -> Option<String> {
    let defined = |id: &StmtId| match &tree.stmt(*id).kind {
        StmtKind::Func(func) if func.has_body && tree.source.text(func.keyword) == ".entry" => func.name,
        _ => None,
    };
    let name = tree.source.text(tree.items.iter().find_map(defined)?).to_owned();
    let same_in_rust =
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !KEYWORDS.contains(&name.as_str());
    same_in_rust.then_some(name)
}

/// Builds a crate whose binary writes the PTX of each module, and compares. What rustc refuses is left out and told; how
/// many these were is what comes back.
fn build(modules: &[Module], wrong: &mut String) -> usize {
    let mut left: Vec<usize> = (0..modules.len()).collect();
    let folder = loop {
        let error = match made(modules, &left) {
            Ok(folder) => break folder,
            Err(error) => error,
        };
        let refused: Vec<usize> = left.iter().copied().filter(|n| error.contains(&format!("src/m{n}.rs"))).collect();
        let from: Vec<String> = refused.iter().map(|n| modules[*n].from.display().to_string()).collect();
        writeln!(wrong, "rustc refuses {}: {}", from.join(", "), error.chars().take(4000).collect::<String>()).unwrap();
        left.retain(|n| !refused.contains(n));
        if refused.is_empty() || left.is_empty() {
            return modules.len();
        }
    };
    for (number, module) in left.iter().map(|n| (n, &modules[*n])).filter(|(_, module)| module.constant.is_some()) {
        let ptx = std::fs::read_to_string(folder.join(format!("{number}.ptx"))).unwrap();
        if ptx != module.ptx {
            writeln!(wrong, "{}: rustc makes other PTX of m{number}", module.from.display()).unwrap();
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
    modules.len() - left.len()
}

/// The crate of some of the modules, built and run: its folder. One name for all crates, so that each replaces the one before.
fn made(modules: &[Module], some: &[usize]) -> Result<PathBuf, String> {
    let mut main = "#![allow(warnings)]\n".to_owned();
    for number in some {
        writeln!(main, "mod m{number}; // {}", modules[*number].from.display()).unwrap();
    }
    main.push_str("fn main() {\n");
    for number in some {
        if let Some(constant) = &modules[*number].constant {
            writeln!(main, "    std::fs::write(\"{number}.ptx\", m{number}::{constant}).unwrap();").unwrap();
        }
    }
    main.push_str("}\n");
    let sources: Vec<(String, String)> = some.iter().map(|n| (format!("m{n}"), modules[*n].rust.clone())).collect();
    scratch::run(Path::new(env!("CARGO_TARGET_TMPDIR")), "transpiled", &sources, &main).map(|(folder, _)| folder)
}

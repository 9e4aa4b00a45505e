//! PTX of the macros against that of `ptx-jit` over the same sources: they are the same bytes.

use ptx_jit::Source;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Compiles the sources of some operations while the test runs, and compares. Without `PTX_THOROUGH`, only the kernels `quick` are compiled, each alone
/// in its module.
pub(crate) fn compare(operations: &[&str], quick: &[&str], macros: &[(String, &'static str)]) {
    let source = Source::text("the library", library(operations));
    let is_thorough = crate::thorough::is_thorough();
    let sources = match is_thorough {
        true => vec![source],
        false => quick.iter().map(|kernel| source.clone().only(*kernel)).collect(),
    };
    let (mut compiled, mut open) = (Vec::new(), Vec::new());
    for source in sources {
        let program = source.compile().unwrap_or_else(|error| panic!("{error}"));
        for kernel in program.kernels() {
            open.extend(kernel.launch.as_ref().err().map(|why| format!("{}: {}", kernel.entry, why.message)));
        }
        for module in program.modules() {
            compiled.extend(module.texts.iter().map(|text| (module.name.clone(), text.ptx.clone())));
        }
    }
    for (name, ptx) in &compiled {
        assert!(macros.iter().any(|(_, other)| other == ptx), "{name} differs: {}", difference(ptx, macros));
    }
    let missing = |(_, text): &&(String, &str)| !compiled.iter().any(|(_, ptx)| ptx == text);
    let missing: Vec<_> = macros.iter().filter(|_| is_thorough).filter(missing).map(|(name, _)| name).collect();
    assert!(missing.is_empty() && compiled.len() >= quick.len(), "missing at run time: {missing:?}");
    println!("{} texts are the same; {} launches need a compiler of Rust: {open:#?}", compiled.len(), open.len());
}

/// The sources of some operations.
pub(crate) fn library(operations: &[&str]) -> String {
    operations.iter().map(|name| module(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), name)).collect()
}

/// A module of a crate, with the files of its inner modules in place of their declarations.
fn module(folder: &Path, name: &str) -> String {
    let text = fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap();
    let mut out = format!("mod {name} {{\n");
    for line in text.lines() {
        let declared = line.trim_start().strip_suffix(';').and_then(|line| line.split_once("mod "));
        match declared.filter(|(before, _)| before.is_empty() || before.starts_with("pub")) {
            Some((_, inner)) => out += &module(&folder.join(name), inner),
            None => writeln!(out, "{line}").unwrap(),
        }
    }
    out + "}\n"
}

/// The first lines that differ from the most similar text.
fn difference(ptx: &str, macros: &[(String, &'static str)]) -> String {
    let same = |other: &str| ptx.lines().zip(other.lines()).take_while(|(a, b)| a == b).count();
    let Some((name, nearest)) = macros.iter().max_by_key(|(_, other)| same(other)) else { return String::new() };
    let at = same(nearest);
    let line = |text: &str| text.lines().nth(at).unwrap_or_default().to_owned();
    format!("line {} of {name}: `{}` of the macro is `{}` at run time", at + 1, line(nearest), line(ptx))
}

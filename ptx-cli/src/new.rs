//! `ptx new`: a crate that builds and has tests, from the templates in `templates/`.

use crate::output::{Failure, Outcome};
use clap::ValueEnum;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The kind of crate.
    kind: Kind,
    /// The folder that is made for it. Its last part is the name of the package.
    path: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A program with a kernel.
    App,
    /// A crate for other crates: functions of tensors, without a kernel in their interface.
    Library,
    /// A Python package with kernels for `PyTorch`, JAX, `NumPy` and `CuPy`, built by maturin.
    Python,
    /// An operation for candle.
    Candle,
}

/// A file of a template: its path, in which `{{crate}}` is the name as Rust has it, and its text.
type File = (&'static str, &'static str);

macro_rules! files {
    ($folder:literal: $($path:literal = $template:literal),*) => {
        &[$(($path, include_str!(concat!("../templates/", $folder, "/", $template, ".in")))),*]
    };
}

impl Kind {
    fn files(self) -> &'static [File] {
        match self {
            Kind::App => {
                files!("app": "Cargo.toml" = "Cargo.toml", "src/main.rs" = "main.rs", ".gitignore" = "gitignore")
            }
            Kind::Library => {
                files!("library": "Cargo.toml" = "Cargo.toml", "src/lib.rs" = "lib.rs", ".gitignore" = "gitignore")
            }
            Kind::Candle => {
                files!("candle": "Cargo.toml" = "Cargo.toml", "src/lib.rs" = "lib.rs", ".gitignore" = "gitignore")
            }
            Kind::Python => files!("python":
                "Cargo.toml" = "Cargo.toml", "pyproject.toml" = "pyproject.toml", "src/lib.rs" = "lib.rs",
                "package/{{crate}}/__init__.py" = "init.py", "tests/test_{{crate}}.py" = "test.py", ".gitignore" = "gitignore"),
        }
    }

    /// The commands that follow.
    fn next(self) -> &'static str {
        match self {
            Kind::App => "cargo test && cargo run --release",
            Kind::Library | Kind::Candle => "cargo test",
            Kind::Python => "pip install maturin pytest && maturin develop --release && pytest",
        }
    }
}

/// Words that no crate can have as its name: those of the language, and crates that it would hide.
const TAKEN: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
    "ptx_launch",
    "ptx_ffi",
    "ptx_kernels",
    "candle_core",
    "pyo3",
];

/// Always sound.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let (kind, path) = (arguments.kind, &arguments.path);
    let name = package_name(path)?;
    if path.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!("{}: exists already; name a folder that does not", path.display())));
    }
    let names = Names { name, krate: name.replace('-', "_") };
    for (file, text) in kind.files() {
        write(&path.join(names.fill(file)), &names.fill(text))?;
    }
    writeln!(out, "{} has a package that builds:\n  cd {} && {}", path.display(), path.display(), kind.next())?;
    Ok(true)
}

struct Names<'a> {
    name: &'a str,
    krate: String,
}

impl Names<'_> {
    fn fill(&self, text: &str) -> String {
        let text = text.replace("{{name}}", self.name).replace("{{crate}}", &self.krate);
        text.replace("{{version}}", concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR")))
    }
}

/// The last part of the path, if a package may have that name.
fn package_name(path: &Path) -> Result<&str, Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_word) {
        let rule = "begin it with a letter, and use letters, digits, `-` and `_`";
        return Err(Failure::usage(format!("`{name}` cannot be the name of a package; {rule}")));
    }
    if TAKEN.contains(&name.replace('-', "_").as_str()) {
        return Err(Failure::usage(format!(
            "`{name}` cannot be the name of a package: Rust or a dependency has it; take another"
        )));
    }
    Ok(name)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(path, text));
    written.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

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
    /// A checkout of this project, whose crates the package uses in place of the published ones.
    #[arg(long, value_name = "FOLDER")]
    crates: Option<PathBuf>,
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

    /// Lists of names that a package of this kind cannot have, each with the reason.
    fn taken(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let own = match self {
            Kind::App => OF_PROGRAMS,
            Kind::Python => OF_PYTHON,
            Kind::Library | Kind::Candle => &[],
        };
        TAKEN.iter().chain(own)
    }
}

/// Names that no package can have.
const TAKEN: &[(&str, &str)] = &[
    (
        "is a word of Rust",
        "abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in let loop macro match \
         mod move mut override priv pub ref return self static struct super trait true try type typeof unsafe unsized use virtual where while yield",
    ),
    ("is a crate that its code uses", "alloc core proc_macro std test candle_core pyo3 ptx_ffi ptx_kernels ptx_launch"),
    ("is a device of Windows", "aux con nul prn"),
];

const OF_PROGRAMS: &[(&str, &str)] = &[("is a folder of cargo's builds", "build deps examples incremental")];

const OF_PYTHON: &[(&str, &str)] = &[
    (
        "is a word of Python",
        "and assert class def del elif except finally from global import is lambda nonlocal not or pass raise with",
    ),
    ("is a package that its arrays come from", "cupy jax numpy torch"),
];

/// Always sound.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let (kind, path) = (arguments.kind, &arguments.path);
    let name = package_name(kind, path)?;
    let crates = arguments.crates.as_deref().map(checkout).transpose()?;
    if path.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!("{} exists already\nhelp: name a folder that does not", path.display())));
    }
    let names = Names { name, crates };
    for (file, text) in kind.files() {
        write(&path.join(names.fill(file)), &names.fill(text))?;
    }
    writeln!(
        out,
        "{} has a package with a kernel and its tests. Build it:\n  cd {} && {}",
        path.display(),
        path.display(),
        kind.next()
    )?;
    Ok(true)
}

/// The values of the templates' placeholders.
struct Names<'a> {
    name: &'a str,
    crates: Option<PathBuf>,
}

impl Names<'_> {
    fn fill(&self, text: &str) -> String {
        let text = text.replace("{{name}}", self.name).replace("{{crate}}", &self.name.replace('-', "_"));
        let fill = |text: String, name| text.replace(&format!("{{{{{name}}}}}"), &self.origin(name));
        ["ptx-launch", "ptx-ffi"].into_iter().fold(text, fill)
    }

    /// The origin of a crate of this project, as a manifest has it.
    fn origin(&self, name: &str) -> String {
        match &self.crates {
            Some(folder) => {
                let path = folder.join(name).display().to_string();
                format!("path = \"{}\"", path.replace('\\', "/").replace('"', "\\\""))
            }
            None => {
                let version = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
                format!("version = \"{version}\"")
            }
        }
    }
}

/// The full path of a checkout of this project.
fn checkout(folder: &Path) -> Result<PathBuf, Failure> {
    let found = folder.canonicalize().ok().filter(|folder| folder.join("ptx-launch/Cargo.toml").is_file());
    found.ok_or_else(|| {
        Failure::usage(format!(
            "there is no `ptx-launch` in {}\nhelp: `--crates` names the folder of a checkout of this project; without it the published crates are used",
            folder.display()
        ))
    })
}

/// The last part of the path, if a package may have that name.
fn package_name(kind: Kind, path: &Path) -> Result<&str, Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_word) {
        return Err(Failure::usage(format!(
            "the last part of `{}` cannot be the name of a package\nhelp: begin it with a lower-case letter, and use lower-case letters, digits, `-` and `_`: `my-kernels`",
            path.display()
        )));
    }
    let krate = name.replace('-', "_");
    match kind.taken().find(|(_, names)| names.split(' ').any(|name| name == krate)) {
        Some((why, _)) => Err(Failure::usage(format!(
            "`{name}` cannot be the name of a package: it {why}\nhelp: take another name, such as `my-{name}`"
        ))),
        None => Ok(name),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(path, text));
    written.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

//! `ptx sass`: the machine code of a kernel beside its PTX and Rust, with its static schedule.
//!
//! ```text
//! annotate  PTX whose every instruction has a `.loc` of its own        tools    ptxas and nvdisasm
//! listing   nvdisasm's output, read                                    control  the bits of a schedule
//! schedule  basic blocks, and the cycles that they demand              show     for the terminal
//! page      as a page                                                  compare  two versions
//! ```

mod annotate;
mod compare;
mod control;
mod groups;
mod listing;
mod page;
mod schedule;
mod show;
mod tools;

use crate::kernels;
use crate::launch::refuse;
use crate::origin::Origins;
use crate::output::{Failure, Outcome};
use crate::source::Source;
use crate::write;
use listing::Function;
use ptx_core::check::check;
use ptx_core::isa::Arch;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A PTX file, or a Rust source file with kernels; two with `--diff`.
    #[arg(required = true, num_args = 1..=2)]
    files: Vec<PathBuf>,
    /// The kernel; else all of them.
    #[arg(long)]
    entry: Option<String>,
    /// The target of the machine code, such as sm_90a; else that of the file.
    #[arg(long, value_parser = target)]
    target: Option<Arch>,
    /// Compare the machine code of two files.
    #[arg(long)]
    diff: bool,
    /// Also write a page.
    #[arg(long, value_name = "FILE", conflicts_with = "diff")]
    html: Option<PathBuf>,
    #[command(flatten)]
    kernels: kernels::Choices,
}

fn target(text: &str) -> Result<Arch, String> {
    text.parse().map_err(|_| format!("`{text}` is no target such as sm_90a"))
}

/// A file with the machine code of its kernels.
struct Assembled {
    /// The Rust source and its lines, where there is one; the lines of the PTX.
    rust: Option<Source>,
    source: Source,
    /// The lines that `.loc` names.
    origins: Origins,
    target: Arch,
    functions: Vec<Function>,
}

impl Assembled {
    /// `None` if the file has errors, which are printed.
    fn new(path: &Path, arguments: &Arguments, out: &mut dyn Write) -> Result<Option<Assembled>, Failure> {
        let source = match arguments.kernels.apply_to(path)? {
            true => match kernels::as_ptx(path, arguments.entry.as_deref(), &arguments.kernels, out)? {
                Some(source) => source,
                None => return Ok(None),
            },
            false => Source::read(path)?,
        };
        let (tree, earlier) = source.parse();
        let (checked, diagnostics) = check(tree, earlier, &Default::default());
        let Some(checked) = checked else { return refuse(&source, &diagnostics, out).map(|_| None) };
        let target = arguments.target.unwrap_or(checked.module().arch);
        let text = annotate::with_lines(&source, checked.module());
        let mut functions = tools::machine_code(&text, target)?;
        let of_kernel = source.kernel.as_ref().map(|kernel| &kernel.entry);
        if let Some(entry) = of_kernel.or(arguments.entry.as_ref()) {
            functions.retain(|function| function.name == *entry);
        }
        if functions.is_empty() {
            let names: Vec<&str> = checked.module().functions.iter().map(|f| f.name.as_str()).collect();
            return Err(Failure::usage(format!("no machine code of such a kernel; the file has {}", names.join(", "))));
        }
        let rust = if source.rust.is_empty() { None } else { Some(Source::read(path)?) };
        let origins = match rust {
            None => Origins::read(path, &source.bytes),
            Some(_) => Origins::default(),
        };
        Ok(Some(Assembled { rust, source, origins, target, functions }))
    }

    /// The text of a line of PTX, and the line that it was made of.
    fn origin(&self, line: usize) -> (String, Option<Written>) {
        let ptx = self.source.line_text(line);
        let rust = self.rust.as_ref().map(|rust| {
            let number = self.source.written_line(line);
            Written { file: None, number, text: rust.line_text(number) }
        });
        let named = || {
            let place = self.origins.place(self.source.line_end(line))?;
            let file = self.origins.file(place);
            Some(Written {
                file: Some(file.name().to_owned()),
                number: place.line,
                text: file.text(place.line).to_owned(),
            })
        };
        (ptx, rust.or_else(named))
    }
}

/// A line of what was compiled to PTX: Rust, or the file that `.loc` names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    /// The name of that file; none for Rust.
    file: Option<String>,
    number: usize,
    text: String,
}

/// Sound if ptxas takes the file.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let wrong = |text: &str| Err(Failure::usage(text));
    let (first, second) = match &arguments.files[..] {
        [one] if !arguments.diff => (one, None),
        [a, b] if arguments.diff => (a, Some(b)),
        [_] => return wrong("`--diff` compares two files: ptx sass --diff old.ptx new.ptx"),
        _ => return wrong("two files are compared with `--diff`"),
    };
    let Some(assembled) = Assembled::new(first, arguments, out)? else { return Ok(false) };
    if let Some(second) = second {
        let Some(other) = Assembled::new(second, arguments, out)? else { return Ok(false) };
        compare::write(&assembled, &other, out)?;
        return Ok(true);
    }
    if let Some(path) = &arguments.html {
        write::replace(path, page::page(&assembled).as_bytes())?;
    }
    show::write(&assembled, out)?;
    Ok(true)
}

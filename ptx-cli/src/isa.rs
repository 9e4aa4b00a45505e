//! `ptx isa`: the table of instructions, special registers and directives, to read.

mod markdown;

use crate::output::{Failure, Outcome};
use ptx_core::diag::near::nearest;
use ptx_core::isa::{Row, SpecialRegister, show, table};
use std::io::Write;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// An opcode (`ld`), more of the name (`cp.async.bulk`), a special register (`%clock64`) or a directive
    /// (`.maxntid`); nothing lists the opcodes.
    name: Option<String>,
    /// The whole table as one Markdown document: `docs/language/isa.md`.
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

/// Always sound.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    match &arguments.name {
        Some(name) => one(name, out)?,
        None if arguments.markdown => markdown::write(out)?,
        None => writeln!(out, "{}", table().opcodes().join("\n"))?,
    }
    Ok(true)
}

fn one(name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let text = text(name);
    if text.is_empty() {
        return Err(unknown(name));
    }
    writeln!(out, "{text}")?;
    Ok(())
}

/// The entries of a name; empty if the table has none.
fn text(name: &str) -> String {
    match name.as_bytes().first() {
        Some(b'%') => joined(table().specials.get(name).into_iter().map(show::special)),
        Some(b'.') => joined(table().directives.get(name).into_iter().map(show::directive)),
        _ => joined(rows(name).into_iter().map(row)),
    }
}

fn joined(entries: impl Iterator<Item = String>) -> String {
    entries.collect::<Vec<_>>().join("\n\n")
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = match name.as_bytes().first() {
        Some(b'%') => table().specials.keys().copied().collect(),
        Some(b'.') => table().directives.keys().copied().collect(),
        _ => table().opcodes(),
    };
    let spelled = [name.to_lowercase(), format!("%{name}"), format!(".{name}")];
    if let Some(other) = spelled.iter().find(|other| *other != name && !text(other).is_empty()) {
        return Failure::usage(format!("the table has no `{name}`; did you mean `{other}`?"));
    }
    let (opcode, more) = name.split_once('.').unwrap_or((name, ""));
    let help = match (known.contains(&opcode), nearest(if opcode.is_empty() { name } else { opcode }, known)) {
        (true, _) => format!("`ptx isa {opcode}` shows what it has instead of `.{more}`"),
        (false, Some(near)) => format!("did you mean `{near}`?"),
        (false, None) => "`ptx isa` lists the opcodes".to_owned(),
    };
    Failure::usage(format!("the table has no `{name}`; {help}"))
}

/// The rows of an opcode; with more of the name, those whose name goes on so, or else those that take these
/// modifiers and perhaps more.
fn rows(name: &str) -> Vec<&'static Row> {
    let mut pieces = name.split('.');
    let opcode = pieces.next().unwrap_or(name);
    let goes_on = |row: &&Row| row.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let named: Vec<&Row> = table().forms(opcode).iter().filter(goes_on).collect();
    if !named.is_empty() {
        return named;
    }
    let modifiers: Vec<&str> = pieces.collect();
    match table().find(opcode, &modifiers) {
        Ok(forms) => forms.iter().map(|form| form.row).collect(),
        Err(misfits) => misfits.iter().filter(|m| m.unplaced.is_none()).map(|m| m.row).collect(),
    }
}

/// An entry with every member of its sets.
fn row(row: &'static Row) -> String {
    show::entry(row, usize::MAX)
}

/// The special registers by name, components within their vector.
fn specials() -> Vec<&'static SpecialRegister> {
    let mut all: Vec<_> = table().specials.values().filter(|s| s.component.is_empty()).collect();
    all.sort_by_key(|s| s.name);
    all
}

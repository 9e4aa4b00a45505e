//! The program that is debugged: its file, its instructions with their lines, and its launch.

use crate::run::{self, Prepared};
use clap::Parser;
use ptx_expand::program::MemoryLayout;
use ptx_interp::Tracer;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The arguments of `ptx run`, which describe a launch.
#[derive(Parser)]
#[command(name = "ptx run")]
struct Line {
    #[command(flatten)]
    run: run::Arguments,
}

/// Types, for showing values.
pub(super) struct Described {
    /// Those of registers, by their names.
    pub(super) registers: HashMap<String, String>,
    /// Those of variables in shared memory.
    pub(super) memory: Vec<MemoryLayout>,
}

pub(super) type Types = Arc<Described>;

pub(super) struct Target {
    path: PathBuf,
    /// The line of each instruction, in the file.
    lines: Vec<Option<u64>>,
    types: Types,
    stops_at_entry: bool,
    launch: Option<Launch>,
}

/// A launch that has not begun.
pub(super) struct Launch {
    arguments: run::Arguments,
    prepared: Prepared,
}

/// Changes to the folder of the launch's files, by default that of the program: an editor starts the adapter in a folder of its own.
fn enter_folder(named: Option<&str>, program: &Path) -> Result<(), String> {
    match (named, program.parent()) {
        (Some(folder), _) => std::env::set_current_dir(folder).map_err(|why| format!("`cwd`: {folder}: {why}")),
        // A folder that is missing is an error of the program's path.
        (None, Some(folder)) if folder.is_dir() => std::env::set_current_dir(folder).map_err(|why| why.to_string()),
        _ => Ok(()),
    }
}

impl Target {
    /// Reads the configuration of an editor: `program`, `args` as `ptx run` takes them, and `cwd`, the folder of the files that they name.
    pub(super) fn new(configuration: &Value) -> Result<Target, String> {
        let program = configuration["program"].as_str().ok_or("`program` names the file, a .ptx or .rs file")?;
        let path = std::path::absolute(program).map_err(|why| format!("{program}: {why}"))?;
        enter_folder(configuration["cwd"].as_str(), &path)?;
        let mut words = vec!["ptx run".to_owned(), path.display().to_string()];
        match &configuration["args"] {
            Value::String(text) => words.extend(text.split_whitespace().map(str::to_owned)),
            Value::Array(list) => {
                words.extend(list.iter().map(|one| one.as_str().map_or(one.to_string(), str::to_owned)))
            }
            _ => {}
        }
        let line = Line::try_parse_from(words).map_err(|why| why.to_string())?;
        let prepared = Prepared::new(&line.run)?;
        let lines = prepared.lines();
        Ok(Target {
            path,
            lines,
            types: Arc::new(Described { registers: prepared.registers(), memory: prepared.memory() }),
            stops_at_entry: configuration["stopOnEntry"] == true,
            launch: Some(Launch { arguments: line.run, prepared }),
        })
    }

    pub(super) fn path(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub(super) fn instructions(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn lines(&self) -> Vec<Option<u64>> {
        self.lines.clone()
    }

    pub(super) fn types(&self) -> Types {
        Arc::clone(&self.types)
    }

    pub(super) fn stops_at_entry(&self) -> bool {
        self.stops_at_entry
    }

    pub(super) fn take_launch(&mut self) -> Option<Launch> {
        self.launch.take()
    }

    pub(super) fn line(&self, instruction: u32) -> Option<u64> {
        self.lines.get(instruction as usize).copied().flatten()
    }

    /// The first line from one on that has instructions, and the first of each run of them.
    pub(super) fn breakpoint(&self, path: &str, line: u64) -> Option<(u64, Vec<u32>)> {
        let is_same = |other: &str| Path::new(other).canonicalize().ok() == self.path.canonicalize().ok();
        if path != self.path() && !is_same(path) {
            return None;
        }
        let line = self.lines.iter().flatten().copied().filter(|known| *known >= line).min()?;
        let begins = |at: &usize| {
            self.lines[*at] == Some(line) && at.checked_sub(1).is_none_or(|before| self.lines[before] != Some(line))
        };
        let all = (0..self.lines.len()).filter(begins).filter_map(|at| u32::try_from(at).ok());
        Some((line, all.collect()))
    }
}

impl Launch {
    /// Runs it to its end: what it prints, and the exit code.
    pub(super) fn run(self, tracer: Tracer) -> (String, i32) {
        let mut printed = Vec::new();
        let sound = self.prepared.launch(&self.arguments, tracer, &mut printed);
        let mut text = String::from_utf8_lossy(&printed).into_owned();
        match sound {
            Ok(true) => (text, 0),
            Ok(false) => (text, 1),
            Err(why) => {
                text += &why;
                (text, 2)
            }
        }
    }
}

//! Many files: a line for each that is not proved, and the totals.

use super::{Arguments, Made, transpile};
use crate::output::Outcome;
use crate::source::Source;
use std::io::Write;
use std::path::PathBuf;

#[derive(Default)]
struct Total {
    files: usize,
    wrong: usize,
    compile: usize,
    bytes: usize,
    same: usize,
    assembled: usize,
    machine_code: usize,
}

pub(super) fn run(arguments: &Arguments, paths: &[PathBuf], out: &mut dyn Write) -> Outcome {
    let mut total = Total::default();
    let mut sound = true;
    for path in paths {
        let source = Source::read(path)?;
        total.files += 1;
        match transpile(arguments, path, &source)? {
            None => total.wrong += 1,
            Some(made) => {
                total.add(&made);
                if !made.proof.holds() || !made.rewritten.is_empty() {
                    writeln!(out, "{}", made.report(&source))?;
                }
                sound &= made.proof.holds();
            }
        }
    }
    total.print(out)?;
    Ok(sound)
}

impl Total {
    fn add(&mut self, made: &Made) {
        let proof = &made.proof;
        self.compile += usize::from(proof.expanded.is_ok());
        self.bytes += usize::from(proof.identical);
        self.same += usize::from(proof.expanded.is_ok() && proof.difference.is_none());
        self.assembled += usize::from(proof.machine_code.is_some());
        self.machine_code += usize::from(matches!(proof.machine_code, Some(Ok(true))));
    }

    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Total { files, wrong, compile, bytes, same, assembled, machine_code } = self;
        let sound = files - wrong;
        writeln!(out, "{files} files, {wrong} of them with errors; of the {sound} others:")?;
        writeln!(out, "  {compile} expand, {same} to the same instructions, {bytes} to the same bytes")?;
        if *assembled > 0 {
            writeln!(out, "  {machine_code} of {assembled} that ptxas takes have the same machine code")?;
        }
        Ok(())
    }
}

//! Many files: a line for each that is not proved, and the totals.

use super::{Arguments, Made, transpile};
use crate::output::Outcome;
use crate::source::Source;
use std::collections::BTreeMap;
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
    raised: usize,
    kernels: usize,
    whole: usize,
    /// Lines of the sugar for each line of the input, per file.
    shrinkage: Vec<f64>,
    /// In how many kernels each pass found something, and from how many it was taken back.
    passes: BTreeMap<&'static str, (usize, usize)>,
    refused: BTreeMap<String, usize>,
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
                total.sugar(&made, &source);
                let back = matches!(&made.sugar, Some(Ok(p)) if p.taken_back.iter().any(|b| !b.is_empty()));
                if !made.proof.holds() || !made.rewritten.is_empty() || back {
                    writeln!(out, "{}", made.report(&source))?;
                }
                sound &= made.proof.holds();
                out.flush()?;
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

    fn sugar(&mut self, made: &Made, source: &Source) {
        let proved = match &made.sugar {
            None => return,
            Some(Err(why)) => return *self.refused.entry(why.clone()).or_default() += 1,
            Some(Ok(proved)) => proved,
        };
        self.raised += 1;
        let lines = |text: &[u8]| text.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
        self.shrinkage.push(lines(made.rust.as_bytes()) as f64 / lines(&source.bytes).max(1) as f64);
        for (kernel, back) in proved.kernels.iter().zip(&proved.taken_back) {
            self.kernels += 1;
            self.whole += usize::from(back.is_empty());
            for (pass, times) in &kernel.applied {
                self.passes.entry(pass).or_default().0 += usize::from(*times > 0);
            }
            for (pass, _) in back {
                self.passes.entry(pass).or_default().1 += 1;
            }
        }
    }

    fn print_sugar(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Total { raised, kernels, whole, .. } = self;
        writeln!(out, "  {raised} raised, {kernels} kernels, {whole} of them by every pass")?;
        let mut sorted = self.shrinkage.clone();
        sorted.sort_by(f64::total_cmp);
        if let (Some(worst), Some(median)) = (sorted.last(), sorted.get(sorted.len() / 2)) {
            writeln!(out, "  lines of Rust for each line of PTX: median {median:.2}, worst {worst:.2}")?;
        }
        for (pass, (applied, back)) in &self.passes {
            writeln!(out, "  {pass}: found something in {applied} kernels, taken back in {back}")?;
        }
        for (why, times) in &self.refused {
            writeln!(out, "  {times} plain, for {why}")?;
        }
        Ok(())
    }

    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Total { files, wrong, compile, bytes, same, assembled, machine_code, .. } = self;
        let sound = files - wrong;
        writeln!(out, "{files} files, {wrong} of them with errors; of the {sound} others:")?;
        writeln!(out, "  {compile} expand, {same} to the same instructions, {bytes} to the same bytes")?;
        if self.raised + self.refused.len() > 0 {
            self.print_sugar(out)?;
        }
        if *assembled > 0 {
            writeln!(out, "  {machine_code} of {assembled} that ptxas takes have the same machine code")?;
        }
        Ok(())
    }
}

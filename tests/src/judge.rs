//! The assembler's front end as a judge of many kernels in one process. Whole modules go to [`crate::ptxas`].

use crate::ptxas;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A ptxas on this machine.
#[derive(Clone, Debug)]
pub struct Judge {
    path: PathBuf,
}

/// What it said about one run: the first message of each line, and the line behind which it read nothing.
#[derive(Debug, Default)]
struct Report {
    lines: BTreeMap<usize, String>,
    stopped: Option<usize>,
    failed: bool,
}

/// How many kernels go into one process.
const BATCH: usize = 400;

impl Judge {
    /// The one that [`ptxas::find`] finds.
    pub fn find() -> Option<Judge> {
        ptxas::find().map(|path| Judge { path })
    }

    /// For each kernel (one line each) why its front end refuses it, or `None`, as if the kernel stood alone under `header`.
    ///
    /// # Errors
    /// If ptxas cannot be run or its files cannot be written.
    pub fn refusals(&self, header: &str, arch: &str, kernels: &[String]) -> io::Result<Vec<Option<String>>> {
        let mut out = Vec::with_capacity(kernels.len());
        for batch in kernels.chunks(BATCH) {
            out.extend(self.batch(header, arch, batch)?);
        }
        Ok(out)
    }

    /// Why code generation refuses a kernel that the front end takes, or `None`. A crash is a refusal.
    ///
    /// # Errors
    /// If ptxas cannot be run or its files cannot be written.
    pub fn code_refusal(&self, header: &str, arch: &str, kernel: &str) -> io::Result<Option<String>> {
        let report = self.run(&format!("{header}\n{kernel}\n"), arch)?;
        let message = report.lines.into_values().next().unwrap_or_else(|| "code generation fails".to_owned());
        Ok(report.failed.then_some(message))
    }

    /// The first pass walks over the errors that end a run, the second judges what is left, until nothing is refused.
    fn batch(&self, header: &str, arch: &str, kernels: &[String]) -> io::Result<Vec<Option<String>>> {
        let mut verdicts: Vec<Option<String>> = vec![None; kernels.len()];
        let mut from = 0;
        while from < kernels.len() {
            let all: Vec<usize> = (from..kernels.len()).collect();
            match self.judge(header, arch, kernels, &all, &mut verdicts)?.stopped {
                Some(at) => from = at + 1,
                None => break,
            }
        }
        loop {
            let left: Vec<usize> = (0..kernels.len()).filter(|i| verdicts[*i].is_none()).collect();
            let report = self.judge(header, arch, kernels, &left, &mut verdicts)?;
            if report.lines.is_empty() {
                if report.failed {
                    self.halve(header, arch, kernels, &left, &mut verdicts)?;
                }
                return Ok(verdicts);
            }
        }
    }

    /// Finds the kernels that are refused without a line of theirs: by what an instruction is expanded to.
    fn halve(
        &self,
        header: &str,
        arch: &str,
        kernels: &[String],
        chosen: &[usize],
        verdicts: &mut [Option<String>],
    ) -> io::Result<()> {
        if let [only] = chosen {
            verdicts[*only].get_or_insert_with(|| "refused without a line".to_owned());
            return Ok(());
        }
        let (front, back) = chosen.split_at(chosen.len() / 2);
        for half in [front, back] {
            if self.judge(header, arch, kernels, half, verdicts)?.failed {
                self.halve(header, arch, kernels, half, verdicts)?;
            }
        }
        Ok(())
    }

    fn judge(
        &self,
        header: &str,
        arch: &str,
        kernels: &[String],
        chosen: &[usize],
        verdicts: &mut [Option<String>],
    ) -> io::Result<Report> {
        let body: Vec<&str> = chosen.iter().map(|i| kernels[*i].as_str()).collect();
        let report = self.run(&format!("{header}\n{}\n", body.join("\n")), &arch.replace("sm_", "compute_"))?;
        let first = header.lines().count() + 1;
        let kernel = |line: usize| line.checked_sub(first).and_then(|at| chosen.get(at)).copied();
        for (line, message) in &report.lines {
            if let Some(at) = kernel(*line) {
                verdicts[at] = Some(message.clone());
            }
        }
        Ok(Report { stopped: report.stopped.and_then(kernel), ..report })
    }

    fn run(&self, text: &str, arch: &str) -> io::Result<Report> {
        static RUN: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ptx-tests-{}-{}.ptx", std::process::id(), RUN.fetch_add(1, Ordering::Relaxed));
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, text)?;
        let object = file.with_extension("o");
        let out = Command::new(&self.path).args(["-arch", arch, "-o"]).arg(&object).arg(&file).output();
        for path in [&file, &object] {
            remove(path);
        }
        let out = out?;
        let mut report = read(&String::from_utf8_lossy(&out.stderr), &file.to_string_lossy());
        report.failed = !out.status.success();
        Ok(report)
    }
}

fn remove(path: &Path) {
    // What is not there needs no removing.
    let _ = std::fs::remove_file(path);
}

/// `ptxas FILE, line 7; error   : …`. Lines of what ptxas expands an instruction to are none of the file's.
fn read(text: &str, file: &str) -> Report {
    let mut report = Report::default();
    for line in text.lines().filter(|l| l.contains(file)) {
        let Some((number, message)) = line.split_once(", line ").and_then(|(_, rest)| rest.split_once(';')) else {
            continue;
        };
        let (Ok(number), Some((severity, message))) = (number.parse(), message.split_once(':')) else { continue };
        if matches!(severity.trim(), "error" | "fatal") {
            report.lines.entry(number).or_insert_with(|| message.trim().to_owned());
        }
        if severity.trim() == "fatal" || message.contains("syntax error") {
            report.stopped = Some(number);
        }
    }
    report
}

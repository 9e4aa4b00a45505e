//! The assembler's front end as a judge of many kernels in one process. Whole modules go to [`crate::ptxas`].

use crate::ptxas::{self, Run};
use ptx_expand::temp_dir::TempDir;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A ptxas on this machine.
#[derive(Clone, Debug)]
pub struct Judge {
    path: PathBuf,
}

/// What it says of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It takes it.
    Taken,
    /// It refuses it, and why. A crash is a refusal.
    Refused(String),
    /// It does not come to an end.
    Endless,
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

/// How long the front end may take, for nothing and for each kernel: a hundred times what it needs.
const STARTS: Duration = Duration::from_secs(5);
const READS: Duration = Duration::from_millis(50);

/// A run on some of the kernels that share a header.
struct Round<'a> {
    judge: &'a Judge,
    header: &'a str,
    arch: &'a str,
    kernels: &'a [String],
    verdicts: Vec<Verdict>,
}

impl Judge {
    /// The one that [`ptxas::find`] finds.
    pub fn find() -> Option<Judge> {
        ptxas::find().map(|path| Judge { path })
    }

    /// What its front end says of each kernel (one line each), as if it stood alone under `header`.
    ///
    /// # Errors
    /// If ptxas cannot be run or its files cannot be written.
    pub fn verdicts(&self, header: &str, arch: &str, kernels: &[String]) -> io::Result<Vec<Verdict>> {
        let arch = arch.replace("sm_", "compute_");
        let mut out = Vec::with_capacity(kernels.len());
        for kernels in kernels.chunks(BATCH) {
            let verdicts = vec![Verdict::Taken; kernels.len()];
            out.extend(Round { judge: self, header, arch: &arch, kernels, verdicts }.run()?);
        }
        Ok(out)
    }

    /// What code generation says of a kernel.
    ///
    /// # Errors
    /// If ptxas cannot be run or its files cannot be written.
    pub fn code_verdict(&self, header: &str, arch: &str, kernel: &str) -> io::Result<Verdict> {
        let report = self.run(&format!("{header}\n{kernel}\n"), arch, ptxas::LIMIT)?;
        Ok(match report {
            None => Verdict::Endless,
            Some(report) if !report.failed => Verdict::Taken,
            Some(report) => {
                let message = report.lines.into_values().next();
                Verdict::Refused(message.unwrap_or_else(|| "code generation fails".to_owned()))
            }
        })
    }

    /// `None` if it did not end.
    fn run(&self, text: &str, arch: &str, limit: Duration) -> io::Result<Option<Report>> {
        let folder = TempDir::new("ptx-tests")?;
        let file = folder.path().join("kernels.ptx");
        std::fs::write(&file, text)?;
        Ok(match ptxas::run(&self.path, arch, &file, limit)? {
            Run::Ended { success, said } => Some(read(&said, &file.to_string_lossy(), !success)),
            Run::Endless => None,
        })
    }
}

impl Round<'_> {
    /// The first pass walks over the errors that end a run, the second judges what is left, until nothing is refused.
    fn run(mut self) -> io::Result<Vec<Verdict>> {
        let mut from = 0;
        while from < self.kernels.len() {
            match self.judge(&self.left(from))?.stopped {
                Some(at) => from = at + 1,
                None => break,
            }
        }
        loop {
            let left = self.left(0);
            let report = self.judge(&left)?;
            if report.lines.is_empty() {
                if report.failed {
                    self.halve(&left)?;
                }
                return Ok(self.verdicts);
            }
        }
    }

    /// Those from there on that are not refused yet.
    fn left(&self, from: usize) -> Vec<usize> {
        (from..self.kernels.len()).filter(|i| self.verdicts[*i] == Verdict::Taken).collect()
    }

    /// Finds the kernels that are refused without a line of theirs: by what an instruction is expanded to.
    fn halve(&mut self, chosen: &[usize]) -> io::Result<()> {
        if let [only] = chosen {
            self.settle(*only, Verdict::Refused("refused without a line".to_owned()));
            return Ok(());
        }
        let (front, back) = chosen.split_at(chosen.len() / 2);
        for half in [front, back] {
            if self.judge(half)?.failed {
                self.halve(half)?;
            }
        }
        Ok(())
    }

    /// What is said of these kernels; of two halves, if it does not end with the whole.
    fn judge(&mut self, chosen: &[usize]) -> io::Result<Report> {
        let body: Vec<&str> = chosen.iter().map(|i| self.kernels[*i].as_str()).collect();
        let text = format!("{}\n{}\n", self.header, body.join("\n"));
        let limit = STARTS + READS * u32::try_from(chosen.len()).unwrap_or(u32::MAX);
        let Some(mut report) = self.judge.run(&text, self.arch, limit)? else { return self.part(chosen) };
        let first = self.header.lines().count() + 1;
        let kernel = |line: usize| line.checked_sub(first).and_then(|at| chosen.get(at)).copied();
        for (line, message) in &report.lines {
            if let Some(at) = kernel(*line) {
                self.settle(at, Verdict::Refused(message.clone()));
            }
        }
        report.stopped = report.stopped.and_then(kernel);
        Ok(report)
    }

    fn part(&mut self, chosen: &[usize]) -> io::Result<Report> {
        if let [only] = chosen {
            self.settle(*only, Verdict::Endless);
            return Ok(Report::default());
        }
        let (front, back) = chosen.split_at(chosen.len() / 2);
        let (front, back) = (self.judge(front)?, self.judge(back)?);
        Ok(Report {
            lines: front.lines.into_iter().chain(back.lines).collect(),
            stopped: front.stopped.or(back.stopped),
            failed: front.failed || back.failed,
        })
    }

    /// The first verdict counts.
    fn settle(&mut self, at: usize, verdict: Verdict) {
        if self.verdicts[at] == Verdict::Taken {
            self.verdicts[at] = verdict;
        }
    }
}

/// `ptxas FILE, line 7; error   : …`. Lines of what ptxas expands an instruction to are none of the file's.
fn read(text: &str, file: &str, failed: bool) -> Report {
    let mut report = Report { failed, ..Report::default() };
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

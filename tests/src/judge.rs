//! The assembler's front end as a judge of many kernels in one process. Whole modules go to [`crate::ptxas`].

use crate::ptxas::{self, Run};
use ptx_expand::temp_dir::TempDir;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A ptxas on this machine.
#[derive(Clone, Debug)]
pub struct Judge {
    path: PathBuf,
}

/// Verdict of ptxas on one kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It takes it.
    Taken,
    /// It refuses it, and why. A crash is a refusal.
    Refused(String),
    /// It does not come to an end.
    Endless,
}

/// Messages about the files of one run.
#[derive(Debug, Default)]
struct Report {
    files: Vec<Said>,
    failed: bool,
}

/// Messages about one file: the first of each line.
#[derive(Clone, Debug, Default)]
struct Said {
    lines: BTreeMap<usize, String>,
}

/// A kernel, and what is expected of it: a hint that saves time.
#[derive(Clone, Debug)]
pub struct Question {
    /// One line.
    pub kernel: String,
    /// Expected verdict of the assembler.
    pub expected: Expected,
}

/// Expectation about the assembler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It takes the kernel.
    Taken,
    /// It refuses it.
    Refused,
    /// It stops reading the file there.
    Stopped,
}

/// Number of kernels per process. Starting one takes as long as six hundred kernels.
const BATCH: usize = 1600;

/// Number of kernels per file. An error of syntax ends a file, and ptxas goes on with the next.
const FILE: usize = 40;

/// Message about a kernel that ptxas refuses without saying where.
const WITHOUT_LINE: &str = "refused without a line";

/// Part of the message of an error that ends a file.
const STOPS: &str = "syntax error";

/// Time limit of the front end, for nothing and per kernel: a hundred times its need.
const STARTS: Duration = Duration::from_secs(5);
const READS: Duration = Duration::from_millis(10);

/// A run on some of the kernels that share a header.
struct Round<'a> {
    judge: &'a Judge,
    header: &'a str,
    arch: &'a str,
    questions: &'a [Question],
    verdicts: Vec<Verdict>,
    doubted: Vec<usize>,
}

impl Judge {
    /// The one that [`ptxas::find`] finds.
    pub fn find() -> Option<Judge> {
        ptxas::find().map(|path| Judge { path })
    }

    /// Verdicts of its front end on each kernel, as if it stood alone under `header`. The kernels have different
    /// names.
    ///
    /// # Errors
    /// If ptxas cannot be run or its files cannot be written.
    pub fn verdicts(&self, header: &str, arch: &str, questions: &[Question]) -> io::Result<Vec<Verdict>> {
        let arch = ptxas::assembled(arch).replace("sm_", "compute_");
        let mut out = Vec::with_capacity(questions.len());
        for questions in questions.chunks(BATCH) {
            let verdicts = vec![Verdict::Taken; questions.len()];
            out.extend(Round { judge: self, header, arch: &arch, questions, verdicts, doubted: Vec::new() }.run()?);
        }
        Ok(out)
    }

    /// Verdict of code generation on a kernel.
    ///
    /// # Errors
    /// If ptxas cannot be run or its files cannot be written.
    pub fn code_verdict(&self, header: &str, arch: &str, kernel: &str) -> io::Result<Verdict> {
        let report = self.run(&[format!("{header}\n{kernel}\n")], ptxas::assembled(arch), ptxas::LIMIT)?;
        Ok(match report {
            None => Verdict::Endless,
            Some(report) if !report.failed => Verdict::Taken,
            Some(report) => {
                let message = report.files.into_iter().flat_map(|said| said.lines.into_values()).next();
                Verdict::Refused(message.unwrap_or_else(|| "code generation fails".to_owned()))
            }
        })
    }

    /// `None` if it did not end.
    fn run(&self, texts: &[String], arch: &str, limit: Duration) -> io::Result<Option<Report>> {
        let folder = TempDir::new("ptx-tests")?;
        let files: Vec<PathBuf> = (0..texts.len()).map(|at| folder.path().join(format!("{at}.ptx"))).collect();
        files.iter().zip(texts).try_for_each(|(file, text)| std::fs::write(file, text))?;
        Ok(match ptxas::run(&self.path, arch, &files, limit)? {
            Run::Ended { success, said } => Some(read(&said, folder.path(), texts.len(), !success)),
            Run::Endless => None,
        })
    }
}

impl Round<'_> {
    /// The kernels that should be taken are judged apart from the others: mostly one pass is enough for them.
    fn run(mut self) -> io::Result<Vec<Verdict>> {
        let is_taken = |at: &usize| self.questions[*at].expected == Expected::Taken;
        let (taken, others): (Vec<usize>, Vec<usize>) = (0..self.questions.len()).partition(is_taken);
        if self.exhaust(&taken)? {
            let left = self.left(&taken);
            self.halve(&left)?;
        }
        if self.exhaust(&others)? {
            self.one_by_one(&others)?;
        }
        self.settle_doubts()
    }

    /// Judges the forms that are not refused yet, again and again, until a pass refuses no more: ptxas stops at errors of syntax, and finds
    /// some errors only if all forms before are right. Returns true if ptxas fails in the end without naming a line.
    fn exhaust(&mut self, chosen: &[usize]) -> io::Result<bool> {
        loop {
            let left = self.left(chosen);
            if left.is_empty() {
                return Ok(false);
            }
            let (said, failed) = self.judge(&left)?;
            if !said {
                return Ok(failed);
            }
        }
    }

    /// Kernels that should be refused and are left because nothing was said of them: nearly all crash.
    fn one_by_one(&mut self, chosen: &[usize]) -> io::Result<()> {
        for at in self.left(chosen) {
            if self.judge(&[at])? == (false, true) {
                self.settle(at, Verdict::Refused(WITHOUT_LINE.to_owned()));
            }
        }
        Ok(())
    }

    /// Asks again about each of those that are doubted, in a process of its own.
    fn settle_doubts(mut self) -> io::Result<Vec<Verdict>> {
        for at in std::mem::take(&mut self.doubted) {
            self.verdicts[at] = Verdict::Taken;
            self.judge(&[at])?;
        }
        Ok(self.verdicts)
    }

    /// Those of them that are not refused yet.
    fn left(&self, chosen: &[usize]) -> Vec<usize> {
        chosen.iter().copied().filter(|at| self.verdicts[*at] == Verdict::Taken).collect()
    }

    /// Finds the kernels that are refused without a line of theirs: by what an instruction is expanded to.
    fn halve(&mut self, chosen: &[usize]) -> io::Result<()> {
        if let [only] = chosen {
            self.settle(*only, Verdict::Refused(WITHOUT_LINE.to_owned()));
            return Ok(());
        }
        let (front, back) = chosen.split_at(chosen.len() / 2);
        for half in [front, back] {
            if self.judge(half)?.1 {
                self.halve(half)?;
            }
        }
        Ok(())
    }

    /// Settles what is said of these kernels; of two halves, if it does not end with the whole. Whether it said anything of a
    /// kernel, and whether it failed.
    ///
    /// After some mistakes ptxas finds an error of syntax in every file that follows: one that nobody expects is doubted.
    fn judge(&mut self, chosen: &[usize]) -> io::Result<(bool, bool)> {
        let files = self.files(chosen);
        let texts: Vec<String> = files.iter().map(|file| self.text(file)).collect();
        let limit = STARTS + READS * u32::try_from(chosen.len()).unwrap_or(u32::MAX);
        let Some(report) = self.judge.run(&texts, self.arch, limit)? else { return self.part(chosen) };
        let first = self.header.lines().count() + 1;
        let mut any = false;
        for (file, said) in files.iter().zip(report.files) {
            for (line, message) in said.lines {
                let Some(at) = line.checked_sub(first).and_then(|at| file.get(at)).copied() else { continue };
                any = true;
                if message.contains(STOPS) && self.questions[at].expected == Expected::Taken && chosen.len() > 1 {
                    self.doubted.push(at);
                }
                self.settle(at, Verdict::Refused(message));
            }
        }
        Ok((any, report.failed))
    }

    /// The kernels of each file: those that stop it alone.
    fn files(&self, chosen: &[usize]) -> Vec<Vec<usize>> {
        let (alone, together): (Vec<usize>, Vec<usize>) =
            chosen.iter().partition(|at| self.questions[**at].expected == Expected::Stopped);
        together.chunks(FILE).map(<[usize]>::to_vec).chain(alone.into_iter().map(|at| vec![at])).collect()
    }

    fn text(&self, file: &[usize]) -> String {
        let kernels: Vec<&str> = file.iter().map(|at| self.questions[*at].kernel.as_str()).collect();
        format!("{}\n{}\n", self.header, kernels.join("\n"))
    }

    fn part(&mut self, chosen: &[usize]) -> io::Result<(bool, bool)> {
        if let [only] = chosen {
            self.settle(*only, Verdict::Endless);
            return Ok((true, true));
        }
        let (front, back) = chosen.split_at(chosen.len() / 2);
        let (front, back) = (self.judge(front)?, self.judge(back)?);
        Ok((front.0 || back.0, front.1 || back.1))
    }

    /// The first verdict counts.
    fn settle(&mut self, at: usize, verdict: Verdict) {
        if self.verdicts[at] == Verdict::Taken {
            self.verdicts[at] = verdict;
        }
    }
}

/// `ptxas FOLDER/3.ptx, line 7; error   : …`. Lines of what ptxas expands an instruction to are of no file.
fn read(text: &str, folder: &Path, files: usize, failed: bool) -> Report {
    let mut report = Report { files: vec![Said::default(); files], failed };
    let folder = format!("{}/", folder.display());
    for line in text.lines() {
        let Some((_, rest)) = line.split_once(&folder) else { continue };
        let Some((file, rest)) = rest.split_once(".ptx, line ") else { continue };
        let Some((number, message)) = rest.split_once(';') else { continue };
        let said = file.parse().ok().and_then(|file: usize| report.files.get_mut(file));
        let (Some(said), Ok(number), Some((severity, message))) = (said, number.parse(), message.split_once(':'))
        else {
            continue;
        };
        if matches!(severity.trim(), "error" | "fatal") {
            said.lines.entry(number).or_insert_with(|| message.trim().to_owned());
        }
    }
    report
}

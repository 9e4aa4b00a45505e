//! Rivals in a process of their own: a companion is told, line by line, what to open and how often to run it, so that its
//! kernels and ours take turns within seconds on the same chip, each timed by events where it runs. Knows no kernel.
//!
//! ```text
//! at its start                  ready WHAT            `torch 2.11, cuDNN 9.10`
//! open KERNEL SIZE              rival NAME ERROR      one line for each who plays; the error as a `Case` counts it
//!                               absent NAME WHY       one line for each who does not
//!                               done
//! time NAME LAUNCHES            micros TIME           of one launch, of so many or a little more in a row
//! close                         done
//! to anything                   failed WHY
//! ```
//!
//! Words are separated by tabs. A companion that does not answer in time is ended and stays away; that is never an error
//! of the run.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Longest wait for an answer: imports and compilers take time.
const PATIENCE: Duration = Duration::from_secs(240);

/// A companion, here or not.
pub struct Companion {
    /// The command that started it.
    pub command: String,
    process: Result<Process, String>,
}

/// Answer of a companion to a case.
#[derive(Debug, Default, PartialEq)]
pub struct Opened {
    /// Who plays, and how far from the reference they are.
    pub rivals: Vec<(String, f64)>,
    /// Who does not, and why.
    pub absent: Vec<(String, String)>,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    replies: Receiver<String>,
    greeted: bool,
}

impl Companion {
    /// Starts a command of words separated by blanks; it may get ready while others work.
    pub fn start(command: &str) -> Companion {
        let process = Process::start(command).map_err(|why| format!("`{command}` does not start: {why}"));
        Companion { command: command.to_owned(), process }
    }

    /// Returns true if it can be asked: it runs, and has kept to the protocol so far.
    pub fn is_here(&self) -> bool {
        self.process.is_ok()
    }

    /// Waits until it is ready, and returns its description of itself.
    ///
    /// # Errors
    /// Why it is not here.
    pub fn greet(&mut self) -> Result<String, String> {
        self.ask(None, |lines| {
            let [line] = lines else { return None };
            (line.first()? == "ready").then(|| line.get(1).cloned().unwrap_or_default())
        })
    }

    /// Prepares a kernel at a size.
    ///
    /// # Errors
    /// Why it could not.
    pub fn open(&mut self, kernel: &str, size: &str) -> Result<Opened, String> {
        self.ask(Some(&format!("open\t{kernel}\t{size}")), |lines| {
            let (last, lines) = lines.split_last()?;
            let mut opened = Opened::default();
            for line in lines {
                match line.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                    ["rival", name, error] => opened.rivals.push((name.to_owned(), error.parse().ok()?)),
                    ["absent", name, why] => opened.absent.push((name.to_owned(), why.to_owned())),
                    _ => return None,
                }
            }
            (last.first()? == "done").then_some(opened)
        })
    }

    /// The time of one of `launches` launches.
    ///
    /// # Errors
    /// Why there is none.
    pub fn time(&mut self, name: &str, launches: u32) -> Result<Duration, String> {
        self.ask(Some(&format!("time\t{name}\t{launches}")), |lines| match lines {
            [line] if line.first()? == "micros" => {
                let micros: f64 = line.get(1)?.parse().ok()?;
                Duration::try_from_secs_f64(micros / 1e6).ok().filter(|time| !time.is_zero())
            }
            _ => None,
        })
    }

    /// Lets it forget the kernel that is open.
    pub fn close(&mut self) {
        // If it cannot, the next request fails.
        let _ = self.ask(Some("close"), |_| Some(()));
    }

    /// Sends a request and reads the answer, to its last line. Whoever breaks the protocol is ended.
    fn ask<T>(&mut self, request: Option<&str>, read: impl Fn(&[Vec<String>]) -> Option<T>) -> Result<T, String> {
        let process = self.process.as_mut().map_err(|why| why.clone())?;
        let answer = match request {
            Some(request) => process.ask(request),
            None => process.answer(),
        };
        let understood = answer.and_then(|lines| match lines.last().map(Vec::as_slice) {
            Some([word, why]) if word == "failed" => Ok(Err(why.clone())),
            _ => read(&lines).map(Ok).ok_or_else(|| format!("it answers {lines:?}")),
        });
        understood.unwrap_or_else(|why| {
            let why = format!("`{}` is gone: {why}", self.command);
            self.process = Err(why.clone());
            Err(why)
        })
    }
}

impl Process {
    fn start(command: &str) -> Result<Process, String> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("an empty command")?;
        let mut start = Command::new(program);
        start.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = start.spawn().map_err(|error| error.to_string())?;
        let (Some(requests), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let (send, replies) = channel();
        // Ends with the child's output, or when nobody listens any more.
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        Ok(Process { child, requests, replies, greeted: false })
    }

    fn ask(&mut self, request: &str) -> Result<Vec<Vec<String>>, String> {
        if !self.greeted {
            self.answer()?;
        }
        writeln!(self.requests, "{request}").and_then(|()| self.requests.flush()).map_err(|error| error.to_string())?;
        self.answer()
    }

    /// Lines up to the one that ends an answer, split into words.
    fn answer(&mut self) -> Result<Vec<Vec<String>>, String> {
        let mut lines = Vec::new();
        loop {
            let line = self.replies.recv_timeout(PATIENCE).map_err(|error| match error {
                RecvTimeoutError::Timeout => format!("no answer in {} s", PATIENCE.as_secs()),
                RecvTimeoutError::Disconnected => "it ended".to_owned(),
            })?;
            let words: Vec<String> = line.split('\t').map(str::to_owned).collect();
            let last = !matches!(words[0].as_str(), "rival" | "absent");
            lines.push(words);
            if last {
                self.greeted = true;
                return Ok(lines);
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It holds nothing that has to be put away; one that has ended already cannot be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ptx_expand::temp_dir::TempDir;

    /// A companion whose answers are written ahead, for any request; then it writes `then`, where `-` is the request.
    /// The folder holds the answers.
    fn saying(lines: &str, then: &str) -> (Companion, TempDir) {
        let folder = TempDir::new("ptx-companion").unwrap();
        let file = folder.path().join("says");
        std::fs::write(&file, lines).unwrap();
        (Companion::start(&format!("cat {} {then}", file.display())), folder)
    }

    #[test]
    fn a_case_is_opened_timed_and_closed() {
        let (mut companion, _folder) = saying(
            "ready\tstub 1\nrival\tquick one\t1e-7\nabsent\tslow\tnot built\ndone\nmicros\t12.5\nfailed\tbusy\ndone\n",
            "-",
        );
        assert_eq!(companion.greet().unwrap(), "stub 1");
        let opened = companion.open("gemm bf16", "8x8x8").unwrap();
        assert_eq!(opened.rivals, [("quick one".to_owned(), 1e-7)]);
        assert_eq!(opened.absent, [("slow".to_owned(), "not built".to_owned())]);
        assert_eq!(companion.time("quick one", 3).unwrap(), Duration::from_nanos(12_500));
        assert_eq!(companion.time("quick one", 3).unwrap_err(), "busy");
        companion.close();
    }

    #[test]
    fn who_is_not_there_ends_or_babbles_stays_away() {
        let mut none = Companion::start("/nonexistent/companion");
        assert!(none.open("copy", "1").unwrap_err().contains("does not start"));
        let (mut ends, _folder) = saying("ready\tstub\n", "");
        assert!(ends.open("copy", "1").unwrap_err().contains("is gone: "));
        assert!(ends.time("x", 1).unwrap_err().contains("is gone: "));
        let (mut babbles, _folder) = saying("ready\tstub\nmicros\tsoon\n", "-");
        assert!(babbles.time("x", 1).unwrap_err().contains("soon"));
        assert!(![&none, &ends, &babbles].into_iter().any(|companion| companion.is_here()));
    }
}

//! The thread that checks whole texts.

use super::Event;
use ptx_lsp::around::Around;
use ptx_lsp::document::Language;
use ptx_lsp::findings::{Finding, Note, analysis};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A version of a document that is to be checked.
pub(super) struct Job {
    pub(super) uri: String,
    pub(super) version: i64,
    pub(super) text: String,
    pub(super) language: Language,
    pub(super) around: Option<Around>,
}

/// The findings of a version.
pub(super) struct Checked {
    pub(super) uri: String,
    pub(super) version: i64,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<Note>,
}

/// Longer texts are checked when nothing has been typed for [`QUIET`].
const LONG: usize = 1 << 18;
const QUIET: Duration = Duration::from_millis(60);

/// Starts the thread; the sender takes its work.
pub(super) fn start(events: Sender<Event>) -> std::io::Result<Sender<Job>> {
    let (jobs, received) = channel();
    std::thread::Builder::new().spawn(move || work(&received, &events))?;
    Ok(jobs)
}

fn work(received: &Receiver<Job>, events: &Sender<Event>) {
    let mut waiting: Vec<Job> = Vec::new();
    loop {
        if waiting.is_empty() {
            match received.recv() {
                Ok(job) => add(&mut waiting, job),
                Err(_) => return,
            }
        }
        received.try_iter().for_each(|job| add(&mut waiting, job));
        while waiting.first().is_some_and(|job| job.text.len() > LONG) {
            match received.recv_timeout(QUIET) {
                Ok(job) => add(&mut waiting, job),
                Err(_) => break,
            }
        }
        let Job { uri, version, text, language, around } = waiting.remove(0);
        let (findings, notes) = analysis(&text, language, around.as_ref());
        let checked = Checked { uri, version, findings, notes };
        if events.send(Event::Checked(checked)).is_err() {
            return;
        }
    }
}

/// A newer version takes the place of an older one.
fn add(waiting: &mut Vec<Job>, job: Job) {
    match waiting.iter_mut().find(|older| older.uri == job.uri) {
        Some(older) => *older = job,
        None => waiting.push(job),
    }
}

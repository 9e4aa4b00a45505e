//! `ptx lsp`: the Language Server Protocol over standard input and output, thin over `ptx-lsp`.
//!
//! One thread reads messages and one checks whole texts; this one holds the documents and answers. A request is answered from the text as it is after all
//! changes before it, so an answer never describes an older text.

mod answers;
mod around;
mod checker;
mod json;
mod session;

use crate::output::{Outcome, no_thread};
use crate::rpc::{self, Incoming};
use checker::Checked;
use serde_json::Value;
use session::Session;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Standard input and output, which are used in any case; editors add it.
    #[arg(long)]
    stdio: bool,
}

/// Something for the thread that answers.
enum Event {
    Incoming(Incoming),
    Checked(Checked),
    /// The input has ended.
    Closed,
}

/// Serves until `exit`; sound if `shutdown` came before.
pub(crate) fn run(_: &Arguments, out: &mut dyn Write) -> Outcome {
    let (events, received) = channel();
    let jobs = checker::start(events.clone()).map_err(no_thread)?;
    std::thread::Builder::new().spawn(move || read(&events)).map_err(no_thread)?;
    let mut session = Session::new(out, jobs);
    let mut queue = VecDeque::new();
    loop {
        wait(&received, &mut queue);
        let canceled = canceled(&mut queue);
        for id in canceled {
            session.refuse(&id, session::REQUEST_CANCELED, "the request was canceled")?;
        }
        let sound = match queue.pop_front() {
            None => None,
            Some(Event::Closed) => Some(session.is_shut_down()),
            Some(Event::Checked(checked)) => session.publish(checked).map(|()| None)?,
            Some(Event::Incoming(Incoming::Malformed(why))) => {
                session.refuse(&Value::Null, session::PARSE_ERROR, &why).map(|()| None)?
            }
            Some(Event::Incoming(Incoming::Message(message))) => session.handle(message)?,
        };
        if let Some(sound) = sound {
            return Ok(sound);
        }
    }
}

fn read(events: &Sender<Event>) {
    let mut input = std::io::stdin().lock();
    while let Ok(Some(incoming)) = rpc::read(&mut input) {
        if events.send(Event::Incoming(incoming)).is_err() {
            return;
        }
    }
    // It is lost if the server has ended before.
    let _ = events.send(Event::Closed);
}

/// Waits for an event, and takes all that have come.
fn wait(received: &Receiver<Event>, queue: &mut VecDeque<Event>) {
    if queue.is_empty() {
        queue.push_back(received.recv().unwrap_or(Event::Closed));
    }
    queue.extend(received.try_iter());
}

/// The ids of requests that wait in the queue and are canceled there; takes them and the cancellations out.
fn canceled(queue: &mut VecDeque<Event>) -> Vec<Value> {
    let ids: Vec<Value> = queue
        .iter()
        .filter_map(|event| match event {
            Event::Incoming(Incoming::Message(message)) if message["method"] == "$/cancelRequest" => {
                Some(message["params"]["id"].clone())
            }
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    if ids.is_empty() {
        return found;
    }
    queue.retain(|event| {
        let Event::Incoming(Incoming::Message(message)) = event else { return true };
        let id = message.get("id");
        let is_canceled = message.get("method").is_some() && id.is_some_and(|id| ids.contains(id));
        found.extend(id.filter(|_| is_canceled).cloned());
        !is_canceled && message["method"] != "$/cancelRequest"
    });
    found
}

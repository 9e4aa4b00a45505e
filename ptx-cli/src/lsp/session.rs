//! The state of a connection: its stage, the open documents, and the rules of the protocol that hold for every message.

use super::checker::{Checked, Job};
use super::json::{self, Client};
use super::{answers, around};
use crate::rpc;
use ptx_lsp::document::{Document, Language};
use ptx_lsp::findings::{Finding, Note, findings};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::mpsc::Sender;

pub(super) const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const NOT_INITIALIZED: i64 = -32002;
pub(super) const REQUEST_CANCELED: i64 = -32800;
/// The request is right and has no result, for a reason that the user should read.
const REQUEST_FAILED: i64 = -32803;

/// Why a request has no answer.
pub(super) enum Refusal {
    /// A parameter is missing or of another type.
    Params(&'static str),
    /// A reason for the user.
    Failed(String),
}

/// An answer, or the reason why there is none.
pub(super) type Answer = Result<Value, Refusal>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Running,
    ShutDown,
}

/// An open document.
pub(super) struct Open {
    pub(super) document: Document,
    pub(super) version: i64,
    /// The findings of the newest version that was checked.
    findings: Vec<Finding>,
    /// The instructions of its lines, of the newest version that had no error.
    notes: Vec<Note>,
    checked: i64,
    /// The last semantic tokens that were sent, and their number.
    pub(super) tokens: (u64, Vec<u32>),
}

/// Longer texts are not checked while somebody waits for an answer.
const LONGEST: usize = 1 << 20;

impl Open {
    /// The findings of the text as it is, if it is checked already.
    pub(super) fn known(&self) -> &[Finding] {
        if self.checked == self.version { &self.findings } else { &[] }
    }

    /// The instructions of its lines; none if it has changed since.
    pub(super) fn notes(&self) -> &[Note] {
        if self.checked == self.version { &self.notes } else { &[] }
    }

    /// The findings of the text as it is; none if they would take long.
    pub(super) fn current(&mut self) -> &[Finding] {
        let text = self.document.text().as_str();
        if self.checked != self.version {
            let checked = || findings(text, self.document.language(), self.document.around());
            self.findings = if text.len() > LONGEST { Vec::new() } else { checked() };
            self.notes.clear();
            self.checked = self.version;
        }
        &self.findings
    }
}

/// A connection.
pub(super) struct Session<'o> {
    out: &'o mut dyn Write,
    jobs: Sender<Job>,
    stage: Stage,
    pub(super) client: Client,
    pub(super) documents: HashMap<String, Open>,
}

impl<'o> Session<'o> {
    pub(super) fn new(out: &'o mut dyn Write, jobs: Sender<Job>) -> Self {
        Session { out, jobs, stage: Stage::New, client: Client::default(), documents: HashMap::new() }
    }

    /// Returns true if the client has announced the end.
    pub(super) fn is_shut_down(&self) -> bool {
        self.stage == Stage::ShutDown
    }

    /// Answers a request with an error.
    pub(super) fn refuse(&mut self, id: &Value, code: i64, why: &str) -> io::Result<()> {
        rpc::write(self.out, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}}))
    }

    /// Handles a message; the result of the connection if it ends here.
    pub(super) fn handle(&mut self, message: Value) -> io::Result<Option<bool>> {
        let id = message.get("id").cloned();
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            // An answer to a request of ours: there are none.
            if message.get("result").is_none() && message.get("error").is_none() {
                self.refuse(&id.unwrap_or_default(), INVALID_REQUEST, "a message without a method")?;
            }
            return Ok(None);
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        match id {
            Some(id) => self.request(&id, method, params).map(|()| None),
            None if method == "exit" => Ok(Some(self.is_shut_down())),
            None => {
                if self.stage == Stage::Running {
                    self.notification(method, params)?;
                }
                Ok(None)
            }
        }
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) -> io::Result<()> {
        match (self.stage, method) {
            (Stage::New, "initialize") => {
                self.stage = Stage::Running;
                self.client = client(params);
                self.answer(id, &answers::capabilities(params["initializationOptions"]["onlyRust"] == true))
            }
            (Stage::New, _) => self.refuse(id, NOT_INITIALIZED, "the server is not initialized"),
            (Stage::ShutDown, _) => self.refuse(id, INVALID_REQUEST, "the server is shut down"),
            (Stage::Running, "initialize") => self.refuse(id, INVALID_REQUEST, "the server is initialized already"),
            (Stage::Running, "shutdown") => {
                self.stage = Stage::ShutDown;
                self.answer(id, &Value::Null)
            }
            (Stage::Running, _) => {
                let Some(request) = answers::REQUESTS.iter().find(|request| request.method == method) else {
                    return self.refuse(id, METHOD_NOT_FOUND, &format!("there is no method `{method}`"));
                };
                if request.only_ptx && self.is_rust(params) {
                    return self.answer(id, &Value::Null);
                }
                match (request.handler)(self, params) {
                    Ok(result) => self.answer(id, &result),
                    Err(Refusal::Params(what)) => {
                        self.refuse(id, INVALID_PARAMS, &format!("`{method}` has no usable `{what}`"))
                    }
                    Err(Refusal::Failed(why)) => self.refuse(id, REQUEST_FAILED, &why),
                }
            }
        }
    }

    /// Returns true if a request is about a Rust file.
    fn is_rust(&self, params: &Value) -> bool {
        let open = params["textDocument"]["uri"].as_str().and_then(|uri| self.documents.get(uri));
        open.is_some_and(|open| open.document.language() == Language::Rust)
    }

    fn answer(&mut self, id: &Value, result: &Value) -> io::Result<()> {
        rpc::write(self.out, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn notify(&mut self, method: &str, params: &Value) -> io::Result<()> {
        rpc::write(self.out, &json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    /// Notifications have no answer: one that makes no sense is passed over.
    fn notification(&mut self, method: &str, params: &Value) -> io::Result<()> {
        let document = &params["textDocument"];
        let Some(uri) = document["uri"].as_str() else { return Ok(()) };
        let version = document["version"].as_i64().unwrap_or(0);
        match method {
            "textDocument/didOpen" => {
                let text = document["text"].as_str().unwrap_or_default().to_owned();
                let is_rust = document["languageId"] == "rust" || uri.ends_with(".rs");
                let around = if is_rust { around::of(uri) } else { None };
                let document = Document::new(text, if is_rust { Language::Rust } else { Language::Ptx });
                let document = document.in_crate(around);
                self.documents.insert(uri.to_owned(), opened(document, version));
                self.check(uri);
            }
            "textDocument/didChange" => {
                let Some(open) = self.documents.get_mut(uri) else { return Ok(()) };
                for change in params["contentChanges"].as_array().into_iter().flatten() {
                    change_text(&mut open.document, change);
                }
                open.version = version;
                self.check(uri);
            }
            "textDocument/didClose" => {
                self.documents.remove(uri);
                self.notify("textDocument/publishDiagnostics", &json!({"uri": uri, "diagnostics": []}))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives a document to the checker.
    fn check(&mut self, uri: &str) {
        let Some(Open { document, version, .. }) = self.documents.get(uri) else { return };
        let text = document.text().as_str().to_owned();
        let (language, around) = (document.language(), document.around().cloned());
        let job = Job { uri: uri.to_owned(), version: *version, text, language, around };
        // The checker lives as long as this sender.
        let _ = self.jobs.send(job);
    }

    /// Sends the findings of a document, unless it has changed since.
    pub(super) fn publish(&mut self, checked: Checked) -> io::Result<()> {
        let Some(open) = self.documents.get_mut(&checked.uri).filter(|open| open.version == checked.version) else {
            return Ok(());
        };
        (open.findings, open.notes, open.checked) = (checked.findings, checked.notes, checked.version);
        let found = open.findings.iter();
        let found: Vec<Value> =
            found.map(|found| json::diagnostic(&self.client, &checked.uri, open.document.text(), found)).collect();
        let params = json!({"uri": checked.uri, "version": checked.version, "diagnostics": found});
        self.notify("textDocument/publishDiagnostics", &params)
    }
}

fn opened(document: Document, version: i64) -> Open {
    Open { document, version, findings: Vec::new(), notes: Vec::new(), checked: i64::MIN, tokens: (0, Vec::new()) }
}

fn change_text(document: &mut Document, change: &Value) {
    let text = change["text"].as_str().unwrap_or_default();
    match json::bytes(document.text(), &change["range"]) {
        Some(range) => document.change(range, text),
        None => {
            let around = document.around().cloned();
            *document = Document::new(text.to_owned(), document.language()).in_crate(around);
        }
    }
}

/// The client's capabilities that change what it is sent.
fn client(params: &Value) -> Client {
    let diagnostics = &params["capabilities"]["textDocument"]["publishDiagnostics"];
    Client {
        shows_related: diagnostics["relatedInformation"] == true,
        explain: params["initializationOptions"]["explain"].as_str().map(str::to_owned),
    }
}

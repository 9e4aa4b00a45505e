//! The requests, each a function of the session and its parameters.

use super::json;
use super::session::{Answer, Open, Refusal, Session};
use ptx_lsp::findings::{Finding, explanation};
use ptx_lsp::text::Text;
use ptx_lsp::{complete, fixes, formatted, hints, hover, navigate, outline, paint, signature};
use serde_json::{Value, json};

/// An answer to a request.
type Handler = fn(&mut Session<'_>, &Value) -> Answer;

/// A request.
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) handler: Handler,
    /// True for what a Rust file has of its own server, which takes only one answer.
    pub(super) only_ptx: bool,
}

const fn any(method: &'static str, handler: Handler) -> Request {
    Request { method, handler, only_ptx: false }
}

const fn only_ptx(method: &'static str, handler: Handler) -> Request {
    Request { method, handler, only_ptx: true }
}

/// Every request by its method.
pub(super) const REQUESTS: &[Request] = &[
    any("textDocument/hover", hover),
    any("textDocument/completion", completion),
    any("textDocument/signatureHelp", signature_help),
    any("textDocument/definition", definition),
    any("textDocument/inlayHint", inlay_hints),
    any("textDocument/codeAction", code_actions),
    only_ptx("textDocument/references", references),
    only_ptx("textDocument/documentHighlight", highlight),
    only_ptx("textDocument/prepareRename", prepare_rename),
    only_ptx("textDocument/rename", rename),
    only_ptx("textDocument/documentSymbol", symbols),
    only_ptx("textDocument/foldingRange", folds),
    only_ptx("textDocument/selectionRange", selections),
    only_ptx("textDocument/semanticTokens/full", tokens),
    only_ptx("textDocument/semanticTokens/full/delta", tokens_delta),
    only_ptx("textDocument/semanticTokens/range", tokens_range),
    only_ptx("textDocument/formatting", formatting),
    any("ptx/explain", explain),
];

/// What the server can do. A client with a connection for Rust files alone gets only what goes beside another server.
pub(super) fn capabilities(only_rust: bool) -> Value {
    let mut capabilities = json!({
        "positionEncoding": "utf-16",
        "textDocumentSync": {"openClose": true, "change": 2},
        "hoverProvider": true,
        "completionProvider": {"triggerCharacters": [".", "%", ":"]},
        "signatureHelpProvider": {"triggerCharacters": [" ", ","]},
        "definitionProvider": true,
        "inlayHintProvider": true,
        "codeActionProvider": {"codeActionKinds": ["quickfix"]},
    });
    let more = json!({
        "referencesProvider": true,
        "documentHighlightProvider": true,
        "renameProvider": {"prepareProvider": true},
        "documentSymbolProvider": true,
        "foldingRangeProvider": true,
        "selectionRangeProvider": true,
        "semanticTokensProvider": {
            "legend": {"tokenTypes": paint::TYPES, "tokenModifiers": paint::MODIFIERS},
            "full": {"delta": true},
            "range": true,
        },
        "documentFormattingProvider": true,
    });
    if let (Value::Object(all), Value::Object(more), false) = (&mut capabilities, more, only_rust) {
        all.extend(more);
    }
    json!({"serverInfo": {"name": "ptx", "version": env!("CARGO_PKG_VERSION")}, "capabilities": capabilities})
}

/// The document of a request.
fn document<'s>(session: &'s mut Session<'_>, params: &Value) -> Result<&'s mut Open, Refusal> {
    let uri = params["textDocument"]["uri"].as_str().ok_or(Refusal::Params("textDocument"))?;
    session.documents.get_mut(uri).ok_or_else(|| Refusal::Failed(format!("`{uri}` is not open")))
}

/// The document of a request, and the byte of its position.
fn place<'s>(session: &'s mut Session<'_>, params: &Value) -> Result<(&'s mut Open, usize), Refusal> {
    let open = document(session, params)?;
    let position = json::position(&params["position"]).ok_or(Refusal::Params("position"))?;
    let offset = open.document.text().offset(position);
    Ok((open, offset))
}

fn uri(params: &Value) -> &str {
    params["textDocument"]["uri"].as_str().unwrap_or_default()
}

/// The page of a finding at a position stands above what the text itself has.
fn hover(session: &mut Session<'_>, params: &Value) -> Answer {
    let (open, offset) = place(session, params)?;
    let text = open.document.text();
    let covers = |found: &&Finding| (found.range.start..=found.range.end).contains(&offset);
    let page = open.known().iter().find(covers).and_then(|found| explanation(found.code));
    let own = hover::hover(&open.document, offset);
    let range = own.as_ref().map(|own| json::range(text, own.range.clone()));
    let parts: Vec<String> = own.map(|own| own.markdown).into_iter().chain(page).collect();
    if parts.is_empty() {
        return Ok(Value::Null);
    }
    Ok(json!({"contents": {"kind": "markdown", "value": parts.join("\n\n---\n\n")}, "range": range}))
}

fn completion(session: &mut Session<'_>, params: &Value) -> Answer {
    let (open, offset) = place(session, params)?;
    let found = complete::complete(&open.document, offset);
    let replace = json::range(open.document.text(), found.replace);
    let items: Vec<Value> = found.items.iter().map(|item| json::completion(item, &replace)).collect();
    Ok(json!({"isIncomplete": found.is_incomplete, "items": items}))
}

fn signature_help(session: &mut Session<'_>, params: &Value) -> Answer {
    let (open, offset) = place(session, params)?;
    let Some(found) = signature::signatures(&open.document, offset) else { return Ok(Value::Null) };
    let forms = found.forms.iter().map(|form| {
        let units = |at: usize| ptx_lsp::text::units_of(form.label.get(..at).unwrap_or_default());
        let operands = form.operands.iter().map(|range| json!({"label": [units(range.start), units(range.end)]}));
        json!({
            "label": form.label,
            "documentation": {"kind": "markdown", "value": form.about},
            "parameters": operands.collect::<Vec<_>>(),
        })
    });
    let active = found.forms.iter().position(|form| form.operands.len() > found.operand).unwrap_or(0);
    Ok(json!({"signatures": forms.collect::<Vec<_>>(), "activeSignature": active, "activeParameter": found.operand}))
}

fn definition(session: &mut Session<'_>, params: &Value) -> Answer {
    let (open, offset) = place(session, params)?;
    let found = navigate::definition(&open.document, offset);
    Ok(found
        .map_or(Value::Null, |range| json!({"uri": uri(params), "range": json::range(open.document.text(), range)})))
}

fn references(session: &mut Session<'_>, params: &Value) -> Answer {
    let (open, offset) = place(session, params)?;
    let all = params["context"]["includeDeclaration"] != false;
    let found = navigate::references(&open.document, offset).into_iter().filter(|found| all || !found.declares);
    let text = open.document.text();
    Ok(found.map(|found| json!({"uri": uri(params), "range": json::range(text, found.range)})).collect())
}

fn highlight(session: &mut Session<'_>, params: &Value) -> Answer {
    let (open, offset) = place(session, params)?;
    let text = open.document.text();
    let kind = |writes: bool| if writes { 3 } else { 2 };
    let found = navigate::references(&open.document, offset).into_iter();
    Ok(found
        .map(|found| json!({"range": json::range(text, found.range), "kind": kind(found.writes || found.declares)}))
        .collect())
}

fn prepare_rename(session: &mut Session<'_>, params: &Value) -> Answer {
    let (open, offset) = place(session, params)?;
    let (range, name) = navigate::renamable(&open.document, offset).map_err(Refusal::Failed)?;
    Ok(json!({"range": json::range(open.document.text(), range), "placeholder": name}))
}

fn rename(session: &mut Session<'_>, params: &Value) -> Answer {
    let (open, offset) = place(session, params)?;
    let new = params["newName"].as_str().ok_or(Refusal::Params("newName"))?;
    let changes = navigate::rename(&open.document, offset, new).map_err(Refusal::Failed)?;
    let text = open.document.text();
    let edits: Vec<Value> = changes.into_iter().map(|(range, new)| edit(text, range, &new)).collect();
    Ok(json!({"changes": {uri(params): edits}}))
}

fn edit(text: &Text, range: std::ops::Range<usize>, new: &str) -> Value {
    json!({"range": json::range(text, range), "newText": new})
}

fn symbols(session: &mut Session<'_>, params: &Value) -> Answer {
    let open = document(session, params)?;
    let text = open.document.text();
    Ok(outline::symbols(&open.document).iter().map(|symbol| json::symbol(text, symbol)).collect())
}

fn folds(session: &mut Session<'_>, params: &Value) -> Answer {
    let open = document(session, params)?;
    let fold = |fold: &outline::Fold| match fold.comment {
        true => json!({"startLine": fold.first, "endLine": fold.last, "kind": "comment"}),
        false => json!({"startLine": fold.first, "endLine": fold.last}),
    };
    Ok(outline::folds(&open.document).iter().map(fold).collect())
}

fn selections(session: &mut Session<'_>, params: &Value) -> Answer {
    let open = document(session, params)?;
    let text = open.document.text();
    let positions = params["positions"].as_array().ok_or(Refusal::Params("positions"))?;
    let mut found = Vec::new();
    for position in positions {
        let position = json::position(position).ok_or(Refusal::Params("positions"))?;
        let ranges = outline::selections(&open.document, text.offset(position));
        let nested = ranges.into_iter().rev().fold(Value::Null, |parent, range| match parent {
            Value::Null => json!({"range": json::range(text, range)}),
            parent => json!({"range": json::range(text, range), "parent": parent}),
        });
        found.push(nested);
    }
    Ok(found.into())
}

/// All tokens, which are kept for the next answer.
fn all_tokens(open: &mut Open) -> (u64, Vec<u32>) {
    let tokens = paint::tokens(&open.document, 0..open.document.text().as_str().len());
    let id = open.tokens.0 + 1;
    std::mem::replace(&mut open.tokens, (id, tokens))
}

fn tokens(session: &mut Session<'_>, params: &Value) -> Answer {
    let open = document(session, params)?;
    all_tokens(open);
    Ok(json!({"resultId": open.tokens.0.to_string(), "data": open.tokens.1}))
}

fn tokens_delta(session: &mut Session<'_>, params: &Value) -> Answer {
    let open = document(session, params)?;
    let (id, old) = all_tokens(open);
    let new = &open.tokens.1;
    let result = open.tokens.0.to_string();
    if params["previousResultId"].as_str() != Some(id.to_string().as_str()) {
        return Ok(json!({"resultId": result, "data": new}));
    }
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let data = &new[same..new.len() - tail];
    let edits = match (data.len(), old.len() - tail - same) {
        (0, 0) => json!([]),
        (_, gone) => json!([{"start": same, "deleteCount": gone, "data": data}]),
    };
    Ok(json!({"resultId": result, "edits": edits}))
}

fn tokens_range(session: &mut Session<'_>, params: &Value) -> Answer {
    let open = document(session, params)?;
    let range = json::bytes(open.document.text(), &params["range"]).ok_or(Refusal::Params("range"))?;
    Ok(json!({"data": paint::tokens(&open.document, range)}))
}

fn inlay_hints(session: &mut Session<'_>, params: &Value) -> Answer {
    let open = document(session, params)?;
    let text = open.document.text();
    let range = json::bytes(text, &params["range"]).ok_or(Refusal::Params("range"))?;
    let found = hints::hints(&open.document, range.clone()).into_iter();
    let mut found: Vec<Value> = found.map(|hint| inlay_hint(text, hint.offset, &hint.label, &hint.tooltip)).collect();
    let (first, last) = (text.line_of(range.start), text.line_of(range.end));
    for note in open.notes().iter().filter(|note| (first..=last).contains(&note.line)) {
        let line = text.line(note.line);
        let content = text.as_str().get(line.clone()).unwrap_or_default();
        // What stands in a `ptx!` shows itself.
        if !content.contains("ptx!") && !open.document.is_ptx(line.start) {
            let end = line.start + content.trim_end().len();
            let tooltip = format!("```ptx\n{}\n```", note.instructions);
            found.push(inlay_hint(text, end, &format!("  {}", note.label), &tooltip));
        }
    }
    Ok(found.into())
}

fn inlay_hint(text: &Text, offset: usize, label: &str, tooltip: &str) -> Value {
    let tooltip = json!({"kind": "markdown", "value": tooltip});
    json!({"position": json::place(text.position(offset)), "label": label, "tooltip": tooltip})
}

fn formatting(session: &mut Session<'_>, params: &Value) -> Answer {
    let open = document(session, params)?;
    let text = open.document.text();
    match formatted(&open.document) {
        None => {
            Err(Refusal::Failed("the text has syntax errors, which would stay as they are; mend them first".to_owned()))
        }
        Some(new) if new == text.as_str() => Ok(json!([])),
        Some(new) => Ok(json!([edit(text, 0..text.as_str().len(), &new)])),
    }
}

fn code_actions(session: &mut Session<'_>, params: &Value) -> Answer {
    let open = document(session, params)?;
    let range = json::bytes(open.document.text(), &params["range"]).ok_or(Refusal::Params("range"))?;
    let findings = open.current().to_vec();
    let (text, mut found) = (open.document.text(), Vec::new());
    let touches = |found: &&Finding| found.range.start <= range.end && range.start <= found.range.end;
    let touched: Vec<&Finding> = findings.iter().filter(touches).collect();
    let mut budget = fixes::Budget::default();
    for finding in touched {
        for fix in fixes::fixes(&open.document, finding, &findings, &mut budget) {
            let edit = edit(text, fix.range, &fix.text);
            found.push(json!({
                "title": fix.title,
                "kind": "quickfix",
                "isPreferred": true,
                "edit": {"changes": {uri(params): [edit]}},
            }));
        }
    }
    Ok(found.into())
}

/// The page of a diagnostic's code.
fn explain(_: &mut Session<'_>, params: &Value) -> Answer {
    let code = params["code"].as_str().ok_or(Refusal::Params("code"))?;
    let page = explanation(code).ok_or_else(|| Refusal::Failed(format!("there is no code `{code}`")))?;
    Ok(json!({"text": page}))
}

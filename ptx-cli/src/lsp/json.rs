//! Answers of `ptx-lsp` as the protocol writes them, and its parameters as `ptx-lsp` takes them.

use ptx_lsp::complete::{Completion, Kind};
use ptx_lsp::findings::Finding;
use ptx_lsp::outline::{Symbol, SymbolKind};
use ptx_lsp::text::{Position, Text};
use serde_json::{Value, json};
use std::ops::Range;

/// A position of a message; `None` if it is none.
pub(super) fn position(value: &Value) -> Option<Position> {
    // Clients may send the largest integer for the end of a line.
    let number = |name: &str| Some(u32::try_from(value.get(name)?.as_u64()?).unwrap_or(u32::MAX));
    Some(Position { line: number("line")?, character: number("character")? })
}

/// The bytes of a range of a message.
pub(super) fn bytes(text: &Text, value: &Value) -> Option<Range<usize>> {
    let (start, end) = (text.offset(position(&value["start"])?), text.offset(position(&value["end"])?));
    Some(start..end.max(start))
}

/// A position for a message.
pub(super) fn place(position: Position) -> Value {
    json!({"line": position.line, "character": position.character})
}

/// A range for a message.
pub(super) fn range(text: &Text, bytes: Range<usize>) -> Value {
    let Range { start, end } = text.range(bytes);
    json!({"start": place(start), "end": place(end)})
}

/// Choices that depend on the client.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// It shows related information, where helps and labels go; otherwise they are a part of the message.
    pub(super) shows_related: bool,
    /// The scheme of URIs with which it opens the page of a code: `ptx-explain`.
    pub(super) explain: Option<String>,
}

/// A diagnostic.
pub(super) fn diagnostic(client: &Client, uri: &str, text: &Text, finding: &Finding) -> Value {
    let own = range(text, finding.range.clone());
    let section = finding.section.map(|section| format!("PTX manual, section {section}"));
    let helps = finding.help.iter().map(|help| format!("help: {help}")).chain(section);
    let mut message = finding.message.clone();
    let mut related = Vec::new();
    for (bytes, label) in &finding.labels {
        related.push(json!({"location": {"uri": uri, "range": range(text, bytes.clone())}, "message": label}));
    }
    for help in helps {
        match client.shows_related {
            true => related.push(json!({"location": {"uri": uri, "range": own}, "message": help})),
            false => message = format!("{message}\n{help}"),
        }
    }
    let mut found = json!({
        "range": own,
        "severity": if finding.is_error { 1 } else { 2 },
        "source": "ptx",
        "message": message,
    });
    if !finding.code.is_empty() {
        found["code"] = finding.code.into();
    }
    if let (Some(scheme), false) = (&client.explain, finding.code.is_empty()) {
        found["codeDescription"] = json!({"href": format!("{scheme}:{}.md", finding.code)});
    }
    if client.shows_related && !related.is_empty() {
        found["relatedInformation"] = related.into();
    }
    if finding.is_unused {
        found["tags"] = json!([1]);
    }
    found
}

/// A word of a completion.
pub(super) fn completion(item: &Completion, replace: &Value) -> Value {
    let kind = match item.kind {
        Kind::Opcode | Kind::Directive => 14,
        Kind::Modifier => 20,
        Kind::Type => 25,
        Kind::Register | Kind::Variable => 6,
        Kind::Special | Kind::Constant => 21,
        Kind::Parameter | Kind::Field => 5,
        Kind::Function => 3,
        Kind::Label => 18,
    };
    json!({
        "label": item.label,
        "kind": kind,
        "detail": item.detail,
        "sortText": format!("{}{}", item.rank, item.label),
        "filterText": item.label,
        "textEdit": {"range": replace, "newText": item.label},
    })
}

/// A symbol and what it contains.
pub(super) fn symbol(text: &Text, symbol: &Symbol) -> Value {
    let kind = match symbol.kind {
        SymbolKind::Entry => 6,
        SymbolKind::Function => 12,
        SymbolKind::Variable => 13,
        SymbolKind::Parameter => 26,
        SymbolKind::Label => 20,
        SymbolKind::Section => 3,
    };
    let children: Vec<Value> = symbol.children.iter().map(|child| self::symbol(text, child)).collect();
    json!({
        "name": symbol.name,
        "detail": symbol.detail,
        "kind": kind,
        "range": range(text, symbol.range.clone()),
        "selectionRange": range(text, symbol.name_range.clone()),
        "children": children,
    })
}

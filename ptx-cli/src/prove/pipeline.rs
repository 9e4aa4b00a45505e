//! The verdict on the pipeline of an entry, as text and as JSON.

use super::show;
use super::{Format, Proof};
use crate::render;
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::span::Span;
use ptx_prove::pipeline::{Outcome, Pipeline};
use ptx_prove::{Mapped, Report};
use serde_json::json;
use std::io::{IsTerminal, Write};

/// Reads `a=16384`.
pub(super) fn bytes(text: &str) -> Result<(String, u64), String> {
    let help = "write a parameter and its bytes, such as `a=16384`";
    let (name, bytes) = text.split_once('=').ok_or(help)?;
    let bytes = bytes.trim().parse().map_err(|_| help)?;
    Ok((name.trim().to_owned(), bytes))
}

/// Reads `a`, and `c=64,64,1`.
pub(super) fn mapped(text: &str) -> Result<Mapped, String> {
    let help = "write a parameter, and the extents of its boxes if the kernel stores by it, such as `c=64,64,1`";
    let (map, extents) = text.split_once('=').unwrap_or((text, ""));
    let extents = extents.split(',').filter(|extent| !extent.is_empty()).map(|extent| extent.trim().parse());
    Ok(Mapped { map: map.trim().to_owned(), extents: extents.collect::<Result<_, _>>().map_err(|_| help)? })
}

/// Prints the verdict on the pipeline of an entry; false if it has one that is not proved.
pub(super) fn decide(proof: &Proof<'_>, report: &Report, format: Format, out: &mut dyn Write) -> std::io::Result<bool> {
    let Some(found) = &report.pipeline else { return Ok(true) };
    match format {
        Format::Text => text(proof, report, found, out)?,
        Format::Json => {
            let (verdict, missing, span) = parts(found, report);
            let line = span.map(|span| show::line(proof, span));
            let object = json!({
                "file": proof.source.name,
                "entry": proof.entry.name,
                "line": line,
                "kind": "pipeline",
                "verdict": verdict,
                "missing": missing,
                "warps": found.warps,
                "barriers": found.barriers,
                "states": found.states,
                "steps": found.steps,
                "seconds": found.time.as_secs_f64(),
                "boxes": proof.boxes.iter().map(|(name, bytes)| json!({ "map": name, "bytes": bytes })).collect::<Vec<_>>(),
            });
            writeln!(out, "{object}")?;
        }
    }
    Ok(found.outcome == Outcome::Proved)
}

/// The word for the verdict, the reason, and the instruction. An order that goes wrong is a refutation if a run has shown that something does.
fn parts<'p>(found: &'p Pipeline, report: &Report) -> (&'static str, Option<&'p str>, Option<Span>) {
    match &found.outcome {
        Outcome::Proved => ("proved", None, None),
        Outcome::Violated(span, order) if report.is_refuted() => ("refuted", Some(order), Some(*span)),
        Outcome::Violated(span, order) => ("unknown", Some(order), Some(*span)),
        Outcome::Unknown(span, missing) => ("unknown", Some(missing), Some(*span)),
    }
}

fn text(proof: &Proof<'_>, report: &Report, found: &Pipeline, out: &mut dyn Write) -> std::io::Result<()> {
    let (verdict, reason, span) = parts(found, report);
    if let (Some(reason), Some(span)) = (reason, span) {
        let (title, is_refuted) = match (&found.outcome, verdict) {
            (_, "refuted") => (reason.to_owned(), true),
            (Outcome::Violated(..), _) => {
                (format!("the pipeline is not proved: an order seems to go wrong: {reason}"), false)
            }
            _ => (format!("the pipeline is not decided: {reason}"), false),
        };
        let diagnostic = if is_refuted {
            Diagnostic::error(&codes::P0990, span, title)
        } else {
            Diagnostic::warning(&codes::P0990, span, title)
        };
        writeln!(out, "{}", render::finding(proof.source, &diagnostic, std::io::stdout().is_terminal()))?;
    }
    let Pipeline { warps, barriers, states, .. } = found;
    writeln!(
        out,
        "pipeline: {verdict} ({warps} warps, {barriers} barriers, {states} states, {:.2} s)",
        found.time.as_secs_f64()
    )
}

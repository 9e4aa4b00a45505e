//! Verdicts as text and as JSON.

use super::{Proof, replay, word};
use crate::output::count;
use crate::render;
use crate::source::Position;
use ptx_core::diag::{Diagnostic, Label, codes};
use ptx_core::ir::annotation::Annotation;
use ptx_core::span::Span;
use ptx_prove::{Counterexample, Finding, Place, Property, Report, Verdict};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};

/// A line for each property, and the places where it is refuted or unknown.
pub(super) fn text(proof: &Proof<'_>, report: &Report, skipped: &[usize], out: &mut dyn Write) -> std::io::Result<()> {
    let color = std::io::stdout().is_terminal();
    let mut told = Vec::new();
    for (at, finding) in report.findings.iter().enumerate() {
        let diagnostic = match &finding.verdict {
            Verdict::Proved => continue,
            Verdict::Refuted(example) => refuted(proof, finding, example, !skipped.contains(&at)),
            // An instruction without a description concerns every property: it is shown once.
            Verdict::Unknown(missing) => {
                if told.contains(&(finding.span, missing.clone())) {
                    continue;
                }
                told.push((finding.span, missing.clone()));
                unknown(finding, missing)
            }
        };
        writeln!(out, "{}", render::finding(proof.source, &diagnostic, color))?;
    }
    for property in Property::ALL {
        writeln!(out, "{}", summary(report, property))?;
    }
    for one in &report.assumptions {
        writeln!(out, "assumed in line {}: {}", line(proof, one.span), one.text)?;
    }
    Ok(())
}

/// The line that the user wrote.
pub(super) fn line(proof: &Proof<'_>, span: Span) -> usize {
    let (source, span) = proof.source.place(span);
    source.line(span.lo)
}

/// The same with its column.
fn position(proof: &Proof<'_>, span: Span) -> Position {
    let (source, span) = proof.source.place(span);
    source.position(span.lo)
}

/// `bounds: 3 proved, 1 refuted`
fn summary(report: &Report, property: Property) -> String {
    let own = || report.findings.iter().filter(move |finding| finding.property == property);
    let parts: Vec<String> = ["proved", "refuted", "unknown"]
        .into_iter()
        .map(|wanted| (wanted, own().filter(|finding| word(&finding.verdict) == wanted).count()))
        .filter(|(_, number)| *number > 0)
        .map(|(wanted, number)| format!("{number} {wanted}"))
        .collect();
    let parts = if parts.is_empty() { "nothing to prove".to_owned() } else { parts.join(", ") };
    format!("{}: {parts}", property.name())
}

fn unknown(finding: &Finding, missing: &str) -> Diagnostic {
    let title = format!("{} not decided: {missing}", plural(finding.property));
    Diagnostic::warning(&codes::P0990, finding.span, title)
}

fn plural(property: Property) -> &'static str {
    match property {
        Property::Bounds => "bounds are",
        Property::Alignment => "alignment is",
        Property::Races => "races are",
        Property::Barriers => "whether all threads come here is",
        Property::Initialization => "reads of shared memory are",
    }
}

/// `thread 255 of block 3`
fn place(place: &Place) -> String {
    let short = |[x, y, z]: [u32; 3]| match (y, z) {
        (0, 0) => x.to_string(),
        _ => format!("({x}, {y}, {z})"),
    };
    format!("thread {} of block {}", short(place.thread), short(place.block))
}

/// ` with n = 1000 and a buffer …`
fn sizes(proof: &Proof<'_>, example: &Counterexample) -> String {
    let numbers = proof.params.iter().zip(&example.params);
    let numbers = numbers.filter_map(|(param, value)| Some(format!("{} = {}", param.name, (*value)?)));
    let free = proof.contract.numbers.iter().zip(&example.numbers).map(|(name, value)| format!("{name} = {value}"));
    let all: Vec<String> = numbers.chain(free).collect();
    if all.is_empty() { String::new() } else { format!(" with {}", all.join(", ")) }
}

fn refuted(proof: &Proof<'_>, finding: &Finding, example: &Counterexample, was_run: bool) -> Diagnostic {
    let (name, with) = (&finding.memory, sizes(proof, example));
    let who: Vec<String> = example.places.iter().map(place).collect();
    let first = who.first().cloned().unwrap_or_default();
    let second = who.get(1).cloned().unwrap_or_default();
    let end = example.offset + i128::from(finding.size);
    let bytes = format!("bytes {}..{end} of `{name}`", example.offset);
    let len = finding.argument.and_then(|at| example.lens.get(at).copied().flatten());
    let (title, help) = match finding.property {
        _ if example.seen.is_some() => {
            let seen = example.seen.clone().unwrap_or_default();
            let help = example.filled.map(|value| {
                let repair = match finding.property {
                    Property::Races => "equal numbers from memory need atomics",
                    _ => "check in the kernel the numbers that it reads from them",
                };
                format!("all bytes of the buffers are {value:#04x} here: {repair}")
            });
            (if first.is_empty() { seen } else { format!("{first}{with}: {seen}") }, help.into_iter().collect())
        }
        Property::Bounds => {
            let has = len.map_or(String::new(), |len| {
                format!(", which has {}", count(usize::try_from(len).unwrap_or(usize::MAX), "byte"))
            });
            let mut help = vec!["check the index in the kernel, such as `if i < n`".to_owned()];
            if finding.argument.is_some() {
                let condition = match &proof.source.kernel {
                    Some(_) => format!("requires({name}.len() >= n)"),
                    None => format!("--assume 'len({name}) >= {} * n'", finding.size),
                };
                help.push(format!("or state the length of the buffer, such as `{condition}`"));
            }
            (format!("{first}{with} {} {bytes}{has}", finding.verb), help)
        }
        Property::Alignment => {
            let size = finding.size;
            let help = format!("make the offset a multiple of {size}, or access smaller values");
            (
                format!("{first}{with} {} {bytes}, and {} is no multiple of {size}", finding.verb, example.offset),
                vec![help],
            )
        }
        Property::Races => {
            let help = "separate the accesses with a barrier, or give each thread bytes of its own";
            (
                format!("{first} and {second}{with} access {bytes} without order, and one of them writes"),
                vec![help.to_owned()],
            )
        }
        Property::Barriers if !finding.verb.is_empty() => {
            let help = "let all lanes of the warp come here, or name those that come in the mask";
            (
                format!("{first}{with} executes this together with {second}, which does not come here"),
                vec![help.to_owned()],
            )
        }
        Property::Initialization => {
            let help =
                "write every byte that is read, such as zero where the data ends, and add a barrier behind the writes";
            (format!("{first}{with} {} {bytes}, which no thread wrote before", finding.verb), vec![help.to_owned()])
        }
        Property::Barriers => {
            let help = "let all threads of the block come to the barrier";
            (format!("{first}{with} comes to this barrier, and {second} does not"), vec![help.to_owned()])
        }
    };
    let mut diagnostic = Diagnostic::error(&codes::P0990, finding.span, title);
    for help in help {
        diagnostic = diagnostic.help(help);
    }
    if let Some(other) = finding.other.filter(|other| *other != finding.span) {
        diagnostic.labels.push(Label { span: other, text: "the other access".to_owned() });
    }
    match replay::command(proof, example) {
        Some(command) if was_run => diagnostic.help(format!("this shows it: {command}")),
        Some(command) => {
            diagnostic.help(format!("this launch would show it, but was not run, because it is too large: {command}"))
        }
        None => diagnostic,
    }
}

/// One object a line.
pub(super) fn json(proof: &Proof<'_>, report: &Report, skipped: &[usize], out: &mut dyn Write) -> std::io::Result<()> {
    let mut findings = report.findings.iter().enumerate();
    findings.try_for_each(|(at, finding)| writeln!(out, "{}", object(proof, finding, !skipped.contains(&at))))?;
    report.assumptions.iter().try_for_each(|one| writeln!(out, "{}", assumption(proof, one)))
}

fn assumption(proof: &Proof<'_>, one: &Annotation) -> Value {
    let position = position(proof, one.span);
    json!({
        "file": proof.source.name,
        "entry": proof.entry.name,
        "line": position.line,
        "column": position.column,
        "kind": "assumption",
        "condition": one.text,
    })
}

fn object(proof: &Proof<'_>, finding: &Finding, was_run: bool) -> Value {
    let position = position(proof, finding.span);
    let mut object = json!({
        "file": proof.source.name,
        "entry": proof.entry.name,
        "line": position.line,
        "column": position.column,
        "kind": finding.property.name(),
        "verdict": word(&finding.verdict),
        "access": finding.verb,
        "memory": finding.memory,
        "size": finding.size,
        "other_line": finding.other.map(|other| line(proof, other)),
        "missing": Value::Null,
        "counterexample": Value::Null,
    });
    match &finding.verdict {
        Verdict::Proved => {}
        Verdict::Unknown(missing) => object["missing"] = json!(missing),
        Verdict::Refuted(example) => {
            object["counterexample"] = launch(proof, example);
            object["counterexample"]["confirmed"] = json!(was_run);
        }
    }
    object
}

fn launch(proof: &Proof<'_>, example: &Counterexample) -> Value {
    let names = || proof.params.iter().map(|param| param.name.clone());
    let number = |value: i128| i64::try_from(value).map_or_else(|_| json!(value.to_string()), |value| json!(value));
    let params: serde_json::Map<String, Value> =
        names().zip(&example.params).filter_map(|(name, value)| Some((name, number((*value)?)))).collect();
    let lens: serde_json::Map<String, Value> =
        names().enumerate().filter_map(|(at, name)| Some((name, json!(replay::buffer(proof, example, at)?)))).collect();
    let numbers: serde_json::Map<String, Value> =
        proof.contract.numbers.iter().cloned().zip(example.numbers.iter().map(|value| number(*value))).collect();
    let place = |place: &Place| json!({"thread": place.thread, "block": place.block});
    json!({
        "threads": example.places.iter().map(place).collect::<Vec<_>>(),
        "grid": example.grid,
        "block": proof.contract.block,
        "params": params,
        "lens": lens,
        "numbers": numbers,
        "offset": number(example.offset),
        "filled": example.filled,
        "run": replay::command(proof, example),
    })
}

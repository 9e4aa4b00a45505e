//! The messages of a proof: a counterexample in the kernel's own names and elements, and the shortest repair.

use super::contract::element;
use crate::describe::{Kernel, Kind, Param};
use ptx_core::check::Checked;
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::span::Span;
use ptx_prove::{Counterexample, Finding, Place, Property, Refusal};

/// A violation that only a run could confirm.
pub(super) const LATER: &str = "it may be violated in a later turn of a loop";

/// The repair of a read of shared memory that nobody wrote.
const UNWRITTEN: &str =
    "write every element that is read, such as zero where the data ends, and add a barrier behind the writes";

/// The most places that a message lists.
const MOST_PLACES: usize = 4;

/// The names of a kernel.
pub(super) struct Words<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) checked: &'a Checked,
    /// The line of the source where a span starts.
    pub(super) line: &'a dyn Fn(Span) -> usize,
}

impl Words<'_> {
    /// A violation, in a launch that shows it.
    pub(super) fn refuted(&self, finding: &Finding, example: &Counterexample) -> Diagnostic {
        let who: Vec<String> = example.places.iter().map(place).collect();
        let (first, second) = (who.first().cloned().unwrap_or_default(), who.get(1).cloned().unwrap_or_default());
        let with = self.sizes(example);
        let bytes = self.bytes(finding, example);
        let (message, help) = match finding.property {
            Property::Bounds => {
                let has = self.length(finding, example);
                (format!("{first}{with} {} {bytes}{has}", finding.verb), self.guard(finding))
            }
            Property::Alignment => {
                let (offset, size) = (example.offset, finding.size);
                let message = format!(
                    "{first}{with} {} {bytes}, at byte {offset} of `{}`, which is no multiple of {size}",
                    finding.verb, finding.memory
                );
                (message, format!("make the offset a multiple of {size} bytes, or access smaller values"))
            }
            Property::Races => {
                let message =
                    format!("{first} and {second}{with} access {bytes} without order, and one of them writes");
                (message, self.separate(finding, example))
            }
            Property::Barriers if !finding.verb.is_empty() => {
                let help = "let all lanes of the warp come here, or name those that come in the mask";
                (
                    format!("{first}{with} executes this together with {second}, which does not come here"),
                    help.to_owned(),
                )
            }
            Property::Barriers => {
                let message = format!("{first}{with} comes to this barrier, and {second} does not");
                (message, "let all threads of the block come to the barrier".to_owned())
            }
            Property::Initialization => {
                (format!("{first}{with} {} {bytes}, which no thread wrote before", finding.verb), UNWRITTEN.to_owned())
            }
        };
        let diagnostic = Diagnostic::error(&codes::P0916, finding.span, message).help(help);
        match finding.other.filter(|other| *other != finding.span) {
            Some(other) => diagnostic.label(other, "the other access"),
            None => diagnostic,
        }
    }

    /// A write to memory that the signature only reads: other launches may read it at the same time.
    pub(super) fn wrong_write(&self, finding: &Finding) -> Option<Diagnostic> {
        let param = self.argument(finding).filter(|_| matches!(finding.verb, "writes" | "updates"))?;
        let is_read = matches!(param.kind, Kind::Slice { written: false, .. } | Kind::Tile { written: false, .. });
        is_read.then(|| {
            let message = format!("the kernel {} `{}`, which its signature only reads", finding.verb, param.name);
            let help = match &param.kind {
                Kind::Slice { element, .. } => format!("take `{}: &mut [{element}]`", param.name),
                _ => format!("take `{}` as a `TileMut`", param.name),
            };
            Diagnostic::error(&codes::P0916, finding.span, message).help(help)
        })
    }

    /// A property that is not decided, in all these places.
    pub(super) fn unknown(&self, missing: &str, property: Property, spans: &[Span]) -> Diagnostic {
        let subject = match property {
            Property::Bounds => "bounds are",
            Property::Alignment => "alignment is",
            Property::Races => "races are",
            Property::Barriers => "this barrier is",
            Property::Initialization => "reads of shared memory are",
        };
        let at = spans.first().copied().unwrap_or_default();
        let help = match property {
            Property::Alignment if missing.starts_with("the address of") => {
                "write `#[align(16)]` in front of the parameter: every launch checks its address, because a view may begin at any element"
            }
            _ => {
                "state the fact in `requires(…)`, or check it in the kernel; `unsafe(requires(…))` in place of `proved` vouches for it"
            }
        };
        let mut diagnostic = Diagnostic::error(&codes::P0917, at, format!("{subject} not decided: {missing}"));
        for span in spans.iter().skip(1).take(MOST_PLACES) {
            diagnostic = diagnostic.label(*span, "the same");
        }
        if spans.len() > MOST_PLACES + 1 {
            diagnostic = diagnostic.help(format!("{} places are not decided for this reason", spans.len()));
        }
        diagnostic.help(help)
    }

    fn argument(&self, finding: &Finding) -> Option<&Param> {
        self.kernel.params.get(finding.argument?)
    }

    /// ` with n = 1000`
    fn sizes(&self, example: &Counterexample) -> String {
        let named = self.kernel.taken.iter().zip(&example.params);
        let mut named: Vec<String> =
            named.filter_map(|(taken, value)| Some(format!("{} = {}", taken.name, (*value)?))).collect();
        if self.kernel.launch.as_ref().is_ok_and(|launch| launch.grid.is_none()) {
            let [x, y, z] = example.grid;
            named.push(format!("a grid of {x}×{y}×{z}"));
        }
        if named.is_empty() { String::new() } else { format!(" with {}", named.join(", ")) }
    }

    /// `y[1023]`, `y[4..8]`, or the bytes, where they are no elements.
    fn bytes(&self, finding: &Finding, example: &Counterexample) -> String {
        let (offset, size) = (example.offset, i128::from(finding.size));
        let bytes = self.argument(finding).map_or(0, |param| i128::from(element(&param.kind)));
        match self.argument(finding) {
            Some(param) if bytes > 0 && offset % bytes == 0 && size % bytes == 0 => {
                let (first, count) = (offset / bytes, size / bytes);
                match count {
                    1 => format!("{}[{first}]", param.name),
                    _ => format!("{}[{first}..{}]", param.name, first + count),
                }
            }
            _ => format!("bytes {offset}..{} of `{}`", offset + size, finding.memory),
        }
    }

    /// `; y has 1000 elements`
    fn length(&self, finding: &Finding, example: &Counterexample) -> String {
        let len = finding.argument.and_then(|at| example.lens.get(at).copied().flatten());
        match (len, self.argument(finding)) {
            (Some(len), Some(param)) => match (len, element(&param.kind)) {
                (len, bytes) if bytes > 0 => format!("; `{}` has {}", param.name, count(len / bytes, "element")),
                (len, _) => format!("; `{}` has {}", param.name, count(len, "byte")),
            },
            _ => match self.variable(&finding.memory) {
                Some(bytes) => format!("; `{}` has {}", finding.memory, count(bytes, "byte")),
                None => String::new(),
            },
        }
    }

    /// The bytes of a variable of the kernel.
    fn variable(&self, name: &str) -> Option<u64> {
        let mut named = self.checked.module().variables.iter().filter(|variable| variable.name == name);
        named.next().map(|variable| variable.size).filter(|size| *size > 0)
    }

    /// The repair of an access outside of its memory.
    fn guard(&self, finding: &Finding) -> String {
        let Some(param) = self.argument(finding) else { return "check the offset in the kernel".to_owned() };
        let name = &param.name;
        match self.required_length(name) {
            Some(limit) => format!("add `if i < {limit} {{ … }}` around it, where `i` is the index in `{name}`"),
            None => {
                let count =
                    self.kernel.params.iter().find(|param| matches!(&param.kind, Kind::Value(ty) if ty == "u32"));
                let limit = count.map_or("…", |param| &param.name);
                format!(
                    "state the length, `requires({name}.len() >= {limit})`, and check the index: `if i < {limit} {{ … }}`"
                )
            }
        }
    }

    /// The text of `n` in `requires(x.len() >= n)`.
    fn required_length(&self, name: &str) -> Option<String> {
        let conditions = self.kernel.launch.as_ref().ok()?.requires.iter();
        let mut parts = conditions.flat_map(|condition| condition.text.split("&&"));
        let prefix = format!("{name}.len() >=");
        parts.find_map(|part| part.trim().strip_prefix(&prefix).map(|limit| limit.trim().to_owned()))
    }

    /// The repair of a race.
    fn separate(&self, finding: &Finding, example: &Counterexample) -> String {
        let blocks: Vec<[u32; 3]> = example.places.iter().map(|place| place.block).collect();
        let other = finding.other.unwrap_or(finding.span);
        let (a, b) = ((self.line)(finding.span), (self.line)(other));
        match blocks.as_slice() {
            [first, second]
                if first != second && self.kernel.launch.as_ref().is_ok_and(|launch| launch.grid.is_none()) =>
            {
                "write `grid = …` in the attribute: without it a launch may have any grid, in all dimensions".to_owned()
            }
            [first, second] if first != second => {
                "give each block elements of its own, or use atomics: blocks run in any order".to_owned()
            }
            _ if a == b => "give each thread elements of its own, or use an atomic".to_owned(),
            _ => format!("add `bar.sync 0;` between lines {} and {}", a.min(b), a.max(b)),
        }
    }
}

/// A contract that the prover does not take.
pub(super) fn refusal(refusal: &Refusal) -> (&'static str, &'static str) {
    match refusal {
        Refusal::NoEntry => ("the kernel has no entry to prove", "this is a bug of `ptx`"),
        Refusal::Block => ("a block has 1 to 1024 threads", "write `block = 256`"),
        Refusal::Expression => (
            "an expression of `grid` or `requires` has no value in some launch, or is not described",
            "divide by constants, and write conditions such as `x.len() >= n`",
        ),
    }
}

/// `thread 255 of block 3`
fn place(place: &Place) -> String {
    let short = |[x, y, z]: [u32; 3]| match (y, z) {
        (0, 0) => x.to_string(),
        (_, 0) => format!("({x}, {y})"),
        _ => format!("({x}, {y}, {z})"),
    };
    format!("thread {} of block {}", short(place.thread), short(place.block))
}

fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

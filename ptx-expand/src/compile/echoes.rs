//! One mistake, one error: phases run on after an error, and later ones trip over the same tokens.

use super::spans::Spans;
use super::targets;
use ptx_core::diag::{Code, Diagnostic, Severity, codes};
use ptx_core::hash::Set;
use ptx_core::span::Span;

/// The diagnostics of the phases behind the first, in their order, without those on tokens that an earlier phase has
/// refused, and without what the checks say of `names` whose declaration was refused. Syntax comes before names, whoever
/// finds it. Where something is wrong, instructions are missing, and a warning that none writes a register is idle.
pub fn without(phases: [Vec<Diagnostic>; 4], names: &[Span]) -> Vec<Diagnostic> {
    let [host, lexical, language, checks] = phases;
    let (syntax, mut checks): (Vec<_>, Vec<_>) = checks.into_iter().partition(is_syntax);
    for known in checks.iter_mut().filter(|d| ERRORS.iter().any(|code| **code == *d.code)) {
        known.severity = Severity::Error;
    }
    let names = Spans::new(names.iter().copied());
    checks.retain(|d| !names.touch(d.span));
    if [&host, &lexical, &syntax, &language].iter().any(|phase| phase.iter().any(Diagnostic::is_error)) {
        checks.retain(Diagnostic::is_error);
    }
    // A call of a helper is many instructions, an option of the attribute several directives: their mistake is one.
    let mut seen = Set::default();
    checks.retain(|d| seen.insert((d.code.id, d.span)));
    let mut refused: Vec<Span> = errors(&host);
    let mut kept = Vec::new();
    for phase in [lexical, syntax, language, checks] {
        let earlier = Spans::new(refused.iter().copied());
        let news: Vec<_> = phase.into_iter().filter(|d| !earlier.touch(d.span)).collect();
        refused.extend(errors(&news));
        kept.extend(news);
    }
    targets::joined(kept).into_iter().map(in_rust_terms).collect()
}

fn is_syntax(diagnostic: &Diagnostic) -> bool {
    diagnostic.code.id.starts_with("P00") || diagnostic.code.id.starts_with("P01")
}

fn errors(diagnostics: &[Diagnostic]) -> Vec<Span> {
    diagnostics.iter().filter(|d| d.is_error()).map(|d| d.span).collect()
}

/// The PTX directive of each option of the attribute.
const OPTIONS: [(&str, &str); 7] = [
    (".reqntid", "block"),
    (".maxntid", "block"),
    (".explicitcluster", "cluster"),
    (".reqnctapercluster", "cluster"),
    (".maxclusterrank", "max_cluster"),
    (".maxnreg", "max_regs"),
    (".minnctapersm", "min_blocks"),
];

/// Help in a kernel, where it differs from that in a PTX text.
const HELP: [(&Code, &str); 4] = [
    (&codes::P0503, "give it a value where it is declared: `= 0`, or `= [0.0; N]` for an array"),
    (&codes::P0725, "write `max_regs = …` in the kernel's attribute, or `min_blocks = 1` beside its `block`"),
    (&codes::P0753, "declare it with that alignment: `#[shared(align = 16)] let …`"),
    (&codes::P0611, "declare it `#[shared(dynamic)] let name: [f32];`, and give its bytes by `shared = …`"),
];

/// Warnings about PTX that are errors in a kernel: an address that is known is known to be wrong.
const ERRORS: [&Code; 2] = [&codes::P0751, &codes::P0752];

/// In a kernel the target, the version and the limits stand in the attribute, not in directives.
fn in_rust_terms(mut diagnostic: Diagnostic) -> Diagnostic {
    // Registers have their `%` from us.
    if is_syntax(&diagnostic) {
        diagnostic.message = diagnostic.message.replace("found `%", "found `");
    }
    for (directive, option) in OPTIONS {
        diagnostic.message = diagnostic.message.replace(&format!("`{directive}`"), &format!("`{option}`"));
    }
    if let Some((_, help)) = HELP.iter().find(|(code, _)| *diagnostic.code == **code) {
        diagnostic.help = vec![(*help).to_owned()];
    }
    if *diagnostic.code == codes::P0401 || *diagnostic.code == codes::P0402 {
        for help in &mut diagnostic.help {
            if let Some(arch) = named(help, "write `.target ") {
                *help = format!("write `arch = \"{arch}\"`");
            } else if let Some(version) = named(help, "write `.version ") {
                *help = format!("write `version = \"{version}\"` or a later one, or none");
            }
        }
    }
    diagnostic
}

/// The text between a prefix and the next backtick.
pub fn named(help: &str, prefix: &str) -> Option<String> {
    help.strip_prefix(prefix)?.split('`').next().map(str::to_owned)
}

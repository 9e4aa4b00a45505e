//! One mistake, one error: phases run on after an error, and later ones trip over the same tokens.

use ptx_core::diag::{Diagnostic, codes};
use ptx_core::span::Span;

/// The diagnostics of the phases behind the first, in their order, without those on tokens that an earlier phase has
/// refused, and without what the checks say of `names` whose declaration was refused. Syntax comes before names, whoever
/// finds it.
pub fn without(phases: [Vec<Diagnostic>; 4], names: &[Span]) -> Vec<Diagnostic> {
    let [host, lexical, language, checks] = phases;
    let (syntax, mut checks): (Vec<_>, Vec<_>) = checks.into_iter().partition(is_syntax);
    checks.retain(|d| !names.iter().any(|name| touch(*name, d.span)));
    let mut refused: Vec<Span> = errors(&host);
    let mut kept = Vec::new();
    for phase in [lexical, syntax, language, checks] {
        let news: Vec<_> = phase.into_iter().filter(|d| !refused.iter().any(|r| touch(*r, d.span))).collect();
        refused.extend(errors(&news));
        kept.extend(news.into_iter().map(in_rust_terms));
    }
    kept
}

fn is_syntax(diagnostic: &Diagnostic) -> bool {
    diagnostic.code.id.starts_with("P00") || diagnostic.code.id.starts_with("P01")
}

fn errors(diagnostics: &[Diagnostic]) -> Vec<Span> {
    diagnostics.iter().filter(|d| d.is_error()).map(|d| d.span).collect()
}

fn touch(a: Span, b: Span) -> bool {
    a.lo < b.hi && b.lo < a.hi
}

/// In a kernel the target and the version stand in the attribute, not in directives.
fn in_rust_terms(mut diagnostic: Diagnostic) -> Diagnostic {
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

/// What stands between a prefix and the next backtick.
fn named(help: &str, prefix: &str) -> Option<String> {
    help.strip_prefix(prefix)?.split('`').next().map(str::to_owned)
}

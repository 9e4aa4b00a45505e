//! From Rust syntax (`syn`) to the statement tree of `ptx_language`.
//!
//! One method for each kind of syntax. What the language does not have is an error on its tokens that names what it has
//! instead; the walk goes on, so that all errors of a kernel are found at once.

mod expr;
mod item;
mod literal;
mod matches;
mod refused;
mod stmt;
mod structs;
mod ty;

use crate::root::Root;
use crate::tokens::Host;
use ptx_core::diag::{Code, Diagnostic, codes, sort_by_span, tell_once};
use ptx_core::hash::{Map, Set};
use ptx_core::span::Span;
use ptx_language::tree;
use quote::ToTokens;

pub use item::parameter_attributes;
pub use structs::{Signature, Structs, Taken, is_for_the_host};

/// Reads syntax into the tree, and collects the spans and the errors.
#[derive(Default)]
pub struct Reader {
    /// The source of the spans.
    pub host: Host,
    /// Diagnostics so far.
    pub diagnostics: Vec<Diagnostic>,
    /// True while the prelude is read instead of the user's source.
    pub external: bool,
    /// True if the helper library counts as the user's source, whose mistakes are reported where they stand.
    pub own_library: bool,
    /// The first names of paths with several: modules of the prelude, perhaps.
    pub named: Set<String>,
    /// A kernel has `proved`: the checked modules are kept for the prover.
    pub proves: bool,
    /// Kernels with `proved` are compiled like others: a tool that proves them itself, or runs them under the watcher, does so.
    pub leaves_proofs_out: bool,
    /// `allow(P0701)`: warnings that are not reported, within a kernel or anywhere.
    pub allowed: Vec<(&'static str, Option<Span>)>,
    /// The structs of arguments of the module.
    pub structs: Structs,
    /// The lint levels of functions, by the span of the function's name: `#[allow(unused_variables)]`.
    pub levels: Map<Span, Vec<syn::Attribute>>,
}

impl Reader {
    /// Returns true if there was an error.
    pub fn failed(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Removes the warnings that `allow(…)` names, and then those that are told once already.
    pub fn silence(&mut self) {
        let is_within = |span: Span, outer: &Option<Span>| outer.is_none_or(|o| o.lo <= span.lo && span.hi <= o.hi);
        let allows =
            |d: &Diagnostic| self.allowed.iter().any(|(code, within)| d.code.id == *code && is_within(d.span, within));
        self.diagnostics.retain(|diagnostic| diagnostic.is_error() || !allows(diagnostic));
        // The lexer finds the letters of such a name once more.
        let is_name = |d: &Diagnostic| d.code.id == codes::P0001.id && !d.help.is_empty();
        if self.diagnostics.iter().any(is_name) {
            self.diagnostics.retain(|diagnostic| diagnostic.code.id != codes::P0001.id || is_name(diagnostic));
        }
        sort_by_span(&mut self.diagnostics);
        tell_once(&mut self.diagnostics);
    }

    /// The first error after the first `before` diagnostics.
    pub fn first_error(&self, before: usize) -> Option<Diagnostic> {
        self.diagnostics.iter().skip(before).find(|diagnostic| diagnostic.is_error()).cloned()
    }

    /// Reports an error on a piece of syntax.
    pub fn error(&mut self, code: &'static Code, node: &impl ToTokens, message: impl Into<String>, help: &str) {
        let span = self.host.syntax(node);
        self.error_at(code, span, message, help);
    }

    /// Reports an error on a span.
    pub fn error_at(&mut self, code: &'static Code, span: Span, message: impl Into<String>, help: &str) {
        let diagnostic = Diagnostic::error(code, span, message);
        self.diagnostics.push(if help.is_empty() { diagnostic } else { diagnostic.help(help) });
    }

    /// Reports syntax that the language does not have.
    fn refuse(&mut self, node: &impl ToTokens, what: &str, instead: &str) {
        self.error(&codes::P0850, node, format!("the kernel language has no {what}"), instead);
    }

    /// A name.
    pub fn ident(&mut self, ident: &proc_macro2::Ident) -> tree::Ident {
        let name = ident.to_string();
        let span = self.host.token(ident.span());
        if !name.is_ascii() {
            self.not_ascii(&name, span);
        }
        tree::Ident { name: name.strip_prefix("r#").map(str::to_owned).unwrap_or(name), span }
    }

    #[cold]
    fn not_ascii(&mut self, name: &str, span: Span) {
        let message = format!("`{name}` has letters that names in PTX cannot have");
        if self.diagnostics.iter().all(|told| told.message != message) {
            self.error_at(
                &codes::P0001,
                span,
                message,
                "write names with the letters `a` to `z` and `A` to `Z`, digits and `_`",
            );
        }
    }

    /// Reports names that are declared before in the same list.
    pub fn declared_once<'n>(&mut self, names: impl IntoIterator<Item = &'n tree::Ident>) {
        let mut seen: Vec<&tree::Ident> = Vec::new();
        for name in names {
            if seen.iter().any(|earlier| earlier.name == name.name) {
                let message = format!("`{}` is declared twice", name.name);
                self.error_at(&codes::P0502, name.span, message, "give one of them another name");
            }
            seen.push(name);
        }
    }

    /// The label of a loop or of a jump: its name has no quote.
    fn label(&mut self, lifetime: &syn::Lifetime) -> tree::Ident {
        tree::Ident { name: lifetime.ident.to_string(), span: self.host.token(lifetime.span()) }
    }

    /// Attributes on something that takes none: those that only speak to Rust's tools are dropped.
    fn no_attributes(&mut self, attributes: &[syn::Attribute]) {
        for attribute in attributes.iter().filter(|a| !is_for_tools(a)) {
            self.attribute_without_meaning(attribute, "");
        }
    }

    /// Reports an attribute.
    pub fn attribute_without_meaning(&mut self, attribute: &syn::Attribute, help: &str) {
        let name = path_text(attribute.path());
        self.error(&codes::P0851, attribute, format!("`#[{name}]` has no meaning here"), help);
    }
}

/// Returns true for `#[ptx_kernel]`.
pub fn marks_kernel(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "ptx_kernel")
}

/// `doc`, `allow`, `rustfmt::skip` …: attributes that mean nothing to a kernel and do no harm.
pub fn is_for_tools(attribute: &syn::Attribute) -> bool {
    const TOOLS: [&str; 8] = ["doc", "allow", "expect", "warn", "deny", "forbid", "rustfmt", "clippy"];
    attribute.path().segments.first().is_some_and(|s| TOOLS.iter().any(|t| s.ident == t))
}

/// The attributes that say how bad a warning is.
pub fn levels(attributes: &[syn::Attribute]) -> impl Iterator<Item = &syn::Attribute> {
    const LEVELS: [&str; 4] = ["allow", "warn", "deny", "forbid"];
    attributes.iter().filter(|attribute| LEVELS.iter().any(|level| attribute.path().is_ident(level)))
}

/// `a::b` as text.
pub fn path_text(path: &syn::Path) -> String {
    let names: Vec<_> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    names.join("::")
}

impl Root {
    /// The path to `ptx-launch`, as [`Root::find`] finds it. Its absence is an error on `at`.
    pub fn or_report(given: Option<&syn::Path>, reader: &mut Reader, at: &impl ToTokens) -> Option<Root> {
        let root = Root::find(given);
        if root.is_none() {
            let help = "add it with `cargo add ptx-launch`; where another crate re-exports it, write its path: \
                        `crate = other::ptx_launch`";
            reader.error(&codes::P0914, at, "`ptx-launch` is not among the dependencies of this package", help);
        }
        root
    }
}

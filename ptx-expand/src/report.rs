//! Diagnostics as the compiler prints them: errors as `compile_error!`, warnings as uses of something deprecated, which
//! is the only way a macro has on stable Rust.

mod habit;

use crate::kernel::{Reader, levels};
use crate::tokens::{Host, contains_ident, joined};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use ptx_core::diag::{Diagnostic, Severity, codes, sort_by_span};
use ptx_language::{Unused, UnusedKind};
use quote::{ToTokens, quote, quote_spanned};
use std::fmt::Write;

/// Items that make the compiler print the diagnostics, each on its tokens. The item's own `attributes` may have
/// `#[allow(warnings)]`; `allow(CODE)` in the macro's own attribute silences one kind.
pub fn report(host: &Host, diagnostics: &[Diagnostic], attributes: &[syn::Attribute]) -> TokenStream {
    let deprecated = Ident::new("deprecated", Span::call_site());
    // An `allow(deprecated)` is about the host's code, and would hide every warning.
    let levels = levels(attributes)
        .filter(|level| !(level.path().is_ident("allow") && contains_ident(level.to_token_stream(), &deprecated)));
    let levels = quote!(#(#levels)*);
    let mut sorted = diagnostics.to_vec();
    sort_by_span(&mut sorted);
    joined(sorted.iter().map(|diagnostic| match diagnostic.severity {
        Severity::Error => as_tokens(host, diagnostic),
        Severity::Warning => warning(host.ends(diagnostic.span), diagnostic.code.id, &text(host, diagnostic), &levels),
    }))
}

/// Items in which nothing uses these names either, so that the compiler reports them by its own lints, `unused_variables` and `dead_code`,
/// on the user's tokens.
pub fn unused(reader: &Reader, names: &[Unused]) -> TokenStream {
    let item = |unused: &Unused| {
        let span = reader.host.ends(unused.name.span).0;
        let name = match syn::parse_str::<Ident>(&unused.name.name) {
            Ok(_) => Ident::new(&unused.name.name, span),
            Err(_) => Ident::new_raw(&unused.name.name, span),
        };
        let levels = reader.levels.get(&unused.owner.span).into_iter().flatten();
        let inside = match unused.kind {
            UnusedKind::Variable => quote_spanned!(span=> let #name = 0u8;),
            UnusedKind::Function => quote_spanned!(span=> fn #name() {}),
        };
        quote!(#(#levels)* const _: () = { #inside };)
    };
    // `let N = …` would be a pattern where `N` is a constant of the user's.
    let may_be_constant = |unused: &&Unused| unused.name.name.starts_with(char::is_uppercase);
    joined(names.iter().filter(|unused| !may_be_constant(unused)).map(item))
}

/// The expansion of a macro whose input is not the expected kind of Rust.
pub fn refuse(reader: &mut Reader, error: &syn::Error, help: &str) -> TokenStream {
    let span = reader.host.token(error.span());
    reader.error_at(&codes::P0904, span, error.to_string(), help);
    report(&reader.host, &reader.diagnostics, &[])
}

/// The help for an item that does not parse: it is of another kind, unless the keyword of the right one is there.
pub fn kind_or_syntax(item: &TokenStream, keyword: &str, kind: &'static str, error: &syn::Error) -> &'static str {
    let right = item.clone().into_iter().any(|token| matches!(token, TokenTree::Ident(word) if word == keyword));
    if right { habit::help(item.clone(), error) } else { kind }
}

/// An error as the call that makes the compiler print it, once, however many equal ones there are.
pub fn as_tokens(host: &Host, diagnostic: &Diagnostic) -> TokenStream {
    error(host.ends(diagnostic.span), &text(host, diagnostic))
}

/// The compiler underlines a macro call from the first token of its path to its last token.
pub fn error((first, last): (Span, Span), text: &str) -> TokenStream {
    let path = quote_spanned!(first=> ::core::compile_error);
    let call = quote_spanned!(last=> ! { #text });
    quote!(#path #call)
}

/// `use of deprecated macro `ptx::P0701`: text`: the compiler underlines the whole path of a macro, so that its two names can
/// stand at the first token and at the last.
fn warning((first, last): (Span, Span), code: &str, text: &str, levels: &TokenStream) -> TokenStream {
    let here = Span::call_site();
    let name = Ident::new(code, here);
    let (module, used) = (Ident::new("ptx", first.resolved_at(here)), Ident::new(code, last.resolved_at(here)));
    let text = format!(
        "{text}\nnote: `allow({code})` in `#[ptx_kernel(…)]` or `#[ptx_module(…)]` silences this kind of warning"
    );
    quote! {
        #[warn(deprecated)]
        #levels
        const _: () = {
            mod ptx {
                #[deprecated(note = #text)]
                macro_rules! #name { () => {} }
                #[allow(deprecated)]
                pub(super) use #name;
            }
            #module::#used! {}
        };
    }
}

/// The message, then what helps, then where to read more.
fn text(host: &Host, diagnostic: &Diagnostic) -> String {
    let mut text = format!("[{}] {}", diagnostic.code.id, diagnostic.message);
    // Writing to a string does not fail.
    for label in &diagnostic.labels {
        let _ = write!(text, "\nnote: line {}: {}", host.line(label.span), label.text);
    }
    for help in &diagnostic.help {
        let _ = write!(text, "\nhelp: {help}");
    }
    if let Some(section) = diagnostic.section {
        let _ = write!(text, "\nnote: PTX manual, section {section}");
    }
    text
}

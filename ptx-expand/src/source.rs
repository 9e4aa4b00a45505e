//! Rust source as text to the PTX of its macros, for tools: what a build would make, without a compiler.

use crate::kernel::Reader;
use crate::single::Single;
use crate::{module, text_module};
use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;

/// The PTX of one macro call.
#[derive(Clone, Debug)]
pub struct Module {
    /// The name of the kernel or of the module; empty for a `ptx!`.
    pub name: String,
    /// One text for each target.
    pub ptx: Vec<String>,
}

/// Why there is no PTX.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The compiler's messages.
    pub messages: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.messages.join("\n"))
    }
}

impl std::error::Error for Failure {}

/// The PTX of every `ptx! { … }`, `#[ptx_kernel]` and `#[ptx_module]` of a source file, in order, those in modules too.
///
/// # Errors
/// What a build would report.
pub fn modules(source: &str) -> Result<Vec<Module>, Failure> {
    let file = syn::parse_file(source).map_err(|error| {
        let at = error.span().start();
        Failure { messages: vec![format!("{}:{}: {error}", at.line, at.column + 1)] }
    })?;
    of_file(&file)
}

/// The same for a file that is read already.
pub fn of_file(file: &syn::File) -> Result<Vec<Module>, Failure> {
    let mut found = Vec::new();
    for item in &file.items {
        visit(item, &mut found)?;
    }
    Ok(found)
}

fn visit(item: &syn::Item, found: &mut Vec<Module>) -> Result<(), Failure> {
    match item {
        syn::Item::Macro(call) if last_is(&call.mac.path, "ptx") => found.push(text(call)?),
        syn::Item::Fn(function) => {
            if let Some((options, function)) = taken(function, &function.attrs, |f| &mut f.attrs, "ptx_kernel") {
                let single = Single::compile(options, &function);
                let ptx = single.compiled.texts.into_iter().map(|t| t.ptx).collect();
                found.push(sound(&single.reader, Module { name: function.sig.ident.to_string(), ptx })?);
            }
        }
        syn::Item::Mod(of) => match taken(of, &of.attrs, |m| &mut m.attrs, "ptx_module") {
            Some((options, of)) => {
                let (items, compiled) = module::compile(options, &of);
                let ptx = compiled.texts.into_iter().map(|t| t.ptx).collect();
                found.push(sound(&items.reader, Module { name: of.ident.to_string(), ptx })?);
            }
            None => of.content.iter().flat_map(|(_, items)| items).try_for_each(|item| visit(item, found))?,
        },
        _ => {}
    }
    Ok(())
}

fn text(call: &syn::ItemMacro) -> Result<Module, Failure> {
    let group = call.mac.path.span().join(call.mac.delimiter.span().close()).unwrap_or_else(Span::call_site);
    let (reader, text) = text_module::compile(group, call.mac.tokens.clone());
    let ptx = text.into_iter().map(|t| t.ptx).collect();
    sound(&reader, Module { name: String::new(), ptx })
}

fn sound(reader: &Reader, module: Module) -> Result<Module, Failure> {
    let errors = reader.diagnostics.iter().filter(|d| d.is_error());
    let messages: Vec<String> = errors
        .map(|d| {
            let place = reader.host.location(d.span).map_or_else(String::new, |l| format!("{}:{}: ", l.line, l.column));
            format!("{place}[{}] {}", d.code.id, d.message)
        })
        .collect();
    if messages.is_empty() { Ok(module) } else { Err(Failure { messages }) }
}

/// The options of an attribute and the item without it, if it has it.
fn taken<T: Clone>(
    item: &T,
    attributes: &[syn::Attribute],
    of: impl Fn(&mut T) -> &mut Vec<syn::Attribute>,
    name: &str,
) -> Option<(TokenStream, T)> {
    let at = attributes.iter().position(|a| last_is(a.path(), name))?;
    let mut item = item.clone();
    let options = match of(&mut item).remove(at).meta {
        syn::Meta::List(list) => list.tokens,
        _ => TokenStream::new(),
    };
    Some((options, item))
}

fn last_is(path: &syn::Path, name: &str) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident == name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    #[test]
    fn finds_every_module_with_its_bytes() {
        let text = ".version 8.0\n.target sm_80 // here\n.address_size 64\n.visible .entry  k( )\n{ ret; }\n";
        let source = format!(
            "mod inner {{ ptx_launch::ptx! {{{text}}} }}\n\
             #[ptx_kernel(arch = \"sm_80\")] pub fn one() {{ let x: u32 = tid.x; }}\n\
             #[ptx_module(arch = \"sm_80\")] pub mod two {{ #[ptx_kernel] pub fn three() {{}} }}"
        );
        let found = super::modules(&source).unwrap();
        let names: Vec<_> = found.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["", "one", "two"]);
        assert_eq!(found[0].ptx, [text]);
        assert!(found[1].ptx[0].contains("mov.u32 %x, %tid.x;"), "{:?}", found[1].ptx);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let failure = super::modules("#[ptx_kernel(arch = \"sm_80\")]\npub fn k() { y = 1; }").unwrap_err();
        assert!(failure.messages[0].starts_with("2:14: [P08"), "{failure}");
    }
}

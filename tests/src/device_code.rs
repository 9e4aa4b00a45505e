//! The size of device code: lines and parameters of functions, and lines of a file. Device code is a module with `#[ptx_module]` or
//! `#[ptx_part]`, or one that a macro makes (`mod kernels for "sm_80"`), a function with `#[ptx_kernel]`, and the whole helper library.
//!
//! Items are read from tokens and not as Rust, so that those inside of macros count, too.

use proc_macro2::{Delimiter, Group, LexError, TokenStream, TokenTree};

/// A function of device code.
#[derive(Debug)]
pub struct Function {
    /// The name.
    pub name: String,
    /// True for an entry, whose parameters are the arguments of its launch.
    pub is_kernel: bool,
    /// The line of its signature, from 1.
    pub at: usize,
    /// Lines from the signature to the last brace.
    pub lines: usize,
    /// Parameters, the receiver included.
    pub parameters: usize,
}

/// The device code of a file.
#[derive(Debug, Default)]
pub struct DeviceCode {
    /// Its functions and methods.
    pub functions: Vec<Function>,
    /// Lines of its items, without attributes, blank lines, comments, and constants that a list of instances names.
    pub lines: usize,
}

impl DeviceCode {
    /// Reads a file's text. `library` is true for the helper library, all of which is device code.
    ///
    /// # Errors
    /// A text that is not made of Rust's tokens.
    pub fn read(text: &str, library: bool) -> Result<DeviceCode, LexError> {
        let mut found = DeviceCode::default();
        found.add_items(text.parse()?, library, &text.lines().collect::<Vec<_>>());
        Ok(found)
    }

    fn add_items(&mut self, tokens: TokenStream, device: bool, lines: &[&str]) {
        let items = items(tokens);
        let kernels: String = items.iter().map(|item| item.attributes.as_str()).collect();
        for item in &items {
            let word = |word: &str| item.position(word).is_some();
            let is_kernel = item.attributes.contains("ptx_kernel");
            match item.keyword() {
                Some("mod") => {
                    let is_module = ["ptx_module", "ptx_part"].iter().any(|name| item.attributes.contains(name));
                    self.add_groups(item, device || is_module || word("for"), lines);
                }
                Some("fn") if device || is_kernel => {
                    self.functions.extend(item.function(is_kernel));
                    self.lines += item.code(lines);
                }
                Some("impl") if device => {
                    self.lines += item.code(lines);
                    let mut inner = DeviceCode::default();
                    inner.add_groups(item, true, lines);
                    self.functions.append(&mut inner.functions);
                }
                Some("const") if kernels.contains(&item.name()) => {}
                Some("struct" | "const" | "static") if device => self.lines += item.code(lines),
                Some(_) => {}
                None => self.add_groups(item, device, lines),
            }
        }
    }

    /// The items inside of an item's brackets.
    fn add_groups(&mut self, item: &Item, device: bool, lines: &[&str]) {
        for group in item.tokens.iter().filter_map(as_group) {
            self.add_items(group.stream(), device, lines);
        }
    }

    /// The lines of the longest function.
    pub fn longest(&self) -> usize {
        self.functions.iter().map(|function| function.lines).max().unwrap_or(0)
    }

    /// The most parameters of a helper.
    pub fn most_parameters(&self) -> usize {
        let helpers = self.functions.iter().filter(|function| !function.is_kernel);
        helpers.map(|function| function.parameters).max().unwrap_or(0)
    }
}

/// An item, or the tokens that a macro has in its place.
#[derive(Default)]
struct Item {
    attributes: String,
    tokens: Vec<TokenTree>,
}

/// The items of a text: each ends with a semicolon or with braces; those of a constant belong to its value.
fn items(tokens: TokenStream) -> Vec<Item> {
    let (mut all, mut item) = (Vec::new(), Item::default());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_hash = item.tokens.is_empty() && is_punct(&token, '#');
        if is_hash && matches!(tokens.peek(), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket)
        {
            item.attributes.extend(tokens.next().map(|group| group.to_string()));
            continue;
        }
        let is_value = matches!(item.keyword(), Some("const" | "static" | "use"));
        let is_block = matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let ends = is_punct(&token, ';') || is_block && !is_value;
        item.tokens.push(token);
        if ends {
            all.push(std::mem::take(&mut item));
        }
    }
    all.push(item);
    all
}

impl Item {
    /// The word for the kind of the item: `fn` of a `const fn`.
    fn keyword(&self) -> Option<&'static str> {
        const WORDS: [&str; 9] = ["mod", "fn", "impl", "struct", "static", "use", "enum", "trait", "type"];
        let place = |word: &&&str| self.position(word).filter(|at| *at < 4);
        let first = WORDS.iter().filter(|word| place(word).is_some()).min_by_key(|word| place(word));
        first.copied().or_else(|| self.position("const").filter(|at| *at < 3).map(|_| "const"))
    }

    fn position(&self, word: &str) -> Option<usize> {
        self.tokens.iter().position(|token| matches!(token, TokenTree::Ident(ident) if ident == word))
    }

    /// The name behind the keyword.
    fn name(&self) -> String {
        let at = self.keyword().and_then(|keyword| self.position(keyword));
        at.and_then(|at| self.tokens.get(at + 1)).map(ToString::to_string).unwrap_or_default()
    }

    /// The function; none without a body.
    fn function(&self, is_kernel: bool) -> Option<Function> {
        let of = |delimiter| self.tokens.iter().filter_map(as_group).find(move |group| group.delimiter() == delimiter);
        let (parameters, body) = (of(Delimiter::Parenthesis), of(Delimiter::Brace)?);
        let (at, end) = (self.tokens.first()?.span().start().line, body.span_close().end().line);
        Some(Function {
            name: self.name(),
            is_kernel,
            at,
            lines: end + 1 - at,
            parameters: parameters.map_or(0, count_parameters),
        })
    }

    /// Lines of the item that are not blank and no comment.
    fn code(&self, lines: &[&str]) -> usize {
        let (Some(first), Some(last)) = (self.tokens.first(), self.tokens.last()) else { return 0 };
        let own = lines.get(first.span().start().line - 1..last.span().end().line).unwrap_or_default();
        own.iter().map(|line| line.trim()).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
    }
}

/// The parameters between parentheses. Commas inside of `< >` separate none.
pub(crate) fn count_parameters(list: &Group) -> usize {
    let (mut depth, mut count, mut open) = (0usize, 0, false);
    for token in list.stream() {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == '<' => depth += 1,
            TokenTree::Punct(punct) if punct.as_char() == '>' => depth = depth.saturating_sub(1),
            TokenTree::Punct(punct) if punct.as_char() == ',' && depth == 0 => {
                (count, open) = (count + 1, false);
                continue;
            }
            _ => {}
        }
        open = true;
    }
    count + usize::from(open)
}

fn as_group(token: &TokenTree) -> Option<&Group> {
    match token {
        TokenTree::Group(group) => Some(group),
        _ => None,
    }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

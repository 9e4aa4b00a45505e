//! Input that nests too deeply is refused before anything recurses over it: on the compiler's stack there is no error, only a
//! crash. The walk over the tokens needs no recursion. Numbers of very many digits are refused, too: `syn` takes the square of their
//! length to read them.

use crate::kernel::Reader;
use crate::report;
use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree, token_stream};
use std::iter::Peekable;

/// Brackets inside of each other.
const MOST_BRACKETS: usize = 128;
/// Operators, fields and calls of one expression: each is one level of its tree.
const MOST_OPERATORS: usize = 256;

/// Characters of a number; no type has so many digits.
const MOST_DIGITS: usize = 1024;

/// A token that is nested too deeply, or a number that is too long.
pub struct TooDeep {
    span: Span,
    message: String,
    help: &'static str,
}

impl TooDeep {
    /// The expansion of a macro with this input.
    pub fn refuse(self) -> TokenStream {
        let help = self.help;
        report::refuse(&mut Reader::default(), &self.into(), help)
    }
}

impl From<TooDeep> for syn::Error {
    fn from(deep: TooDeep) -> syn::Error {
        syn::Error::new(deep.span, deep.message)
    }
}

/// Checks the input of a macro.
pub fn check_nesting(tokens: &TokenStream) -> Result<(), TooDeep> {
    let mut open = vec![Level::new(tokens.clone(), false)];
    while let Some(level) = open.last_mut() {
        let Some(token) = level.tokens.next() else {
            open.pop();
            continue;
        };
        level.count(&token);
        if level.operators > MOST_OPERATORS {
            let message = format!("an expression of more than {MOST_OPERATORS} operators");
            return Err(TooDeep { span: token.span(), message, help: NAME_A_PART });
        }
        if is_long_number(&token) {
            let message = format!("a number of more than {MOST_DIGITS} digits");
            return Err(TooDeep { span: token.span(), message, help: "the widest integers have 64 bits" });
        }
        if let TokenTree::Group(group) = token {
            if open.len() > MOST_BRACKETS {
                let message = format!("brackets nest more than {MOST_BRACKETS} deep");
                return Err(TooDeep { span: group.span(), message, help: NAME_A_PART });
            }
            let ptx = open.last().is_some_and(|level| level.ptx);
            open.push(Level::new(group.stream(), ptx));
        }
    }
    Ok(())
}

const NAME_A_PART: &str = "give a part of it a name: `let part = …;`";

fn is_long_number(token: &TokenTree) -> bool {
    let TokenTree::Literal(literal) = token else { return false };
    let text = literal.to_string();
    text.len() > MOST_DIGITS && text.starts_with(|first: char| first.is_ascii_digit())
}

/// The tokens in one pair of brackets.
struct Level {
    tokens: Peekable<token_stream::IntoIter>,
    /// The operators since the last statement or item of a list ended.
    operators: usize,
    /// A group came just before: another one calls or indexes its value.
    behind_group: bool,
    /// The tokens are PTX, of which every statement is short for the parser.
    ptx: bool,
}

/// Words that an expression goes on behind.
const WORDS: [&str; 9] = ["as", "break", "else", "in", "let", "return", "move", "await", "yield"];

impl Level {
    fn new(tokens: TokenStream, ptx: bool) -> Level {
        Level { tokens: tokens.into_iter().peekable(), operators: 0, behind_group: false, ptx }
    }

    fn count(&mut self, token: &TokenTree) {
        if self.ptx {
            return;
        }
        let behind_group = std::mem::replace(&mut self.behind_group, matches!(token, TokenTree::Group(_)));
        // Signatures and comments may stand in front of a module's text.
        let dot = matches!(token, TokenTree::Punct(punct) if punct.as_char() == '.');
        self.ptx = dot && matches!(self.tokens.peek(), Some(TokenTree::Ident(word)) if word == "version");
        if self.ptx {
            return;
        }
        match token {
            TokenTree::Punct(punct) => match punct.as_char() {
                ';' | ',' => self.operators = 0,
                '=' if punct.spacing() == Spacing::Joint => {}
                '#' | '\'' | ':' | '$' | '@' => {}
                _ => self.operators += 1,
            },
            // The comparison of an identifier makes a text of it each time.
            TokenTree::Ident(word) => self.operators += usize::from(WORDS.contains(&word.to_string().as_str())),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let goes_on = matches!(self.tokens.peek(), Some(TokenTree::Ident(word)) if word == "else");
                if !goes_on {
                    self.operators = 0;
                }
            }
            TokenTree::Group(_) => self.operators += usize::from(behind_group),
            TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::check_nesting;
    use proc_macro2::TokenStream;

    /// The message about an input, if there is one.
    fn said(text: &str) -> Option<String> {
        check_nesting(&text.parse::<TokenStream>().unwrap()).err().map(|deep| deep.message)
    }

    fn nested(open: &str, close: &str, n: usize) -> String {
        format!("fn k() {{ let x: u32 = {}1{}; }}", open.repeat(n), close.repeat(n))
    }

    #[test]
    fn deep_brackets_are_refused() {
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("f(", ")"), ("if a {", "}")] {
            assert_eq!(said(&nested(open, close, 120)), None, "{open}");
            let message = said(&nested(open, close, 1000)).unwrap();
            assert_eq!(message, "brackets nest more than 128 deep", "{open}");
            assert!(said(&nested(open, close, 50_000)).is_some(), "{open}");
        }
    }

    #[test]
    fn long_numbers_are_refused() {
        let most = "a number of more than 1024 digits";
        for (open, digit, close) in [("", "9", ""), ("0x", "f", "u64"), ("1.", "5", "f32")] {
            let number = |n: usize| format!("let x = {open}{}{close};", digit.repeat(n));
            assert_eq!(said(&number(1000)), None, "{open}");
            assert_eq!(said(&number(200_000)).as_deref(), Some(most), "{open}");
        }
        assert_eq!(said(&format!("let x = \"{}\";", "9".repeat(5000))), None);
    }

    #[test]
    fn long_expressions_are_refused() {
        let most = "an expression of more than 256 operators";
        for (open, close) in [
            ("-", ""),
            ("!", ""),
            ("&", ""),
            ("1 + ", ""),
            ("", " as u32"),
            ("", ".f"),
            ("", "(1)"),
            ("", "[0]"),
            ("", " + {1}"),
            ("if a {} else ", ""),
            ("return ", ""),
            ("break ", ""),
        ] {
            assert_eq!(said(&nested(open, close, 100)), None, "{open}{close}");
            // A chain of blocks is no value of the language: `Reader` refuses it block by block.
            if close != " + {1}" {
                assert_eq!(said(&nested(open, close, 1000)).as_deref(), Some(most), "{open}{close}");
            }
        }
    }

    #[test]
    fn many_statements_are_no_long_expression() {
        for one in [
            "a = b + 1;",
            "if a > b { c }",
            "if a { b } else { c }",
            "#[doc = \"a\"] ",
            "x: u32,",
            "fn f() -> u32 { 1 }",
        ] {
            assert_eq!(said(&one.repeat(5000)), None, "{one}");
        }
        assert_eq!(said(&format!("{{.version 8.0 {}}}", ".b8 1 + 1 ".repeat(5000))), None);
    }
}

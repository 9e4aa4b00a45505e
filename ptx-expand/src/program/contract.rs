//! Host expressions without an attribute: texts over the parameters of an entry and free numbers.

use crate::describe::{Expr, Named, Names, Problem, Scope, syntax};
use std::cell::RefCell;

/// A reader of texts that share their free numbers.
pub struct Reader {
    params: Vec<(String, Named)>,
    numbers: Vec<String>,
    scope: Scope,
}

impl Reader {
    /// A reader for an entry with these parameters.
    pub fn new(params: impl IntoIterator<Item = String>) -> Reader {
        let params = params.into_iter().enumerate().map(|(at, name)| (name, Named::Scalar(at))).collect();
        Reader { params, numbers: Vec::new(), scope: Scope::default() }
    }

    /// Reads an expression with the grammar of `grid` and `requires`. A name is a parameter (`Expr::Argument`) or a free number (`Expr::Dim`), and
    /// `len(x)` is the length of a parameter's buffer (`Expr::Len`).
    ///
    /// # Errors
    /// A text that is no such expression.
    pub fn read(&mut self, text: &str) -> Result<Expr, Problem> {
        let expr: syn::Expr = syn::parse_str(text).map_err(|error| syntax(&error))?;
        let names = Names {
            scope: &self.scope,
            generics: Vec::new(),
            fields: Vec::new(),
            structs: Vec::new(),
            params: self.params.clone(),
            dims: &self.numbers,
            free: Some(RefCell::default()),
            bound: Vec::new(),
            depth: 0,
            evaluated: None,
        };
        let read = names.compile(&expr);
        let more = names.free.map(RefCell::into_inner).unwrap_or_default();
        self.numbers.extend(more);
        read
    }

    /// The names of the free numbers so far: `Expr::Dim` counts them.
    pub fn into_numbers(self) -> Vec<String> {
        self.numbers
    }
}

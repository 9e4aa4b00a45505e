//! The values of an instance: what host expressions read of its constants, `C.threads` or `C.cluster()`. `launch` of all instances reads them from a
//! table, so that it has each condition once, and not once for each instance.

use super::Launch;
use crate::argument::is_builtin_name;
use crate::tokens::{joined, local};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::{Expr, Type};

/// A value, in a variable.
pub struct Value {
    /// Its tokens, as text: expressions have no other comparison.
    text: String,
    expr: TokenStream,
    variable: Ident,
}

impl Launch<'_> {
    /// The values in the conditions and in the configuration.
    pub fn find_values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        for expr in self.config_exprs().chain(&self.kernel.launch.requires) {
            self.find_values_in(expr, &mut values);
        }
        values
    }

    /// Binds the values of the picked instance.
    pub fn bind_values(&self, instance: &Ident) -> TokenStream {
        if self.values.is_empty() {
            return TokenStream::new();
        }
        let (variables, exprs) = (self.values.iter().map(|value| &value.variable), self.values.iter().map(|v| &v.expr));
        let exprs = quote!((#(#exprs,)*));
        let arms = joined(self.kernel.distinct_names().map(|(at, name)| {
            let constants = self.constant_items(at);
            quote!(Instance::#name => { #constants #exprs })
        }));
        quote!(let (#(#variables,)*) = match #instance { #arms };)
    }

    /// The variable that holds this expression, if one does.
    pub fn value(&self, expr: &Expr) -> Option<&Ident> {
        let text = (!self.values.is_empty()).then(|| expr.to_token_stream().to_string())?;
        self.values.iter().find(|value| value.text == text).map(|value| &value.variable)
    }

    fn find_values_in(&self, expr: &Expr, values: &mut Vec<Value>) {
        if !self.is_value_of_instance(expr) {
            return parts(expr).into_iter().for_each(|part| self.find_values_in(part, values));
        }
        let (expr, variable) = (expr.to_token_stream(), local(&format!("value_{}", values.len())));
        let text = expr.to_string();
        if values.iter().all(|known| known.text != text) {
            values.push(Value { text, expr, variable });
        }
    }

    /// A constant that is a number, or what a field or a method of a constant has. A constant that is a struct is none: not each can be copied.
    fn is_value_of_instance(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(path) => self.constants().any(|constant| {
                path.path.is_ident(&constant.ident)
                    && matches!(&constant.ty, Type::Path(ty) if ty.path.get_ident().is_some_and(is_builtin_name))
            }),
            _ => self.is_of_constant(expr),
        }
    }

    fn is_of_constant(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(path) => self.constants().any(|constant| path.path.is_ident(&constant.ident)),
            Expr::Field(field) => self.is_of_constant(&field.base),
            Expr::MethodCall(call) => {
                call.args.is_empty() && call.turbofish.is_none() && self.is_of_constant(&call.receiver)
            }
            _ => false,
        }
    }
}

/// The expressions inside of one.
fn parts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Paren(paren) => vec![&*paren.expr],
        Expr::Group(group) => vec![&*group.expr],
        Expr::Cast(cast) => vec![&*cast.expr],
        Expr::Unary(unary) => vec![&*unary.expr],
        Expr::Binary(binary) => vec![&*binary.left, &*binary.right],
        Expr::Index(index) => vec![&*index.expr, &*index.index],
        Expr::Tuple(tuple) => tuple.elems.iter().collect(),
        Expr::Array(array) => array.elems.iter().collect(),
        Expr::Call(call) => call.args.iter().collect(),
        Expr::MethodCall(call) => std::iter::once(&*call.receiver).chain(&call.args).collect(),
        _ => Vec::new(),
    }
}

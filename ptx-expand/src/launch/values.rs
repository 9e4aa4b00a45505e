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
    /// True for a call, which is evaluated where a condition reads it: the conditions before it may be those that keep it from a division by zero.
    is_call: bool,
}

impl Launch<'_> {
    /// The values in the conditions, in the configuration and in alignments.
    pub fn find_values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        for expr in self.config_exprs().chain(&self.kernel.launch.requires) {
            self.find_values_in(expr, &mut values);
        }
        for (_, align) in self.computed_aligns() {
            self.find_values_in(&align, &mut values);
        }
        values
    }

    /// Binds the values of the picked instance.
    pub fn bind_values(&self, instance: &Ident) -> TokenStream {
        let (calls, fields): (Vec<&Value>, Vec<&Value>) = self.values.iter().partition(|value| value.is_call);
        let of_instance = |exprs: &TokenStream| {
            let arms = joined(self.kernel.distinct_names().map(|(at, name)| {
                let constants = self.constant_items(at);
                quote!(Instance::#name => { #constants #exprs })
            }));
            quote!(match #instance { #arms })
        };
        let calls = calls.iter().map(|Value { variable, expr, .. }| {
            let value = of_instance(expr);
            quote!(let #variable = || #value;)
        });
        let (variables, exprs) = (fields.iter().map(|value| &value.variable), fields.iter().map(|value| &value.expr));
        let values = of_instance(&quote!((#(#exprs,)*)));
        let fields = (!fields.is_empty()).then(|| quote!(let (#(#variables,)*) = #values;));
        quote!(#fields #(#calls)*)
    }

    /// The tokens that read the variable of an expression, if it has one.
    pub fn value(&self, expr: &Expr) -> Option<TokenStream> {
        let text = (!self.values.is_empty()).then(|| expr.to_token_stream().to_string())?;
        let Value { variable, is_call, .. } = self.values.iter().find(|value| value.text == text)?;
        let call = is_call.then(|| quote!(()));
        Some(quote!(#variable #call))
    }

    fn find_values_in(&self, expr: &Expr, values: &mut Vec<Value>) {
        if !self.is_value_of_instance(expr) {
            return parts(expr).into_iter().for_each(|part| self.find_values_in(part, values));
        }
        let (is_call, variable) = (is_call(expr), local(&format!("value_{}", values.len())));
        let expr = expr.to_token_stream();
        let text = expr.to_string();
        if values.iter().all(|known| known.text != text) {
            values.push(Value { text, expr, variable, is_call });
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

/// Returns true if a method is called, on a constant or on a field of one.
fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::MethodCall(_) => true,
        Expr::Field(field) => is_call(&field.base),
        _ => false,
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

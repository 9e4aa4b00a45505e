//! The methods that launches call: those of the author, over integers without a type. A result that does not exist is an error that names its expression.

use super::tree::{Call, Contract, Function, Param, Pattern, Place, Shape, Tree};
use crate::root::Root;
use crate::tokens::local;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use ptx_core::host::Operator;
use quote::{ToTokens, quote};

/// The implementation of `Contracted` for the struct.
pub fn view(contract: &Contract, root: &Root) -> TokenStream {
    let (rt, ty, name) = (root.expansion(), &contract.ty, contract.name());
    let view = View { rt: &rt, ty };
    let functions = contract.functions.iter().map(|function| view.function(function));
    let reads = contract.functions.iter().map(|function| {
        let text = function.name.to_string();
        let fields = contract.fields_read(&text).into_iter().map(|field| {
            let name = syn::parse_str::<Ident>(&field).unwrap_or_else(|_| Ident::new_raw(&field, Span::call_site()));
            quote!((#field, &self.#name))
        });
        quote!(#text => &[#(#fields),*],)
    });
    quote! {
        #[allow(clippy::all, clippy::pedantic, clippy::nursery, unused_parens, unused_braces, unused_variables, unreachable_pub, private_bounds, private_interfaces, non_snake_case)]
        const _: () = {
            // Generic, so that it is as visible as the struct.
            pub struct __PtxView<'a, T>(&'a T);
            impl<T> #rt::core::ops::Deref for __PtxView<'_, T> {
                type Target = T;
                fn deref(&self) -> &T { self.0 }
            }
            impl #rt::Contracted for #ty {
                type View<'a> = __PtxView<'a, #ty>;
                fn view(&self) -> __PtxView<'_, #ty> { __PtxView(self) }
                fn read_by(&self, function: &str) -> #rt::Text {
                    let fields: &[(&str, &dyn #rt::core::fmt::Debug)] = match function {
                        #(#reads)*
                        _ => &[],
                    };
                    #rt::shown_fields(#name, fields)
                }
            }
            #[allow(dead_code)]
            impl __PtxView<'_, #ty> { #(#functions)* }
        };
    }
}

struct View<'a> {
    rt: &'a TokenStream,
    ty: &'a syn::Path,
}

impl View<'_> {
    fn function(&self, function: &Function) -> TokenStream {
        let (rt, name, body) = (self.rt, &function.name, self.tree(&function.body));
        let this = function.takes_self.then(|| quote!(&self,));
        let params = function.params.iter().enumerate().map(|(at, param)| {
            let (name, ty) = (local(&format!("argument_{at}")), self.taken(&param.shape));
            quote!(#name: #ty)
        });
        let bound = function.params.iter().enumerate().map(|(at, param)| self.bound(&argument(at), param));
        let result = self.result(&function.result);
        quote! {
            pub fn #name(#this #(#params),*) -> #rt::Checked<#result> {
                #(#bound)*
                #rt::core::result::Result::Ok(#body)
            }
        }
    }

    /// The type of a parameter: any integers.
    fn taken(&self, shape: &Shape) -> TokenStream {
        let rt = self.rt;
        match shape {
            Shape::Number => quote!(impl #rt::ToInt),
            Shape::Truth => quote!(bool),
            Shape::Array(element, len) => {
                let (element, len) = (self.taken(element), self.constant(len));
                quote!([#element; #len])
            }
            Shape::Tuple(parts) => {
                let parts = parts.iter().map(|part| self.taken(part));
                quote!((#(#parts,)*))
            }
            Shape::Struct(ty) => quote!(impl #rt::core::borrow::Borrow<#ty>),
        }
    }

    fn result(&self, shape: &Shape) -> TokenStream {
        let rt = self.rt;
        match shape {
            Shape::Number => quote!(#rt::Int),
            Shape::Truth => quote!(bool),
            Shape::Array(element, len) => {
                let (element, len) = (self.result(element), self.constant(len));
                quote!([#element; #len])
            }
            Shape::Tuple(parts) => {
                let parts = parts.iter().map(|part| self.result(part));
                quote!((#(#parts,)*))
            }
            Shape::Struct(ty) => ty.to_token_stream(),
        }
    }

    fn bound(&self, value: &Ident, Param { pattern, shape }: &Param) -> TokenStream {
        let (rt, pattern) = (self.rt, names(pattern));
        match shape {
            Shape::Struct(ty) => quote!(let #pattern = #rt::core::borrow::Borrow::<#ty>::borrow(&#value);),
            _ => quote!(let #pattern = #rt::host(#value);),
        }
    }

    fn place(&self, Place { root, fields }: &Place) -> TokenStream {
        let root = if root == "self" { quote!(self.0) } else { root.to_token_stream() };
        quote!(#root #(.#fields)*)
    }

    /// `Self` is the author's struct.
    fn constant(&self, expr: &syn::Expr) -> TokenStream {
        let ty = self.ty;
        let replace = |tree: proc_macro2::TokenTree| match tree {
            proc_macro2::TokenTree::Ident(name) if name == "Self" => quote!(<#ty>),
            other => other.into(),
        };
        expr.to_token_stream().into_iter().map(replace).collect()
    }

    fn tree(&self, tree: &Tree) -> TokenStream {
        let rt = self.rt;
        match tree {
            Tree::Literal(number) => quote!(#rt::int(#number)),
            Tree::Truth(truth) => quote!(#truth),
            Tree::Name(name) => quote!(#rt::host(#name)),
            Tree::Place(place) => {
                let place = self.place(place);
                quote!(#rt::host(#place))
            }
            Tree::Constant(constant) => {
                let constant = self.constant(constant);
                quote!(#rt::host(#constant))
            }
            Tree::Index(both) => {
                let (of, at) = (self.tree(&both[0]), self.raw(&both[1]));
                quote!((#of)[#at])
            }
            Tree::Unary(operator, of) => {
                let of = self.tree(of);
                match operator {
                    Operator::Neg => quote!((-(#of))),
                    Operator::Not => quote!((!(#of))),
                    _ => quote!((#of).is_power_of_two()),
                }
            }
            Tree::Binary(operator, both, text) => self.binary(*operator, both, text),
            Tree::If(parts) => {
                let [condition, yes, no] = [&parts[0], &parts[1], &parts[2]].map(|part| self.tree(part));
                quote!((if #condition { #yes } else { #no }))
            }
            Tree::Let(values, result) => {
                let values = values.iter().map(|(pattern, value)| {
                    let (pattern, value) = (names(pattern), self.tree(value));
                    quote!(let #pattern = #value;)
                });
                let result = self.tree(result);
                quote!({ #(#values)* #result })
            }
            Tree::Array(parts) => {
                let parts = parts.iter().map(|part| self.tree(part));
                quote!([#(#parts),*])
            }
            Tree::Tuple(parts) => {
                let parts = parts.iter().map(|part| self.tree(part));
                quote!((#(#parts,)*))
            }
            Tree::Call(call) => self.call(call),
            Tree::Every { is_all, over, pattern, holds } => {
                let function = Ident::new(if *is_all { "every" } else { "some" }, Span::call_site());
                let (over, pattern, holds) = (self.elements(over), names(pattern), self.tree(holds));
                quote!(#rt::#function(#over, |#pattern| #rt::core::result::Result::Ok(#holds))?)
            }
            Tree::Zip(_) | Tree::Range(_) => self.elements(tree),
        }
    }

    fn binary(&self, operator: Operator, both: &[Tree; 2], text: &str) -> TokenStream {
        let (rt, a, b) = (self.rt, self.tree(&both[0]), self.tree(&both[1]));
        let checked = |of: &str, method: &str| {
            let [of, method] = [of, method].map(|name| Ident::new(name, Span::call_site()));
            quote!(#rt::checked(#rt::#of::#method(#a, #b), #text)?)
        };
        match operator {
            Operator::Add => checked("Arithmetic", "add"),
            Operator::Sub => checked("Arithmetic", "sub"),
            Operator::Mul => checked("Arithmetic", "mul"),
            Operator::Div => checked("Arithmetic", "div"),
            Operator::Rem => checked("Arithmetic", "rem"),
            Operator::Shl => checked("IntegerArithmetic", "shl"),
            Operator::Shr => checked("IntegerArithmetic", "shr"),
            Operator::DivCeil => checked("IntegerArithmetic", "div_ceil"),
            Operator::NextMultipleOf => checked("IntegerArithmetic", "next_multiple_of"),
            Operator::Pow => checked("IntegerArithmetic", "pow"),
            Operator::And => quote!(((#a) && (#b))),
            Operator::Or => quote!(((#a) || (#b))),
            Operator::Eq => quote!(((#a) == (#b))),
            Operator::Ne => quote!(((#a) != (#b))),
            Operator::Lt => quote!(((#a) < (#b))),
            Operator::Le => quote!(((#a) <= (#b))),
            Operator::Gt => quote!(((#a) > (#b))),
            Operator::Ge => quote!(((#a) >= (#b))),
            Operator::Min => quote!((#a).min(#b)),
            Operator::Max => quote!((#a).max(#b)),
            Operator::IsMultipleOf => quote!((#a).is_multiple_of(#b)),
            // Unary ones, which are no `Binary`.
            Operator::Neg | Operator::Not | Operator::IsPowerOfTwo | Operator::Exact => quote!(#a),
        }
    }

    fn call(&self, call: &Call) -> TokenStream {
        let (rt, name, ty) = (self.rt, &call.name, self.ty);
        let arguments = call.arguments.iter().map(|argument| match argument {
            Tree::Place(place) if place.fields.is_empty() => {
                let place = self.place(place);
                quote!(&*#place)
            }
            other => self.tree(other),
        });
        let arguments = quote!(#(#arguments),*);
        match &call.on {
            None => quote!(__PtxView::<#ty>::#name(#arguments)?),
            Some(place) if place.root == "self" => quote!(self.#name(#arguments)?),
            Some(place) => {
                let place = self.place(place);
                quote!(#rt::Contracted::view(&*#place).#name(#arguments)?)
            }
        }
    }

    /// The elements of an array, of two of them, or of a range.
    fn elements(&self, tree: &Tree) -> TokenStream {
        let rt = self.rt;
        match tree {
            Tree::Range(both) => {
                let (start, end) = (self.raw(&both[0]), self.raw(&both[1]));
                quote!((#start..#end))
            }
            Tree::Zip(both) => {
                let (a, b) = (self.elements(&both[0]), self.elements(&both[1]));
                quote!(#rt::core::iter::Iterator::zip(#rt::core::iter::IntoIterator::into_iter(#a), #b))
            }
            other => self.tree(other),
        }
    }

    /// An index, or the end of a range.
    fn raw(&self, tree: &Tree) -> TokenStream {
        match tree {
            Tree::Literal(number) => match number.base10_parse() {
                Ok(number) => Literal::usize_suffixed(number).to_token_stream(),
                Err(_) => number.to_token_stream(),
            },
            Tree::Name(name) => name.to_token_stream(),
            Tree::Constant(constant) => {
                let constant = self.constant(constant);
                quote!(((#constant) as usize))
            }
            other => self.tree(other),
        }
    }
}

/// The variable of a parameter before its pattern takes it apart.
fn argument(at: usize) -> Ident {
    local(&format!("argument_{at}"))
}

fn names(pattern: &Pattern) -> TokenStream {
    match pattern {
        Pattern::Name(name) => name.to_token_stream(),
        Pattern::Skip => quote!(_),
        Pattern::Tuple(parts) => {
            let parts = parts.iter().map(names);
            quote!((#(#parts,)*))
        }
        Pattern::Slice(parts, rest) => {
            let mut parts: Vec<TokenStream> = parts.iter().map(names).collect();
            if let Some(at) = rest {
                parts.insert(*at, quote!(..));
            }
            quote!([#(#parts),*])
        }
    }
}

//! From Rust syntax to the trees of condition functions. What they do not have is an error on its tokens that names what they have instead.

use super::tree::{Call, Contract, Function, Param, Pattern, Place, Shape, Tree};
use crate::kernel::Reader;
use crate::tokens::source_text;
use proc_macro2::Ident;
use ptx_core::diag::{codes, near::nearest};
use ptx_core::host::Operator;
use quote::ToTokens;
use syn::{BinOp, Expr, ImplItem, Lit, Pat, Stmt, Type, UnOp};

/// The help where nothing is near.
const GRAMMAR: &str = "a condition has integers, fields, constants, operators, `min`, `max`, `div_ceil`, `next_multiple_of`, `pow`, `is_multiple_of`, `if`, `let`, calls of condition functions, and `all` and `any` over arrays and ranges";

/// Reads the functions of an `impl`; nothing where it is none of a struct. Mistakes are in the reader.
pub fn read(reader: &mut Reader, item: &syn::ItemImpl) -> Option<Contract> {
    let help = "write `#[ptx_contract] impl Name { fn covers(&self, len: u64) -> bool { … } }`";
    let path = match &*item.self_ty {
        Type::Path(ty) if ty.qself.is_none() => Some(&ty.path),
        _ => None,
    };
    let plain = path.filter(|path| path.segments.iter().all(|segment| segment.arguments.is_empty()));
    let (Some(ty), None, true) = (plain, &item.trait_, item.generics.params.is_empty()) else {
        let message = "condition functions are those of a struct of parameters, which is not generic";
        reader.error(&codes::P0919, &item.self_ty, message, help);
        return None;
    };
    let functions = item.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) => Some(function),
        _ => None,
    });
    let names: Vec<String> = functions.clone().map(|function| function.sig.ident.to_string()).collect();
    let mut contract = Contract { ty: ty.clone(), functions: Vec::new() };
    for function in functions {
        contract.functions.extend(Body { reader, ty, names: &names, bound: Vec::new() }.function(function));
    }
    refuse_circles(reader, &contract);
    for other in item.items.iter().filter(|item| !matches!(item, ImplItem::Fn(_) | ImplItem::Const(_))) {
        let help = "move it into another `impl`";
        reader.error(&codes::P0919, other, "a contract has functions and constants", help);
    }
    Some(contract)
}

/// A function that calls itself has no expression.
fn refuse_circles(reader: &mut Reader, contract: &Contract) {
    for function in &contract.functions {
        let (mut open, mut seen) = (vec![function], Vec::new());
        while let Some(next) = open.pop() {
            next.body.visit(&mut |tree| {
                let Tree::Call(call) = tree else { return };
                let name = call.name.to_string();
                if call.is_own() && !seen.contains(&name) {
                    open.extend(contract.function(&name));
                    seen.push(name);
                }
            });
        }
        if seen.iter().any(|name| function.name == name) {
            let message = format!("`{}` calls itself", function.name);
            let help = "write `all` or `any` over an array or a range";
            reader.error(&codes::P0919, &function.name, message, help);
        }
    }
}

/// The integers of Rust, and that of host expressions.
const INTEGERS: [&str; 11] = ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "Int"];

/// Methods of an integer with an argument.
const METHODS: [(&str, Operator); 6] = [
    ("min", Operator::Min),
    ("max", Operator::Max),
    ("div_ceil", Operator::DivCeil),
    ("next_multiple_of", Operator::NextMultipleOf),
    ("pow", Operator::Pow),
    ("is_multiple_of", Operator::IsMultipleOf),
];

/// Methods that leave the elements or the number as they are.
const SAME: [&str; 5] = ["iter", "into_iter", "copied", "cloned", "into"];

/// The meaning of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A number, a truth value, or an array of them.
    Value,
    /// A number of a range, which may be an index.
    Index,
    /// A struct.
    Struct,
}

struct Body<'a> {
    reader: &'a mut Reader,
    ty: &'a syn::Path,
    /// The functions of the `impl`.
    names: &'a [String],
    bound: Vec<(String, Kind)>,
}

impl Body<'_> {
    fn refuse<T>(&mut self, at: &impl ToTokens, message: impl Into<String>, help: &str) -> Option<T> {
        self.reader.error(&codes::P0919, at, message, help);
        None
    }

    fn function(&mut self, function: &syn::ImplItemFn) -> Option<Function> {
        let sig = &function.sig;
        if !sig.generics.params.is_empty() || sig.asyncness.is_some() || sig.unsafety.is_some() {
            return self.refuse(sig, "a condition function is a plain `fn` without generic parameters", "");
        }
        let takes_self = sig.receiver().is_some();
        if let Some(receiver) = sig.receiver().filter(|receiver| receiver.mutability.is_some()) {
            return self.refuse(receiver, "a condition changes nothing", "write `&self`");
        }
        if takes_self {
            self.bound.push(("self".to_owned(), Kind::Struct));
        }
        let inputs = sig.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(input) => Some(input),
            syn::FnArg::Receiver(_) => None,
        });
        let mut params = Vec::new();
        for input in inputs {
            let shape = self.shape(&input.ty)?;
            let kind = if matches!(shape, Shape::Struct(_)) { Kind::Struct } else { Kind::Value };
            params.push(Param { pattern: self.pattern(&input.pat, &|_| kind)?, shape });
        }
        let result = match &sig.output {
            syn::ReturnType::Type(_, ty) => self.shape(ty)?,
            syn::ReturnType::Default => {
                return self.refuse(sig, "a condition function without a result", "write `-> bool`");
            }
        };
        if let (Shape::Struct(_), syn::ReturnType::Type(_, ty)) = (&result, &sig.output) {
            let help = "return a `bool`, an integer, or an array or a tuple of integers";
            return self.refuse(ty, "a condition function returns no struct", help);
        }
        let body = self.block(&function.block)?;
        Some(Function { name: sig.ident.clone(), takes_self, params, result, body })
    }

    fn shape(&mut self, ty: &Type) -> Option<Shape> {
        let help = "write an integer, `bool`, an array of a fixed length such as `[u64; 3]`, a tuple, or a struct of parameters";
        match ty {
            Type::Paren(inner) => self.shape(&inner.elem),
            Type::Group(inner) => self.shape(&inner.elem),
            Type::Reference(reference) if reference.mutability.is_none() => match &*reference.elem {
                Type::Slice(_) => {
                    self.refuse(ty, "a slice has no fixed length", "write an array: `[u64; 3]`, by value")
                }
                inner => self.shape(inner),
            },
            Type::Array(array) => Some(Shape::Array(Box::new(self.shape(&array.elem)?), Box::new(array.len.clone()))),
            Type::Tuple(tuple) if !tuple.elems.is_empty() => {
                let parts: Option<Vec<Shape>> = tuple.elems.iter().map(|part| self.shape(part)).collect();
                Some(Shape::Tuple(parts?))
            }
            Type::Path(path) if path.qself.is_none() => {
                let last = path.path.segments.last()?.ident.to_string();
                Some(match last.as_str() {
                    "bool" => Shape::Truth,
                    name if INTEGERS.contains(&name) => Shape::Number,
                    "f32" | "f64" | "f16" | "bf16" | "str" | "String" | "i128" | "u128" | "char" => {
                        return self.refuse(ty, format!("a condition has no `{last}`"), help);
                    }
                    "Self" => Shape::Struct(Box::new(Type::Path(syn::TypePath { qself: None, path: self.ty.clone() }))),
                    _ => Shape::Struct(Box::new(ty.clone())),
                })
            }
            _ => self.refuse(ty, format!("a condition has no `{}`", source_text(ty)), help),
        }
    }

    /// The names of a pattern. `kind` is that of a part, by the number of the part of a pair.
    fn pattern(&mut self, pattern: &Pat, kind: &dyn Fn(&[usize]) -> Kind) -> Option<Pattern> {
        self.pattern_at(pattern, kind, &mut Vec::new())
    }

    fn pattern_at(&mut self, pattern: &Pat, kind: &dyn Fn(&[usize]) -> Kind, at: &mut Vec<usize>) -> Option<Pattern> {
        match pattern {
            Pat::Ident(name) if name.subpat.is_none() && name.mutability.is_none() => {
                self.bound.push((name.ident.to_string(), kind(at)));
                Some(Pattern::Name(name.ident.clone()))
            }
            Pat::Wild(_) => Some(Pattern::Skip),
            Pat::Paren(inner) => self.pattern_at(&inner.pat, kind, at),
            Pat::Reference(inner) => self.pattern_at(&inner.pat, kind, at),
            Pat::Type(typed) => self.pattern_at(&typed.pat, kind, at),
            Pat::Tuple(tuple) => {
                let mut parts = Vec::new();
                for (part, pattern) in tuple.elems.iter().enumerate() {
                    at.push(part);
                    let read = self.pattern_at(pattern, kind, at);
                    at.pop();
                    parts.push(read?);
                }
                Some(Pattern::Tuple(parts))
            }
            Pat::Slice(slice) => {
                let (mut parts, mut rest) = (Vec::new(), None);
                for pattern in &slice.elems {
                    match pattern {
                        Pat::Rest(_) => rest = Some(parts.len()),
                        _ => parts.push(self.pattern_at(pattern, &|_| Kind::Value, at)?),
                    }
                }
                Some(Pattern::Slice(parts, rest))
            }
            _ => self.refuse(pattern, "a condition has no such pattern", "write a name, `(a, b)` or `[a, .., b]`"),
        }
    }

    fn block(&mut self, block: &syn::Block) -> Option<Tree> {
        let outer = self.bound.len();
        let (mut values, mut result) = (Vec::new(), None);
        for statement in &block.stmts {
            match statement {
                Stmt::Local(local) => {
                    let Some(init) = local.init.as_ref().filter(|init| init.diverge.is_none()) else {
                        return self.refuse(local, "a `let` without a value", "write `let name = …;`");
                    };
                    let value = self.expr(&init.expr)?;
                    values.push((self.pattern(&local.pat, &|_| Kind::Value)?, value));
                }
                Stmt::Expr(expr, None) => result = Some(self.expr(expr)?),
                other => {
                    let help = "write `let`s and an expression behind them; a loop is `all` or `any`";
                    return self.refuse(other, "a condition has no such statement", help);
                }
            }
        }
        self.bound.truncate(outer);
        let Some(result) = result else {
            return self.refuse(block, "a block without a value", "end it in an expression");
        };
        Some(if values.is_empty() { result } else { Tree::Let(values, Box::new(result)) })
    }

    fn expr(&mut self, expr: &Expr) -> Option<Tree> {
        match expr {
            Expr::Paren(inner) => self.expr(&inner.expr),
            Expr::Group(inner) => self.expr(&inner.expr),
            Expr::Reference(inner) if inner.mutability.is_none() => self.expr(&inner.expr),
            Expr::Lit(syn::ExprLit { lit: Lit::Int(number), .. }) => Some(Tree::Literal(number.clone())),
            Expr::Lit(syn::ExprLit { lit: Lit::Bool(truth), .. }) => Some(Tree::Truth(truth.value)),
            Expr::Path(path) => Some(self.named(&path.path, expr)),
            Expr::Field(_) => match self.place(expr) {
                Some(place) => Some(Tree::Place(place)),
                None => {
                    let help = "name a field of `self`, or of a parameter that is a struct of parameters";
                    self.refuse(expr, format!("`{}` is no field of a parameter", source_text(expr)), help)
                }
            },
            Expr::Index(index) => {
                let (of, at) = (self.expr(&index.expr)?, self.index(&index.index)?);
                Some(Tree::Index(Box::new([of, at])))
            }
            Expr::Unary(unary) => {
                let of = self.expr(&unary.expr)?;
                match unary.op {
                    UnOp::Neg(_) => Some(Tree::Unary(Operator::Neg, Box::new(of))),
                    UnOp::Not(_) => Some(Tree::Unary(Operator::Not, Box::new(of))),
                    _ => Some(of),
                }
            }
            Expr::Binary(binary) => match operator(&binary.op) {
                Some(operator) => self.binary(operator, [&binary.left, &binary.right], expr),
                None => {
                    let message = format!("a condition has no operator `{}`", source_text(&binary.op));
                    self.refuse(&binary.op, message, "write `&&` and `||` for truth values")
                }
            },
            Expr::If(choice) => self.choice(choice),
            Expr::Block(block) if block.label.is_none() => self.block(&block.block),
            Expr::Tuple(tuple) => Some(Tree::Tuple(self.all(&tuple.elems)?)),
            Expr::Array(array) => Some(Tree::Array(self.all(&array.elems)?)),
            Expr::Range(range) => self.range(range),
            Expr::MethodCall(call) => self.method(call, expr),
            Expr::Call(call) => self.call(call),
            Expr::Cast(cast) => {
                let help = "integers have no type in a condition: leave the cast out, or write `u64::from(x)`";
                self.refuse(expr, format!("a condition has no cast: `as {}`", source_text(&cast.ty)), help)
            }
            _ => {
                let message = format!("`{}` cannot be evaluated by a launch", source_text(expr));
                self.refuse(expr, message, GRAMMAR)
            }
        }
    }

    fn all<'e>(&mut self, parts: impl IntoIterator<Item = &'e Expr>) -> Option<Vec<Tree>> {
        let mut all = Vec::new();
        for part in parts {
            all.push(self.expr(part)?);
        }
        Some(all)
    }

    fn kind(&self, name: &Ident) -> Option<Kind> {
        self.bound.iter().rev().find(|(bound, _)| name == bound).map(|(_, kind)| *kind)
    }

    fn named(&self, path: &syn::Path, whole: &Expr) -> Tree {
        match path.get_ident().map(|name| (name, self.kind(name))) {
            Some((name, Some(Kind::Struct))) => Tree::Place(Place { root: name.clone(), fields: Vec::new() }),
            Some((name, Some(_))) => Tree::Name(name.clone()),
            _ => Tree::Constant(Box::new(whole.clone())),
        }
    }

    /// The field that an expression is.
    fn place(&self, expr: &Expr) -> Option<Place> {
        match expr {
            Expr::Paren(inner) => self.place(&inner.expr),
            Expr::Path(path) => {
                let root = path.path.get_ident().filter(|name| self.kind(name) == Some(Kind::Struct))?.clone();
                Some(Place { root, fields: Vec::new() })
            }
            Expr::Field(field) => {
                let mut place = self.place(&field.base)?;
                let syn::Member::Named(name) = &field.member else { return None };
                place.fields.push(name.clone());
                Some(place)
            }
            _ => None,
        }
    }

    fn index(&mut self, expr: &Expr) -> Option<Tree> {
        let tree = self.expr(expr)?;
        match &tree {
            Tree::Literal(_) | Tree::Constant(_) => Some(tree),
            Tree::Name(name) if self.kind(name) == Some(Kind::Index) => Some(tree),
            _ => {
                let help = "write a number, a constant, or the variable of a range: `(0..3).all(|at| x[at] > 0)`";
                self.refuse(expr, format!("the index `{}` is no constant", source_text(expr)), help)
            }
        }
    }

    fn range(&mut self, range: &syn::ExprRange) -> Option<Tree> {
        let help = "write `(0..3).all(|at| …)`";
        let (Some(start), Some(end), syn::RangeLimits::HalfOpen(_)) = (&range.start, &range.end, &range.limits) else {
            return self.refuse(range, "a range of a condition has two ends, and is half open", help);
        };
        let both = [self.expr(start)?, self.expr(end)?];
        if both.iter().all(|end| matches!(end, Tree::Literal(_) | Tree::Constant(_))) {
            return Some(Tree::Range(Box::new(both)));
        }
        self.refuse(range, "the ends of a range are constants in a condition", help)
    }

    fn binary(&mut self, operator: Operator, [left, right]: [&Expr; 2], whole: &Expr) -> Option<Tree> {
        let both = [self.expr(left)?, self.expr(right)?];
        Some(Tree::Binary(operator, Box::new(both), source_text(whole)))
    }

    fn choice(&mut self, choice: &syn::ExprIf) -> Option<Tree> {
        let Some((_, other)) = &choice.else_branch else {
            return self.refuse(choice, "an `if` without an `else` has no value", "write `if a { b } else { c }`");
        };
        let condition = self.expr(&choice.cond)?;
        Some(Tree::If(Box::new([condition, self.block(&choice.then_branch)?, self.expr(other)?])))
    }

    fn method(&mut self, call: &syn::ExprMethodCall, whole: &Expr) -> Option<Tree> {
        let name = call.method.to_string();
        if let Some(on) = self.place(&call.receiver).filter(|place| place.fields.is_empty()) {
            if on.root == "self" {
                self.known(&call.method)?;
            }
            return Some(Tree::Call(Call {
                on: Some(on),
                name: call.method.clone(),
                arguments: self.all(&call.args)?,
            }));
        }
        let arguments: Vec<&Expr> = call.args.iter().collect();
        match (name.as_str(), &arguments[..]) {
            ("all" | "any", [Expr::Closure(closure)]) => self.every(name == "all", &call.receiver, closure),
            ("zip", [other]) => Some(Tree::Zip(Box::new([self.expr(&call.receiver)?, self.expr(other)?]))),
            ("is_power_of_two", []) => Some(Tree::Unary(Operator::IsPowerOfTwo, Box::new(self.expr(&call.receiver)?))),
            (name, []) if SAME.contains(&name) => self.expr(&call.receiver),
            (name, [argument]) => match METHODS.iter().find(|(known, _)| *known == name) {
                Some((_, operator)) => self.binary(*operator, [&call.receiver, argument], whole),
                None => self.no_method(&call.method),
            },
            _ => self.no_method(&call.method),
        }
    }

    fn no_method<T>(&mut self, name: &Ident) -> Option<T> {
        let known = METHODS.iter().map(|(name, _)| *name).chain(["all", "any", "zip", "iter", "is_power_of_two"]);
        let near = nearest(&name.to_string(), known);
        let help = near.map_or_else(|| GRAMMAR.to_owned(), |near| format!("did you mean `{near}`?"));
        self.refuse(name, format!("a condition has no method `{name}`"), &help)
    }

    /// Reports a function that the `impl` does not have.
    fn known(&mut self, name: &Ident) -> Option<()> {
        if self.names.iter().any(|known| name == known) {
            return Some(());
        }
        let near = nearest(&name.to_string(), self.names.iter().map(String::as_str));
        let help = near.map_or_else(
            || "move the function into this `impl`: a launch evaluates it too".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        let ty = self.ty.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        self.refuse(name, format!("`{name}` is no condition function of `{ty}`"), &help)
    }

    fn every(&mut self, is_all: bool, over: &Expr, closure: &syn::ExprClosure) -> Option<Tree> {
        let over = self.expr(over)?;
        let outer = self.bound.len();
        let [pattern] = &closure.inputs.iter().collect::<Vec<_>>()[..] else {
            return self.refuse(closure, "the closure has one parameter", "write `|x| …`, or `|(x, y)| …` of a `zip`");
        };
        let pattern = self.pattern(pattern, &|at| element_kind(&over, at))?;
        let holds = self.expr(&closure.body)?;
        self.bound.truncate(outer);
        Some(Tree::Every { is_all, over: Box::new(over), pattern, holds: Box::new(holds) })
    }

    fn call(&mut self, call: &syn::ExprCall) -> Option<Tree> {
        let names: Vec<String> = match &*call.func {
            Expr::Path(path) => path.path.segments.iter().map(|segment| segment.ident.to_string()).collect(),
            _ => Vec::new(),
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let own = self.ty.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        match (&names[..], call.args.first()) {
            ([.., ty, "from"], Some(number)) if INTEGERS.contains(ty) && call.args.len() == 1 => self.expr(number),
            ([.., "int"], Some(number)) if call.args.len() == 1 => self.expr(number),
            ([ty, _], _) if *ty == "Self" || *ty == own => {
                let Expr::Path(path) = &*call.func else { return None };
                let name = path.path.segments.last()?.ident.clone();
                self.known(&name)?;
                Some(Tree::Call(Call { on: None, name, arguments: self.all(&call.args)? }))
            }
            _ => {
                let help = "call functions of this `impl`: `self.name(…)`, `Self::name(…)`";
                let message = format!("`{}` is no condition function", source_text(&call.func));
                self.refuse(&call.func, message, help)
            }
        }
    }
}

/// The kind of the elements of what a closure runs over, at a place of its pattern.
fn element_kind(over: &Tree, at: &[usize]) -> Kind {
    match (over, at) {
        (Tree::Range(_), []) => Kind::Index,
        (Tree::Zip(both), [part, rest @ ..]) => both.get(*part).map_or(Kind::Value, |part| element_kind(part, rest)),
        _ => Kind::Value,
    }
}

/// An operator of conditions: truths have `&&` and `||`.
pub(crate) fn operator(op: &BinOp) -> Option<Operator> {
    Some(match op {
        BinOp::Add(_) => Operator::Add,
        BinOp::Sub(_) => Operator::Sub,
        BinOp::Mul(_) => Operator::Mul,
        BinOp::Div(_) => Operator::Div,
        BinOp::Rem(_) => Operator::Rem,
        BinOp::Shl(_) => Operator::Shl,
        BinOp::Shr(_) => Operator::Shr,
        BinOp::And(_) => Operator::And,
        BinOp::Or(_) => Operator::Or,
        BinOp::Eq(_) => Operator::Eq,
        BinOp::Ne(_) => Operator::Ne,
        BinOp::Lt(_) => Operator::Lt,
        BinOp::Le(_) => Operator::Le,
        BinOp::Gt(_) => Operator::Gt,
        BinOp::Ge(_) => Operator::Ge,
        _ => return None,
    })
}

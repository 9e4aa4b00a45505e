//! Host expressions of an attribute as small trees: over integers without bounds, lengths, and constants that are computed already.

use super::function::{self, Application, Bound};
use super::value::{Scope, Value};
use super::{Problem, problem};
use crate::contract;
use crate::tokens::places::field_path;
use crate::tokens::{ends, names, source_text};
use ptx_core::diag::near::nearest;
use ptx_core::diag::{Code, codes};
use ptx_core::hash::Set;
pub use ptx_core::host::{Expr, Field, Operator, Plain};
use quote::ToTokens;
use std::cell::RefCell;
use syn::{BinOp, UnOp};

/// Methods with an argument, and those without.
const METHODS: [(&str, Operator); 6] = [
    ("min", Operator::Min),
    ("max", Operator::Max),
    ("div_ceil", Operator::DivCeil),
    ("next_multiple_of", Operator::NextMultipleOf),
    ("pow", Operator::Pow),
    ("is_multiple_of", Operator::IsMultipleOf),
];

/// The names in a host expression.
pub struct Names<'a> {
    /// Constants.
    pub scope: &'a Scope,
    /// The arguments of the instance.
    pub generics: Vec<(String, Value)>,
    /// The numbers in structs, with the names that lead there from a parameter.
    pub fields: Vec<(String, Expr)>,
    /// The parameters that are structs, with the names of their types.
    pub structs: Vec<(String, String)>,
    /// Slices and scalars, by their numbers.
    pub params: Vec<(String, Named)>,
    /// Dimensions.
    pub dims: &'a [String],
    /// Where other names are free numbers: those found, numbered behind the dimensions. There `len(x)` is the length of a parameter.
    pub free: Option<RefCell<Vec<String>>>,
    /// The values of names in the body of a `const fn`.
    pub bound: Vec<(String, Expr)>,
    /// Calls around it.
    pub depth: usize,
    /// For expressions that a compiler of Rust evaluates as well: their constants, with the values found here. Calls with arguments of the launch are
    /// refused then.
    pub evaluated: Option<RefCell<Vec<(syn::Expr, Value)>>>,
}

/// The most calls inside of each other, and the most parts of an expression that has them.
pub(super) const DEPTH: usize = 64;
pub(super) const PARTS: usize = 4096;

/// A parameter in a host expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Memory, which has a length.
    Slice(usize),
    /// A number.
    Scalar(usize),
    /// Anything else.
    Other,
}

impl Names<'_> {
    /// Compiles an expression.
    ///
    /// # Errors
    /// An expression that is no host expression, or that calls a function of Rust with arguments of the launch.
    pub fn compile(&self, expr: &syn::Expr) -> Result<Expr, Problem> {
        let constant = if self.is_constant(expr) { self.scope.value(expr, &self.generics) } else { None };
        if let Some(value) = constant {
            self.note(expr, &value);
            return literal(value).ok_or_else(|| refused(expr));
        }
        match expr {
            syn::Expr::Paren(inner) => self.compile(&inner.expr),
            syn::Expr::Group(inner) => self.compile(&inner.expr),
            // As in the macros: integers have no type here.
            syn::Expr::Cast(cast) => self.compile(&cast.expr),
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Float(number), .. }) => {
                number.base10_parse().map(Expr::Float).map_err(|_| refused(expr))
            }
            syn::Expr::Lit(_) => Err(no_number(expr)),
            syn::Expr::Path(path) => match path.path.get_ident() {
                Some(name) => self.named(&name.to_string()).ok_or_else(|| self.unnamed(name, expr)),
                None => Err(refused(expr)),
            },
            syn::Expr::Field(_) | syn::Expr::Index(_) => {
                field_path(expr).and_then(|name| self.number(&name)).ok_or_else(|| refused(expr))
            }
            syn::Expr::Unary(unary) => {
                let operator = match unary.op {
                    UnOp::Neg(_) => Operator::Neg,
                    UnOp::Not(_) => Operator::Not,
                    _ => return Err(refused(expr)),
                };
                Ok(Expr::Unary(operator, Box::new(self.compile(&unary.expr)?)))
            }
            syn::Expr::Binary(binary) => {
                let operator = operator(&binary.op).ok_or_else(|| refused(expr))?;
                self.binary(operator, [&binary.left, &binary.right], expr)
            }
            syn::Expr::MethodCall(call) => self.method(call, expr),
            syn::Expr::If(choice) => {
                self.branch(choice).ok_or_else(|| refused(expr)).and_then(|expr| self.compile(expr))
            }
            syn::Expr::Call(call) if self.free.is_some() => self.length(call).ok_or_else(|| refused(expr)),
            syn::Expr::Call(call) => self.call(call, expr),
            syn::Expr::Tuple(tuple) => self.list(&tuple.elems),
            syn::Expr::Array(array) => self.list(&array.elems),
            _ => Err(refused(expr)),
        }
    }

    fn list<'e>(&self, elements: impl IntoIterator<Item = &'e syn::Expr>) -> Result<Expr, Problem> {
        elements.into_iter().map(|element| self.compile(element)).collect::<Result<_, _>>().map(Expr::List)
    }

    fn binary(&self, operator: Operator, [left, right]: [&syn::Expr; 2], whole: &syn::Expr) -> Result<Expr, Problem> {
        let both = [self.compile(left)?, self.compile(right)?];
        Ok(Expr::Binary(operator, Box::new(both), source_text(whole)))
    }

    /// The expression that a condition of constants selects.
    fn branch<'e>(&self, choice: &'e syn::ExprIf) -> Option<&'e syn::Expr> {
        let only = |block: &'e syn::Block| match block.stmts.as_slice() {
            [syn::Stmt::Expr(expr, None)] => Some(expr),
            _ => None,
        };
        let condition = self.scope.value(&choice.cond, &self.generics).filter(|_| self.is_constant(&choice.cond))?;
        self.note(&choice.cond, &condition);
        match condition {
            Value::Bool(true) => only(&choice.then_branch),
            Value::Bool(false) => match &*choice.else_branch.as_ref()?.1 {
                syn::Expr::Block(block) => only(&block.block),
                other => Some(other),
            },
            _ => None,
        }
    }

    /// The call of a `const fn` with arguments of the launch: its body, where its parameters are their expressions.
    fn call(&self, call: &syn::ExprCall, whole: &syn::Expr) -> Result<Expr, Problem> {
        let syn::Expr::Path(function) = &*call.func else { return Err(refused(whole)) };
        let name = function.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let Some((params, body)) = self.scope.function(&name) else {
            return Err(match function.path.get_ident() {
                Some(name) if self.scope.lacks(name) => {
                    let message = format!("there is no function `{name}` here");
                    problem(codes::P0801.id, message, name.span(), name.span())
                }
                _ => refused(whole),
            });
        };
        if self.evaluated.is_some() || params.len() != call.args.len() || self.depth == DEPTH {
            return Err(refused(whole));
        }
        let arguments = call.args.iter().map(|argument| self.compile(argument)).collect::<Result<Vec<_>, _>>()?;
        let mut inner = Names {
            scope: self.scope,
            generics: Vec::new(),
            fields: Vec::new(),
            structs: Vec::new(),
            params: Vec::new(),
            dims: &[],
            free: None,
            bound: params.iter().cloned().zip(arguments).collect(),
            depth: self.depth + 1,
            evaluated: None,
        };
        for statement in &body.stmts {
            match statement {
                syn::Stmt::Local(syn::Local { pat: syn::Pat::Ident(name), init: Some(init), .. }) => {
                    let value = inner.compile(&init.expr).ok().filter(|value| parts(value) <= PARTS);
                    let value = value.ok_or_else(|| refused(whole))?;
                    inner.bound.push((name.ident.to_string(), value));
                }
                syn::Stmt::Expr(result, None) => {
                    let result = inner.compile(result).ok().filter(|result| parts(result) <= PARTS);
                    return result.ok_or_else(|| refused(whole));
                }
                _ => break,
            }
        }
        Err(refused(whole))
    }

    fn method(&self, call: &syn::ExprMethodCall, whole: &syn::Expr) -> Result<Expr, Problem> {
        if let Some((path, ty)) = self.struct_(&call.receiver) {
            return self.contract_call(call, (path, ty), whole);
        }
        let name = call.method.to_string();
        if let (Some(Named::Slice(at)), true) = (self.param(&call.receiver), call.args.is_empty()) {
            let len = Expr::Len(at);
            return match name.as_str() {
                "len" => Ok(len),
                "is_empty" => Ok(Expr::Binary(Operator::Eq, Box::new([len, Expr::Int(0)]), source_text(whole))),
                _ => Err(refused(whole)),
            };
        }
        let found = METHODS.iter().find(|(known, _)| *known == name).map(|(_, operator)| *operator);
        match (found, call.args.first()) {
            (Some(operator), Some(argument)) if call.args.len() == 1 => {
                self.binary(operator, [&call.receiver, argument], whole)
            }
            (None, None) if name == "is_power_of_two" => {
                Ok(Expr::Unary(Operator::IsPowerOfTwo, Box::new(self.compile(&call.receiver)?)))
            }
            _ => Err(refused(whole)),
        }
    }

    /// The parameter that is a struct, and the name of its type.
    fn struct_(&self, expr: &syn::Expr) -> Option<(&str, &str)> {
        let name = match expr {
            syn::Expr::Reference(inner) => field_path(&inner.expr)?,
            _ => field_path(expr)?,
        };
        self.structs.iter().find(|(param, _)| *param == name).map(|(name, ty)| (name.as_str(), ty.as_str()))
    }

    /// The call of a condition function.
    fn contract_call(
        &self,
        call: &syn::ExprMethodCall,
        (path, ty): (&str, &str),
        whole: &syn::Expr,
    ) -> Result<Expr, Problem> {
        let name = call.method.to_string();
        let known = self.scope.contract(ty).filter(|contracted| contracted.contract.function(&name).is_some());
        let Some(contracted) = known else {
            let help = format!("put `{name}` into a `#[ptx_contract] impl {ty}`, which a launch evaluates");
            return Err(Problem { help: vec![help], ..refused(whole) });
        };
        let arguments = call.args.iter().map(|argument| match self.struct_(argument) {
            Some((path, ty)) => Ok(Bound::Struct(path.to_owned(), ty.to_owned())),
            None => self.compile(argument).map(Bound::Value),
        });
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let this = Bound::Struct(path.to_owned(), ty.to_owned());
        let applied =
            Application { scope: self.scope, fields: &self.fields, depth: 0, evaluated: self.evaluated.as_ref() };
        let result = applied.call(contracted, &name, Some(this), arguments);
        result.map_err(|why| Problem { message: format!("{}: {why}", refused(whole).message), ..refused(whole) })
    }

    /// The parameter that an expression is.
    pub fn param(&self, expr: &syn::Expr) -> Option<Named> {
        let name = field_path(expr)?;
        self.params.iter().find(|(param, _)| *param == name).map(|(_, named)| *named)
    }

    fn named_param(&self, name: &str) -> Option<Expr> {
        match self.params.iter().find(|(param, _)| param == name) {
            Some((_, Named::Scalar(at))) => Some(Expr::Argument(*at)),
            _ => None,
        }
    }

    /// The number that a path of fields leads to: a parameter of a struct of arguments, or a field of a struct that is one parameter.
    fn number(&self, path: &str) -> Option<Expr> {
        let field = || function::stored(&self.fields, path);
        self.named_param(path).or_else(field)
    }

    /// The error of a name that is no number.
    fn unnamed(&self, name: &syn::Ident, expr: &syn::Expr) -> Problem {
        let wrong = |code: &Code, message: String, help: String| Problem {
            help: vec![help],
            ..problem(code.id, message, name.span(), name.span())
        };
        if let Some(Named::Slice(_)) = self.param(expr) {
            let help = format!("`{name}.len()` is the number of its elements");
            return wrong(&codes::P0802, format!("`{name}` is memory, and no number"), help);
        }
        if !self.scope.lacks(name) {
            return refused(expr);
        }
        let numbers = self.params.iter().map(|(name, _)| name.as_str());
        let known: Vec<&str> =
            numbers.chain(self.dims.iter().map(String::as_str)).chain(self.scope.constants()).collect();
        let help = match nearest(&name.to_string(), known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the names here are `{}`, and constants of this text", known.join("`, `")),
        };
        wrong(&codes::P0801, format!("there is no `{name}` here"), help)
    }

    fn named(&self, name: &str) -> Option<Expr> {
        if let Some((_, value)) = self.bound.iter().rev().find(|(bound, _)| bound == name) {
            return Some(value.clone());
        }
        if let Some(argument) = self.named_param(name) {
            return Some(argument);
        }
        if let Some(at) = self.dims.iter().position(|dim| dim == name) {
            return Some(Expr::Dim(at));
        }
        let mut free = self.free.as_ref()?.borrow_mut();
        let known = free.iter().position(|number| number == name);
        let at = known.unwrap_or_else(|| {
            free.push(name.to_owned());
            free.len() - 1
        });
        Some(Expr::Dim(self.dims.len() + at))
    }

    /// `len(x)`
    fn length(&self, call: &syn::ExprCall) -> Option<Expr> {
        let syn::Expr::Path(function) = &*call.func else { return None };
        let argument = call.args.first().filter(|_| call.args.len() == 1 && function.path.is_ident("len"))?;
        match self.param(argument)? {
            Named::Slice(at) | Named::Scalar(at) => Some(Expr::Len(at)),
            Named::Other => None,
        }
    }

    /// Notes the value of a constant that a compiler of Rust evaluates as well.
    fn note(&self, expr: &syn::Expr, value: &Value) {
        if let Some(evaluated) = &self.evaluated {
            evaluated.borrow_mut().push((expr.clone(), value.clone()));
        }
    }

    /// Returns true if an expression names nothing of the launch.
    fn is_constant(&self, expr: &syn::Expr) -> bool {
        let mut found = Set::default();
        names(expr.to_token_stream(), &mut found);
        let bound = self.bound.iter().map(|(name, _)| name);
        let params = self.params.iter().map(|(name, _)| name.split('.').next().unwrap_or(name));
        let others = self.dims.iter().chain(bound).map(String::as_str);
        !params.chain(others).any(|name| found.contains(name))
    }
}

/// The number of operators and operands of an expression.
pub(super) fn parts(expr: &Expr) -> usize {
    1 + match expr {
        Expr::Unary(_, operand) => parts(operand),
        Expr::Binary(_, operands, _) => operands.iter().map(parts).sum(),
        Expr::If(of) => of.iter().map(parts).sum(),
        Expr::List(items) => items.iter().map(parts).sum(),
        _ => 0,
    }
}

pub(super) fn literal(value: Value) -> Option<Expr> {
    match value {
        Value::Int(number) => Some(Expr::Int(number)),
        Value::Bool(truth) => Some(Expr::Bool(truth)),
        Value::List(values) => values.into_iter().map(literal).collect::<Option<_>>().map(Expr::List),
        Value::Struct(..) => None,
    }
}

/// The operator of a launch's attribute, where truths may have `&` and `|`, too.
fn operator(op: &BinOp) -> Option<Operator> {
    match op {
        BinOp::BitAnd(_) => Some(Operator::And),
        BinOp::BitOr(_) => Some(Operator::Or),
        _ => contract::operator(op),
    }
}

/// The error of a literal that is no number.
fn no_number(expr: &syn::Expr) -> Problem {
    let (first, last) = ends(expr);
    problem(codes::P0802.id, format!("`{}` is no number", source_text(expr)), first, last)
}

/// The error of an expression that only a compiler of Rust can evaluate.
fn refused(expr: &syn::Expr) -> Problem {
    let (first, last) = ends(expr);
    let message = format!("`{}` cannot be evaluated without a compiler of Rust", source_text(expr));
    let help = "write operators, `min`, `max`, `div_ceil`, `next_multiple_of`, `pow`, lengths, dimensions, integers, fields that are numbers, and constants";
    Problem { help: vec![help.to_owned()], ..problem("", message, first, last) }
}

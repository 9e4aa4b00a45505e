//! Calls of condition functions: the function's tree with the arguments of the launch in it.

use super::expr::{DEPTH, Expr, Operator, PARTS, literal, parts};
use super::value::{Scope, Value};
use crate::contract::{Call, Contract, Pattern, Place, Tree};
use crate::tokens::source_text;
use std::cell::RefCell;

/// The functions of a struct.
pub struct Contracted {
    /// Their trees.
    pub contract: Contract,
    /// The constants that they may name; none for those of the kernel's module.
    pub scope: Option<Scope>,
}

/// The value of a name.
#[derive(Clone)]
pub enum Bound {
    /// Numbers and truth values; an array or a tuple is a list.
    Value(Expr),
    /// The struct that a parameter is: the names that lead there, and the name of its type.
    Struct(String, String),
}

/// Calls with the arguments of one launch.
pub struct Application<'a> {
    /// The constants and contracts around the kernel.
    pub scope: &'a Scope,
    /// The numbers in structs, by the names that lead there.
    pub fields: &'a [(String, Expr)],
    /// Calls around it.
    pub depth: usize,
    /// Where a compiler of Rust evaluates the functions as well: their constants, with the values found here.
    pub evaluated: Option<&'a RefCell<Vec<(syn::Expr, Value)>>>,
}

/// The number at a path, or the array of them.
pub fn stored(fields: &[(String, Expr)], path: &str) -> Option<Expr> {
    let number = fields.iter().find(|(field, _)| field == path).map(|(_, field)| field.clone());
    number.or_else(|| {
        let is_array = |field: &str| field.strip_prefix(path).is_some_and(|rest| rest.starts_with('['));
        let elements = (0..).map_while(|at| stored(fields, &format!("{path}[{at}]")));
        fields.iter().any(|(field, _)| is_array(field)).then(|| Expr::List(elements.collect()))
    })
}

/// A function with the values of its names.
struct Frame<'a> {
    application: &'a Application<'a>,
    contracted: &'a Contracted,
    bound: Vec<(String, Bound)>,
}

/// The reason why an expression has no value without a compiler of Rust.
type Refusal = String;

impl Application<'_> {
    /// The result of a function.
    ///
    /// # Errors
    /// An expression that needs a compiler.
    pub fn call(
        &self,
        contracted: &Contracted,
        name: &str,
        this: Option<Bound>,
        arguments: Vec<Bound>,
    ) -> Result<Expr, Refusal> {
        let function = contracted.contract.function(name).ok_or_else(|| format!("there is no function `{name}`"))?;
        if self.depth == DEPTH {
            return Err(format!("the calls of `{name}` are too deep"));
        }
        if function.params.len() != arguments.len() {
            return Err(format!("`{name}` takes {} arguments", function.params.len()));
        }
        let inner = Application { depth: self.depth + 1, ..*self };
        let bound = this.map(|this| ("self".to_owned(), this)).into_iter().collect();
        let mut frame = Frame { application: &inner, contracted, bound };
        for (param, argument) in function.params.iter().zip(arguments) {
            frame.bind(&param.pattern, argument)?;
        }
        frame.value(&function.body)
    }
}

impl Frame<'_> {
    fn bind(&mut self, pattern: &Pattern, value: Bound) -> Result<(), Refusal> {
        let (parts, rest) = match pattern {
            Pattern::Name(name) => {
                self.bound.push((name.to_string(), value));
                return Ok(());
            }
            Pattern::Skip => return Ok(()),
            Pattern::Tuple(parts) => (parts, None),
            Pattern::Slice(parts, rest) => (parts, *rest),
        };
        let Bound::Value(Expr::List(values)) = value else { return Err("a pattern does not fit its value".to_owned()) };
        let missing = values.len().checked_sub(parts.len()).filter(|missing| *missing == 0 || rest.is_some());
        let missing =
            missing.ok_or_else(|| format!("a pattern of {} parts is one of {}", parts.len(), values.len()))?;
        let before = rest.unwrap_or(parts.len());
        for (at, part) in parts.iter().enumerate() {
            let at = if at < before { at } else { at + missing };
            let value = values.get(at).cloned().ok_or_else(|| "a pattern does not fit its value".to_owned())?;
            self.bind(part, Bound::Value(value))?;
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Bound> {
        self.bound.iter().rev().find(|(bound, _)| bound == name).map(|(_, value)| value)
    }

    fn value(&mut self, tree: &Tree) -> Result<Expr, Refusal> {
        let value = self.unbounded(tree)?;
        match parts(&value) <= PARTS {
            true => Ok(value),
            false => Err("its expression is too large".to_owned()),
        }
    }

    fn unbounded(&mut self, tree: &Tree) -> Result<Expr, Refusal> {
        match tree {
            Tree::Literal(number) => {
                number.base10_parse().map(Expr::Int).map_err(|_| format!("`{number}` has more than 64 bits"))
            }
            Tree::Truth(truth) => Ok(Expr::Bool(*truth)),
            Tree::Name(name) => match self.find(&name.to_string()) {
                Some(Bound::Value(value)) => Ok(value.clone()),
                _ => Err(format!("`{name}` has no value")),
            },
            Tree::Place(place) => self.field(place),
            Tree::Constant(expr) => {
                let scope = self.contracted.scope.as_ref().unwrap_or(self.application.scope);
                let expr = own_name(expr, &self.contracted.contract.name());
                let value = scope.value(&expr, &Vec::new());
                if let (Some(value), Some(evaluated)) = (&value, self.application.evaluated) {
                    evaluated.borrow_mut().push((expr.clone(), value.clone()));
                }
                value.and_then(literal).ok_or_else(|| format!("the value of `{}` is unknown", source_text(&expr)))
            }
            Tree::Index(both) => match (self.value(&both[0])?, self.value(&both[1])?) {
                (Expr::List(values), Expr::Int(at)) => {
                    let value = usize::try_from(at).ok().and_then(|at| values.get(at).cloned());
                    value.ok_or_else(|| format!("there is no element {at} of {}", values.len()))
                }
                _ => Err("an index has no value".to_owned()),
            },
            Tree::Unary(operator, of) => Ok(Expr::Unary(*operator, Box::new(self.value(of)?))),
            Tree::Binary(operator, both, text) => {
                let both = [self.value(&both[0])?, self.value(&both[1])?];
                Ok(Expr::Binary(*operator, Box::new(both), text.clone()))
            }
            Tree::If(of) => match self.value(&of[0])? {
                Expr::Bool(true) => self.value(&of[1]),
                Expr::Bool(false) => self.value(&of[2]),
                condition => choice(&condition, self.value(&of[1])?, self.value(&of[2])?),
            },
            Tree::Let(values, result) => {
                let outer = self.bound.len();
                for (pattern, value) in values {
                    let value = self.value(value)?;
                    self.bind(pattern, Bound::Value(value))?;
                }
                let result = self.value(result);
                self.bound.truncate(outer);
                result
            }
            Tree::Array(parts) | Tree::Tuple(parts) => {
                parts.iter().map(|part| self.value(part)).collect::<Result<_, _>>().map(Expr::List)
            }
            Tree::Call(call) => self.call(call),
            Tree::Every { is_all, over, pattern, holds } => self.every(*is_all, over, pattern, holds),
            Tree::Zip(both) => {
                let (a, b) = (self.elements(&both[0])?, self.elements(&both[1])?);
                Ok(Expr::List(a.into_iter().zip(b).map(|(a, b)| Expr::List(vec![a, b])).collect()))
            }
            Tree::Range(both) => match (self.value(&both[0])?, self.value(&both[1])?) {
                (Expr::Int(start), Expr::Int(end)) if end.saturating_sub(start) <= PARTS as i64 => {
                    Ok(Expr::List((start..end).map(Expr::Int).collect()))
                }
                _ => Err("a range is too large".to_owned()),
            },
        }
    }

    /// A number of a struct, which has no type here.
    fn field(&self, place: &Place) -> Result<Expr, Refusal> {
        let Some(Bound::Struct(path, _)) = self.find(&place.root.to_string()) else {
            return Err(format!("`{}` is no struct of parameters", place.root));
        };
        let fields = place.fields.iter().map(ToString::to_string);
        let path = std::iter::once(path.clone()).chain(fields).collect::<Vec<_>>().join(".");
        let stored = stored(self.application.fields, &path);
        stored.map(exact).ok_or_else(|| format!("`{path}` is no integer, and no array of integers"))
    }

    fn elements(&mut self, tree: &Tree) -> Result<Vec<Expr>, Refusal> {
        match self.value(tree)? {
            Expr::List(values) => Ok(values),
            _ => Err("`all` and `any` run over arrays and ranges".to_owned()),
        }
    }

    fn every(&mut self, is_all: bool, over: &Tree, pattern: &Pattern, holds: &Tree) -> Result<Expr, Refusal> {
        let (elements, outer) = (self.elements(over)?, self.bound.len());
        let mut conditions = Vec::with_capacity(elements.len());
        for element in elements {
            self.bind(pattern, Bound::Value(element))?;
            conditions.push(self.value(holds)?);
            self.bound.truncate(outer);
        }
        let operator = if is_all { Operator::And } else { Operator::Or };
        let joined = conditions.into_iter().reduce(|a, b| Expr::Binary(operator, Box::new([a, b]), String::new()));
        Ok(joined.unwrap_or(Expr::Bool(is_all)))
    }

    fn call(&mut self, call: &Call) -> Result<Expr, Refusal> {
        let name = call.name.to_string();
        let arguments = call.arguments.iter().map(|argument| match argument {
            Tree::Place(place) if place.fields.is_empty() => {
                let found = self.find(&place.root.to_string()).cloned();
                found.ok_or_else(|| format!("`{}` has no value", place.root))
            }
            other => self.value(other).map(Bound::Value),
        });
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let this = match &call.on {
            None => return self.application.call(self.contracted, &name, None, arguments),
            Some(place) => self.find(&place.root.to_string()).cloned(),
        };
        let Some(Bound::Struct(_, ty)) = &this else { return Err(format!("`{name}` is called on no struct")) };
        let contracted = match call.is_own() {
            true => Some(self.contracted),
            false => self.application.scope.contract(ty),
        };
        let contracted = contracted.ok_or_else(|| format!("`{ty}` has no `#[ptx_contract] impl` in this text"))?;
        self.application.call(contracted, &name, this, arguments)
    }
}

/// Integers without their types.
fn exact(value: Expr) -> Expr {
    match value {
        Expr::List(values) => Expr::List(values.into_iter().map(exact).collect()),
        value => Expr::Unary(Operator::Exact, Box::new(value)),
    }
}

/// `if condition { yes } else { no }`: of arrays one for each element.
fn choice(condition: &Expr, yes: Expr, no: Expr) -> Result<Expr, Refusal> {
    match (yes, no) {
        (Expr::List(yes), Expr::List(no)) if yes.len() == no.len() => {
            let parts = yes.into_iter().zip(no).map(|(yes, no)| choice(condition, yes, no));
            parts.collect::<Result<_, _>>().map(Expr::List)
        }
        (Expr::List(_), _) | (_, Expr::List(_)) => Err("the branches of an `if` do not fit".to_owned()),
        (yes, no) => Ok(Expr::If(Box::new([condition.clone(), yes, no]))),
    }
}

/// A constant of the struct by its name: `Self::MOST`.
fn own_name(expr: &syn::Expr, ty: &str) -> syn::Expr {
    let mut expr = expr.clone();
    if let syn::Expr::Path(path) = &mut expr
        && let Some(first) = path.path.segments.first_mut().filter(|first| first.ident == "Self")
    {
        first.ident = proc_macro2::Ident::new(ty, first.ident.span());
    }
    expr
}

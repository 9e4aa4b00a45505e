//! Constant expressions of the host: constants, structs of constants, and calls of `const fn`s, as rustc would evaluate them. What is not understood
//! here has no value.

use super::function::Contracted;
use crate::contract::{self, contract_of};
use crate::kernel::Reader;
use crate::{argument, tokens};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use syn::{BinOp, Expr, Lit, Pat, Stmt, UnOp};

/// The most steps of one expression, and calls inside of each other.
const STEPS: u32 = 100_000;
const DEPTH: u32 = 64;

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer of any type.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A struct, by the names of its fields.
    Struct(String, BTreeMap<String, Value>),
    /// A tuple or an array.
    List(Vec<Value>),
}

/// The items that constants name.
#[derive(Clone, Default)]
pub struct Scope {
    consts: BTreeMap<String, Expr>,
    functions: BTreeMap<String, Function>,
    /// `Config::new`, by type and name.
    methods: BTreeMap<(String, String), Function>,
    /// Condition functions, by the name of the struct.
    contracts: BTreeMap<String, Rc<Contracted>>,
    /// Every name that items declare.
    declared: BTreeSet<String>,
    /// No other items exist: those that are imported have names here.
    is_whole: bool,
}

#[derive(Clone)]
struct Function {
    params: Vec<String>,
    body: syn::Block,
}

/// Names and their values, the innermost last.
type Locals = Vec<(String, Value)>;

impl Scope {
    /// The items of the module at this place of a text, and of the modules around it: the inner ones hide the outer ones.
    pub fn at(items: &[syn::Item], place: &[String]) -> Scope {
        let mut scope = Scope { is_whole: true, ..Scope::default() };
        scope.add(items);
        if let Some((first, rest)) = place.split_first() {
            let modules = items.iter().filter_map(|item| match item {
                syn::Item::Mod(module) if module.ident == first => module.content.as_ref(),
                _ => None,
            });
            modules.for_each(|(_, items)| scope.join(Scope::at(items, rest)));
        }
        scope
    }

    /// The same, where other items may exist.
    pub fn with_others(self) -> Scope {
        Scope { is_whole: false, ..self }
    }

    /// With the items of a module inside.
    pub fn with(mut self, module: &syn::ItemMod) -> Scope {
        module.content.iter().for_each(|(_, items)| self.add(items));
        self
    }

    fn add(&mut self, items: &[syn::Item]) {
        self.declared.extend(items.iter().flat_map(declared_names));
        self.is_whole &= !items.iter().any(declares_others);
        for item in items {
            match item {
                syn::Item::Const(item) => drop(self.consts.insert(item.ident.to_string(), (*item.expr).clone())),
                syn::Item::Fn(item) if item.sig.constness.is_some() => {
                    self.functions.insert(item.sig.ident.to_string(), function(&item.sig, &item.block));
                }
                syn::Item::Impl(of) => {
                    // Mistakes in it are reported where it is expanded.
                    let own = contract_of(item).and_then(|of| contract::read(&mut Reader::default(), &of));
                    if let Some(contract) = own {
                        self.add_contract(Contracted { contract, scope: None });
                    }
                    self.add_impl(of);
                }
                _ => {}
            }
        }
    }

    fn join(&mut self, inner: Scope) {
        self.consts.extend(inner.consts);
        self.functions.extend(inner.functions);
        self.methods.extend(inner.methods);
        self.contracts.extend(inner.contracts);
        self.declared.extend(inner.declared);
        self.is_whole &= inner.is_whole;
    }

    /// Returns true if nothing of this name can exist.
    pub fn lacks(&self, name: &syn::Ident) -> bool {
        self.is_whole && !self.declared.contains(&name.to_string())
    }

    /// The names of its constants.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.consts.keys().map(String::as_str)
    }

    /// The names of the parameters of a `const fn` and its body.
    pub fn function(&self, name: &str) -> Option<(&[String], &syn::Block)> {
        self.functions.get(name).map(|function| (function.params.as_slice(), &function.body))
    }

    /// Adds the condition functions of a struct, unless it has some.
    pub fn add_contract(&mut self, contracted: Contracted) {
        self.contracts.entry(contracted.contract.name()).or_insert_with(|| Rc::new(contracted));
    }

    /// The condition functions of the struct of this name.
    pub fn contract(&self, ty: &str) -> Option<&Contracted> {
        self.contracts.get(ty).map(Rc::as_ref)
    }

    fn add_impl(&mut self, of: &syn::ItemImpl) {
        let syn::Type::Path(ty) = &*of.self_ty else { return };
        let Some(ty) = ty.path.segments.last().map(|segment| segment.ident.to_string()) else { return };
        for item in &of.items {
            match item {
                syn::ImplItem::Const(item) => {
                    self.consts.insert(format!("{ty}::{}", item.ident), item.expr.clone());
                }
                syn::ImplItem::Fn(item) if item.sig.constness.is_some() => {
                    self.methods.insert((ty.clone(), item.sig.ident.to_string()), function(&item.sig, &item.block));
                }
                _ => {}
            }
        }
    }

    /// The value of an expression, with the arguments of an instance as further constants.
    pub fn value(&self, expr: &Expr, generics: &Locals) -> Option<Value> {
        Evaluation { scope: self, steps: STEPS, depth: 0 }.value(expr, &mut generics.clone())
    }
}

/// The names that an item declares, or that a `use` brings.
fn declared_names(item: &syn::Item) -> Vec<String> {
    let own = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Use(item) => {
            let mut names = Vec::new();
            each_import(&item.tree, &mut |name| names.extend(name.map(ToString::to_string)));
            return names;
        }
        _ => return Vec::new(),
    };
    vec![own.to_string()]
}

/// Returns true for an item that may declare any name.
fn declares_others(item: &syn::Item) -> bool {
    match item {
        syn::Item::Macro(call) => call.mac.path.segments.last().is_none_or(|last| last.ident != "ptx"),
        syn::Item::Verbatim(_) => true,
        syn::Item::Use(item) => {
            let mut is_glob = false;
            each_import(&item.tree, &mut |name| is_glob |= name.is_none());
            // The prelude has no numbers.
            is_glob && !matches!(&item.tree, syn::UseTree::Path(path) if path.ident == "ptx_launch")
        }
        _ => false,
    }
}

/// The names that a `use` brings; nothing for `*`.
fn each_import<'t>(tree: &'t syn::UseTree, found: &mut dyn FnMut(Option<&'t syn::Ident>)) {
    match tree {
        syn::UseTree::Path(path) => each_import(&path.tree, found),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| each_import(tree, found)),
        syn::UseTree::Name(name) => found(Some(&name.ident)),
        syn::UseTree::Rename(name) => found(Some(&name.rename)),
        syn::UseTree::Glob(_) => found(None),
    }
}

fn function(signature: &syn::Signature, body: &syn::Block) -> Function {
    let name = |input: &syn::FnArg| match input {
        syn::FnArg::Receiver(_) => "self".to_owned(),
        syn::FnArg::Typed(typed) => bound_name(&typed.pat).unwrap_or_default(),
    };
    Function { params: signature.inputs.iter().map(name).collect(), body: body.clone() }
}

fn bound_name(pattern: &Pat) -> Option<String> {
    match pattern {
        Pat::Ident(name) => Some(name.ident.to_string()),
        Pat::Type(typed) => bound_name(&typed.pat),
        _ => None,
    }
}

/// Binds the names of a pattern to a value.
fn bind(pattern: &Pat, value: Value, locals: &mut Locals) -> Option<()> {
    match (pattern, value) {
        (Pat::Tuple(tuple), Value::List(values)) if tuple.elems.len() == values.len() => {
            tuple.elems.iter().zip(values).try_for_each(|(pattern, value)| bind(pattern, value, locals))
        }
        (Pat::Type(typed), value) => bind(&typed.pat, value, locals),
        (Pat::Wild(_), _) => Some(()),
        (Pat::Ident(name), value) => {
            locals.push((name.ident.to_string(), value));
            Some(())
        }
        _ => None,
    }
}

/// The name of the constant that is the size of a generic type: `size_of::<T>`.
pub fn size_name(ty: &str) -> String {
    format!("size_of::<{ty}>")
}

/// The type in `size_of::<T>`.
fn sized(path: &syn::Path) -> Option<&syn::Type> {
    let last = path.segments.last().filter(|last| last.ident == "size_of")?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        syn::GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

struct Evaluation<'a> {
    scope: &'a Scope,
    steps: u32,
    depth: u32,
}

impl Evaluation<'_> {
    fn value(&mut self, expr: &Expr, locals: &mut Locals) -> Option<Value> {
        self.steps = self.steps.checked_sub(1)?;
        match expr {
            Expr::Lit(literal) => literal_value(&literal.lit),
            Expr::Paren(inner) => self.value(&inner.expr, locals),
            Expr::Group(inner) => self.value(&inner.expr, locals),
            Expr::Reference(inner) => self.value(&inner.expr, locals),
            Expr::Cast(cast) => self.value(&cast.expr, locals),
            Expr::Path(path) => self.named(&path.path, locals),
            Expr::Block(block) => self.block(&block.block, locals),
            Expr::Unary(unary) => unary_value(unary.op, self.value(&unary.expr, locals)?),
            Expr::Binary(binary) => self.binary(binary, locals),
            Expr::Field(field) => self.field(field, locals),
            Expr::Struct(literal) => self.struct_(literal, locals),
            Expr::Tuple(tuple) => self.list(&tuple.elems, locals),
            Expr::Array(array) => self.list(&array.elems, locals),
            Expr::Index(index) => match (self.value(&index.expr, locals)?, self.value(&index.index, locals)?) {
                (Value::List(values), Value::Int(at)) => values.get(usize::try_from(at).ok()?).cloned(),
                _ => None,
            },
            Expr::If(choice) => match self.value(&choice.cond, locals)? {
                Value::Bool(true) => self.block(&choice.then_branch, locals),
                Value::Bool(false) => self.value(&choice.else_branch.as_ref()?.1, locals),
                _ => None,
            },
            Expr::Match(choice) => self.match_(choice, locals),
            Expr::Call(call) => self.call(call, locals),
            Expr::MethodCall(call) => self.method(call, locals),
            _ => None,
        }
    }

    fn named(&mut self, path: &syn::Path, locals: &Locals) -> Option<Value> {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let last = names.last()?;
        if let Some((_, value)) = locals.iter().rev().find(|(name, _)| names.len() == 1 && name == last) {
            return Some(value.clone());
        }
        let whole = names.iter().rev().take(2).rev().cloned().collect::<Vec<_>>().join("::");
        let constant = self.scope.consts.get(&whole).or_else(|| self.scope.consts.get(last))?;
        self.inside(|this| this.value(constant, &mut Locals::new()))
    }

    /// Work one level deeper.
    fn inside<T>(&mut self, work: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEPTH {
            return None;
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    fn block(&mut self, block: &syn::Block, locals: &mut Locals) -> Option<Value> {
        let (outer, mut last) = (locals.len(), None);
        for statement in &block.stmts {
            last = match statement {
                Stmt::Local(local) => {
                    let value = self.value(&local.init.as_ref()?.expr, locals)?;
                    bind(&local.pat, value, locals)?;
                    None
                }
                Stmt::Expr(expr, None) => Some(self.value(expr, locals)?),
                _ => return None,
            };
        }
        locals.truncate(outer);
        last
    }

    fn binary(&mut self, binary: &syn::ExprBinary, locals: &mut Locals) -> Option<Value> {
        let left = self.value(&binary.left, locals)?;
        match (&binary.op, &left) {
            (BinOp::And(_), Value::Bool(false)) | (BinOp::Or(_), Value::Bool(true)) => return Some(left),
            _ => {}
        }
        binary_value(&binary.op, left, self.value(&binary.right, locals)?)
    }

    fn field(&mut self, field: &syn::ExprField, locals: &mut Locals) -> Option<Value> {
        match (self.value(&field.base, locals)?, &field.member) {
            (Value::Struct(_, fields), syn::Member::Named(name)) => fields.get(&name.to_string()).cloned(),
            (Value::List(values), syn::Member::Unnamed(at)) => values.get(at.index as usize).cloned(),
            _ => None,
        }
    }

    fn struct_(&mut self, literal: &syn::ExprStruct, locals: &mut Locals) -> Option<Value> {
        let name = literal.path.segments.last()?.ident.to_string();
        let mut fields = match &literal.rest {
            Some(rest) => match self.value(rest, locals)? {
                Value::Struct(_, fields) => fields,
                _ => return None,
            },
            None => BTreeMap::new(),
        };
        for field in &literal.fields {
            let syn::Member::Named(name) = &field.member else { return None };
            fields.insert(name.to_string(), self.value(&field.expr, locals)?);
        }
        Some(Value::Struct(name, fields))
    }

    fn list<'e>(&mut self, elements: impl IntoIterator<Item = &'e Expr>, locals: &mut Locals) -> Option<Value> {
        elements.into_iter().map(|element| self.value(element, locals)).collect::<Option<_>>().map(Value::List)
    }

    fn match_(&mut self, choice: &syn::ExprMatch, locals: &mut Locals) -> Option<Value> {
        let value = self.value(&choice.expr, locals)?;
        for arm in &choice.arms {
            if arm.guard.is_none() && self.fits(&arm.pat, &value)? {
                return self.value(&arm.body, locals);
            }
        }
        None
    }

    fn fits(&mut self, pattern: &Pat, value: &Value) -> Option<bool> {
        match pattern {
            Pat::Wild(_) => Some(true),
            Pat::Lit(literal) => Some(literal_value(&literal.lit)? == *value),
            Pat::Path(path) => Some(self.named(&path.path, &Locals::new())? == *value),
            Pat::Or(choice) => choice.cases.iter().try_fold(false, |found, case| Some(found | self.fits(case, value)?)),
            _ => None,
        }
    }

    fn call(&mut self, call: &syn::ExprCall, locals: &mut Locals) -> Option<Value> {
        let Expr::Path(path) = &*call.func else { return None };
        if let Some(ty) = sized(&path.path) {
            let name = size_name(&tokens::spaced(ty.to_token_stream()));
            let own = locals.iter().rev().find(|(local, _)| *local == name).map(|(_, value)| value.clone());
            return own.or_else(|| argument::size(ty).and_then(|size| i64::try_from(size).ok()).map(Value::Int));
        }
        let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let Some(Value::List(arguments)) = self.list(&call.args, locals) else { return None };
        let scope = self.scope;
        let function = match names.as_slice() {
            [.., ty, name] => scope.methods.get(&(ty.clone(), name.clone()))?,
            [name] => scope.functions.get(name)?,
            [] => return None,
        };
        self.applied(function, arguments)
    }

    fn method(&mut self, call: &syn::ExprMethodCall, locals: &mut Locals) -> Option<Value> {
        let receiver = self.value(&call.receiver, locals)?;
        let Some(Value::List(arguments)) = self.list(&call.args, locals) else { return None };
        let name = call.method.to_string();
        match &receiver {
            Value::Struct(ty, _) => {
                let function = self.scope.methods.get(&(ty.clone(), name))?;
                self.applied(function, [receiver].into_iter().chain(arguments).collect())
            }
            Value::List(values) if name == "len" => i64::try_from(values.len()).ok().map(Value::Int),
            Value::Int(number) => method_value(*number, &name, &arguments),
            _ => None,
        }
    }

    fn applied(&mut self, function: &Function, arguments: Vec<Value>) -> Option<Value> {
        let mut locals: Locals = function.params.iter().cloned().zip(arguments).collect();
        self.inside(|this| this.block(&function.body, &mut locals))
    }
}

fn literal_value(literal: &Lit) -> Option<Value> {
    match literal {
        Lit::Int(number) => number.base10_parse().ok().map(Value::Int),
        Lit::Bool(truth) => Some(Value::Bool(truth.value)),
        _ => None,
    }
}

fn unary_value(op: UnOp, value: Value) -> Option<Value> {
    match (op, value) {
        (UnOp::Neg(_), Value::Int(number)) => number.checked_neg().map(Value::Int),
        (UnOp::Not(_), Value::Bool(truth)) => Some(Value::Bool(!truth)),
        (UnOp::Deref(_), value) => Some(value),
        _ => None,
    }
}

fn binary_value(op: &BinOp, left: Value, right: Value) -> Option<Value> {
    if let (Value::Int(a), Value::Int(b)) = (&left, &right) {
        let (a, b) = (*a, *b);
        let shifted = u32::try_from(b).ok().filter(|bits| *bits < 63);
        let number = match op {
            BinOp::Add(_) => a.checked_add(b),
            BinOp::Sub(_) => a.checked_sub(b),
            BinOp::Mul(_) => a.checked_mul(b),
            BinOp::Div(_) => a.checked_div(b),
            BinOp::Rem(_) => a.checked_rem(b),
            BinOp::Shl(_) => shifted.and_then(|bits| a.checked_mul(1 << bits)),
            BinOp::Shr(_) => shifted.map(|bits| a >> bits),
            BinOp::BitAnd(_) => Some(a & b),
            BinOp::BitOr(_) => Some(a | b),
            BinOp::BitXor(_) => Some(a ^ b),
            _ => return compared(op, &a, &b),
        };
        return number.map(Value::Int);
    }
    match (op, &left, &right) {
        (BinOp::And(_) | BinOp::BitAnd(_), Value::Bool(a), Value::Bool(b)) => Some(Value::Bool(*a & *b)),
        (BinOp::Or(_) | BinOp::BitOr(_), Value::Bool(a), Value::Bool(b)) => Some(Value::Bool(*a | *b)),
        (BinOp::Eq(_), ..) => Some(Value::Bool(left == right)),
        (BinOp::Ne(_), ..) => Some(Value::Bool(left != right)),
        _ => None,
    }
}

fn compared(op: &BinOp, a: &i64, b: &i64) -> Option<Value> {
    let holds = match op {
        BinOp::Eq(_) => a == b,
        BinOp::Ne(_) => a != b,
        BinOp::Lt(_) => a < b,
        BinOp::Le(_) => a <= b,
        BinOp::Gt(_) => a > b,
        BinOp::Ge(_) => a >= b,
        _ => return None,
    };
    Some(Value::Bool(holds))
}

fn method_value(number: i64, name: &str, arguments: &[Value]) -> Option<Value> {
    let other = match arguments {
        [] => None,
        [Value::Int(other)] => Some(*other),
        _ => return None,
    };
    let up = |by: i64| Some(number.checked_div_euclid(by)? + i64::from(number.checked_rem_euclid(by)? != 0));
    match (name, other) {
        ("min", Some(other)) => Some(Value::Int(number.min(other))),
        ("max", Some(other)) => Some(Value::Int(number.max(other))),
        ("div_ceil", Some(by)) if by > 0 => up(by).map(Value::Int),
        ("next_multiple_of", Some(by)) if by > 0 => up(by)?.checked_mul(by).map(Value::Int),
        ("pow", Some(by)) => number.checked_pow(u32::try_from(by).ok()?).map(Value::Int),
        ("is_multiple_of", Some(by)) => Some(Value::Bool(number.checked_rem(by)? == 0)),
        ("is_power_of_two", None) => Some(Value::Bool(number > 0 && number & (number - 1) == 0)),
        ("ilog2" | "trailing_zeros", None) if number > 0 => {
            let bits = if name == "ilog2" { number.ilog2() } else { number.trailing_zeros() };
            Some(Value::Int(bits.into()))
        }
        _ => None,
    }
}

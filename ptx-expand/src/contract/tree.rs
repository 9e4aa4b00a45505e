//! Condition functions as trees: host expressions with names for their parts. The macro writes a method of one (`view`); launches from text and proofs
//! put the arguments into it (`describe`).

use proc_macro2::Ident;
use ptx_core::host::Operator;
use syn::{Expr, LitInt, Path, Type};

/// The functions of an `impl`.
pub struct Contract {
    /// The struct.
    pub ty: Path,
    /// Its functions.
    pub functions: Vec<Function>,
}

/// A function.
pub struct Function {
    /// Its name.
    pub name: Ident,
    /// True for `&self` and `self`.
    pub takes_self: bool,
    /// The other parameters.
    pub params: Vec<Param>,
    /// The shape of its result.
    pub result: Shape,
    /// Its body.
    pub body: Tree,
}

/// A parameter of a function.
pub struct Param {
    /// The names that it binds.
    pub pattern: Pattern,
    /// Its shape.
    pub shape: Shape,
}

/// A type, as host expressions see it: integers have none.
pub enum Shape {
    /// An integer.
    Number,
    /// `bool`
    Truth,
    /// An array of a fixed length.
    Array(Box<Shape>, Box<Expr>),
    /// A tuple.
    Tuple(Vec<Shape>),
    /// A struct of parameters, by value or by reference.
    Struct(Box<Type>),
}

/// The names that a value binds.
pub enum Pattern {
    /// A name.
    Name(Ident),
    /// `_`
    Skip,
    /// `(a, b)`
    Tuple(Vec<Pattern>),
    /// `[a, .., b]`: the patterns, and the place of `..` among them.
    Slice(Vec<Pattern>, Option<usize>),
}

/// A field behind a name: of `self`, or of a parameter that is a struct. Without fields the struct itself.
pub struct Place {
    /// `self`, or the parameter.
    pub root: Ident,
    /// The fields that lead there.
    pub fields: Vec<Ident>,
}

/// An expression.
pub enum Tree {
    /// A number.
    Literal(LitInt),
    /// A truth value.
    Truth(bool),
    /// A name that a pattern binds.
    Name(Ident),
    /// A number, an array or a struct behind a name.
    Place(Place),
    /// A constant of the host.
    Constant(Box<Expr>),
    /// An element of an array.
    Index(Box<[Tree; 2]>),
    /// `-a`, `!a`, `a.is_power_of_two()`
    Unary(Operator, Box<Tree>),
    /// An operator or a method of integers, and its text.
    Binary(Operator, Box<[Tree; 2]>, String),
    /// `if a { b } else { c }`
    If(Box<[Tree; 3]>),
    /// `let` statements and the result behind them.
    Let(Vec<(Pattern, Tree)>, Box<Tree>),
    /// An array.
    Array(Vec<Tree>),
    /// A tuple.
    Tuple(Vec<Tree>),
    /// The call of a function of this `impl`, or of that of a parameter.
    Call(Call),
    /// `over.all(|pattern| holds)`, `any`
    Every {
        /// True for `all`.
        is_all: bool,
        /// The elements.
        over: Box<Tree>,
        /// The names of an element.
        pattern: Pattern,
        /// The condition.
        holds: Box<Tree>,
    },
    /// The elements of two arrays, pair by pair.
    Zip(Box<[Tree; 2]>),
    /// `a..b`, of constants.
    Range(Box<[Tree; 2]>),
}

/// A call.
pub struct Call {
    /// The struct whose function it is; `None` for `Self::name(…)`.
    pub on: Option<Place>,
    /// The function.
    pub name: Ident,
    /// Its arguments.
    pub arguments: Vec<Tree>,
}

impl Contract {
    /// The name of the struct.
    pub fn name(&self) -> String {
        self.ty.segments.last().map(|last| last.ident.to_string()).unwrap_or_default()
    }

    /// The function of this name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// The fields of the struct that a function reads, those that the functions that it calls read included, in the order of its text.
    pub fn fields_read(&self, name: &str) -> Vec<String> {
        let (mut fields, mut seen) = (Vec::new(), Vec::new());
        self.add_fields(name, &mut seen, &mut fields);
        fields
    }

    fn add_fields(&self, name: &str, seen: &mut Vec<String>, fields: &mut Vec<String>) {
        let Some(function) = self.function(name).filter(|_| !seen.iter().any(|known| known == name)) else { return };
        seen.push(name.to_owned());
        function.body.visit(&mut |tree| match tree {
            Tree::Place(Place { root, fields: path }) if root == "self" => {
                let field = path.first().map(ToString::to_string).filter(|field| !fields.contains(field));
                fields.extend(field);
            }
            Tree::Call(call) if call.is_own() => self.add_fields(&call.name.to_string(), seen, fields),
            _ => {}
        });
    }
}

impl Call {
    /// Returns true for `self.name(…)` and `Self::name(…)`.
    pub fn is_own(&self) -> bool {
        self.on.as_ref().is_none_or(|place| place.root == "self")
    }
}

impl Tree {
    /// Visits it and all that is in it, in the order of the text.
    pub fn visit(&self, see: &mut dyn FnMut(&Tree)) {
        see(self);
        match self {
            Tree::Literal(_) | Tree::Truth(_) | Tree::Name(_) | Tree::Place(_) | Tree::Constant(_) => {}
            Tree::Unary(_, of) => of.visit(see),
            Tree::Index(both) | Tree::Binary(_, both, _) | Tree::Zip(both) | Tree::Range(both) => {
                both.iter().for_each(|part| part.visit(see));
            }
            Tree::If(parts) => parts.iter().for_each(|part| part.visit(see)),
            Tree::Let(values, result) => {
                values.iter().for_each(|(_, value)| value.visit(see));
                result.visit(see);
            }
            Tree::Array(parts) | Tree::Tuple(parts) => parts.iter().for_each(|part| part.visit(see)),
            Tree::Call(call) => call.arguments.iter().for_each(|part| part.visit(see)),
            Tree::Every { over, holds, .. } => {
                over.visit(see);
                holds.visit(see);
            }
        }
    }
}

//! Meaning of names: scopes with a static link, so that a helper sees its own surroundings, not those of its call.
//!
//! Each name has one list of meanings, instead of an entry in the map of each scope: a lookup hashes the name once, however deep the scopes are.

use super::tree::{self, TypeKind};
use super::types::Ty;
use super::value::Value;
use ptx_core::diag::near::Misses;
use ptx_core::hash::Map;

/// Meaning of a name.
#[derive(Clone, Debug)]
pub(crate) enum Binding<'a> {
    /// A register, an array, a constant that is evaluated, memory.
    Value(Value),
    /// A constant that is not evaluated yet.
    Const(&'a tree::Const),
    /// A helper.
    Function(&'a tree::Function),
    /// A type: an argument of a generic.
    Type(Ty),
    /// A struct.
    Struct(&'a tree::Struct),
    /// A module: the scope of its items.
    Module(usize),
    /// The kernel's parameter of this index.
    Param(usize),
    /// The kernel's struct of arguments of this index.
    Arguments(usize),
    /// Declared, but wrong; that is reported.
    Error,
}

/// The right to write through a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Access {
    /// Registers of its own, which may be written: `let mut x = …`, `let x: u32;`, `mut x: u32` of a function.
    #[default]
    Own,
    /// `let x = …`
    Declared,
    /// The variable of a `for`.
    Item,
    /// `x: u32` of a kernel.
    Launched,
    /// `x: u32` of a function.
    Value,
    /// `x: &u32`: the caller's registers, which are read.
    Ref,
    /// `x: &mut u32`: the caller's registers, which may be written.
    RefMut,
}

impl Access {
    /// The access through a parameter of a helper.
    pub(crate) fn of(param: &tree::Param) -> Access {
        match &param.ty.kind {
            TypeKind::Ref(true, _) => Access::RefMut,
            TypeKind::Ref(false, _) => Access::Ref,
            _ if param.mutable => Access::Own,
            _ => Access::Value,
        }
    }

    /// Returns true if the name may stand for a constant: nothing is written through it.
    pub(crate) fn only_reads(self) -> bool {
        matches!(self, Access::Value | Access::Ref)
    }

    /// Returns true if the name stands for a reference: its value is `*name`.
    pub(crate) fn is_reference(self) -> bool {
        matches!(self, Access::Ref | Access::RefMut)
    }
}

/// A name's meaning in a scope, and what it may be used for.
#[derive(Debug)]
struct Meaning<'a> {
    scope: usize,
    binding: Binding<'a>,
    access: Access,
}

/// A name that some scope has given a meaning.
#[derive(Debug)]
struct Name<'a> {
    text: String,
    /// By the numbers of their scopes, ascending.
    meanings: Vec<Meaning<'a>>,
}

/// One scope.
#[derive(Debug, Default)]
pub(crate) struct Scope<'a> {
    /// Registers, constants, functions …: their numbers among the names.
    names: Vec<usize>,
    /// Labels and registers that `ptx!` blocks declare under a name of their own: what they are called in the PTX.
    pub(crate) verbatim: Map<String, String>,
    /// `impl` blocks, with the address of their struct.
    impls: Vec<(usize, &'a tree::Impl)>,
    /// The scope around it.
    pub(crate) parent: Option<usize>,
    /// True if it is a function's: registers outside of it are not its own.
    pub(crate) function: bool,
}

/// Result of a lookup.
pub(crate) struct Found<'a> {
    /// The meaning.
    pub(crate) binding: Binding<'a>,
    /// The right to write, where it is a register.
    pub(crate) access: Access,
    /// The scope that holds it.
    pub(crate) scope: usize,
    /// True if it lies outside the calling function.
    pub(crate) outside: bool,
}

/// All scopes that are open, and those of modules.
#[derive(Debug, Default)]
pub(crate) struct Scopes<'a> {
    /// The number of a scope is greater than that of the scope around it.
    all: Vec<Scope<'a>>,
    names: Vec<Name<'a>>,
    numbers: Map<String, usize>,
    /// The innermost one.
    pub(crate) current: usize,
    /// For all names that mean nothing.
    pub(crate) misses: Misses,
}

impl<'a> Scopes<'a> {
    /// Opens a scope inside `parent`.
    pub(crate) fn open(&mut self, parent: Option<usize>, function: bool) -> usize {
        self.all.push(Scope { parent, function, ..Scope::default() });
        self.current = self.all.len() - 1;
        self.current
    }

    /// Closes every scope from `scope` on and goes back to `current`.
    pub(crate) fn close(&mut self, scope: usize, current: usize) {
        for number in self.all.drain(scope..).flat_map(|closed| closed.names) {
            if let Some(name) = self.names.get_mut(number) {
                name.meanings.pop_if(|meaning| meaning.scope >= scope);
            }
        }
        self.current = current;
    }

    /// Gives a name a meaning in the innermost scope.
    pub(crate) fn bind(&mut self, name: &str, binding: Binding<'a>) {
        self.bind_as(name, binding, Access::Own);
    }

    /// Gives a name a meaning in the innermost scope, and the right to write through it.
    pub(crate) fn bind_as(&mut self, name: &str, binding: Binding<'a>, access: Access) {
        let number = self.number(name);
        let (Some(scope), Some(known)) = (self.all.get_mut(self.current), self.names.get_mut(number)) else { return };
        let meaning = Meaning { scope: self.current, binding, access };
        let before = known.meanings.iter().rposition(|other| other.scope <= meaning.scope);
        match before.and_then(|at| known.meanings.get_mut(at)).filter(|other| other.scope == meaning.scope) {
            Some(same) => *same = meaning,
            None => {
                scope.names.push(number);
                known.meanings.insert(before.map_or(0, |at| at + 1), meaning);
            }
        }
    }

    /// The number of a name, which it keeps.
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.names.push(Name { text: name.to_owned(), meanings: Vec::new() });
        self.numbers.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    /// Gives a name in `ptx!` its name in the PTX.
    pub(crate) fn bind_verbatim(&mut self, name: &str, emitted: String) {
        if let Some(scope) = self.all.get_mut(self.current) {
            scope.verbatim.insert(name.to_owned(), emitted);
        }
    }

    /// Makes an `impl` known in the innermost scope, that of its struct.
    pub(crate) fn bind_impl(&mut self, item: usize, of: &'a tree::Impl) {
        if let Some(scope) = self.all.get_mut(self.current) {
            scope.impls.push((item, of));
        }
    }

    /// The `impl` blocks of a struct that is declared in this scope.
    pub(crate) fn impls(&self, scope: usize, item: usize) -> Vec<&'a tree::Impl> {
        let of = |(own, found): &(usize, &'a tree::Impl)| (*own == item).then_some(*found);
        self.all.get(scope).into_iter().flat_map(|scope| scope.impls.iter().filter_map(of)).collect()
    }

    /// Meaning of a name here.
    pub(crate) fn find(&self, name: &str) -> Option<Found<'a>> {
        self.meanings(name).next().map(|(meaning, outside)| Found {
            binding: meaning.binding.clone(),
            access: meaning.access,
            scope: meaning.scope,
            outside,
        })
    }

    /// The module of this name: `warp` in `warp::reduce_sum`, even where a register is called `warp`.
    pub(crate) fn find_module(&self, name: &str) -> Option<Found<'a>> {
        self.meanings(name).find_map(|(meaning, _)| match &meaning.binding {
            binding @ Binding::Module(_) => {
                Some(Found { binding: binding.clone(), access: Access::Own, scope: meaning.scope, outside: false })
            }
            _ => None,
        })
    }

    /// Meaning of a name in exactly this scope.
    pub(crate) fn find_in(&self, scope: usize, name: &str) -> Option<Binding<'a>> {
        let known = self.names.get(*self.numbers.get(name)?)?;
        known.meanings.iter().find(|meaning| meaning.scope == scope).map(|meaning| meaning.binding.clone())
    }

    /// The meanings of a name here, the innermost first, each with true if it lies outside the calling function.
    fn meanings(&self, name: &str) -> impl Iterator<Item = (&Meaning<'a>, bool)> {
        let known = self.numbers.get(name).and_then(|number| self.names.get(*number));
        let mut left = known.map_or(&[][..], |known| &known.meanings);
        let (mut place, mut outside) = (Some(self.current), false);
        std::iter::from_fn(move || {
            while let ([rest @ .., meaning], Some(index)) = (left, place) {
                if meaning.scope > index {
                    left = rest;
                    continue;
                }
                let (scope, from_outside) = (self.all.get(index)?, outside);
                (place, outside) = (scope.parent, outside || scope.function);
                if meaning.scope == index {
                    return Some((meaning, from_outside));
                }
            }
            None
        })
    }

    /// Name of a label or register of a `ptx!` block within the function.
    pub(crate) fn find_verbatim(&self, name: &str) -> Option<&str> {
        for scope in self.chain() {
            if let Some(emitted) = scope.verbatim.get(name) {
                return Some(emitted);
            }
            if scope.function {
                break;
            }
        }
        None
    }

    /// Every name that could be meant here.
    pub(crate) fn visible(&self) -> impl Iterator<Item = &str> {
        let names = self.chain().flat_map(|scope| &scope.names);
        names.filter_map(|number| self.names.get(*number)).map(|name| name.text.as_str())
    }

    /// Every label and register of a `ptx!` block that could be meant here.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.chain().flat_map(|scope| scope.verbatim.keys().map(String::as_str))
    }

    /// The scopes from the innermost one outwards.
    fn chain(&self) -> impl Iterator<Item = &Scope<'a>> {
        std::iter::successors(self.all.get(self.current), |scope| self.all.get(scope.parent?))
    }
}

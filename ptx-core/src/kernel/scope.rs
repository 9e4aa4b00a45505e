//! Meaning of names: scopes with a static link, so that a helper sees its own surroundings, not those of its call.

use super::tree;
use super::types::Ty;
use super::value::Value;
use std::collections::HashMap;

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
    /// Declared, but wrong; that is reported.
    Error,
}

/// One scope.
#[derive(Debug, Default)]
pub(crate) struct Scope<'a> {
    /// Registers, constants, functions …
    pub(crate) names: HashMap<String, Binding<'a>>,
    /// Labels and registers that `ptx!` blocks declare under a name of their own: what they are called in the PTX.
    pub(crate) verbatim: HashMap<String, String>,
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
    /// The scope that holds it.
    pub(crate) scope: usize,
    /// True if it lies outside the function that asks.
    pub(crate) outside: bool,
}

/// All scopes that are open, and those of modules.
#[derive(Debug, Default)]
pub(crate) struct Scopes<'a> {
    all: Vec<Scope<'a>>,
    /// The innermost one.
    pub(crate) current: usize,
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
        self.all.truncate(scope);
        self.current = current;
    }

    /// Gives a name a meaning in the innermost scope.
    pub(crate) fn bind(&mut self, name: &str, binding: Binding<'a>) {
        if let Some(scope) = self.all.get_mut(self.current) {
            scope.names.insert(name.to_owned(), binding);
        }
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
        let mut outside = false;
        for (index, scope) in self.chain() {
            if let Some(binding) = scope.names.get(name) {
                return Some(Found { binding: binding.clone(), scope: index, outside });
            }
            outside |= scope.function;
        }
        None
    }

    /// The module of this name: `warp` in `warp::reduce_sum`, even where a register is called `warp`.
    pub(crate) fn find_module(&self, name: &str) -> Option<Found<'a>> {
        self.chain().find_map(|(index, scope)| match scope.names.get(name) {
            Some(binding @ Binding::Module(_)) => {
                Some(Found { binding: binding.clone(), scope: index, outside: false })
            }
            _ => None,
        })
    }

    /// Meaning of a name in exactly this scope.
    pub(crate) fn find_in(&self, scope: usize, name: &str) -> Option<Binding<'a>> {
        self.all.get(scope)?.names.get(name).cloned()
    }

    /// Name of a label or register of a `ptx!` block within the function.
    pub(crate) fn find_verbatim(&self, name: &str) -> Option<&str> {
        for (_, scope) in self.chain() {
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
        self.chain().flat_map(|(_, scope)| scope.names.keys().map(String::as_str))
    }

    /// Every label and register of a `ptx!` block that could be meant here.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.chain().flat_map(|(_, scope)| scope.verbatim.keys().map(String::as_str))
    }

    fn chain(&self) -> impl Iterator<Item = (usize, &Scope<'a>)> {
        let step = |index: &usize| self.all.get(*index).and_then(|scope| scope.parent);
        std::iter::successors(Some(self.current), step).filter_map(|index| Some((index, self.all.get(index)?)))
    }
}

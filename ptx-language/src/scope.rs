//! Meaning of names: scopes with a static link, so that a helper sees its own surroundings, not those of its call.

use super::tree::{self, TypeKind};
use super::types::Ty;
use super::value::Value;
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

/// A name's meaning, and what it may be used for.
#[derive(Clone, Debug)]
struct Named<'a> {
    binding: Binding<'a>,
    access: Access,
}

/// One scope.
#[derive(Debug, Default)]
pub(crate) struct Scope<'a> {
    /// Registers, constants, functions …
    names: Map<String, Named<'a>>,
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
        self.bind_as(name, binding, Access::Own);
    }

    /// Gives a name a meaning in the innermost scope, and the right to write through it.
    pub(crate) fn bind_as(&mut self, name: &str, binding: Binding<'a>, access: Access) {
        if let Some(scope) = self.all.get_mut(self.current) {
            scope.names.insert(name.to_owned(), Named { binding, access });
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
            if let Some(Named { binding, access }) = scope.names.get(name) {
                return Some(Found { binding: binding.clone(), access: *access, scope: index, outside });
            }
            outside |= scope.function;
        }
        None
    }

    /// The module of this name: `warp` in `warp::reduce_sum`, even where a register is called `warp`.
    pub(crate) fn find_module(&self, name: &str) -> Option<Found<'a>> {
        self.chain().find_map(|(index, scope)| match scope.names.get(name) {
            Some(Named { binding: binding @ Binding::Module(_), .. }) => {
                Some(Found { binding: binding.clone(), access: Access::Own, scope: index, outside: false })
            }
            _ => None,
        })
    }

    /// Meaning of a name in exactly this scope.
    pub(crate) fn find_in(&self, scope: usize, name: &str) -> Option<Binding<'a>> {
        self.all.get(scope)?.names.get(name).map(|named| named.binding.clone())
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

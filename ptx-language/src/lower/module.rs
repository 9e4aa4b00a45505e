//! The module around the functions: its items, its header.

use super::{Lowerer, Pieces};
use crate::scope::Binding;
use crate::tree::{Ident, Module, Ptx, Struct};
use crate::types::layout::numbers;
use crate::{Lowered, StructLayout, Uses};
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::parse::parse;
use ptx_core::span::Span;
use ptx_core::syntax::StmtKind;
use ptx_core::token::{Kind, TokenId};
use std::rc::Rc;

impl<'a> Lowerer<'a> {
    /// Everything: first what has a name, then the kernels.
    pub(super) fn module(&mut self) {
        let module = self.module;
        let modules = self.scopes.open(None, false);
        let mut scopes = Vec::with_capacity(module.modules.len());
        for (name, inner) in &module.modules {
            let scope = self.scopes.open(Some(modules), false);
            self.declare_items(inner);
            self.scopes.current = modules;
            self.scopes.bind(&name.name, Binding::Module(scope));
            scopes.push(scope);
        }
        // Constants of one module may name those of any other.
        for (scope, (_, inner)) in scopes.into_iter().zip(&module.modules) {
            self.scopes.current = scope;
            self.check_constants(inner);
        }
        self.scopes.open(Some(modules), false);
        for item in &module.ptx {
            self.ptx_item(item);
        }
        self.declare_items(module);
        self.check_constants(module);
        for (index, kernel) in module.kernels.iter().enumerate() {
            self.kernel(index, kernel);
        }
    }

    /// Copies a `ptx!` item as it is: its names are PTX's own.
    fn ptx_item(&mut self, item: &'a Ptx) {
        let (tree, _) = parse(item.source.clone());
        let mut names: Vec<TokenId> = Vec::new();
        for id in &tree.items {
            match &tree.stmt(*id).kind {
                StmtKind::Var(var) => names.extend(tree.names(var).iter().map(|d| d.name)),
                StmtKind::Func(func) => names.extend(func.name),
                _ => {}
            }
        }
        for name in names.into_iter().map(|token| tree.source.text(token)) {
            if self.out.declared.insert(name.to_owned()) {
                Rc::make_mut(&mut self.out.symbols).unique(name);
            }
        }
        for token in 0..item.source.tokens.len() as TokenId {
            let text = String::from_utf8_lossy(item.source.trivia(token)).into_owned() + item.source.text(token);
            let last = item.source.kind(token) == Kind::Eof;
            let text = if last { text.trim_end().to_owned() } else { text };
            self.out.globals.push((text, item.source.span(token)));
        }
        self.out.globals.push(("\n".to_owned(), item.span));
    }

    /// Gives the items of a module their meaning.
    fn declare_items(&mut self, module: &'a Module) {
        for item in &module.consts {
            self.bind_item(&item.name, Binding::Const(item));
            self.constants.entry(std::ptr::from_ref(item) as usize).or_default();
        }
        for item in &module.functions {
            self.bind_item(&item.name, Binding::Function(item));
        }
        for item in &module.structs {
            self.bind_item(&item.name, Binding::Struct(item));
        }
        for item in &module.impls {
            self.declare_impl(item);
        }
        for item in &module.statics {
            let value = self.static_item(item);
            self.bind_item(&item.name, Binding::Value(value));
        }
    }

    /// Gives an item its name in the innermost scope, where no other item has it.
    pub(super) fn bind_item(&mut self, name: &Ident, binding: Binding<'a>) {
        if self.scopes.find(&name.name).is_some_and(|found| found.scope == self.scopes.current) {
            let message = format!("`{}` is declared twice", name.name);
            self.fail(&codes::P0502, name.span, message, "give one of them another name");
        }
        self.scopes.bind(&name.name, binding);
    }

    /// Computes all constants, so that errors in those that nothing names are reported.
    fn check_constants(&mut self, module: &'a Module) {
        for item in &module.consts {
            drop(self.module_const(item, self.scopes.current));
        }
    }

    fn struct_layout(&mut self, item: &'a Struct) -> StructLayout {
        let layout = self.layout(item).unwrap_or_default();
        StructLayout {
            name: item.name.name.clone(),
            size: layout.size,
            align: layout.align,
            offsets: layout.own,
            numbers: numbers(layout.fields),
        }
    }

    /// The text of the module.
    pub(super) fn finish(mut self) -> (Lowered, Vec<Diagnostic>) {
        let span = self.module.kernels.first().map_or_else(Span::default, |kernel| kernel.name.span);
        let (version, arch) = (self.variant.version, self.variant.arch);
        let mut pieces: Pieces = vec![
            (format!(".version {version}\n"), span),
            (format!(".target {arch}\n"), span),
            (".address_size 64\n".to_owned(), span),
        ];
        for (at, file) in self.out.files.iter().enumerate() {
            pieces.push((format!(".file {} \"{}\"\n", at + 1, file.replace('\\', "/")), span));
        }
        if !self.out.globals.is_empty() {
            pieces.push(("\n".to_owned(), span));
        }
        pieces.append(&mut self.out.globals);
        pieces.append(&mut self.out.functions);
        let module = self.module;
        let taken = |item: &&Struct| self.out.taken.contains(&(std::ptr::from_ref::<Struct>(item) as usize));
        let taken: Vec<&Struct> = module.structs.iter().filter(taken).collect();
        let structs = taken.into_iter().map(|item| self.struct_layout(item)).collect();
        let uses = Uses::new(self.out.fixed.into_values().collect(), self.out.addressed.into_values().collect());
        let lowered = Lowered {
            pieces,
            entries: self.out.entries,
            structs,
            statics: self.out.listed,
            memory: self.out.memory,
            unchecked: self.out.unchecked,
            refused: self.out.refused,
            uses,
            spoken: self.out.spoken,
            called: self.out.helpers,
            calls: self.out.calls,
        };
        (lowered, self.errors.found)
    }
}

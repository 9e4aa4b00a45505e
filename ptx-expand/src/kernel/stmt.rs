//! Statements: `let`, `const`, `static`, `fn`, `ptx!` and expressions.

use super::Reader;
use crate::tokens::source;
use ptx_core::diag::codes;
use ptx_core::ir::annotation::{KINDS, Kind};
use ptx_core::span::Span;
use ptx_language::tree::{self, Expr, ExprKind, Let, Memory, MemorySpace, Pattern, Ptx, Stmt, StmtKind};
use quote::ToTokens;
use syn::spanned::Spanned;

impl Reader {
    /// Statements in braces.
    pub fn block(&mut self, block: &syn::Block) -> tree::Block {
        let braces = block.brace_token.span;
        let open = self.host.token(braces.open());
        let stmts = block.stmts.iter().map(|s| self.stmt(s)).collect();
        tree::Block { stmts, span: open.to(self.host.token(braces.close())) }
    }

    fn stmt(&mut self, stmt: &syn::Stmt) -> Stmt {
        match stmt {
            syn::Stmt::Local(local) => self.local(local),
            syn::Stmt::Item(item) => self.item_in_body(item),
            syn::Stmt::Expr(syn::Expr::Macro(call), _) => self.macro_call(&call.attrs, &call.mac),
            syn::Stmt::Expr(expr, semicolon) => {
                let expr = self.expr(expr);
                let end = semicolon.map_or(expr.span, |s| self.host.token(s.span()));
                Stmt { span: expr.span.to(end), kind: StmtKind::Expr(expr, semicolon.is_some()) }
            }
            syn::Stmt::Macro(call) => self.macro_call(&call.attrs, &call.mac),
        }
    }

    fn local(&mut self, local: &syn::Local) -> Stmt {
        let memory = self.memory(&local.attrs);
        let start = self.host.token(local.let_token.span());
        let (pattern, ty) = match &local.pat {
            syn::Pat::Type(typed) => (&*typed.pat, Some(self.ty(&typed.ty))),
            pattern => (pattern, None),
        };
        if let syn::Pat::Slice(names) = pattern {
            return self.array_pattern(names, start);
        }
        let pattern = self.pattern(pattern);
        self.declared_once(pattern.names());
        let init = local.init.as_ref().map(|init| {
            if let Some((_, otherwise)) = &init.diverge {
                self.refuse(&otherwise, "`let … else`", "a `let` names registers and always succeeds");
            }
            self.expr(&init.expr)
        });
        let span = memory.as_ref().map_or(start, |m| m.span.to(start)).to(self.host.token(local.semi_token.span()));
        Stmt { kind: StmtKind::Let(Let { memory, pattern, ty, init }), span }
    }

    /// Refuses `let [a, b] = x;`. Its names are declared, with a value that is an error.
    fn array_pattern(&mut self, names: &syn::PatSlice, start: Span) -> Stmt {
        let span = self.host.syntax(names);
        self.refuse(names, "array patterns", "name the elements: `let (a, b) = (x[0], x[1]);`");
        let pattern = Pattern::Tuple(names.elems.iter().map(|name| self.pattern(name)).collect(), span);
        let init = Some(Expr { kind: ExprKind::Error, span });
        Stmt { kind: StmtKind::Let(Let { memory: None, pattern, ty: None, init }), span: start.to(span) }
    }

    /// The pattern of a `let` or a `for`.
    pub fn pattern(&mut self, pattern: &syn::Pat) -> Pattern {
        match pattern {
            syn::Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                Pattern::Name(self.ident(&name.ident), name.mutability.is_some())
            }
            syn::Pat::Tuple(tuple) => {
                let open = self.host.token(tuple.paren_token.span.open());
                let parts = tuple.elems.iter().map(|p| self.pattern(p)).collect();
                Pattern::Tuple(parts, open.to(self.host.token(tuple.paren_token.span.close())))
            }
            syn::Pat::Struct(of) => self.struct_pattern(of),
            syn::Pat::Paren(inner) => self.pattern(&inner.pat),
            syn::Pat::Wild(wild) => Pattern::Wild(self.host.token(wild.underscore_token.span())),
            other => {
                self.refuse(other, "such pattern", "write a name or a tuple of names");
                Pattern::Wild(self.host.syntax(other))
            }
        }
    }

    /// `Pair { first, second: y, .. }`
    fn struct_pattern(&mut self, of: &syn::PatStruct) -> Pattern {
        let (path, start) = self.path(&of.path);
        let mut fields = Vec::with_capacity(of.fields.len());
        for field in &of.fields {
            let syn::Member::Named(name) = &field.member else {
                self.refuse(&field.member, "structs without names for their fields", "name the field");
                continue;
            };
            fields.push((self.ident(name), self.pattern(&field.pat)));
        }
        let span = start.to(self.host.token(of.brace_token.span.close()));
        Pattern::Struct(path, fields, of.rest.is_some(), span)
    }

    /// `#[shared]`, `#[shared(align = 1024, dynamic)]`, `#[local]`.
    fn memory(&mut self, attributes: &[syn::Attribute]) -> Option<Memory> {
        let mut memory = None;
        for attribute in attributes.iter().filter(|a| !super::is_for_tools(a)) {
            let space = match () {
                () if attribute.path().is_ident("shared") => MemorySpace::Shared,
                () if attribute.path().is_ident("local") => MemorySpace::Local,
                () => {
                    self.attribute_without_meaning(attribute, "a `let` takes `#[shared]` or `#[local]`");
                    continue;
                }
            };
            if memory.is_some() {
                self.attribute_without_meaning(attribute, "a `let` has one memory attribute");
                continue;
            }
            memory = Some(self.memory_options(attribute, space));
        }
        memory
    }

    fn memory_options(&mut self, attribute: &syn::Attribute, space: MemorySpace) -> Memory {
        let span = self.host.syntax(attribute);
        let mut memory = Memory { space, align: None, dynamic: false, span };
        let syn::Meta::List(list) = &attribute.meta else { return memory };
        let parser = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
        match list.parse_args_with(parser) {
            Ok(options) => options.iter().for_each(|o| self.memory_option(o, &mut memory)),
            Err(error) => self.bad_memory_option(&list.tokens, &error.to_string()),
        }
        memory
    }

    fn memory_option(&mut self, option: &syn::Meta, memory: &mut Memory) {
        match option {
            syn::Meta::NameValue(pair) if pair.path.is_ident("align") => memory.align = Some(self.expr(&pair.value)),
            syn::Meta::Path(path) if path.is_ident("dynamic") && memory.space == MemorySpace::Shared => {
                memory.dynamic = true;
            }
            other => self.bad_memory_option(other, "there is no such option"),
        }
    }

    fn bad_memory_option(&mut self, node: &impl ToTokens, message: &str) {
        self.error(
            &codes::P0851,
            node,
            message,
            "`#[shared(align = 16)]`, `#[shared(dynamic)]` or `#[local(align = 16)]`",
        );
    }

    fn item_in_body(&mut self, item: &syn::Item) -> Stmt {
        let at = self.host.syntax(item);
        let kind = match item {
            syn::Item::Const(item) => StmtKind::Const(self.constant(item)),
            syn::Item::Static(item) => StmtKind::Static(self.static_(item)),
            syn::Item::Fn(item) => StmtKind::Function(Box::new(self.function(item))),
            syn::Item::Struct(item) => StmtKind::Struct(self.struct_item(item)),
            syn::Item::Impl(item) => StmtKind::Impl(self.impl_(item)),
            syn::Item::Verbatim(tokens) if tokens.to_string().starts_with("static") => {
                let help =
                    "write it: `static NAME: [f32; 4] = [0.0; 4];`; shared memory is `#[shared] let name: [f32; 4];`";
                self.refuse(tokens, "`static` without a value", help);
                StmtKind::Error
            }
            other => {
                self.refuse(
                    other,
                    "such item in a body",
                    "a body may hold `const`, `static`, `struct`, `impl` and `fn` items",
                );
                StmtKind::Error
            }
        };
        Stmt { kind, span: at }
    }

    /// `const N: u32 = 4;`
    pub fn constant(&mut self, item: &syn::ItemConst) -> tree::Const {
        self.no_attributes(&item.attrs);
        tree::Const { name: self.ident(&item.ident), ty: self.ty(&item.ty), value: self.expr(&item.expr) }
    }

    /// `static TABLE: [u32; 4] = [1, 2, 3, 4];`
    pub fn static_(&mut self, item: &syn::ItemStatic) -> tree::Static {
        let mut align = None;
        for attribute in item.attrs.iter().filter(|a| !super::is_for_tools(a)) {
            match &attribute.meta {
                syn::Meta::List(list) if list.path.is_ident("align") => match list.parse_args::<syn::Expr>() {
                    Ok(value) => align = Some(self.expr(&value)),
                    Err(error) => self.error(&codes::P0851, list, error.to_string(), "`#[align(16)]`"),
                },
                _ => self.attribute_without_meaning(attribute, "a `static` takes `#[align(16)]`"),
            }
        }
        tree::Static {
            name: self.ident(&item.ident),
            mutable: matches!(item.mutability, syn::StaticMutability::Mut(_)),
            visible: !matches!(item.vis, syn::Visibility::Inherited),
            align,
            ty: self.ty(&item.ty),
            value: Some(self.expr(&item.expr)),
        }
    }

    /// A `ptx!` between the items of a module.
    pub fn ptx_item(&mut self, call: &syn::Macro) -> Ptx {
        let group = call.delimiter.span().join();
        let (source, mut found) = source(&mut self.host, group, call.tokens.clone());
        self.diagnostics.append(&mut found);
        let span = self.host.syntax(call);
        Ptx { source, span }
    }

    /// A macro call as a statement: `ptx!`, and `unreachable!()`.
    fn macro_call(&mut self, attributes: &[syn::Attribute], call: &syn::Macro) -> Stmt {
        self.no_attributes(attributes);
        if call.path.is_ident("unreachable") && call.tokens.is_empty() {
            return Stmt { kind: StmtKind::Unreachable, span: self.host.syntax(&call.path) };
        }
        if call.path.is_ident("assert") {
            return self.assertion(call);
        }
        if let Some((word, kind)) = KINDS.iter().find(|(word, _)| call.path.is_ident(word)) {
            return self.annotation(call, word, *kind);
        }
        if !is_ptx(&call.path) {
            self.refuse_macro(call);
            return Stmt { kind: StmtKind::Error, span: self.host.syntax(&call.path) };
        }
        let (first, group) = (call.path.span(), call.delimiter.span());
        let start = self.host.token(first);
        let (source, mut diagnostics) = source(&mut self.host, group.join(), call.tokens.clone());
        self.diagnostics.append(&mut diagnostics);
        let span = start.to(self.host.token(group.close()));
        let ptx = Ptx { source, span };
        self.ends_well(&ptx);
        Stmt { kind: StmtKind::Ptx(ptx), span }
    }

    /// `assume!(i < n)`, `invariant!(i <= n)`
    fn annotation(&mut self, call: &syn::Macro, word: &str, kind: Kind) -> Stmt {
        let span = self.host.syntax(&call.path);
        let kind = match call.parse_body::<syn::Expr>() {
            Ok(condition) => StmtKind::Annotation(kind, self.expr(&condition)),
            Err(error) => {
                let at = self.host.token(error.span());
                let help = format!("write a condition over registers: `{word}!(i < n)`");
                self.error_at(&codes::P0850, at, error.to_string(), &help);
                StmtKind::Error
            }
        };
        Stmt { kind, span }
    }

    /// `assert!(N % 4 == 0, "…")`
    fn assertion(&mut self, call: &syn::Macro) -> Stmt {
        let span = self.host.syntax(&call.path);
        let parser = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        let parts = match call.parse_body_with(parser) {
            Ok(parts) => parts.into_iter().collect::<Vec<_>>(),
            Err(error) => {
                let span = self.host.token(error.span());
                self.error_at(&codes::P0850, span, error.to_string(), ASSERTION);
                return Stmt { kind: StmtKind::Error, span };
            }
        };
        let kind = match parts.as_slice() {
            [condition] => StmtKind::Assert(self.expr(condition), None),
            [condition, syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(message), .. })] => {
                StmtKind::Assert(self.expr(condition), Some(message.value()))
            }
            _ => {
                self.error(&codes::P0850, &call.path, "`assert!` takes a condition and a message", ASSERTION);
                StmtKind::Error
            }
        };
        Stmt { kind, span }
    }

    /// Instructions end in `;`: what is generated behind the block must not be read as a part of the last one.
    fn ends_well(&mut self, ptx: &Ptx) {
        let source = &ptx.source;
        if let Some(last) = ptx.last().filter(|_| !ptx.is_terminated()) {
            let message = format!("expected `;` behind `{}`", source.text(last));
            self.error_at(&codes::P0101, source.span(last), message, "every instruction ends in `;`, the last one too");
        }
    }
}

const ASSERTION: &str =
    "write a condition over constants, and a text that may name them in braces: `assert!(N % 4 == 0, \"{N}\")`";

/// `ptx`, `ptx_launch::ptx`.
pub fn is_ptx(path: &syn::Path) -> bool {
    path.segments.last().is_some_and(|s| s.ident == "ptx")
}

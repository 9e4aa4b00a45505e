//! Names that nothing uses: registers, variables, parameters and helpers. The host makes them warnings of Rust's own lints.

use super::tree::{
    Block, Expr, ExprKind, Function, GenericArg, Ident, Kernel, Let, Module, Path, Pattern, Ptx, Stmt, StmtKind, Type,
    TypeKind,
};
use ptx_core::hash::{Map, Set};
use ptx_core::sort::SortSmall;
use ptx_core::token::{Kind, TokenId};

/// Kind of a name that nothing uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusedKind {
    /// A register, a variable in memory or a parameter.
    Variable,
    /// A helper.
    Function,
}

/// A name that is declared and never used.
#[derive(Clone, Debug)]
pub struct Unused {
    /// The name.
    pub name: Ident,
    /// Its kind.
    pub kind: UnusedKind,
    /// The name of the function that declares it, or of the helper itself.
    pub owner: Ident,
}

/// The names of a module that nothing uses, in the order of the source. As in Rust, a register that is only assigned counts as
/// unused, helpers that only unused helpers call do too, and a name that begins with `_` is never reported. Code that one
/// instance or one target leaves out counts. Helpers of a module inside of it may be unused, since other modules may share them.
pub fn unused(module: &Module) -> Vec<Unused> {
    let mut roots = Walk::default();
    roots.items(module);
    let functions = module.functions.iter().chain(module.impls.iter().flat_map(|of| &of.functions));
    let functions: Vec<&Function> = functions.collect();
    let mut walks = Vec::with_capacity(functions.len());
    let mut named: Map<&str, Vec<usize>> = Map::default();
    for (at, function) in functions.iter().enumerate() {
        let mut walk = Walk::default();
        walk.function(function);
        walks.push(walk);
        named.entry(&function.name.name).or_default().push(at);
    }
    let mut pending: Vec<&str> = roots.mentions.iter().copied().collect();
    let mut reached = vec![false; functions.len()];
    while let Some(name) = pending.pop() {
        for at in named.remove(name).unwrap_or_default() {
            reached[at] = true;
            pending.extend(&walks[at].mentions);
        }
    }
    let mut found = roots.found;
    for (at, (function, walk)) in functions.into_iter().zip(walks).enumerate() {
        found.extend(walk.found);
        if !reached[at] && !function.constant && is_reported(&function.name) {
            found.push(helper(&function.name));
        }
    }
    for (_, inner) in &module.modules {
        let functions = inner.functions.iter().chain(inner.impls.iter().flat_map(|of| &of.functions));
        for function in functions.filter(|function| !function.external) {
            let mut walk = Walk::default();
            walk.function(function);
            found.extend(walk.found);
        }
    }
    found.sort_small_by_key(|unused| unused.name.span);
    found
}

fn helper(name: &Ident) -> Unused {
    Unused { name: name.clone(), kind: UnusedKind::Function, owner: name.clone() }
}

fn is_reported(name: &Ident) -> bool {
    !name.name.starts_with('_') && name.name != "self"
}

/// A name of a body.
struct Local<'t> {
    name: &'t Ident,
    kind: UnusedKind,
    /// Number of functions around it: their registers are not those of a function inside.
    depth: usize,
    /// `&mut`: an assignment is a use.
    reference: bool,
    used: bool,
}

/// One function, or the items of a module, as far as they are read.
#[derive(Default)]
struct Walk<'t> {
    scopes: Vec<Vec<Local<'t>>>,
    owners: Vec<&'t Ident>,
    /// Names that no scope has: those of the module.
    mentions: Set<&'t str>,
    found: Vec<Unused>,
}

impl<'t> Walk<'t> {
    /// Everything but helpers.
    fn items(&mut self, module: &'t Module) {
        let consts = module.consts.iter().chain(module.impls.iter().flat_map(|of| &of.consts));
        for item in consts {
            self.ty(&item.ty);
            self.expr(&item.value);
        }
        for item in &module.statics {
            self.ty(&item.ty);
            item.value.iter().chain(&item.align).for_each(|value| self.expr(value));
        }
        for item in &module.structs {
            item.align.iter().for_each(|align| self.expr(align));
            for field in &item.fields {
                self.ty(&field.ty);
                field.align.iter().for_each(|align| self.expr(align));
            }
        }
        module.impls.iter().for_each(|of| self.ty(&of.target));
        module.ptx.iter().for_each(|ptx| self.ptx(ptx));
        module.kernels.iter().for_each(|kernel| self.kernel(kernel));
    }

    fn kernel(&mut self, kernel: &'t Kernel) {
        self.open(Some(&kernel.name));
        kernel.generics.iter().flat_map(|generic| &generic.constant).for_each(|ty| self.ty(ty));
        for param in &kernel.params {
            self.ty(&param.ty);
            self.declare(&param.name, UnusedKind::Variable, false);
        }
        let options = &kernel.options;
        let extents = options.block.iter().chain(&options.max_block).chain(&options.cluster);
        let extents = extents.chain(&options.required_cluster).chain(&options.max_cluster);
        extents.chain(&options.max_regs).chain(&options.min_blocks).for_each(|expr| self.expr(expr));
        options.instances.iter().flat_map(|instance| &instance.args).for_each(|arg| self.argument(arg));
        options.host_names.iter().for_each(|name| self.mention(name));
        self.block(&kernel.body);
        self.maps(kernel);
        self.close(true);
    }

    /// A tile with `#[tma]` is used through its tensor map, `a_map`, which the launch makes.
    fn maps(&mut self, kernel: &'t Kernel) {
        for param in &kernel.params {
            let tile = param.name.name.strip_suffix("_map");
            if let Some(tile) = tile.filter(|tile| kernel.params.iter().any(|param| param.name.name == **tile)) {
                let used = self.scopes.iter().flatten().any(|local| local.used && local.name.name == param.name.name);
                self.mention(&param.name.name);
                if used {
                    self.mention(tile);
                }
            }
        }
    }

    fn function(&mut self, function: &'t Function) {
        self.open(Some(&function.name));
        function.generics.iter().flat_map(|generic| &generic.constant).for_each(|ty| self.ty(ty));
        for param in &function.params {
            self.ty(&param.ty);
            let reference = matches!(param.ty.kind, TypeKind::Ref(true, _));
            self.declare(&param.name, UnusedKind::Variable, reference);
        }
        function.result.iter().for_each(|ty| self.ty(ty));
        self.block(&function.body);
        self.close(true);
    }

    fn open(&mut self, owner: Option<&'t Ident>) {
        self.owners.extend(owner);
        self.scopes.push(Vec::new());
    }

    fn close(&mut self, owned: bool) {
        let owner = self.owners.last().copied();
        for local in self.scopes.pop().unwrap_or_default() {
            if local.used || !is_reported(local.name) {
                continue;
            }
            self.found.push(match (local.kind, owner) {
                (UnusedKind::Variable, Some(owner)) => {
                    Unused { name: local.name.clone(), kind: local.kind, owner: owner.clone() }
                }
                _ => helper(local.name),
            });
        }
        if owned {
            self.owners.pop();
        }
    }

    fn declare(&mut self, name: &'t Ident, kind: UnusedKind, reference: bool) {
        let depth = self.owners.len();
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(Local { name, kind, depth, reference, used: false });
        }
    }

    /// The name of a body that is meant here.
    fn local(&mut self, name: &str) -> Option<&mut Local<'t>> {
        let depth = self.owners.len();
        let visible = |local: &&mut Local<'t>| {
            local.name.name == name && (local.depth == depth || local.kind == UnusedKind::Function)
        };
        self.scopes.iter_mut().rev().find_map(|scope| scope.iter_mut().rev().find(visible))
    }

    fn mention(&mut self, name: &'t str) {
        match self.local(name) {
            Some(local) => local.used = true,
            None => drop(self.mentions.insert(name)),
        }
    }

    fn pattern(&mut self, pattern: &'t Pattern) {
        match pattern {
            Pattern::Name(name, _) => self.declare(name, UnusedKind::Variable, false),
            Pattern::Tuple(parts, _) => parts.iter().for_each(|part| self.pattern(part)),
            Pattern::Struct(path, fields, _, _) => {
                self.path(path);
                fields.iter().for_each(|(_, part)| self.pattern(part));
            }
            Pattern::Wild(_) => {}
        }
    }

    fn block(&mut self, block: &'t Block) {
        self.open(None);
        for stmt in &block.stmts {
            if let StmtKind::Function(function) = &stmt.kind {
                self.declare(&function.name, UnusedKind::Function, false);
            }
        }
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
        self.close(false);
    }

    fn stmt(&mut self, stmt: &'t Stmt) {
        match &stmt.kind {
            StmtKind::Let(item) => self.declaration(item),
            StmtKind::Expr(expr, _) => self.expr(expr),
            StmtKind::Ptx(ptx) => self.ptx(ptx),
            StmtKind::Assert(condition, _) | StmtKind::Annotation(_, condition) => self.expr(condition),
            StmtKind::Const(item) => {
                self.ty(&item.ty);
                self.expr(&item.value);
            }
            StmtKind::Static(item) => {
                self.ty(&item.ty);
                item.value.iter().for_each(|value| self.expr(value));
            }
            StmtKind::Function(function) => self.function(function),
            StmtKind::Struct(item) => item.fields.iter().for_each(|field| self.ty(&field.ty)),
            StmtKind::Impl(item) => {
                self.ty(&item.target);
                item.consts.iter().for_each(|item| self.expr(&item.value));
                item.functions.iter().for_each(|function| self.function(function));
            }
            StmtKind::Unreachable | StmtKind::Error => {}
        }
    }

    fn declaration(&mut self, item: &'t Let) {
        item.memory.iter().flat_map(|memory| &memory.align).for_each(|align| self.expr(align));
        item.ty.iter().for_each(|ty| self.ty(ty));
        item.init.iter().for_each(|init| self.expr(init));
        self.pattern(&item.pattern);
    }

    /// Every word of a block may be a name.
    fn ptx(&mut self, ptx: &'t Ptx) {
        let source = &ptx.source;
        let words = (0..source.tokens.len() as TokenId).filter(|token| source.kind(*token) == Kind::Word);
        words.for_each(|token| self.mention(source.text(token)));
    }

    fn ty(&mut self, ty: &'t Type) {
        match &ty.kind {
            TypeKind::Path(path) => self.path(path),
            TypeKind::Array(element, len) => {
                self.ty(element);
                self.expr(len);
            }
            TypeKind::Slice(inner) | TypeKind::Ref(_, inner) => self.ty(inner),
            TypeKind::Tuple(parts) => parts.iter().for_each(|part| self.ty(part)),
            TypeKind::Error => {}
        }
    }

    fn path(&mut self, path: &'t Path) {
        match path.segments.as_slice() {
            [name] => self.mention(&name.name),
            names => self.mentions.extend(names.iter().map(|name| name.name.as_str())),
        }
        path.args.iter().chain(&path.owner_args).for_each(|arg| self.argument(arg));
    }

    fn argument(&mut self, arg: &'t GenericArg) {
        match arg {
            GenericArg::Type(ty) => self.ty(ty),
            GenericArg::Const(expr) => self.expr(expr),
        }
    }

    fn exprs(&mut self, exprs: &'t [Expr]) {
        exprs.iter().for_each(|expr| self.expr(expr));
    }

    fn expr(&mut self, expr: &'t Expr) {
        match &expr.kind {
            ExprKind::Path(path) => self.path(path),
            ExprKind::Field(inner, _)
            | ExprKind::Unary(_, inner)
            | ExprKind::Ref(_, inner)
            | ExprKind::Deref(inner) => {
                self.expr(inner);
            }
            ExprKind::Index(a, b) | ExprKind::Binary(_, _, a, b) | ExprKind::Repeat(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Range(from, to, _) => from.iter().chain(to).for_each(|end| self.expr(end)),
            ExprKind::Assign(target, value) | ExprKind::AssignOp(_, _, target, value) => {
                self.expr(value);
                self.target(target);
            }
            ExprKind::Cast(inner, ty) => {
                self.expr(inner);
                self.ty(ty);
            }
            ExprKind::Call(callee, args) => {
                self.expr(callee);
                self.exprs(args);
            }
            ExprKind::Method(receiver, name, generics, args) => {
                self.expr(receiver);
                self.mentions.insert(&name.name);
                generics.iter().for_each(|arg| self.argument(arg));
                self.exprs(args);
            }
            ExprKind::Array(items) | ExprKind::Tuple(items) => self.exprs(items),
            ExprKind::Struct(path, fields, base) => {
                self.path(path);
                fields.iter().for_each(|(_, value)| self.expr(value));
                base.iter().for_each(|base| self.expr(base));
            }
            ExprKind::Return(value) => value.iter().for_each(|value| self.expr(value)),
            ExprKind::Int(..) | ExprKind::Float(..) | ExprKind::Bool(_) | ExprKind::Str(_) => {}
            ExprKind::Break(_) | ExprKind::Continue(_) | ExprKind::Error => {}
            _ => self.flow(expr),
        }
    }

    fn flow(&mut self, expr: &'t Expr) {
        match &expr.kind {
            ExprKind::If(condition, then, otherwise) => {
                self.expr(condition);
                self.block(then);
                otherwise.iter().for_each(|expr| self.expr(expr));
            }
            ExprKind::Match(matched, arms) => {
                self.expr(matched);
                for arm in arms {
                    self.exprs(&arm.values);
                    self.expr(&arm.body);
                }
            }
            ExprKind::While(_, condition, body) => {
                self.expr(condition);
                self.block(body);
            }
            ExprKind::Loop(_, body) | ExprKind::Block(_, body) => self.block(body),
            ExprKind::For(_, pattern, items, body) => {
                self.expr(items);
                self.open(None);
                self.pattern(pattern);
                self.block(body);
                self.close(false);
            }
            _ => {}
        }
    }

    /// A place that is assigned: that alone is no use of a register.
    fn target(&mut self, target: &'t Expr) {
        match &target.kind {
            ExprKind::Path(path) => {
                let [name] = path.segments.as_slice() else { return self.path(path) };
                if self.local(&name.name).is_none_or(|local| local.reference) {
                    self.mention(&name.name);
                }
            }
            ExprKind::Field(base, _) => self.target(base),
            ExprKind::Index(base, index) => {
                self.expr(index);
                self.target(base);
            }
            ExprKind::Tuple(targets) => targets.iter().for_each(|target| self.target(target)),
            _ => self.expr(target),
        }
    }
}

//! Module level: header, variables, functions, in order; a name must be declared before it is used.

use super::body::{Body, index};
use super::form::Forms;
use super::names::{Entity, Names, Ranged};
use super::variable::Declared;
use super::{Options, header, redeclared, report, variable};
use crate::diag::Diagnostic;
use crate::hash::Set;
use crate::ir::{FuncId, Function, Limit, Module, Param, Space, VarId, Variable};
use crate::isa::{Version, table};
use crate::syntax::{self, Directive, Stmt, StmtId, StmtKind, Tree};

/// State of the lowering.
pub(super) struct Context<'t> {
    pub(super) tree: &'t Tree,
    pub(super) names: Names<'t>,
    pub(super) module: Module,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) forms: Forms<'t>,
    /// The variables of the statement that is read, which their initial values may name, in front of their declaration.
    pub(super) declaring: Vec<(&'t str, VarId)>,
    /// Registers and `.local` variables that stand outside of functions.
    shared: Shared<'t>,
}

#[derive(Default)]
struct Shared<'t> {
    registers: Vec<&'t syntax::Var>,
    locals: Vec<VarId>,
}

pub(super) fn lower(tree: &Tree, options: &Options) -> (Module, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let module = header::read(tree, options, &mut diagnostics);
    let mut cx = Context {
        tree,
        names: Names::default(),
        module,
        diagnostics,
        forms: Forms::default(),
        declaring: Vec::new(),
        shared: Shared::default(),
    };
    cx.names.open();
    for id in &tree.items {
        cx.item(*id);
    }
    cx.module.shares_locals = !cx.shared.registers.is_empty() || !cx.shared.locals.is_empty();
    (cx.module, cx.diagnostics)
}

impl<'t> Context<'t> {
    fn item(&mut self, id: StmtId) {
        let stmt = self.tree.stmt(id);
        match &stmt.kind {
            StmtKind::Var(var) if self.declares_registers(var) => self.shared.registers.push(var),
            StmtKind::Var(var) => {
                for Declared { token, range, mut variables } in variable::variables(self, var) {
                    match (range, variables.pop()) {
                        (false, Some(only)) => self.module_variable(token, only),
                        (true, Some(last)) => {
                            let count = variables.len() as u64 + 1;
                            let first = VarId(index(self.module.variables.len()));
                            self.module.variables.extend(variables.into_iter().chain([last]));
                            self.declare_variables(token, count, first);
                        }
                        (_, None) => {}
                    }
                }
            }
            StmtKind::Func(func) => self.function(stmt, func),
            StmtKind::Directive(d) => self.diagnostics.extend(report::misplaced(self.tree, d.name, "module")),
            StmtKind::Data(line) => self.diagnostics.push(report::no_space(self.tree, line.name)),
            StmtKind::Empty => self.diagnostics.push(report::lone_semicolon(self.tree.span(&stmt.head))),
            _ => {}
        }
    }

    /// Returns true for registers outside of functions, which PTX has before 3.0.
    fn declares_registers(&self, var: &syntax::Var) -> bool {
        self.tree.source.text(var.space) == ".reg" && self.module.version < Version { major: 3, minor: 0 }
    }

    pub(super) fn add_variable(&mut self, variable: Variable) -> VarId {
        self.module.variables.push(variable);
        VarId(index(self.module.variables.len() - 1))
    }

    /// Gives a function the registers and `.local` variables that stand outside of functions.
    fn share(body: &mut Body<'_, 't>) {
        let (registers, locals) = (body.cx.shared.registers.clone(), body.cx.shared.locals.clone());
        registers.into_iter().for_each(|var| body.registers(var));
        body.function.variables.extend(locals);
    }

    /// `x<4>`: the variables `x0` to `x3`.
    pub(super) fn declare_variables(&mut self, token: u32, count: u64, first: VarId) {
        let (name, span) = (self.tree.source.text(token), self.tree.source.span(token));
        if let Some(earlier) = self.names.declare_range(name, count, Ranged::Variables(first), span) {
            self.diagnostics.push(report::duplicate(name, span, earlier));
        }
    }

    /// Names that nothing can have.
    pub(super) fn reserved(&mut self, token: u32) {
        let (name, span) = (self.tree.source.text(token), self.tree.source.span(token));
        if matches!(name, "_" | "WARP_SZ") {
            self.diagnostics.push(report::reserved(name, span));
        }
    }

    /// Names of special registers are taken in every module; in a function, a name may hide them.
    fn reserved_outside(&mut self, token: u32) {
        self.reserved(token);
        let (name, span) = (self.tree.source.text(token), self.tree.source.span(token));
        if table().specials.contains_key(name) {
            self.diagnostics.push(report::reserved(name, span));
        }
    }

    /// A variable may be declared `.extern` and then defined. ptxas compares all but the state space.
    fn module_variable(&mut self, token: u32, variable: Variable) {
        let (name, span) = (self.tree.source.text(token), self.tree.source.span(token));
        if let Some(Entity::Var(earlier)) = self.names.find(name, &mut Vec::new())
            && let Some(slot) = self.module.variables.get_mut(earlier.index())
            && (slot.linkage == Some("extern") || variable.linkage == Some("extern"))
        {
            let hidden = slot.linkage == Some("extern") && variable.linkage.is_none();
            if hidden || !redeclared::same_variable(slot, &variable) {
                self.diagnostics.push(report::other_variable(name, hidden, span, slot.span));
            }
            // A declaration without a size takes none away.
            let says_less = variable.linkage == slot.linkage && variable.dims.contains(&0);
            if slot.linkage == Some("extern") && !says_less {
                *slot = variable;
            }
            return;
        }
        self.reserved_outside(token);
        let local = variable.space == Space::Local;
        let id = self.add_variable(variable);
        if local {
            self.shared.locals.push(id);
        }
        if let Some(earlier) = self.names.declare(name, Entity::Var(id), span) {
            self.diagnostics.push(report::duplicate(name, span, earlier));
        }
    }

    /// A declaration in a body is one of the module, but what has a body cannot be declared there again.
    pub(super) fn function_in_body(&mut self, stmt: &'t Stmt, func: &'t syntax::Func) {
        let Some(name) = func.name else { return };
        let (text, span) = (self.tree.source.text(name), self.tree.source.span(name));
        let earlier = match self.names.find(text, &mut Vec::new()) {
            Some(Entity::Func(id)) => self.module.functions.get(id.index()).filter(|f| f.defined),
            _ => None,
        };
        match earlier {
            Some(earlier) => self.diagnostics.push(report::duplicate(text, span, earlier.span)),
            None => self.function(stmt, func),
        }
    }

    fn function(&mut self, stmt: &'t Stmt, func: &'t syntax::Func) {
        let Some(name) = func.name else { return };
        self.reserved_outside(name);
        let (text, span) = (self.tree.source.text(name), self.tree.source.span(name));
        let id = self.declare_function(text, name, func.has_body);
        let mut body = Body { function: self.signature(func, text, span), ahead: Set::default(), cx: self };
        body.cx.names.open();
        Self::share(&mut body);
        body.cx.names.open();
        body.function.returns = params(&mut body, &func.returns);
        body.function.params = params(&mut body, &func.params);
        if func.has_body {
            body.scope(stmt.children());
        }
        let mut function = body.function;
        function.declared = true;
        self.names.close();
        self.names.close();
        let earlier = id.and_then(|id| self.module.functions.get(id.index())).filter(|f| f.declared);
        self.diagnostics.extend(earlier.and_then(|earlier| redeclared::check(earlier, &function, &self.module)));
        let stays = earlier.and_then(|earlier| earlier.linkage).filter(|linkage| *linkage != "extern");
        function.linkage = function.linkage.or(stays);
        if let Some(slot) = id.and_then(|i| self.module.functions.get_mut(i.index()))
            && (func.has_body || !slot.defined)
        {
            *slot = function;
        }
    }

    /// The function's id: a prototype and its definition share one.
    fn declare_function(&mut self, text: &'t str, token: u32, has_body: bool) -> Option<FuncId> {
        let span = self.tree.source.span(token);
        match self.names.find(text, &mut Vec::new()) {
            Some(Entity::Func(id)) => {
                let earlier = self.module.functions.get(id.index())?;
                if earlier.defined && has_body {
                    self.diagnostics.push(report::duplicate(text, span, earlier.span));
                    return None;
                }
                Some(id)
            }
            Some(_) => {
                self.diagnostics.push(report::duplicate(text, span, span));
                None
            }
            None => {
                let id = FuncId(index(self.module.functions.len()));
                self.module.functions.push(empty(text, span));
                self.names.declare_outside(text, Entity::Func(id), span);
                Some(id)
            }
        }
    }

    fn signature(&self, func: &syntax::Func, name: &str, span: crate::span::Span) -> Function {
        Function {
            entry: self.tree.source.text(func.keyword) == ".entry",
            linkage: func.linkage.and_then(|l| variable::linkage(self.tree.source.text(l))),
            variadic: func.variadic,
            limits: func.directives.iter().chain(&func.attributes).map(|d| self.limit(d)).collect(),
            defined: func.has_body,
            ..empty(name, span)
        }
    }

    fn limit(&self, directive: &Directive) -> Limit {
        let args = self.tree.list(&directive.args);
        let values = args.iter().filter_map(|a| super::constant::integer(self.tree, *a));
        Limit {
            name: self.tree.source.text(directive.name).trim_start_matches('.').to_owned(),
            values: values.map(i64::cast_unsigned).collect(),
            span: self.tree.source.span(directive.name),
        }
    }
}

fn params<'t>(body: &mut Body<'_, 't>, vars: &'t [syntax::Var]) -> Vec<Param> {
    let mut out = Vec::new();
    for var in vars {
        if body.cx.tree.names(var).is_empty() {
            let span = body.cx.tree.source.span(var.space);
            body.cx.diagnostics.push(report::no_parameter_name(span));
        }
        if body.cx.tree.source.text(var.space) == ".reg" {
            let Some((ty, vector)) = variable::register_type(body.cx, var) else { continue };
            let align = variable::register_align(body.cx, var, ty, vector);
            let span = body.cx.tree.source.span(var.ty.unwrap_or(var.space));
            body.cx.diagnostics.extend(report::register_shape(ty, vector, span));
            for name in body.cx.tree.names(var) {
                let (text, span) = (body.cx.tree.source.text(name.name), body.cx.tree.source.span(name.name));
                let register = crate::ir::Register { name: text.to_owned(), ty, vector, align, span };
                out.push(body.register_param(name.name, register));
            }
            continue;
        }
        for Declared { token, variables, .. } in variable::variables(body.cx, var) {
            for variable in variables {
                let id = body.cx.add_variable(variable);
                out.push(Param::Var(id));
                match body.cx.tree.source.text(token) {
                    "_" if body.function.entry => {}
                    "_" => body.cx.diagnostics.push(report::no_parameter_name(body.cx.tree.source.span(token))),
                    _ => {
                        body.cx.reserved(token);
                        body.declare(token, Entity::Var(id));
                    }
                }
            }
        }
    }
    out
}

fn empty(name: &str, span: crate::span::Span) -> Function {
    Function {
        name: name.to_owned(),
        entry: false,
        linkage: None,
        returns: Vec::new(),
        params: Vec::new(),
        variadic: false,
        limits: Vec::new(),
        registers: Vec::new(),
        variables: Vec::new(),
        labels: Vec::new(),
        prototypes: Vec::new(),
        annotations: Vec::new(),
        targets: Vec::new(),
        insts: Vec::new(),
        operand_spans: Vec::new(),
        defined: false,
        declared: false,
        span,
    }
}

//! A function's body: scopes, declarations, labels, instructions.

use super::bind::{self, Binder, Mismatch, Why};
use super::form::Candidate;
use super::module::Context;
use super::names::{Entity, Ranged};
use super::variable::Declared;
use super::{constant, header, report, variable};
use crate::diag::Diagnostic;
use crate::hash::Set;
use crate::ir::{
    Base, Function, Guard, Inst, Label, LabelId, Operand, Param, ProtoId, RegId, Register, Symbol, TargetsId, VarId,
};
use crate::isa::rule::Rule;
use crate::isa::{self, Class, Member, OperandKind, Range, Row, SpaceOf, TypeOf, Version};
use crate::lower::rule::{Broken, Case};
use crate::span::Span;
use crate::syntax::{self, ExprId, ExprKind, Stmt, StmtId, StmtKind, Tokens};
use std::borrow::Cow;
use std::sync::Arc;

/// A function being lowered.
pub(super) struct Body<'c, 't> {
    pub(super) cx: &'c mut Context<'t>,
    pub(super) function: Function,
    /// Lists and prototypes whose labels stand further down.
    pub(super) ahead: Set<Entity>,
}

/// The resolved form of an instruction.
struct Bound {
    row: &'static Row,
    slots: Arc<[Option<&'static Member>]>,
    /// Its operands, if they are not as written.
    made: Option<Vec<Operand>>,
}

/// Why a form was not taken; the later the stage, the nearer the miss.
#[derive(Clone, Debug)]
pub(super) enum Refused {
    Operands(Mismatch),
    Rule(&'static Rule),
    /// A rule about targets or versions.
    RuleGate(&'static Rule),
    /// The row's own gate.
    Gate,
    /// The gate of the member in this slot.
    MemberGate(usize),
}

impl Refused {
    /// The literals that were wanted at an operand, if that is why.
    pub(super) fn range(&self, operand: usize) -> Option<Range> {
        match self {
            Refused::Operands(Mismatch { operand: at, why: Why::Range(range) }) if *at == operand => Some(*range),
            _ => None,
        }
    }
}

impl<'t> Body<'_, 't> {
    /// The statements of one scope.
    pub(super) fn scope(&mut self, statements: &'t [StmtId]) {
        self.labels(statements);
        let mut label = None;
        for id in statements {
            let stmt = self.cx.tree.stmt(*id);
            self.labeled(stmt, label);
            self.statement(stmt);
            label = if let StmtKind::Label(name) = &stmt.kind { Some(name) } else { None };
        }
    }

    /// Statements that need the label before them.
    fn labeled(&mut self, stmt: &'t Stmt, label: Option<&'t Tokens>) {
        let tree = self.cx.tree;
        let list = match &stmt.kind {
            StmtKind::Prototype(_) => None,
            StmtKind::Directive(d) if is_targets(tree.source.text(d.name)) => Some(d),
            _ => return,
        };
        let Some(label) = label else {
            self.cx.diagnostics.push(report::no_label(tree.span(&stmt.head)));
            return;
        };
        let entity = self.cx.names.find(tree.source.text(label.start), &mut self.function.registers);
        if let Some(entity) = entity {
            self.ahead.remove(&entity);
        }
        let targets = list.map(|list| self.targets(list));
        if let (Some(Entity::Targets(id)), Some(targets)) = (entity, targets)
            && let Some(slot) = self.function.targets.get_mut(id.index())
        {
            *slot = targets;
        }
    }

    fn statement(&mut self, stmt: &'t Stmt) {
        match &stmt.kind {
            StmtKind::Inst(inst) => self.instruction(stmt, inst),
            StmtKind::Label(name) => self.label(name),
            StmtKind::Var(var) => self.variable(var),
            StmtKind::Block => {
                self.cx.names.open();
                self.scope(stmt.children());
                self.cx.names.close();
            }
            StmtKind::Directive(directive) => {
                if !header::repeats_target(self.cx.tree, directive) {
                    self.cx.diagnostics.extend(report::misplaced(self.cx.tree, directive.name, "body"));
                }
                self.annotations(directive);
            }
            StmtKind::Data(line) => self.cx.diagnostics.push(report::no_space(self.cx.tree, line.name)),
            StmtKind::Dwarf => self.cx.diagnostics.push(report::dwarf_in_body(self.cx.tree.span(&stmt.head))),
            StmtKind::Func(func) => self.cx.function_in_body(stmt, func),
            StmtKind::Prototype(_) | StmtKind::Section(_) | StmtKind::Empty | StmtKind::Error => {}
        }
    }

    /// Declares the labels of a scope before its instructions are read: a branch may go forward.
    fn labels(&mut self, statements: &'t [StmtId]) {
        let tree = self.cx.tree;
        for (at, id) in statements.iter().enumerate() {
            let StmtKind::Label(name) = &tree.stmt(*id).kind else { continue };
            let next = statements.get(at + 1).map(|n| tree.stmt(*n));
            let entity = match next.map(|n| &n.kind) {
                Some(StmtKind::Prototype(p)) => self.prototype(name, p),
                Some(StmtKind::Directive(d)) if is_targets(tree.source.text(d.name)) => {
                    self.function.targets.push(Vec::new());
                    Entity::Targets(TargetsId(index(self.function.targets.len() - 1)))
                }
                _ => self.new_label(name),
            };
            if !matches!(entity, Entity::Label(_)) {
                self.ahead.insert(entity);
            }
            self.declare(name.start, entity);
        }
    }

    fn new_label(&mut self, name: &Tokens) -> Entity {
        let (name, span) = (self.cx.tree.compact(name), self.cx.tree.span(name));
        self.function.labels.push(Label { name, at: u32::MAX, span });
        Entity::Label(LabelId(index(self.function.labels.len() - 1)))
    }

    fn prototype(&mut self, name: &Tokens, prototype: &'t syntax::Prototype) -> Entity {
        let signature = variable::signature(self.cx, name, prototype);
        self.function.prototypes.push(signature);
        Entity::Proto(ProtoId(index(self.function.prototypes.len() - 1)))
    }

    pub(super) fn declare(&mut self, token: u32, entity: Entity) {
        let (name, span) = (self.cx.tree.source.text(token), self.cx.tree.source.span(token));
        if let Some(earlier) = self.cx.names.declare(name, entity, span) {
            self.cx.diagnostics.push(report::duplicate(name, span, earlier));
        }
    }

    fn label(&mut self, name: &Tokens) {
        if name.len() > 1 {
            self.cx.diagnostics.push(report::dots_in_a_label(self.cx.tree.span(name)));
        }
        self.cx.reserved(name.start);
        let at = index(self.function.insts.len());
        self.function
            .annotations
            .iter_mut()
            .rev()
            .take_while(|one| one.at == at)
            .for_each(|one| one.is_before_label = true);
        let name = self.cx.tree.source.text(name.start);
        if let Some(Entity::Label(id)) = self.cx.names.named(name)
            && let Some(label) = self.function.labels.get_mut(id.index())
        {
            label.at = label.at.min(at);
        }
    }

    /// `.branchtargets a, b<4>;`
    fn targets(&mut self, directive: &'t syntax::Directive) -> Vec<Operand> {
        let tree = self.cx.tree;
        let labels = tree.source.text(directive.name) == ".branchtargets";
        let mut targets = Vec::new();
        for id in tree.list(&directive.args) {
            let expr = tree.expr(*id);
            let found = match expr.kind {
                ExprKind::Range(prefix, count) => self.range_of_targets(prefix, count),
                _ => vec![self.operand(*id)],
            };
            let fits = |o: &Operand| match o {
                Operand::Label(_) => labels,
                Operand::Func(_) => !labels,
                _ => *o == Operand::Error,
            };
            if !found.iter().all(fits) {
                self.cx.diagnostics.push(report::not_a_target(labels, tree.span(&expr.tokens)));
            }
            targets.extend(found);
        }
        targets
    }

    /// `b<4>`: `b0` to `b3`, up to the first that nothing declares.
    fn range_of_targets(&mut self, prefix: ExprId, count: ExprId) -> Vec<Operand> {
        let tree = self.cx.tree;
        let tokens = tree.expr(prefix).tokens;
        let mut found = Vec::new();
        for number in 0..constant::integer(tree, count).unwrap_or(0) {
            let name = format!("{}{number}", tree.source.text(tokens.start));
            match self.cx.names.named(&name) {
                _ if self.cx.names.is_in_range(&name) => found.push(Operand::Sink),
                Some(entity) => found.push(self.entity(entity, None, prefix)),
                None => {
                    let hint = self.cx.names.hint(&name);
                    self.cx.diagnostics.push(report::unknown_name(&name, hint, tree.span(&tokens)));
                    found.push(Operand::Error);
                    break;
                }
            }
        }
        found
    }

    fn variable(&mut self, var: &'t syntax::Var) {
        let tree = self.cx.tree;
        if tree.source.text(var.space) == ".reg" {
            return self.registers(var);
        }
        for Declared { token, range, variables } in variable::variables(self.cx, var) {
            let count = variables.len() as u64;
            let ids: Vec<VarId> = variables.into_iter().map(|v| self.cx.add_variable(v)).collect();
            match self.lists_parameters() && tree.source.text(var.space) == ".param" {
                true => self.function.params.extend(ids.iter().copied().map(Param::Var)),
                false => self.function.variables.extend(&ids),
            }
            let Some(first) = ids.first() else { continue };
            self.cx.reserved(token);
            match range {
                true => self.cx.declare_variables(token, count, *first),
                false => self.declare(token, Entity::Var(*first)),
            }
        }
    }

    /// Returns true if the body declares the parameters: an entry has a list of them from PTX 1.4 on.
    fn lists_parameters(&self) -> bool {
        self.function.entry && self.cx.module.version < Version { major: 1, minor: 4 }
    }

    /// `.reg .v2 .b32 a, %r<5>;`
    pub(super) fn registers(&mut self, var: &'t syntax::Var) {
        let Some((ty, vector)) = variable::register_type(self.cx, var) else { return };
        let span = self.cx.tree.source.span(var.ty.unwrap_or(var.space));
        self.cx.diagnostics.extend(report::register_shape(ty, vector, span));
        let align = variable::register_align(self.cx, var, ty, vector);
        for name in self.cx.tree.names(var) {
            self.cx.diagnostics.extend(report::no_register(self.cx.tree, name));
            self.cx.reserved(name.name);
            let (text, span) = (self.cx.tree.source.text(name.name), self.cx.tree.source.span(name.name));
            match name.count {
                Some(count) => {
                    let count = constant::integer(self.cx.tree, count).and_then(|n| u64::try_from(n).ok());
                    let Some(count) = count else {
                        self.cx.diagnostics.push(report::not_constant(span));
                        continue;
                    };
                    if let Some(earlier) =
                        self.cx.names.declare_range(text, count, Ranged::Registers(ty, vector, align), span)
                    {
                        self.cx.diagnostics.push(report::duplicate(text, span, earlier));
                    }
                }
                None => {
                    let register = self.add_register(Register { name: text.to_owned(), ty, vector, align, span });
                    self.declare(name.name, register);
                }
            }
        }
    }

    fn add_register(&mut self, register: Register) -> Entity {
        self.function.registers.push(register);
        Entity::Reg(RegId(index(self.function.registers.len() - 1)))
    }

    /// A parameter in a register (of a `.func`).
    pub(super) fn register_param(&mut self, token: u32, register: Register) -> Param {
        if register.name != "_" {
            self.cx.reserved(token);
        }
        let entity = self.add_register(register);
        self.declare(token, entity);
        Param::Reg(RegId(index(self.function.registers.len() - 1)))
    }

    fn instruction(&mut self, stmt: &'t Stmt, inst: &'t syntax::Inst) {
        let tree = self.cx.tree;
        let guard = inst.guard.and_then(|g| self.guard(g));
        let operands = self.operands(&inst.operands);
        let name_span = tree.span(&(inst.opcode..inst.modifiers.end.max(inst.opcode + 1)));
        let spans = index(self.function.operand_spans.len());
        self.function.operand_spans.extend(tree.list(&inst.operands).iter().map(|e| tree.span(&tree.expr(*e).tokens)));
        let unchecked = tree.source.unchecked.iter().any(|r| r.contains(&inst.opcode));
        let bound = (!unchecked).then(|| self.bind(inst, &operands, name_span, spans)).flatten();
        let (row, slots, made) = bound.map_or((None, Arc::default(), None), |b| (Some(b.row), b.slots, b.made));
        let operands = match made {
            Some(made) => self.spread(made, spans),
            None => operands,
        };
        let span = tree.span(&stmt.head);
        let inst = Inst { row, slots, guard, operands, span, name_span, spans };
        self.function.insts.push(inst);
    }

    /// Brings the spans of written operands, the last from `first` on, into the order of the bound ones.
    fn spread(&mut self, bound: Vec<Operand>, first: u32) -> Vec<Operand> {
        let all = &mut self.function.operand_spans;
        if all.len() - first as usize != bound.len() {
            let written = all.split_off(first as usize);
            let mut written = written.into_iter();
            let place = |o: &Operand| match o {
                Operand::Absent => Span::default(),
                _ => written.next().unwrap_or_default(),
            };
            all.extend(bound.iter().map(place));
        }
        bound
    }

    fn guard(&mut self, guard: syntax::Guard) -> Option<Guard> {
        let (name, span) = (self.cx.tree.source.text(guard.register), self.cx.tree.source.span(guard.register));
        match self.cx.names.find(name, &mut self.function.registers) {
            Some(Entity::Reg(register)) => {
                let ty = self.function.registers.get(register.index()).map(|r| r.ty);
                if let Some(ty) = ty.filter(|t| t.class() != Class::Pred) {
                    self.cx.diagnostics.push(report::guard_type(name, ty, span));
                }
                Some(Guard { register, negated: guard.negated })
            }
            Some(_) => {
                self.cx.diagnostics.push(report::guard_name(name, span));
                None
            }
            None => {
                let hint = self.cx.names.hint(name);
                self.cx.diagnostics.push(report::unknown_name(name, hint, span));
                None
            }
        }
    }

    /// The form an instruction has and its operands in the form's order; `None` after an error.
    fn bind(&mut self, inst: &'t syntax::Inst, operands: &[Operand], name_span: Span, spans: u32) -> Option<Bound> {
        let found = self.cx.forms.find(self.cx.tree, inst, &self.cx.module);
        let candidates = match &*found {
            Ok(candidates) => candidates,
            Err(misfits) => {
                let diagnostic = report::misfit(self.cx.tree, inst, misfits, name_span);
                self.cx.diagnostics.push(diagnostic);
                return None;
            }
        };
        let mut refused = Vec::new();
        for candidate in candidates {
            match self.try_form(candidate, operands) {
                Ok(bound) => {
                    let form = &candidate.form;
                    self.cx.diagnostics.extend(report::torn(self.cx.tree, inst, form, name_span));
                    self.doubts(inst, candidate, &bound, name_span);
                    if addresses(operands) < addresses(&bound) {
                        self.cx.diagnostics.push(report::address_without_brackets(form.row, name_span));
                    }
                    return Some(Bound { row: form.row, slots: Arc::clone(&form.slots), made: bind::made(bound) });
                }
                Err(why) => refused.push((&candidate.form, why)),
            }
        }
        let place = report::Place {
            tree: self.cx.tree,
            inst,
            name: name_span,
            operands: self.function.operand_spans.get(spans as usize..).unwrap_or_default(),
            written: operands,
            registers: &self.function.registers,
        };
        let (arch, version) = (self.cx.module.arch, self.cx.module.version);
        let diagnostic = report::refused(&place, &refused, arch, version);
        self.cx.diagnostics.push(diagnostic);
        None
    }

    /// Forms that ptxas accepts and the manual does not have.
    fn doubts(&mut self, inst: &syntax::Inst, candidate: &Candidate, operands: &[Operand], name: Span) {
        let form = &candidate.form;
        if form.reordered {
            self.cx.diagnostics.push(report::order(form, name));
        }
        self.cx.diagnostics.extend(form.idle.map(|at| report::idle(self.cx.tree, inst, form, at)));
        let module = &self.cx.module;
        let case = Case { form, operands, options: &module.options, arch: module.arch, version: module.version };
        let broken = candidate.open.iter().find(|rule| rule.lax && rule.holds(&case).is_err());
        let doubt = broken.map(|rule| report::undocumented(form.row, rule, name));
        self.cx.diagnostics.extend(doubt);
        for (at, (spec, operand)) in form.row.operands.iter().zip(operands).enumerate() {
            self.cx.diagnostics.extend(match (&spec.kind, operand) {
                (OperandKind::Value(_), Operand::Func(_)) => Some(report::function_as_number(form.row, name)),
                (OperandKind::Memory { space, .. }, Operand::Memory { base, .. })
                    if self.is_handle(*base) && !matches!(space, SpaceOf::Register(_)) =>
                {
                    Some(report::handle_as_address(form.row, name))
                }
                (OperandKind::Value(_), Operand::Symbol(_, ..=-1 | 1..)) if takes_symbols(form.row, at) => None,
                (OperandKind::Value(_), Operand::Sum(..) | Operand::Symbol(_, ..=-1 | 1..)) => {
                    Some(report::sum_as_number(form.row, name))
                }
                (OperandKind::Value(value), Operand::Reg(register))
                    if matches!(value.ty, TypeOf::Slot(_))
                        && value.ty.given(&form.slots).is_some_and(|ty| ty.class() == Class::Pred)
                        && self.class_of(*register) == Some(Class::Packed) =>
                {
                    Some(report::halves_as_predicate(form.row, name))
                }
                (OperandKind::Value(_), Operand::Vector(elements)) if elements.iter().any(|e| self.is_predicate(e)) => {
                    Some(report::predicate_as_number(form.row, name))
                }
                (OperandKind::Value(value), Operand::F32(_)) if !value.literal => {
                    Some(report::number_as_register(form.row, name))
                }
                (OperandKind::Value(_), Operand::Part(..) | Operand::Vector(_)) => {
                    self.behind_vector(form.row, operand, name)
                }
                _ => None,
            });
        }
    }

    /// A component that a vector register does not have.
    fn behind_vector(&self, row: &Row, operand: &Operand, name: Span) -> Option<Diagnostic> {
        let elements = if let Operand::Vector(elements) = operand { elements } else { std::slice::from_ref(operand) };
        elements.iter().find_map(|element| {
            let Operand::Part(reg, selector) = element else { return None };
            let count = self.function.registers.get(reg.index()).map_or(1, |r| r.vector);
            let missing = count > 1 && !bind::has_component(count, selector);
            missing.then(|| report::component_behind(row, selector, count, name))
        })
    }

    /// Returns true for the name of a texture, sampler or surface.
    fn is_handle(&self, base: Base) -> bool {
        let Some(Symbol::Var(var)) = base.symbol() else { return false };
        self.cx.module.variables.get(var.index()).is_some_and(|v| v.ty.class() == Class::Opaque)
    }

    fn is_predicate(&self, operand: &Operand) -> bool {
        matches!(operand, Operand::Reg(register) if self.class_of(*register) == Some(Class::Pred))
    }

    fn class_of(&self, register: RegId) -> Option<Class> {
        self.function.registers.get(register.index()).map(|r| r.ty.class())
    }

    fn try_form<'o>(&self, candidate: &Candidate, operands: &'o [Operand]) -> Result<Cow<'o, [Operand]>, Refused> {
        let (form, module) = (&candidate.form, &self.cx.module);
        let entry_params = if self.function.entry { &self.function.params[..] } else { &[] };
        let (registers, locals) = (&self.function.registers[..], &self.function.variables[..]);
        let binder = Binder { form, registers, module, entry_params, locals };
        let (arch, version) = (module.arch, module.version);
        let rules = |operands: &[Operand]| {
            let case = Case { form, operands, options: &module.options, arch, version };
            candidate.open.iter().try_for_each(|rule| {
                rule.check(&case).map_err(|broken| match broken {
                    Broken::Form => Refused::Rule(rule),
                    Broken::Gate => Refused::RuleGate(rule),
                })
            })
        };
        let (bound, allowed) = binder.bind(operands, rules).map_err(Refused::Operands)?;
        allowed?;
        candidate.gate.clone().map_or(Ok(bound), Err)
    }
}

/// Number of addresses in brackets.
fn addresses(operands: &[Operand]) -> usize {
    operands.iter().filter(|operand| matches!(operand, Operand::Memory { .. } | Operand::Element(..))).count()
}

fn is_targets(directive: &str) -> bool {
    directive == ".branchtargets" || directive == ".calltargets"
}

/// Indices fit: no source has four thousand million of anything.
pub(super) fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Returns true if another form of the instruction takes the address of a variable in this place, with a constant added.
fn takes_symbols(row: &'static Row, at: usize) -> bool {
    let symbol = |row: &Row| row.operands.get(at).is_some_and(|spec| matches!(spec.kind, OperandKind::Symbol(_)));
    isa::table().forms(row.opcode).iter().any(|other| other.name == row.name && symbol(other))
}

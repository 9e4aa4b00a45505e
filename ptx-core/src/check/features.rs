//! The gates of everything that is no instruction: directives, and features without a directive of their own, such as operators in initial values
//! and labels in sections. Their rows are the `directive` and `feature` lines of the table.

use super::banks::bank_number;
use super::debug::FIRST_WITH_INLINED_CODE;
use super::declarations::has_one_alone;
use crate::diag::Diagnostic;
use crate::ir::{Function, Inst, Module, Operand, Space, Symbol, Variable};
use crate::isa::{Class, DirectiveInfo, Gate, OperandKind, Type, Version, table};
use crate::span::Span;
use crate::syntax::{Directive, ExprId, ExprKind, Func, StmtKind, Tree, Var};
use crate::token::TokenId;

/// Something that begins with a version and a target.
struct Use<'a> {
    span: Span,
    /// Its name in PTX, or words for what has none.
    what: &'a str,
    gate: &'static Gate,
    /// The first version without it.
    until: Option<Version>,
    section: &'static str,
}

pub(super) fn check_features(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for Use { span, what, gate, until, section } in used(tree, module) {
        if let Some(until) = until.filter(|until| module.version >= *until) {
            out.push(crate::lower::gone(span, what, until, module.version).section(section));
        } else if !gate.admits(module.arch, module.version) {
            out.push(crate::lower::gate(span, what, gate, module.arch, module.version).section(section));
        }
    }
}

/// The lowest version that has all directives, features and types of a module on its target.
pub(super) fn lowest_version(tree: &Tree, module: &Module) -> Version {
    let since = |used: Use| used.gate.since(module.arch).unwrap_or(module.version);
    used(tree, module).into_iter().map(since).fold(Version { major: 1, minor: 0 }, Version::max)
}

fn is_vector(tree: &Tree, var: &Var) -> bool {
    tree.attributes(var).iter().any(|attribute| matches!(tree.source.text(attribute.name), ".v2" | ".v4"))
}

/// Every use of a directive, a feature or a type.
fn used<'a>(tree: &'a Tree, module: &Module) -> Vec<Use<'a>> {
    let mut uses = Uses { tree, found: Vec::new() };
    for stmt in &tree.stmts {
        match &stmt.kind {
            StmtKind::Directive(directive) => {
                uses.directive(directive);
                uses.inlined_code(directive, module.version);
            }
            StmtKind::Var(var) => {
                uses.variable(var);
                uses.constant_bank(var, module.version);
                // Until PTX 1.3, a body declares the parameters of its entry.
                if tree.source.bytes(var.space) == b".param" && module.version >= (Version { major: 1, minor: 4 }) {
                    uses.feature("parameter in a body", tree.source.span(var.space));
                }
            }
            StmtKind::Func(func) => uses.function(func),
            StmtKind::Prototype(prototype) => {
                uses.feature("callprototype", tree.span(&stmt.head));
                prototype.directives.iter().for_each(|directive| uses.directive(directive));
                prototype.params.iter().for_each(|var| uses.size(var));
            }
            StmtKind::Section(name) => {
                uses.feature("section", tree.source.span(*name));
                stmt.children().iter().for_each(|line| uses.section_line(&tree.stmt(*line).kind));
            }
            _ => {}
        }
    }
    module.variables.iter().for_each(|variable| uses.initial_value(variable, module));
    for function in &module.functions {
        function.insts.iter().for_each(|inst| uses.addresses(function, inst, module));
    }
    uses.found
}

struct Uses<'a> {
    tree: &'a Tree,
    found: Vec<Use<'a>>,
}

impl<'a> Uses<'a> {
    fn feature(&mut self, name: &'static str, span: Span) {
        self.add(table().features.get(name), span);
    }

    fn add(&mut self, line: Option<&'static DirectiveInfo>, span: Span) {
        let Some(DirectiveInfo { name, text, gate, until, section, .. }) = line else { return };
        let what = if name.starts_with('.') { name } else { text };
        self.found.push(Use { span, what, gate, until: *until, section });
    }

    /// A word with a dot, if it is a directive.
    fn word(&mut self, word: TokenId) {
        self.add(table().directives.get(self.tree.source.text(word)), self.tree.source.span(word));
    }

    fn directive(&mut self, directive: &Directive) {
        self.word(directive.name);
        let (tree, arguments) = (self.tree, self.tree.list(&directive.args));
        match tree.source.text(directive.name) {
            ".file" if arguments.len() > 2 => {
                self.feature("file time and size", tree.span(&tree.expr(arguments[2]).tokens));
            }
            ".target" => {
                for option in ["texmode_independent", "debug"] {
                    let is_option = |id: &&ExprId| tree.compact(&tree.expr(**id).tokens) == option;
                    if let Some(id) = arguments.iter().find(is_option) {
                        self.feature(option, tree.span(&tree.expr(*id).tokens));
                    }
                }
            }
            ".pragma" => arguments.iter().for_each(|id| self.pragma(*id)),
            _ => {}
        }
    }

    /// `function_name` and `inlined_at` of a `.loc`, in versions where ptxas reads them.
    fn inlined_code(&mut self, directive: &Directive, version: Version) {
        let place = self.tree.list(&directive.args).get(3);
        if let Some(place) =
            place.filter(|_| version >= FIRST_WITH_INLINED_CODE && self.tree.source.bytes(directive.name) == b".loc")
        {
            self.feature("inlined code", self.tree.span(&self.tree.expr(*place).tokens));
        }
    }

    /// The first word of a pragma that ptxas supports.
    fn pragma(&mut self, id: ExprId) {
        let tokens = &self.tree.expr(id).tokens;
        let text = self.tree.compact(tokens);
        let words = text.trim_matches('"');
        let known = table()
            .features
            .iter()
            .find(|(name, _)| name.strip_prefix("pragma ").is_some_and(|p| words.starts_with(p)));
        self.add(known.map(|(_, feature)| feature), self.tree.span(tokens));
    }

    fn variable(&mut self, var: &Var) {
        var.linkage.into_iter().for_each(|word| self.word(word));
        self.tree.attributes(var).iter().for_each(|attribute| self.word(attribute.name));
        let Some(ty) = var.ty else { return };
        let (text, span) = (self.tree.source.text(ty), self.tree.source.span(ty));
        let array = !has_one_alone(self.tree, var);
        let valued = self.tree.names(var).iter().any(|name| name.init.is_some());
        // ptxas does not look at what an array consists of: textures without a value, elements of 128 bits.
        let unseen = |ty: &Type| array && (ty.class() == Class::Bits || ty.class() == Class::Opaque && !valued);
        let ty = Type::find(text.trim_start_matches('.')).filter(|ty| !unseen(ty));
        if ty.is_some_and(|ty| ty.class() == Class::Opaque) {
            self.feature("opaque type", span);
        }
        // Prototypes may name types that do not exist yet, and vectors may have their elements.
        let ty = ty.filter(|_| !is_vector(self.tree, var));
        let gate = ty.and_then(|ty| ty.info().gate.as_ref());
        self.found.extend(gate.map(|gate| Use { span, what: text, gate, until: None, section: "5.2.1" }));
    }

    /// Bank 0 is the one without a number, which old versions take, too.
    fn constant_bank(&mut self, var: &Var, version: Version) {
        let Some(bank) = self.tree.bank(var) else { return };
        if bank_number(self.tree, bank) != Some(0) || version >= (Version { major: 2, minor: 2 }) {
            self.feature("constant bank", self.tree.source.span(bank.name));
        }
    }

    fn function(&mut self, func: &Func) {
        let tree = self.tree;
        func.linkage.into_iter().for_each(|word| self.word(word));
        func.attributes.iter().chain(&func.directives).for_each(|directive| self.directive(directive));
        let is_entry = tree.source.text(func.keyword) == ".entry";
        if is_entry && !func.has_body {
            self.feature("entry declaration", tree.source.span(func.keyword));
        }
        for var in func.params.iter().chain(&func.returns) {
            self.variable(var);
            let space = tree.source.span(var.space);
            let is_param = tree.source.text(var.space) == ".param";
            if is_param {
                self.feature(if is_entry { "entry parameter" } else { "function parameter in .param" }, space);
            }
            if !is_entry {
                self.size(var);
            }
        }
    }

    /// `.param .b8 x[]` of a function.
    fn size(&mut self, var: &Var) {
        let tree = self.tree;
        let is_open = |id: &ExprId| matches!(&tree.expr(*id).kind, ExprKind::Brackets(inner) if inner.is_empty());
        let is_param = tree.source.text(var.space) == ".param";
        if is_param && tree.names(var).iter().any(|name| tree.list(&name.dims).iter().any(is_open)) {
            self.feature("parameter without size", tree.source.span(var.space));
        }
    }

    fn section_line(&mut self, line: &StmtKind) {
        let tree = self.tree;
        match line {
            StmtKind::Label(name) => self.feature("section label", tree.span(name)),
            StmtKind::Data(data) => {
                for id in tree.list(&data.args) {
                    let expr = tree.expr(*id);
                    let feature = match expr.kind {
                        ExprKind::Unary(b'-', _) => "section negative number",
                        ExprKind::Binary([b'-', 0], ..) => "section label difference",
                        ExprKind::Binary([b'+', 0], ..) => "section name and offset",
                        _ => continue,
                    };
                    self.feature(feature, tree.span(&expr.tokens));
                }
            }
            _ => {}
        }
    }

    /// The operands of an instruction that are addresses of functions, or handles of textures, samplers and surfaces.
    fn addresses(&mut self, function: &Function, inst: &Inst, module: &Module) {
        let Some(row) = inst.row else { return };
        for (at, (operand, info)) in inst.operands.iter().zip(&row.operands).enumerate() {
            let symbol = match operand {
                Operand::Symbol(symbol, _) => *symbol,
                Operand::Func(function) => Symbol::Func(*function),
                _ => continue,
            };
            let kind = match symbol {
                _ if !matches!(info.kind, OperandKind::Symbol(_)) => continue,
                Symbol::Func(f) if module.functions.get(f.index()).is_some_and(|f| f.entry) => "address of an entry",
                Symbol::Func(_) => "address of a function",
                Symbol::Var(v) if module.variables.get(v.index()).is_some_and(|v| v.space == Space::Opaque) => "handle",
                Symbol::Var(_) => continue,
            };
            self.feature(kind, function.operand_span(inst, at));
        }
    }

    fn initial_value(&mut self, variable: &Variable, module: &Module) {
        for address in variable.init.iter().flat_map(|init| &init.relocations) {
            let kind = match address.of {
                Symbol::Var(_) => "address as initial value",
                Symbol::Func(f) if module.functions.get(f.index()).is_some_and(|f| f.entry) => "entry as initial value",
                Symbol::Func(_) => "function as initial value",
            };
            self.feature(kind, variable.span);
            if address.generic {
                self.feature("generic()", variable.span);
            }
            if address.mask.is_some() {
                self.feature("mask()", variable.span);
            }
        }
    }
}

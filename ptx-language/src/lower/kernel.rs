//! A kernel as an `.entry`: parameters, limits, declarations, prologue, body.

use super::body::Body;
use super::call::Frame;
use super::{Lowerer, Pieces};
use crate::names::Names;
use crate::scope::Binding;
use crate::tree::{Expr, Generic, GenericArg, Instance, Kernel};
use crate::types::Const;
use crate::value::Value;
use crate::{Entry, types};
use ptx_core::diag::{codes, plural};
use ptx_core::isa;
use ptx_core::span::Span;
use std::rc::Rc;

impl<'a> Lowerer<'a> {
    /// All instances of a kernel.
    pub(super) fn kernel(&mut self, index: usize, kernel: &'a Kernel) {
        if kernel.generics.is_empty() {
            return self.entry(index, kernel, None);
        }
        if kernel.options.instances.is_empty() {
            let message = format!("`{}` is generic, and nothing says for which arguments to make it", kernel.name.name);
            self.fail(&codes::P0811, kernel.name.span, message, "write `instances = [(…), (…)]` in the attribute");
        }
        for (at, instance) in kernel.options.instances.iter().enumerate() {
            self.entry(index, kernel, Some((at, instance)));
        }
    }

    fn entry(&mut self, index: usize, kernel: &'a Kernel, instance: Option<(usize, &'a Instance)>) {
        let root = self.scopes.current;
        let scope = self.scopes.open(Some(root), true);
        self.f = self.new_body(kernel.options.lineinfo);
        self.f.raw = kernel.options.raw;
        self.f.cooperative = kernel.options.cooperative;
        let suffix = match instance {
            None => Some(String::new()),
            Some((_, instance)) => self.bind_instance(kernel, instance),
        };
        if let Some(suffix) = suffix {
            // Nobody else holds the names of the module while one is added: otherwise all of them would be copied for each instance.
            self.f.symbols = Names::default();
            let name = Rc::make_mut(&mut self.out.symbols).unique(&format!("{}{suffix}", kernel.name.name));
            self.f.symbols = Names::within(&self.out.symbols);
            self.write_entry(index, kernel, instance.map(|(at, _)| at), name);
        }
        self.scopes.close(scope, root);
    }

    /// Gives the generic parameters their values, and the entry's name its suffix.
    fn bind_instance(&mut self, kernel: &'a Kernel, instance: &'a Instance) -> Option<String> {
        if kernel.generics.len() != instance.args.len() {
            let (takes, has) = (kernel.generics.len(), instance.args.len());
            let message = format!("`{}` takes {}, not {has}", kernel.name.name, plural(takes, "generic argument"));
            let like = |generic: &Generic| if generic.constant.is_some() { "128" } else { "f32" };
            let example = kernel.generics.iter().map(like).collect::<Vec<_>>().join(", ");
            self.fail(&codes::P0811, instance.span, message, format!("write one for each, in order: `({example})`"));
            return None;
        }
        let home = self.scopes.current;
        let mut suffix = instance.name.as_ref().map_or_else(String::new, |name| format!("_{}", name.name));
        for (generic, arg) in kernel.generics.iter().zip(&instance.args) {
            let binding = self.generic_argument(generic, arg, home)?;
            // A name stands for the constants.
            if instance.name.is_none() || generic.constant.is_none() {
                suffix.push('_');
                suffix.push_str(&argument_text(&binding, arg));
            }
            self.scopes.bind(&generic.name.name, binding);
        }
        Some(suffix.replace('-', "m").replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_"))
    }

    fn write_entry(&mut self, index: usize, kernel: &'a Kernel, instance: Option<usize>, name: String) {
        self.declare_params(kernel);
        let limits = self.limits(kernel);
        self.f.threads = self.extent("block", &kernel.options.block).and_then(|extent| product_of(&extent));
        self.f.frames.push(Frame { end: None, dest: None });
        self.statements(&kernel.body, None);
        self.ret(kernel.span);
        let prologue = self.prologue();
        let body = std::mem::take(&mut self.f);
        let params: Vec<String> = body.params.iter().map(|param| format!("    {}", param.declaration())).collect();
        let params = if params.is_empty() { String::new() } else { format!("\n{}\n", params.join(",\n")) };
        let head = format!("\n.visible .entry {name}({params})\n");
        self.out.functions.push((head, self.at(kernel.name.span)));
        self.out.functions.extend(limits);
        let origins = body.params.iter().map(|param| param.origin.clone()).collect();
        let dynamic = body.dynamic.map(|(bytes, _)| bytes);
        self.out.functions.extend(frame_text(body, prologue, kernel.name.span));
        self.out.entries.push(Entry { name, kernel: index, instance, params: origins, dynamic });
    }

    /// `.reqntid`, `.maxntid`, `.reqnctapercluster`, `.maxnreg`, `.minnctapersm`, each with the place of its option.
    fn limits(&mut self, kernel: &'a Kernel) -> Vec<(String, Span)> {
        let options = &kernel.options;
        let mut out = Vec::new();
        let extents = [
            ("block", ".reqntid", &options.block),
            ("block", ".maxntid", &options.max_block),
            ("cluster", ".explicitcluster\n.reqnctapercluster", &options.cluster),
            ("cluster", ".reqnctapercluster", &options.required_cluster),
        ];
        if options.explicit_cluster {
            out.push((".explicitcluster\n".to_owned(), self.at(kernel.name.span)));
        }
        for (what, name, exprs) in extents {
            if let (Some(extent), Some(first), Some(last)) = (self.extent(what, exprs), exprs.first(), exprs.last()) {
                let span = self.at(first.span.to(last.span));
                match what {
                    "cluster" => self.blocks(&extent, span),
                    _ if name == ".reqntid" => self.threads(&extent, span),
                    _ => {}
                }
                out.push((format!("{name} {extent}\n"), span));
            }
        }
        let counts = [
            (".maxclusterrank", &options.max_cluster, MOST_BLOCKS, "a cluster has", "blocks"),
            (".maxnreg", &options.max_regs, MOST_REGISTERS, "a thread has", "registers"),
            (".minnctapersm", &options.min_blocks, u64::MAX, "", ""),
        ];
        for (name, value, most, of, what) in counts {
            if let Some((count, expr)) = value.as_ref().and_then(|expr| Some((self.count(expr)?, expr))) {
                let span = self.at(expr.span);
                if count > most {
                    self.fail(&codes::P0609, span, format!("{of} at most {most} {what}"), "write a smaller number");
                }
                out.push((format!("{name} {count}\n"), span));
            }
        }
        out
    }

    /// A block that no launch can have: ptxas takes it.
    fn threads(&mut self, extent: &str, span: Span) {
        let threads = product_of(extent);
        let limits = isa::table().target(self.variant.arch).map_or(&[][..], |target| &target.limits);
        let Some((_, most)) = limits.iter().find(|(name, _)| *name == "threads") else { return };
        if threads.is_none_or(|threads| threads > *most) {
            let message = format!("a block has at most {most} threads");
            self.fail(&codes::P0609, span, message, "use smaller blocks and a larger grid");
        } else if extent.split(", ").nth(2).is_some_and(|z| z.parse().is_ok_and(|z: u64| z > MOST_ALONG_Z)) {
            let message = format!("a block has at most {MOST_ALONG_Z} threads along z");
            self.fail(&codes::P0609, span, message, "let x or y be the largest extent");
        }
    }

    /// A cluster that no launch can have: ptxas takes it.
    fn blocks(&mut self, extent: &str, span: Span) {
        if product_of(extent).is_none_or(|blocks| blocks > MOST_BLOCKS) {
            let message = format!("a cluster has at most {MOST_BLOCKS} blocks");
            self.fail(
                &codes::P0609,
                span,
                message,
                "use smaller clusters; every chip with clusters has those of 8 blocks",
            );
        }
    }

    /// `256, 1, 1`, if the expressions are constants; else the launch decides.
    fn extent(&mut self, what: &str, exprs: &'a [Expr]) -> Option<String> {
        let mut all = Vec::new();
        for expr in exprs {
            let values = match self.constant_quietly(expr) {
                Ok(Const::Tuple(items) | Const::Array(items)) => items,
                Ok(value) => vec![value],
                Err(_) => return None,
            };
            for value in values {
                if !matches!(value, Const::Int(1.., _)) {
                    let message = format!("`{}` is no extent of a {what}", value.text());
                    self.fail(&codes::P0609, expr.span, message, "write integers from 1 on");
                    return None;
                }
                all.push(value.text());
            }
        }
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// A body in which the names are taken that mean something else to PTX.
    pub(super) fn new_body(&self, lineinfo: bool) -> Body {
        let mut body = Body { lineinfo, ..Body::default() };
        for special in isa::table().specials.keys() {
            if let Some(name) = special.split('.').next().filter(|name| body.registers.names.is_free(name)) {
                body.registers.names.unique(name);
            }
        }
        for info in isa::table().types.iter().filter(|t| t.declares) {
            body.registers.names.unique_array(&format!("%{}_", info.name), u64::MAX);
        }
        body.symbols = Names::within(&self.out.symbols);
        body
    }

    /// Remembers the statement that the next instruction belongs to, if the kernel has `lineinfo`.
    pub(super) fn line_of(&mut self, span: Span) {
        if self.f.lineinfo {
            self.f.code.line = Some(self.at(span));
        }
    }

    /// `.loc` for the next instruction, once.
    pub(super) fn take_line(&mut self) -> Option<String> {
        let at = (self.variant.locate)(self.f.code.line.take()?)?;
        let file = match self.out.files.iter().position(|file| *file == at.file) {
            Some(file) => file,
            None => {
                self.out.files.push(at.file);
                self.out.files.len() - 1
            }
        };
        Some(format!("    .loc {} {} {}\n", file + 1, at.line, at.column))
    }
}

/// `{ variables, temporaries, prologue, statements }`
pub(super) fn frame_text(body: Body, prologue: Pieces, span: Span) -> Pieces {
    let mut out = vec![("{\n".to_owned(), span)];
    out.extend(body.variables);
    for (class, count) in body.registers.temporaries {
        out.push((format!("    .reg .{class} %{class}_<{count}>;\n"), span));
    }
    out.extend(prologue);
    if out.len() > 1 {
        out.push(("\n".to_owned(), span));
    }
    if !body.code.full {
        // Where a limit cut the text off, what is left of it means nothing.
        out.extend(body.code.text);
    }
    out.push(("}\n".to_owned(), span));
    out
}

fn argument_text(binding: &Binding<'_>, arg: &GenericArg) -> String {
    match (binding, arg) {
        (Binding::Type(ty), _) => ty.scalar().map_or_else(|| ty.name(), types::name),
        (Binding::Value(Value::Const(value)), _) => value.text(),
        _ => String::new(),
    }
}

/// The most threads of a block along z, on every target.
const MOST_ALONG_Z: u64 = 64;

/// The most blocks of a cluster, where a kernel may have more than the portable 8 (CUDA programming guide, thread block clusters).
const MOST_BLOCKS: u64 = 16;

/// ptxas ignores a `.maxnreg` above it.
const MOST_REGISTERS: u64 = 255;

/// The product of `256, 1, 1`.
fn product_of(extent: &str) -> Option<u64> {
    extent.split(", ").try_fold(1u64, |product, extent| product.checked_mul(extent.parse().ok()?))
}

//! Structs of arguments: a kernel takes the struct, the entry its fields.

use super::Lowerer;
use crate::scope::{Access, Binding};
use crate::tree::{self, Expr, ExprKind};
use crate::types::{StructTy, Ty};
use crate::value::Value;
use ptx_core::diag::codes;
use ptx_core::span::Span;
use std::rc::Rc;

/// A struct of arguments of the kernel that is being written.
#[derive(Debug)]
pub(super) struct Arguments {
    ty: Rc<StructTy>,
    /// The index of each field among the parameters of the entry.
    params: Vec<usize>,
}

impl<'a> Lowerer<'a> {
    /// Declares the fields from parameter `at` of the entry on, and the struct.
    pub(super) fn declare_arguments(&mut self, at: usize, param: &'a tree::Param, dims: &mut Vec<(String, Span)>) {
        let name = &param.name.name;
        let Some(Ty::Struct(ty)) = self.ty(&param.ty) else { return self.scopes.bind(name, Binding::Error) };
        let declare = |(offset, field): (usize, &'a tree::Param)| {
            self.declare_param(at + offset, field, &format!("{name}.{}", field.name.name), dims)
        };
        let params: Vec<Option<usize>> = param.fields.iter().enumerate().map(declare).collect();
        let params: Option<Vec<usize>> = params.into_iter().collect();
        let binding = match params {
            Some(params) => {
                self.f.arguments.push(Arguments { ty, params });
                Binding::Arguments(self.f.arguments.len() - 1)
            }
            None => Binding::Error,
        };
        let access = if param.mutable { Access::Own } else { Access::Launched };
        self.scopes.bind_as(name, binding, access);
    }

    /// The parameter that `inputs.x` names, if `inputs` is a struct of arguments.
    pub(super) fn argument_field(&self, expr: &Expr) -> Option<usize> {
        let ExprKind::Field(base, field) = &expr.kind else { return None };
        let ExprKind::Path(path) = &base.kind else { return None };
        let found = self.find(path).filter(|found| !found.outside)?;
        let Binding::Arguments(index) = found.binding else { return None };
        let arguments = self.f.arguments.get(index)?;
        arguments.params.get(arguments.ty.field(&field.name)?).copied()
    }

    /// The type of a struct of arguments.
    pub(super) fn arguments_type(&self, index: usize) -> Option<Rc<StructTy>> {
        self.f.arguments.get(index).map(|arguments| Rc::clone(&arguments.ty))
    }

    /// The registers of all fields.
    pub(super) fn arguments_value(&mut self, index: usize, span: Span) -> Value {
        let Some(Arguments { ty, params }) = self.f.arguments.get(index) else { return Value::Error };
        let (ty, params) = (Rc::clone(ty), params.clone());
        Value::Struct(ty, params.into_iter().map(|param| self.param_value(param, span)).collect())
    }

    /// Reports a field that a struct of arguments does not have, or none behind its name.
    pub(super) fn unknown_argument(&mut self, index: usize, (name, field): (&str, Option<&str>), span: Span) {
        match (self.arguments_type(index), field) {
            (Some(ty), Some(field)) => drop(self.no_such_field(&ty, field, span)),
            _ => {
                let help = format!("use one of its fields: `{name}.…`");
                self.fail(&codes::P0817, span, format!("`{name}` is a struct and no register"), help);
            }
        }
    }
}

//! The launch of a kernel in a Rust file: `grid` and `shared` of its attribute, with the values of `--arg`.

use super::Extent;
use super::argument::{Argument, Contents};
use crate::output::Failure;
use crate::source::read_bytes;
use ptx_core::host::{Expr, Operator};
use ptx_core::isa::{Class, Type};
use ptx_jit::describe::{From, Kernel, Kind, Launch};

/// A kernel and the arguments of its entry.
pub(super) struct Attribute<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) arguments: &'a [Argument],
}

impl Attribute<'_> {
    fn launch(&self) -> Option<&Launch> {
        self.kernel.launch.as_ref().ok()
    }

    /// The grid; `None` if the attribute has none.
    pub(super) fn grid(&self) -> Result<Option<Extent>, Failure> {
        let Some(grid) = self.launch().and_then(|launch| launch.grid.as_ref()) else { return Ok(None) };
        self.extents(grid).map(Some).ok_or_else(|| self.unknown("grid"))
    }

    /// Bytes of dynamic shared memory; `None` if the kernel has none.
    pub(super) fn shared(&self) -> Result<Option<u32>, Failure> {
        let Some(launch) = self.launch() else { return Ok(None) };
        let bytes = match (&launch.shared, launch.dynamic) {
            (Some(bytes), _) => self.value(bytes).ok_or_else(|| self.unknown("shared"))?,
            (None, Some(bytes)) => bytes.into(),
            (None, None) => return Ok(None),
        };
        u32::try_from(bytes).map(Some).map_err(|_| self.unknown("shared"))
    }

    /// True if its blocks wait for each other.
    pub(super) fn is_cooperative(&self) -> bool {
        self.launch().is_some_and(|launch| launch.cooperative)
    }

    fn unknown(&self, option: &str) -> Failure {
        let name = &self.kernel.name;
        Failure::usage(format!("`{option}` of `{name}` has no value for these arguments; say `--{option}`"))
    }

    fn extents(&self, expr: &Expr) -> Option<Extent> {
        let list = match expr {
            Expr::List(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut extents = [1; 3];
        for (at, extent) in list.iter().enumerate() {
            *extents.get_mut(at)? = u32::try_from(self.value(extent)?).ok()?;
        }
        Some(extents)
    }

    /// The value of an integer expression, if it has one.
    fn value(&self, expr: &Expr) -> Option<i128> {
        Some(match expr {
            Expr::Int(number) => (*number).into(),
            Expr::Argument(at) => self.number(From::Param(*at))?,
            Expr::Field(at, field) => match self.argument(From::Param(*at))? {
                Argument::Struct(bytes) => field.integer(bytes)?,
                Argument::Bytes(path) => {
                    field.integer(&read_bytes(path, "the bytes of a struct have at most 1 GiB").ok()?)?
                }
                _ => return None,
            },
            Expr::Dim(at) => self.number(From::Dim(*at))?,
            Expr::Len(at) => self.len(*at)?,
            Expr::Unary(Operator::Neg, operand) => self.value(operand)?.checked_neg()?,
            Expr::Unary(Operator::Exact, operand) => self.value(operand)?,
            Expr::If(parts) => match self.truth(&parts[0])? {
                true => self.value(&parts[1])?,
                false => self.value(&parts[2])?,
            },
            Expr::Binary(operator, operands, _) => {
                let [a, b] = [self.value(&operands[0])?, self.value(&operands[1])?];
                binary(*operator, a, b)?
            }
            _ => return None,
        })
    }

    /// The value of a condition, if it has one.
    fn truth(&self, expr: &Expr) -> Option<bool> {
        match expr {
            Expr::Bool(truth) => Some(*truth),
            Expr::Unary(Operator::Not, of) => self.truth(of).map(|truth| !truth),
            Expr::Binary(Operator::And, both, _) => Some(self.truth(&both[0])? && self.truth(&both[1])?),
            Expr::Binary(Operator::Or, both, _) => Some(self.truth(&both[0])? || self.truth(&both[1])?),
            Expr::Binary(operator, both, _) => operator.compare(&self.value(&both[0])?, &self.value(&both[1])?),
            _ => None,
        }
    }

    fn argument(&self, from: From) -> Option<&Argument> {
        self.arguments.get(self.kernel.taken.iter().position(|taken| taken.from == from)?)
    }

    fn number(&self, from: From) -> Option<i128> {
        let Argument::Scalar(ty, bytes) = self.argument(from)? else { return None };
        let is_negative = ty.class() == Class::Signed && bytes.last().is_some_and(|byte| *byte >= 0x80);
        let mut all = [if is_negative { 0xff } else { 0 }; 16];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (ty.class() != Class::Float).then(|| i128::from_le_bytes(all))
    }

    /// The elements of a buffer.
    fn len(&self, at: usize) -> Option<i128> {
        let (Kind::Slice { element, .. } | Kind::Tile { element, .. }) = &self.kernel.params.get(at)?.kind else {
            return None;
        };
        let Argument::Memory(memory) = self.argument(From::Param(at))? else { return None };
        let bytes = match &memory.from {
            Contents::Filled(bytes, _) => *bytes,
            Contents::File(path) => std::fs::metadata(path).ok()?.len(),
        };
        bytes.checked_div(Type::find(element)?.bytes()).map(i128::from)
    }
}

fn binary(operator: Operator, a: i128, b: i128) -> Option<i128> {
    let up = |by: i128| Some(a.checked_div_euclid(by)? + i128::from(a.checked_rem_euclid(by)? != 0));
    match operator {
        Operator::Add => a.checked_add(b),
        Operator::Sub => a.checked_sub(b),
        Operator::Mul => a.checked_mul(b),
        Operator::Div => a.checked_div(b),
        Operator::Rem => a.checked_rem(b),
        Operator::Shl => 1i128.checked_shl(u32::try_from(b).ok()?).and_then(|factor| a.checked_mul(factor)),
        Operator::Shr => a.checked_shr(u32::try_from(b).ok()?),
        Operator::Min => Some(a.min(b)),
        Operator::Max => Some(a.max(b)),
        Operator::DivCeil => up(b),
        Operator::NextMultipleOf => up(b)?.checked_mul(b),
        Operator::Pow => a.checked_pow(u32::try_from(b).ok()?),
        _ => None,
    }
}

//! Host expressions that are wrong in every launch: those whose types do not fit, and constants that no launch takes.

use super::{Expr, Kind, Launch, Operator, Param, Plain, Problem, problem};
use crate::attribute;
use crate::tokens::{ends, source_text};
use ptx_core::diag::codes;

/// The type of a host expression. Integers are those of all types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Integer,
    Float,
    Truth,
    List,
    /// It has a value of Rust that is not known here.
    Any,
}

/// The first option of an attribute that is wrong in every launch. `written` has the options as the text has them, and `launch` has their expressions.
pub fn wrong_size(written: &attribute::Launch, launch: &Launch, params: &[Param]) -> Option<Problem> {
    let extents = |name, least| move |expr: &Expr| extents(name, least, expr, params);
    let sizes = [
        (&written.grid, &launch.grid, &extents("grid", 0) as &dyn Fn(&Expr) -> Result<(), Wrong>),
        (&written.block, &launch.block, &extents("block", 1)),
        (&written.cluster, &launch.cluster, &extents("cluster", 1)),
        (&written.shared, &launch.shared, &|expr| bytes(expr, params)),
    ];
    let sizes = sizes.into_iter().filter_map(|(written, expr, check)| Some((written.as_ref()?, expr.as_ref()?, check)));
    let condition = &|expr: &Expr| truth(expr, params);
    let conditions = written.requires.iter().zip(&launch.requires);
    let conditions = conditions.map(|(written, condition_of)| (written, &condition_of.holds, condition as _));
    sizes.chain(conditions).find_map(|(written, expr, check): (_, _, &dyn Fn(&Expr) -> _)| {
        let (message, help) = check(expr).err()?;
        let (first, last) = ends(written);
        let message = message.unwrap_or_else(|| format!("the types in `{}` do not fit", source_text(written)));
        Some(Problem { help: vec![help.to_owned()], ..problem(codes::P0903.id, message, first, last) })
    })
}

/// A message, if it is not that types do not fit, and the fix.
type Wrong = (Option<String>, &'static str);

const TYPES: &str = "compare integers with integers, and numbers with a point with such numbers";

/// Checks a grid, a block or a cluster.
fn extents(name: &str, least: i64, expr: &Expr, params: &[Param]) -> Result<(), Wrong> {
    let all = match expr {
        Expr::List(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let help = "write one to three integers, such as `256` or `(32, 8)`";
    if matches!(expr, Expr::List(_)) && !(1..=3).contains(&all.len()) {
        return Err((Some(format!("a {name} has one, two or three extents, and this has {}", all.len())), help));
    }
    for extent in all {
        match (type_of(extent, params)?, extent) {
            (_, Expr::Int(number)) if *number < least => {
                return Err((Some(format!("`{number}` is no extent of a {name}")), help));
            }
            (Type::Integer | Type::Any, _) | (Type::List, Expr::If(_)) => {}
            _ => return Err((Some(format!("a {name} counts in integers")), help)),
        }
    }
    Ok(())
}

/// Checks bytes of shared memory.
fn bytes(expr: &Expr, params: &[Param]) -> Result<(), Wrong> {
    let help = "write the bytes as an integer, such as `4 * n`";
    match (type_of(expr, params)?, expr) {
        (_, Expr::Int(number)) if *number < 0 => Err((Some(format!("`{number}` counts no bytes")), help)),
        (Type::Integer | Type::Any, _) => Ok(()),
        _ => Err((Some("shared memory counts in bytes".to_owned()), help)),
    }
}

/// Checks a condition.
fn truth(expr: &Expr, params: &[Param]) -> Result<(), Wrong> {
    match type_of(expr, params)? {
        Type::Truth | Type::Any => Ok(()),
        _ => Err((Some("a condition is true or false".to_owned()), "compare numbers: `x.len() >= n`")),
    }
}

fn type_of(expr: &Expr, params: &[Param]) -> Result<Type, Wrong> {
    let of = |expr: &Expr| type_of(expr, params);
    Ok(match expr {
        Expr::Int(_) | Expr::Len(_) | Expr::Dim(_) => Type::Integer,
        Expr::Bool(_) => Type::Truth,
        Expr::Float(_) => Type::Float,
        Expr::Argument(at) => params.get(*at).map_or(Type::Any, of_param),
        Expr::Field(_, field) => match field.ty {
            Plain::Float(_) => Type::Float,
            Plain::Signed(_) | Plain::Unsigned(_) => Type::Integer,
        },
        Expr::Unary(operator, operand) => unary(*operator, of(operand)?)?,
        Expr::Binary(operator, both, text) => {
            let [left, right] = [of(&both[0])?, of(&both[1])?];
            let divides = matches!(operator, Operator::Div | Operator::Rem | Operator::DivCeil);
            if divides && left != Type::Float && both[1] == Expr::Int(0) {
                return Err((Some(format!("`{text}` divides by zero")), "divide by a number that is not zero"));
            }
            binary(*operator, left, right)?
        }
        Expr::If(parts) => {
            let [condition, left, right] = [of(&parts[0])?, of(&parts[1])?, of(&parts[2])?];
            match (condition, left == right) {
                (Type::Truth | Type::Any, true) => left,
                (Type::Truth | Type::Any, false) => Type::Any,
                _ => return Err((None, TYPES)),
            }
        }
        Expr::List(all) => match all.iter().map(of).collect::<Result<Vec<_>, _>>()? {
            types if types.iter().all(|ty| matches!(ty, Type::Integer | Type::Any)) => Type::List,
            _ => return Err((None, TYPES)),
        },
    })
}

/// The type of a number among the parameters.
fn of_param(param: &Param) -> Type {
    match &param.kind {
        Kind::Value(name) => match name.as_str() {
            "f16" | "bf16" | "f32" | "f64" => Type::Float,
            "u8" | "u16" | "u32" | "u64" | "i8" | "i16" | "i32" | "i64" => Type::Integer,
            _ => Type::Any,
        },
        _ => Type::Any,
    }
}

fn unary(operator: Operator, operand: Type) -> Result<Type, Wrong> {
    match (operator, operand) {
        (Operator::Not, Type::Truth | Type::Any) => Ok(Type::Truth),
        (Operator::IsPowerOfTwo, Type::Integer | Type::Any) => Ok(Type::Truth),
        (Operator::Exact, Type::Integer | Type::Any) => Ok(Type::Integer),
        (Operator::Neg, Type::Integer | Type::Float | Type::Any) => Ok(operand),
        _ => Err((None, TYPES)),
    }
}

fn binary(operator: Operator, left: Type, right: Type) -> Result<Type, Wrong> {
    use Operator::{
        Add, And, Div, DivCeil, Eq, Ge, Gt, IsMultipleOf, Le, Lt, Max, Min, Mul, Ne, NextMultipleOf, Or, Pow, Rem, Shl,
        Shr, Sub,
    };
    let operand = match (left, right) {
        (Type::Any, other) | (other, Type::Any) => other,
        (one, other) if one == other => one,
        _ => return Err((None, TYPES)),
    };
    let needed: &[Type] = match operator {
        And | Or => &[Type::Truth],
        Add | Sub | Mul | Div => &[Type::Integer, Type::Float],
        Rem | Shl | Shr | Min | Max | DivCeil | NextMultipleOf | Pow | IsMultipleOf => &[Type::Integer],
        Eq | Ne | Lt | Le | Gt | Ge => &[Type::Integer, Type::Float, Type::Truth],
        Operator::Neg | Operator::Not | Operator::IsPowerOfTwo | Operator::Exact => &[],
    };
    match operator {
        _ if operand != Type::Any && !needed.contains(&operand) => Err((None, TYPES)),
        And | Or | IsMultipleOf | Eq | Ne | Lt | Le | Gt | Ge => Ok(Type::Truth),
        _ => Ok(operand),
    }
}

//! Host expressions of a launch: the values of `grid`, `block` and the conditions, with the arithmetic of the macros.

use crate::scalar::Number;
use ptx_expand::program::{Condition, Expr, Field, Launch, Operator, Plain, Shown};
use ptx_runtime::expansion::{Arithmetic, Int, IntegerArithmetic, Text, int, shown_fields, undefined, unmet_by};
use ptx_runtime::{Config, Dim, Error, ErrorKind, IntoDim, Result};
use std::fmt::Debug;

/// The values of a launch's arguments.
pub(crate) trait Known {
    /// The number of a parameter, if it is one.
    fn number(&self, at: usize) -> Option<Number>;

    /// The elements of its memory.
    fn len(&self, at: usize) -> usize;

    /// Its bytes, if it is a struct.
    fn bytes(&self, at: usize) -> &[u8];

    /// Its extents, if it is a tile.
    fn shape(&self, at: usize) -> &[usize];
}

/// The arguments of a launch, as host expressions see them.
pub(crate) struct Arguments<'a, K: ?Sized> {
    /// The kernel's name, for errors.
    pub(crate) entry: &'a str,
    pub(crate) known: &'a K,
    /// The dimensions of tiles.
    pub(crate) dims: &'a [u32],
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Int(Int),
    /// An integer of a struct, or of these alone: among themselves they stay what they are.
    Plain(Int, Plain),
    Float(f64),
    Bool(bool),
    List(Vec<Int>),
}

impl Value {
    /// The number, if it is an integer.
    fn integer(&self) -> Option<Int> {
        match self {
            Value::Int(number) | Value::Plain(number, _) => Some(*number),
            _ => None,
        }
    }
}

impl<K: Known + ?Sized> Arguments<'_, K> {
    /// The configuration of the launch, after the conditions were checked.
    ///
    /// # Errors
    /// A condition that does not hold, and an expression without a value.
    pub(crate) fn config(&self, launch: &Launch) -> Result<Config> {
        launch.requires.iter().try_for_each(|condition| self.require(condition))?;
        let mut config = match &launch.grid {
            Some(grid) => Config::grid(self.extents(grid)?),
            None => Config::new(),
        };
        if let Some(block) = &launch.block {
            config = config.block(self.extents(block)?);
        }
        if let Some(cluster) = &launch.cluster {
            config = config.cluster(self.extents(cluster)?);
        }
        match (&launch.shared, launch.dynamic) {
            (Some(shared), _) => config = config.shared(self.integer(shared)?),
            (None, Some(bytes)) => config = config.shared(int(bytes)),
            (None, None) => {}
        }
        Ok(config.cooperative(launch.cooperative).pdl(launch.pdl))
    }

    fn require(&self, condition: &Condition) -> Result<()> {
        if self.value(&condition.holds)? == Value::Bool(true) {
            return Ok(());
        }
        let shown = condition.shown.iter().filter_map(|(name, value)| Some((name.as_str(), self.shown(value)?)));
        let shown: Vec<_> = shown.collect();
        let shown: Vec<_> = shown.iter().map(|(name, value)| (*name, value as &dyn std::fmt::Display)).collect();
        Err(unmet_by(self.entry, &condition.text, &shown))
    }

    /// A value as text, as the macros' launches show it.
    fn shown(&self, shown: &Shown) -> Option<Text> {
        match shown {
            Shown::Value(value) => self.text(value),
            Shown::Struct(name, fields) => {
                let fields = self.texts(fields)?;
                let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value as &dyn Debug)).collect();
                Some(shown_fields(name, &fields))
            }
            Shown::Whole(name, fields) => {
                let fields = self.texts(fields)?.into_iter().map(|(name, value)| format!("{name}: {value}"));
                Some(Text(format!("{name} {{ {} }}", fields.collect::<Vec<_>>().join(", "))))
            }
        }
    }

    fn texts<'f>(&self, fields: &'f [(String, Expr)]) -> Option<Vec<(&'f str, Text)>> {
        fields.iter().map(|(name, value)| Some((name.as_str(), self.text(value)?))).collect()
    }

    fn text(&self, value: &Expr) -> Option<Text> {
        let is_narrow = matches!(value, Expr::Field(_, Field { ty: Plain::Float(4), .. }));
        Some(Text(match self.value(value).ok()? {
            Value::Float(value) if is_narrow => format!("{:?}", value as f32),
            Value::Float(value) => format!("{value:?}"),
            Value::List(values) => {
                let values: Vec<_> = values.iter().map(ToString::to_string).collect();
                format!("[{}]", values.join(", "))
            }
            value => value.integer()?.to_string(),
        }))
    }

    fn extents(&self, expr: &Expr) -> Result<Dim> {
        // Most lists are written as such, and need no list of values.
        if let Expr::List(parts) = expr {
            return match &parts[..] {
                [x] => Ok(self.integer(x)?.into_dim()),
                [x, y] => Ok((self.integer(x)?, self.integer(y)?).into_dim()),
                [x, y, z] => Ok((self.integer(x)?, self.integer(y)?, self.integer(z)?).into_dim()),
                _ => Err(self.no_number()),
            };
        }
        match self.value(expr)? {
            Value::List(extents) => match extents[..] {
                [x] => Ok(x.into_dim()),
                [x, y] => Ok((x, y).into_dim()),
                [x, y, z] => Ok((x, y, z).into_dim()),
                _ => Err(self.no_number()),
            },
            value => value.integer().map(IntoDim::into_dim).ok_or_else(|| self.no_number()),
        }
    }

    fn integer(&self, expr: &Expr) -> Result<Int> {
        self.value(expr)?.integer().ok_or_else(|| self.no_number())
    }

    fn value(&self, expr: &Expr) -> Result<Value> {
        Ok(match expr {
            Expr::Int(number) => Value::Int(int(*number)),
            Expr::Bool(truth) => Value::Bool(*truth),
            Expr::Float(number) => Value::Float(*number),
            Expr::Argument(at) => match self.known.number(*at) {
                Some(Number::Int(number)) => Value::Int(number),
                Some(Number::Float(number)) => Value::Float(number),
                None => return Err(self.no_number()),
            },
            Expr::Field(at, field) => self.field(*at, field).ok_or_else(|| self.no_number())?,
            Expr::Len(at) => Value::Int(int(self.known.len(*at))),
            Expr::Dim(at) => Value::Int(int(self.dims.get(*at).copied().unwrap_or(0))),
            Expr::Unary(operator, of) => self.unary(*operator, self.value(of)?)?,
            Expr::Binary(operator, both, text) => self.binary(*operator, both, text)?,
            Expr::If(parts) => match self.value(&parts[0])? {
                Value::Bool(true) => self.value(&parts[1])?,
                Value::Bool(false) => self.value(&parts[2])?,
                _ => return Err(self.no_number()),
            },
            Expr::List(parts) => Value::List(parts.iter().map(|part| self.integer(part)).collect::<Result<_>>()?),
        })
    }

    fn field(&self, at: usize, field: &Field) -> Option<Value> {
        let bytes = self.known.bytes(at);
        match field.ty {
            Plain::Float(_) => field.float(bytes).map(Value::Float),
            ty => {
                let number = field.integer(bytes)?;
                let number = u64::try_from(number).map(int).or_else(|_| i64::try_from(number).map(int)).ok()?;
                Some(Value::Plain(number, ty))
            }
        }
    }

    fn unary(&self, operator: Operator, value: Value) -> Result<Value> {
        match (operator, value) {
            (Operator::Neg, Value::Int(number)) => Ok(Value::Int(-number)),
            (Operator::Neg, Value::Plain(number, ty @ Plain::Signed(_))) => Ok(Value::Plain(-number, ty)),
            (Operator::IsPowerOfTwo, Value::Plain(number, Plain::Unsigned(_))) => {
                Ok(Value::Bool(number.is_power_of_two()))
            }
            (Operator::Exact, Value::Int(number) | Value::Plain(number, _)) => Ok(Value::Int(number)),
            (Operator::Neg, Value::Float(number)) => Ok(Value::Float(-number)),
            (Operator::Not, Value::Bool(truth)) => Ok(Value::Bool(!truth)),
            (Operator::IsPowerOfTwo, Value::Int(number)) => Ok(Value::Bool(number.is_power_of_two())),
            _ => Err(self.no_number()),
        }
    }

    fn binary(&self, operator: Operator, both: &[Expr; 2], text: &str) -> Result<Value> {
        let left = self.value(&both[0])?;
        // The right side of `a && b` may have no value where `a` is false.
        match (operator, &left) {
            (Operator::And, Value::Bool(false)) | (Operator::Or, Value::Bool(true)) => return Ok(left),
            _ => {}
        }
        match (left, self.value(&both[1])?) {
            (Value::Bool(a), Value::Bool(b)) => truths(operator, a, b).map(Value::Bool),
            (Value::Float(a), Value::Float(b)) => floats(operator, a, b),
            (a, b) => match (a.integer(), b.integer()) {
                (Some(of), Some(with)) => match integers(operator, of, with) {
                    Some(number) => {
                        let number = number.map(Value::Int).and_then(|number| alone(&a, &b, number));
                        Some(number.ok_or_else(|| undefined(self.entry, text))?)
                    }
                    None => operator.compare(&of, &with).or_else(|| multiple(operator, of, with)).map(Value::Bool),
                },
                _ => None,
            },
        }
        .ok_or_else(|| self.no_number())
    }

    #[cold]
    fn no_number(&self) -> Error {
        let asked = format!("`{}` has an expression in its attribute whose types do not fit", self.entry);
        Error::new(ErrorKind::Condition, asked)
            .help("compare integers with integers, and numbers with a point with such numbers")
    }
}

/// The result of arithmetic: `None` for another operator, `Some(None)` if there is no result.
fn integers(operator: Operator, a: Int, b: Int) -> Option<Option<Int>> {
    Some(match operator {
        Operator::Add => Arithmetic::add(a, b),
        Operator::Sub => Arithmetic::sub(a, b),
        Operator::Mul => Arithmetic::mul(a, b),
        Operator::Div => Arithmetic::div(a, b),
        Operator::Rem => Arithmetic::rem(a, b),
        Operator::Shl => IntegerArithmetic::shl(a, b),
        Operator::Shr => IntegerArithmetic::shr(a, b),
        Operator::DivCeil => IntegerArithmetic::div_ceil(a, b),
        Operator::NextMultipleOf => IntegerArithmetic::next_multiple_of(a, b),
        Operator::Pow => IntegerArithmetic::pow(a, b),
        Operator::Min => Some(a.min(b)),
        Operator::Max => Some(a.max(b)),
        _ => return None,
    })
}

/// The result of two integers: of two that are plain one of their type, which has to fit it.
fn alone(a: &Value, b: &Value, number: Value) -> Option<Value> {
    let (Value::Plain(_, ty), Value::Plain(_, with)) = (a, b) else { return Some(number) };
    if ty != with {
        return Some(number);
    }
    let number = number.integer()?;
    let fits = match ty {
        Plain::Unsigned(bytes) => number >= int(0) && number <= int(u64::MAX >> (64 - 8 * u32::from(*bytes))),
        Plain::Signed(bytes) => {
            let most = i64::MAX >> (64 - 8 * u32::from(*bytes));
            number >= int(-most - 1) && number <= int(most)
        }
        Plain::Float(_) => false,
    };
    fits.then_some(Value::Plain(number, *ty))
}

fn multiple(operator: Operator, a: Int, b: Int) -> Option<bool> {
    (operator == Operator::IsMultipleOf).then(|| a.is_multiple_of(b))
}

fn floats(operator: Operator, a: f64, b: f64) -> Option<Value> {
    Some(Value::Float(match operator {
        Operator::Add => a + b,
        Operator::Sub => a - b,
        Operator::Mul => a * b,
        Operator::Div => a / b,
        _ => return operator.compare(&a, &b).map(Value::Bool),
    }))
}

fn truths(operator: Operator, a: bool, b: bool) -> Option<bool> {
    match operator {
        Operator::And => Some(a && b),
        Operator::Or => Some(a || b),
        _ => operator.compare(&a, &b),
    }
}

//! The instruction of each operator on each type. The table is data; `lower` and the documentation read it.

use super::tree::{BinaryOp, UnaryOp};
use super::types;
use ptx_core::hash::Map;
use ptx_core::isa::{Class, Type};
use std::sync::LazyLock;

/// An operator, as the table names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// `a + b`
    Binary(BinaryOp),
    /// `-a`
    Unary(UnaryOp),
    /// `wide(a) * b`
    Wide,
}

/// Type of an operator's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// The operands' type.
    Same,
    /// `pred`.
    Pred,
    /// Twice as wide.
    Wide,
}

/// One line: an operator on some types is one instruction. `{t}` stands for the type, `{b}` for its untyped bits.
#[derive(Debug)]
pub(crate) struct Operator {
    /// The operator.
    pub(crate) op: Op,
    /// The types, as PTX names them.
    pub(crate) types: &'static str,
    /// The instruction.
    pub(crate) inst: &'static str,
    /// Its result.
    pub(crate) gives: Gives,
}

const INTS: &str = "u16 s16 u32 s32 u64 s64";
const BITS: &str = "b16 u16 s16 b32 u32 s32 b64 u64 s64";
const FLOATS: &str = "f32 f64 f16 f16x2 bf16 bf16x2 f32x2";
const ORDERED: &str = "u16 s16 u32 s32 u64 s64 f32 f64 f16 bf16";

macro_rules! operators {
    ($($kind:ident $op:ident : $types:expr => $inst:literal, $gives:ident;)*) => {
        &[$(Operator { op: operators!(@ $kind $op), types: $types, inst: $inst, gives: Gives::$gives }),*]
    };
    (@ binary $op:ident) => { Op::Binary(BinaryOp::$op) };
    (@ unary $op:ident) => { Op::Unary(UnaryOp::$op) };
    (@ wide $op:ident) => { Op::Wide };
}

/// Every operator on every type that has a single instruction for it.
///
/// Float arithmetic names its rounding, so that ptxas does not fuse it. `/` on floats is the IEEE one.
pub(crate) const TABLE: &[Operator] = operators! {
    binary Add: INTS => "add.{t}", Same;
    binary Add: "u16x2 s16x2" => "add.{t}", Same;
    binary Add: FLOATS => "add.rn.{t}", Same;
    binary Sub: INTS => "sub.{t}", Same;
    binary Sub: FLOATS => "sub.rn.{t}", Same;
    binary Mul: INTS => "mul.lo.{t}", Same;
    binary Mul: FLOATS => "mul.rn.{t}", Same;
    wide Mul: "u16 s16 u32 s32" => "mul.wide.{t}", Wide;
    binary Div: INTS => "div.{t}", Same;
    binary Div: "f32 f64" => "div.rn.{t}", Same;
    binary Rem: INTS => "rem.{t}", Same;
    binary And: BITS => "and.{b}", Same;
    binary Or: BITS => "or.{b}", Same;
    binary Xor: BITS => "xor.{b}", Same;
    binary And: "pred" => "and.pred", Same;
    binary Or: "pred" => "or.pred", Same;
    binary Xor: "pred" => "xor.pred", Same;
    binary Shl: BITS => "shl.{b}", Same;
    binary Shr: BITS => "shr.{t}", Same;
    binary Eq: ORDERED => "setp.eq.{t}", Pred;
    binary Eq: "b16 b32 b64" => "setp.eq.{t}", Pred;
    binary Ne: INTS => "setp.ne.{t}", Pred;
    binary Ne: "b16 b32 b64" => "setp.ne.{t}", Pred;
    binary Ne: "f32 f64 f16 bf16" => "setp.neu.{t}", Pred;
    binary Lt: ORDERED => "setp.lt.{t}", Pred;
    binary Le: ORDERED => "setp.le.{t}", Pred;
    binary Gt: ORDERED => "setp.gt.{t}", Pred;
    binary Ge: ORDERED => "setp.ge.{t}", Pred;
    unary Neg: "s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2" => "neg.{t}", Same;
    unary Not: BITS => "not.{b}", Same;
    unary Not: "pred" => "not.pred", Same;
};

impl Operator {
    /// The instruction for a type.
    pub(crate) fn text(&self, ty: Type) -> String {
        self.inst.replace("{t}", ty.name()).replace("{b}", &format!("b{}", ty.bits()))
    }

    /// The type of the result for operands of this type.
    pub(crate) fn result(&self, ty: Type) -> Option<Type> {
        match self.gives {
            Gives::Same => Some(ty),
            Gives::Pred => Type::find("pred"),
            Gives::Wide => Type::find(&format!("{}{}", &ty.name()[..1], ty.bits() * 2)),
        }
    }
}

/// The instruction of an operator on a type.
pub(crate) fn find(op: Op, ty: Type) -> Option<&'static Operator> {
    TABLE.iter().find(|row| row.op == op && row.types.split(' ').any(|name| name == ty.name()))
}

/// The operator and right side that replace a division of unsigned integers by this constant, if it is a power of
/// two. ptxas would make some twenty instructions of `div.u32 a, b, 32`.
pub(crate) fn by_power_of_two(op: Op, ty: Type, divisor: i128) -> Option<(&'static Operator, i128)> {
    if ty.class() != Class::Unsigned || divisor.count_ones() != 1 || divisor < 0 {
        return None;
    }
    let (op, right) = match op {
        Op::Binary(BinaryOp::Div) => (BinaryOp::Shr, i128::from(divisor.trailing_zeros())),
        Op::Binary(BinaryOp::Rem) => (BinaryOp::And, divisor - 1),
        _ => return None,
    };
    Some((find(Op::Binary(op), ty)?, right))
}

/// Returns true if a division by this literal is one of those, as it is written.
pub fn is_by_power_of_two(operator: &str, ty: Type, divisor: i64) -> bool {
    let mut divisions = [BinaryOp::Div, BinaryOp::Rem].map(Op::Binary).into_iter();
    divisions.any(|op| operator == symbol(op) && by_power_of_two(op, ty, divisor.into()).is_some())
}

/// An operator, the type of its operands and that of its result.
pub type Written = (&'static str, Type, Type);

/// Operators for an instruction: one for every type that it fits. `wide` is `wide(a) * b`.
pub fn written(inst: &str) -> &'static [Written] {
    static BY_TEXT: LazyLock<Map<String, Vec<Written>>> = LazyLock::new(by_text);
    BY_TEXT.get(inst).map_or(&[], Vec::as_slice)
}

fn by_text() -> Map<String, Vec<Written>> {
    let mut all: Map<String, Vec<Written>> = Map::default();
    for row in TABLE {
        let operator = if row.op == Op::Wide { "wide" } else { symbol(row.op) };
        for ty in row.types.split(' ').filter_map(Type::find) {
            let written = row.result(ty).map(|result| (operator, ty, result));
            all.entry(row.text(ty)).or_default().extend(written);
        }
    }
    all
}

/// The instruction that an operator is on so many operands of this type, and the type of its result: what [`written`]
/// reads.
pub fn instruction(operator: &str, operands: usize, ty: Type) -> Option<(String, Type)> {
    let is = |row: &&Operator| match row.op {
        Op::Wide => operator == "wide",
        op => operator == symbol(op) && matches!(op, Op::Unary(_)) == (operands == 1),
    };
    let fits = |row: &&Operator| row.types.split(' ').any(|name| name == ty.name());
    TABLE.iter().filter(is).find(fits).and_then(|row| Some((row.text(ty), row.result(ty)?)))
}

/// Instructions to write where an operator has no single instruction.
pub(crate) fn instead(op: Op, ty: Type) -> String {
    let t = ty.name();
    match op {
        Op::Binary(BinaryOp::LogicalAnd) => {
            "write `(…) & (…)`, which is `and.pred`: both sides are evaluated, and `&` binds closer than `<`".into()
        }
        Op::Binary(BinaryOp::LogicalOr) => {
            "write `(…) | (…)`, which is `or.pred`: both sides are evaluated, and `|` binds closer than `<`".into()
        }
        Op::Binary(BinaryOp::Rem) => {
            format!("write `ptx! {{ div.rn.{t} …; cvt.rzi.{t}.{t} …; fma.rn.{t} …; }}` for a remainder")
        }
        Op::Binary(BinaryOp::Div) => {
            format!("write `ptx! {{ rcp.approx.ftz.f32 …; mul.rn.{t} …; }}`, or convert to `f32` first")
        }
        Op::Binary(BinaryOp::Eq) => "write `!(a ^ b)`, which is `xor.pred` and `not.pred`".into(),
        Op::Binary(BinaryOp::Ne) => "write `a ^ b`, which is `xor.pred`".into(),
        Op::Unary(UnaryOp::Neg) => "write `0 - x`, which is `sub`".into(),
        _ if ty.bits() == 8 => format!("convert it first, `x as u32`, which is `cvt.u32.{t}`"),
        _ => format!("convert it first with `as`, or write the instructions for `.{t}` in `ptx! {{ … }}`"),
    }
}

/// Returns true if an operator gives a `pred`.
pub(crate) fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp as B;
    matches!(op, B::Eq | B::Ne | B::Lt | B::Le | B::Gt | B::Ge)
}

/// Symbol of an operator.
pub(crate) fn symbol(op: Op) -> &'static str {
    use BinaryOp as B;
    match op {
        Op::Wide => "wide(a) *",
        Op::Unary(UnaryOp::Neg) => "-",
        Op::Unary(UnaryOp::Not) => "!",
        Op::Binary(binary) => {
            const SYMBOLS: &[(BinaryOp, &str)] = &[
                (B::Add, "+"),
                (B::Sub, "-"),
                (B::Mul, "*"),
                (B::Div, "/"),
                (B::Rem, "%"),
                (B::And, "&"),
                (B::Or, "|"),
                (B::Xor, "^"),
                (B::Shl, "<<"),
                (B::Shr, ">>"),
                (B::Eq, "=="),
                (B::Ne, "!="),
                (B::Lt, "<"),
                (B::Le, "<="),
                (B::Gt, ">"),
                (B::Ge, ">="),
                (B::LogicalAnd, "&&"),
                (B::LogicalOr, "||"),
            ];
            SYMBOLS.iter().find(|(op, _)| *op == binary).map_or("?", |(_, text)| text)
        }
    }
}

#[doc = include_str!("../docs/operators.md")]
pub fn markdown() -> String {
    let mut out = String::from(
        "Every operator of the kernel language, and the one instruction it is.\n\n| operator | types | instruction | result |\n|---|---|---|---|\n",
    );
    for row in TABLE {
        let types: Vec<_> = row.types.split(' ').map(|t| format!("`{}`", types::listed(t))).collect();
        let result = match row.gives {
            Gives::Same => "the same type",
            Gives::Pred => "`pred`",
            Gives::Wide => "twice as wide",
        };
        let written = match row.op {
            Op::Unary(_) => format!("`{}a`", symbol(row.op)),
            Op::Wide => "`wide(a) * b`".to_owned(),
            Op::Binary(_) => format!("`a {} b`", symbol(row.op).replace('|', "\\|")),
        };
        let inst = row.inst.replace("{t}", ".type").replace("{b}", ".bits").replace("..", ".");
        out.push_str(&format!("| {written} | {} | `{inst}` | {result} |\n", types.join(" ")));
    }
    out.push_str(
        "\nOf unsigned integers and a constant power of two, `a / b` is `shr.type` and `a % b` is `and.bits`: ptxas makes some \
         twenty instructions of such a `div`.\n",
    );
    out.push_str(&super::methods::markdown());
    out
}

//! Methods of registers that are one instruction: `a.max(b)`. The table is data; `lower` and the documentation read it.

use super::types;
use ptx_core::isa::Type;

/// One line: a method on some types is one instruction. `{t}` stands for the type, `{b}` for its untyped bits.
#[derive(Debug)]
pub(crate) struct Method {
    /// Its name.
    pub(crate) name: &'static str,
    /// The number of arguments behind the receiver, all of its type.
    pub(crate) arguments: usize,
    /// The types, as PTX names them.
    pub(crate) types: &'static str,
    /// The instruction.
    pub(crate) inst: &'static str,
}

const ORDERED: &str = "u16 s16 u32 s32 u64 s64 f32 f64 f16 f16x2 bf16 bf16x2";
const SIGNED: &str = "s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2";
const FLOATS: &str = "f32 f64 f16 f16x2 bf16 bf16x2 f32x2";

/// Every method on every type that has a single instruction for it.
pub(crate) const TABLE: &[Method] = &[
    Method { name: "min", arguments: 1, types: ORDERED, inst: "min.{t}" },
    Method { name: "max", arguments: 1, types: ORDERED, inst: "max.{t}" },
    Method { name: "abs", arguments: 0, types: SIGNED, inst: "abs.{t}" },
    Method { name: "fma", arguments: 2, types: FLOATS, inst: "fma.rn.{t}" },
];

/// The method of a predicate: `p.select(a, b)` is `a` where `p` is true.
pub(crate) const SELECT: &str = "select";

impl Method {
    /// The instruction for a type.
    pub(crate) fn text(&self, ty: Type) -> String {
        self.inst.replace("{t}", ty.name())
    }

    fn takes(&self, ty: Type) -> bool {
        self.types.split(' ').any(|name| name == ty.name())
    }
}

/// The method of this name on a type.
pub(crate) fn find(name: &str, ty: Type) -> Option<&'static Method> {
    TABLE.iter().find(|method| method.name == name && method.takes(ty))
}

/// Returns true if some type has the method.
pub(crate) fn exists(name: &str) -> bool {
    name == SELECT || TABLE.iter().any(|method| method.name == name)
}

/// The methods of a type, for help.
pub(crate) fn names(ty: Type) -> Vec<&'static str> {
    let own = TABLE.iter().filter(|method| method.takes(ty)).map(|method| method.name);
    own.chain((ty.name() == "pred").then_some(SELECT)).collect()
}

/// The table as text.
pub(crate) fn markdown() -> String {
    let mut out = String::from(
        "\nMethods of registers, and the one instruction each is.\n\n| method | types | instruction |\n|---|---|---|\n",
    );
    for method in TABLE {
        let types: Vec<_> = method.types.split(' ').map(|t| format!("`{}`", types::listed(t))).collect();
        let arguments = ["", "b", "b, c"].get(method.arguments).copied().unwrap_or_default();
        let inst = method.inst.replace(".{t}", ".type");
        out.push_str(&format!("| `a.{}({arguments})` | {} | `{inst}` |\n", method.name, types.join(" ")));
    }
    out.push_str("| `p.select(a, b)` | a `pred`, and two values of one type with 16, 32 or 64 bits | `selp.type` |\n");
    out
}

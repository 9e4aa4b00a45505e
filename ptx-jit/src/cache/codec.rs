//! Compiled programs as bytes. A byte string that a build of another layout wrote is never read: the key of an entry names the build.

use ptx_core::host::{Expr, Field, Operator, Plain};
use ptx_expand::program::{
    Condition, Contract, Dim, Distinct, From, Generic, Kernel, Kind, Launch, MemoryLayout, MemoryPlace, Module,
    Outline, OutlineParam, Param, Problem, Program, Region, Shown, Table, Taken, TensorMap, Text,
};

/// A value as bytes.
pub(crate) trait Code: Sized {
    /// Writes it behind the others.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads it from the front of the rest; `None` if it is not there.
    fn decode(rest: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($ty:ty)*) => { $(
        impl Code for $ty {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn decode(rest: &mut &[u8]) -> Option<$ty> {
                let (bytes, behind) = rest.split_first_chunk()?;
                *rest = behind;
                Some(<$ty>::from_le_bytes(*bytes))
            }
        }
    )* };
}
numbers! { u8 u32 u64 i64 f64 }

impl Code for usize {
    fn encode(&self, out: &mut Vec<u8>) {
        (*self as u64).encode(out);
    }

    fn decode(rest: &mut &[u8]) -> Option<usize> {
        usize::try_from(u64::decode(rest)?).ok()
    }
}

impl Code for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        u8::from(*self).encode(out);
    }

    fn decode(rest: &mut &[u8]) -> Option<bool> {
        u8::decode(rest).map(|byte| byte != 0)
    }
}

impl Code for String {
    fn encode(&self, out: &mut Vec<u8>) {
        self.len().encode(out);
        out.extend(self.as_bytes());
    }

    fn decode(rest: &mut &[u8]) -> Option<String> {
        let len = usize::decode(rest)?;
        let (text, behind) = rest.split_at_checked(len)?;
        *rest = behind;
        String::from_utf8(text.to_vec()).ok()
    }
}

impl<T: Code> Code for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.len().encode(out);
        self.iter().for_each(|item| item.encode(out));
    }

    fn decode(rest: &mut &[u8]) -> Option<Vec<T>> {
        let len = usize::decode(rest)?;
        // Every item has a byte or more: a length that is wrong reserves no memory.
        let mut items = Vec::with_capacity(len.min(rest.len()));
        for _ in 0..len {
            items.push(T::decode(rest)?);
        }
        Some(items)
    }
}

impl<T: Code> Code for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        self.iter().for_each(|value| value.encode(out));
    }

    fn decode(rest: &mut &[u8]) -> Option<Option<T>> {
        if bool::decode(rest)? { T::decode(rest).map(Some) } else { Some(None) }
    }
}

impl<T: Code, E: Code> Code for Result<T, E> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_ok().encode(out);
        match self {
            Ok(value) => value.encode(out),
            Err(error) => error.encode(out),
        }
    }

    fn decode(rest: &mut &[u8]) -> Option<Result<T, E>> {
        if bool::decode(rest)? { T::decode(rest).map(Ok) } else { E::decode(rest).map(Err) }
    }
}

impl<T: Code, const N: usize> Code for [T; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.encode(out));
    }

    fn decode(rest: &mut &[u8]) -> Option<[T; N]> {
        let items: Vec<T> = (0..N).map(|_| T::decode(rest)).collect::<Option<_>>()?;
        items.try_into().ok()
    }
}

impl<T: Code> Code for Box<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }

    fn decode(rest: &mut &[u8]) -> Option<Box<T>> {
        T::decode(rest).map(Box::new)
    }
}

macro_rules! tuples {
    ($(($($item:ident)*);)*) => { $(
        #[allow(non_snake_case, reason = "the names of the types are those of the values, too")]
        impl<$($item: Code),*> Code for ($($item,)*) {
            fn encode(&self, out: &mut Vec<u8>) {
                let ($($item,)*) = self;
                $($item.encode(out);)*
            }

            fn decode(rest: &mut &[u8]) -> Option<($($item,)*)> {
                Some(($($item::decode(rest)?,)*))
            }
        }
    )* };
}
tuples! { (A B); (A B C); }

/// Structs, field by field.
macro_rules! records {
    ($($name:ident { $($field:ident)* })*) => { $(
        impl Code for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($field.encode(out);)*
            }

            fn decode(rest: &mut &[u8]) -> Option<$name> {
                Some($name { $($field: Code::decode(rest)?),* })
            }
        }
    )* };
}
records! {
    Program { modules warnings }
    Module { name texts kernels memory }
    MemoryLayout { symbol size places }
    MemoryPlace { path offset element dims }
    Text { target ptx lines }
    Kernel { name entry doc params dims taken maps launch }
    Param { name kind align }
    Taken { name size align from }
    TensorMap { of name tile words }
    Launch { requires tables regions offsets distinct grid block cluster shared dynamic vouched proved cooperative pdl contract }
    Contract { no_local no_spills max_registers occupancy threads dynamic_shared }
    Condition { holds text shown }
    Distinct { of below }
    Region { name of element len }
    Table { of first end argument element len }
    Field { offset ty }
    Outline { name generics params instances }
    OutlineParam { name element is_output }
    Generic { name is_type }
}

/// Enums: the number of the variant, and its fields in order.
macro_rules! choices {
    ($($name:ident { $($number:literal: $variant:ident $(($($field:ident)*))?;)* })*) => { $(
        impl Code for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant $(($($field),*))? => {
                        out.push($number);
                        $($($field.encode(out);)*)?
                    })*
                }
            }

            fn decode(rest: &mut &[u8]) -> Option<$name> {
                Some(match u8::decode(rest)? {
                    $($number => $name::$variant $(($({ let $field = Code::decode(rest)?; $field }),*))?,)*
                    _ => return None,
                })
            }
        }
    )* };
}
choices! {
    From { 0: Param(at); 1: Dim(at); 2: Map(at); }
}

impl Code for Dim {
    fn encode(&self, out: &mut Vec<u8>) {
        let (named, constant) = match self {
            Dim::Named(at) => (Some(*at), None),
            Dim::Constant(name, extent) => (None, Some((name.clone(), *extent))),
        };
        named.encode(out);
        constant.encode(out);
    }

    fn decode(rest: &mut &[u8]) -> Option<Dim> {
        match (Option::<usize>::decode(rest)?, Option::<(String, u32)>::decode(rest)?) {
            (Some(at), None) => Some(Dim::Named(at)),
            (None, Some((name, extent))) => Some(Dim::Constant(name, extent)),
            _ => None,
        }
    }
}

/// The types of parameters that have no fields here.
const OBJECTS: [&str; 2] = ["Texture", "Surface"];

impl Code for Kind {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Kind::Slice { element, written } => (0u8, element.clone(), *written).encode(out),
            Kind::Tile { element, dims, written } => {
                (1u8, element.clone(), *written).encode(out);
                dims.encode(out);
            }
            Kind::Value(ty) => (2u8, ty.clone()).encode(out),
            Kind::Map => 3u8.encode(out),
            Kind::Object(name) => (4u8, (*name).to_owned()).encode(out),
        }
    }

    fn decode(rest: &mut &[u8]) -> Option<Kind> {
        Some(match u8::decode(rest)? {
            0 => Kind::Slice { element: Code::decode(rest)?, written: Code::decode(rest)? },
            1 => {
                let (element, written) = Code::decode(rest)?;
                Kind::Tile { element, written, dims: Code::decode(rest)? }
            }
            2 => Kind::Value(Code::decode(rest)?),
            3 => Kind::Map,
            4 => {
                let name = String::decode(rest)?;
                Kind::Object(OBJECTS.into_iter().find(|object| *object == name)?)
            }
            _ => return None,
        })
    }
}

/// Problems of host expressions alone: those of the checker are not kept.
impl Code for Problem {
    fn encode(&self, out: &mut Vec<u8>) {
        self.message.encode(out);
        [self.start, self.end].encode(out);
        self.help.encode(out);
    }

    fn decode(rest: &mut &[u8]) -> Option<Problem> {
        let message = Code::decode(rest)?;
        let [start, end] = Code::decode(rest)?;
        let help = Code::decode(rest)?;
        Some(Problem { is_warning: false, code: "", message, start, end, help, section: None })
    }
}

const OPERATORS: [Operator; 25] = [
    Operator::Neg,
    Operator::Not,
    Operator::IsPowerOfTwo,
    Operator::Add,
    Operator::Sub,
    Operator::Mul,
    Operator::Div,
    Operator::Rem,
    Operator::Shl,
    Operator::Shr,
    Operator::And,
    Operator::Or,
    Operator::Eq,
    Operator::Ne,
    Operator::Lt,
    Operator::Le,
    Operator::Gt,
    Operator::Ge,
    Operator::Min,
    Operator::Max,
    Operator::DivCeil,
    Operator::NextMultipleOf,
    Operator::Pow,
    Operator::IsMultipleOf,
    Operator::Exact,
];

impl Code for Operator {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn decode(rest: &mut &[u8]) -> Option<Operator> {
        OPERATORS.get(usize::from(u8::decode(rest)?)).copied()
    }
}

choices! {
    Expr {
        0: Int(number); 1: Bool(truth); 2: Float(number); 3: Argument(at); 4: Len(at); 5: Dim(at);
        6: Unary(operator operand); 7: Binary(operator operands text); 8: List(items); 9: Field(at field); 10: If(parts);
    }
    Shown { 0: Value(value); 1: Struct(name fields); 2: Whole(name fields); }
    Plain { 0: Unsigned(bytes); 1: Signed(bytes); 2: Float(bytes); }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlines_come_back() {
        let param = |name: &str, element: Option<&str>, is_output| OutlineParam {
            name: name.to_owned(),
            element: element.map(str::to_owned),
            is_output,
        };
        let outline = Outline {
            name: "scale".to_owned(),
            generics: vec![Generic { name: "T".to_owned(), is_type: true }],
            params: vec![param("x", Some("T"), false), param("map", None, false), param("out", Some("f32"), true)],
            instances: vec![vec!["f32".to_owned()], Vec::new()],
        };
        let mut bytes = Vec::new();
        vec![outline.clone()].encode(&mut bytes);
        let mut rest = bytes.as_slice();
        assert_eq!((Vec::<Outline>::decode(&mut rest), rest), (Some(vec![outline]), [].as_slice()));
        assert_eq!(Vec::<Outline>::decode(&mut &bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn operators_have_their_numbers() {
        for (at, operator) in OPERATORS.iter().enumerate() {
            assert_eq!(*operator as usize, at);
        }
    }
}

//! The parameters of a function, from the parts of its signature: its own, and the fields of structs of arguments. All of it happens while the
//! library is compiled.
#![allow(clippy::panic, reason = "a panic is an error of the compiler")]

use crate::call::PARAMS;
use crate::function::{Default, Dim, Element, Kind, Param, TensorKind};

/// A part of a signature.
#[derive(Clone, Copy)]
pub enum Part {
    /// A parameter.
    One(Param),
    /// The fields of a struct, and the elements that its type parameters stand for.
    Struct(&'static [Part], &'static [Element]),
}

/// A struct of arguments: an exported function that takes it has its fields as parameters. `#[derive(ptx_ffi::Args)]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of an exported function",
    label = "expected TensorRef, TensorMut, an integer, f32, f64, bool, &str, an Option of one of them, or a struct with `#[derive(ptx_ffi::Args)]`"
)]
pub trait Args {
    /// Its fields.
    const PARTS: &'static [Part];
}

/// The value of an option for a parameter.
#[derive(Clone, Copy)]
pub enum Setting {
    /// Its extents.
    Shape(&'static [Dim]),
    /// The value in a call without it.
    Default(Default),
    /// The alignment of its address.
    Align(usize),
}

/// The most type parameters of a struct.
const TYPES: usize = 8;

/// The elements that type parameters stand for.
type Types = [Element; TYPES];

/// The parameters of a signature.
pub const fn count(parts: &[Part]) -> usize {
    let (mut at, mut all) = (0, 0);
    while at < parts.len() {
        all += match parts[at] {
            Part::One(_) => 1,
            Part::Struct(fields, _) => count(fields),
        };
        at += 1;
    }
    all
}

/// The parameters of a signature, in their order.
pub const fn flatten<const N: usize>(parts: &[Part]) -> [Param; N] {
    assert!(N <= PARAMS, "an exported function has at most 32 parameters");
    let mut all = [Param { name: "", kind: Kind::Bool, optional: false, default: None }; N];
    let (mut own, mut at) = ([Element::Generic(0); TYPES], 0);
    while at < TYPES {
        own[at] = Element::Generic(at);
        at += 1;
    }
    fill(parts, &own, &mut all, 0);
    all
}

/// Writes the parameters from number `first` on, and returns the number behind them.
const fn fill<const N: usize>(parts: &[Part], types: &Types, all: &mut [Param; N], first: usize) -> usize {
    let (mut at, mut next) = (0, first);
    while at < parts.len() {
        match parts[at] {
            Part::One(param) => {
                all[next] = Param { kind: with_types(param.kind, types), ..param };
                next += 1;
            }
            Part::Struct(fields, elements) => next = fill(fields, &inner(elements, types), all, next),
        }
        at += 1;
    }
    next
}

/// The elements of a struct's type parameters, by those of the function or struct that has it.
const fn inner(elements: &[Element], types: &Types) -> Types {
    assert!(elements.len() <= TYPES, "a struct of arguments has at most 8 type parameters");
    let (mut all, mut at) = (*types, 0);
    while at < elements.len() {
        all[at] = resolve(elements[at], types);
        at += 1;
    }
    all
}

const fn resolve(element: Element, types: &Types) -> Element {
    match element {
        Element::Generic(number) => types[number],
        Element::Fixed(_) => element,
    }
}

const fn with_types(kind: Kind, types: &Types) -> Kind {
    match kind {
        Kind::Tensor(tensor) => Kind::Tensor(TensorKind { element: resolve(tensor.element, types), ..tensor }),
        other => other,
    }
}

/// The parameters, one of them with the value of an option.
///
/// # Panics
/// While the library is compiled, if there is none of this name, or the option does not fit its type.
pub const fn set<const N: usize>(
    mut params: [Param; N],
    name: &str,
    setting: Setting,
    missing: &'static str,
) -> [Param; N] {
    let mut at = 0;
    while at < N {
        if is_same(params[at].name, name) {
            params[at] = with_setting(params[at], setting);
            return params;
        }
        at += 1;
    }
    panic!("{}", missing)
}

const fn with_setting(param: Param, setting: Setting) -> Param {
    match (setting, param.kind) {
        (Setting::Shape(dims), Kind::Tensor(tensor)) => {
            assert!(dims.len() == tensor.rank, "the tensor has another number of dimensions; `..` counts as one");
            Param { kind: Kind::Tensor(TensorKind { dims, ..tensor }), ..param }
        }
        (Setting::Align(align), Kind::Tensor(tensor)) => {
            Param { kind: Kind::Tensor(TensorKind { align, ..tensor }), ..param }
        }
        (Setting::Shape(_) | Setting::Align(_), _) => panic!("the parameter is no tensor"),
        (Setting::Default(_), Kind::Tensor(_)) => panic!("a tensor has no default; `Option<…>` may be left out"),
        (Setting::Default(Default::Int(value)), Kind::Float(_)) => {
            Param { default: Some(Default::Float(value as f64)), ..param }
        }
        (Setting::Default(value), kind) => {
            assert!(is_value_of(value, kind), "the default has another type than the parameter");
            Param { default: Some(value), ..param }
        }
    }
}

const fn is_value_of(value: Default, kind: Kind) -> bool {
    match kind {
        Kind::Int(..) => matches!(value, Default::Int(_)),
        Kind::Float(_) => matches!(value, Default::Float(_)),
        Kind::Bool => matches!(value, Default::Bool(_)),
        Kind::Str => matches!(value, Default::Str(_)),
        Kind::Tensor(_) | Kind::Bytes(_) => false,
    }
}

const fn is_same(left: &str, right: &str) -> bool {
    let (left, right, mut at) = (left.as_bytes(), right.as_bytes(), 0);
    if left.len() != right.len() {
        return false;
    }
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    const fn tensor(name: &'static str, element: Element, rank: usize) -> Part {
        let kind = Kind::Tensor(TensorKind { written: false, element, rank, dims: &[], align: 1 });
        Part::One(Param { name, kind, optional: false, default: None })
    }

    const INNER: &[Part] = &[tensor("a", Element::Generic(0), 2), tensor("b", Element::Generic(1), 1)];
    const OUTER: &[Part] = &[
        tensor("first", Element::Generic(1), 1),
        Part::Struct(INNER, &[Element::Generic(1), Element::Fixed(DType::I32)]),
        Part::One(Param { name: "scale", kind: Kind::Float(DType::F64), optional: false, default: None }),
    ];

    fn element(param: &Param) -> Option<Element> {
        param.tensor().map(|tensor| tensor.element)
    }

    #[test]
    fn fields_have_the_elements_of_the_function() {
        let params: [Param; count(OUTER)] = flatten(OUTER);
        assert_eq!(params.map(|param| param.name), ["first", "a", "b", "scale"]);
        assert!(matches!(element(&params[1]), Some(Element::Generic(1))));
        assert!(matches!(element(&params[2]), Some(Element::Fixed(DType::I32))));
        let swapped = [Part::Struct(OUTER, &[Element::Generic(1), Element::Generic(0)])];
        let params: [Param; 4] = flatten(&swapped);
        assert!(matches!(element(&params[0]), Some(Element::Generic(0))));
        assert!(matches!(element(&params[1]), Some(Element::Generic(0))));
    }

    #[test]
    fn options_change_the_parameter_of_their_name() {
        let params: [Param; 4] = flatten(OUTER);
        let params = set(params, "a", Setting::Shape(&[Dim::Leading, Dim::Name("n", 1)]), "");
        let params = set(params, "b", Setting::Align(16), "");
        let params = set(params, "scale", Setting::Default(Default::Int(2)), "");
        assert_eq!(params[1].tensor().map(|tensor| tensor.dims.len()), Some(2));
        assert_eq!(params[2].tensor().map(|tensor| tensor.align), Some(16));
        assert!(matches!(params[3].default, Some(Default::Float(value)) if value == 2.0));
    }

    #[test]
    #[should_panic(expected = "no `c`")]
    fn a_name_that_no_field_has_is_refused() {
        let params: [Param; 4] = flatten(OUTER);
        set(params, "c", Setting::Align(16), "no `c`");
    }

    #[test]
    #[should_panic(expected = "another number of dimensions")]
    fn a_shape_of_another_rank_is_refused() {
        let params: [Param; 4] = flatten(OUTER);
        set(params, "a", Setting::Shape(&[Dim::Any]), "");
    }

    #[test]
    #[should_panic(expected = "another type")]
    fn a_default_of_another_type_is_refused() {
        let params: [Param; 4] = flatten(OUTER);
        set(params, "scale", Setting::Default(Default::Bool(true)), "");
    }
}

//! The types that memory of a launch can have, and those that only a parameter has: a launch has no value for anything else.

use super::Lowerer;
use super::constant::path_text;
use crate::tree::{self, TypeKind};
use crate::types::{Ty, layout};
use ptx_core::diag::codes;
use ptx_core::span::Span;

/// The types of whole parameters: what they stand for is no value in memory.
const WHOLE: [&str; 5] = ["TensorMap", "Texture", "Surface", "Tile", "TileMut"];

impl<'a> Lowerer<'a> {
    /// The type of the elements of memory that a launch passes; `None` once an error is reported.
    pub(super) fn element_type(&mut self, element: &'a tree::Type) -> Option<Ty> {
        if let TypeKind::Ref(_, inner) = &element.kind
            && !matches!(inner.kind, TypeKind::Slice(_))
        {
            return self.no_element("a reference", "write the type of the elements alone: `&[f32]`", element.span);
        }
        self.no_whole_parameter(element)?;
        let ty = self.ty(element)?;
        let refused = match ty.innermost() {
            Ty::Scalar(scalar) if scalar.name() == "pred" => {
                Some(("`pred`", "write `u8`, and compare a loaded value with zero"))
            }
            Ty::Address(_) => Some(("an address", "write `u64`: memory has addresses as numbers")),
            Ty::Tuple(_) => Some(("a tuple", "write an array, `[u32; 2]`, or a struct")),
            _ if layout::size_of(&ty) == Some(0) => Some(("a type without bytes", "write a type of at least one byte")),
            _ => None,
        };
        match refused {
            Some((found, help)) => self.no_element(found, help, element.span),
            None => Some(ty),
        }
    }

    /// Reports a type of whole parameters in an array, a struct or memory.
    pub(super) fn no_whole_parameter(&mut self, ty: &'a tree::Type) -> Option<()> {
        let mut inner = ty;
        while let TypeKind::Array(element, _) = &inner.kind {
            inner = element;
        }
        let TypeKind::Path(path) = &inner.kind else { return Some(()) };
        match path.segments.last().filter(|name| WHOLE.contains(&name.name.as_str())) {
            Some(_) => {
                let message = format!("a `{}` is a parameter of its own", path_text(path));
                self.fail(&codes::P0812, inner.span, message, "write one parameter for each of them");
                None
            }
            None => Some(()),
        }
    }

    fn no_element<T>(&mut self, found: &str, help: &str, span: Span) -> Option<T> {
        self.fail(&codes::P0812, span, format!("{found} is no element of memory"), help);
        None
    }
}

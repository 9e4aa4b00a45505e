//! The tensor maps of `#[tma]`, made for each launch.

use ptx_expand::program::{Kernel, Kind, TensorMap as Described};
use ptx_runtime::expansion::build_map;
use ptx_runtime::{
    ElementType, Error, ErrorKind, Fill, Interleave, Promotion, Result, StreamRef, Swizzle, TensorMap, TensorMapBuilder,
};

/// All maps of a kernel; `tile` gives the address and the shape of an argument.
pub(super) fn all<'t>(
    (kernel, loaded): (&Kernel, &ptx_runtime::Kernel),
    stream: StreamRef<'_>,
    tile: impl Fn(usize) -> (u64, &'t [usize]),
) -> Result<Vec<TensorMap>> {
    kernel.maps.iter().map(|map| one((kernel, loaded), map, stream, tile(map.of))).collect()
}

fn one(
    (kernel, loaded): (&Kernel, &ptx_runtime::Kernel),
    map: &Described,
    stream: StreamRef<'_>,
    (address, shape): (u64, &[usize]),
) -> Result<TensorMap> {
    let unknown =
        || Error::new(ErrorKind::TensorMap, format!("the tensor map `{}` has an option that is not known", map.name));
    let element = match kernel.params.get(map.of).map(|param| &param.kind) {
        Some(Kind::Tile { element, .. }) => element_type(element),
        _ => None,
    };
    // A tile has at least as many elements as its shape has.
    let start = TensorMap::of_address(stream, element.ok_or_else(unknown)?, address, shape).tile(&map.tile);
    let built = map.words.iter().try_fold(start, with_word).ok_or_else(unknown)?;
    let parameter = kernel.params.get(map.of).map_or(map.name.as_str(), |param| &param.name);
    build_map(&built, loaded, parameter)
}

fn with_word(builder: TensorMapBuilder, [method, _, variant]: &[String; 3]) -> Option<TensorMapBuilder> {
    let variant = variant.as_str();
    Some(match method.as_str() {
        "swizzle" => builder.swizzle(named(&Swizzle::ALL, variant)?),
        "element" => builder.element(named(&ElementType::ALL, variant)?),
        "interleave" => builder.interleave(named(&Interleave::ALL, variant)?),
        "promotion" => builder.promotion(named(&Promotion::ALL, variant)?),
        "fill" => builder.fill(named(&Fill::ALL, variant)?),
        _ => return None,
    })
}

/// The variant of this name.
fn named<T: Copy + std::fmt::Debug>(all: &[T], name: &str) -> Option<T> {
    all.iter().copied().find(|variant| format!("{variant:?}") == name)
}

fn element_type(element: &str) -> Option<ElementType> {
    Some(match element {
        "u8" | "i8" | "e4m3" => ElementType::U8,
        "u16" | "i16" => ElementType::U16,
        "u32" => ElementType::U32,
        "i32" => ElementType::I32,
        "u64" => ElementType::U64,
        "i64" => ElementType::I64,
        "f16" => ElementType::F16,
        "bf16" => ElementType::Bf16,
        "f32" => ElementType::F32,
        "f64" => ElementType::F64,
        _ => return None,
    })
}

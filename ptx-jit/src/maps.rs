//! The tensor maps of `#[tma]`, made for each launch. Programs pass the same memory again and again, so a kernel keeps the maps of its latest launches:
//! a map depends on nothing but its address, its shape and the kind of its device.

use ptx_expand::program::{Kernel, Kind, TensorMap as Described};
use ptx_runtime::expansion::build_map;
use ptx_runtime::{
    ElementType, Error, ErrorKind, Fill, Interleave, Promotion, Result, StreamRef, Swizzle, TensorMap, TensorMapBuilder,
};
use std::sync::{Mutex, PoisonError};

/// The most maps that a kernel keeps.
const KEPT: usize = 16;

/// The latest maps of a kernel, the last one used in front.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    made: Mutex<Vec<Made>>,
}

/// A map, and what it was made of: its number among the kernel's maps, whether it is for the CPU device, its address and its shape.
#[derive(Debug)]
struct Made {
    of: (usize, bool, u64),
    shape: Box<[usize]>,
    map: TensorMap,
}

impl Maps {
    /// All maps of a launch; `tile` gives the address and the shape of an argument.
    pub(crate) fn of_launch<'t>(
        &self,
        (kernel, loaded): (&Kernel, &ptx_runtime::Kernel),
        stream: StreamRef<'_>,
        tile: impl Fn(usize) -> (u64, &'t [usize]),
    ) -> Result<Vec<TensorMap>> {
        if kernel.maps.is_empty() {
            return Ok(Vec::new());
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let map = |(number, map): (usize, &Described)| {
            let (address, shape) = tile(map.of);
            let of = (number, stream.is_cpu(), address);
            let found = match made.iter().position(|made| made.of == of && *made.shape == *shape) {
                Some(at) => made.remove(at),
                None => {
                    let map = make((kernel, loaded), map, stream, (address, shape))?;
                    made.truncate(KEPT - 1);
                    Made { of, shape: shape.into(), map }
                }
            };
            let map = found.map;
            made.insert(0, found);
            Ok(map)
        };
        kernel.maps.iter().enumerate().map(map).collect()
    }
}

fn make(
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

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::{KEPT, Maps};
    use crate::{JitModule, Source};
    use ptx_runtime::{AsStream, Device};

    static SHAPES: [[usize; 2]; 2] = [[16, 8], [24, 8]];

    #[test]
    fn maps_are_those_of_their_addresses_and_shapes() {
        let text = "#[ptx_kernel(arch = \"sm_90\", block = 1, grid = 1, unsafe(requires()))]
            fn k(#[tma(box = [8, 8])] a: Tile<f32, (M, K)>, #[tma(box = [4, 8])] b: Tile<f32, (M, K)>) { let i: u32 = tid.x; }";
        let device = Device::cpu();
        let module = JitModule::load(&device, &Source::text("k.rs", text)).unwrap();
        let (kernel, stream) = (module.kernel("k").unwrap(), &device.stream());
        let parts = (kernel.description(), kernel.runtime.kernel());
        let launch = |maps: &Maps, address: u64, rows: usize| {
            maps.of_launch(parts, stream.as_stream(), |_| (address, SHAPES[rows].as_slice())).unwrap()
        };
        for round in 0..100 {
            let (address, rows) = (4096 * (1 + round % 23 % 20), (round % 3 / 2) as usize);
            assert_eq!(launch(&kernel.maps, address, rows), launch(&Maps::default(), address, rows));
        }
        assert_eq!(kernel.maps.made.lock().unwrap().len(), KEPT);
    }
}

//! `--arg tma:…`: a tensor map of a buffer.

use super::argument::{Contents, Memory};
use ptx_runtime::{ElementType, Fill, Interleave, Promotion, Swizzle, TensorMap, TensorMapBuilder};

/// The parts of `tma:f16[64x128]:box=32x64:swizzle=128@data.bin`. Lists are outermost first, as those of Rust arrays.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    element: ElementType,
    shape: Vec<usize>,
    /// The box of one copy; the whole tensor without one.
    tile: Option<Vec<usize>>,
    /// In elements; packed without them.
    strides: Option<Vec<usize>>,
    step: Option<Vec<usize>>,
    swizzle: Swizzle,
    interleave: Interleave,
    promotion: Promotion,
    fill: Fill,
    pub(crate) memory: Memory,
}

/// The types of elements, by the names of PTX.
const ELEMENTS: [(&str, ElementType); 16] = [
    ("u8", ElementType::U8),
    ("s8", ElementType::U8),
    ("e4m3", ElementType::U8),
    ("e5m2", ElementType::U8),
    ("u16", ElementType::U16),
    ("s16", ElementType::U16),
    ("u32", ElementType::U32),
    ("s32", ElementType::I32),
    ("u64", ElementType::U64),
    ("s64", ElementType::I64),
    ("f16", ElementType::F16),
    ("bf16", ElementType::Bf16),
    ("f32", ElementType::F32),
    ("tf32", ElementType::Tf32),
    ("f32ftz", ElementType::F32Ftz),
    ("f64", ElementType::F64),
];

/// Options with a value. An option of a list takes extents such as `32x64`.
type Set = fn(&mut Tensor, &str) -> Option<()>;
const OPTIONS: [(&str, &str, Set); 7] = [
    ("box", "extents such as 32x64", |tensor, text| put(&mut tensor.tile, Some(extents(text)?))),
    ("strides", "elements such as 128x1", |tensor, text| put(&mut tensor.strides, Some(extents(text)?))),
    ("step", "elements such as 1x2", |tensor, text| put(&mut tensor.step, Some(extents(text)?))),
    ("swizzle", "32, 64, 128, 128atom32, 128atom32flip8 or 128atom64", |tensor, text| {
        put(&mut tensor.swizzle, choice(&SWIZZLES, text)?)
    }),
    ("interleave", "16 or 32", |tensor, text| put(&mut tensor.interleave, choice(&INTERLEAVES, text)?)),
    ("promotion", "64, 128 or 256", |tensor, text| put(&mut tensor.promotion, choice(&PROMOTIONS, text)?)),
    ("fill", "zero or nan", |tensor, text| put(&mut tensor.fill, choice(&FILLS, text)?)),
];

const SWIZZLES: [(&str, Swizzle); 7] = [
    ("0", Swizzle::None),
    ("32", Swizzle::B32),
    ("64", Swizzle::B64),
    ("128", Swizzle::B128),
    ("128atom32", Swizzle::B128Atom32),
    ("128atom32flip8", Swizzle::B128Atom32Flip8),
    ("128atom64", Swizzle::B128Atom64),
];
const INTERLEAVES: [(&str, Interleave); 2] = [("16", Interleave::B16), ("32", Interleave::B32)];
const PROMOTIONS: [(&str, Promotion); 3] = [("64", Promotion::B64), ("128", Promotion::B128), ("256", Promotion::B256)];
const FILLS: [(&str, Fill); 2] = [("zero", Fill::Zero), ("nan", Fill::Nan)];

fn put<T>(to: &mut T, value: T) -> Option<()> {
    *to = value;
    Some(())
}

fn choice<T: Copy>(all: &[(&str, T)], text: &str) -> Option<T> {
    all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

fn extents(text: &str) -> Option<Vec<usize>> {
    let extents: Vec<usize> = text.split('x').map(|extent| extent.parse().ok()).collect::<Option<_>>()?;
    (1..=5).contains(&extents.len()).then_some(extents)
}

/// Parses a tensor map, without its prefix `tma:`.
pub(super) fn parse(text: &str) -> Result<Tensor, String> {
    let wrong = || "a tensor map such as tma:f16[64x128]:box=32x64:swizzle=128@data.bin".to_owned();
    let (words, path) = text.split_once('@').filter(|(_, path)| !path.is_empty()).ok_or_else(wrong)?;
    let mut words = words.split(':');
    let (element, shape) = words.next().and_then(|of| of.strip_suffix(']')?.split_once('[')).ok_or_else(wrong)?;
    let known = || ELEMENTS.map(|(name, _)| name).join(", ");
    let mut tensor = Tensor {
        element: choice(&ELEMENTS, element)
            .ok_or_else(|| format!("`{element}` is no type of a tensor's elements; there are {}", known()))?,
        shape: extents(shape).ok_or_else(|| format!("`{shape}` is no shape: write 1 to 5 extents such as 64x128"))?,
        tile: None,
        strides: None,
        step: None,
        swizzle: Swizzle::None,
        interleave: Interleave::None,
        promotion: Promotion::None,
        fill: Fill::Zero,
        memory: Memory::read(path),
    };
    for word in words {
        match word.split_once('=') {
            Some((name, value)) => set(&mut tensor, name, value)?,
            None if word == "inout" => tensor.memory = Memory::updated(path),
            None if word == "out" => tensor.memory = Memory::written(path, 0, 0),
            None => return Err(no_option(word)),
        }
    }
    let needed = tensor.bytes().ok_or_else(|| format!("a tensor of {shape} elements has more bytes than addresses"))?;
    if let Contents::Filled(bytes, _) = &mut tensor.memory.from {
        *bytes = needed;
    }
    Ok(tensor)
}

fn set(tensor: &mut Tensor, name: &str, value: &str) -> Result<(), String> {
    let (_, takes, set) = OPTIONS.iter().find(|(option, ..)| *option == name).ok_or_else(|| no_option(name))?;
    set(tensor, value).ok_or_else(|| format!("`{name}={value}` of a tensor map: it takes {takes}"))
}

fn no_option(name: &str) -> String {
    let all = OPTIONS.map(|(option, ..)| format!("{option}=…"));
    format!("`{name}` is no option of a tensor map: {}, inout, out", all.join(", "))
}

impl Tensor {
    /// The product of its extents.
    pub(super) fn elements(&self) -> usize {
        self.shape.iter().fold(1, |product: usize, extent| product.saturating_mul(*extent))
    }

    /// The bytes from its first element to its last.
    fn bytes(&self) -> Option<u64> {
        let mut last = 0usize;
        let packed = self.shape.iter().rev().scan(1usize, |stride, extent| {
            let own = *stride;
            *stride = stride.saturating_mul(*extent);
            Some(own)
        });
        let strides = match &self.strides {
            Some(strides) => strides.clone(),
            None => packed.collect::<Vec<_>>().into_iter().rev().collect(),
        };
        for (extent, stride) in self.shape.iter().zip(strides) {
            last = last.checked_add(extent.saturating_sub(1).checked_mul(stride)?)?;
        }
        (last as u64).checked_add(1)?.checked_mul(self.element.bits()).map(|bits| bits.div_ceil(8))
    }

    /// Checks that so many bytes are enough.
    pub(crate) fn fits(&self, bytes: u64) -> Result<(), String> {
        match self.bytes() {
            Some(needed) if needed > bytes => {
                Err(format!("the file of a tensor map has {bytes} bytes; the tensor has {needed}"))
            }
            _ => Ok(()),
        }
    }

    /// The extents of the tensor, for the start of a map.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of its elements.
    pub(crate) fn element(&self) -> ElementType {
        self.element
    }

    /// The bytes of the map that was started for its memory.
    pub(crate) fn finish(&self, map: TensorMapBuilder) -> ptx_runtime::Result<Vec<u8>> {
        let mut map = map.element(self.element).swizzle(self.swizzle).interleave(self.interleave);
        map = map.promotion(self.promotion).fill(self.fill).tile(self.tile.as_ref().unwrap_or(&self.shape));
        if let Some(strides) = &self.strides {
            map = map.strides(strides);
        }
        if let Some(step) = &self.step {
            map = map.step(step);
        }
        map.build().map(|map: TensorMap| map.to_raw().iter().flat_map(|word| word.to_le_bytes()).collect())
    }
}

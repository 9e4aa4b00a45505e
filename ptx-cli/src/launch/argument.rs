//! Values that `--arg` takes.

use super::tensor::{self, Tensor};
use super::texture::{self, Texels};
use ptx_core::isa::{Class, Type};
use std::path::{Path, PathBuf};

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    /// `f32:1.5`: its type and its bytes.
    Scalar(Type, Vec<u8>),
    /// `struct:u32:5,f32:1.5`: by value, laid out as C does.
    Struct(Vec<u8>),
    /// `bytes@in.bin`: by value, with what the file holds.
    Bytes(PathBuf),
    /// A buffer.
    Memory(Memory),
    /// `tex:u8x4:64,32@in.bin`: a texture of what the file holds.
    Texture(Texels),
    /// `tma:f16[64x128]:box=32x64@in.bin`: a tensor map, by value, of a buffer.
    Tensor(Tensor),
}

/// A buffer of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Memory {
    /// Its contents before the run.
    pub(crate) from: Contents,
    /// The file that gets its contents after the run.
    pub(crate) to: Option<PathBuf>,
}

/// The contents of a buffer before the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Contents {
    File(PathBuf),
    /// So many bytes, each of this value.
    Filled(u64, u8),
}

impl Memory {
    /// `@in.bin`
    pub(super) fn read(path: &str) -> Memory {
        Memory { from: Contents::File(path.into()), to: None }
    }

    /// `inout@data.bin`
    pub(super) fn updated(path: &str) -> Memory {
        Memory { from: Contents::File(path.into()), to: Some(path.into()) }
    }

    /// `out.bin:4096`, or `out.bin:4096:0xff`
    pub(super) fn written(path: &str, bytes: u64, value: u8) -> Memory {
        Memory { from: Contents::Filled(bytes, value), to: Some(path.into()) }
    }
}

impl Argument {
    /// The file that the run writes.
    pub(crate) fn output(&self) -> Option<&Path> {
        match self {
            Argument::Memory(memory) | Argument::Tensor(Tensor { memory, .. }) => memory.to.as_deref(),
            _ => None,
        }
    }
}

/// Parses an argument without its prefix.
type Reader = fn(&str) -> Result<Argument, String>;
/// The prefixes of arguments that are not scalars.
const KINDS: [(&str, Reader); 6] = [
    ("@", |path| Ok(Argument::Memory(Memory::read(named(path)?)))),
    ("inout@", |path| Ok(Argument::Memory(Memory::updated(named(path)?)))),
    ("bytes@", |path| Ok(Argument::Bytes(named(path)?.into()))),
    ("struct:", |fields| structure(fields).map(Argument::Struct)),
    ("tex:", |texels| texture::parse(texels).map(Argument::Texture)),
    ("tma:", |tensor| tensor::parse(tensor).map(Argument::Tensor)),
];

fn named(path: &str) -> Result<&str, String> {
    if path.is_empty() { Err("the name of a file is missing behind `@`".to_owned()) } else { Ok(path) }
}

/// Reads one; a file whose name is a type is written `./u32:4`.
pub(super) fn parse(text: &str) -> Result<Argument, String> {
    if let Some((rest, read)) = KINDS.iter().find_map(|(start, read)| Some((text.strip_prefix(start)?, read))) {
        return read(rest);
    }
    let wrong = || {
        "a scalar such as f32:1.5, a struct such as struct:u32:5,f32:1.5, a file to read such as @in.bin, one to read and write such as \
         inout@data.bin, a file to write such as out.bin:4096, or a tensor map such as tma:f16[64x128]:box=32x64@in.bin"
    };
    if let Some((ty, value)) = typed(text) {
        return scalar(ty, value).map(|bytes| Argument::Scalar(ty, bytes));
    }
    let filled = text.rsplit_once(":0x").and_then(|(rest, value)| Some((rest, u8::from_str_radix(value, 16).ok()?)));
    let (text, value) = filled.unwrap_or((text, 0));
    let (path, bytes) = text.rsplit_once(':').filter(|(path, _)| !path.is_empty()).ok_or_else(wrong)?;
    Ok(Argument::Memory(Memory::written(path, bytes.parse().map_err(|_| wrong())?, value)))
}

/// The type and the value of a scalar.
fn typed(text: &str) -> Option<(Type, &str)> {
    text.split_once(':').and_then(|(name, value)| Some((Type::find(name)?, value)))
}

/// Fields laid out as C does: each at a multiple of its size, and the whole a multiple of the largest.
fn structure(fields: &str) -> Result<Vec<u8>, String> {
    let (mut bytes, mut align) = (Vec::new(), 1);
    for field in fields.split(',') {
        let (ty, value) = typed(field.trim())
            .ok_or_else(|| format!("`{field}` is no field of a struct; write fields such as struct:u32:5,f32:1.5"))?;
        let value = scalar(ty, value)?;
        bytes.resize(bytes.len().next_multiple_of(value.len().max(1)), 0);
        align = align.max(value.len());
        bytes.extend(value);
    }
    bytes.resize(bytes.len().next_multiple_of(align), 0);
    Ok(bytes)
}

fn scalar(ty: Type, text: &str) -> Result<Vec<u8>, String> {
    let bytes = match (ty.class(), ty.name()) {
        (Class::Float, _) => match float(ty, text) {
            Some((_, true)) => return Err(format!("`{text}` is too large for .{}", ty.name())),
            bytes => bytes.map(|(bytes, _)| bytes),
        },
        (Class::Unsigned | Class::Signed | Class::Bits, _) => integer(ty, text),
        _ => None,
    };
    bytes.ok_or_else(|| format!("`{text}` is no .{}", ty.name()))
}

/// The bytes of a number, and true if it is finite and becomes infinite in its type.
fn float(ty: Type, text: &str) -> Option<(Vec<u8>, bool)> {
    let (bytes, is_infinite) = match ty.name() {
        "f64" => text.parse::<f64>().ok().map(|x| (x.to_le_bytes().to_vec(), x.is_infinite()))?,
        "f32" => text.parse::<f32>().ok().map(|x| (x.to_le_bytes().to_vec(), x.is_infinite()))?,
        name @ ("f16" | "bf16") => {
            let bits = ptx_interp::encode_float(name, text.parse().ok()?)?;
            let is_infinite = ptx_interp::decode_float(name, bits).is_some_and(f64::is_infinite);
            (bits.to_le_bytes()[..2].to_vec(), is_infinite)
        }
        _ => return None,
    };
    // `inf` and `infinity` are legal, and have no digits.
    Some((bytes, is_infinite && text.contains(|c: char| c.is_ascii_digit())))
}

/// Decimal or `0x…`; bits take both signs.
fn integer(ty: Type, text: &str) -> Option<Vec<u8>> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let magnitude = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16),
        None => digits.parse::<i128>(),
    };
    let value = magnitude.ok().map(|m| if negative { -m } else { m })?;
    let bits = ty.bits().min(64);
    let least = if ty.class() == Class::Unsigned { 0 } else { -(1i128 << (bits - 1)) };
    let most = if ty.class() == Class::Signed { (1i128 << (bits - 1)) - 1 } else { (1i128 << bits) - 1 };
    let bytes = usize::try_from(ty.bytes()).ok()?;
    let encoded = (least..=most).contains(&value).then(|| value.to_le_bytes())?;
    encoded.get(..bytes).map(<[u8]>::to_vec)
}

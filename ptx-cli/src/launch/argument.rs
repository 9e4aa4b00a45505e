//! Values that `--arg` takes.

use super::texture::{self, Texels};
use ptx_core::isa::{Class, Type};
use std::path::PathBuf;

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    /// `f32:1.5`: its type and its bytes.
    Scalar(Type, Vec<u8>),
    /// `bytes@in.bin`: a struct by value, with what the file holds.
    Struct(PathBuf),
    /// `@in.bin`: a buffer with what the file holds.
    Input(PathBuf),
    /// `tex:u8x4:64,32@in.bin`: a texture of what the file holds.
    Texture(Texels),
    /// `out.bin:4096`: a zeroed buffer of that many bytes, saved after the run.
    Output(PathBuf, u64),
}

/// Reads one; a file whose name is a type is written `./u32:4`.
pub(super) fn parse(text: &str) -> Result<Argument, String> {
    if let Some(path) = text.strip_prefix('@') {
        return Ok(Argument::Input(path.into()));
    }
    if let Some(path) = text.strip_prefix("bytes@") {
        return Ok(Argument::Struct(path.into()));
    }
    if let Some(texels) = text.strip_prefix("tex:") {
        return texture::parse(texels).map(Argument::Texture);
    }
    let wrong = || "a scalar such as f32:1.5, a file to read such as @in.bin, or a file to write such as out.bin:4096";
    if let Some((ty, value)) = text.split_once(':').and_then(|(name, value)| Some((Type::find(name)?, value))) {
        return scalar(ty, value)
            .map(|bytes| Argument::Scalar(ty, bytes))
            .ok_or_else(|| format!("`{value}` is no .{}", ty.name()));
    }
    let (path, bytes) = text.rsplit_once(':').filter(|(path, _)| !path.is_empty()).ok_or_else(wrong)?;
    Ok(Argument::Output(path.into(), bytes.parse().map_err(|_| wrong())?))
}

fn scalar(ty: Type, text: &str) -> Option<Vec<u8>> {
    match (ty.class(), ty.name()) {
        (Class::Float, "f64") => text.parse::<f64>().ok().map(|x| x.to_le_bytes().to_vec()),
        (Class::Float, "f32") => text.parse::<f32>().ok().map(|x| x.to_le_bytes().to_vec()),
        (Class::Float, name @ ("f16" | "bf16")) => {
            let bits = ptx_interp::encode_float(name, text.parse().ok()?)?;
            Some(bits.to_le_bytes()[..2].to_vec())
        }
        (Class::Unsigned | Class::Signed | Class::Bits, _) => integer(ty, text),
        _ => None,
    }
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

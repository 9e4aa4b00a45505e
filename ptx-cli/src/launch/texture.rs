//! `--arg tex:…`: a texture whose texels are a file's.

use ptx_interp::texture::{Channel, Filter, Outside, Texture};
use std::path::PathBuf;

/// The parts of `tex:u8x4:64,32:linear,wrap,normalized@in.bin`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Texels {
    /// All but the address.
    texture: Texture,
    /// The file with the texels, row after row.
    pub path: PathBuf,
}

/// The formats of a channel; `unorm8` and its like are integers that are read as floats.
const CHANNELS: [(&str, Channel); 12] = [
    ("u8", Channel::U8),
    ("u16", Channel::U16),
    ("u32", Channel::U32),
    ("s8", Channel::S8),
    ("s16", Channel::S16),
    ("s32", Channel::S32),
    ("unorm8", Channel::Unorm8),
    ("unorm16", Channel::Unorm16),
    ("snorm8", Channel::Snorm8),
    ("snorm16", Channel::Snorm16),
    ("f16", Channel::F16),
    ("f32", Channel::F32),
];

/// Meanings of a coordinate outside of a texture.
const OUTSIDE: [(&str, Outside); 4] =
    [("wrap", Outside::Wrap), ("mirror", Outside::Mirror), ("clamp", Outside::Clamp), ("border", Outside::Border)];

/// No texture is larger: its addresses would not fit.
const MOST_BYTES: u64 = 1 << 47;

/// Parses a texture, without its prefix `tex:`.
pub(super) fn parse(text: &str) -> Result<Texels, String> {
    let wrong = || {
        "a texture such as tex:f32:64@in.bin, tex:u8x4:64,32@in.bin or tex:f32:64,32,8:linear,wrap,normalized@in.bin"
            .to_owned()
    };
    let (shape, path) = text.split_once('@').filter(|(_, path)| !path.is_empty()).ok_or_else(wrong)?;
    let mut parts = shape.split(':');
    let (format, size) = (parts.next().unwrap_or_default(), parts.next().ok_or_else(wrong)?);
    let (channel, channels) = format.rsplit_once('x').unwrap_or((format, "1"));
    let known = || CHANNELS.map(|(name, _)| name).join(", ");
    let (_, channel) = CHANNELS
        .into_iter()
        .find(|(name, _)| *name == channel)
        .ok_or_else(|| format!("`{channel}` is no channel of a texel; there are {}", known()))?;
    let sizes: Vec<u32> = size.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    if !(1..=3).contains(&sizes.len()) {
        return Err(wrong());
    }
    let channels = channels.parse().map_err(|_| wrong())?;
    if !matches!(channels, 1 | 2 | 4) {
        return Err(format!("a texel has 1, 2 or 4 channels, not {channels}"));
    }
    let all = sizes.iter().try_fold(u64::from(channel.bytes() * channels), |all, size| {
        Some(all.checked_mul(u64::from(*size))?).filter(|all| (1..=MOST_BYTES).contains(all))
    });
    if all.is_none() {
        return Err(format!("{size} texels of `{format}` are no size of a texture"));
    }
    let texture = Texture {
        address: 0,
        channel,
        channels,
        size: std::array::from_fn(|d| sizes.get(d).copied().unwrap_or(1)),
        layers: 0,
        array: false,
        pitch: 0,
        outside: [Outside::Clamp; 3],
        filter: Filter::Nearest,
        normalized: false,
    };
    let texture = parts.flat_map(|list| list.split(',')).try_fold(texture, with)?;
    Ok(Texels { texture, path: path.into() })
}

/// The texture with one more option.
fn with(texture: Texture, option: &str) -> Result<Texture, String> {
    let outside = OUTSIDE.into_iter().find(|(name, _)| *name == option);
    match (option, outside) {
        (_, Some((_, outside))) => Ok(Texture { outside: [outside; 3], ..texture }),
        ("linear", _) => Ok(Texture { filter: Filter::Linear, ..texture }),
        ("nearest", _) => Ok(Texture { filter: Filter::Nearest, ..texture }),
        ("normalized", _) => Ok(Texture { normalized: true, ..texture }),
        _ => Err(format!(
            "`{option}` is no option of a texture: nearest, linear, normalized, wrap, mirror, clamp, border"
        )),
    }
}

impl Texels {
    /// Checks that so many bytes are enough.
    pub(super) fn fits(&self, bytes: u64) -> Result<(), String> {
        let needed = self.texture.bytes();
        match needed <= bytes {
            true => Ok(()),
            false => Err(format!("{}: {bytes} bytes; the texture has {needed}", self.path.display())),
        }
    }

    /// The texture of texels at this address.
    pub(super) fn at(&self, address: u64) -> Texture {
        Texture { address, ..self.texture }
    }
}

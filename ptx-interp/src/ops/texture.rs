//! Textures and surfaces (9.7.10–11). Which texels a coordinate means is in `interp::texture`; here they are read and written.
//!
//! An object has no mipmaps, so that every level of detail is the first; no samples, no depths to compare with.

use super::atomic::{Kind, Update};
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::{Dst, Src};
use crate::fault::{Fault, FaultKind};
use crate::site::{Address, Decoded, Refusal, Site};
use crate::soft::{self, F16, F64, Round, mask};
use crate::space::{Where, number};
use crate::texture::{Filter, Place, Texture, Value, face};
use crate::warp::lanes;
use ptx_core::ir::Operand;
use ptx_core::isa::{Class, Shift, Type};

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("tex", "", |s| fetch(s, Pick::Texel)),
    op("tld4.r", "", |s| fetch(s, Pick::Gather(0))), op("tld4.g", "", |s| fetch(s, Pick::Gather(1))),
    op("tld4.b", "", |s| fetch(s, Pick::Gather(2))), op("tld4.a", "", |s| fetch(s, Pick::Gather(3))),
    op("txq", "", query), op("suq", "", query), op("istypep", "", is_type),
    op("suld.b", "", load), op("sust.b", "", store),
    op("sured.b.add", "", |s| reduce(s, Kind::Add)), op("sured.b.min", "", |s| reduce(s, Kind::Min)),
    op("sured.b.max", "", |s| reduce(s, Kind::Max)), op("sured.b.and", "", |s| reduce(s, Kind::And)),
    op("sured.b.or", "", |s| reduce(s, Kind::Or)),
    op("sust.p", "", store_texels), op("sured.p.add", "", |s| reduce(s, Kind::Add)), op("sured.p.min", "", |s| reduce(s, Kind::Min)),
    op("sured.p.max", "", |s| reduce(s, Kind::Max)), op("sured.p.and", "", |s| reduce(s, Kind::And)), op("sured.p.or", "", |s| reduce(s, Kind::Or)),
];

/// Result of a fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pick {
    /// The channels of a texel, or of those around, filtered.
    Texel,
    /// One channel of the four texels around.
    Gather(usize),
}

/// Meaning of the coordinates.
#[derive(Clone, Copy)]
struct Geometry {
    /// Coordinates within a layer.
    dims: usize,
    /// True if the layer's number stands before them.
    array: bool,
    cube: bool,
}

impl Geometry {
    /// True for `.1d`.
    fn is_line(self) -> bool {
        self.dims == 1 && !self.array
    }
}

fn geometry(site: &Site) -> Result<Geometry, Refusal> {
    const GEOMETRIES: [(&str, Geometry); 7] = [
        ("1d", Geometry { dims: 1, array: false, cube: false }),
        ("2d", Geometry { dims: 2, array: false, cube: false }),
        ("3d", Geometry { dims: 3, array: false, cube: false }),
        ("a1d", Geometry { dims: 1, array: true, cube: false }),
        ("a2d", Geometry { dims: 2, array: true, cube: false }),
        ("cube", Geometry { dims: 3, array: false, cube: true }),
        ("acube", Geometry { dims: 3, array: true, cube: true }),
    ];
    site.one_of(&GEOMETRIES).ok_or_else(|| "textures with several samples: the CPU device has none".into())
}

/// The object of an instruction and the coordinates in its brackets.
struct Named {
    object: Address,
    geometry: Geometry,
    coordinates: Vec<Src>,
}

impl Named {
    fn new(site: &Site, at: usize) -> Result<Named, Refusal> {
        let (object, geometry) = (site.address(at, Where::Global)?, geometry(site)?);
        let Operand::Memory { rest, .. } = site.operand(at) else { return Err("an object without brackets".into()) };
        let there = |o: &&Operand| **o != Operand::Absent;
        let rest: Vec<&Operand> = rest.iter().filter(there).collect();
        // A sampler, if there is one, stands before the coordinates.
        if rest.len() != 1 {
            return Err("a sampler beside the texture: on the CPU device it is a part of the texture".into());
        }
        let word = Type::find("b32").ok_or("no type .b32")?;
        let listed = rest.into_iter().flat_map(vector);
        let all = listed.filter(there).map(|o| site.source(o, word)).collect::<Result<Vec<_>, _>>()?;
        if all.len() < geometry.dims + usize::from(geometry.array) {
            return Err(format!("{} coordinates, which are too few", all.len()));
        }
        Ok(Named { object, geometry, coordinates: all })
    }

    fn texture<'c>(&self, ctx: &'c Ctx, lane: usize) -> Result<&'c Texture, Fault> {
        object(ctx, self.object, lane)
    }

    /// The layer, and the bits of the coordinates in it.
    fn at(&self, ctx: &Ctx, lane: usize) -> (u32, [u32; 3]) {
        let word = |i: usize| self.coordinates.get(i).map_or(0, |src| ctx.fetch_lane(*src, lane) as u32);
        let first = usize::from(self.geometry.array);
        let layer = if self.geometry.array { word(0) } else { 0 };
        (layer, std::array::from_fn(|d| if d < self.geometry.dims { word(first + d) } else { 0 }))
    }
}

fn object<'c>(ctx: &'c Ctx, address: Address, lane: usize) -> Result<&'c Texture, Fault> {
    let handle = address.lane(ctx, lane);
    ctx.grid.textures.get(&handle).ok_or_else(|| {
        let message =
            "no texture or surface of the CPU device: make one, or bind one to the variable, before the launch";
        Fault::new(FaultKind::BadAccess, message).at(handle).lane(lane)
    })
}

/// The bits of a value as a type of the destination.
fn bits(value: Value, ty: Type) -> u64 {
    match (value, soft::format(ty.name().trim_end_matches("x2"))) {
        (Value::Int(value), _) => value as u64 & mask(ty.bits()),
        (value, Some(format)) if *format == F16 => {
            soft::pack(soft::unpack(value.float().to_bits(), &F64), &F16, Round::Nearest, false)
        }
        (Value::Float(value), _) => (value as f32).to_bits().into(),
        (Value::Single(bits), _) => bits.into(),
    }
}

/// `tex` and `tld4`.
fn fetch(site: &Site, pick: Pick) -> Decoded {
    site.accept(&["base", "level", "grad", "v2", "v4"]);
    if site.named("f").is_some() {
        return Err("a comparison of depths: the CPU device has no textures of them".into());
    }
    let (named, ty) = (Named::new(site, 1)?, site.ty(0)?);
    let whole = site.types().get(1).is_some_and(|ty| ty.class() == Class::Signed);
    let elements = match site.operand(0) {
        Operand::Pair(first, _) => vector(first).into_iter().cloned().collect(),
        _ => site.elements(0),
    };
    let targets: Vec<Dst> = elements.iter().map(|o| site.destination(o, ty)).collect::<Result<_, _>>()?;
    let (resident, offset) = (site.second(0)?, offset(site)?);
    let packed = ty.name().ends_with("x2");
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let offset = offset.map(|src| i64::from(ctx.fetch_lane(src, lane) as i32));
            let texels = texels(ctx, lane, &named, whole, pick, offset)?;
            let word = |i: usize| texels.get(i).map_or(0, |value| bits(*value, ty));
            for (i, dst) in targets.iter().enumerate() {
                let value = if packed { word(2 * i) | word(2 * i + 1) << 16 } else { word(i) };
                ctx.store_lane(*dst, lane, value);
            }
            if let Some(resident) = resident {
                ctx.store_lane(resident, lane, 1);
            }
        }
        Ok(Flow::Next)
    }))
}

/// The elements of a vector, or what stands alone.
fn vector(operand: &Operand) -> Vec<&Operand> {
    if let Operand::Vector(all) = operand { all.iter().collect() } else { vec![operand] }
}

/// The numbers that are added to the indices of texels.
fn offset(site: &Site) -> Result<[Src; 3], Refusal> {
    let mut found = [Src::Value(0); 3];
    let Some(at) = site.named("e") else { return Ok(found) };
    let ty = Type::find("b32").ok_or("no type .b32")?;
    for (to, operand) in found.iter_mut().zip(site.elements(at)) {
        *to = site.source(&operand, ty)?;
    }
    Ok(found)
}

/// The chip reads zero.
#[cold]
fn line_by_integers(lane: usize) -> Fault {
    let message = "integer coordinates in `.1d` of an array, which read zero on the chip: it reads linear memory so, \
                   and arrays of one dimension by `.f32` coordinates";
    Fault::new(FaultKind::BadAccess, message).lane(lane)
}

/// The four values of a fetch in one lane.
fn texels(
    ctx: &Ctx,
    lane: usize,
    named: &Named,
    whole: bool,
    pick: Pick,
    offset: [i64; 3],
) -> Result<[Value; 4], Fault> {
    let texture = *named.texture(ctx, lane)?;
    if whole && texture.array && named.geometry.is_line() {
        return Err(line_by_integers(lane));
    }
    let (layer, at) = named.at(ctx, lane);
    let (mut layer, mut place, mut dims) = (layer, at.map(f32::from_bits), named.geometry.dims);
    let mut texture = texture;
    if named.geometry.cube {
        let (side, on_side) = face(place);
        let cube = layer.min((texture.layers / 6).max(1) - 1);
        (layer, place, dims, texture.normalized) = (6 * cube + side, on_side, 2, true);
    }
    let last = texture.layers.max(1) - 1;
    if whole && layer > last {
        return Ok([texture.channel.missing(); 4]);
    }
    layer = layer.min(last);
    let read = |place: Place| texel(ctx, lane, &texture, layer, place);
    if let Pick::Gather(channel) = pick {
        let around = texture.around(place, dims, offset);
        // From the lower left, against the clock.
        let corner = |i: usize| around.get(i).map_or(Ok([Value::Float(0.0); 4]), |(place, _)| read(*place));
        let corners = [corner(2)?, corner(3)?, corner(1)?, corner(0)?];
        return Ok(corners.map(|texel| texture.channel.gathered(texel[channel])));
    }
    match texture.filter {
        Filter::Linear if texture.channel.is_float() && !whole => {
            let mut sum = [0.0; 4];
            for (place, weight) in texture.around(place, dims, offset) {
                let values = read(place)?;
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * texture.channel.part(value));
            }
            Ok(sum.map(|sum| texture.channel.filtered(sum)))
        }
        _ if whole => read(texture.indexed(at.map(|word| word as i32), dims, offset)),
        _ => read(texture.nearest(place, dims, offset)),
    }
}

/// The four channels of a texel.
fn texel(ctx: &Ctx, lane: usize, texture: &Texture, layer: u32, place: Place) -> Result<[Value; 4], Fault> {
    let mut values = [texture.channel.missing(); 4];
    let Some([x, y, z]) = place else { return Ok(values) };
    let at = texture.address_of(layer, [u64::from(x) * texture.texel(), y.into(), z.into()]);
    let width = texture.channel.bytes() as usize;
    let bytes = ctx.bytes(Where::Global, lane, at, texture.texel())?;
    for (value, bytes) in values.iter_mut().zip(bytes.chunks(width)) {
        *value = texture.channel.read(number(bytes));
    }
    Ok(values)
}

/// The answer to a query about an object.
type Answer = fn(&Texture) -> u32;

/// `txq` and `suq`.
fn query(site: &Site) -> Decoded {
    const ANSWERS: [(&str, Answer); 14] = [
        ("width", |t| t.size[0]),
        ("height", |t| t.size[1]),
        ("depth", |t| t.size[2]),
        ("channel_data_type", |t| t.channel.number()),
        ("channel_order", |t| [0x10b0, 0x10b0, 0x10b2, 0x10b4, 0x10b5][t.channels.min(4) as usize]),
        ("normalized_coords", |t| t.normalized.into()),
        ("array_size", |t| t.layers),
        ("num_mipmap_levels", |_| 0),
        ("num_samples", |_| 0),
        ("memory_layout", |_| 0),
        ("filter_mode", |t| t.filter as u32),
        ("addr_mode_0", |t| address_mode(t, 0)),
        ("addr_mode_1", |t| address_mode(t, 1)),
        ("addr_mode_2", |t| address_mode(t, 2)),
    ];
    site.accept(&["level"]);
    let answer = site.one_of(&ANSWERS).ok_or("a question that only a sampler answers")?;
    let (dst, address) = (site.dst(0)?, site.address(1, Where::Global)?);
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let value = answer(object(ctx, address, lane)?);
            ctx.store_lane(dst, lane, value.into());
        }
        Ok(Flow::Next)
    }))
}

/// `wrap, mirror, clamp_ogl, clamp_to_edge, clamp_to_border`.
fn address_mode(texture: &Texture, dim: usize) -> u32 {
    [0, 1, 3, 4][texture.outside[dim] as usize]
}

/// `istypep`: every object here is a texture and a surface, none a sampler.
fn is_type(site: &Site) -> Decoded {
    site.accept(&["texref", "surfref"]);
    let sampler = site.is("samplerref");
    let (dst, src) = (site.dst(0)?, site.src(1)?);
    Ok(Box::new(move |ctx, group| {
        let handles = ctx.fetch(src);
        for lane in lanes(group) {
            let known = ctx.grid.textures.contains_key(&handles[lane]);
            ctx.store_lane(dst, lane, u64::from(known && !sampler));
        }
        Ok(Flow::Next)
    }))
}

/// Treatment of bytes outside by a surface instruction.
#[derive(Clone, Copy)]
enum Beyond {
    Trap,
    Clamp,
    Zero,
}

/// A surface instruction: where it accesses how many bytes.
struct Surface {
    named: Named,
    beyond: Beyond,
    /// None: those of a texel.
    bytes: Option<u64>,
    /// True if x counts so many bytes, not single ones.
    scaled: bool,
}

impl Surface {
    fn new(site: &Site, at: usize, bytes: Option<u64>) -> Result<Surface, Refusal> {
        const BEYOND: [(&str, Beyond); 3] = [("trap", Beyond::Trap), ("clamp", Beyond::Clamp), ("zero", Beyond::Zero)];
        site.accept(&["v2", "v4"]);
        let beyond = site.one_of(&BEYOND).ok_or("a surface instruction without a clamp")?;
        let scaled = site.row.name.contains(".p");
        Ok(Surface { named: Named::new(site, at)?, beyond, bytes, scaled })
    }

    /// The address of the bytes, and how many; `None` where nothing is accessed.
    fn address(&self, ctx: &Ctx, lane: usize) -> Result<Option<(u64, u64)>, Fault> {
        let texture = self.named.texture(ctx, lane)?;
        let bytes = self.bytes.unwrap_or(texture.texel());
        let (layer, [x, y, z]) = self.named.at(ctx, lane);
        let last = [texture.width().saturating_sub(bytes), texture.size[1].into(), texture.size[2].into()];
        let last = [last[0] as i64, last[1] as i64 - 1, last[2] as i64 - 1];
        let mut at = [x, y, z].map(|word| i64::from(word as i32));
        at[0] *= if self.scaled { bytes as i64 } else { 1 };
        let layers = texture.layers.max(1);
        let inside = at.iter().zip(last).all(|(at, last)| (0..=last).contains(at)) && layer < layers;
        let at: [u64; 3] = std::array::from_fn(|d| at[d].clamp(0, last[d].max(0)) as u64);
        let address = texture.address_of(layer.min(layers - 1), at);
        match self.beyond {
            _ if inside => Ok(Some((address, bytes))),
            Beyond::Clamp => Ok(Some((address, bytes))),
            Beyond::Zero => Ok(None),
            Beyond::Trap => {
                let [width, rows, slices] = [texture.width(), texture.size[1].into(), texture.size[2].into()];
                let message = format!(
                    "byte {} of row {} of slice {}, layer {layer}, of a surface of {width} bytes, {rows} rows, {slices} slices, {layers} layers",
                    x as i32, y as i32, z as i32
                );
                Err(Fault::new(FaultKind::OutOfBounds, message).lane(lane))
            }
        }
    }
}

fn load(site: &Site) -> Decoded {
    let ty = site.ty(0)?;
    let targets = site.elements(0).iter().map(|o| site.destination(o, ty)).collect::<Result<Vec<_>, _>>()?;
    let surface = Surface::new(site, 1, Some(targets.len() as u64 * ty.bytes()))?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let mut words = [0; 4];
            if let Some((at, bytes)) = surface.address(ctx, lane)? {
                let bytes = ctx.bytes(Where::Global, lane, at, bytes)?;
                words.iter_mut().zip(bytes.chunks(ty.bytes() as usize)).for_each(|(to, from)| *to = number(from));
            }
            targets.iter().zip(words).for_each(|(dst, word)| ctx.store_lane(*dst, lane, word));
        }
        Ok(Flow::Next)
    }))
}

fn store(site: &Site) -> Decoded {
    let ty = site.ty(1)?;
    let sources = site.elements(1).iter().map(|o| site.source(o, ty)).collect::<Result<Vec<_>, _>>()?;
    let surface = Surface::new(site, 0, Some(sources.len() as u64 * ty.bytes()))?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let Some((at, bytes)) = surface.address(ctx, lane)? else { continue };
            let words: Vec<u64> = sources.iter().map(|src| ctx.fetch_lane(*src, lane)).collect();
            let bytes = ctx.bytes_mut(Where::Global, lane, at, bytes)?;
            for (to, word) in bytes.chunks_mut(ty.bytes() as usize).zip(words) {
                to.copy_from_slice(&word.to_le_bytes()[..to.len()]);
            }
        }
        Ok(Flow::Next)
    }))
}

/// `sust.p`: words become what the texel's channels are; a channel for which there is none becomes zero.
fn store_texels(site: &Site) -> Decoded {
    let ty = site.ty(1)?;
    let sources = site.elements(1).iter().map(|o| site.source(o, ty)).collect::<Result<Vec<_>, _>>()?;
    let surface = Surface::new(site, 0, None)?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let Some((at, bytes)) = surface.address(ctx, lane)? else { continue };
            let channel = surface.named.texture(ctx, lane)?.channel;
            let mut words = sources.iter().map(|src| ctx.fetch_lane(*src, lane) as u32).collect::<Vec<_>>();
            words.resize(4, 0);
            let bytes = ctx.bytes_mut(Where::Global, lane, at, bytes)?;
            for (to, word) in bytes.chunks_mut(channel.bytes() as usize).zip(words) {
                to.copy_from_slice(&channel.write(word).to_le_bytes()[..to.len()]);
            }
        }
        Ok(Flow::Next)
    }))
}

fn reduce(site: &Site, kind: Kind) -> Decoded {
    let ty = site.ty(1)?;
    // What has no sign of its own has that of the texels.
    let of_sign = |sign: Shift| if ty.class() == Class::Bits { sign.of(ty) } else { Some(ty) };
    let updates = [Shift::Unsigned, Shift::Signed].map(|sign| of_sign(sign).map(|ty| Update::new(kind, ty)));
    let [Some(unsigned), Some(signed)] = updates else { return Err("no such type".into()) };
    let (src, surface) = (site.src(1)?, Surface::new(site, 0, Some(ty.bytes()))?);
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let Some((at, bytes)) = surface.address(ctx, lane)? else { continue };
            let value = ctx.fetch_lane(src, lane);
            let update = if surface.named.texture(ctx, lane)?.channel.is_signed() { &signed } else { &unsigned };
            let old = number(ctx.object(Where::Global, lane, at, bytes)?);
            let bytes = ctx.object_mut(Where::Global, lane, at, bytes)?;
            bytes.copy_from_slice(&update.apply(old, value, 0, false).to_le_bytes()[..bytes.len()]);
        }
        Ok(Flow::Next)
    }))
}

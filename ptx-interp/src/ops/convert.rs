//! `cvt` between every pair of types, and `cvt.pack` (9.7.9.21–22).
//!
//! Every value becomes an exact number, is rounded once to the wanted element, and stands in its container.

use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::{Dst, Src};
use crate::site::{Decoded, Refusal, Site};
use crate::soft::{self, F32, Format, Num, Round, mask};
use crate::warp::Lanes;
use ptx_core::ir::Operand;
use ptx_core::isa::{Class, Type};

pub(super) const OPS: &[Op] = &[op("cvt", "", cvt), op("cvt.pack", "", pack)];

/// An element of a type.
#[derive(Clone, Copy, Debug)]
enum Element {
    Int {
        bits: u32,
        signed: bool,
    },
    Float(&'static Format),
    /// `ue8m0`: a power of two.
    Exponent,
    /// `s2f6`: a fixed-point number with six bits of fraction.
    Fixed,
}

/// A type as elements of equal containers.
#[derive(Clone, Copy, Debug)]
struct Shape {
    element: Element,
    count: u32,
    container: u32,
}

impl Shape {
    fn of(ty: Type) -> Result<Shape, Refusal> {
        let (name, count) = match ty.name().rsplit_once('x') {
            Some((name, count)) => (name, count.parse().unwrap_or(1)),
            None => (ty.name(), 1),
        };
        let element = match (name, soft::format(name)) {
            (_, Some(format)) => Element::Float(format),
            ("ue8m0", _) => Element::Exponent,
            ("s2f6", _) => Element::Fixed,
            _ if matches!(ty.class(), Class::Signed | Class::Unsigned) => {
                Element::Int { bits: ty.bits(), signed: ty.class() == Class::Signed }
            }
            _ => return Err(format!("conversions of .{}", ty.name())),
        };
        Ok(Shape { element, count, container: ty.bits() / count.max(1) })
    }

    fn is_float(self) -> bool {
        !matches!(self.element, Element::Int { .. })
    }
}

impl Element {
    /// The number that the bits are.
    fn read(self, bits: u64) -> Num {
        match self {
            Element::Int { bits: width, signed: true } => {
                Num::int(((bits << (64 - width)) as i64 >> (64 - width)).into())
            }
            Element::Int { bits: width, signed: false } => Num::int((bits & mask(width)).into()),
            Element::Float(format) => soft::unpack(bits, format),
            Element::Exponent if bits & 0xff == 0xff => Num::Nan,
            Element::Exponent => Num::Finite { neg: false, sig: 1, exp: (bits & 0xff) as i32 - 127 },
            Element::Fixed => match Num::int((bits as u8 as i8).into()) {
                Num::Finite { neg, sig, .. } => Num::Finite { neg, sig, exp: -6 },
                other => other,
            },
        }
    }
}

/// Rounding and clamping of a conversion.
#[derive(Clone, Copy, Debug)]
struct Rules {
    round: Round,
    /// `.rni` and its like between floats: to an integral value.
    integral: bool,
    ftz: bool,
    sat: bool,
    relu: bool,
    satfinite: bool,
    /// The integer result for a NaN.
    nan: u64,
}

impl Rules {
    /// One element scaled and converted: what becomes narrower is divided by the power of two, what becomes wider multiplied.
    fn convert_scaled(self, from: Element, to: Element, bits: u64, scale: u64) -> u64 {
        let narrows = !matches!(to, Element::Float(format) if *format == soft::BF16);
        let num = match (from.read(bits), Element::Exponent.read(scale)) {
            (Num::Finite { neg, sig, exp }, Num::Finite { exp: by, .. }) => {
                Num::Finite { neg, sig, exp: if narrows { exp - by } else { exp + by } }
            }
            (_, Num::Nan) => Num::Nan,
            (other, _) => other,
        };
        self.finish(num, from, to)
    }

    /// One element converted.
    fn convert(self, from: Element, to: Element, bits: u64) -> u64 {
        let bits = if self.ftz { flush(from, bits) } else { bits };
        if let (Element::Float(old), Element::Float(new)) = (from, to)
            && let Some(nan) = self.kept_nan(bits, old, new)
        {
            return nan;
        }
        self.finish(from.read(bits), from, to)
    }

    fn finish(self, num: Num, from: Element, to: Element) -> u64 {
        match to {
            Element::Int { bits: width, signed } => self.to_int(num, from, width, signed),
            Element::Float(format) => self.to_float(num, format),
            Element::Exponent => to_exponent(num, self.round, self.satfinite),
            Element::Fixed => self.to_fixed(num),
        }
    }

    /// The NaNs that keep their sign and payload, as on the chips: those from and to `f64`, from `bf16` to `f32`, of
    /// `f32` to itself, and of `.rna.tf32`, which cuts the payload. All others become the format's one NaN.
    fn kept_nan(self, bits: u64, from: &Format, to: &Format) -> Option<u64> {
        // That one is a move of 16 bits: a signalling NaN stays one.
        let widens = *from == soft::BF16 && *to == F32 && !self.ftz;
        let double = from.bits == 64 || to.bits == 64;
        if self.sat || soft::unpack(bits, from) != Num::Nan {
            return None;
        }
        if *to == soft::TF32 && self.round == Round::Away {
            let cut = bits & !mask(to.padding);
            return Some(if self.satfinite { cut - (1 << to.padding) } else { cut });
        }
        if from == to && from.bits >= 32 && !self.integral && !self.ftz {
            return Some(bits);
        }
        if !(widens || double) {
            return None;
        }
        let bits = if self.ftz && *from == F32 { 0x7fff_ffff } else { bits };
        let sign = bits >> (from.bits - 1) & 1;
        let payload = bits & mask(from.fraction);
        let payload = if to.fraction >= from.fraction {
            payload << (to.fraction - from.fraction)
        } else {
            payload >> (from.fraction - to.fraction)
        };
        let quiet = if widens { 0 } else { 1 << (to.fraction - 1) };
        Some(sign << (to.bits - 1) | to.infinity? | payload | quiet)
    }

    fn to_int(self, num: Num, from: Element, width: u32, signed: bool) -> u64 {
        let (low, high) = match signed {
            true => (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1),
            false => (0, (1i128 << width) - 1),
        };
        let clamps = self.sat || !matches!(from, Element::Int { .. });
        match num.to_integral(self.round) {
            Num::Nan => self.nan,
            Num::Inf { neg } => (if neg { low } else { high }) as u64,
            Num::Finite { neg, sig, exp } => {
                let magnitude =
                    if sig.leading_zeros() as i32 > exp { (sig << exp).min(1 << 100) as i128 } else { 1 << 100 };
                let value = if neg { -magnitude } else { magnitude };
                (if clamps { value.clamp(low, high) } else { value }) as u64
            }
        }
    }

    fn to_float(self, num: Num, format: &Format) -> u64 {
        let num = if self.integral { num.to_integral(self.round) } else { num };
        let num = if self.relu && num.negative() { Num::int(0) } else { num };
        let bits = soft::pack(num, format, self.round, self.satfinite);
        let bits = if self.ftz { flush_bits(bits, format) } else { bits };
        match self.sat {
            true if num == Num::Nan || num.negative() => 0,
            true => bits.min((format.bias as u64) << format.fraction),
            false => bits,
        }
    }

    /// Two's complement in units of 1/64; a NaN becomes the greatest.
    fn to_fixed(self, num: Num) -> u64 {
        let scaled = match num {
            Num::Finite { neg, sig, exp } => Num::Finite { neg, sig, exp: exp + 6 },
            other => other,
        };
        let value = Rules { nan: 0x7f, ..self }.to_int(scaled, Element::Fixed, 8, true) as i8;
        (if self.relu { value.max(0) } else { value }) as u8 as u64
    }
}

/// A subnormal `f32` becomes zero; `.ftz` concerns no other type.
fn flush(from: Element, bits: u64) -> u64 {
    match from {
        Element::Float(format) => flush_bits(bits, format),
        _ => bits,
    }
}

fn flush_bits(bits: u64, format: &Format) -> u64 {
    if *format == F32 && bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// The exponent of the next power of two.
fn to_exponent(num: Num, round: Round, satfinite: bool) -> u64 {
    match num {
        Num::Nan => 0xff,
        Num::Inf { .. } => {
            if satfinite {
                0xfe
            } else {
                0xff
            }
        }
        Num::Finite { sig: 0, .. } => 0,
        Num::Finite { sig, exp, .. } => {
            let up = round == Round::Up && !sig.is_power_of_two();
            let exponent = 127 - sig.leading_zeros() as i32 + exp + i32::from(up) + 127;
            exponent.clamp(0, 0xfe) as u64
        }
    }
}

fn rules(site: &Site, to: Shape, from: Shape) -> Rules {
    let integral = ["rni", "rzi", "rmi", "rpi"].iter().any(|m| site.is(m));
    let wide = |shape: Shape| shape.container == 64 && !matches!(shape.element, Element::Float(f) if f.bits == 32);
    let nan = match to.element {
        Element::Int { bits, .. } if wide(to) || wide(from) => 1 << (bits - 1),
        _ => 0,
    };
    Rules {
        round: site.round(),
        integral: integral && from.is_float(),
        // Into `f16` the chips do not flush.
        ftz: site.is("ftz") && !matches!(to.element, Element::Float(f) if *f == soft::F16),
        sat: site.is("sat"),
        relu: site.is("relu"),
        satfinite: site.is("satfinite"),
        nan,
    }
}

/// The destination: the whole register, into which the value is extended.
fn register(site: &Site, ty: Type) -> Result<Dst, Refusal> {
    let dst = site.destination(site.operand(0), ty)?;
    let bits = match site.operand(0) {
        Operand::Reg(register) => site.width(*register).max(ty.bits()).min(64),
        _ => ty.bits(),
    };
    Ok(Dst { mask: mask(bits), ..dst })
}

fn cvt(site: &Site) -> Decoded {
    // The types that are written: some operands are declared as the bits that hold them.
    let [to_type, from_type] = site.types()[..] else { return Err("`cvt` without its two types".into()) };
    let (to, from) = (Shape::of(to_type)?, Shape::of(from_type)?);
    let rules = rules(site, to, from);
    let dst = register(site, to_type)?;
    if to.count > 1 && from.count == 1 {
        return join(site, dst, to, from, rules);
    }
    let src = site.src(1)?;
    if to.count > 1 {
        let scales = Scales::new(site)?;
        return Ok(Box::new(move |ctx, group| {
            let (a, scales) = (ctx.fetch(src), scales.map(|s| s.fetch(ctx)));
            ctx.store(dst, group, |lane| {
                (0..to.count).fold(0, |word, i| {
                    let part = a[lane] >> (i * from.container) & mask(from.container);
                    let element = match scales {
                        Some(scales) => rules.convert_scaled(from.element, to.element, part, scales.of(lane, i)),
                        None => rules.convert(from.element, to.element, part),
                    };
                    word | element << (i * to.container)
                })
            });
            Ok(Flow::Next)
        }));
    }
    Ok(single(dst, src, to, from, rules))
}

/// The `ue8m0` factors of a conversion.
#[derive(Clone, Copy)]
struct Scales<T> {
    values: T,
    /// True if each element has its own.
    each: bool,
}

impl Scales<Src> {
    fn new(site: &Site) -> Result<Option<Scales<Src>>, Refusal> {
        let kinds = [("scaled::n1::ue8m0", false), ("scaled::n2::ue8m0", true)];
        let Some(each) = site.one_of(&kinds) else { return Ok(None) };
        let values = site.src(site.named("scale").ok_or("a scaled conversion without its factors")?)?;
        Ok(Some(Scales { values, each }))
    }

    fn fetch(self, ctx: &Ctx) -> Scales<Lanes> {
        Scales { values: ctx.fetch(self.values), each: self.each }
    }
}

impl Scales<Lanes> {
    /// The factor of an element, the lowest first.
    fn of(&self, lane: usize, element: u32) -> u64 {
        self.values[lane] >> if self.each { 8 * element } else { 0 } & 0xff
    }
}

/// One value to one value; the result is extended to its register by its type.
fn single(dst: Dst, src: Src, to: Shape, from: Shape, rules: Rules) -> crate::ctx::Step {
    let signed = matches!(to.element, Element::Int { signed: true, .. });
    let unused = 64 - to.container.max(1);
    let extend = move |v: u64| if signed { ((v << unused) as i64 >> unused) as u64 } else { v << unused >> unused };
    if let (Element::Int { bits, signed }, Element::Int { .. }, false) = (from.element, to.element, rules.sat) {
        let cut = 64 - bits;
        let read = move |v: u64| if signed { ((v << cut) as i64 >> cut) as u64 } else { v << cut >> cut };
        return Box::new(move |ctx, group| {
            let a = ctx.fetch(src);
            ctx.store(dst, group, |lane| extend(read(a[lane])));
            Ok(Flow::Next)
        });
    }
    Box::new(move |ctx, group| {
        let a = ctx.fetch(src);
        ctx.store(dst, group, |lane| extend(rules.convert(from.element, to.element, a[lane])));
        Ok(Flow::Next)
    })
}

/// Several sources to one register: the first is the highest element.
fn join(site: &Site, dst: Dst, to: Shape, from: Shape, rules: Rules) -> Decoded {
    let ty = site.ty(1)?;
    let operands =
        if to.count == 2 { vec![site.operand(1).clone(), site.operand(2).clone()] } else { site.elements(1) };
    let sources = operands.iter().map(|o| site.source(o, ty)).collect::<Result<Vec<_>, _>>()?;
    if sources.len() != to.count as usize {
        return Err(format!("{} sources for {} elements", sources.len(), to.count));
    }
    let scales = Scales::new(site)?;
    Ok(Box::new(move |ctx, group| {
        let values: Vec<_> = sources.iter().map(|s| ctx.fetch(*s)).collect();
        let scales = scales.map(|s| s.fetch(ctx));
        ctx.store(dst, group, |lane| {
            values.iter().zip((0..to.count).rev()).fold(0, |word, (v, i)| {
                let element = match scales {
                    Some(scales) => rules.convert_scaled(from.element, to.element, v[lane], scales.of(lane, i)),
                    None => rules.convert(from.element, to.element, v[lane]),
                };
                word << to.container | element
            })
        });
        Ok(Flow::Next)
    }))
}

/// `cvt.pack`: two clamped integers below what `c` brings.
fn pack(site: &Site) -> Decoded {
    site.is("sat");
    let ty = *site.types().first().ok_or("`cvt.pack` without a type")?;
    let signed = ty.class() == Class::Signed || ty.name().starts_with('s');
    let bits: u32 = ty.name().trim_start_matches(['s', 'u']).parse().map_err(|_| "a width")?;
    let (low, high) = if signed { (-(1i64 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let clamp = move |v: u64| (v as i32 as i64).clamp(low, high) as u64 & mask(bits);
    let (dst, [a, b]) = (site.dst(0)?, site.srcs(1)?);
    let c = if site.there(3) { site.src(3)? } else { Src::Value(0) };
    Ok(Box::new(move |ctx, group| {
        let mut args = [[0; 32]; 3];
        let [a, b, c] = ctx.fetch_all([a, b, c], &mut args);
        ctx.store(dst, group, |lane| c[lane] << (2 * bits) | clamp(a[lane]) << bits | clamp(b[lane]));
        Ok(Flow::Next)
    }))
}

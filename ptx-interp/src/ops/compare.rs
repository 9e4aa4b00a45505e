//! Comparison and selection, of all types (9.7.6, 9.7.7).

use super::float::Finish;
use super::integer::element;
use super::{Op, op};
use crate::ctx::Flow;
use crate::exec::{Dst, Src};
use crate::site::{Decoded, Refusal, Site};
use crate::soft::{self, Format, mask};
use ptx_core::isa::{Class, Type};

pub(super) const OPS: &[Op] = &[
    op("setp", "f16x2 bf16x2", setp_pair),
    op("setp", "", setp),
    op("set", "", set),
    op("selp", "", |s| s.map(|[a, b, c]| if c != 0 { a } else { b })),
    op("slct", "", slct),
];

/// Relations of two values, one bit each, so that a comparison is a set of relations.
const LESS: u32 = 1;
const EQUAL: u32 = 2;
const GREATER: u32 = 4;
const UNORDERED: u32 = 8;

#[rustfmt::skip]
const TESTS: [(&str, u32); 18] = [
    ("eq", EQUAL), ("ne", LESS | GREATER), ("lt", LESS), ("le", LESS | EQUAL), ("gt", GREATER), ("ge", GREATER | EQUAL),
    ("lo", LESS), ("ls", LESS | EQUAL), ("hi", GREATER), ("hs", GREATER | EQUAL),
    ("equ", EQUAL | UNORDERED), ("neu", LESS | GREATER | UNORDERED), ("ltu", LESS | UNORDERED),
    ("leu", LESS | EQUAL | UNORDERED), ("gtu", GREATER | UNORDERED), ("geu", GREATER | EQUAL | UNORDERED),
    ("num", LESS | EQUAL | GREATER), ("nan", UNORDERED),
];

/// A comparison of two values of a type, with the predicate that joins it.
#[derive(Clone, Copy)]
struct Test {
    wanted: u32,
    order: Order,
    /// The truth table of `.and`, `.or`, `.xor` on the result and `c`: the bit `result + 2 · c`.
    join: u32,
}

/// Order of the values of a type.
#[derive(Clone, Copy)]
enum Order {
    Signed(u32),
    Unsigned(u32),
    Single(Finish),
    Double,
    Soft(Finish),
}

impl Order {
    fn of(site: &Site, ty: Type) -> Result<Order, Refusal> {
        let element = soft::format(ty.name().trim_end_matches("x2"));
        Ok(match (ty.name(), element) {
            ("f64", _) => Order::Double,
            ("f32", Some(format)) => Order::Single(Finish::new(site, format)),
            (_, Some(format)) => Order::Soft(Finish::new(site, format)),
            _ if ty.class() == Class::Signed => Order::Signed(64 - ty.bits()),
            _ => Order::Unsigned(64 - ty.bits()),
        })
    }

    /// The relation of two values.
    #[inline]
    fn relation(self, a: u64, b: u64) -> u32 {
        let single = |f: Finish, v: u64| f32::from_bits(f.input(v) as u32);
        match self {
            Order::Signed(unused) => relate(&((a << unused) as i64), &((b << unused) as i64)),
            Order::Unsigned(unused) => relate(&(a << unused), &(b << unused)),
            Order::Single(f) => relate(&single(f, a), &single(f, b)),
            Order::Double => relate(&f64::from_bits(a), &f64::from_bits(b)),
            Order::Soft(f) => relate(&key(f.input(a), f.format), &key(f.input(b), f.format)),
        }
    }
}

#[inline]
fn relate<T: PartialOrd>(a: &T, b: &T) -> u32 {
    match a.partial_cmp(b) {
        Some(std::cmp::Ordering::Less) => LESS,
        Some(std::cmp::Ordering::Equal) => EQUAL,
        Some(std::cmp::Ordering::Greater) => GREATER,
        None => UNORDERED,
    }
}

/// A small float as a double.
fn key(bits: u64, format: &Format) -> f64 {
    f64::from_bits(soft::pack(soft::unpack(bits & mask(format.bits), format), &soft::F64, soft::Round::Nearest, false))
}

impl Test {
    fn new(site: &Site, ty: Type) -> Result<Test, Refusal> {
        const JOINS: [(&str, u32); 3] = [("and", 0b1000), ("or", 0b1110), ("xor", 0b0110)];
        let wanted = site.one_of(&TESTS).ok_or("a comparison without its kind")?;
        Ok(Test { wanted, order: Order::of(site, ty)?, join: site.one_of(&JOINS).unwrap_or(0b1010) })
    }

    #[inline]
    fn holds(self, a: u64, b: u64) -> bool {
        self.wanted & self.order.relation(a, b) != 0
    }

    #[inline]
    fn joined(self, result: bool, c: u64) -> u64 {
        u64::from(self.join >> (u32::from(result) + 2 * u32::from(c != 0)) & 1)
    }
}

/// `p = a ? b`, and `q` its opposite, each joined with `c`.
fn setp(site: &Site) -> Decoded {
    let test = Test::new(site, site.ty(1)?)?;
    let (p, q) = (site.dst(0)?, site.second(0)?);
    let [a, b] = site.srcs(1)?;
    let c = site.predicate(3)?;
    match test.order {
        Order::Signed(n) => {
            Ok(compare(p, q, [a, b, c], test, move |a, b| relate(&((a << n) as i64), &((b << n) as i64))))
        }
        Order::Unsigned(n) => Ok(compare(p, q, [a, b, c], test, move |a, b| relate(&(a << n), &(b << n)))),
        order => Ok(compare(p, q, [a, b, c], test, move |a, b| order.relation(a, b))),
    }
}

fn compare(
    p: Dst,
    q: Option<Dst>,
    srcs: [Src; 3],
    test: Test,
    relation: impl Fn(u64, u64) -> u32 + Send + Sync + 'static,
) -> crate::ctx::Step {
    Box::new(move |ctx, group| {
        let mut args = [[0; 32]; 3];
        let [a, b, c] = ctx.fetch_all(srcs, &mut args);
        ctx.store(p, group, |l| test.joined(test.wanted & relation(a[l], b[l]) != 0, c[l]));
        if let Some(q) = q {
            ctx.store(q, group, |l| test.joined(test.wanted & relation(a[l], b[l]) == 0, c[l]));
        }
        Ok(Flow::Next)
    })
}

/// Of two halves: `p` compares the low ones, `q` the high ones; without `q`, `p` requires both.
fn setp_pair(site: &Site) -> Decoded {
    let test = Test::new(site, site.ty(1)?)?;
    let (p, q) = (site.dst(0)?, site.second(0)?);
    let [a, b] = site.srcs(1)?;
    let c = site.predicate(3)?;
    Ok(Box::new(move |ctx, group| {
        let mut args = [[0; 32]; 3];
        let [a, b, c] = ctx.fetch_all([a, b, c], &mut args);
        let half = |l: usize, at: u32| test.holds(a[l] >> at & 0xffff, b[l] >> at & 0xffff);
        ctx.store(p, group, |l| test.joined(half(l, 0), c[l]));
        if let Some(q) = q {
            ctx.store(q, group, |l| test.joined(half(l, 16), c[l]));
        }
        Ok(Flow::Next)
    }))
}

/// A comparison as a number: ones or `1.0`, element by element for packed types.
fn set(site: &Site) -> Decoded {
    let (to, from) = (site.ty(0)?, site.ty(1)?);
    let (parts, width) = elements(from);
    let test = Test::new(site, scalar(from)?)?;
    let out = to.bits() / parts;
    let yes = match soft::format(to.name().trim_end_matches("x2")) {
        Some(format) => (format.bias as u64) << format.fraction,
        None => mask(out),
    };
    let dst = site.dst(0)?;
    let [a, b] = site.srcs(1)?;
    let c = site.predicate(3)?;
    let signed = from.name().starts_with('s');
    Ok(Box::new(move |ctx, group| {
        let mut args = [[0; 32]; 3];
        let [a, b, c] = ctx.fetch_all([a, b, c], &mut args);
        let part = |v: u64, i: u32| if parts == 1 { v } else { element(v, i, width, signed) as u64 };
        ctx.store(dst, group, |l| {
            (0..parts).fold(0, |word, i| {
                let holds = test.joined(test.holds(part(a[l], i), part(b[l], i)), c[l]);
                word | (yes * holds) << (i * out)
            })
        });
        Ok(Flow::Next)
    }))
}

/// Number of elements of a type, and the width of each.
fn elements(ty: Type) -> (u32, u32) {
    let count = ty.name().rsplit_once('x').and_then(|(_, n)| n.parse().ok()).unwrap_or(1);
    (count, ty.bits() / count)
}

/// The type of one element.
fn scalar(ty: Type) -> Result<Type, Refusal> {
    let name = ty.name().split_once('x').map_or(ty.name(), |(element, _)| element);
    Type::find(name).ok_or_else(|| format!("no type .{name}"))
}

/// `c ≥ 0 ? a : b`; a NaN is not.
fn slct(site: &Site) -> Decoded {
    let order = Order::of(site, site.ty(3)?)?;
    site.map(move |[a, b, c]| if order.relation(c, 0) & (GREATER | EQUAL) != 0 { a } else { b })
}

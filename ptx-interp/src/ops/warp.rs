//! Operations between the lanes of a warp: `shfl`, `vote`, `match`, `redux`, `elect`, `activemask` (9.7.9, 9.7.13).
//!
//! The `.sync` forms wait until every live lane of the member mask is at the same instruction.

use super::float::Extreme;
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::{Dst, ExecState, Src};
use crate::fault::{Fault, FaultKind};
use crate::site::{Decoded, Refusal, Site};
use crate::soft::{F32, mask};
use crate::warp::{Lanes, lanes};
use ptx_core::diag::codes;
use ptx_core::ir::Operand;
use ptx_core::isa::Class;

pub(super) const OPS: &[Op] = &[
    op("shfl", "", |s| shfl(s, None)),
    op("shfl.sync", "", |s| shfl(s, Some(4))),
    op("vote", "", |s| vote(s, None)),
    op("vote.sync", "", |s| vote(s, Some(2))),
    op("match.any", "", match_any),
    op("match.all", "", match_all),
    op("redux", "", redux),
    op("elect", "", elect),
    op("activemask", "", activemask),
];

impl ExecState<'_> {
    /// Of these lanes, those whose member mask is complete here; the others wait.
    pub(super) fn meet(&mut self, group: u32, members: Src) -> Result<u32, Fault> {
        let masks = self.fetch(members);
        let mut ready = 0;
        for lane in lanes(group) {
            let named = masks[lane] as u32;
            if named >> lane & 1 == 0 {
                let message =
                    format!("lane {lane} executes this with member mask {named:#010x}, which does not name it");
                return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0307).lane(lane));
            }
            if named & self.warp.live & !group == 0 {
                ready |= 1 << lane;
            }
        }
        let at = self.warp.at;
        self.warp.meeting |= group & !ready;
        self.warp.jump(group & !ready, at);
        Ok(ready)
    }

    /// Lets the lanes that met go on; the others stay.
    pub(super) fn parted(&mut self, group: u32, ready: u32) -> Flow {
        if ready == group {
            return Flow::Next;
        }
        let next = self.warp.at + 1;
        self.warp.jump(ready, next);
        Flow::Apart
    }
}

/// Lanes that execute an instruction together: with `.sync` those that their member masks name, otherwise all that are here.
struct Together {
    lanes: u32,
    masks: Option<Lanes>,
}

impl Together {
    /// The lanes with which a lane executes it.
    fn with(&self, lane: usize) -> u32 {
        self.named(lane) & self.lanes
    }

    /// The lanes that its member mask names.
    fn named(&self, lane: usize) -> u32 {
        self.masks.map_or(self.lanes, |masks| masks[lane] as u32)
    }

    /// Returns true if a member mask may name a missing lane or miss a present one: observers check only those.
    fn is_partial(&self) -> bool {
        self.masks.is_some_and(|masks| self.lanes != u32::MAX || masks.iter().any(|mask| *mask as u32 != u32::MAX))
    }
}

/// A step of lanes that meet: `run` gets those that are complete.
fn together(
    members: Option<Src>,
    run: impl Fn(&mut Ctx, &Together) -> Result<(), Fault> + Send + Sync + 'static,
) -> Decoded {
    Ok(Box::new(move |ctx, group| {
        let Some(members) = members else {
            run(ctx, &Together { lanes: group, masks: None })?;
            return Ok(Flow::Next);
        };
        let masks = Some(ctx.fetch(members));
        let ready = ctx.meet(group, members)?;
        run(ctx, &Together { lanes: ready, masks })?;
        Ok(ctx.parted(group, ready))
    }))
}

/// The member mask operand, for `.sync` forms.
fn members(site: &Site, at: Option<usize>) -> Result<Option<Src>, Refusal> {
    site.is("sync");
    at.map(|at| site.src(at)).transpose()
}

fn shfl(site: &Site, member: Option<usize>) -> Decoded {
    const MODES: [(&str, Shuffle); 4] =
        [("up", Shuffle::Up), ("down", Shuffle::Down), ("bfly", Shuffle::Butterfly), ("idx", Shuffle::Index)];
    let mode = site.one_of(&MODES).ok_or("`shfl` without a mode")?;
    let (dst, found, [a, b, c]) = (site.dst(0)?, site.second(0)?, site.srcs(1)?);
    together(members(site, member)?, move |ctx, together| {
        let (value, group) = (a, together.lanes);
        let mut args = [[0; 32]; 3];
        let [a, b, c] = ctx.fetch_all([a, b, c], &mut args);
        let source = |lane: usize| mode.source(lane as i64, b[lane], c[lane]);
        let from = |lane: usize| source(lane).unwrap_or(lane);
        if let Some(observer) = ctx.observer.filter(|_| together.is_partial()) {
            observer.check_sources(ctx, group, &|lane| together.named(lane), &from)?;
        }
        // The value of a lane that takes no part is undefined (9.7.9.6); a GPU reads zero.
        let read = |from: usize| if group >> from & 1 == 1 { a[from] } else { 0 };
        ctx.store(dst, group, |lane| read(from(lane)));
        if let Some(observer) = ctx.observer {
            observer.shuffle(ctx, (dst.slot, value), group, &from);
        }
        if let Some(found) = found {
            ctx.store(found, group, |lane| source(lane).is_some().into());
        }
        Ok(())
    })
}

/// Which lane a shuffle reads.
#[derive(Clone, Copy, Debug)]
enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

impl Shuffle {
    /// The source lane, or `None` where it is outside the segment (9.7.9.6).
    fn source(self, lane: i64, b: u64, c: u64) -> Option<usize> {
        let (b, clamp, segment) = ((b & 31) as i64, (c & 31) as i64, (c >> 8 & 31) as i64);
        let most = lane & segment | clamp & !segment;
        let (from, inside) = match self {
            Shuffle::Up => (lane - b, lane - b >= most),
            Shuffle::Down => (lane + b, lane + b <= most),
            Shuffle::Butterfly => (lane ^ b, lane ^ b <= most),
            Shuffle::Index => {
                let from = lane & segment | b & !segment;
                (from, from <= most)
            }
        };
        inside.then_some(from as usize & 31)
    }
}

fn vote(site: &Site, member: Option<usize>) -> Decoded {
    type Mode = fn(u32, u32) -> u64;
    const MODES: [(&str, Mode); 4] = [
        ("all", |yes, all| (yes == all).into()),
        ("any", |yes, _| (yes != 0).into()),
        ("uni", |yes, all| (yes == 0 || yes == all).into()),
        ("ballot", |yes, _| yes.into()),
    ];
    let mode = site.one_of(&MODES).ok_or("`vote` without a mode")?;
    let (dst, src) = (site.dst(0)?, site.predicate(1)?);
    together(members(site, member)?, move |ctx, group| {
        let yes = ctx.fetch_mask(src);
        ctx.store(dst, group.lanes, |lane| mode(yes & group.with(lane), group.with(lane)));
        Ok(())
    })
}

/// The lanes among `members` whose value is the same as this lane's.
fn same(values: &[u64; 32], lane: usize, members: u32) -> u32 {
    lanes(members).filter(|l| values[*l] == values[lane]).fold(0, |m, l| m | 1 << l)
}

fn match_any(site: &Site) -> Decoded {
    let (dst, src) = (site.dst(0)?, site.src(1)?);
    together(members(site, Some(2))?, move |ctx, group| {
        let values = ctx.fetch(src);
        ctx.store(dst, group.lanes, |lane| same(&values, lane, group.with(lane)).into());
        Ok(())
    })
}

fn match_all(site: &Site) -> Decoded {
    let (dst, found, src) = (site.dst(0)?, site.second(0)?, site.src(1)?);
    together(members(site, Some(2))?, move |ctx, group| {
        let values = ctx.fetch(src);
        let all = |lane: usize| same(&values, lane, group.with(lane)) == group.with(lane);
        ctx.store(dst, group.lanes, |lane| if all(lane) { group.with(lane).into() } else { 0 });
        if let Some(found) = found {
            ctx.store(found, group.lanes, |lane| all(lane).into());
        }
        Ok(())
    })
}

type Reduce = fn(u64, u64) -> u64;

fn redux(site: &Site) -> Decoded {
    const OPERATIONS: [(&str, Reduce); 6] = [
        ("add", |a, b| a.wrapping_add(b)),
        ("and", |a, b| a & b),
        ("or", |a, b| a | b),
        ("xor", |a, b| a ^ b),
        ("min", |a, b| a.min(b)),
        ("max", |a, b| a.max(b)),
    ];
    let ty = *site.types().last().ok_or("`redux` without a type")?;
    let greatest = site.is("max");
    let operation = site.one_of(&OPERATIONS).ok_or("`redux` without an operation")?;
    let (dst, src, member) = (site.dst(0)?, site.src(1)?, members(site, Some(2))?);
    if ty.class() == Class::Float {
        let pick = Extreme::new(site, &F32, greatest);
        return together(member, move |ctx, group| reduce(ctx, group, (dst, src), &|a, b| pick.of(a, b)));
    }
    // Signed order is unsigned order with the sign bit turned.
    let flip = if ty.class() == Class::Signed && (greatest || site.is("min")) { 1 << (ty.bits() - 1) } else { 0 };
    together(member, move |ctx, group| reduce(ctx, group, (dst, src), &|a, b| operation(a ^ flip, b ^ flip) ^ flip))
}

fn reduce(
    ctx: &mut Ctx,
    group: &Together,
    (dst, src): (Dst, Src),
    operation: &dyn Fn(u64, u64) -> u64,
) -> Result<(), Fault> {
    let values = ctx.fetch(src);
    // One value alone is joined with itself only where that changes nothing but its form (a NaN).
    ctx.store(dst, group.lanes, |lane| lanes(group.with(lane)).map(|l| values[l]).reduce(operation).unwrap_or(0));
    Ok(())
}

fn elect(site: &Site) -> Decoded {
    let (dst, elected) = match site.operand(0) {
        Operand::Pair(..) => (Some(site.dst(0)?), site.second(0)?),
        _ => (None, Some(site.dst(0)?)),
    };
    together(members(site, Some(1))?, move |ctx, group| {
        let leader = |lane: usize| group.with(lane).trailing_zeros();
        if let Some(dst) = dst {
            ctx.store(dst, group.lanes, |lane| leader(lane).into());
        }
        if let Some(elected) = elected {
            ctx.store(elected, group.lanes, |lane| (leader(lane) as usize == lane).into());
        }
        Ok(())
    })
}

fn activemask(site: &Site) -> Decoded {
    let dst = site.dst(0)?;
    Ok(Box::new(move |ctx, group| {
        ctx.store(dst, group, |_| u64::from(group) & mask(32));
        Ok(Flow::Next)
    }))
}

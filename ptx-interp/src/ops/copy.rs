//! `cp.async` and `cp.async.bulk` (9.7.9.25), in groups or counted by an mbarrier.
//!
//! Every copy happens at once, which the manual allows: a wait for a group has nothing to wait for.

use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::role::Actor;
use crate::site::{Address, Decoded, Refusal, Site};
use crate::soft::mask;
use crate::space::{Where, in_block};
use crate::warp::lanes;
use ptx_core::diag::codes;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("cp.async", "", copy),
    op("cp.async.commit_group", "", nothing), op("cp.async.wait_group", "", nothing), op("cp.async.wait_all", "", nothing),
    op("cp.async.mbarrier.arrive", "", arrive),
    op("cp.async.bulk", "", bulk), op("multimem.cp.async.bulk", "", bulk), op("cp.async.bulk.prefetch", "", nothing),
    op("cp.async.bulk.commit_group", "", nothing), op("cp.async.bulk.wait_group", "", nothing),
];

/// The groups are complete as soon as they are committed.
fn nothing(site: &Site) -> Decoded {
    site.accept_all();
    Ok(Box::new(|_, _| Ok(Flow::Next)))
}

/// The operand that must be there.
fn required(site: &Site, name: &str) -> Result<Src, Refusal> {
    site.src(site.named(name).ok_or_else(|| format!("a copy without `{name}`"))?)
}

/// `cp.async`: `src_size` bytes, then zeros; only zeros where `ignore_src` holds.
fn copy(site: &Site) -> Decoded {
    site.accept(&["shared", "shared::cta", "global", "ca", "cg"]);
    let (to, from) = (site.address(0, Where::Shared)?, site.address(1, Where::Global)?);
    let size = required(site, "cp_size")?;
    let some = site.named("src_size").map(|at| site.src(at)).transpose()?;
    let ignore = site.named("ignore_src").map(|at| site.predicate(at)).transpose()?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let size = ctx.fetch_lane(size, lane);
            let some = some.map_or(size, |s| ctx.fetch_lane(s, lane) & mask(32));
            if size > 16 || some > size {
                let message = format!("a copy of {some} bytes to {size}");
                return Err(Fault::new(FaultKind::Undefined, message).lane(lane));
            }
            let ignored = ignore.is_some_and(|p| ctx.fetch_lane(p, lane) != 0);
            let some = if ignored { 0 } else { some as usize };
            let mut bytes = [0; 16];
            let at = from.lane(ctx, lane);
            aligned(at, size, lane)?;
            if some > 0 {
                bytes[..some].copy_from_slice(ctx.bytes(from.space, lane, at, some as u64)?);
            }
            let at = to.lane(ctx, lane);
            ctx.bytes_mut(to.space, lane, at, size)?.copy_from_slice(&bytes[..size as usize]);
        }
        Ok(Flow::Next)
    }))
}

fn aligned(at: u64, to: u64, lane: usize) -> Result<(), Fault> {
    if to == 0 || at.is_multiple_of(to) {
        return Ok(());
    }
    let message = format!("a copy at an address that is no multiple of {to}");
    Err(Fault::new(FaultKind::Misaligned, message).code(&codes::W0102).at(at).lane(lane))
}

/// `cp.async.mbarrier.arrive`: all copies are complete, so it arrives now. Without `.noinc` the arrival was added to the
/// pending ones just before, which leaves the mbarrier as it is.
fn arrive(site: &Site) -> Decoded {
    site.accept(&["shared", "shared::cta"]);
    let counted = site.is("noinc");
    let space = if site.is("shared") || site.is("shared::cta") { Where::Shared } else { Where::Generic };
    let address = site.address(0, space)?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let place = (address.space, lane, address.lane(ctx, lane));
            let object = ctx.mbarrier_place(place.0, lane, place.2)?;
            ctx.hand_over(lane, Actor::Copy, object);
            ctx.change_mbarrier(place, |m| if counted { m.arrive(1) } else { Ok(m) })?;
        }
        Ok(Flow::Next)
    }))
}

/// A bulk copy: 16-byte pieces from one space to another.
struct Bulk {
    to: Address,
    from: Address,
    size: Src,
    mbar: Option<Address>,
    /// The blocks of the cluster that get the bytes, one bit each.
    blocks: Option<Src>,
    /// Which of 16 bytes are written.
    written: Option<Src>,
    /// Number of bytes at either end that may be outside, and are not read.
    ignored: Option<[Src; 2]>,
}

fn bulk(site: &Site) -> Decoded {
    site.accept(&[
        "shared::cta",
        "shared::cluster",
        "global",
        "bulk_group",
        "mbarrier::complete_tx::bytes",
        "multicast::cluster",
        "multicast::cluster::16b",
        "multicast::cluster::32b",
        "mbarrier::report::disabled",
    ]);
    let (masked, ignoring) = (site.is("cp_mask"), site.is("ignore_oob"));
    let ends = |left, right| Some([site.named(left)?, site.named(right)?]);
    let modifiers: Vec<_> =
        site.modifiers.iter().copied().filter(|m| Where::from_modifier(Some(m)) != Where::Generic).collect();
    let [to, from] = modifiers[..] else { return Err(format!("a bulk copy between {modifiers:?}")) };
    let (to, from) = (Where::from_modifier(Some(to)), Where::from_modifier(Some(from)));
    let copy = Bulk {
        to: site.address(0, to)?,
        from: site.address(1, from)?,
        size: required(site, "size")?,
        // It lies in the memory that the bytes come to.
        mbar: site.named("mbar").map(|at| site.address(at, to)).transpose()?,
        blocks: site.named("mask").or(site.named("mask32")).filter(|_| !masked).map(|at| site.src(at)).transpose()?,
        written: site.named("mask").filter(|_| masked).map(|at| site.src(at)).transpose()?,
        ignored: match ends("left", "right").filter(|_| ignoring) {
            Some([left, right]) => Some([site.src(left)?, site.src(right)?]),
            None => None,
        },
    };
    Ok(Box::new(move |ctx, group| {
        lanes(group).try_for_each(|lane| copy.run(ctx, lane))?;
        Ok(Flow::Next)
    }))
}

impl Bulk {
    fn run(&self, ctx: &mut Ctx, lane: usize) -> Result<(), Fault> {
        let size = ctx.fetch_lane(self.size, lane) & mask(32);
        let (to, from) = (self.to.lane(ctx, lane), self.from.lane(ctx, lane));
        if !size.is_multiple_of(16) {
            let message = format!("a bulk copy of {size} bytes; it must be a multiple of 16");
            return Err(Fault::new(FaultKind::Misaligned, message).code(&codes::W0102).lane(lane));
        }
        aligned(to, 16, lane)?;
        aligned(from, 16, lane)?;
        let (to, mbar) = ((self.to.space, to), self.mbar.map(|mbar| (mbar.space, mbar.lane(ctx, lane))));
        if let Some((space, mbar)) = mbar {
            ctx.completes_on(space, lane, mbar)?;
        }
        let mut bytes = Vec::new();
        for piece in (0..size).step_by(16) {
            let ends = [piece == 0, piece + 16 == size];
            bytes.extend_from_slice(&self.piece(ctx, lane, from.wrapping_add(piece), ends)?);
        }
        let Some(blocks) = self.blocks else { return self.deliver(ctx, lane, to, mbar, &bytes) };
        let blocks = ctx.fetch_lane(blocks, lane);
        // The same offsets in every block: their shared windows.
        for rank in (0..32).filter(|rank| blocks >> rank & 1 == 1) {
            let there = |(_, at): (Where, u64)| (Where::Cluster, in_block(rank, at));
            self.deliver(ctx, lane, there(to), mbar.map(there), &bytes)?;
        }
        Ok(())
    }

    /// 16 bytes; of those at an end, only what is not ignored. The others are zero, which the manual leaves open.
    fn piece(&self, ctx: &mut Ctx, lane: usize, at: u64, [first, last]: [bool; 2]) -> Result<[u8; 16], Fault> {
        let mut bytes = [0; 16];
        let Some(ends) = self.ignored else {
            bytes.copy_from_slice(ctx.bytes(self.from.space, lane, at, 16)?);
            return Ok(bytes);
        };
        let [left, right] = ends.map(|src| ctx.fetch_lane(src, lane) as usize % 16);
        let from = if first { left } else { 0 };
        let to = if last { 16 - right } else { 16 };
        for (i, byte) in bytes.iter_mut().enumerate().take(to).skip(from) {
            *byte = ctx.bytes(self.from.space, lane, at.wrapping_add(i as u64), 1)?[0];
        }
        Ok(bytes)
    }

    fn deliver(
        &self,
        ctx: &mut Ctx,
        lane: usize,
        (space, to): (Where, u64),
        mbar: Option<(Where, u64)>,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        if let Some((space, mbar)) = mbar {
            ctx.completes_on(space, lane, mbar)?;
        }
        let written = self.written.map_or(u64::MAX, |mask| ctx.fetch_lane(mask, lane));
        for (i, piece) in bytes.chunks(16).enumerate() {
            let there = ctx.bytes_mut(space, lane, to.wrapping_add(16 * i as u64), 16)?;
            for (at, (old, new)) in there.iter_mut().zip(piece).enumerate() {
                *old = if written >> at & 1 == 1 { *new } else { *old };
            }
        }
        if let Some((space, mbar)) = mbar {
            ctx.change_mbarrier((space, lane, mbar), |m| m.expect(-(bytes.len() as i64)))?;
        }
        Ok(())
    }
}

//! `setmaxnreg`: what warps give back and take must be what the block has.

use super::party;
use crate::block::Block;
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::grid::Grid;
use crate::listing::Listing;
use crate::watch::ClusterWatch;
use ptx_core::diag::codes;

/// Registers of a multiprocessor, and the most that a thread starts with.
const FILE: u32 = 65_536;
const MOST: u32 = 255;

/// Registers of a block after `setmaxnreg`.
#[derive(Debug, Default)]
pub(in crate::watch) struct Pool {
    /// Registers of each thread, by warp; empty before the first change.
    warps: Vec<u32>,
    /// The last instruction that took some.
    taken: Option<u32>,
}

/// The registers of a thread when the launch starts, if the entry's directives do not say: all that there are.
fn start(grid: &Grid) -> u32 {
    grid.registers.unwrap_or((FILE / 32 / warps(grid)).min(MOST) & !7)
}

fn warps(grid: &Grid) -> u32 {
    grid.threads().div_ceil(32).max(1)
}

/// The running warp has `count` registers a thread from now on.
pub(in crate::watch) fn change(exec: &mut ExecState, count: u32) -> Result<(), Fault> {
    let (start, warps) = (start(exec.grid), warps(exec.grid));
    let takes = exec.listing.code.get(exec.warp.at as usize).is_some_and(|code| code.name == "setmaxnreg.inc");
    let block = ClusterWatch::of_mut(&mut exec.cluster.kept).and_then(|watch| watch.blocks.get_mut(exec.block.rank));
    let Some(pool) = block.map(|block| &mut block.pool) else { return Ok(()) };
    pool.warps.resize(warps as usize, start);
    let Some(own) = pool.warps.get_mut(exec.warp.index as usize) else { return Ok(()) };
    if takes && count < *own || !takes && count > *own {
        let (what, than) = if takes { ("inc", "fewer") } else { ("dec", "more") };
        let message =
            format!("`setmaxnreg.{what}` to {count} registers a thread, {than} than the {own} that the warp has");
        return Err(Fault::new(FaultKind::Resources, message)
            .code(&codes::W0502)
            .help("`.maxnreg`, or the number of threads, says how many a warp starts with"));
    }
    *own = count;
    if takes {
        pool.taken = Some(exec.warp.at);
    }
    Ok(())
}

/// Objects if a block that ends has taken more than it had: on a chip it waits for the registers for ever.
pub(in crate::watch) fn balance(listing: &Listing, grid: &Grid, block: &Block, pool: &Pool) -> Result<(), Fault> {
    let sum = pool.warps.iter().map(|registers| u64::from(*registers)).sum::<u64>() * 32;
    let has = (u64::from(start(grid)) * u64::from(warps(grid))).saturating_mul(32);
    let Some(taken) = pool.taken.filter(|_| sum > has) else { return Ok(()) };
    let message = format!("`setmaxnreg` gives the warps of a block {sum} registers; it started with {has}");
    let place = party(listing, taken, String::new());
    let mut fault = Fault::new(FaultKind::Resources, message).code(&codes::W0502).help(format!(
        "{} warps start with {} registers a thread: what some take, others must give back with `setmaxnreg.dec`",
        warps(grid),
        start(grid)
    ));
    fault.span = place.map(|party| party.span);
    fault.block = Some(block.id);
    Err(fault)
}

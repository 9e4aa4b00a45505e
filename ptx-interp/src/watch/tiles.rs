//! With which swizzle a copy by tensor map put bytes into shared memory: the matrix that a descriptor reads there must have the same.

use super::ClusterWatch;
use super::findings;
use crate::exec::ExecState;
use crate::fault::Fault;
use ptx_target::tensor::Swizzle;

/// Bytes that a swizzle keeps together.
const PIECE: u64 = 16;

/// For each piece of a block's shared memory the copy that brought it (its instruction, from 1) and the swizzle; 0 for others.
#[derive(Debug, Default)]
pub(super) struct Tiles(Vec<(u32, Swizzle)>);

impl Tiles {
    /// Something else writes these bytes.
    pub(super) fn forget(&mut self, at: u64, size: u64) {
        if self.0.is_empty() {
            return;
        }
        let pieces = (at / PIECE) as usize..at.saturating_add(size).div_ceil(PIECE) as usize;
        self.0.iter_mut().take(pieces.end).skip(pieces.start).for_each(|tile| tile.0 = 0);
    }

    fn note(&mut self, at: u64, tile: (u32, Swizzle)) {
        let piece = (at / PIECE) as usize;
        if self.0.len() <= piece {
            self.0.resize(piece + 1, (0, Swizzle::None));
        }
        self.0[piece] = tile;
    }
}

/// A copy by tensor map has put up to 16 bytes at an address of shared memory.
pub(super) fn note(exec: &mut ExecState, at: u64, swizzle: Swizzle) {
    let ((rank, at), pc) = (exec.shared_place(at), exec.warp.at);
    let block = ClusterWatch::of_mut(&mut exec.cluster.kept).and_then(|watch| watch.blocks.get_mut(rank));
    block.into_iter().for_each(|block| block.tiles.note(at, (pc + 1, swizzle)));
}

/// Objects if a matrix with this swizzle has a piece that was copied with another.
pub(super) fn check_tile(exec: &ExecState, rank: usize, at: u64, swizzle: Swizzle) -> Result<(), Fault> {
    let block = ClusterWatch::of(&exec.cluster.kept).and_then(|watch| watch.blocks.get(rank));
    match block.and_then(|block| block.tiles.0.get((at / PIECE) as usize)) {
        Some((pc @ 1.., other)) if *other != swizzle => {
            Err(findings::copies::swizzles(exec, at, swizzle, (*pc - 1, *other)))
        }
        _ => Ok(()),
    }
}

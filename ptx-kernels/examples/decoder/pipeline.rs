//! The residual stream from node to node, by NCCL.

use super::layer::Rank;
use ptx_launch::prelude::*;
use ptx_launch::{Communicator, CommunicatorId, Error, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// So long a node waits for the name of the communicator.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes of as many ranks each, which have layers one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Pipeline {
    pub(crate) nodes: usize,
    pub(crate) node: usize,
    pub(crate) ranks: usize,
    /// The name of the communicator; none with one node.
    pub(crate) id: Option<CommunicatorId>,
}

/// A rank's way to those of its number on the nodes before and behind its own.
pub(crate) struct Link {
    communicator: Communicator,
    ranks: usize,
}

impl Pipeline {
    /// Returns when the ranks of all nodes have joined, which they must within the patience.
    pub(crate) fn join(self, device: &Device, rank: usize, patience: Duration) -> Result<Option<Link>> {
        let number = self.node * self.ranks + rank;
        let join = |id| Communicator::join_within(device, id, number, self.nodes * self.ranks, patience);
        let communicator = self.id.map(join).transpose()?;
        Ok(communicator.map(|communicator| Link { communicator, ranks: self.ranks }))
    }
}

impl Link {
    /// Sends the rank's rows to the next node.
    pub(crate) fn send(&self, rank: &Rank) -> Result<()> {
        self.communicator.send(rank.stream(), rank.residual(), self.communicator.rank() + self.ranks)
    }

    /// Ends what waits for other nodes.
    pub(crate) fn abort(self) -> Result<()> {
        self.communicator.abort()
    }

    /// Receives its rows from the node before.
    pub(crate) fn receive(&self, rank: &mut Rank) -> Result<()> {
        let (stream, rows) = rank.residual_mut();
        self.communicator.receive(stream, rows, self.communicator.rank() - self.ranks)
    }
}

/// The name of the communicator, which node 0 writes.
pub(crate) fn meet(nodes: usize, node: usize) -> Result<Option<CommunicatorId>> {
    if nodes == 1 {
        return Ok(None);
    }
    let path = std::env::var_os("PTX_MEET").map(PathBuf::from);
    let path = path.ok_or_else(|| Error::other("several nodes meet at the file that `PTX_MEET` names"))?;
    let failed = |error: std::io::Error| Error::other(format!("{}: {error}", path.display()));
    if node == 0 {
        let (id, new) = (CommunicatorId::new()?, path.with_extension("new"));
        std::fs::write(&new, id.to_bytes()).and_then(|()| std::fs::rename(&new, &path)).map_err(failed)?;
        return Ok(Some(id));
    }
    wait_for(&path).map(Some)
}

fn wait_for(path: &Path) -> Result<CommunicatorId> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Ok(Ok(bytes)) = std::fs::read(path).map(<[u8; 128]>::try_from) {
            return Ok(CommunicatorId::from_bytes(bytes));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(Error::other(format!("node 0 wrote no name to {} in {PATIENCE:?}", path.display())))
}

//! The effects of instructions at barriers and in the memory of stages, with the checks that make one order of the events stand for all.
//!
//! Operations of different warps at a barrier commute, as long as every arrival belongs to one phase in every order, and every wait ends with one
//! phase in every order. These are the checks:
//!
//! - An arrival, an expectation or a copy is counted in phase n only if it is ordered behind the completion of phase n - 1.
//! - Bytes that are expected without an arrival are ordered before an arrival of the same phase, so that it is not complete without them.
//! - A wait that ends with phase n begins behind the completion of phase n - 1, and phase n + 1 completes behind the end of the wait.
//! - A copy writes a stage only behind all accesses to it, and a read is behind the completion of the copy's phase.
//! - Copies and products read what instructions wrote only behind a proxy fence of a thread that is behind the write.
//!
//! Copies complete at once here: another order is one in which they complete later, and all that must come behind their completion is ordered by the
//! phase that counts their bytes.
//!
//! `barrier` has `mbarrier`s, `block` the barriers of blocks and clusters with the fences, `memory` accesses and copies, `groups` the groups of
//! products and bulk copies, `tensor` tensor memory.

mod barrier;
mod block;
mod groups;
mod memory;
mod tensor;

use super::code::Role;
use super::state::State;
use super::value::{Value, active};
use super::walk::{Done, Halt, Walk, gap};
use crate::site::Site;
use ptx_core::check::access::writes;
use ptx_core::ir::Operand;

pub(crate) use barrier::describe_wait;
pub(crate) use block::{complete_cluster, open_copy};
pub(crate) use groups::{bulk, components, tensor_of};
pub(crate) use tensor::Pipe;

/// An instruction that lanes of a warp execute.
pub(crate) struct Here<'a, 'c, 'm> {
    pub(crate) walk: &'a mut Walk<'c, 'm>,
    pub(crate) state: &'a mut State,
    /// The warp.
    pub(crate) w: usize,
    pub(crate) at: usize,
    pub(crate) site: Site<'m>,
    pub(crate) lanes: u32,
}

/// A place in shared memory: its block, and its address there.
pub(crate) type Place = (usize, u32);

impl<'m> Here<'_, '_, 'm> {
    pub(crate) fn act(&mut self) -> Result<Done, Halt> {
        match self.role() {
            Role::Init => self.init(),
            Role::Arrive | Role::ArriveExpect | Role::Expect => self.arrive(),
            Role::Wait => self.wait(),
            Role::CopyTensor | Role::Copy => self.copy(),
            Role::SendAsync => self.send(),
            Role::StoreTensor => self.store_tensor(),
            Role::CommitBulk => self.commit_bulk(),
            Role::WaitBulk => self.wait_bulk(),
            Role::Multiply => self.multiply(),
            Role::CommitGroup => self.commit_group(),
            Role::WaitGroup => self.wait_group(),
            Role::Sync | Role::SyncArrive => self.sync(),
            Role::WarpSync => self.warp_sync(),
            Role::InitFence => self.init_fence(),
            Role::ProxyFence => self.proxy_fence(),
            Role::ClusterArrive => self.cluster_arrive(),
            Role::ClusterWait => self.cluster_wait(),
            Role::GridWait => self.grid_wait(),
            Role::ReadShared | Role::WriteShared => self.access(),
            Role::TensorAllocate
            | Role::TensorFree
            | Role::TensorLoad
            | Role::TensorStore
            | Role::TensorWaitLoad
            | Role::TensorWaitStore
            | Role::TensorBefore
            | Role::TensorAfter
            | Role::TensorCommit
            | Role::TensorIssue => self.tensor(),
            _ => self.gap(format!("`{}` is not described here", self.site.row.name)),
        }
    }

    fn role(&self) -> Role {
        self.walk.code.roles[self.at]
    }

    fn gap<T>(&self, text: impl Into<String>) -> Result<T, Halt> {
        gap(self.at, text)
    }

    fn wrong<T>(&self, text: impl Into<String>) -> Result<T, Halt> {
        super::walk::wrong(self.at, text)
    }

    /// The operand of this name, if it is there.
    fn operand(&self, name: &str) -> Option<&'m Operand> {
        operand(&self.site, name)
    }

    /// The address of the operand of this name.
    fn address(&mut self, name: &str) -> Option<Value> {
        let operand = self.operand(name)?;
        Some(self.walk.address(self.state, self.w, operand))
    }

    /// The same number in all lanes.
    fn number(&mut self, name: &str) -> Option<u64> {
        let value = self.source(name, 32)?;
        let first = value.at(self.lanes.trailing_zeros() as usize)?;
        active(self.lanes).all(|lane| value.at(lane) == Some(first)).then_some(first)
    }

    fn source(&mut self, name: &str, bits: u32) -> Option<Value> {
        let operand = self.operand(name)?;
        Some(self.walk.source(self.state, self.w, operand, bits))
    }

    /// An operand that is a number in the text.
    fn immediate(&self) -> Option<u32> {
        self.site.inst.operands.iter().find_map(|operand| match operand {
            Operand::Int(value) => u32::try_from(*value).ok(),
            _ => None,
        })
    }

    fn block(&self) -> usize {
        self.state.warps[self.w].block
    }

    fn place(&self, address: u64) -> Place {
        place(self.state, self.w, address)
    }

    fn who(&self) -> String {
        who(self.state, self.w)
    }

    /// Returns true if all lanes that live execute it.
    fn is_whole(&self) -> bool {
        self.lanes == self.state.warps[self.w].live
    }

    /// Gives the registers that the instruction writes a value.
    fn write(&mut self, value: &Value) {
        let mut written = Vec::new();
        writes(self.site.inst, &mut |register| written.push(register));
        let live = self.state.warps[self.w].live;
        for register in written {
            self.walk.set(self.state, self.w, register, value.clone(), (self.lanes, live));
        }
    }
}

fn operand<'m>(site: &Site<'m>, name: &str) -> Option<&'m Operand> {
    Some(site.operand(site.row.operand(name)?)).filter(|operand| **operand != Operand::Absent)
}

fn place(state: &State, w: usize, address: u64) -> Place {
    match (address >> 24) as usize {
        0 => (state.warps[w].block, address as u32),
        rank => (rank - 1, address as u32 & 0xff_ffff),
    }
}

/// `warp 3 of block 1 of the cluster`
pub(crate) fn who(state: &State, w: usize) -> String {
    let warp = &state.warps[w];
    format!("warp {} of block {} of the cluster", warp.index, warp.block)
}

//! The code of an entry as an exploration reads it: the role of each instruction, the slice that decides what happens at barriers, and the flow.

use super::slice::Slice;
use crate::flow::{End, Flow};
use crate::site::Site;
use ptx_core::check::access;
use ptx_core::ir::{Function, Module, Space, VarId};

/// The role of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Computes registers, or does nothing that concerns a pipeline.
    Compute,
    LoadParam,
    /// Compares two values, and chooses one of two.
    Compare,
    Select,
    /// Reads memory of another space: a value that is not described.
    Load,
    ReadShared,
    WriteShared,
    Init,
    Arrive,
    ArriveExpect,
    Expect,
    Wait,
    CopyTensor,
    Copy,
    SendAsync,
    StoreTensor,
    CommitBulk,
    WaitBulk,
    Multiply,
    CommitGroup,
    WaitGroup,
    Sync,
    SyncArrive,
    /// Brings lanes of a warp together.
    WarpSync,
    InitFence,
    ProxyFence,
    ClusterArrive,
    ClusterWait,
    /// Waits for the launch before.
    GridWait,
    MapShared,
    Elect,
    Shuffle,
    /// A vote, whose result is the same in all lanes.
    Vote,
    TensorAllocate,
    TensorFree,
    TensorLoad,
    TensorStore,
    TensorWaitLoad,
    TensorWaitStore,
    TensorBefore,
    TensorAfter,
    TensorCommit,
    TensorIssue,
    /// Not described: a pipeline with it is unknown.
    Other,
}

impl Role {
    /// Returns true if an instruction of this role gives registers values, and does nothing else.
    pub(crate) fn only_computes(self) -> bool {
        use Role::{Compare, Compute, Elect, Load, LoadParam, MapShared, Select, Shuffle, Vote};
        matches!(self, Compute | Compare | Select | LoadParam | Load | MapShared | Elect | Shuffle | Vote)
    }
}

impl Role {
    /// Returns true if nothing but order depends on an instruction of this role: without it, less is known.
    pub(crate) fn only_orders(self) -> bool {
        matches!(self, Role::WarpSync | Role::InitFence | Role::ProxyFence | Role::GridWait)
    }
}

/// Instructions by name, with the modifiers that they must have.
#[rustfmt::skip]
const ROLES: &[(&str, &[&str], Role)] = &[
    ("ld", &["param"], Role::LoadParam), ("ld", &["shared"], Role::ReadShared), ("ld", &["shared::cta"], Role::ReadShared), ("ld", &["shared::cluster"], Role::Other),
    ("ld", &["global"], Role::Load), ("ld", &["const"], Role::Load), ("ld", &["local"], Role::Load), ("ld", &[], Role::Other), ("ldu", &[], Role::Other), ("ldmatrix", &[], Role::ReadShared), ("stmatrix", &[], Role::WriteShared),
    ("st", &["shared"], Role::WriteShared), ("st", &["shared::cta"], Role::WriteShared), ("st", &["shared::cluster"], Role::Other), ("st", &["global"], Role::Compute),
    ("st", &["local"], Role::Compute), ("st", &["param"], Role::Other), ("st", &[], Role::Other), ("st.bulk", &[], Role::Other),
    ("wmma.load", &[], Role::Other), ("wmma.store", &[], Role::Other), ("atom", &["global"], Role::Load), ("red", &["global"], Role::Compute),
    ("atom", &[], Role::Other), ("red", &[], Role::Other),
    ("mbarrier.init", &[], Role::Init), ("mbarrier.arrive", &["noComplete"], Role::Other), ("mbarrier.arrive", &["multicast"], Role::Other), ("mbarrier.arrive", &[], Role::Arrive),
    ("mbarrier.arrive.expect_tx", &[], Role::ArriveExpect), ("mbarrier.expect_tx", &[], Role::Expect),
    ("mbarrier.try_wait.parity", &[], Role::Wait), ("mbarrier.test_wait.parity", &[], Role::Wait), ("mbarrier", &[], Role::Other),
    ("cp.async.bulk.tensor", &["tile::gather4"], Role::Other), ("cp.async.bulk.tensor", &["im2col"], Role::Other), ("cp.async.bulk.tensor", &["bulk_group"], Role::StoreTensor),
    ("cp.async.bulk.tensor", &[], Role::CopyTensor), ("cp.async.bulk", &["bulk_group"], Role::StoreTensor), ("cp.async.bulk", &["ignore_oob"], Role::Other),
    ("cp.async.bulk", &["global"], Role::Copy), ("cp.async.bulk.commit_group", &[], Role::CommitBulk), ("cp.async.bulk.wait_group", &[], Role::WaitBulk),
    ("cp.async.bulk.prefetch", &[], Role::Compute), ("cp.async.bulk.prefetch.tensor", &[], Role::Compute), ("cp.reduce.async.bulk.tensor", &[], Role::StoreTensor),
    ("cp.reduce.async.bulk", &["bulk_group"], Role::StoreTensor), ("cp", &[], Role::Other),
    ("st.async", &["mbarrier::complete_tx::bytes"], Role::SendAsync), ("st.async", &[], Role::Other), ("red.async", &[], Role::Other),
    ("wgmma.mma_async", &[], Role::Multiply), ("wgmma.commit_group", &[], Role::CommitGroup), ("wgmma.wait_group", &[], Role::WaitGroup), ("wgmma.fence", &[], Role::Compute),
    ("bar.sync", &[], Role::Sync), ("bar.cta.sync", &[], Role::Sync), ("barrier", &[], Role::Sync), ("barrier.cta", &[], Role::Sync),
    ("bar.arrive", &[], Role::SyncArrive), ("bar.cta.arrive", &[], Role::SyncArrive), ("barrier.arrive", &[], Role::SyncArrive), ("barrier.cta.arrive", &[], Role::SyncArrive),
    ("bar.warp.sync", &[], Role::WarpSync), ("fence", &["mbarrier_init"], Role::InitFence), ("fence.proxy", &["async", "global"], Role::Compute), ("fence.proxy", &["async"], Role::ProxyFence), ("bar", &[], Role::Other), ("barrier.red", &[], Role::Other), ("barrier.cta.red", &[], Role::Other),
    ("barrier.cluster.arrive", &[], Role::ClusterArrive), ("barrier.cluster.wait", &[], Role::ClusterWait), ("griddepcontrol", &["wait"], Role::GridWait),
    ("setp", &[], Role::Compare), ("selp", &[], Role::Select), ("mapa", &[], Role::MapShared), ("elect", &[], Role::Elect), ("shfl", &["idx"], Role::Shuffle), ("vote", &["sync"], Role::Vote),
    ("tcgen05", &[], Role::Other), ("tcgen05.relinquish_alloc_permit", &[], Role::Compute),
    ("tcgen05.alloc", &["exclusive"], Role::Other), ("tcgen05.alloc", &["cta_group::2"], Role::Other), ("tcgen05.alloc", &[], Role::TensorAllocate),
    ("tcgen05.dealloc", &["exclusive"], Role::Other), ("tcgen05.dealloc", &["cta_group::2"], Role::Other), ("tcgen05.dealloc", &[], Role::TensorFree),
    ("tcgen05.ld", &[], Role::TensorLoad), ("tcgen05.ld.red", &[], Role::Other), ("tcgen05.st", &[], Role::TensorStore),
    ("tcgen05.wait::ld", &[], Role::TensorWaitLoad), ("tcgen05.wait::st", &[], Role::TensorWaitStore),
    ("tcgen05.fence::before_thread_sync", &[], Role::TensorBefore), ("tcgen05.fence::after_thread_sync", &[], Role::TensorAfter),
    ("tcgen05.commit", &["cta_group::2"], Role::Other), ("tcgen05.commit", &["multicast::cluster"], Role::Other), ("tcgen05.commit", &["multicast::cluster::32b"], Role::Other),
    ("tcgen05.commit", &["sync_restrict::shared::read::mma::a"], Role::Other), ("tcgen05.commit", &[], Role::TensorCommit),
    ("tcgen05.mma", &["sp"], Role::Other), ("tcgen05.mma", &["cta_group::2"], Role::Other), ("tcgen05.mma", &["block_scale"], Role::Other), ("tcgen05.mma", &["ashift"], Role::Other),
    ("tcgen05.mma", &[], Role::TensorIssue), ("tcgen05.mma.ws", &[], Role::Other), ("tcgen05.cp", &["cta_group::2"], Role::Other), ("tcgen05.cp", &[], Role::TensorIssue),
    ("tcgen05.shift", &["cta_group::2"], Role::Other), ("tcgen05.shift", &[], Role::TensorIssue), ("clusterlaunchcontrol", &[], Role::Other), ("call", &[], Role::Other), ("multimem", &[], Role::Other), ("trap", &[], Role::Other),
    ("tensormap", &[], Role::Other),
];

/// The operands of a role whose values decide what happens at barriers, and in the memory of stages: those of rigid registers.
#[rustfmt::skip]
pub(crate) const READS: &[(Role, &[&str])] = &[
    (Role::Init, &["addr", "count"]), (Role::Arrive, &["addr", "count"]), (Role::ArriveExpect, &["addr", "tx_count"]), (Role::Expect, &["addr", "tx_count"]),
    (Role::Wait, &["addr", "phase_parity"]), (Role::CopyTensor, &["dst", "map", "mbar", "mask"]), (Role::Copy, &["dst", "size", "mbar", "mask"]),
    (Role::SendAsync, &["a", "b", "mbar"]), (Role::StoreTensor, &["src", "map", "size"]), (Role::Multiply, &["a_desc", "b_desc"]), (Role::Sync, &["a", "b"]),
    (Role::SyncArrive, &["a", "b"]), (Role::ReadShared, &["a", "p"]), (Role::WriteShared, &["a", "p", "b"]),
    (Role::TensorAllocate, &["dst", "ncols"]), (Role::TensorFree, &["taddr"]), (Role::TensorCommit, &["mbar"]),
    (Role::TensorIssue, &["d", "taddr", "a_desc", "b_desc", "s_desc", "idesc", "enable_input_d"]),
    (Role::TensorLoad, &["taddr"]), (Role::TensorStore, &["taddr"]), (Role::WarpSync, &["membermask"]),
];

/// An entry.
pub(crate) struct Code<'m> {
    pub(crate) module: &'m Module,
    pub(crate) function: &'m Function,
    pub(crate) flow: Flow,
    pub(crate) roles: Vec<Role>,
    /// By instruction: true if it has to be executed.
    pub(crate) counts: Vec<bool>,
    /// By instruction: itself or the next one that has to be executed.
    pub(crate) next: Vec<usize>,
    /// By register: true if its numbers must be equal in equal states.
    pub(crate) rigid: Vec<bool>,
    /// By register: the bits that instructions that count read.
    pub(crate) bits: Vec<u64>,
    /// By instruction: the registers that are read from here on.
    pub(crate) live: Vec<Vec<u32>>,
    /// By block: the block where all ways behind it meet again; one past the last at the end.
    pub(crate) meet: Vec<usize>,
    /// The first address behind the shared variables, and the address of each.
    pub(crate) shared: Vec<(VarId, u32)>,
}

/// Shared memory starts here.
const BASE: u32 = 1024;

pub(crate) fn role(site: &Site<'_>) -> Role {
    let fits = |name: &str| {
        let rest = site.row.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let has = |wanted: &&str| site.modifiers().any(|own| own == *wanted || own.trim_start_matches('.') == *wanted);
    // The longest name that fits, and of those the first with all modifiers.
    let mut found: Option<(usize, Role)> = None;
    for (name, modifiers, role) in ROLES {
        if fits(name) && modifiers.iter().all(&has) && found.is_none_or(|(length, _)| name.len() > length) {
            found = Some((name.len(), *role));
        }
    }
    found.map_or(Role::Compute, |(_, role)| role)
}

impl<'m> Code<'m> {
    pub(crate) fn new(module: &'m Module, function: &'m Function) -> Code<'m> {
        let flow = Flow::new(function, &|_| false);
        let site = |at: usize| {
            let inst = &function.insts[at];
            Some(Site { function, inst, row: inst.row? })
        };
        let count = function.insts.len();
        let mut roles: Vec<Role> = (0..count).map(|at| site(at).map_or(Role::Other, |site| role(&site))).collect();
        // Only copies to memory may be behind the wait of another thread.
        if !roles.contains(&Role::StoreTensor) {
            roles.iter_mut().filter(|role| **role == Role::GridWait).for_each(|role| *role = Role::Compute);
        }
        let meet = meeting_points(&flow, function);
        let Slice { counts, rigid, live, .. } = Slice::new(function, &flow, &roles, &meet);
        let mut counted: Vec<usize> = (0..count).collect();
        for at in (0..count).rev().filter(|at| !counts[*at]) {
            counted[at] = counted.get(at + 1).copied().unwrap_or(count);
        }
        let bits = super::bits::read(function, &roles, &counts);
        let (mut shared, mut next) = (Vec::new(), BASE);
        for (at, variable) in module.variables.iter().enumerate() {
            let is_own = function.variables.iter().any(|own| own.index() == at) || variable.linkage.is_some();
            if variable.space == Space::Shared && (is_own || variable.size == 0) {
                let align = u32::try_from(variable.align.max(1)).unwrap_or(1024);
                // Dynamic shared memory follows all variables with a size.
                next = next.next_multiple_of(align);
                shared.push((VarId(at as u32), next));
                next = next.saturating_add(u32::try_from(variable.size).unwrap_or(0));
            }
        }
        let end = next.next_multiple_of(1024);
        for (id, address) in &mut shared {
            if module.variables[id.index()].size == 0 {
                *address = end;
            }
        }
        Code { module, function, flow, roles, counts, next: counted, rigid, bits, live, meet, shared }
    }

    pub(crate) fn site(&self, at: usize) -> Option<Site<'m>> {
        let function = self.function;
        let inst = function.insts.get(at)?;
        Some(Site { function, inst, row: inst.row? })
    }

    /// Returns true if the entry has a pipeline: barriers in memory, or what goes on while its threads do.
    pub(crate) fn has_pipeline(&self) -> bool {
        let begins = [Role::Init, Role::Multiply, Role::StoreTensor, Role::TensorIssue];
        self.roles.iter().any(|role| begins.contains(role))
    }

    /// The first address of shared memory.
    pub(crate) fn first(&self) -> u32 {
        BASE
    }

    /// The alignment of the variable at an address.
    pub(crate) fn align_at(&self, address: u64) -> u64 {
        let before = self.shared.iter().filter(|(_, start)| u64::from(*start) <= address);
        let variable = before.max_by_key(|(_, start)| *start).and_then(|(id, _)| self.module.variables.get(id.index()));
        variable.map_or(1, |variable| variable.align.max(1))
    }

    /// Returns true if the result of a wait does nothing but repeat it.
    pub(crate) fn waits_in_loop(&self, at: usize) -> bool {
        let mut done = None;
        access::writes(&self.function.insts[at], &mut |register| done = done.or(Some(register)));
        let mut next = at + 1;
        for _ in 0..12 {
            if next == at {
                return true;
            }
            let Some(inst) = self.function.insts.get(next) else { return false };
            let block = self.flow.graph.block_of(next);
            let is_end = ptx_core::check::graph::ends(inst);
            next = match (is_end, self.flow.ends[block], inst.guard) {
                (true, End::Jump(to), None) => self.start(to),
                (true, End::Jump(to), Some(guard)) if Some(guard.register) == done && guard.negated => self.start(to),
                (true, End::Jump(_), Some(guard)) if Some(guard.register) == done => next + 1,
                (false, _, None) if self.roles[next] == Role::Compute => next + 1,
                _ => return false,
            };
        }
        false
    }

    /// The registers that are read from an instruction on; those of the next one that counts, where it does not.
    pub(crate) fn live_at(&self, at: usize) -> &[u32] {
        let next = self.next.get(at).and_then(|next| self.live.get(*next));
        next.map_or(&[], |live| &live[..])
    }

    /// The first instruction of a block; one past the last behind the last block.
    pub(crate) fn start(&self, block: usize) -> usize {
        self.flow.graph.starts.get(block).copied().unwrap_or(self.function.insts.len())
    }
}

pub(crate) fn successors(flow: &Flow, function: &Function, block: usize) -> Vec<usize> {
    let guarded = function.insts.get(flow.graph.starts[block + 1] - 1).is_some_and(|last| last.guard.is_some());
    let count = flow.ends.len();
    let falls = |yes: bool| if yes { Some(block + 1) } else { None };
    match flow.ends[block] {
        End::Fall => vec![block + 1],
        End::Jump(to) => [Some(to), falls(guarded)].into_iter().flatten().collect(),
        End::Leave => [Some(count), falls(guarded)].into_iter().flatten().collect(),
        End::Other => vec![count],
    }
}

/// For each block its nearest block that every way to the end passes.
fn meeting_points(flow: &Flow, function: &Function) -> Vec<usize> {
    let count = flow.ends.len();
    let next: Vec<Vec<usize>> = (0..count).map(|block| successors(flow, function, block)).collect();
    // Sets of blocks that every way passes, as bits.
    let words = count / 64 + 1;
    let mut passes = vec![vec![u64::MAX; words]; count + 1];
    passes[count] = vec![0; words];
    passes[count][count / 64] |= 1 << (count % 64);
    loop {
        let mut changed = false;
        for block in (0..count).rev() {
            let mut own = vec![u64::MAX; words];
            for to in &next[block] {
                own.iter_mut().zip(&passes[*to]).for_each(|(own, other)| *own &= other);
            }
            own[block / 64] |= 1 << (block % 64);
            if own != passes[block] {
                passes[block] = own;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let size = |block: usize| passes[block].iter().map(|word| word.count_ones()).sum::<u32>();
    let holds = |block: usize, other: usize| passes[block][other / 64] >> (other % 64) & 1 == 1;
    // The nearest one passes the most others.
    (0..count)
        .map(|block| {
            (0..=count)
                .filter(|other| *other != block && holds(block, *other))
                .max_by_key(|other| size(*other))
                .unwrap_or(count)
        })
        .collect()
}

//! Special registers: the value of each in a lane.

use super::exec::ExecState;
use ptx_core::isa::SpecialRegister;

/// Reader of a special register.
pub(super) type Read = fn(&ExecState, usize) -> u64;

/// The reader of a special register.
pub(super) fn read(register: &SpecialRegister) -> Result<Read, String> {
    part(register, register.component)
}

/// The reader of a component of a special register (`%tid` and `x`); of one that names its own, of that.
pub(super) fn part(register: &SpecialRegister, component: &str) -> Result<Read, String> {
    let name = register.name.trim_start_matches('%');
    let (name, component) = name.split_once('.').unwrap_or((name, component));
    if component == "w" || ZERO.iter().any(|family| name.starts_with(family)) {
        return Ok(|_, _| 0);
    }
    let found = REGISTERS.iter().find(|(n, c, _)| *n == name && *c == component);
    found.map(|(_, _, read)| *read).ok_or_else(|| format!("the special register `{}`", register.name))
}

/// Families of registers that read as zero where nothing fills them: performance monitors, the environment.
const ZERO: &[&str] = &["pm", "envreg", "perctamemory", "reserved_smem_offset_begin"];

/// Bytes of shared memory that the system keeps in each block, and how many of them it uses, as on an H200.
const RESERVED: u64 = 0x400;
const RESERVED_USED: u64 = 0x120;

/// The names with their components.
#[rustfmt::skip]
const REGISTERS: &[(&str, &str, Read)] = &[
    ("tid", "x", |c, l| c.warp.tid[l][0].into()), ("tid", "y", |c, l| c.warp.tid[l][1].into()), ("tid", "z", |c, l| c.warp.tid[l][2].into()),
    ("ntid", "x", |c, _| c.grid.block[0].into()), ("ntid", "y", |c, _| c.grid.block[1].into()), ("ntid", "z", |c, _| c.grid.block[2].into()),
    ("ctaid", "x", |c, _| c.block.id[0].into()), ("ctaid", "y", |c, _| c.block.id[1].into()), ("ctaid", "z", |c, _| c.block.id[2].into()),
    ("nctaid", "x", |c, _| c.grid.grid[0].into()), ("nctaid", "y", |c, _| c.grid.grid[1].into()), ("nctaid", "z", |c, _| c.grid.grid[2].into()),
    ("clusterid", "x", |c, _| c.block.cluster_id(c.grid)[0].into()), ("clusterid", "y", |c, _| c.block.cluster_id(c.grid)[1].into()),
    ("clusterid", "z", |c, _| c.block.cluster_id(c.grid)[2].into()),
    ("nclusterid", "x", |c, _| c.grid.clusters()[0].into()), ("nclusterid", "y", |c, _| c.grid.clusters()[1].into()),
    ("nclusterid", "z", |c, _| c.grid.clusters()[2].into()),
    ("cluster_ctaid", "x", |c, _| c.block.in_cluster(c.grid)[0].into()), ("cluster_ctaid", "y", |c, _| c.block.in_cluster(c.grid)[1].into()),
    ("cluster_ctaid", "z", |c, _| c.block.in_cluster(c.grid)[2].into()),
    ("cluster_nctaid", "x", |c, _| c.grid.cluster[0].into()), ("cluster_nctaid", "y", |c, _| c.grid.cluster[1].into()),
    ("cluster_nctaid", "z", |c, _| c.grid.cluster[2].into()),
    ("cluster_ctarank", "", |c, _| c.block.rank as u64), ("cluster_nctarank", "", |c, _| c.cluster.memory.len() as u64),
    ("is_explicit_cluster", "", |c, _| u64::from(c.cluster.memory.len() > 1)),
    ("laneid", "", |_, l| l as u64), ("warpid", "", |c, _| c.warp.index.into()),
    ("nwarpid", "", |c, _| (c.grid.threads() / 32 + u32::from(c.grid.threads() % 32 != 0)).into()),
    ("smid", "", |_, _| 0), ("nsmid", "", |_, _| 1), ("gridid", "", |c, _| c.grid.id),
    ("lanemask_eq", "", |_, l| 1 << l), ("lanemask_lt", "", |_, l| (1 << l) - 1), ("lanemask_le", "", |_, l| (2 << l) - 1),
    ("lanemask_gt", "", |_, l| 0xffff_ffff & !((2 << l) - 1)), ("lanemask_ge", "", |_, l| 0xffff_ffff & !((1 << l) - 1)),
    ("clock", "", |c, _| c.clock() & 0xffff_ffff), ("clock_hi", "", |c, _| c.clock() >> 32), ("clock64", "", |c, _| c.clock()),
    ("globaltimer", "", |c, _| c.clock()), ("globaltimer_lo", "", |c, _| c.clock() & 0xffff_ffff), ("globaltimer_hi", "", |c, _| c.clock() >> 32),
    ("dynamic_smem_size", "", |c, _| c.grid.dynamic_bytes), ("total_smem_size", "", |c, _| c.grid.dynamic + c.grid.dynamic_bytes),
    ("aggr_smem_size", "", |c, _| c.grid.dynamic + c.grid.dynamic_bytes + RESERVED),
    ("reserved_smem_offset_0", "", |_, _| 0), ("reserved_smem_offset_1", "", |_, _| 0),
    ("reserved_smem_offset_end", "", |_, _| RESERVED_USED), ("reserved_smem_offset_cap", "", |_, _| RESERVED),
    ("current_graph_exec", "", |_, _| 0),
];

impl ExecState<'_> {
    /// A clock that advances with every instruction of the machine.
    pub(super) fn clock(&self) -> u64 {
        self.stats.warp_instructions
    }
}

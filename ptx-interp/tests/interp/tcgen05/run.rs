//! A kernel around some `tcgen05` instructions: it fills shared and tensor memory, runs them in one thread, and gives tensor
//! memory back.

use crate::harness::{program, words_at};
use ptx_interp::{Fault, Launch, Machine, Options};

/// Initial state of a block.
#[derive(Clone, Default)]
pub(crate) struct Start {
    /// Shared memory from address 0 on.
    pub shared: Vec<u8>,
    /// Tensor memory: 128 lanes of `COLUMNS` words.
    pub tensor: Vec<u32>,
}

/// Number of visible columns of tensor memory.
pub(crate) const COLUMNS: usize = 512;
/// Bytes of shared memory.
const SHARED: usize = 96 << 10;
/// Bytes of a block's global memory: tensor memory before and after, shared memory.
const BLOCK: usize = 2 * 4 * 128 * COLUMNS + SHARED;

impl Start {
    pub(crate) fn new() -> Start {
        Start { shared: vec![0; SHARED], tensor: vec![0; 128 * COLUMNS] }
    }
}

/// Runs `body` in thread 0 of the first block; the registers `%r0`–`%r39`, `%d0`–`%d39`, `%p0`–`%p9` are free;
/// `%bar` is an mbarrier for one arrival, `%tm` the first column.
pub(crate) fn run(target: &str, pairs: bool, starts: &[Start], body: &str) -> Result<Vec<Vec<u32>>, Fault> {
    run_all(target, pairs, starts, &format!("@!%leads bra DONE;\n{body}\nDONE:"))
}

/// Runs `body` in all 128 threads of every block.
pub(crate) fn run_all(target: &str, pairs: bool, starts: &[Start], body: &str) -> Result<Vec<Vec<u32>>, Fault> {
    let (group, blocks) = (if pairs { 2 } else { 1 }, starts.len() as u32);
    let mut machine = Machine::new();
    let out = machine.alloc((BLOCK * starts.len()) as u64).unwrap();
    for (block, start) in starts.iter().enumerate() {
        let at = out + (BLOCK * block) as u64;
        let tensor: Vec<u8> = start.tensor.iter().flat_map(|word| word.to_le_bytes()).collect();
        machine.write(at, &tensor).unwrap();
        machine.write(at + 2 * 4 * 128 * COLUMNS as u64, &start.shared).unwrap();
    }
    let launch = Launch {
        entry: "k",
        grid: [blocks, 1, 1],
        block: [128, 1, 1],
        cluster: [blocks, 1, 1],
        dynamic_shared: SHARED as u32 + 16,
        cooperative: false,
        params: &out.to_le_bytes(),
        options: Options::default(),
    };
    machine.launch(&program(&kernel(target, group, body)), &launch)?;
    let dump = |block: usize| words_at(&machine, out + (BLOCK * block + 4 * 128 * COLUMNS) as u64, 128 * COLUMNS);
    Ok((0..starts.len()).map(dump).collect())
}

fn kernel(target: &str, group: u32, body: &str) -> String {
    let transfer = 4 * 128 * COLUMNS;
    let cluster = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
    format!(
        ".version 8.8
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 buffer[];
.visible .entry k(.param .u64 out) {{
  .reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .b64 %out, %row, %bytes; .reg .b32 %t, %i, %w, %tm, %lane, %c;
  .reg .pred %leads, %more, %first;
  .reg .b32 %bar, %slot; mov.u32 %bar, {SHARED}; add.u32 %slot, %bar, 8;
  ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;
  mad.wide.u32 %out, %c, {BLOCK}, %out;
  mov.u32 %i, buffer; setp.ne.u32 %more, %i, 0; @%more trap;
  or.b32 %i, %t, %c; setp.eq.u32 %leads, %i, 0; setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared.b64 [%bar], 1; @%first fence.mbarrier_init.release.cluster;
  setp.gt.u32 %more, %t, 31; @%more bra ALLOCATED;
  tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%slot], {COLUMNS};
ALLOCATED:
  mul.lo.u32 %i, %t, 16; mul.wide.u32 %bytes, %t, 16; add.u64 %bytes, %bytes, %out; add.u64 %bytes, %bytes, {shared};
FILL: ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%bytes]; st.shared.v4.u32 [%i], {{%r0, %r1, %r2, %r3}};
  add.u32 %i, %i, 2048; add.u64 %bytes, %bytes, 2048; setp.lt.u32 %more, %i, {SHARED}; @%more bra FILL;
  fence.proxy.async; bar.sync 0;
  ld.shared.u32 %tm, [%slot]; and.b32 %lane, %t, 96; shl.b32 %lane, %lane, 16; add.u32 %lane, %lane, %tm;
  mad.wide.u32 %row, %t, {row}, %out; mov.u32 %i, 0;
STORE: ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%row]; add.u32 %w, %lane, %i;
  tcgen05.st.sync.aligned.32x32b.x4.b32 [%w], {{%r0, %r1, %r2, %r3}};
  add.u64 %row, %row, 16; add.u32 %i, %i, 4; setp.lt.u32 %more, %i, {COLUMNS}; @%more bra STORE;
  tcgen05.wait::st.sync.aligned; bar.sync 0; {cluster}
{body}
  bar.sync 0; {cluster}
  mad.wide.u32 %row, %t, {row}, %out; add.u64 %row, %row, {transfer}; mov.u32 %i, 0;
LOAD: add.u32 %w, %lane, %i; tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r0, %r1, %r2, %r3}}, [%w];
  tcgen05.wait::ld.sync.aligned; st.global.v4.u32 [%row], {{%r0, %r1, %r2, %r3}};
  add.u64 %row, %row, 16; add.u32 %i, %i, 4; setp.lt.u32 %more, %i, {COLUMNS}; @%more bra LOAD;
  bar.sync 0; {cluster}
  setp.gt.u32 %more, %t, 31; @%more bra FREED;
  tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %tm, {COLUMNS};
FREED: ret;
}}
",
        row = 4 * COLUMNS,
        shared = 2 * transfer,
    )
}

/// Reproducible numbers.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }
}

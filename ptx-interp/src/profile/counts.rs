//! The counters: one list, from which the struct, its sums and the names in reports are made.

/// Makes the struct of counters and the list of their names.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an instruction, a line or a launch. `docs/profile.md` has the definitions.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Every counter with its name, in the order of the definitions.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Adds the counters of another part.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name = self.$name.saturating_add(other.$name);)*
            }

            /// The counters without those of an earlier time.
            pub(super) fn since(&self, earlier: &Counts) -> Counts {
                Counts { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }

            /// The counters of a whole, of which this is a part.
            pub(super) fn scaled(&self, whole: u64, part: u64) -> Counts {
                Counts { $($name: scaled(self.$name, whole, part.max(1)),)* }
            }
        }
    };
}

/// A counter of a whole, of which this is a part, rounded to nearest. Not inlined: there are many counters.
#[inline(never)]
fn scaled(value: u64, whole: u64, part: u64) -> u64 {
    let (value, whole, part) = (u128::from(value), u128::from(whole), u128::from(part));
    u64::try_from((value * whole + part / 2) / part).unwrap_or(u64::MAX)
}

counters! {
    /// Instructions that warps executed, predicated off or not.
    instructions,
    /// The same, times the active threads.
    thread_instructions,
    /// The same, without threads that the instruction's predicate turned off.
    thread_instructions_pred_on,
    /// Control instructions after which threads of one warp go different ways.
    divergent_branches,
    /// Instructions that load from shared memory, `ldmatrix` included.
    shared_load_requests,
    /// Wavefronts of these loads.
    shared_load_wavefronts,
    /// The fewest wavefronts that carry their bytes.
    shared_load_wavefronts_ideal,
    /// Bytes that their threads requested.
    shared_load_bytes,
    /// Instructions that store to shared memory, `stmatrix` included.
    shared_store_requests,
    /// Wavefronts of these stores.
    shared_store_wavefronts,
    /// The fewest wavefronts that carry their bytes.
    shared_store_wavefronts_ideal,
    /// Bytes that their threads stored.
    shared_store_bytes,
    /// Atomic instructions on shared memory.
    shared_atomic_requests,
    /// Wavefronts of these: each thread's update of a bank is one of its own.
    shared_atomic_wavefronts,
    /// Instructions that load from global memory.
    global_load_requests,
    /// 32-byte sectors of these loads, distinct in each request.
    global_load_sectors,
    /// The fewest sectors that hold their bytes.
    global_load_sectors_ideal,
    /// Bytes that their threads requested.
    global_load_bytes,
    /// Instructions that store to global memory.
    global_store_requests,
    /// Sectors of these stores.
    global_store_sectors,
    /// The fewest sectors that hold their bytes.
    global_store_sectors_ideal,
    /// Bytes that their threads stored.
    global_store_bytes,
    /// `atom` on global memory.
    global_atomic_requests,
    /// Sectors of these.
    global_atomic_sectors,
    /// `red` on global memory.
    global_reduction_requests,
    /// Sectors of these.
    global_reduction_sectors,
    /// Updates by threads, in all memories.
    atomic_updates,
    /// Of these, the ones that wait for another thread of their warp that updates the same address.
    atomic_conflicts,
    /// Instructions that load from local memory.
    local_load_requests,
    /// Sectors of these; the words of a warp's threads are interleaved.
    local_load_sectors,
    /// Instructions that store to local memory.
    local_store_requests,
    /// Sectors of these.
    local_store_sectors,
    /// Instructions that load from the constant bank, parameters aside.
    constant_load_requests,
    /// `cp.async`, by warp.
    async_copy_requests,
    /// Sectors that `cp.async` reads.
    async_copy_sectors,
    /// The fewest sectors that hold its bytes.
    async_copy_sectors_ideal,
    /// Wavefronts in which `cp.async` writes shared memory.
    async_copy_wavefronts,
    /// The fewest wavefronts that carry its bytes.
    async_copy_wavefronts_ideal,
    /// Bytes that `cp.async` reads.
    async_copy_bytes,
    /// Bytes that bulk and tensor copies (TMA) read from global memory.
    bulk_load_bytes,
    /// Sectors of these.
    bulk_load_sectors,
    /// Bytes that bulk and tensor copies write to global memory.
    bulk_store_bytes,
    /// Sectors of these.
    bulk_store_sectors,
    /// Bytes that bulk and tensor copies read from or write to shared memory.
    bulk_shared_bytes,
    /// Bytes that threads load from shared memory of other blocks of the cluster.
    cluster_load_bytes,
    /// Bytes that threads and their asynchronous stores write there.
    cluster_store_bytes,
    /// Bytes of shared memory that tensor cores read through descriptors.
    tensor_shared_bytes,
    /// Loaded sectors that the model finds in L1.
    l1_hit_sectors,
    /// Loaded sectors that come from L2.
    l1_miss_sectors,
    /// Sectors that L2 gives.
    l2_read_sectors,
    /// Of these, the ones that the model finds there.
    l2_hit_sectors,
    /// Sectors that are written to L2.
    l2_write_sectors,
    /// Bytes that come from the chip's memory.
    dram_read_bytes,
    /// Bytes of changed sectors that L2 writes back, in this launch or later.
    dram_write_bytes,
    /// Double-precision operations: additions and multiplications, two for an `fma`.
    flops_fp64,
    /// The same in single precision.
    flops_fp32,
    /// The same in half precision and bfloat16.
    flops_fp16,
    /// Multiplications and additions of tensor cores.
    flops_tensor,
}

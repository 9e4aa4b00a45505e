//! Device functions that the kernels of attention share: modules of helpers, which kernel modules name in `modules(…)`.

mod attention;
mod flash;
mod kv_cache;
mod scores;

#[allow(unused_imports, reason = "each operation uses a part")]
pub(crate) use {attention::attention, flash::flash, kv_cache::kv_cache, scores::scores};

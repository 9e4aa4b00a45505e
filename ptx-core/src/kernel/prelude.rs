//! The helper library: modules in the kernel language itself, in `prelude/`. A kernel that names `warp::reduce_sum`
//! gets the module `warp`; the host reads the file then, and never before.
//!
//! The files are Rust syntax, but no Rust: they are text here. Every helper says which instructions it is.

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("prelude/", $name, ".rs")))),*]
    };
}

/// Every module: its name and its source.
pub const FILES: &[(&str, &str)] = files! {
    "warp" "block" "vector" "matrix" "barrier" "cluster" "cp_async" "mbarrier" "swizzle" "tcgen05" "bulk" "tma" "wgmma"
    "cache" "grid" "pipeline" "scheduler" "epilogue" "product"
};

/// The source of a module.
pub fn source(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

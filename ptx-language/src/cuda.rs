//! Names of CUDA C++ and their equivalents: for help only, nothing is compiled from them.

/// A name of CUDA C++, and what to write instead.
const NAMES: &[(&str, &str)] = &[
    ("threadIdx.x", "tid.x"),
    ("threadIdx.y", "tid.y"),
    ("threadIdx.z", "tid.z"),
    ("blockIdx.x", "ctaid.x"),
    ("blockIdx.y", "ctaid.y"),
    ("blockIdx.z", "ctaid.z"),
    ("blockDim.x", "ntid.x"),
    ("blockDim.y", "ntid.y"),
    ("blockDim.z", "ntid.z"),
    ("gridDim.x", "nctaid.x"),
    ("gridDim.y", "nctaid.y"),
    ("gridDim.z", "nctaid.z"),
    ("warpSize", "32"),
    ("__syncthreads", "block::sync()"),
    ("__syncwarp", "warp::sync()"),
    ("__shfl_sync", "warp::broadcast(x, lane)"),
    ("__shfl_xor_sync", "warp::shuffle_xor(x, mask)"),
    ("__shfl_up_sync", "warp::shuffle_up(x, delta)"),
    ("__shfl_down_sync", "warp::shuffle_down(x, delta)"),
    ("__reduce_add_sync", "warp::redux::<\"add\", u32>(x)"),
    ("__ballot_sync", "warp::ballot(p)"),
    ("__any_sync", "warp::any(p)"),
    ("__all_sync", "warp::all(p)"),
    ("__threadfence", "ptx! { fence.acq_rel.gpu; }"),
    ("__threadfence_block", "ptx! { fence.acq_rel.cta; }"),
    ("atomicAdd", "ptx! { atom.global.add.u32 old, [address], x; }"),
    ("atomicMax", "ptx! { atom.global.max.u32 old, [address], x; }"),
    ("atomicMin", "ptx! { atom.global.min.u32 old, [address], x; }"),
    ("atomicCAS", "ptx! { atom.global.cas.b32 old, [address], expected, x; }"),
    ("atomicExch", "ptx! { atom.global.exch.b32 old, [address], x; }"),
];

/// The equivalents of a name's components: of `threadIdx`, `tid.x`.
pub(super) fn whole(name: &str) -> Option<&'static str> {
    let of = |known: &str| known.split_once('.').is_some_and(|(base, _)| base == name);
    NAMES.iter().find(|(known, _)| of(known)).map(|(_, here)| *here)
}

/// The equivalent of a name of CUDA C++.
pub(super) fn here(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, here)| *here)
}

//! Names of CUDA C++ and of hosts, and their equivalents: for help only, nothing is compiled from them.

/// A name of CUDA C++ or of its bindings to other languages, and what to write instead.
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
    ("syncthreads", "block::sync()"),
    ("sync_threads", "block::sync()"),
    ("__syncwarp", "warp::sync()"),
    ("syncwarp", "warp::sync()"),
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
    ("sqrtf", "ptx! { sqrt.rn.f32 root, x; }"),
    ("rsqrtf", "ptx! { rsqrt.approx.f32 root, x; }"),
    ("expf", "math::exp(x)"),
    ("__expf", "math::exp_approx(x)"),
    ("logf", "math::log(x)"),
    ("erff", "math::erf(x)"),
    ("tanhf", "math::tanh(x)"),
    ("fmaxf", "a.max(b)"),
    ("fminf", "a.min(b)"),
    ("fabsf", "x.abs()"),
    ("fmaf", "a.fma(b, c)"),
    ("printf", "vprintf"),
    ("__ldg", "ptx! { ld.global.nc.f32 value, [address]; }"),
    ("__popc", "ptx! { popc.b32 bits, x; }"),
    ("__clz", "ptx! { clz.b32 zeros, x; }"),
    ("__float2half", "x as f16"),
    ("__half2float", "x as f32"),
    ("half::f16::from_f32", "x as f16"),
    ("f16::from_f32", "x as f16"),
    ("half::bf16::from_f32", "x as bf16"),
    ("bf16::from_f32", "x as bf16"),
];

/// A type of C, CUDA C++ or hosts, and the type of a register, or what to do without it.
const TYPES: &[(&str, &str)] = &[
    ("float", "write `f32`"),
    ("double", "write `f64`"),
    ("int", "write `i32`"),
    ("int32_t", "write `i32`"),
    ("long", "write `i64`"),
    ("int64_t", "write `i64`"),
    ("unsigned", "write `u32`"),
    ("uint", "write `u32`"),
    ("uint32_t", "write `u32`"),
    ("uint64_t", "write `u64`"),
    ("size_t", "write `u32` or `u64`"),
    ("usize", "write `u32` or `u64`"),
    ("isize", "write `i32` or `i64`"),
    ("half", "write `f16`"),
    ("__half", "write `f16`"),
    ("half2", "write `f16x2`"),
    ("__half2", "write `f16x2`"),
    ("bfloat16", "write `bf16`"),
    ("__nv_bfloat16", "write `bf16`"),
    ("__nv_bfloat162", "write `bf16x2`"),
    ("float2", "write two registers, `[f32; 2]`"),
    ("float4", "write four registers, `[f32; 4]`"),
    ("char", "write `u8` or `i8`"),
    (
        "bool",
        "a register that is true or false is a `pred`; a parameter or memory has a `u32` or `u8`, and `flag != 0` is a `pred`",
    ),
    ("str", "strings are constants, `const NAME: &str = \"rn\";`; pass bytes as a `&[u8]`"),
    ("String", "strings are constants, `const NAME: &str = \"rn\";`; pass bytes as a `&[u8]`"),
    ("Option", "write a value, and a `pred` that is true where there is one"),
    ("Result", "nothing in a kernel fails; write a value, and a `pred` that is true where there is one"),
    ("Vec", "a kernel reaches device memory alone: take a `&[T]`, and pass a buffer"),
    ("Box", "a kernel reaches device memory alone: take a `&[T]`, and pass a buffer"),
];

/// The help for a type of C, CUDA C++ or hosts.
pub(super) fn ty(name: &str) -> Option<&'static str> {
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, help)| *help)
}

/// The equivalents of a name's components: of `threadIdx`, `tid.x`.
pub(super) fn whole(name: &str) -> Option<&'static str> {
    let of = |known: &str| known.split_once('.').is_some_and(|(base, _)| base == name);
    NAMES.iter().find(|(known, _)| of(known)).map(|(_, here)| *here)
}

/// The equivalent of a name of CUDA C++.
pub(super) fn here(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, here)| *here)
}

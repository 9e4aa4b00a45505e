//! The procedural macros of `ptx-launch`: a door to `ptx-expand`, which tools can call where no compiler runs.

#![forbid(unsafe_code)]
use proc_macro::TokenStream;

/// Makes a GPU kernel of a function: its PTX as a constant, and a typed launch of the same name.
///
/// Of `#[ptx_kernel(…)] pub fn saxpy(alpha: f32, x: &[f32], y: &mut [f32], n: u32) { … }` remain the function `saxpy`, whose
/// first argument is a stream and whose others are the kernel's, and the module `saxpy` with `PTX`, `VARIANTS` (the PTX for
/// each target) and `KERNEL` (loading, figures, occupancy). What is wrong is reported on the tokens, with a code that
/// `ptx explain` explains.
///
/// | option | example | meaning |
/// |---|---|---|
/// | `arch` | `arch = "sm_90a"`, `arch("sm_80", "sm_90a")` | the targets; `if arch >= sm_90 { }` in the body is decided for each; the loader takes the best for the device |
/// | `version` | `version = "8.7"` | the PTX version; else the lowest that target and instructions allow |
/// | `block` | `block = 256`, `block = (32, 8)` | threads of a block; without it the call gives them in its `Config` |
/// | `max_block` | `max_block = 256` | the most threads of a block, where the call gives the number, for the assembler |
/// | `grid` | `grid = n.div_ceil(256)` | blocks, of the parameters on the host; without it the call gives them in its `Config` |
/// | `cluster` | `cluster = 2` | blocks of a cluster |
/// | `max_cluster` | `max_cluster = 8` | the most blocks of a cluster, where the call gives the number |
/// | `required_cluster`, `explicit_cluster` | `required_cluster = 2` | one of the two directives that `cluster` writes together, for PTX of others |
/// | `shared` | `shared = 4 * n` | bytes of dynamic shared memory; above 48 KiB the launch opts in |
/// | `requires` | `requires(x.len() >= n)` | conditions that every launch checks |
/// | `unsafe` | `unsafe(requires(x.len() >= n))` | the same, and the author vouches that they are enough: the launch is a safe `fn`, else an `unsafe fn` |
/// | `proved` | `proved`, `proved(bounds)`, `proved(races)` | the build fails unless every launch is in bounds and without races; with `proved` alone the launch is a safe `fn`. Needs the feature `proved` |
/// | `instances` | `instances = [(128, f32), (256, f16)]` | the arguments of a generic kernel for which there is PTX |
/// | | `instances = [tall = (bf16, Config { … }), …]` | the same by names: `kernel::tall(…)`, `kernel::launch(kernel::Instance::tall, …)`, `kernel::INSTANCES` |
/// | `max_regs`, `min_blocks` | `max_regs = 168` | registers of a thread, blocks of a multiprocessor, for the assembler |
/// | `cooperative` | `cooperative` | all blocks run at the same time |
/// | `pdl` | `pdl` | programmatic dependent launch, though the kernel accesses global memory before `griddepcontrol.wait`; a kernel that waits first is launched so without it |
/// | `no_local`, `no_spills` | `no_spills` | promises about the machine code: no local memory, no spilled registers; compared where a ptxas is present, and by `#[ptx_test(assembled)]` |
/// | `max_registers`, `occupancy` | `max_registers = 128`, `occupancy = 2` | the same: the most registers of a thread, the least blocks that a multiprocessor holds at once |
/// | `params` | `params(Shape)`, `params(Shape { m: u32 })` | a struct by value that is declared elsewhere in the crate and derives `KernelParam`; the same with its fields, for a struct of another crate |
/// | `parts` | `parts(mainloop::consumer)` | in a module: the items of modules with `#[ptx_part]`, for example in other files |
/// | `modules` | `modules(device::{scores, masks})` | the same, each under its name: kernels call `scores::mask(…)` |
/// | `allow` | `allow(P0701, P0503)` | warnings that are not reported, by their codes |
/// | `lineinfo` | `lineinfo` | profilers show the lines of Rust |
/// | `cubin` | `cubin`, `cubin("sm_80", "sm_90a")` | machine code is embedded when the program is built, for these chips; needs ptxas (`PTXAS`, `PATH`, a wheel) |
/// | `crate` | `crate = engine::ptx_launch` | where `ptx-launch` is, if this package does not depend on it; a renamed dependency is found without |
/// | `raw` | `raw` | parameters are their symbols; no prologue loads them |
///
/// A parameter may be a number, an array of them, `&[T]`, `&mut [T]`, a struct with `#[derive(KernelParam)]`, `TensorMap`, `Texture`,
/// or `Tile<T, (M, K)>` and `TileMut<…>`, whose dimensions are bound at the launch; `#[tma(box = [64, 64], swizzle = 128)]` on one makes its tensor
/// map there, which the kernel names `NAME_map`. Other options of `#[tma]`: `interleave`, `promotion`, `fill`, `element`.
/// `#[align(64)]` on a parameter is its alignment, on memory that of its address, which the launch checks; `#[generic]` and `#[bare]` on a slice say less of the pointer in the PTX.
#[proc_macro_attribute]
pub fn ptx_kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    ptx_expand::kernel(options.into(), item.into()).into()
}

/// Makes one PTX module of several kernels and of the constants, helpers and statics that they share.
///
/// The module's functions with `#[ptx_kernel(…)]` are kernels, the others helpers that are inlined. Its options are `arch`,
/// `version`, `params`, `parts`, `modules`, `lineinfo`, `cubin` and `crate`; its kernels have the others. One load brings all of them to a device.
#[proc_macro_attribute]
pub fn ptx_module(options: TokenStream, item: TokenStream) -> TokenStream {
    ptx_expand::module(options.into(), item.into()).into()
}

/// Items of kernel modules of this crate, in a file of their own: constants, structs, helpers, kernels.
///
/// A module with `parts(name)` gets the items as if they were written at its end, so they use its names, and it uses theirs. A module with
/// `modules(name)` gets them as if `mod name { … }` stood there: it names them by paths, `name::double`, and they use their own names and those of other
/// such modules. Several kernel modules can share them without a conflict of names.
///
/// ```ignore
/// // mainloop.rs
/// #[ptx_part]
/// pub(crate) mod consumer {
///     fn double(x: f32) -> f32 { x + x }
/// }
///
/// // kernel.rs
/// #[ptx_module(arch = "sm_90a", parts(super::mainloop::consumer))]
/// mod kernels {
///     #[ptx_kernel(block = 32)]
///     pub fn twice(x: &mut [f32]) { /* … double(y) … */ }
/// }
/// ```
#[proc_macro_attribute]
pub fn ptx_part(options: TokenStream, item: TokenStream) -> TokenStream {
    ptx_expand::part(options.into(), item.into()).into()
}

/// Condition functions of a struct of parameters, which the attributes of kernels call: `requires(p.covers([x.len(), y.len()]))`, `grid = p.grid(64)`.
///
/// The functions stay ordinary methods of the struct. A launch calls a second form of them, over integers without a type: nothing wraps, and a result that
/// overflows or divides by zero is an error. `ptx-jit` and proofs evaluate the same functions, so their bodies have the grammar of `requires`:
/// fields, constants, operators, methods such as `min` and `div_ceil`, and also `let`, `if` with `else`, fixed arrays with constant indexes, `all` and `any`
/// over arrays and ranges, and calls of each other. Everything else is an error here.
///
/// ```ignore
/// #[derive(Clone, Copy, KernelParam)]
/// #[repr(C)]
/// pub struct Problem { strides: [u64; 2], extents: [u32; 2] }
///
/// #[ptx_contract]
/// impl Problem {
///     fn covers(&self, lens: [u64; 2]) -> bool {
///         lens.iter().zip(self.strides).all(|(len, stride)| *len >= stride * u64::from(self.extents[0]))
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn ptx_contract(options: TokenStream, item: TokenStream) -> TokenStream {
    ptx_expand::contract(options.into(), item.into()).into()
}

/// Goes on with an attribute of kernels whose `params(Name)`, `parts(name)` or `modules(name)` is now known. Not for people: the macros of `KernelParam` and `ptx_part` call it.
#[doc(hidden)]
#[proc_macro]
pub fn resume(input: TokenStream) -> TokenStream {
    ptx_expand::resume(input.into()).into()
}

/// Makes a test of a function that takes a device: it runs on a fresh CPU device for each of several seeds, every one
/// another interleaving of the threads, and fails at the first finding or panic, with the seed that repeats it
/// (`PTX_SEED=5 cargo test`). `PTX_SEEDS=1000` tries more of them. `crate = path` is the path of `ptx-launch`. With `PTX_DEVICE=cuda` it then runs on the GPU too.
///
/// `#[ptx_test(assembled)]` also passes every kernel that the test launches to ptxas, for all targets of the kernel, and compares the machine code with the
/// promises of its attribute: `no_local`, `no_spills`, `max_registers`, `occupancy`. Built on a machine without ptxas, the test is ignored.
#[proc_macro_attribute]
pub fn ptx_test(options: TokenStream, item: TokenStream) -> TokenStream {
    ptx_expand::test(options.into(), item.into()).into()
}

/// In a kernel: its instructions. At item level: a whole PTX module, which becomes a constant and a typed launch for
/// every entry. Signatures in front of it give Rust types and options:
/// `ptx! { #[ptx_kernel(block = 256)] pub fn add(a: &[f32], n: u32); .version 8.0 … }`. `crate = path;` in front of them names where
/// `ptx-launch` is.
#[proc_macro]
pub fn ptx(body: TokenStream) -> TokenStream {
    ptx_expand::text(body.into()).into()
}

/// A PTX module from a file, checked: a constant and a typed launch for every entry.
///
/// `ptx_file!("add.ptx")` takes every parameter as the number of its PTX type, a pointer as a `u64`. Signatures behind the
/// path give Rust types and options: `ptx_file!("add.ptx", #[ptx_kernel(block = 256)] pub fn add(a: &[f32], n: u32))`; so does
/// `crate = path`, the path of `ptx-launch`.
#[proc_macro]
pub fn ptx_file(input: TokenStream) -> TokenStream {
    ptx_expand::file(input.into()).into()
}

/// Lets a `#[repr(C)]` struct be passed to kernels by value, and be an element of buffers. Its fields are such values
/// themselves, and there is no padding between them; both is checked. `#[kernel_param(crate = path)]` is the path of `ptx-launch`.
#[proc_macro_derive(KernelParam, attributes(kernel_param))]
pub fn kernel_param(item: TokenStream) -> TokenStream {
    ptx_expand::param(item.into()).into()
}

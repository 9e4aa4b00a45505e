//! The names and sizes that the compiler, the CPU device and the launch runtime share: targets, versions of PTX with the
//! toolkits and drivers that read them, chips and their occupancy, contracts on machine code, the choices of tensor maps, and descriptors of
//! matrices.
//!
//! A runtime that launches kernels needs these names and no compiler, so that it builds without `ptx-core`.
//!
//! ```
//! use ptx_target::{Arch, Version, tensor::Swizzle};
//!
//! let hopper: Arch = "sm_90a".parse().map_err(|()| "no target")?;
//! assert!(hopper.provides(Arch::base(80)) && !hopper.assembles_for(Arch::base(100)));
//! assert!(Version { major: 8, minor: 0 } < Version::NEWEST);
//! assert_eq!(Swizzle::B128.apply(0x80), 0x90);
//! # Ok::<(), &str>(())
//! ```

#![forbid(unsafe_code)]

pub mod chip;
mod contract;
pub mod descriptor;
pub mod sort;
mod target;
pub mod tensor;
mod toolkit;

pub use contract::{Breach, Contract, MachineCode, local_array};
pub use target::{Arch, Suffix, Version};
pub use toolkit::{TOOLKITS, Toolkit};

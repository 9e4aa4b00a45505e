//! Resources of a loaded kernel: registers, shared memory, spills.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::driver::Driver;
use crate::error::Result;
use cudarc::driver::sys::CUfunction;
use ptx_target::MachineCode;

/// `CUfunction_attribute`, the ones that are used.
const MAX_THREADS: i32 = 0;
const SHARED: i32 = 1;
const CONSTANT: i32 = 2;
const LOCAL: i32 = 3;
const REGISTERS: i32 = 4;
const PTX_VERSION: i32 = 5;
const BINARY_VERSION: i32 = 6;
pub(super) const MAX_DYNAMIC_SHARED: i32 = 8;
pub(super) const NON_PORTABLE_CLUSTER: i32 = 14;

/// The resources of a loaded kernel, as the driver and its assembler report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, in bytes.
    pub shared: u32,
    /// Local memory of a thread, in bytes: arrays on the stack, and spilled registers.
    pub local: u32,
    /// Bytes of a thread's registers that are spilled to local memory: what the spilling instructions store. `None` where
    /// unknown: there is local memory, but the driver had the machine code in a cache of its own, which has no logs, and
    /// there is no cache of ours (`PTX_CACHE`), which keeps them.
    pub spill_stores: Option<u32>,
    /// Bytes that the spilling instructions load.
    pub spill_loads: Option<u32>,
    /// Constant memory, in bytes.
    pub constant: u32,
    /// The most threads that a block may have, given the registers.
    pub max_threads: u32,
    /// The compute capability that it was assembled for: 90.
    pub binary: u32,
    /// The virtual architecture of its PTX: 90.
    pub ptx: u32,
}

impl Figures {
    /// Asks the driver, and takes the spills of `entry` from the assembler's log. The function's context is current.
    pub(super) fn read(driver: &Driver, function: CUfunction, entry: &str, log: &str) -> Result<Figures> {
        let ask = |attribute: i32| {
            let mut value = 0;
            // SAFETY: writes one integer; the function is loaded.
            let code = unsafe { (driver.cuFuncGetAttribute)(&raw mut value, attribute, function) };
            driver.check(code, "a kernel's attribute cannot be read")?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let local = ask(LOCAL)?;
        // Who has no local memory spills nothing.
        let spills = MachineCode::from_log(log, entry).and_then(|code| code.spills).or((local == 0).then_some([0; 2]));
        Ok(Figures {
            registers: ask(REGISTERS)?,
            shared: ask(SHARED)?,
            local,
            spill_stores: spills.map(|[stores, _]| stores),
            spill_loads: spills.map(|[_, loads]| loads),
            constant: ask(CONSTANT)?,
            max_threads: ask(MAX_THREADS)?,
            binary: ask(BINARY_VERSION)?,
            ptx: ask(PTX_VERSION)?,
        })
    }
}

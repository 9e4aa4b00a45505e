//! Compiles the driver stub and loads it, before anything in this process loads `libcuda.so`.
#![allow(unsafe_code, unreachable_pub, reason = "the stub's own functions")]

use libloading::Library;
use std::ffi::CString;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The loaded stub. Tests that look at its counters hold the guard, so that no other test calls it meanwhile. Calls are counted from the
/// lock on: the order of the tests does not matter.
pub struct Stub(&'static Library, #[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Stub {
    /// Loads it, at the first call, and locks it.
    pub fn lock() -> Stub {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let stub = Stub(LIBRARY.get_or_init(build), turn);
        // SAFETY: the stub's signature.
        unsafe { stub.0.get::<extern "C" fn()>("stub_begin").unwrap()() };
        stub
    }

    /// Number of calls of a function of the driver since the lock; of all of them for an empty name.
    pub fn calls(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap();
        // SAFETY: the stub's signature.
        unsafe { self.0.get::<unsafe extern "C" fn(*const i8) -> u64>("stub_calls").unwrap()(name.as_ptr().cast()) }
    }

    /// The next call of a function answers with this code.
    pub fn refuse(&self, name: &str, code: i32) {
        let name = CString::new(name).unwrap();
        // SAFETY: the stub's signature.
        unsafe {
            self.0.get::<unsafe extern "C" fn(*const i8, i32, u64)>("stub_refuse").unwrap()(
                name.as_ptr().cast(),
                code,
                1,
            );
        }
    }

    /// From now on the device has this compute capability and shared memory, and a driver with this version of CUDA: `12_080`.
    pub fn become_device(&self, capability: i32, shared: i32, driver: i32) {
        // SAFETY: the stub's signature.
        unsafe { self.0.get::<extern "C" fn(i32, i32, i32)>("stub_device").unwrap()(capability, shared, driver) };
    }

    /// Live allocations of the stub's memory.
    pub fn allocations(&self) -> u64 {
        // SAFETY: the stub's signature.
        unsafe { self.0.get::<extern "C" fn() -> u64>("stub_allocations").unwrap()() }
    }

    /// The value of an option of the last load.
    pub fn jit(&self, option: i32) -> Option<u64> {
        // SAFETY: the stub's signature.
        let value = unsafe { self.0.get::<extern "C" fn(i32) -> u64>("stub_jit").unwrap()(option) };
        (value != u64::MAX).then_some(value)
    }

    /// Number of unordered pairs of uses of the same memory.
    pub fn races(&self) -> u64 {
        // SAFETY: the stub's signature.
        unsafe { self.0.get::<extern "C" fn() -> u64>("stub_races").unwrap()() }
    }

    /// Calls with streams, events or memory that do not exist, records of events in captures, and calls that break captures.
    pub fn misuses(&self) -> u64 {
        // SAFETY: the stub's signature.
        unsafe { self.0.get::<extern "C" fn() -> u64>("stub_misuses").unwrap()() }
    }

    /// Calls without a context, or in another one than that of what they are about.
    pub fn strays(&self) -> u64 {
        // SAFETY: the stub's signature.
        unsafe { self.0.get::<extern "C" fn() -> u64>("stub_strays").unwrap()() }
    }

    /// Whatever is alive: memory, graphs, captures, textures, surfaces, streams and events.
    pub fn alive(&self) -> u64 {
        // SAFETY: the stub's signature.
        unsafe { self.0.get::<extern "C" fn() -> u64>("stub_alive").unwrap()() }
    }

    /// From now on each submission waits for a random number of turns of the scheduler below this.
    pub fn jitter(&self, chance: u64) {
        // SAFETY: the stub's signature.
        unsafe { self.0.get::<extern "C" fn(u64)>("stub_jitter").unwrap()(chance) };
    }

    /// The host reads or writes pinned memory that begins at this address.
    pub fn host(&self, address: *const u8, writes: bool) {
        // SAFETY: the stub's signature.
        unsafe { self.0.get::<extern "C" fn(u64, bool)>("stub_host").unwrap()(address as u64, writes) };
    }

    /// Numbers of the last launch; see the stub.
    pub fn launch(&self, range: std::ops::Range<usize>) -> Vec<u64> {
        // SAFETY: the stub's signature.
        range.map(|i| unsafe { self.0.get::<extern "C" fn(usize) -> u64>("stub_launch").unwrap()(i) }).collect()
    }
}

/// `libcuda.so` by its soname: whoever opens that name from now on gets this one.
fn build() -> Library {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stub/driver.rs");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libcuda-stub-{}.so", std::process::id()));
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args([
        "--edition=2024",
        "-Copt-level=1",
        "--crate-type=cdylib",
        "--crate-name=stub",
        "-Clink-arg=-Wl,-soname,libcuda.so",
    ]);
    let status = rustc.arg(&source).arg("-o").arg(&library).status().unwrap();
    assert!(status.success(), "the driver stub does not compile");
    // SAFETY: its initializers do nothing.
    let loaded = unsafe { Library::new(&library) }.unwrap();
    std::fs::remove_file(library).unwrap();
    loaded
}

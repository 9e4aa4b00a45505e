//! The driver's assembler: its calls, its options, its logs, its answer; and cubins that need none of it.
#![allow(unsafe_code, reason = "calls of the driver")]

use super::disk::{Cache, Kept};
use super::options::JitOptions;
use super::report::Source;
use super::{choose, image, log};
use crate::device::cuda::Limits;
use crate::driver::{Code, Driver};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Module, Variant};
use cudarc::driver::sys::CUmodule;
use std::ffi::{CStr, CString, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes for each of the two logs; ptxas cuts what is longer.
const LOG: usize = 16 * 1024;
/// `CUjit_option`: the buffers of the logs with their sizes, and that the log has figures.
const INFO_LOG: i32 = 3;
const INFO_LOG_SIZE: i32 = 4;
const ERROR_LOG: i32 = 5;
const ERROR_LOG_SIZE: i32 = 6;
const LOG_VERBOSE: i32 = 12;
/// `CUjitInputType`: `CU_JIT_INPUT_PTX`.
const PTX: i32 = 1;

/// One text on its way into the current context.
pub(super) struct Jit<'a> {
    pub(super) driver: &'static Driver,
    pub(super) module: &'a Module,
    pub(super) variant: &'static Variant,
    pub(super) limits: &'a Limits,
    pub(super) options: &'a JitOptions,
}

/// A module in the current context, and where its machine code comes from.
pub(super) struct Loaded {
    pub(super) handle: CUmodule,
    pub(super) source: Source,
    /// The assembler's log.
    pub(super) log: String,
    /// What was taken, and why.
    pub(super) reason: String,
    /// The entry that was assembled alone, if it was.
    pub(super) entry: Option<&'static str>,
}

/// The options of one call, and the buffers that it writes its logs to.
struct Request {
    keys: Vec<i32>,
    values: Vec<*mut c_void>,
    info: Vec<u8>,
    error: Vec<u8>,
}

impl Request {
    fn new(options: impl Iterator<Item = (i32, usize)>) -> Request {
        let (mut info, mut error) = (vec![0; LOG], vec![0; LOG]);
        let logs = [(INFO_LOG_SIZE, LOG), (ERROR_LOG_SIZE, LOG), (LOG_VERBOSE, 1)];
        let numbers =
            logs.into_iter().chain(options).map(|(key, value)| (key, std::ptr::without_provenance_mut(value)));
        let buffers = [(INFO_LOG, info.as_mut_ptr().cast()), (ERROR_LOG, error.as_mut_ptr().cast())];
        let (keys, values) = buffers.into_iter().chain(numbers).unzip();
        Request { keys, values, info, error }
    }

    fn count(&self) -> u32 {
        self.keys.len() as u32
    }

    fn info(&self) -> String {
        text(&self.info)
    }
}

fn text(log: &[u8]) -> String {
    CStr::from_bytes_until_nul(log).map(CStr::to_string_lossy).unwrap_or_default().into_owned()
}

impl Jit<'_> {
    /// Loads the cubin that was embedded when the program was built, if it fits and no options ask for another one;
    /// else one that the cache on disk has; else assembles. Machine code that was embedded is that of the whole module; PTX becomes
    /// that of `entry`, if it shares nothing with others.
    pub(super) fn load(&self, entry: Option<&'static str>) -> Result<Loaded> {
        let why = match choose::cubin(self.variant, self.limits.arch) {
            None if self.variant.cubins.is_empty() => "the program has no machine code for it".to_owned(),
            None => format!("the program has machine code for {} alone", chips(self.variant)),
            Some(_) if *self.options != JitOptions::new() => "options for the assembler were given".to_owned(),
            Some(cubin) => match self.load_image(cubin.bytes, std::iter::empty()) {
                Ok((handle, _)) => {
                    let (log, reason) = (cubin.log.to_owned(), format!("machine code for {}", cubin.arch));
                    return Ok(Loaded { handle, source: Source::Embedded, log, reason, entry: None });
                }
                Err(error) => format!("the driver refused the machine code for {}: {error}", cubin.arch),
            },
        };
        self.check_version(&why)?;
        let whole = self.module.text(self.variant)?;
        let alone = entry.and_then(|entry| self.module.entry_alone(whole, entry));
        let entry = entry.filter(|_| alone.is_some());
        let loaded = self.load_text(alone.as_deref().unwrap_or(whole.ptx))?;
        Ok(Loaded { entry, reason: format!("PTX for {}, because {why}", self.variant.arch), ..loaded })
    }

    /// Machine code may have been chosen for a driver that does not read the PTX beside it.
    fn check_version(&self, without_cubin: &str) -> Result<()> {
        let (cuda, device) = (self.driver.version(), (self.limits.arch, self.limits.name.as_str()));
        if choose::reads(cuda, self.variant.version()) {
            return Ok(());
        }
        let reason = without_cubin.lines().next();
        Err(choose::newer_than_driver((self.module, self.variant), device, cuda, reason))
    }

    fn load_text(&self, ptx: &str) -> Result<Loaded> {
        let text = CString::new(ptx).map_err(|_| zero_byte(self.module))?;
        let cache = Cache::of(self.driver, self.limits, ptx, self.options);
        match cache.filter(|_| survives_linking(ptx)) {
            Some(cache) => self.load_cached(&cache, &text),
            None => {
                let (handle, log) = self.load_image(text.as_bytes_with_nul(), self.options.for_text(ptx))?;
                Ok(Loaded { handle, source: Source::Assembled, log, reason: String::new(), entry: None })
            }
        }
    }

    fn load_cached(&self, cache: &Cache, text: &CStr) -> Result<Loaded> {
        if let Some(kept) = cache.read()
            && let Ok((handle, _)) = self.load_image(&kept.cubin, std::iter::empty())
        {
            return Ok(Loaded { handle, source: Source::Cached, log: kept.log, reason: String::new(), entry: None });
        }
        let kept = self.assemble_with_log(text)?;
        cache.write(&kept);
        let (handle, _) = self.load_image(&kept.cubin, std::iter::empty())?;
        Ok(Loaded { handle, source: Source::Assembled, log: kept.log, reason: String::new(), entry: None })
    }

    /// Loads PTX, which ends in a zero, or a cubin.
    fn load_image(&self, image: &[u8], options: impl Iterator<Item = (i32, usize)>) -> Result<(CUmodule, String)> {
        if !image::is_bounded(image) {
            return Err(endless(self.module));
        }
        let (mut request, mut handle) = (Request::new(options), std::ptr::null_mut());
        // SAFETY: as many options as values, of the types that the manual gives; the image ends at the size in its header, as was
        // checked; it and the logs, which are as long as is said, live past the call.
        let code = unsafe {
            (self.driver.cuModuleLoadDataEx)(
                &raw mut handle,
                image.as_ptr().cast(),
                request.count(),
                request.keys.as_mut_ptr(),
                request.values.as_mut_ptr(),
            )
        };
        self.check(code, &request).map(|()| (handle, request.info()))
    }

    /// PTX to what the cache on disk keeps. Where the driver finds the text in its own cache, which has no logs, it is asked
    /// again with a comment behind it that it cannot know: once, and never again, since the log is kept.
    fn assemble_with_log(&self, text: &CStr) -> Result<Kept> {
        let kept = self.assemble(text)?;
        if log::has_figures(&kept.log) {
            return Ok(kept);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mut unknown = text.to_bytes().to_vec();
        unknown.extend(format!("\n// {now}\n").into_bytes());
        let unknown = CString::new(unknown).unwrap_or_default();
        Ok(self.assemble(&unknown).unwrap_or(kept))
    }

    /// PTX to a cubin, by the driver's linker.
    fn assemble(&self, text: &CStr) -> Result<Kept> {
        let (mut request, mut state) =
            (Request::new(self.options.for_text(&text.to_string_lossy())), std::ptr::null_mut());
        let (count, keys, values) = (request.count(), request.keys.as_mut_ptr(), request.values.as_mut_ptr());
        // SAFETY: as for `load_image`; the buffers live until the state is destroyed.
        let code = unsafe { (self.driver.cuLinkCreate_v2)(count, keys, values, &raw mut state) };
        self.check(code, &request)?;
        let cubin = self.link(state, text);
        // SAFETY: the state was created above; the cubin was copied out of it.
        unsafe { (self.driver.cuLinkDestroy)(state) };
        let cubin = cubin.or_else(|code| self.check(code, &request).map(|()| Vec::new()))?;
        Ok(Kept { cubin, log: request.info() })
    }

    fn link(&self, state: *mut c_void, text: &CStr) -> Result<Vec<u8>, Code> {
        let (image, size) = (text.as_ptr().cast_mut().cast(), text.count_bytes() + 1);
        let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the linker copies the text, which ends in a zero.
        ok(unsafe {
            (self.driver.cuLinkAddData_v2)(state, PTX, image, size, c"kernel.ptx".as_ptr(), 0, none, nothing)
        })?;
        let (mut cubin, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: writes a pointer and a size.
        ok(unsafe { (self.driver.cuLinkComplete)(state, &raw mut cubin, &raw mut size) })?;
        // SAFETY: the cubin has that size, and lives as long as the state.
        Ok(unsafe { std::slice::from_raw_parts(cubin.cast::<u8>(), size) }.to_vec())
    }

    fn check(&self, code: Code, request: &Request) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.refused(code, &text(&request.error))) }
    }

    #[cold]
    fn refused(&self, code: Code, log: &str) -> Error {
        let (variant, limits) = (self.variant, self.limits);
        let place = format!("on {limits}");
        let asked = format!(
            "`{}` ({}) does not load {place}{}",
            self.module.name,
            variant.arch,
            log::explain(log, (self.module, variant), "    ")
        );
        self.driver.error(code, &format!("{asked}\n  the driver says"))
    }
}

/// Returns false for PTX whose machine code the driver's linker, which alone gives it out, makes much slower. It assembles modules
/// to be linked, and then ptxas ignores `setmaxnreg`: warp groups that need more registers than the block's share spill (a GEMM with 160
/// accumulators a thread takes 17 times as long).
fn survives_linking(ptx: &str) -> bool {
    !ptx.contains("setmaxnreg")
}

/// The chips that a variant has machine code for.
fn chips(variant: &Variant) -> String {
    variant.cubins.iter().map(|cubin| cubin.arch).collect::<Vec<_>>().join(", ")
}

fn ok(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

#[cold]
fn endless(module: &Module) -> Error {
    Error::new(ErrorKind::Load, format!("the machine code of `{}` is cut off", module.name))
        .possible("whole ELF files and fat binaries, and PTX")
}

#[cold]
fn zero_byte(module: &Module) -> Error {
    Error::new(ErrorKind::Load, format!("the PTX of `{}` holds a zero byte", module.name))
}

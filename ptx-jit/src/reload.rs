//! Kernels of a file that somebody edits while the program runs.

use crate::{JitKernel, JitModule, Source};
use ptx_runtime::{Device, Error, ErrorKind, Result};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The kernels of a file. The first launch after a save uses the new text; where that is wrong, the old kernels stay, and the error is written to standard
/// error, or goes to [`on_error`](Live::on_error). For a loop of edits and runs: every version stays loaded until the program ends.
///
/// ```no_run
/// # use ptx_jit::Live;
/// # use ptx_runtime::Device;
/// # fn main() -> ptx_runtime::Result<()> {
/// let device = Device::best()?;
/// let live = Live::load(&device, "scale.rs", |source| source.with("BLOCK", 128))?;
/// let mut x = device.upload(&[1.0f32; 1000])?;
/// loop {
///     live.kernel("scale")?.launch().value(2.0f32)?.write(&mut x)?.value(1000u32)?.run(&device)?;
///     println!("{}", x.download()?[0]);
///     std::thread::sleep(std::time::Duration::from_secs(1));
/// }
/// # }
/// ```
pub struct Live {
    device: Device,
    path: PathBuf,
    choose: Box<dyn Fn(Source) -> Source + Send + Sync>,
    on_error: Box<dyn Fn(&Error) + Send + Sync>,
    current: Mutex<Current>,
}

/// The newest version that compiles.
struct Current {
    module: JitModule,
    /// The state of the file that was read last, and its text.
    read: Option<Stamp>,
    text: String,
    /// What is wrong with this text.
    error: Option<Error>,
}

/// The time of a file's last change and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(SystemTime, u64);

/// The clocks of file systems are coarse: two changes within this time may have the same stamp.
const COARSE: Duration = Duration::from_secs(2);

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let file = std::fs::metadata(path).ok()?;
        Some(Stamp(file.modified().ok()?, file.len()))
    }

    /// Returns true if a later change has another stamp.
    fn is_settled(self) -> bool {
        SystemTime::now().duration_since(self.0).is_ok_and(|age| age > COARSE)
    }
}

impl Live {
    /// Compiles and loads a file. `choose` adds the generic arguments and the target.
    ///
    /// # Errors
    /// Those of [`JitModule::load`].
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        choose: impl Fn(Source) -> Source + Send + Sync + 'static,
    ) -> Result<Live> {
        let path = path.as_ref().to_path_buf();
        let read = settled(&path);
        let source = Source::file(&path)?;
        let text = source.text.clone();
        let module = JitModule::load(device, &choose(source))?;
        let current = Mutex::new(Current { module, read, text, error: None });
        let on_error = |error: &Error| drop(writeln!(std::io::stderr(), "{error}"));
        Ok(Live { device: device.clone(), path, choose: Box::new(choose), on_error: Box::new(on_error), current })
    }

    /// Calls this with the error of each text that is wrong, once.
    #[must_use]
    pub fn on_error(self, on_error: impl Fn(&Error) + Send + Sync + 'static) -> Live {
        Live { on_error: Box::new(on_error), ..self }
    }

    /// The kernels of the newest text that compiles.
    pub fn module(&self) -> JitModule {
        self.newest().module.clone()
    }

    /// One of them.
    ///
    /// # Errors
    /// Those of [`JitModule::kernel`].
    pub fn kernel(&self, name: &str) -> Result<JitKernel> {
        self.newest().module.kernel(name).cloned()
    }

    /// What is wrong with the newest text, if it is.
    pub fn error(&self) -> Option<Error> {
        self.newest().error.clone()
    }

    fn newest(&self) -> MutexGuard<'_, Current> {
        let lock = || self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = lock();
        let stamp = Stamp::of(&self.path);
        if (stamp.is_none() || stamp != current.read)
            && let Some(error) = self.renew(&mut current)
        {
            // Whoever is told may ask for the kernels.
            drop(current);
            (self.on_error)(&error);
            current = lock();
        }
        current
    }

    /// Compiles the file if its text is another one, and returns an error that is new. An editor that replaces the file may leave none, or an empty one,
    /// for a moment.
    fn renew(&self, current: &mut Current) -> Option<Error> {
        current.read = settled(&self.path);
        let source = match Source::file(&self.path) {
            Ok(source) if source.text == current.text || source.text.is_empty() => return None,
            Ok(source) => source,
            Err(_) if !self.path.exists() => return None,
            Err(error) => {
                let is_new = current.error.as_ref().is_none_or(|known| known.to_string() != error.to_string());
                current.error = Some(error.clone());
                return is_new.then_some(error);
            }
        };
        current.text.clone_from(&source.text);
        match JitModule::load(&self.device, &(self.choose)(source)) {
            Ok(module) => {
                (current.module, current.error) = (module, None);
                None
            }
            Err(error) => {
                let kept = format!("{error}\n\nthe kernels of the text before stay");
                let error = if error.kind() == ErrorKind::Load { Error::new(ErrorKind::Load, kept) } else { error };
                current.error = Some(error.clone());
                Some(error)
            }
        }
    }
}

/// The stamp of a file, if a later change has another one.
fn settled(path: &Path) -> Option<Stamp> {
    Stamp::of(path).filter(|stamp| stamp.is_settled())
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Live({})", self.path.display())
    }
}

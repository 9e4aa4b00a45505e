//! The kernels that this process has compiled, by their numbers.

use super::describe::describe;
use super::launch::{launch, slots};
use crate::function::Function;
use crate::stream::Home;
use ptx_jit::describe::Kernel;
use ptx_jit::{CompileError, JitKernel, JitModule, Program, Source};
use ptx_launch::chip::{Chip, Occupancy};
use ptx_launch::{Device, Error, Figures, Result, Stream};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// A kernel.
#[derive(Clone)]
pub(super) struct Made {
    /// Its number.
    pub(super) key: i64,
    /// The program that it is a part of.
    pub(super) program: Arc<Compiled>,
    /// Its number among the kernels of the program.
    at: usize,
    /// The function that calls it; `None` if it takes something that no caller of functions has.
    pub(super) function: Option<&'static Function>,
    /// The reason why there is no function.
    pub(super) refused: String,
}

/// A compiled text.
pub(super) struct Compiled {
    /// The request that it answers.
    request: Vec<u8>,
    source: Source,
    pub(super) program: Program,
    /// The devices for which it is loaded.
    loaded: RwLock<Vec<(Home, JitModule)>>,
}

static KERNELS: RwLock<BTreeMap<i64, Made>> = RwLock::new(BTreeMap::new());

/// The kernel of this number.
pub(super) fn find(key: i64) -> Option<Made> {
    KERNELS.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
}

/// The function of the kernel of this number.
pub(super) fn find_function(key: i64) -> Option<&'static Function> {
    KERNELS.read().unwrap_or_else(PoisonError::into_inner).get(&key)?.function
}

/// The kernels of a text, which is compiled unless an equal request was.
pub(super) fn compile(key: i64, request: &[u8], source: Source) -> std::result::Result<Vec<Made>, CompileError> {
    if let Some(known) = find(key).filter(|made| made.program.request == request) {
        let count = known.program.program.kernels().count();
        return Ok((0..count).filter_map(|at| find(key.wrapping_add(at as i64))).collect());
    }
    let program = source.compile()?;
    let loaded = RwLock::default();
    let compiled = Arc::new(Compiled { request: request.to_vec(), source, program, loaded });
    let kernels = compiled.program.kernels().enumerate();
    let made: Vec<Made> =
        kernels.map(|(at, kernel)| made(key.wrapping_add(at as i64), at, kernel, &compiled)).collect();
    let mut all = KERNELS.write().unwrap_or_else(PoisonError::into_inner);
    // Whoever was first has given its functions away already.
    Ok(made.into_iter().map(|made| all.entry(made.key).or_insert(made).clone()).collect())
}

fn made(key: i64, at: usize, kernel: &Kernel, program: &Arc<Compiled>) -> Made {
    let (own, slots) = (Arc::clone(program), slots(kernel));
    let work = move |call: &crate::call::Call<'_>| launch(&own.kernel(at, call.home, call.stream())?, &slots, call);
    let (function, refused) = match describe(kernel, Box::new(work)) {
        Ok(function) => (Some(function), String::new()),
        Err(why) => (None, why),
    };
    Made { key, program: Arc::clone(program), at, function, refused }
}

impl Made {
    /// The occupancy of the usual chip for its target.
    pub(super) fn occupancy(&self, registers: u64, shared: u64) -> Option<(&'static Chip, Occupancy)> {
        self.program.program.occupancy(&self.kernel()?.entry, registers, shared)
    }

    /// Its resources on the first GPU, and the name of that.
    ///
    /// # Errors
    /// There is no GPU, or it cannot load the kernel.
    pub(super) fn figures(&self) -> Result<(String, Figures)> {
        let device = Device::cuda(0)?;
        let module = JitModule::of_program(&device, &self.program.source, &self.program.program)?;
        let kernel = module.kernels().get(self.at).ok_or_else(|| Error::other("the program has no such kernel"))?;
        Ok((device.name().to_owned(), kernel.runtime().kernel().figures(&device)?))
    }

    /// Its description.
    pub(super) fn kernel(&self) -> Option<&Kernel> {
        self.program.program.kernels().nth(self.at)
    }
}

impl Compiled {
    /// A kernel on the device of a stream.
    fn kernel(&self, at: usize, home: Home, stream: &Stream) -> Result<JitKernel> {
        let of = |loaded: &[(Home, JitModule)]| {
            let module = loaded.iter().find(|(of, _)| *of == home)?;
            module.1.kernels().get(at).cloned()
        };
        if let Some(kernel) = of(&self.loaded.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(kernel);
        }
        let module = JitModule::of_program(&stream.device(), &self.source, &self.program)?;
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        if of(&loaded).is_none() {
            loaded.push((home, module));
        }
        of(&loaded).ok_or_else(|| Error::other("the program has no kernel of this number"))
    }
}

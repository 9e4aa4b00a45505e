//! Instances that a search compiles: none of them needs to exist when the program is built.

use crate::{JitKernel, JitModule, Source};
use ptx_runtime::{Device, Result};

/// A source with generic arguments, as a candidate of [`Tuner::search`](ptx_runtime::Tuner::search).
#[derive(Clone, Debug)]
pub struct Candidate {
    module: Result<JitModule>,
}

impl Candidate {
    /// A kernel of it.
    ///
    /// # Errors
    /// Those of [`JitModule::load`] and [`JitModule::kernel`]: to a search, a candidate that does not compile is one that does not fit.
    pub fn kernel(&self, name: &str) -> Result<&JitKernel> {
        self.module.as_ref().map_err(Clone::clone)?.kernel(name)
    }
}

impl Source {
    /// The instances of all combinations of generic arguments, with their names, loaded for a device.
    ///
    /// ```
    /// # use ptx_jit::Source;
    /// # use ptx_runtime::{Device, Tuner};
    /// # fn main() -> ptx_runtime::Result<()> {
    /// let source = Source::text("fill.rs", r#"
    /// #[ptx_kernel(arch = "sm_80", block = BLOCK, grid = x.len().div_ceil(BLOCK), unsafe(requires()))]
    /// fn fill<const BLOCK: u32>(x: &mut [u32], n: u32) {
    ///     let i: u32 = ctaid.x * ntid.x + tid.x;
    ///     if i < n {
    ///         let at = x.at(i);
    ///         ptx! { st.global.u32 [at], BLOCK; }
    ///     }
    /// }"#);
    /// let device = Device::cpu();
    /// let mut x = device.zeros::<u32>(300)?;
    /// let found = Tuner::new(&device.stream()).search(
    ///     source.candidates(&device, &[("BLOCK", &["64", "96", "4096"])]),
    ///     |stream, candidate| candidate.kernel("fill")?.launch().write(&mut x)?.value(300u32)?.run(stream),
    ///     |_| Ok(true),
    /// )?;
    /// // No block has 4096 threads: this candidate does not fit.
    /// assert!(found.best().is_some_and(|(name, ..)| name == "BLOCK=64" || name == "BLOCK=96"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn candidates(&self, device: &Device, space: &[(&str, &[&str])]) -> Vec<(String, Candidate)> {
        let mut all = vec![(Vec::new(), self.clone())];
        for (name, arguments) in space {
            all = all
                .iter()
                .flat_map(|(words, source)| {
                    arguments.iter().map(move |argument| {
                        let words: Vec<String> = words.iter().cloned().chain([format!("{name}={argument}")]).collect();
                        (words, source.clone().with(*name, argument))
                    })
                })
                .collect();
        }
        let load = |source: &Source| Candidate { module: JitModule::load(device, source) };
        all.into_iter().map(|(words, source)| (words.join(", "), load(&source))).collect()
    }
}

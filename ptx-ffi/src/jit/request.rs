//! Requests of Python: the text of kernels with the choices of its caller, or a question about one that is compiled.

use super::{answer, registry};
use ptx_jit::Source;

/// A request.
pub(super) enum Request<'a> {
    /// The kernels of a text with their generic parameters.
    Outline(Source),
    /// Compile a text. Its kernels have this number and the following ones.
    Compile {
        /// The number of the first kernel.
        key: i64,
        /// The request itself, by which an equal one is recognized.
        bytes: &'a [u8],
        /// The text.
        source: Source,
    },
    /// The PTX of a kernel.
    Ptx(i64),
    /// The page of a code in an error.
    Explain(&'a str),
    /// PTX in the kernel language: the name of its file and the text.
    Transpile(&'a str, &'a str),
    /// The occupancy by a kernel with so many registers and bytes of static shared memory.
    Occupancy(i64, [u64; 2]),
    /// The resources of a kernel as the driver of the first GPU reports them.
    Figures(i64),
}

impl<'a> Request<'a> {
    /// Reads a request. `None` if it is none.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Request<'a>> {
        let texts = strings(bytes)?;
        match texts.split_first()? {
            (&"outline", [name, text, target]) => Some(Request::Outline(on_target(Source::text(*name, *text), target))),
            (&"explain", [code]) => Some(Request::Explain(code)),
            (&"transpile", [name, text]) => Some(Request::Transpile(name, text)),
            (&"figures", [key]) => key.parse().ok().map(Request::Figures),
            (&"occupancy", [key, registers, shared]) => {
                Some(Request::Occupancy(key.parse().ok()?, [registers.parse().ok()?, shared.parse().ok()?]))
            }
            (&"ptx", [key]) => key.parse().ok().map(Request::Ptx),
            (&"compile", [key, name, text, only, target, with @ ..]) => {
                let mut source = on_target(Source::text(*name, *text), target);
                if !only.is_empty() {
                    source = source.only(*only);
                }
                for pair in with.chunks_exact(2) {
                    source = source.with(pair[0], pair[1]);
                }
                Some(Request::Compile { key: key.parse().ok()?, bytes, source })
            }
            (&"compile_ptx", [key, name, text, signatures]) => {
                Some(Request::Compile { key: key.parse().ok()?, bytes, source: Source::ptx(*name, *text, *signatures) })
            }
            _ => None,
        }
    }

    /// Computes the answer.
    pub(super) fn answer(self) -> String {
        match self {
            Request::Outline(source) => {
                source.outline().map_or_else(|error| answer::wrong(&error), |o| answer::outline(&o))
            }
            Request::Explain(code) => match ptx_jit::explain(code) {
                Some(page) => answer::page(&page),
                None => answer::refused(&format!("there is no code {code}")),
            },
            Request::Transpile(name, text) => ptx_jit::transpile(name, text)
                .map_or_else(|error| answer::wrong(&error), |made| answer::transpiled(&made)),
            Request::Ptx(key) => of_kernel(key, answer::ptx),
            Request::Occupancy(key, [registers, shared]) => {
                of_kernel(key, |made| answer::occupancy(made.occupancy(registers, shared)))
            }
            Request::Figures(key) => of_kernel(key, |made| answer::figures(made.figures())),
            Request::Compile { key, bytes, source } => match registry::compile(key, bytes, source) {
                Ok(kernels) => answer::kernels(&kernels),
                Err(error) => answer::wrong(&error),
            },
        }
    }
}

/// The source for a target, which is empty for those in the text.
fn on_target(source: Source, target: &str) -> Source {
    if target.is_empty() { source } else { source.target(target) }
}

fn of_kernel(key: i64, answer: impl FnOnce(&registry::Made) -> String) -> String {
    registry::find(key).map_or_else(|| answer::refused("there is no kernel of this number"), |made| answer(&made))
}

fn strings(mut bytes: &[u8]) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<8>() {
        let (text, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        found.push(std::str::from_utf8(text).ok()?);
        bytes = rest;
    }
    bytes.is_empty().then_some(found)
}

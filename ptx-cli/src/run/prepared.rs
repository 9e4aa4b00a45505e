//! A file that is ready to run, for those who follow its instructions: its program, and the line of each instruction.

use super::Arguments;
use crate::kernels;
use crate::output::Failure;
use crate::render;
use crate::source::Source;
use ptx_core::check::{Checked, check};
use ptx_expand::program::MemoryLayout;
use ptx_interp::{Program, Tracer};
use std::collections::HashMap;
use std::io::Write;

pub(crate) struct Prepared {
    source: Source,
    checked: Checked,
    program: Program,
    /// Of a Rust file, the line that made each line of the PTX.
    rust_lines: Option<HashMap<usize, u32>>,
    /// Of a Rust file, the variables in shared memory.
    memory: Vec<MemoryLayout>,
}

fn told(failure: Failure) -> String {
    match failure {
        Failure::Usage(message) => message,
        Failure::Output(why) => why.to_string(),
        Failure::Undecided => "this is not decided".to_owned(),
    }
}

impl Prepared {
    /// Reads, checks and decodes the file of a launch; the errors, if it has some.
    pub(crate) fn new(arguments: &Arguments) -> Result<Prepared, String> {
        let mut out = Vec::new();
        let refused = |out: Vec<u8>| String::from_utf8_lossy(&out).trim_end().to_owned();
        let mut memory = Vec::new();
        let (source, rust_lines) = if arguments.kernel.kernels.apply_to(&arguments.kernel.file).map_err(told)? {
            let program =
                kernels::compile(&arguments.kernel.file, &arguments.kernel.kernels, None, &mut out).map_err(told)?;
            let Some(program) = program else { return Err(refused(out)) };
            let module = kernels::module(&program, arguments.kernel.entry.as_deref()).map_err(told)?;
            let text = module.texts.first().ok_or("the kernel has no target")?;
            let lines = text.lines.iter().map(|(ptx, line, _)| (*ptx as usize, *line)).collect();
            memory.clone_from(&module.memory);
            let name = arguments.kernel.file.display().to_string();
            let mut source = Source::new(name, text.ptx.clone().into_bytes());
            source.kernel = kernels::find_kernel(module, arguments.kernel.entry.as_deref()).cloned();
            (source, Some(lines))
        } else {
            (Source::read(&arguments.kernel.file).map_err(told)?, None)
        };
        let (tree, earlier) = source.parse();
        let (checked, diagnostics) = check(tree, earlier, &Default::default());
        let program = match &checked {
            Some(checked) => Program::new(checked),
            None => Err(diagnostics),
        };
        let refuse = |errors: Vec<ptx_core::diag::Diagnostic>| {
            let errors: Vec<_> = errors.into_iter().filter(|d| d.is_error()).collect();
            let mut out = Vec::new();
            // A vector takes everything.
            let _ = render::refusal(&mut out, &source, &errors, false);
            refused(out)
        };
        let program = program.map_err(refuse)?;
        let checked = checked.ok_or("the file is not valid PTX")?;
        Ok(Prepared { source, checked, program, rust_lines, memory })
    }

    /// The line of each instruction in the file.
    pub(crate) fn lines(&self) -> Vec<Option<u64>> {
        let line = |span: ptx_core::span::Span| {
            let own = self.source.line(span.lo);
            match &self.rust_lines {
                Some(lines) => lines.get(&own).map(|line| u64::from(*line)),
                None => Some(own as u64),
            }
        };
        self.program.spans().map(line).collect()
    }

    /// The variables in shared memory of a Rust file, with their fields.
    pub(crate) fn memory(&self) -> Vec<MemoryLayout> {
        self.memory.clone()
    }

    /// The types of its registers, by their names.
    pub(crate) fn registers(&self) -> HashMap<String, String> {
        let registers = self.checked.module().functions.iter().flat_map(|function| &function.registers);
        registers.map(|register| (register.name.clone(), register.ty.name().to_owned())).collect()
    }

    /// Launches it; `false` after a finding, which is written.
    pub(crate) fn launch(&self, arguments: &Arguments, tracer: Tracer, out: &mut dyn Write) -> Result<bool, String> {
        let parts = (&self.source, &self.checked, &self.program);
        let left = super::launch_with(arguments, parts, (arguments.kernel.seed, true), Some(tracer), out);
        left.map(|left| left.is_some()).map_err(told)
    }
}

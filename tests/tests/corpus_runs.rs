//! Every entry of every accepted real file is launched on the CPU device, with arguments that nobody meant for it: a fault is
//! fine, an instruction that cannot be run is not, and neither is a run without end.

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_core::check::check;
use ptx_core::ir::{Module, Param, Variable};
use ptx_core::parse;
use ptx_interp::{Fault, Launch, Machine, Options, Program};
use ptx_tests::{corpus, own};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Warp instructions of a launch, with `PTX_THOROUGH` or without.
const STEPS: [u64; 2] = [20_000, 100_000];
/// Entries of a file that are launched; all are decoded.
const LAUNCHES: usize = 12;
/// Time limit of one launch, on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);
/// Bytes behind each pointer.
const BUFFER: usize = 1 << 16;

fn main() -> std::process::ExitCode {
    let own = own::samples().unwrap_or_default().into_iter().filter(|s| s.ptxas == "accepted");
    let mut trials: Vec<_> = own.map(|s| trial(s.path.clone(), s.file())).collect();
    trials.extend(corpus::trials(|sample| sample.accepted.then(|| trial(sample.name, sample.path))));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: String, path: PathBuf) -> Trial {
    Trial::test(name, move || runs(&path))
}

fn runs(path: &Path) -> Result<(), Failed> {
    let text = std::fs::read(path)?;
    let (tree, earlier) = parse::parse_text(&text[..]);
    let (checked, _) = check(tree, earlier, &Default::default());
    let Some(checked) = checked else { return Err("is refused by the checker".into()) };
    let program = Program::new(&checked).map_err(|errors| {
        let lines = errors.iter().map(|e| e.message.clone());
        lines.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("\n")
    })?;
    let module = checked.module();
    let steps = STEPS[usize::from(std::env::var_os("PTX_THOROUGH").is_some())];
    for entry in program.entries().take(LAUNCHES) {
        let start = Instant::now();
        if let Err(fault) = launch(&program, module, entry, steps) {
            println!("{}: {entry}: {fault}", path.display());
        }
        if start.elapsed() > LONGEST {
            return Err(format!("{entry}: {steps} steps took {:?}", start.elapsed()).into());
        }
    }
    Ok(())
}

fn launch(program: &Program, module: &Module, entry: &str, steps: u64) -> Result<(), Fault> {
    let mut machine = Machine::new();
    let mut params = Vec::new();
    for variable in parameters(module, entry) {
        let align = usize::try_from(variable.align.max(1)).unwrap_or(1);
        params.resize(params.len().next_multiple_of(align), 0);
        params.extend(argument(&mut machine, variable)?);
    }
    let launch = Launch {
        entry,
        grid: [2, 1, 1],
        block: required(module, entry),
        cluster: [1, 1, 1],
        dynamic_shared: 32 << 10,
        cooperative: false,
        params: &params,
        options: Options { watch: false, seed: 0, step_limit: Some(steps) },
    };
    machine.launch(program, &launch).map(drop)
}

fn parameters<'m>(module: &'m Module, entry: &str) -> impl Iterator<Item = &'m Variable> {
    let function = module.functions.iter().find(|f| f.entry && f.defined && f.name == entry);
    let params = function.into_iter().flat_map(|f| &f.params);
    params.filter_map(|p| if let Param::Var(id) = p { module.variables.get(id.index()) } else { None })
}

/// `.reqntid`, else four warps.
fn required(module: &Module, entry: &str) -> [u32; 3] {
    let limits = module.functions.iter().filter(|f| f.name == entry).flat_map(|f| &f.limits);
    let values = limits.into_iter().find(|l| l.name == "reqntid").map(|l| l.values.clone());
    let Some(values) = values else { return [128, 1, 1] };
    std::array::from_fn(|d| values.get(d).map_or(1, |v| u32::try_from(*v).unwrap_or(1)))
}

/// A buffer for 64 bits; 16 for what is smaller; the addresses of buffers, again and again, for what is larger.
fn argument(machine: &mut Machine, variable: &Variable) -> Result<Vec<u8>, Fault> {
    let size = usize::try_from(variable.size).unwrap_or(0);
    let mut buffer = || -> Result<[u8; 8], Fault> {
        let address = machine.alloc(BUFFER as u64)?;
        machine.write(address, &[1; BUFFER])?;
        Ok(address.to_le_bytes())
    };
    Ok(match size {
        0..8 => 16u64.to_le_bytes()[..size].to_vec(),
        8 => buffer()?.to_vec(),
        _ => buffer()?.into_iter().cycle().take(size).collect(),
    })
}

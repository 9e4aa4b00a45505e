//! From PTX text to a run: what every test of the engine starts with.

use ptx_core::check::check;
use ptx_core::lower;
use ptx_core::parse::parse_text;
use ptx_interp::{Fault, Launch, Machine, Options, Program, Stats};

/// Of a long list of cases, one in so many is run; with `PTX_THOROUGH` set, as in `.ci/run`, all are.
pub(crate) fn one_in(many: usize) -> usize {
    if std::env::var_os("PTX_THOROUGH").is_some() { 1 } else { many }
}

/// Decodes a module; a diagnostic fails the test.
pub(crate) fn program(text: &str) -> Program {
    let (tree, errors) = parse_text(text.as_bytes());
    let (checked, diagnostics) = check(tree, errors, &lower::Options::default());
    let checked = checked.unwrap_or_else(|| panic!("{diagnostics:#?}"));
    Program::new(&checked).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// A body of an entry `k` with one pointer parameter `out`, in `%out`, the thread in `%t`, and the usual registers.
pub(crate) fn kernel(body: &str) -> String {
    format!(
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .f32 %f<20>; .reg .f64 %g<20>;\n\
         .reg .b64 %out; .reg .b32 %t;\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;\n{body}\n}}\n"
    )
}

/// One launch of `k` with the parameters' bytes.
pub(crate) fn launch(
    machine: &mut Machine,
    program: &Program,
    grid: u32,
    block: u32,
    params: &[u8],
    options: Options,
) -> Result<Stats, Fault> {
    let launch = Launch {
        entry: "k",
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params,
        options,
    };
    machine.launch(program, &launch)
}

/// Runs a body (see [`kernel`]) and gives `words` 32-bit words of its output.
pub(crate) fn run_words(body: &str, grid: u32, block: u32, words: usize) -> Result<Vec<u32>, Fault> {
    let mut machine = Machine::new();
    let out = machine.alloc(words as u64 * 4).unwrap();
    machine.write(out, &vec![0; words * 4]).unwrap();
    launch(&mut machine, &program(&kernel(body)), grid, block, &out.to_le_bytes(), Options::default())?;
    Ok(words_at(&machine, out, words))
}

/// 32-bit words of global memory.
pub(crate) fn words_at(machine: &Machine, address: u64, words: usize) -> Vec<u32> {
    let mut bytes = vec![0; words * 4];
    machine.read(address, &mut bytes).unwrap();
    bytes.chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

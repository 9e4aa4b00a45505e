//! `// run THREADS WORDS`: the file's only entry on the CPU device.

use libtest_mimic::Failed;
use ptx_core::check::check;
use ptx_core::parse;
use ptx_interp::{Fault, Launch, Machine, Options, Program};

/// Runs it, and compares the buffer with `// result: …` or the fault with `// fault: …`.
pub(crate) fn run(text: &str, sizes: &str) -> Result<(), Failed> {
    let sizes: Vec<u32> = sizes.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [threads, words] = sizes[..] else { return Err("write `// run THREADS WORDS`".into()) };
    let (tree, earlier) = parse::parse_text(text.as_bytes());
    let checked = check(tree, earlier, &Default::default()).0.ok_or("the file has errors")?;
    let program = Program::new(&checked).map_err(|errors| format!("{errors:?}"))?;
    match (launch(&program, threads, words), announced_fault(text)) {
        (Ok(buffer), None) => compare(&buffer, text),
        (Ok(_), Some((line, _))) => Err(format!("no fault on line {line}").into()),
        (Err(fault), None) => Err(fault.to_string().into()),
        (Err(fault), Some(announced)) => same(&fault, announced, text),
    }
}

fn launch(program: &Program, threads: u32, words: u32) -> Result<Vec<u32>, Fault> {
    let mut machine = Machine::new();
    let mut bytes = vec![0; 4 * words as usize];
    let address = machine.alloc(bytes.len() as u64)?;
    machine.write(address, &bytes)?;
    let launch = Launch {
        entry: program.entries().next().unwrap_or_default(),
        grid: [1; 3],
        block: [threads, 1, 1],
        cluster: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        params: &address.to_le_bytes(),
        options: Options::default(),
    };
    machine.launch(program, &launch)?;
    machine.read(address, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

fn compare(buffer: &[u32], text: &str) -> Result<(), Failed> {
    let expected = text.lines().find_map(|l| l.strip_prefix("// result: ")).ok_or("no `// result:`")?;
    let found = buffer.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    if found == expected.trim() { Ok(()) } else { Err(format!("the buffer is {found}").into()) }
}

/// The line and the part of the message.
fn announced_fault(text: &str) -> Option<(usize, &str)> {
    (1..).zip(text.lines()).find_map(|(line, content)| Some((line, content.split_once("// fault: ")?.1.trim())))
}

fn same(fault: &Fault, (line, part): (usize, &str), text: &str) -> Result<(), Failed> {
    let at = fault.span.map(|span| 1 + text[..span.lo as usize].matches('\n').count());
    if at == Some(line) && fault.message.contains(part) { Ok(()) } else { Err(format!("line {at:?}: {fault}").into()) }
}

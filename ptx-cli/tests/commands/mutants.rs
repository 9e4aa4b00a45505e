//! Kernels that are proved, and changes of them: none that the watcher shows to be harmful is proved.
//!
//! The lines of a kernel's text that begin with `//!` have its contract, and launches of it.

use super::{file, is_thorough, said};
use ptx_core::check::{Checked, check};
use ptx_expand::program::contract::Reader;
use ptx_interp::{FaultKind, Launch, Machine, Options, Program};
use ptx_prove::{Contract, Passed, Property, Report, Verdict, prove, signed_params};
use std::time::{Duration, Instant};

const KERNELS: [(&str, &str); 17] = [
    ("saxpy", include_str!("proved/saxpy.ptx")),
    ("tree", include_str!("proved/tree.ptx")),
    ("tile", include_str!("proved/tile.ptx")),
    ("stencil", include_str!("proved/stencil.ptx")),
    ("warps", include_str!("proved/warps.ptx")),
    ("matmul", include_str!("proved/matmul.ptx")),
    ("histogram", include_str!("proved/histogram.ptx")),
    ("stride", include_str!("proved/stride.ptx")),
    ("unrolled", include_str!("proved/unrolled.ptx")),
    ("scan", include_str!("proved/scan.ptx")),
    ("tensor", include_str!("proved/tensor.ptx")),
    ("bulk", include_str!("proved/bulk.ptx")),
    ("product", include_str!("proved/product.ptx")),
    ("issued", include_str!("proved/issued.ptx")),
    ("ring", include_str!("proved/ring.ptx")),
    ("double", include_str!("proved/double.ptx")),
    ("halves", include_str!("proved/halves.ptx")),
];

/// Instructions whose absence may go unseen for long.
const ORDERS: [&str; 10] = [
    "tcgen05.wait",
    "tcgen05.dealloc",
    "tcgen05.fence",
    "tcgen05.commit",
    "mbarrier",
    "fence",
    "wgmma.wait_group",
    "wgmma.commit_group",
    "cp.async.wait",
    "cp.async.commit",
];

/// The findings of the watcher that the prover's properties are about.
const HARM: [FaultKind; 6] = [
    FaultKind::OutOfBounds,
    FaultKind::Misaligned,
    FaultKind::Race,
    FaultKind::Deadlock,
    FaultKind::Sync,
    FaultKind::Unwritten,
];
/// The finding about reads of unwritten registers. No property of the prover covers them: such a register may have any value.
const OF_REGISTERS: &str = "W0107";
/// The most warp instructions of a launch; a mutant may never end.
const STEPS: u64 = 200_000;
/// One mutant of so many is tested where `PTX_THOROUGH` is not set.
const SAMPLE: usize = 24;

/// The lines of a text that have a word.
fn told<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = &'t str> {
    text.lines().filter_map(move |line| line.strip_prefix("//! ")?.strip_prefix(word)?.strip_prefix(' '))
}

fn extent(text: &str) -> [u32; 3] {
    let mut parts = text.split(',').map(|part| part.trim().parse().unwrap());
    std::array::from_fn(|_| parts.next().unwrap_or(1))
}

fn block(text: &str) -> [u32; 3] {
    extent(told(text, "block").next().unwrap())
}

fn checked(text: &str) -> Option<Checked> {
    let (tree, found) = ptx_core::parse::parse_text(text);
    check(tree, found, &Default::default()).0
}

/// The names of the entry's parameters.
fn names(checked: &Checked) -> Vec<String> {
    let module = checked.module();
    let params = module.functions[0].params.iter();
    params
        .filter_map(|param| match param {
            ptx_core::ir::Param::Var(id) => Some(module.variables[id.index()].name.clone()),
            ptx_core::ir::Param::Reg(_) => None,
        })
        .collect()
}

fn report(text: &str, checked: &Checked) -> Report {
    let names = names(checked);
    let mut reader = Reader::new(names.iter().cloned());
    let mut read = |text: &str| reader.read(text).unwrap_or_else(|problem| panic!("{text}: {}", problem.message));
    let contract = Contract {
        block: block(text),
        cluster: [1; 3],
        grid: told(text, "grid").next().map(&mut read),
        assume: told(text, "assume").map(&mut read).collect(),
        params: (0..names.len()).map(Passed::Argument).collect(),
        elements: vec![1; names.len()],
        align: Some(256),
        signed: signed_params(checked.module(), &checked.module().functions[0]),
        numbers: reader.into_numbers(),
        ..Contract::default()
    };
    prove(checked, "k", &contract).unwrap()
}

/// Returns true if all findings about some properties are proofs.
fn are_proved(report: &Report, properties: &[Property]) -> bool {
    report.findings.iter().all(|f| f.verdict == Verdict::Proved || !properties.contains(&f.property))
}

/// The properties that do not depend on order.
const BOUNDS: [Property; 2] = [Property::Bounds, Property::Alignment];

/// The first finding of the watcher in the launches of the text.
fn harm(text: &str, checked: &Checked) -> Option<Harm> {
    let program = Program::new(checked).ok()?;
    for run in told(text, "run") {
        let value = |name: &str| {
            let prefix = format!("{name}=");
            run.split(' ').find_map(|word| word.strip_prefix(&prefix)).unwrap()
        };
        let mut machine = Machine::new();
        let module = checked.module();
        let mut params: Vec<u8> = Vec::new();
        for (name, param) in names(checked).iter().zip(&module.functions[0].params) {
            let ptx_core::ir::Param::Var(id) = param else { continue };
            let size = module.variables[id.index()].size as usize;
            let number: u64 = value(name).parse().unwrap();
            params.resize(params.len().next_multiple_of(size), 0);
            if size == 8 {
                let address = machine.alloc(number).unwrap();
                machine.write(address, &vec![0; number as usize]).unwrap();
                params.extend(address.to_le_bytes());
            } else {
                params.extend((number as u32).to_le_bytes());
            }
        }
        let launch = Launch {
            entry: "k",
            grid: extent(value("grid")),
            block: block(text),
            cluster: [1; 3],
            dynamic_shared: 0,
            cooperative: false,
            params: &params,
            options: Options { watch: true, seed: 0, step_limit: Some(STEPS) },
        };
        if let Err(fault) = machine.launch(&program, &launch)
            && HARM.contains(&fault.kind)
            && fault.finding().is_none_or(|finding| finding.id != OF_REGISTERS)
        {
            return Some(Harm { run: run.to_owned(), message: fault.message, kind: fault.kind });
        }
    }
    None
}

/// A finding of the watcher.
#[derive(Debug, PartialEq)]
struct Harm {
    run: String,
    message: String,
    kind: FaultKind,
}

/// Comparisons, and those that they become.
const COMPARISONS: [(&str, &[&str]); 6] = [
    (".lt", &[".le", ".ge", ".ne"]),
    (".le", &[".lt", ".gt"]),
    (".gt", &[".ge", ".le"]),
    (".ge", &[".gt", ".lt", ".eq"]),
    (".ne", &[".eq", ".ge"]),
    (".eq", &[".ne"]),
];
const SPECIAL: [(&str, &str); 5] = [
    ("%ctaid.x", "%ctaid.y"),
    ("%ctaid.y", "%ctaid.x"),
    ("%tid.x", "%tid.y"),
    ("%tid.y", "%tid.x"),
    ("%ntid.x", "%nctaid.x"),
];

/// The changes of a line.
fn changes(line: &str) -> Vec<String> {
    let code = line.trim();
    let mut found = Vec::new();
    if let Some(rest) = code.strip_prefix(".shared") {
        let size: u32 = rest.split(['[', ']']).nth(1).unwrap().parse().unwrap();
        return [size - 4, size / 2].map(|new| line.replace(&size.to_string(), &new.to_string())).into();
    }
    if !code.ends_with(';') || code.starts_with('.') || code.starts_with("ld.param") || code == "ret;" {
        return found;
    }
    let (guard, statement) = match code.split_once(' ').filter(|_| code.starts_with('@')) {
        Some((guard, statement)) => (Some(guard), statement),
        None => (None, code),
    };
    if let Some(guard) = guard {
        let negated = guard.strip_prefix("@!").map_or_else(|| guard.replace('@', "@!"), |name| format!("@{name}"));
        found.extend([statement.to_owned(), format!("{negated} {statement}")]);
        if statement.starts_with("bra") {
            found.push(String::new());
        }
    }
    if statement.starts_with("bar.sync") {
        found.extend([String::new(), format!("@%p1 {statement}"), "bar.warp.sync 0xffffffff;".to_owned()]);
    }
    if ORDERS.iter().any(|name| statement.starts_with(name)) {
        found.push(String::new());
    }
    let with = |new: String| match guard {
        Some(guard) => format!("{guard} {new}"),
        None => new,
    };
    let (name, operands) = statement.split_once(' ').unwrap_or((statement, ""));
    if name.starts_with("setp") {
        for (from, others) in COMPARISONS {
            if name.contains(from) {
                found.extend(others.iter().map(|to| with(format!("{} {operands}", name.replacen(from, to, 1)))));
                break;
            }
        }
    }
    for (from, to) in SPECIAL {
        if operands.contains(from) {
            found.push(with(statement.replace(from, to)));
        }
    }
    let operands: Vec<&str> = operands.trim_end_matches(';').split(", ").collect();
    for (at, operand) in operands.iter().enumerate() {
        let mut put = |new: String| {
            let mut operands: Vec<String> = operands.iter().map(|operand| (*operand).to_owned()).collect();
            operands[at] = new;
            found.push(with(format!("{name} {};", operands.join(", "))));
        };
        if let Some(place) = operand.strip_prefix('[').and_then(|operand| operand.strip_suffix(']')) {
            let (base, offset) = place.split_once('+').unwrap_or((place, "0"));
            let offset: i32 = offset.parse().unwrap();
            [4, -4, 2].iter().for_each(|more| put(format!("[{base}+{}]", offset + more)));
        } else if let Ok(number) = operand.parse::<i64>() {
            [number + 1, (number - 1).max(0), number * 2].iter().for_each(|new| put(new.to_string()));
        } else if *operand == "0xffffffff" {
            ["0x0000ffff", "0x7fffffff"].iter().for_each(|mask| put((*mask).to_owned()));
        } else if at > 0 && !name.starts_with("bra") && !operand.contains('.') {
            // The register of the number before.
            let digits = operand.find(|c: char| c.is_ascii_digit());
            if let Some((class, number)) = digits.map(|digits| operand.split_at(digits))
                && class.starts_with('%')
                && let Some(number) = number.parse::<u32>().ok().filter(|number| *number > 1)
            {
                put(format!("{class}{}", number - 1));
            }
        }
    }
    found
}

/// All texts with one change.
fn mutants(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        for new in changes(line).into_iter().filter(|new| new.trim() != line.trim()) {
            let mut other: Vec<&str> = lines.clone();
            other[at] = &new;
            found.push((format!("line {}: `{}` as `{new}`", at + 1, line.trim()), other.join("\n") + "\n"));
        }
    }
    found
}

/// The arguments of `ptx prove`.
fn options(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for word in ["block", "grid", "assume"] {
        all.extend(told(text, word).flat_map(|value| [format!("--{word}"), value.to_owned()]));
    }
    all
}

#[test]
fn kernels_are_proved() {
    for (name, text) in KERNELS {
        let checked = checked(text).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(harm(text, &checked), None, "{name}");
        let start = Instant::now();
        let report = report(text, &checked);
        println!("{name}: {:?}", start.elapsed());
        let open: Vec<_> = report.findings.iter().filter(|f| f.verdict != Verdict::Proved).collect();
        assert!(open.is_empty(), "{name}: {open:#?}");
    }
}

/// Changes of `halves`: other columns, columns of each lane, and stores over the address.
#[test]
fn parts_of_tensor_memory_are_those_of_a_warp() {
    let text = include_str!("proved/halves.ptx");
    for (from, to) in [
        ("shl.b32 %r12, %r11, 5", "shl.b32 %r12, %r11, 6"),
        ("and.b32 %r11, %r10, 1", "and.b32 %r11, %r10, 3"),
        ("and.b32 %r11, %r10, 1", "sub.u32 %r11, %r10, 1"),
        ("and.b32 %r11, %r10, 1", "and.b32 %r11, %r1, 1"),
        ("and.b32 %r11, %r10, 1", "ld.shared.u32 %r16, [%r8]; and.b32 %r11, %r16, 1"),
        ("tcgen05.wait::st.sync.aligned;\n", "\n"),
        ("st.shared.u32 [%r8], 0", "st.shared.u32 [%r8+4], 0"),
        ("st.shared.u32 [%r8], 0", "st.shared.v2.u32 [%r8], {%r10, %r10}"),
    ] {
        let mutant = text.replacen(from, to, 1);
        assert_ne!(mutant, text, "{from}");
        let checked = checked(&mutant).unwrap_or_else(|| panic!("{to}"));
        assert!(!report(&mutant, &checked).is_proved(), "{to} is proved");
    }
}

/// `PTX_THOROUGH=1` tests all of them, and runs the command of every refutation.
#[test]
fn no_harmful_mutant_is_proved() {
    let is_thorough = is_thorough();
    let (mut harmful, mut all, mut longest) = (0, 0, (Duration::ZERO, String::new()));
    let mut verdicts = [[0; 3]; 2];
    let mut faults = Vec::new();
    for (name, text) in KERNELS {
        for (at, (change, mutant)) in mutants(text).into_iter().enumerate() {
            if !is_thorough && at % SAMPLE != 7 {
                continue;
            }
            let Some(checked) = checked(&mutant) else { continue };
            let harm = harm(&mutant, &checked);
            let start = Instant::now();
            let report = report(&mutant, &checked);
            longest = longest.max((start.elapsed(), format!("{name}, {change}")));
            all += 1;
            harmful += usize::from(harm.is_some());
            let verdict = if report.is_proved() { 0 } else { 2 - usize::from(report.is_refuted()) };
            verdicts[usize::from(harm.is_some())][verdict] += 1;
            let is_in_bounds = are_proved(&report, &BOUNDS);
            match (verdict, harm) {
                (0, Some(Harm { run, message, .. })) => {
                    faults.push(format!("{name}, {change}, is proved, but {run}: {message}"));
                }
                // Columns of tensor memory are in no buffer or variable.
                (_, Some(Harm { run, message, kind: FaultKind::OutOfBounds | FaultKind::Misaligned }))
                    if is_in_bounds && !message.contains("tensor memory") =>
                {
                    faults.push(format!("{name}, {change}, is in bounds, but {run}: {message}"));
                }
                (1, _) if is_thorough => {
                    faults.extend(shown(&mutant).map(|fault| format!("{name}, {change}: {fault}")))
                }
                _ => {}
            }
        }
    }
    println!(
        "{all} mutants; harmless and harmful ones, each as proved, refuted, unknown: {verdicts:?}; longest {longest:?}"
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!is_thorough || harmful >= 300, "{harmful} of {all} are harmful");
}

/// The fault of a refutation whose command shows nothing.
fn shown(mutant: &str) -> Option<String> {
    let file = file(mutant);
    let options = options(mutant);
    let arguments: Vec<&str> =
        ["prove", file.name(), "--entry", "k"].into_iter().chain(options.iter().map(String::as_str)).collect();
    let (code, out, err) = said(&arguments);
    if code != 1 || !out.contains("this shows it: ") {
        return None;
    }
    let command = out.split("this shows it: ptx ").nth(1).and_then(|rest| rest.lines().next());
    let Some(command) = command else { return Some(format!("no command: {out}{err}")) };
    // The files that the command writes.
    let words: Vec<String> = command
        .split(' ')
        .map(|word| match word.split_once(".bin:") {
            Some((path, bytes)) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                let path = file.beside(&format!("{name}.bin"));
                format!("{}:{bytes}", path.to_str().unwrap())
            }
            None => word.to_owned(),
        })
        .collect();
    let (code, out, err) = said(&words.iter().map(String::as_str).collect::<Vec<_>>());
    if code != 1 { Some(format!("`{command}` shows nothing: {out}{err}")) } else { None }
}

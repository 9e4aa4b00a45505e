//! Every arithmetic form against a GPU: the same inputs, bit for bit, special values included.
//!
//! `PTX_RECORD=dir cargo test … recorded` writes `dir/forms.ptx`, `dir/in.bin` and `dir/outputs.txt` (how many outputs of
//! [`THREADS`] words each entry has). A GPU runs `k0`, `k1` … over one block each; where its outputs, one after another,
//! are `dir/sm_90a.bin`, the same command makes `sm_90a.txt` of them: a line an instruction, found by its text.

use crate::forms::{Choice, Sample, choices};
use crate::harness::program;
use ptx_core::check::check;
use ptx_core::interp::{Launch, Machine, Options};
use ptx_core::isa::{OperandKind, Row, table};
use ptx_core::lower;
use ptx_core::parse::parse_text;
use std::collections::HashMap;
use std::fmt::Write;

const THREADS: usize = 128;
const REGISTERS: usize = 10;
const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";
const FILES: [&str; 7] =
    ["integer.isa", "float.isa", "half.isa", "compare.isa", "logic.isa", "convert.isa", "video.isa"];

/// What may stand behind d, a and b of video instructions; what does not fit is left out.
const SELECTORS: [[&str; 3]; 9] = [
    ["", "", ""],
    ["", ".b1", ".h1"],
    ["", ".h0", ".b3"],
    [".b2", ".b0", ""],
    [".h1", ".h1", ".b2"],
    [".h1", ".h21", ".h03"],
    [".h0", ".h33", ""],
    [".b210", ".b4710", ".b0653"],
    [".b3", "", ".b1122"],
];

/// A form with its entry.
struct Case {
    instruction: String,
    entry: String,
    /// How many registers it writes.
    outputs: usize,
}

fn case(row: &'static Row, choice: &Choice, groups: bool, selectors: &[&str; 3], name: &str) -> Option<Case> {
    let simple = |kind: &OperandKind| matches!(kind, OperandKind::Value(_) | OperandKind::Pair(..));
    if !row.operands.iter().all(|o| simple(&o.kind)) {
        return None;
    }
    let mut sample = Sample::new(choice);
    let mut instruction = sample.instruction(row, groups)?;
    for (selector, (register, ..)) in selectors.iter().zip(&sample.used) {
        instruction = instruction.replace(&format!("{register},"), &format!("{register}{selector},"));
    }
    let (mut loads, mut stores, mut outputs) = (String::new(), String::new(), 0);
    for (at, (register, class, written)) in sample.used.iter().enumerate() {
        let from = at * THREADS * 8;
        match *class {
            "pred" => write!(loads, "ld.global.u32 %w, [%in+{from}]; setp.gt.s32 {register}, %w, 0; ").unwrap(),
            class => write!(loads, "ld.global.{} {register}, [%in+{from}]; ", bits(class)).unwrap(),
        }
        if *written {
            let to = outputs * THREADS * 8;
            match *class {
                "pred" => write!(stores, "selp.u32 %w, 1, 0, {register}; st.global.u32 [%out+{to}], %w; ").unwrap(),
                class => write!(stores, "st.global.{} [%out+{to}], {register}; ", bits(class)).unwrap(),
            }
            outputs += 1;
        }
    }
    // The carry flag is an input and an output of the instructions that use it.
    let carry = row.file == "integer.isa" && (row.opcode().ends_with('c') || instruction.contains(".cc"));
    let before = if carry { "ld.global.u32 %w, [%in]; add.cc.u32 %w, %w, %w; " } else { "" };
    let after = format!("addc.u32 %w, 0, 0; st.global.u32 [%out+{}], %w; ", outputs * THREADS * 8);
    let entry = format!(
        ".visible .entry {name}(.param .u64 in, .param .u64 out) {{ .reg .b64 %in, %out, %at; .reg .b32 %w; {}\n\
         ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %w, %tid.x; mul.wide.u32 %at, %w, 8; \
         add.u64 %in, %in, %at; add.u64 %out, %out, %at; {loads}\n{before}{instruction}\n{}{stores} ret; }}\n",
        sample.declarations(),
        if carry { after.as_str() } else { "" },
    );
    let valid = sample.used.len() <= REGISTERS && accepted(&entry);
    valid.then_some(Case { instruction, entry, outputs: outputs + usize::from(carry) })
}

/// `b32` for every class of 32 bits.
fn bits(class: &str) -> String {
    let width = if class.ends_with("x2") { 32 } else { class[1..].parse().unwrap() };
    format!("b{width}")
}

fn accepted(entry: &str) -> bool {
    let (tree, errors) = parse_text(format!("{HEADER}{entry}").as_bytes());
    check(tree, errors, &lower::Options::default()).0.is_some()
}

/// Every form of the scalar files on sm_90a that only reads and writes registers.
fn cases() -> Vec<Case> {
    let mut found: Vec<Case> = Vec::new();
    for row in table().rows().filter(|r| FILES.contains(&r.file)) {
        for choice in choices(row) {
            for groups in if row.operands.iter().any(|o| o.group != 0) { &[false, true][..] } else { &[false][..] } {
                let selectors = if row.file == "video.isa" { SELECTORS.as_slice() } else { &SELECTORS[..1] };
                for selectors in selectors {
                    found.extend(case(row, &choice, *groups, selectors, &format!("k{}", found.len())));
                }
            }
        }
    }
    found
}

/// A pseudo-random word (xorshift*).
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Patterns that mean something special in some type.
const SPECIAL: [u64; 40] = [
    0,
    1,
    2,
    7,
    8,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x3c00,
    0x7c00,
    0x7c01,
    0xfc00,
    0x0400,
    0x03ff,
    0x7f80,
    0x3f80,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x3f80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7f80_0001,
    0x0080_0000,
    0x007f_ffff,
    0x8000_0001,
    0x3ff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0x7ff0_0000_0000_0001,
    0x8000_0000_0000_0000,
    0x000f_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// The inputs: for each register the words of all threads; special, small, random, or floats of moderate size.
fn inputs() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let word = |i: usize, state: &mut u64| {
        let r = random(state);
        let pick = (random(state) >> 32) as usize;
        match i % 6 {
            0 => SPECIAL[pick % SPECIAL.len()],
            1 => {
                SPECIAL[pick % SPECIAL.len()]
                    | SPECIAL[(r >> 40) as usize % SPECIAL.len()] << 16
                    | SPECIAL[(r >> 20) as usize % SPECIAL.len()] << 32
            }
            2 => r,
            3 => u64::from(((r >> 40) as f32 / 65536.0 - 100.0).to_bits()) | (r & 0xffff_ffff) << 32,
            4 => (((r >> 12) as f64) / 1e12 - 2000.0).to_bits(),
            _ => (r >> (pick % 64)) ^ if pick & 64 == 0 { 0 } else { u64::MAX },
        }
    };
    (0..REGISTERS * THREADS).flat_map(|i| word(i / 7 + i, &mut state).to_le_bytes()).collect()
}

/// What the engine gives for one case.
fn run(machine: &mut Machine, case: &Case, input: u64) -> Vec<u8> {
    let bytes = case.outputs * THREADS * 8;
    let out = machine.alloc(bytes as u64).unwrap();
    let program = program(&format!("{HEADER}{}", case.entry));
    let name = program.entries().next().unwrap().to_string();
    let params = [input.to_le_bytes(), out.to_le_bytes()].concat();
    let launch = Launch {
        entry: &name,
        grid: [1, 1, 1],
        block: [THREADS as u32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: &params,
        options: Options::default(),
    };
    machine.launch(&program, &launch).unwrap_or_else(|f| panic!("{}: {f}", case.instruction));
    let mut found = vec![0; bytes];
    machine.read(out, &mut found).unwrap();
    machine.free(out);
    found
}

/// What a GPU gave for an instruction: a hash of all outputs, or, for approximations, the outputs.
#[derive(Clone, Debug, PartialEq)]
enum Recorded {
    Exact(u64),
    Near(Vec<u64>),
}

impl Recorded {
    fn of(case: &Case, outputs: &[u8]) -> Recorded {
        if approximates(&case.instruction) {
            return Recorded::Near(words(outputs));
        }
        let hash = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
        Recorded::Exact(outputs.iter().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    fn line(&self, case: &Case) -> String {
        let values = match self {
            Recorded::Exact(hash) => format!("{hash:016x}"),
            Recorded::Near(values) => values.iter().map(|v| format!("~{v:x}")).collect::<Vec<_>>().join(" "),
        };
        format!("{}\t{values}\n", case.instruction)
    }

    fn read(line: &str) -> Option<(&str, Recorded)> {
        let (instruction, values) = line.split_once('\t')?;
        let parse = |text: &str| u64::from_str_radix(text, 16).ok();
        let near = values.split(' ').map(|v| v.strip_prefix('~').and_then(parse)).collect::<Option<Vec<_>>>();
        Some((instruction, near.map_or_else(|| parse(values).map(Recorded::Exact), |v| Some(Recorded::Near(v)))?))
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn approximates(instruction: &str) -> bool {
    [".approx", ".full"].iter().any(|m| instruction.contains(m))
}

/// Whether two results of an approximation are both inside its bounds. The manual bounds `sin` and `cos` absolutely,
/// and not at all beyond 100π.
fn near(instruction: &str, input: u64, ours: u64, theirs: u64) -> bool {
    let ty = instruction.split(' ').next().unwrap().rsplit('.').next().unwrap();
    let half = |bits: u64, shift: u32| match ty.starts_with("bf16") {
        true => f64::from(f32::from_bits(((bits >> shift & 0xffff) as u32) << 16)),
        false => f64::from(half_value((bits >> shift & 0xffff) as u16)),
    };
    let close = |a: f64, b: f64, relative: f64, absolute: f64| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= relative * a.abs().max(b.abs()) + absolute
    };
    let single = |bits: u64| f64::from(f32::from_bits(bits as u32));
    match ty {
        "f64" => close(f64::from_bits(ours), f64::from_bits(theirs), 2f64.powi(-20), 0.0),
        "f32" if instruction.starts_with("sin") || instruction.starts_with("cos") => {
            single(input).abs() > 314.0 || close(single(ours), single(theirs), 0.0, 2f64.powi(-14))
        }
        // What a GPU flushes to zero on the way stays below the least normal number.
        "f32" => close(single(ours), single(theirs), 2f64.powi(-10), 2f64.powi(-125)),
        _ => {
            let parts = if ty.ends_with("x2") { &[0, 16][..] } else { &[0][..] };
            parts.iter().all(|s| close(half(ours, *s), half(theirs, *s), 2f64.powi(-7), 2f64.powi(-14)))
        }
    }
}

fn half_value(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 31, f32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction != 0.0 => f32::NAN,
        31 => f32::INFINITY,
        e => (1024.0 + fraction) * 2f32.powi(i32::from(e) - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// Where the chip and we differ knowingly: forms that ptxas takes but the manual does not have.
fn explained(instruction: &str) -> bool {
    // `testp` without a test.
    if ["testp.f32", "testp.f64"].iter().any(|f| instruction.starts_with(f)) {
        return true;
    }
    // Rounding modes of `fma.bf16` other than `.rn`: the scalar form runs as one of f16, the packed one to nearest.
    ["fma.rz", "fma.rm", "fma.rp"].iter().any(|f| instruction.starts_with(f)) && instruction.contains("bf16")
}

/// Turns a GPU's outputs into the file of recordings.
fn record(cases: &[Case], outputs: &[u8]) -> String {
    let mut rest = outputs;
    let lines = cases.iter().map(|case| {
        let (own, more) = rest.split_at(case.outputs * THREADS * 8);
        rest = more;
        Recorded::of(case, own).line(case)
    });
    lines.collect()
}

#[test]
fn forms_as_a_gpu_runs_them() {
    let cases = cases();
    if let Ok(dir) = std::env::var("PTX_RECORD") {
        let text: String = cases.iter().map(|c| c.entry.as_str()).collect();
        std::fs::write(format!("{dir}/forms.ptx"), format!("{HEADER}{text}")).unwrap();
        std::fs::write(format!("{dir}/in.bin"), inputs()).unwrap();
        let outputs: String = cases.iter().map(|c| format!("{}\n", c.outputs)).collect();
        std::fs::write(format!("{dir}/outputs.txt"), outputs).unwrap();
        if let Ok(outputs) = std::fs::read(format!("{dir}/sm_90a.bin")) {
            std::fs::write(format!("{dir}/sm_90a.txt"), record(&cases, &outputs)).unwrap();
        }
    }
    let recorded: HashMap<&str, Recorded> =
        include_str!("recorded/sm_90a.txt").lines().filter_map(Recorded::read).collect();
    let mut machine = Machine::new();
    let input = machine.alloc(inputs().len() as u64).unwrap();
    machine.write(input, &inputs()).unwrap();
    let given = words(&inputs());
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in cases.iter().filter(|c| !explained(&c.instruction)) {
        let Some(theirs) = recorded.get(case.instruction.as_str()) else { continue };
        let ours = Recorded::of(case, &run(&mut machine, case, input));
        let same = match (&ours, theirs) {
            (Recorded::Near(a), Recorded::Near(b)) => {
                (0..a.len()).all(|i| near(&case.instruction, given[THREADS + i % THREADS], a[i], b[i]))
            }
            (a, b) => a == b,
        };
        compared += 1;
        wrong.extend((!same).then_some(&case.instruction));
    }
    println!("{compared} forms compared with a GPU, {} differ", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared > 2000, "only {compared} forms have recordings");
}

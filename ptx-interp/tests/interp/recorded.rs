//! Every arithmetic form against a GPU: the same inputs, bit for bit, special values included.
//!
//! A recording has a seed: 0 is every form with registers; another gives other inputs and other spellings (literals, negated
//! operands, guards, selectors). `PTX_RECORD=dir PTX_RECORD_SEED=1 cargo test … recorded` writes `dir/forms0.ptx` … (a GPU
//! requires several modules), `dir/in.bin` and `dir/outputs.txt` (how many outputs of [`THREADS`] words for each of the blocks
//! each entry has). A GPU runs `k0`, `k1` … over the blocks; where its outputs, one after another, are `dir/sm_90a.bin`, the
//! same command compares with them and makes `sm_90a.txt` of them: a line an instruction, found by its text.

use crate::forms::{Choice, Sample, Spelling, choices, random};
use crate::harness::{one_in, program};
use crate::{inputs, recordings};
use ptx_core::check::check;
use ptx_core::isa::{OperandKind, Row, table};
use ptx_core::lower;
use ptx_core::parse::parse_text;
use ptx_interp::{Launch, Machine, Options};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

const THREADS: usize = 128;
/// One in so many forms is compared, unless all are asked for.
const STEP: usize = 32;
const REGISTERS: usize = 10;
const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";
const FILES: [&str; 7] =
    ["integer.isa", "float.isa", "half.isa", "compare.isa", "logic.isa", "convert.isa", "video.isa"];

/// Selectors after d, a and b of video instructions; those that do not fit are left out.
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

/// A recording.
struct Recording {
    seed: u64,
    /// Number of blocks of [`THREADS`] threads, each with inputs of its own.
    blocks: usize,
    text: &'static recordings::Recorded,
}

static RECORDINGS: [Recording; 2] = [
    Recording { seed: 0, blocks: 1, text: &recordings::FORMS },
    Recording { seed: 1, blocks: 3, text: &recordings::FORMS_IN_BLOCKS },
];

/// Entries of a module; ptxas needs time for each.
const MODULE: usize = 300;

/// A form with its entry.
struct Case {
    instruction: String,
    entry: String,
    /// Number of registers that it writes.
    outputs: usize,
}

/// Spelling of an instruction, beyond its modifiers.
struct Style {
    spelling: Spelling,
    groups: bool,
    selectors: [String; 3],
    /// `@%guard`, `@!%guard` or nothing.
    guard: &'static str,
}

fn case(row: &'static Row, choice: &Choice, style: &Style, blocks: usize) -> Option<Case> {
    let simple = |kind: &OperandKind| matches!(kind, OperandKind::Value(_) | OperandKind::Pair(..));
    if !row.operands.iter().all(|o| simple(&o.kind)) {
        return None;
    }
    let mut sample = Sample::spelled(choice, style.spelling);
    let mut instruction = sample.instruction(row, style.groups)?;
    for (selector, (register, ..)) in style.selectors.iter().zip(&sample.used) {
        instruction = instruction.replace(&format!("{register},"), &format!("{register}{selector},"));
    }
    instruction.insert_str(0, style.guard);
    if sample.used.len() > REGISTERS || sample.used.iter().any(|(_, class, _)| *class == "b128") {
        return None;
    }
    let carry = row.file == "integer.isa" && (row.opcode().ends_with('c') || instruction.contains(".cc"));
    let (body, outputs) = around(&instruction, &sample, carry);
    let part = outputs * THREADS * 8;
    let offset = |name: &str, bytes: usize| format!("mad.wide.u32 %{name}, %w, {bytes}, %{name}; ");
    let of_block = offset("in", REGISTERS * THREADS * 8) + &offset("out", part);
    let entry = format!(
        ".visible .entry NAME(.param .u64 in, .param .u64 out) {{ .reg .b64 %in, %out, %at; .reg .b32 %w; .reg .pred %guard; {}\n\
         ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; {}mov.u32 %w, %tid.x; mul.wide.u32 %at, %w, 8; \
         add.u64 %in, %in, %at; add.u64 %out, %out, %at; {body} ret; }}\n",
        sample.declarations(),
        if blocks == 1 { String::new() } else { format!("mov.u32 %w, %ctaid.x; {of_block}") },
    );
    accepted(&entry).then_some(Case { instruction, entry, outputs })
}

/// Loads and stores around an instruction, and the number of outputs.
fn around(instruction: &str, sample: &Sample, carry: bool) -> (String, usize) {
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
    if instruction.starts_with('@') {
        loads += "mov.u32 %w, %tid.x; and.b32 %w, %w, 5; setp.eq.u32 %guard, %w, 1; ";
    }
    // The carry flag is an input and an output of the instructions that use it.
    let before = if carry { "ld.global.u32 %w, [%in]; add.cc.u32 %w, %w, %w; " } else { "" };
    let mut after = String::new();
    if carry {
        after = format!("addc.u32 %w, 0, 0; st.global.u32 [%out+{}], %w; ", outputs * THREADS * 8);
        outputs += 1;
    }
    (format!("{loads}\n{before}{instruction}\n{after}{stores}"), outputs)
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

/// Every form of the scalar files on sm_90a that only reads and writes registers, in the spellings of a seed; of these, one in so many.
fn cases(recording: &Recording, step: usize) -> Vec<Case> {
    let (mut state, mut number) = (recording.seed, 0);
    let (mut found, mut seen): (Vec<Case>, HashSet<String>) = (Vec::new(), HashSet::new());
    let moves = |r: &Row| r.name == "mov" && recording.seed != 0;
    for row in table().rows().filter(|r| FILES.contains(&r.file) || moves(r)) {
        for choice in choices(row, if recording.seed == 0 { 600 } else { 8000 }) {
            for style in styles(row, &mut state) {
                number += 1;
                if number % step != 0 {
                    continue;
                }
                let case = case(row, &choice, &style, recording.blocks);
                found.extend(case.filter(|c| recording.seed == 0 || seen.insert(c.instruction.clone())));
            }
        }
    }
    for (at, case) in found.iter_mut().enumerate() {
        case.entry = case.entry.replacen("NAME", &format!("k{at}"), 1);
    }
    found
}

/// The spellings of a row; with a state, any for this once.
fn styles(row: &'static Row, state: &mut u64) -> Vec<Style> {
    let with = |spelling, groups| Style { spelling, groups, selectors: Default::default(), guard: "" };
    let all_groups = if row.operands.iter().any(|o| o.group != 0) { &[false, true][..] } else { &[false][..] };
    let plain = |groups: &bool| with(Spelling::default(), *groups);
    let video = row.file == "video.isa";
    if *state == 0 && !video {
        return all_groups.iter().map(plain).collect();
    }
    let selected =
        |selectors: [String; 3]| all_groups.iter().map(move |g| Style { selectors: selectors.clone(), ..plain(g) });
    if *state == 0 {
        return SELECTORS.iter().flat_map(|s| selected(s.map(str::to_owned))).collect();
    }
    if video {
        return (0..6).flat_map(|i| selected(any_selectors(i, state))).collect();
    }
    let mut found = Vec::new();
    for groups in all_groups {
        let mut spelling = |literal, negated| Spelling { literal, negated, wider: false, state: random(state) };
        found.push(with(spelling(None, false), *groups));
        found.push(with(spelling(None, true), *groups));
        found.push(with(Spelling { wider: true, ..spelling(None, false) }, *groups));
        found.extend((0..4).map(|at| with(spelling(Some(at), false), *groups)));
        let guard = ["@%guard ", "@!%guard "][(random(state) >> 40) as usize & 1];
        found.push(Style { guard, ..plain(groups) });
    }
    found
}

/// Selectors of scalar, paired or fourfold video instructions.
fn any_selectors(kind: usize, state: &mut u64) -> [String; 3] {
    std::array::from_fn(|operand| {
        let mut digit = |below: u64| (random(state) >> 35) % below;
        let scalar = || ["", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"];
        match (kind % 3, operand) {
            (0, _) => scalar()[digit(7) as usize].to_string(),
            (1, 0) => ["", ".h0", ".h1", ".h10"][digit(4) as usize].to_string(),
            (1, _) => format!(".h{}{}", digit(4), digit(4)),
            (_, 0) => ["", ".b0", ".b2", ".b10", ".b31", ".b320", ".b3210"][digit(7) as usize].to_string(),
            _ => format!(".b{}{}{}{}", digit(8), digit(8), digit(8), digit(8)),
        }
    })
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

/// The inputs: for each block and each register the words of all threads.
fn inputs(recording: &Recording) -> Vec<u8> {
    if recording.seed == 0 {
        return first_inputs();
    }
    let mut state = recording.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = (0..recording.blocks).flat_map(|_| inputs::rows(REGISTERS, THREADS, &mut state).into_iter());
    words.flat_map(u64::to_le_bytes).collect()
}

/// Those of seed 0: special, small, random, or floats of moderate size.
fn first_inputs() -> Vec<u8> {
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

/// Results of the engine for one case.
fn run(machine: &mut Machine, case: &Case, blocks: usize, input: u64) -> Result<Vec<u8>, String> {
    let bytes = case.outputs * THREADS * 8 * blocks;
    let out = machine.alloc(bytes as u64).unwrap();
    let program = program(&format!("{HEADER}{}", case.entry));
    let name = program.entries().next().unwrap().to_string();
    let params = [input.to_le_bytes(), out.to_le_bytes()].concat();
    let launch = Launch {
        entry: &name,
        grid: [blocks as u32, 1, 1],
        block: [THREADS as u32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params: &params,
        options: Options::default(),
    };
    let ran = machine.launch(&program, &launch).map_err(|fault| fault.to_string());
    let mut found = vec![0; bytes];
    machine.read(out, &mut found).unwrap();
    machine.free(out);
    ran.map(|_| found)
}

/// Results of a GPU for an instruction: a hash of all outputs, or, for approximations, the outputs.
#[derive(Clone, Debug, PartialEq)]
enum Recorded {
    Exact(u64),
    Near(Vec<u64>),
}

impl Recorded {
    fn of(case: &Case, outputs: &[u8]) -> Recorded {
        if approximates(&case.instruction) {
            // The first block is enough for those.
            return Recorded::Near(words(&outputs[..case.outputs * THREADS * 8]));
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

fn unguarded(instruction: &str) -> &str {
    instruction.split_once("guard ").map_or(instruction, |(_, rest)| rest)
}

fn approximates(instruction: &str) -> bool {
    [".approx", ".full"].iter().any(|m| instruction.contains(m))
}

/// Returns true if two results of an approximation are both inside its bounds. `sin` and `cos` are nearer than the
/// manual's bounds: ours take the argument as the chip does.
fn near(instruction: &str, ours: u64, theirs: u64) -> bool {
    let instruction = unguarded(instruction);
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
            close(single(ours), single(theirs), 0.0, 2f64.powi(-21))
        }
        // Bounded absolutely where it is near 0.
        "f32" if instruction.starts_with("lg2") => close(single(ours), single(theirs), 2f64.powi(-20), 2f64.powi(-21)),
        // What a GPU flushes to zero on the way stays below the least normal number.
        "f32" => close(single(ours), single(theirs), 2f64.powi(-10), 2f64.powi(-125)),
        _ => {
            let parts = if ty.ends_with("x2") { &[0, 16][..] } else { &[0][..] };
            parts.iter().all(|s| close(half(ours, *s), half(theirs, *s), 2f64.powi(-7), 2f64.powi(-14)))
        }
    }
}

pub(crate) fn half_value(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 31, f32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction != 0.0 => f32::NAN,
        31 => f32::INFINITY,
        e => (1024.0 + fraction) * 2f32.powi(i32::from(e) - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

fn literal_nan(operand: &str) -> bool {
    let operand = operand.trim_end_matches(';');
    let digits = |prefix: &str| operand.strip_prefix(prefix).and_then(|d| u64::from_str_radix(d, 16).ok());
    let single = digits("0f").is_some_and(|bits| f32::from_bits(bits as u32).is_nan());
    single || digits("0d").is_some_and(|bits| f64::from_bits(bits).is_nan())
}

/// Known differences from the chip: forms that ptxas accepts but the manual does not have.
fn explained(instruction: &str) -> bool {
    let guarded = instruction.starts_with('@');
    let instruction = unguarded(instruction);
    let starts = |all: &[&str]| all.iter().any(|f| instruction.starts_with(f));
    // ptxas expands these into several instructions and guards only some of them, against the manual: `testp`, and `set`
    // but for those that compare 32 or 64 bits into an integer.
    let types: Vec<&str> = instruction.split(' ').next().unwrap_or_default().rsplit('.').take(2).collect();
    let converts = !matches!(types[1..], ["u32" | "s32"]) || types[0].ends_with("16");
    if guarded && (starts(&["testp."]) || starts(&["set."]) && converts) {
        return true;
    }
    // The payload of a NaN is unspecified: ptxas takes an instruction under a guard that another leaves as it is.
    if guarded && starts(&["abs.f32", "neg.f32"]) {
        return true;
    }
    // ptxas folds a literal that is a NaN, changes its sign, or puts a literal in another operand's place, and the place
    // determines which of several NaNs is the result.
    let literal = |operand: &str| operand.starts_with("0d") || literal_nan(operand);
    let moves = instruction.contains(".f64") && starts(&["fma.", "mad.", "mul.", "sub.", "add."]);
    if (moves || starts(&["neg."])) && instruction.split(", ").any(literal) {
        return true;
    }
    // Of a shift's literal ptxas keeps as many bits as what is shifted has.
    if starts(&["shr.u16 %b16_1, %b16_2, 0x3fff0000"]) {
        return true;
    }
    // `testp` without a test.
    if ["testp.f32", "testp.f64"].iter().any(|f| instruction.starts_with(f)) {
        return true;
    }
    // Rounding modes of `fma.bf16` other than `.rn`: the scalar form runs as one of f16, the packed one to nearest.
    ["fma.rz", "fma.rm", "fma.rp"].iter().any(|f| instruction.starts_with(f)) && instruction.contains("bf16")
}

/// Writes what a GPU needs.
fn write_for_gpu(dir: &str, recording: &Recording, cases: &[Case]) {
    for (at, part) in cases.chunks(MODULE).enumerate() {
        let text: String = part.iter().map(|c| c.entry.as_str()).collect();
        std::fs::write(format!("{dir}/forms{at}.ptx"), format!("{HEADER}{text}")).unwrap();
    }
    std::fs::write(format!("{dir}/in.bin"), inputs(recording)).unwrap();
    let outputs: String = cases.iter().map(|c| format!("{} {}\n", c.outputs, c.instruction)).collect();
    std::fs::write(format!("{dir}/outputs.txt"), outputs).unwrap();
}

/// A GPU's outputs of each case.
fn split<'a>(recording: &Recording, cases: &[Case], outputs: &'a [u8]) -> Vec<&'a [u8]> {
    let mut rest = outputs;
    let parts = cases.iter().map(|case| {
        let (own, more) = rest.split_at(case.outputs * THREADS * 8 * recording.blocks);
        rest = more;
        own
    });
    parts.collect()
}

/// The words in which two runs differ, with what the instruction read.
fn differences(recording: &Recording, case: &Case, ours: &[u8], theirs: &[u8]) -> String {
    let given = words(&inputs(recording));
    let (ours, theirs) = (words(ours), words(theirs));
    let wrong: Vec<usize> = (0..ours.len()).filter(|at| ours[*at] != theirs[*at]).collect();
    let mut text = format!("{}: {} of {} words", case.instruction, wrong.len(), ours.len());
    for at in wrong.into_iter().take(6) {
        let (block, within) = (at / (case.outputs * THREADS), at % (case.outputs * THREADS));
        let read: Vec<String> =
            (0..5).map(|r| format!("{:x}", given[(block * REGISTERS + r) * THREADS + within % THREADS])).collect();
        write!(
            text,
            "\n    output {} of ({}): {:x}, a GPU: {:x}",
            within / THREADS,
            read.join(", "),
            ours[at],
            theirs[at]
        )
        .unwrap();
    }
    text
}

fn same(case: &Case, ours: &Recorded, theirs: &Recorded) -> bool {
    match (ours, theirs) {
        (Recorded::Near(a), Recorded::Near(b)) => (0..a.len()).all(|i| near(&case.instruction, a[i], b[i])),
        (a, b) => a == b,
    }
}

/// Outputs of kernels that were not run.
const NOT_RUN: [u8; 2] = [0xcc, 0xdd];

/// Compares a recording with what the engine gives: how many forms, and which differ.
fn compare(recording: &Recording) -> (usize, Vec<String>) {
    let asked = std::env::var("PTX_RECORD_SEED").is_ok_and(|seed| seed == recording.seed.to_string());
    let dir = std::env::var("PTX_RECORD").ok().filter(|_| asked);
    if dir.is_none() && recording.text.is_empty() {
        return (0, Vec::new());
    }
    let step = if dir.is_some() { 1 } else { one_in(STEP) };
    let cases = cases(recording, step);
    let bytes = inputs(recording);
    let mut recorded: HashMap<&str, Recorded> = recording.text.lines().filter_map(Recorded::read).collect();
    let raw = dir.as_ref().map(|dir| {
        write_for_gpu(dir, recording, &cases);
        std::fs::read(format!("{dir}/sm_90a.bin")).unwrap_or_default()
    });
    let raw = raw.filter(|raw| !raw.is_empty());
    let theirs = raw.as_ref().map(|raw| split(recording, &cases, raw));
    if let (Some(dir), Some(theirs)) = (&dir, &theirs) {
        let ran = |own: &[u8]| !NOT_RUN.iter().any(|byte| own.iter().all(|b| b == byte));
        let ran = cases.iter().zip(theirs).filter(|(case, own)| !explained(&case.instruction) && ran(own));
        let found: Vec<(&Case, Recorded)> = ran.map(|(case, own)| (case, Recorded::of(case, own))).collect();
        let lines: String = found.iter().map(|(case, own)| own.line(case)).collect();
        std::fs::write(format!("{dir}/sm_90a.txt"), lines).unwrap();
        recorded = found.into_iter().map(|(case, own)| (case.instruction.as_str(), own)).collect();
    }
    let mut machine = Machine::new();
    let input = machine.alloc(bytes.len() as u64).unwrap();
    machine.write(input, &bytes).unwrap();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (at, case) in cases.iter().enumerate().filter(|(_, c)| !explained(&c.instruction)) {
        let outputs = match run(&mut machine, case, recording.blocks, input) {
            Ok(outputs) => outputs,
            Err(fault) => {
                wrong.push(format!("{}: {fault}", case.instruction));
                continue;
            }
        };
        let Some(gpu) = recorded.get(case.instruction.as_str()) else { continue };
        compared += 1;
        if !same(case, &Recorded::of(case, &outputs), gpu) {
            let detail = theirs.as_ref().map(|t| differences(recording, case, &outputs, t[at]));
            wrong.push(detail.unwrap_or_else(|| case.instruction.clone()));
        }
    }
    (compared, wrong)
}

#[test]
fn forms_as_a_gpu_runs_them() {
    for recording in &RECORDINGS {
        let (compared, wrong) = compare(recording);
        println!("seed {}: {compared} forms compared with a GPU, {} differ", recording.seed, wrong.len());
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(compared > 2000 / one_in(STEP) || recording.text.is_empty(), "only {compared} forms have recordings");
    }
}

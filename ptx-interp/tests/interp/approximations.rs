//! Approximations inside the manual's bounds: swept over their inputs, against `f64` and against a GPU.
//!
//! `cargo test --release … approximations -- --ignored --nocapture` takes every 31st input of 32 bits (`PTX_SWEEP_STEP=1`: all).
//! `PTX_RECORD_SWEEP=dir cargo test … approximations` writes `dir/sweep.ptx` and `dir/sweep.txt`: for each entry its threads
//! and the bytes of a result. An entry takes the buffer, the first input and the step. Where a GPU's outputs are
//! `dir/sweep.bin`, the same command prints how far they are from ours.

use crate::harness::{one_in, program};
use ptx_interp::{Launch, Machine, Options};
use std::fmt::Write;

/// An approximation: input and output type, value, and the manual's bound in units of the result's last place,
/// relative, or absolute.
struct Approximation {
    instruction: &'static str,
    ty: &'static str,
    exact: fn(f64, f64) -> f64,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    /// 2 to this, of the value.
    Relative(f64),
    /// 2 to this.
    Absolute(f64),
    /// Units in the last place.
    Ulp(f64),
    /// 2 to this for arguments between 0.5 and 2; of the value for others.
    Logarithm(f64),
    /// 2 to the first within ±2π, to the second within ±100π.
    Angle(f64, f64),
}

use Bound::{Absolute, Angle, Logarithm, Relative, Ulp};

const fn of(instruction: &'static str, ty: &'static str, exact: fn(f64, f64) -> f64, bound: Bound) -> Approximation {
    Approximation { instruction, ty, exact, bound }
}

const ALL: [Approximation; 29] = [
    of("ex2.approx.f32", "f32", |x, _| x.exp2(), Ulp(2.0)),
    of("ex2.approx.ftz.f32", "f32", |x, _| x.exp2(), Ulp(2.0)),
    of("lg2.approx.f32", "f32", |x, _| x.log2(), Logarithm(-22.0)),
    of("lg2.approx.ftz.f32", "f32", |x, _| x.log2(), Logarithm(-22.0)),
    of("rcp.approx.f32", "f32", |x, _| 1.0 / x, Ulp(1.0)),
    of("rcp.approx.ftz.f32", "f32", |x, _| 1.0 / x, Ulp(1.0)),
    of("rsqrt.approx.f32", "f32", |x, _| 1.0 / x.sqrt(), Relative(-22.9)),
    of("rsqrt.approx.ftz.f32", "f32", |x, _| 1.0 / x.sqrt(), Relative(-22.9)),
    of("sqrt.approx.f32", "f32", |x, _| x.sqrt(), Relative(-23.0)),
    of("sqrt.approx.ftz.f32", "f32", |x, _| x.sqrt(), Relative(-23.0)),
    of("sin.approx.f32", "f32", |x, _| x.sin(), Angle(-20.5, -14.7)),
    of("sin.approx.ftz.f32", "f32", |x, _| x.sin(), Angle(-20.5, -14.7)),
    of("cos.approx.f32", "f32", |x, _| x.cos(), Angle(-20.5, -14.7)),
    of("cos.approx.ftz.f32", "f32", |x, _| x.cos(), Angle(-20.5, -14.7)),
    of("tanh.approx.f32", "f32", |x, _| x.tanh(), Relative(-11.0)),
    of("div.approx.f32", "f32", quotient, Ulp(2.0)),
    of("div.approx.ftz.f32", "f32", quotient, Ulp(2.0)),
    of("div.full.f32", "f32", |a, b| a / b, Ulp(2.0)),
    of("div.full.ftz.f32", "f32", |a, b| a / b, Ulp(2.0)),
    of("ex2.approx.f16", "f16", |x, _| x.exp2(), Relative(-9.9)),
    of("ex2.approx.f16x2", "f16", |x, _| x.exp2(), Relative(-9.9)),
    of("ex2.approx.ftz.bf16", "bf16", |x, _| x.exp2(), Relative(-7.0)),
    of("ex2.approx.ftz.bf16x2", "bf16", |x, _| x.exp2(), Relative(-7.0)),
    of("tanh.approx.f16", "f16", |x, _| x.tanh(), Absolute(-10.987)),
    of("tanh.approx.f16x2", "f16", |x, _| x.tanh(), Absolute(-10.987)),
    of("tanh.approx.bf16", "bf16", |x, _| x.tanh(), Absolute(-8.0)),
    of("tanh.approx.bf16x2", "bf16", |x, _| x.tanh(), Absolute(-8.0)),
    // The manual has no bounds for these: 20 bits are what their results hold.
    of("rcp.approx.ftz.f64", "f64", |x, _| 1.0 / x, Relative(-20.0)),
    of("rsqrt.approx.f64", "f64", |x, _| 1.0 / x.sqrt(), Relative(-20.0)),
];

/// `div.approx` of a divisor beyond 2^126 is a zero, or NaN.
fn quotient(a: f64, b: f64) -> f64 {
    if b.is_finite() && b.abs() > 2f64.powi(126) { a * (0.0 * b) } else { a / b }
}

const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";
const SWEEP: u64 = 1 << 20;
const STEP: u32 = 4099;

impl Approximation {
    fn two(&self) -> bool {
        self.instruction.starts_with("div")
    }

    fn bytes(&self) -> usize {
        if self.ty == "f64" { 8 } else { 4 }
    }

    /// Inputs of a sweep and their step: all of a half.
    fn sweep(&self) -> (u64, u32) {
        if matches!(self.ty, "f16" | "bf16") { (1 << 16, 1) } else { (SWEEP, STEP) }
    }

    fn entry(&self, name: &str) -> String {
        let (convert, class) = match self.ty {
            "f64" => ("mul.lo.u32 %b, %a, 0x9e3779b9; mov.b64 %u, {%b, %a};", "b64"),
            // Both halves of a pair are the same.
            _ if self.instruction.ends_with("x2") => ("mad.lo.u32 %u, %a, 0x10000, %a;", "b32"),
            "f16" | "bf16" => ("cvt.u16.u32 %u, %a;", "b16"),
            _ => ("mov.b32 %u, %a; mul.lo.u32 %b, %a, 0x9e3779b9; xor.b32 %v, %b, 0x5bd1e995;", "b32"),
        };
        let second = if self.two() { ", %v" } else { "" };
        let store = if class == "b16" {
            "cvt.u32.u16 %a, %d; st.global.b32 [%out], %a;".into()
        } else {
            format!("st.global.{class} [%out], %d;")
        };
        format!(
            ".visible .entry {name}(.param .u64 out, .param .u32 from, .param .u32 step) {{\n\
             .reg .b64 %out; .reg .b32 %a, %b, %i, %n; .reg .{class} %u, %v, %d;\n\
             ld.param.u64 %out, [out]; ld.param.u32 %a, [from]; ld.param.u32 %b, [step]; mov.u32 %i, %ctaid.x; mov.u32 %n, %tid.x; \
             mad.lo.u32 %i, %i, 256, %n; mad.wide.u32 %out, %i, {}, %out; mad.lo.u32 %a, %i, %b, %a;\n\
             {convert}\n{} %d, %u{second};\n{store} ret; }}\n",
            self.bytes(),
            self.instruction,
        )
    }

    /// The inputs of a thread.
    fn inputs(&self, bits: u32) -> (f64, f64) {
        let hash = bits.wrapping_mul(0x9e37_79b9);
        match self.ty {
            "f64" => (f64::from_bits(u64::from(bits) << 32 | u64::from(hash)), 0.0),
            "f32" => (f64::from(f32::from_bits(bits)), f64::from(f32::from_bits(hash ^ 0x5bd1_e995))),
            _ => (self.value(u64::from(bits & 0xffff)), 0.0),
        }
    }

    /// The value of a result.
    fn value(&self, bits: u64) -> f64 {
        match self.ty {
            "f64" => f64::from_bits(bits),
            "f32" => f64::from(f32::from_bits(bits as u32)),
            "bf16" => f64::from(f32::from_bits((bits as u32) << 16)),
            _ => f64::from(crate::recorded::half_value(bits as u16)),
        }
    }

    fn results(&self, bytes: &[u8]) -> Vec<u64> {
        let word = |b: &[u8]| b.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
        bytes.chunks(self.bytes()).map(word).collect()
    }

    /// Results of the engine for `threads` inputs.
    fn run(&self, from: u32, step: u32, threads: u64) -> Vec<u64> {
        let mut machine = Machine::new();
        let out = machine.alloc(threads * self.bytes() as u64).unwrap();
        let params = [&out.to_le_bytes()[..], &from.to_le_bytes(), &step.to_le_bytes()].concat();
        let launch = Launch {
            entry: "k",
            grid: [(threads / 256) as u32, 1, 1],
            block: [256, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
            cooperative: false,
            params: &params,
            options: Options { watch: false, ..Options::default() },
        };
        machine.launch(&program(&format!("{HEADER}{}", self.entry("k"))), &launch).unwrap();
        let mut bytes = vec![0; (threads * self.bytes() as u64) as usize];
        machine.read(out, &mut bytes).unwrap();
        self.results(&bytes)
    }
}

impl Approximation {
    /// Bits of the fraction, the exponent of the least normal number, and of the largest.
    fn shape(&self) -> (i32, i32, i32) {
        match self.ty {
            // They have the upper half of their results only.
            "f64" => (20, -1022, 1023),
            "f32" => (23, -126, 127),
            "bf16" => (7, -126, 127),
            _ => (10, -14, 15),
        }
    }

    fn flushed(&self, x: f64) -> f64 {
        let small = x.abs() < 2f64.powi(self.shape().1);
        if self.instruction.contains(".ftz") && small { x * 0.0 } else { x }
    }

    /// Distance of a result from the exact one, in parts of the bound; more than 1 is outside.
    fn error(&self, bits: u32, result: u64) -> f64 {
        let (fraction, least, most) = self.shape();
        let (x, y) = self.inputs(bits);
        let (x, y) = (self.flushed(x), self.flushed(y));
        let exact = (self.exact)(x, y);
        let found = self.value(result);
        let same = exact == found || exact.is_nan() && found.is_nan();
        // What rounds to infinity; what is flushed to zero.
        let over = exact.abs() >= 2f64.powi(most) * (2.0 - 2f64.powi(-fraction - 1))
            && found == exact.signum() * f64::INFINITY;
        let under = self.instruction.contains(".ftz") && exact.abs() < 2f64.powi(least) && found == 0.0;
        if same || over || under {
            return 0.0;
        }
        let unit = (exact.abs().log2().floor().max(f64::from(least)) - f64::from(fraction)).exp2();
        let bound = match self.bound {
            Relative(power) => (2f64.powf(power) * exact.abs()).max(unit),
            Absolute(power) => 2f64.powf(power).max(unit),
            Ulp(units) => units * unit,
            Logarithm(power) if (0.5..=2.0).contains(&x) => 2f64.powf(power),
            Logarithm(power) => 2f64.powf(power) * exact.abs(),
            Angle(power, _) if x.abs() <= std::f64::consts::TAU => 2f64.powf(power),
            Angle(_, power) if x.abs() <= 50.0 * std::f64::consts::TAU => 2f64.powf(power),
            // No error is defined beyond; a sine is none that is not between -1 and 1.
            Angle(..) => 2.0,
        };
        let parts = (exact - found).abs() / bound;
        if parts.is_nan() { f64::INFINITY } else { parts }
    }

    /// The largest error of results, with its input.
    fn worst(&self, from: u32, step: u32, results: &[u64]) -> (f64, u32) {
        let input = |i: usize| from.wrapping_add((i as u32).wrapping_mul(step));
        let errors = results.iter().enumerate().map(|(i, r)| (self.error(input(i), *r), input(i)));
        errors.fold((0.0, 0), |worst, next| if next.0 > worst.0 { next } else { worst })
    }
}

#[test]
fn approximations_are_inside_the_bounds() {
    for a in &ALL {
        let (threads, step) = a.sweep();
        // All inputs of 16 bits in any case.
        let part = if step == 1 { 1 } else { one_in(64) as u32 };
        let (threads, step) = (threads / u64::from(part), step * part);
        let (error, input) = a.worst(0, step, &a.run(0, step, threads));
        assert!(error <= 1.0, "{}: {error} of the bound at {input:#x}", a.instruction);
    }
}

#[test]
#[ignore = "takes minutes, in release builds"]
fn approximations_of_many_inputs_are_inside_the_bounds() {
    let step = std::env::var("PTX_SWEEP_STEP").map_or(31, |s| s.parse().unwrap());
    const PART: u64 = 1 << 21;
    for a in ALL.iter().filter(|a| !matches!(a.ty, "f16" | "bf16")) {
        let (mut worst, mut at) = ((0.0, 0), 0);
        while at < 1 << 32 {
            let from = at as u32;
            let found = a.worst(from, step, &a.run(from, step, PART));
            worst = if found.0 > worst.0 { found } else { worst };
            at += PART * u64::from(step);
        }
        println!("{}, every {step}th input: at most {:.3} of the bound, at {:#x}", a.instruction, worst.0, worst.1);
        assert!(worst.0 <= 1.0, "{}: {} of the bound at {:#x}", a.instruction, worst.0, worst.1);
    }
}

/// Writes what a GPU needs; compares with what one gave.
#[test]
fn sweeps_of_a_gpu() {
    let Ok(dir) = std::env::var("PTX_RECORD_SWEEP") else { return };
    let (mut text, mut list) = (HEADER.to_string(), String::new());
    for (at, a) in ALL.iter().enumerate() {
        text += &a.entry(&format!("a{at}"));
        let (threads, step) = a.sweep();
        writeln!(list, "{threads} {step} {} {}", a.bytes(), a.instruction).unwrap();
    }
    std::fs::write(format!("{dir}/sweep.ptx"), text).unwrap();
    std::fs::write(format!("{dir}/sweep.txt"), list).unwrap();
    let Ok(recorded) = std::fs::read(format!("{dir}/sweep.bin")) else { return };
    let mut rest = recorded.as_slice();
    println!(
        "| instruction | inputs | equal bits | largest distance, units in the last place | GPU: of the bound | ours |"
    );
    println!("|---|---|---|---|---|---|");
    for a in &ALL {
        let (threads, step) = a.sweep();
        let (own, more) = rest.split_at(threads as usize * a.bytes());
        rest = more;
        println!("{}", a.line(threads, step, &a.results(own), &a.run(0, step, threads)));
    }
}

impl Approximation {
    /// A line of the table.
    fn line(&self, threads: u64, step: u32, theirs: &[u64], ours: &[u64]) -> String {
        let equal = (0..ours.len()).filter(|i| ours[*i] == theirs[*i]).count();
        let distance = |i: usize| match (self.value(ours[i]), self.value(theirs[i])) {
            (a, b) if a == b || a.is_nan() && b.is_nan() => 0.0,
            (a, b) => {
                let (fraction, least, _) = self.shape();
                (a - b).abs() / (a.abs().log2().floor().max(f64::from(least)) - f64::from(fraction)).exp2()
            }
        };
        let worst = (0..ours.len()).map(|i| (distance(i), i)).fold((0.0, 0), |w, n| if n.0 > w.0 { n } else { w });
        let (bound, ours) = (self.worst(0, step, theirs), self.worst(0, step, ours));
        format!(
            "| `{}` | {threads} | {:.1} % | {:.1} (at {:#x}) | {:.2} (at {:#x}) | {:.2} |",
            self.instruction,
            equal as f64 * 100.0 / threads as f64,
            worst.0,
            worst.1 as u32 * step,
            bound.0,
            bound.1,
            ours.0
        )
    }
}

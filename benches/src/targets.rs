//! The project's targets for its kernels on an H200, as data, and the check of a run against them. No kernel is
//! measured here.

use crate::machine::Machine;
use crate::results::{Pair, geometric_mean};
use std::fmt;

/// All row-wise kernels.
pub const ALL_ROWS: &[&str] = &[
    "rms_norm f32",
    "rms_norm bf16",
    "layer_norm f32",
    "layer_norm bf16",
    "softmax f32",
    "softmax bf16",
    "swiglu f32",
    "swiglu bf16",
];

/// A target for some kernels.
pub struct Target {
    /// Those whose name is one of these.
    pub kernels: &'static [&'static str],
    /// Only sizes that contain one of these; all without any.
    pub sizes: &'static [&'static str],
    demands: &'static [Demand],
}

/// Ratios that are demanded against something: the geometric mean, and every single one.
struct Demand {
    against: Against,
    mean: f64,
    least: f64,
}

/// The rate that divides ours.
enum Against {
    /// The best of these rivals, whose names begin so.
    Rivals(&'static [&'static str]),
    /// The bandwidth of a copy in the same run.
    Copy,
}

/// Every single ratio at least this.
const fn each(against: Against, least: f64) -> Demand {
    Demand { against, mean: 0.0, least }
}

/// The promises.
pub const TARGETS: &[Target] = &[
    // Nothing is promised of a copy, but the others are seen beside it.
    Target { kernels: &["copy f32"], sizes: &[], demands: &[] },
    Target {
        kernels: &["gemm bf16"],
        sizes: &[],
        demands: &[
            Demand { against: Against::Rivals(&["cuBLASLt"]), mean: 1.03, least: 0.97 },
            each(Against::Rivals(&["pyptx"]), 1.0),
        ],
    },
    Target { kernels: &["gemm e4m3"], sizes: &[], demands: &[each(Against::Rivals(&["cuBLASLt"]), 1.0)] },
    Target { kernels: &["grouped gemm f32"], sizes: &[], demands: &[each(Against::Rivals(&["pyptx"]), 2.0)] },
    Target { kernels: &["grouped gemm bf16"], sizes: &[], demands: &[each(Against::Rivals(&["cuBLAS grouped"]), 1.0)] },
    Target {
        kernels: &["attention bf16"],
        sizes: &[],
        demands: &[Demand { against: Against::Rivals(&["FlashAttention-3", "cuDNN"]), mean: 1.03, least: 0.97 }],
    },
    Target { kernels: &["attention e4m3"], sizes: &[], demands: &[each(Against::Rivals(&["FlashAttention-3"]), 1.0)] },
    Target {
        kernels: &["attention backward bf16"],
        sizes: &[],
        demands: &[Demand { against: Against::Rivals(&["FlashAttention-3"]), mean: 1.03, least: 0.97 }],
    },
    // A largest error of at most 1.1 times the rival's.
    Target {
        kernels: &["attention error O", "attention error dQ", "attention error dK", "attention error dV"],
        sizes: &[],
        demands: &[each(Against::Rivals(&["FlashAttention-3"]), 1.0 / 1.1)],
    },
    Target {
        kernels: &["decode bf16"],
        sizes: &[],
        demands: &[each(Against::Copy, 0.95), each(Against::Rivals(&["FlashInfer"]), 1.05)],
    },
    Target {
        kernels: ALL_ROWS,
        sizes: &[],
        demands: &[each(Against::Copy, 0.95), each(Against::Rivals(&["torch.compile"]), 1.0)],
    },
    Target {
        kernels: &["gemm bf16 sm_80"],
        sizes: &["4096x4096x4096"],
        demands: &[each(Against::Rivals(&["CUTLASS"]), 0.95)],
    },
];

impl Target {
    /// Returns true if it is about a kernel at a size.
    pub fn has(&self, kernel: &str, size: &str) -> bool {
        self.kernels.contains(&kernel) && (self.sizes.is_empty() || self.sizes.contains(&size))
    }
}

impl Against {
    /// The rate of the rival of a pair, if it was measured.
    fn rate(&self, pair: &Pair<'_>, machine: &Machine) -> Option<f64> {
        let rate = match self {
            Against::Copy => machine.copy,
            Against::Rivals(names) => {
                let rivals = pair.measured().filter(|rival| names.iter().any(|name| begins(&rival.contestant, name)));
                rivals.map(|rival| rival.rate).fold(0.0, f64::max)
            }
        };
        (rate > 0.0).then_some(rate)
    }
}

/// `CUTLASS 128x256x32` begins with `CUTLASS`; `cuBLASLt` does not with `cuBLAS`.
fn begins(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Against::Copy => f.write_str("copy bandwidth"),
            Against::Rivals(names) => f.write_str(&names.join(" or ")),
        }
    }
}

/// The table of `verdicts`.
pub fn table(pairs: &[Pair<'_>], machine: &Machine) -> String {
    struct Table<'r>(&'r [Pair<'r>], &'r Machine);
    impl fmt::Display for Table<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            verdicts(f, self.0, self.1)
        }
    }
    Table(pairs, machine).to_string()
}

/// A line for each demand on each kernel: kept, missed, or not measured.
pub fn verdicts(f: &mut fmt::Formatter<'_>, pairs: &[Pair<'_>], machine: &Machine) -> fmt::Result {
    writeln!(
        f,
        "### targets\n\n| kernel | against | geometric mean | least | sizes | |\n|---|---|---:|---:|---:|---|"
    )?;
    for target in TARGETS {
        for kernel in target.kernels {
            let of = || pairs.iter().filter(|pair| pair.kernel == *kernel && target.has(kernel, pair.size));
            for demand in target.demands {
                verdict(f, kernel, demand, &of().collect::<Vec<_>>(), machine)?;
            }
        }
    }
    writeln!(f)
}

fn verdict(
    f: &mut fmt::Formatter<'_>,
    kernel: &str,
    Demand { against, mean, least }: &Demand,
    pairs: &[&Pair<'_>],
    machine: &Machine,
) -> fmt::Result {
    let ratios = pairs.iter().filter_map(|pair| Some((pair.ours?.rate / against.rate(pair, machine)?, pair.size)));
    let ratios: Vec<(f64, &str)> = ratios.collect();
    let measured = geometric_mean(&ratios.iter().map(|(ratio, _)| *ratio).collect::<Vec<_>>());
    let worst = ratios.iter().copied().min_by(|x, y| x.0.total_cmp(&y.0));
    let (Some(is), Some((lowest, size))) = (measured, worst) else {
        return writeln!(f, "| {kernel} | {against} | | | 0 of {} | not measured |", pairs.len());
    };
    let word = if is >= *mean && lowest >= *least { "PASS" } else { "MISS" };
    let asked = |bound: f64| if bound > 0.0 { format!(" (≥ {bound:.2})") } else { String::new() };
    writeln!(
        f,
        "| {kernel} | {against} | {is:.3}{} | {lowest:.3}{} at {size} | {} of {} | {word} |",
        asked(*mean),
        asked(*least),
        ratios.len(),
        pairs.len()
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::machine::Machine;
    use crate::results::{Entry, Results};

    fn entry(kernel: &str, size: &str, contestant: &str, rate: f64) -> Entry {
        let (kernel, size, contestant) = (kernel.to_owned(), size.to_owned(), contestant.to_owned());
        Entry { kernel, size, ours: contestant == "ours", contestant, rate, right: true, ..Entry::default() }
    }

    fn said(entries: Vec<Entry>, words: &str) -> String {
        let machine = Machine { copy: 4000.0, ..Machine::default() };
        let text = Results { machine, entries, ..Results::default() }.to_string();
        text.lines().find(|line| line.starts_with(words)).unwrap().to_owned()
    }

    #[test]
    fn a_target_is_kept_missed_or_not_measured() {
        let entries = |second: f64| {
            vec![
                entry("gemm bf16", "a", "ours", 110.0),
                entry("gemm bf16", "a", "cuBLASLt", 100.0),
                entry("gemm bf16", "a", "cuBLAS", 300.0),
                entry("gemm bf16", "b", "ours", second),
                entry("gemm bf16", "b", "cuBLASLt", 100.0),
                Entry { why: Some("not here".to_owned()), ..entry("gemm bf16", "b", "pyptx", 0.0) },
            ]
        };
        assert_eq!(
            said(entries(98.0), "| gemm bf16 | cuBLASLt"),
            "| gemm bf16 | cuBLASLt | 1.038 (≥ 1.03) | 0.980 (≥ 0.97) at b | 2 of 2 | PASS |"
        );
        assert!(said(entries(96.9), "| gemm bf16 | cuBLASLt").ends_with("| MISS |"));
        assert_eq!(said(entries(1.0), "| gemm bf16 | pyptx"), "| gemm bf16 | pyptx | | | 0 of 2 | not measured |");
    }

    #[test]
    fn rows_are_held_to_the_copy_of_the_same_run() {
        let entries =
            |rate| vec![entry("softmax f32", "a", "ours", rate), entry("softmax f32", "a", "torch.compile", 9.0)];
        assert!(said(entries(3800.0), "| softmax f32 | copy").ends_with("| PASS |"));
        assert!(said(entries(3799.0), "| softmax f32 | copy").ends_with("| MISS |"));
        assert!(said(entries(3799.0), "| softmax f32 | torch").ends_with("| PASS |"));
    }

    #[test]
    fn a_wrong_result_has_no_rate() {
        let wrong = Entry { right: false, ..entry("gemm e4m3", "a", "ours", 9.0) };
        assert!(said(vec![wrong], "WRONG").contains("gemm e4m3"));
    }
}

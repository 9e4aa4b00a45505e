//! Accesses by registers that stay in a range, whatever the turns of the loops are; each mutant is proved no more.

use ptx_jit::Source;

/// A kernel: its options, what comes behind its name, and mutants.
struct Kernel {
    options: &'static str,
    text: &'static str,
    mutants: &'static [(&'static str, &'static str)],
}

const KERNELS: [Kernel; 5] = [
    // A ring that an inner loop turns, and the stage before.
    Kernel {
        options: "block = 32, grid = 1",
        text: "(n: u32, k: u32) {
            #[shared] let ring: [u32; 128];
            let (mut stage, mut last, mut tile): (u32, u32, u32) = (0, 0, 0);
            while tile < n {
                let mut at: u32 = 0;
                while at < k {
                    let to: u32 = ring + (stage * 32 + tid.x) * 4;
                    ptx! { st.shared.u32 [to], 0; }
                    last = stage;
                    stage += 1;
                    if stage == 4 { stage = 0; }
                    at += 1;
                }
                let to: u32 = ring + (last * 32 + tid.x) * 4;
                ptx! { st.shared.u32 [to], 0; }
                tile += 1;
            }
        }",
        mutants: &[
            ("stage == 4", "stage == 5"),
            ("stage += 1", "stage += 2"),
            ("stage = 0;", "stage = 4;"),
            ("last = stage;", "last = stage + 1;"),
            ("mut tile): (u32, u32, u32) = (0, 0, 0)", "mut tile): (u32, u32, u32) = (4, 0, 0)"),
            ("ring: [u32; 128]", "ring: [u32; 127]"),
        ],
    },
    // The numbers of a ring of counters from any of them on.
    Kernel {
        options: "block = 1, grid = 1, requires(x.len() >= 16, y.len() >= 1)",
        text: "(x: &mut [u32], y: &[u32]) {
            let mut at: u32;
            ptx! { ld.global.u32 at, [y]; }
            at = at & 15;
            loop {
                let (counter, number): (GlobalMut<u32>, u32);
                counter = x.at(at);
                ptx! { atom.global.add.u32 number, [counter], 1; }
                if number < 7 { break; }
                at = (at + 1) & 15;
            }
        }",
        mutants: &[
            ("at = at & 15", "at = at & 31"),
            ("(at + 1) & 15", "(at + 1) & 31"),
            ("(at + 1) & 15", "at + 1"),
            ("x.len() >= 16", "x.len() >= 15"),
        ],
    },
    // A number that is below zero for other threads than those that come here.
    Kernel {
        options: "block = 64, grid = 1, requires(n < 32, x.len() >= 8)",
        text: "(x: &mut [u32], n: u32) {
            if tid.x / 32 != 0 {
                let at = x.at(((tid.x / 32 - 1) * 32 + n) >> 2);
                ptx! { red.global.add.u32 [at], 1; }
            }
        }",
        mutants: &[("tid.x / 32 != 0", "tid.x / 32 != 5"), ("n < 32", "n < 33"), ("tid.x / 32 - 1", "tid.x / 32")],
    },
    // The multiprocessor of a block has any number.
    Kernel {
        options: "block = 1, grid = 1, requires(x.len() >= 256)",
        text: "(x: &mut [u32]) {
            let mut sm: u32;
            sm = smid;
            ptx! { min.u32 sm, sm, 255; }
            let at = x.at(sm);
            ptx! { red.global.add.u32 [at], 1; }
        }",
        mutants: &[("sm, 255", "sm, 256"), ("ptx! { min.u32 sm, sm, 255; }", "")],
    },
    // What holds in a loop does not hold for the first value, which comes to it on another way.
    Kernel {
        options: "block = 1, grid = 1, requires(x.len() >= 8)",
        text: "(x: &mut [u32], a: u32, b: u32) {
            let mut i: u32 = a - b;
            while a >= b {
                if i >= 100 { break; }
                i += 1;
            }
            if a > b {
                let at = x.at(i & 7);
                ptx! { red.global.add.u32 [at], 1; }
            }
        }",
        mutants: &[(
            "if a > b {\n                let at = x.at(i & 7)",
            "if a < b {\n                let at = x.at(i & 8)",
        )],
    },
];

/// The error of a kernel that is not proved.
fn error(kernel: &Kernel, (old, new): (&str, &str)) -> Option<String> {
    let Kernel { options, text, .. } = kernel;
    let text = format!("#[ptx_kernel(arch = \"sm_90\", {options}, proved(bounds))] pub fn k{text}");
    assert!(old.is_empty() || text.contains(old), "{old}");
    let text = if old.is_empty() { text } else { text.replacen(old, new, 1) };
    Source::text("k.rs", &text).compile().err().map(|error| error.to_string())
}

#[test]
fn registers_stay_in_their_ranges() {
    for kernel in &KERNELS {
        assert_eq!(error(kernel, ("", "")), None, "{}", kernel.text);
        for mutant in kernel.mutants {
            let error = error(kernel, *mutant).unwrap_or_else(|| panic!("proved: {mutant:?}"));
            assert!(error.contains("bounds are not decided") || error.contains("[P09"), "{mutant:?}\n{error}");
        }
    }
}

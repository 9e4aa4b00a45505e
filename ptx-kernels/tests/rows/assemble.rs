//! ptxas assembles every kernel for every chip.

use crate::from_text;
use ptx_kernels::{activation, cross_entropy, norm, rotary, softmax};
use std::path::Path;
use std::process::Command;

/// Kernels that spill: two registers that one thread uses once per row.
const MAY_SPILL: [&str; 1] = ["norm_backward_hopper"];

const ALL: [&[(&str, &str)]; 5] =
    [activation::MODULES, cross_entropy::MODULES, norm::MODULES, rotary::MODULES, softmax::MODULES];

#[test]
fn kernels_from_text_are_the_same() {
    let texts: Vec<_> = ALL.concat().into_iter().map(|(name, ptx)| (name.to_owned(), ptx)).collect();
    from_text::compare(&["activation", "cross_entropy", "norm", "rotary", "softmax"], &["rotate"], &texts);
}

#[test]
#[ignore = "needs ptxas: PTXAS=/path/to/ptxas cargo test -p ptx-kernels --test rows -- --ignored assembles"]
fn every_module_assembles() {
    let ptxas = std::env::var("PTXAS").unwrap_or_else(|_| "ptxas".to_owned());
    for (name, ptx) in ALL.concat() {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.ptx"));
        std::fs::write(&file, ptx).unwrap();
        let own = ptx.lines().find_map(|line| line.strip_prefix(".target sm_")).unwrap();
        let own: u32 = own.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
        for target in [75, 80, 90, 100, 120].into_iter().filter(|target| *target >= own) {
            let arch = format!("-arch=sm_{target}");
            let run = Command::new(&ptxas).args(["-v", &arch, "-o", "/dev/null"]).arg(&file).output().unwrap();
            let log = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{name} for sm_{target}: {log}");
            let spills = log.lines().filter(|line| line.contains("spill") && !line.contains(" 0 bytes spill stores"));
            let spills: Vec<_> = spills.collect();
            assert!(spills.is_empty() || MAY_SPILL.contains(&name), "{name} for sm_{target}: {spills:?}");
            println!("{name} for sm_{target}: {} kernels spill", spills.len());
        }
    }
}

//! ptxas assembles every kernel for every target, without spills. `PTX_MODULES` names a part of them.

use crate::from_text;
use ptx_kernels::grouped_gemm::{blackwell, gradient, hopper};
use ptx_launch::Module;
use std::path::Path;
use std::process::Command;

/// The name and the PTX of every module for each of its targets.
fn texts() -> Vec<(String, &'static str)> {
    let grouped: [(&str, &'static Module); 3] = [
        ("grouped_gemm", &hopper::kernels::MODULE),
        ("grouped_gradient", &gradient::kernels::MODULE),
        ("grouped_blackwell", &blackwell::kernels::MODULE),
    ];
    let all = ptx_kernels::gemm::modules().chain(grouped);
    let named = |(name, module): (&str, &'static Module)| {
        let texts = module.texts().unwrap().into_iter();
        texts.map(|(arch, ptx)| (format!("{name}_{arch}"), ptx)).collect::<Vec<_>>()
    };
    all.flat_map(named).collect()
}

#[test]
fn kernels_from_text_are_the_same() {
    from_text::compare(&["gemm", "grouped_gemm"], &["pack", "probe"], &texts());
}

#[test]
#[ignore = "needs ptxas: PTXAS=/path/to/ptxas cargo test -p ptx-kernels --test gemm -- --ignored assembles"]
fn every_module_assembles_without_spills() {
    let ptxas = std::env::var("PTXAS").unwrap_or_else(|_| "ptxas".to_owned());
    let wanted = std::env::var("PTX_MODULES").unwrap_or_default();
    for (name, ptx) in texts().into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.ptx"));
        std::fs::write(&file, ptx).unwrap();
        let own = ptx.lines().find_map(|line| line.strip_prefix(".target sm_")).unwrap();
        let own = own.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let later = ["75", "80", "86", "89", "90", "100", "120"].into_iter();
        let targets: Vec<&str> = match own.parse::<u32>() {
            Ok(least) => later.filter(|target| target.parse::<u32>().unwrap() >= least).collect(),
            // Kernels of one architecture alone: `90a`.
            Err(_) => vec![own],
        };
        for target in targets {
            let arch = format!("-arch=sm_{target}");
            let run = Command::new(&ptxas).args(["-v", &arch, "-o", "/dev/null"]).arg(&file).output().unwrap();
            let log = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{name} for sm_{target}: {log}");
            let spills: Vec<_> =
                log.lines().filter(|line| line.contains("spill") && !line.contains(" 0 bytes spill stores")).collect();
            assert!(spills.is_empty(), "{name} for sm_{target}: {spills:?}");
            let registers =
                log.lines().filter_map(|line| line.split("Used ").nth(1)?.split(' ').next()?.parse::<u32>().ok());
            println!("{name} sm_{target}: at most {} registers", registers.max().unwrap_or(0));
        }
    }
}

//! ptxas assembles every kernel for every target, without spills.

use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs ptxas: PTXAS=/path/to/ptxas cargo test -p ptx-kernels --test gemm -- --ignored assembles"]
fn every_module_assembles_without_spills() {
    let ptxas = std::env::var("PTXAS").unwrap_or_else(|_| "ptxas".to_owned());
    for (name, ptx) in ptx_kernels::gemm::modules() {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.ptx"));
        std::fs::write(&file, ptx).unwrap();
        let own = ptx.lines().find_map(|line| line.strip_prefix(".target sm_")).unwrap();
        let own: String = own.chars().take_while(char::is_ascii_digit).collect();
        for target in
            [75u32, 80, 86, 89, 90, 100, 120].into_iter().filter(|target| *target >= own.parse::<u32>().unwrap())
        {
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

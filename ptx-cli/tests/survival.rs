//! The commands survive anything: files are replaced whole, time and memory grow with the input and no faster, and what is too
//! large ends in an error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use ptx_expand::temp_dir::TempDir;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Not as `ptx fmt` would have it.
const LOOSE: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k( )\n{\nret ;\n}\n";

/// An empty folder of its own for each test.
fn folder() -> TempDir {
    TempDir::new("ptx-test").unwrap()
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn ptx(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ptx")).args(args).output().unwrap()
}

/// The exit code, what went to standard output, and what to standard error.
fn said(args: &[&str]) -> (i32, String, String) {
    let output = ptx(args);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn kernel(body: &str) -> String {
    format!(
        "{HEADER}.visible .entry k()\n{{\n.reg .s32 %r<4>;\n.reg .pred %p<3>;\nmov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    )
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
#[cfg(unix)]
fn fmt_replaces_files_whole_and_keeps_permissions_and_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder();
    let name = file(folder.path(), "a.ptx", LOOSE);
    std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o640)).unwrap();
    // Who has the old file open, here by a second name, still has the old bytes: nothing was written into it.
    std::fs::hard_link(&name, folder.path().join("old")).unwrap();
    symlink("a.ptx", folder.path().join("link.ptx")).unwrap();
    let link = folder.path().join("link.ptx");
    assert_eq!(said(&["fmt", link.to_str().unwrap()]), (0, String::new(), String::new()));
    assert!(link.is_symlink());
    assert_ne!(std::fs::read_to_string(&name).unwrap(), LOOSE);
    assert_eq!(std::fs::read_to_string(folder.path().join("old")).unwrap(), LOOSE);
    assert_eq!(std::fs::metadata(&name).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(folder.path()), ["a.ptx", "link.ptx", "old"]);
}

#[test]
#[cfg(unix)]
fn a_file_that_is_read_only_stays() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let name = file(folder.path(), "a.ptx", LOOSE);
    std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o444)).unwrap();
    let (code, _, err) = said(&["fmt", &name]);
    assert!(code == 2 && err.contains("a.ptx: permission denied"), "{err}");
    assert_eq!(std::fs::read_to_string(&name).unwrap(), LOOSE);
    assert_eq!(names(folder.path()), ["a.ptx"]);
}

#[test]
#[cfg(unix)]
fn transpile_never_replaces_its_input() {
    let folder = folder();
    let name = file(folder.path(), "a.ptx", LOOSE);
    std::os::unix::fs::symlink("a.ptx", folder.path().join("link.rs")).unwrap();
    for output in ["a.ptx", "./a.ptx", "link.rs"] {
        let output = folder.path().join(output);
        let (code, _, err) = said(&["transpile", &name, "-o", output.to_str().unwrap()]);
        assert!(code == 2 && err.contains("this is the input"), "{err}");
        assert_eq!(std::fs::read_to_string(&name).unwrap(), LOOSE);
    }
    let (other, rust) = (file(folder.path(), "b.ptx", LOOSE), folder.path().join("out.rs"));
    let (code, _, err) = said(&["transpile", &name, &other, "-o", rust.to_str().unwrap()]);
    assert!(code == 2 && err.contains("`--output` takes the Rust of one file"), "{err}");
    let buffer = format!("{name}:16");
    let (code, _, err) = said(&["run", &name, "--arg", &buffer]);
    assert!(code == 2 && err.contains("this is the PTX"), "{err}");
    assert_eq!(said(&["transpile", &name, "-o", "/dev/null"]).0, 0);
    assert_eq!(said(&["transpile", &name, "-o", rust.to_str().unwrap()]).0, 0);
    assert_eq!(names(folder.path()), ["a.ptx", "b.ptx", "link.rs", "out.rs"]);
}

#[test]
fn modules_are_never_called_as_keywords_are() {
    let folder = folder();
    for (stem, module) in [
        ("type", "type_"),
        ("self", "self_"),
        ("crate", "crate_"),
        ("async", "async_"),
        ("1x", "_1x"),
        ("_", "__"),
        ("a-b", "a_b"),
        ("Self", "self_"),
    ] {
        let name = file(folder.path(), &format!("{stem}.ptx"), LOOSE);
        for sugar in [&[][..], &["--sugar"]] {
            let (code, rust, err) = said(&[&["transpile", &name], sugar].concat());
            assert!(code == 0 && rust.contains(&format!("pub mod {module} {{")), "{stem}: {err}{rust}");
        }
    }
    let name = file(folder.path(), "a.ptx", LOOSE);
    let (code, _, err) = said(&["transpile", &name, "--name", "type"]);
    assert!(code == 2 && err.contains("`type` is a keyword of Rust; `r#type` is a name"), "{err}");
    for bad in ["a b", "", "self", "r#self", "1a", "a::b", "_"] {
        assert_eq!(said(&["transpile", &name, "--name", bad]).0, 2, "{bad}");
    }
    let (code, rust, _) = said(&["transpile", &name, "--name", "r#type"]);
    assert!(code == 0 && rust.contains("pub mod r#type {"), "{rust}");
}

#[test]
fn check_takes_folders() {
    let folder = folder();
    let inner = folder.path().join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    file(&inner, "wrong.ptx", &kernel("frob %r1;"));
    file(folder.path(), "right.ptx", LOOSE);
    file(folder.path(), "other.txt", "no PTX");
    let (code, out, _) = said(&["check", folder.path().to_str().unwrap()]);
    assert!(code == 1 && out.contains("wrong.ptx") && !out.contains("right.ptx"), "{out}");
    let empty = folder.path().join("empty");
    std::fs::create_dir_all(&empty).unwrap();
    assert_eq!(said(&["check", empty.to_str().unwrap()]).0, 2);
}

#[test]
fn check_takes_modules_that_will_be_linked() {
    let text = format!(
        "{HEADER}.extern .global .u32 table[];\n.extern .func f();\n.visible .entry k()\n{{\n.reg .b64 %rd<3>;\ncall f;\n\
         mov.u64 %rd1, table;\nmov.u64 %rd2, f;\nret;\n}}\n"
    );
    let folder = folder();
    let name = file(folder.path(), "a.ptx", &text);
    let (code, out, _) = said(&["check", &name]);
    assert!(code == 1 && out.contains("P0613") && out.contains("P0607"), "{out}");
    assert_eq!(said(&["check", "--relocatable", &name]), (0, String::new(), String::new()));
    let unfinished = text.replace(".extern .func", ".func");
    let name = file(folder.path(), "unfinished.ptx", &unfinished);
    let (code, out, _) = said(&["check", "--relocatable", &name]);
    assert!(code == 1 && out.contains("P0613"), "{out}");
}

#[test]
fn check_takes_the_chip_that_a_module_is_assembled_for() {
    let folder = folder();
    let name = |target: &str| {
        let text = format!(".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n");
        file(folder.path(), "a.ptx", &text)
    };
    // As ptxas decides.
    let cases = [
        ("sm_90", "sm_100", true),
        ("sm_100", "sm_90", false),
        ("sm_100f", "sm_100", true),
        ("sm_100f", "sm_103a", true),
        ("sm_100f", "sm_110", false),
        ("sm_103f", "sm_100", false),
        ("sm_90a", "sm_90a", true),
        ("sm_90a", "sm_90", false),
        ("sm_90a", "sm_100a", false),
        ("sm_100a", "sm_100f", false),
    ];
    for (target, chip, fits) in cases {
        let (code, out, _) = said(&["check", "--chip", chip, &name(target)]);
        assert_eq!((code == 0, out.contains("P0401")), (fits, !fits), "{target} for {chip}: {out}");
    }
}

#[test]
fn a_chip_that_nothing_is_assembled_for_is_refused() {
    let folder = folder();
    let text = ".version 5.0\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }\n";
    let name = file(folder.path(), "a.ptx", text);
    for target in &ptx_core::isa::table().targets {
        let chip = target.arch.to_string();
        let (code, _, err) = said(&["check", "--chip", &chip, &name]);
        let refused = err.contains(&format!("ptxas 13 has no target `{chip}`"));
        assert_eq!((code != 2, refused), (target.assembled, !target.assembled), "{chip}: {err}");
    }
}

#[test]
fn people_read_a_hundred_findings_and_tools_all() {
    let body: String = (0..250).map(|n| format!("L{n}:\n")).collect();
    let folder = folder();
    let name = file(folder.path(), "a.ptx", &kernel(&body));
    let (code, out, _) = said(&["check", &name]);
    assert_eq!((code, out.matches("warning[P0504]").count()), (0, 100));
    assert!(out.ends_with("a.ptx: and 150 warnings more\n"), "{out}");
    assert_eq!(said(&["check", "--most", "0", &name]).1.matches("warning[P0504]").count(), 250);
    assert_eq!(said(&["check", "--format", "json", &name]).1.lines().count(), 250);
    // Errors come first, wherever they stand.
    let body = format!("ld.volatile.relaxed.sys.u32 %r1, [%r2];\n{}", "frob %r1;\n".repeat(101));
    let name = file(folder.path(), "errors.ptx", &kernel(&body));
    let (code, out, _) = said(&["check", "--most", "2", &name]);
    assert!(code == 1 && out.matches("error[").count() == 2, "{out}");
}

#[test]
fn a_grid_that_would_run_for_hours_is_refused() {
    let folder = folder();
    let name = file(folder.path(), "a.ptx", LOOSE);
    let (code, _, err) = said(&["run", &name, "--grid", "2147483647"]);
    assert!(code == 2 && err.contains("a grid of 2147483647 warps") && err.contains("`--steps`"), "{err}");
    assert_eq!(said(&["run", &name, "--grid", "2147483647,65535,65535", "--block", "1024"]).0, 2);
    assert_eq!(said(&["run", &name, "--grid", "1000", "--steps", "5000"]).0, 0);
}

/// A kernel that would fail at once: nothing is written where the buffer is not refused.
#[test]
#[cfg(target_os = "linux")]
fn buffers_that_this_machine_cannot_hold_are_refused() {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let bytes = total.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024 / 4 * 3;
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) { trap; ret; }\n";
    let folder = folder();
    let (name, output) = (file(folder.path(), "a.ptx", text), folder.path().join("out.bin"));
    let run = |bytes: u64| said(&["run", &name, "--arg", &format!("{}:{bytes}", output.display())]);
    let (code, _, err) = run(bytes);
    assert!(code == 2 && err.contains("bytes of global memory were asked for"), "{err}");
    assert_eq!(run(1 << 16).0, 1);
    assert!(!output.exists());
}

#[test]
fn textures_that_no_memory_holds_are_refused() {
    let folder = folder();
    let text = format!("{HEADER}.visible .entry k(.param .u64 t)\n{{\nret;\n}}\n");
    let (name, texels) = (file(folder.path(), "a.ptx", &text), file(folder.path(), "t.bin", "0123456789abcdef"));
    for shape in
        ["u8x4:4294967295,4294967295,4294967295", "u32x4:65536,65536,1073741824", "u8:0,4", "f32x3:1", "f32x0:1"]
    {
        let argument = format!("tex:{shape}@{texels}");
        let (code, _, err) = said(&["run", &name, "--arg", &argument]);
        assert!(code == 2 && (err.contains("no size of a texture") || err.contains("channels")), "{shape}: {err}");
    }
    assert_eq!(said(&["run", &name, "--arg", &format!("tex:u8x4:2,2@{texels}")]).0, 0);
}

/// The build of the tests checks arithmetic, so that a size that wraps is a panic.
#[test]
fn sizes_in_the_text_overflow_nowhere() {
    let folder = folder();
    let texts = [
        ".shared .b64 a[4294967295][4294967295]; .visible .entry k() { ret; }",
        ".visible .entry k() .maxntid 4294967295, 4294967295, 4294967295 { ret; }",
        ".visible .entry k() .maxnreg 4294967295 { ret; }",
        ".visible .entry k() .reqntid 9223372036854775807, 3 { ret; }",
        ".visible .entry k(.param .b64 a[2305843009213693952]) { .local .b64 b[2305843009213693952]; ret; }",
    ];
    let commands: [&[&str]; 5] = [
        &["check"],
        &["transpile", "--sugar"],
        &["run", "--block", "32"],
        &["profile", "--grid", "1", "--block", "32"],
        &["prove", "--block", "32"],
    ];
    for text in texts {
        let name = file(folder.path(), "a.ptx", &format!("{HEADER}{text}\n"));
        for command in commands {
            let (code, _, err) = said(&[command, &[&name]].concat());
            assert!((0..=3).contains(&code) && !err.contains("panicked"), "{text}: {command:?}: {code}: {err}");
        }
    }
}

/// A condition of conditions, and a product of sums: each line would double what the prover has to read.
#[test]
fn proofs_of_long_conditions_end_soon() {
    let folder = folder();
    let head = "ld.param.u64 %d, [p];\nmov.u32 %r1, %ctaid.x;\nsetp.gt.u32 %p1, %r1, 5;\nmov.u32 %r3, %r1;\n";
    let conditions = repeat(80, |at| format!("setp.lt.u32 %p2, %r1, {};\nxor.pred %p1, %p1, %p2;\n", 7 * at + 9));
    let sums = repeat(80, |at| format!("ld.global.u32 %r2, [%d+{}];\nadd.s32 %r3, %r3, %r2;\n", 4 * at));
    let product = "mul.lo.s32 %r2, %r3, %r3;\nmul.lo.s32 %r3, %r2, %r3;\nmad.lo.s32 %r3, %r3, %r2, %r3;\n";
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p)\n{{\n.reg .pred %p<3>;\n.reg .b32 %r<4>;\n.reg .b64 %d;\n\
         {head}{conditions}{sums}{product}@%p1 st.global.u32 [%d], %r3;\nret;\n}}\n"
    );
    let name = file(folder.path(), "a.ptx", &text);
    let start = Instant::now();
    let (code, out, err) = said(&["prove", "--block", "32", "--grid", "n", &name]);
    assert!(code != 0 && out.contains("unknown"), "{code}: {out}{err}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Time of a command on a file.
fn time(folder: &Path, text: &str, args: &[&str]) -> Duration {
    let is_rust = text.starts_with("use ");
    let name = file(folder, if is_rust { "input.rs" } else { "input.ptx" }, text);
    let args: Vec<&str> = args.iter().copied().chain([name.as_str()]).collect();
    let start = Instant::now();
    let code = ptx(&args).status.code();
    assert!(matches!(code, Some(0 | 1)), "{args:?} ended with {code:?}");
    start.elapsed()
}

/// Sixteen times the input may take some 60 times as long, which no machine is so busy for; squared it would be 256 times.
#[track_caller]
fn is_linear(name: &str, args: &[&str], n: usize, text: impl Fn(usize) -> String) {
    let folder = folder();
    // The start of the process is no work on the input.
    let least = Duration::from_millis(20);
    // A machine may be busy with something else while it is measured.
    let fits = (0..3).any(|_| {
        let (little, much) = (time(folder.path(), &text(n), args), time(folder.path(), &text(16 * n), args));
        println!("{name}: {n} in {little:?}, {} in {much:?}", 16 * n);
        much < least.max(little) * 60
    });
    assert!(fits, "{name}: see the times above");
}

fn repeat(n: usize, one: impl Fn(usize) -> String) -> String {
    (0..n).fold(String::new(), |mut text, at| {
        let _ = write!(text, "{}", one(at));
        text
    })
}

#[test]
fn many_errors_on_one_line_take_linear_time() {
    let text = |n| kernel(&repeat(n, |_| "add.s32 %r1, %q, 1; ".to_owned()));
    is_linear("errors", &["check"], 2000, text);
    is_linear("errors_json", &["check", "--format", "json"], 2000, text);
}

#[test]
fn many_unknown_names_take_linear_time() {
    let text = |n| kernel(&repeat(n, |at| format!(".reg .s32 first{at};\nadd.s32 first{at}, second{at}, 1;\n")));
    is_linear("unknown_names", &["check"], 1000, text);
}

#[test]
fn parts_of_a_module_take_linear_time() {
    let text = |n: usize| {
        let parts = repeat(n, |at| format!("#[ptx_part]\nmod m{at} {{ fn h{at}(x: u32) -> u32 {{ x }} }}\n"));
        let names = repeat(n, |at| format!("m{at}, "));
        let kernel = "#[ptx_kernel(block = 32, grid = 1, unsafe(requires()))]\npub fn k() {}\n";
        let module = format!("#[ptx_module(arch = \"sm_80\", parts({names}))]\nmod m {{ {kernel} }}\n");
        format!("use ptx_launch::prelude::*;\n{parts}{module}")
    };
    is_linear("parts", &["check"], 100, text);
}

#[test]
fn statements_take_linear_time() {
    // All equal, and all different, so that no loop can be made of them.
    is_linear("statements_alike", &["transpile", "--sugar"], 250, |n| kernel(&"add.s32 %r1, %r1, 1; ".repeat(n)));
    let other =
        |n: usize| kernel(&repeat(n, |at| format!("xor.b32 %r1, %r1, {}; ", at * 2_654_435_761 % 4_294_967_291)));
    is_linear("statements_differ", &["transpile", "--sugar"], 250, other);
}

#[test]
fn long_names_take_linear_time() {
    is_linear("long_name", &["check"], 1 << 16, |n| kernel(&format!("mov.u32 %r1, {};", "a".repeat(n))));
}

#[test]
fn labels_take_linear_time() {
    // Jumps across each other, which nest in no way.
    let across = |n: usize| {
        kernel(&repeat(n, |at| {
            let to = at * 7919 % n;
            format!("setp.lt.s32 %p1, %r1, {at};\n@%p1 bra L{to};\nL{at}:\nadd.s32 %r1, %r1, {at};\n")
        }))
    };
    is_linear("labels_across", &["transpile", "--sugar"], 125, across);
    // Jumps inside of each other, as deep as the text is long.
    let inside = |n: usize| {
        let jumps = repeat(n, |at| format!("setp.lt.s32 %p1, %r1, {at};\n@%p1 bra L{at};\n"));
        kernel(&(jumps + &repeat(n, |at| format!("L{}:\nadd.s32 %r1, %r1, {at};\n", n - 1 - at))))
    };
    is_linear("labels_inside", &["transpile", "--sugar"], 125, inside);
}

/// Kernels that share a long chain of calls, with and without a shared variable at its end: ring, diamonds and double
/// calls too. Each copies, so that the rules of copies look behind its call.
#[test]
fn shared_calls_take_linear_time() {
    let copy = ".reg .b64 from; .shared .b64 to[2]; mov.b64 from, 0; cp.async.ca.shared.global [to], [from], 16;";
    let entry = |at: usize, callee: usize| format!(".visible .entry k{at}() {{ {copy} call.uni f{callee}; ret; }}\n");
    let entries = |n: usize| repeat(n, |at| entry(at, n - at % 8));
    type Call = fn(usize) -> String;
    let calls: [(&str, Call); 3] = [
        ("chain", |at| format!("call.uni f{at};")),
        ("twice", |at| format!("call.uni f{at}; call.uni f{at};")),
        ("round", |at| format!("call.uni f{at}; call.uni f{};", at + 1)),
    ];
    for (name, call) in calls {
        for first in ["", ".shared .b32 room; .reg .b64 %rd; mov.u64 %rd, room; "] {
            let text = |n: usize| {
                let functions = repeat(n, |at| format!(".func f{}() {{ {} ret; }}\n", at + 1, call(at)));
                let head = ".version 8.5\n.target sm_90a\n.address_size 64\n";
                format!("{head}.func f0() {{ {first}ret; }}\n{functions}{}", entries(n))
            };
            is_linear(name, &["check"], 500, text);
        }
    }
}

/// Kernels with parameters, in a module with shared memory of a size that the launch gives.
#[test]
fn kernels_with_parameters_take_linear_time() {
    let entry = |at: usize| format!(".visible .entry k{at}(.param .u64 a, .param .u64 b, .param .u32 n) {{ ret; }}\n");
    is_linear("kernels", &["check"], 2000, |n| format!("{HEADER}.extern .shared .b8 room[];\n{}", repeat(n, entry)));
}

/// A process that may not have the memory of its input ends with an error, and not with an abort.
#[test]
#[cfg(target_os = "linux")]
fn too_little_memory_is_an_error() {
    let folder = folder();
    let entry = |at: usize| format!(".visible .entry k{at}(.param .u64 a) {{ ret; }}\n");
    let name = file(folder.path(), "a.ptx", &format!("{HEADER}{}", repeat(100_000, entry)));
    for command in ["check", "fmt --check", "transpile", "info"] {
        let limited = format!("ulimit -v 60000; exec '{}' {command} '{name}'", env!("CARGO_BIN_EXE_ptx"));
        let output = Command::new("sh").args(["-c", &limited]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && said.contains("out of memory"),
            "{command}: {}: {said}",
            output.status
        );
    }
}

/// The same where the text is short, and what is made of it is not.
#[test]
#[cfg(target_os = "linux")]
fn too_little_memory_for_sugar_is_an_error() {
    let folder = folder();
    let turn = |at: usize| format!("L{at}: add.s32 %r1, %r1, 1;\n@%p1 bra L{at};\n");
    let name = file(folder.path(), "a.ptx", &kernel(&repeat(4000, turn)));
    let limited = |bytes: u32| {
        let line = format!("ulimit -v {bytes}; exec '{}' transpile --sugar '{name}'", env!("CARGO_BIN_EXE_ptx"));
        Command::new("sh").args(["-c", &line]).output().unwrap()
    };
    let (enough, little) = (limited(1_000_000), limited(60_000));
    assert_eq!(enough.status.code(), Some(0), "{}", String::from_utf8_lossy(&enough.stderr));
    let said = String::from_utf8(little.stderr).unwrap();
    assert!(little.status.code() == Some(2) && said.contains("out of memory: 58 MiB"), "{}: {said}", little.status);
}

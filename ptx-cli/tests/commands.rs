//! The commands from outside: what they print, write and exit with.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "client/dap.rs"]
mod dap;
#[path = "commands/drafts.rs"]
mod drafts;
#[path = "commands/filled.rs"]
mod filled;
#[path = "commands/grids.rs"]
mod grids;
#[path = "commands/kept.rs"]
mod kept;
#[path = "client/lsp.rs"]
mod lsp;
#[path = "commands/misuse.rs"]
mod misuse;
#[path = "commands/mutants.rs"]
mod mutants;
#[path = "commands/new.rs"]
mod new;
#[path = "commands/offsets.rs"]
mod offsets;
#[path = "commands/pipeline.rs"]
mod pipeline;
#[path = "commands/proofs.rs"]
mod proofs;
#[path = "commands/prove.rs"]
mod prove;
#[path = "commands/regions.rs"]
mod regions;
#[path = "commands/rust.rs"]
mod rust;
#[path = "commands/sass.rs"]
mod sass;
#[path = "commands/solver.rs"]
mod solver;
#[path = "commands/stores.rs"]
mod stores;
#[path = "commands/strides.rs"]
mod strides;
#[path = "commands/tables.rs"]
mod tables;

use ptx_expand::temp_dir::TempDir;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// `out[i] = factor * i` for the threads of one block.
const SCALE: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .f32 factor, .param .u64 out)
{
    .reg .u32 %r<2>;
    .reg .u64 %rd<3>;
    .reg .f32 %f<3>;
    ld.param.f32 %f1, [factor];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    cvt.rn.f32.u32 %f2, %r1;
    mul.rn.f32 %f2, %f1, %f2;
    st.global.f32 [%rd1], %f2;
    ret;
}
";

/// A file in a folder of its own.
struct File(TempDir, PathBuf);

fn file(text: &str) -> File {
    let folder = TempDir::new("ptx-test").unwrap();
    let path = folder.path().join("input.ptx");
    std::fs::write(&path, text).unwrap();
    File(folder, path)
}

impl File {
    fn name(&self) -> &str {
        self.1.to_str().unwrap()
    }

    /// Another file of its folder.
    fn beside(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Returns true if all of the long lists are tested.
fn is_thorough() -> bool {
    std::env::var_os("PTX_THOROUGH").is_some()
}

/// Of a long list, one in so many is tested; with `PTX_THOROUGH` set, all are.
fn one_in<T>(many: usize, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    cases.into_iter().step_by(if is_thorough() { 1 } else { many })
}

/// Compiles a text whose kernels are proved, or whose error has the expected part, where there is one.
fn assert_proved_or(text: &str, expected: &str) {
    match ptx_jit::Source::text("k.rs", text).compile() {
        Ok(_) => assert!(expected.is_empty(), "proved: {text}"),
        Err(error) => {
            let error = error.to_string();
            assert!(!expected.is_empty() && error.contains(expected), "{text}\n{error}");
        }
    }
}

fn ptx(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ptx")).args(args).output().unwrap()
}

/// The exit code, what went to standard output, and what to standard error.
fn said(args: &[&str]) -> (i32, String, String) {
    let output = ptx(args);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn check_tells_errors_from_unreadable_files() {
    let (right, wrong) = (file(SCALE), file(&SCALE.replace("f32 %f1", "f32 %r1")));
    assert_eq!(said(&["check", right.name()]), (0, String::new(), String::new()));
    let (code, out, _) = said(&["check", wrong.name()]);
    assert!(code == 1 && out.starts_with("error[P0"), "{out}");
    assert_eq!(said(&["check", "no such file"]).0, 2);
    let (code, _, err) = said(&["check", "--target", "sm_99", right.name()]);
    assert!(code == 2 && err.contains("did you mean `sm_100`?"), "{err}");
}

/// Each kind of file that is no PTX has words of its own, in every command.
#[test]
fn files_that_are_no_ptx_are_named() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_ptx")).unwrap();
    let wide = |unit: fn(u16) -> [u8; 2]| SCALE.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
    let marked = |mark: &[u8], text: Vec<u8>| [mark, &text].concat();
    let listed = format!("\nFatbin ptx code:\n================\narch = sm_80\n\n{SCALE}");
    let text = |text: &str| text.as_bytes().to_vec();
    let kinds: [(Vec<u8>, &str); 15] = [
        (marked(b"\xff\xfe", wide(u16::to_le_bytes)), "UTF-16"),
        (marked(b"\xfe\xff", wide(u16::to_be_bytes)), "UTF-16"),
        (wide(u16::to_le_bytes), "UTF-16"),
        (wide(u16::to_be_bytes), "UTF-16"),
        (text("\x7fELF\x02\x01\x01\0"), "machine code"),
        (b"\x50\xed\x55\xba\x01\0".to_vec(), "fatbin"),
        (b"BC\xc0\xde5\x14\0\0".to_vec(), "LLVM bitcode"),
        (b"\x1f\x8b\x08\0\0".to_vec(), "compressed"),
        (b"\x01\0\x02\0\0\0\xff".to_vec(), "no text"),
        (text("!<arch>\n"), "library"),
        (text(&listed), "cuobjdump -ptx"),
        (text("\n\tcode for sm_80\n\t\tFunction : k\n"), "machine code"),
        (text("#include <cuda.h>\n__global__ void k() {}\n"), "CUDA C++"),
        (text("target triple = \"nvptx64-nvidia-cuda\"\n"), "LLVM IR"),
        (program, if cfg!(target_os = "linux") { "machine code" } else { "" }),
    ];
    let name = file("");
    for (bytes, part) in kinds {
        std::fs::write(name.name(), bytes).unwrap();
        for command in ["check", "fmt", "transpile", "info", "run"] {
            let (code, out, err) = said(&[command, name.name()]);
            assert!(part.is_empty() || code == 2 && out.is_empty() && err.contains(part), "{command} {part}: {err}");
        }
    }
    let noise = file("\u{1b}[31m text \u{7};");
    assert!(!said(&["diff", noise.name(), file(SCALE).name()]).1.contains('\u{1b}'));
}

/// Text that is nearly PTX is an error with words about the text, and nothing else.
#[test]
fn text_that_is_nearly_ptx_has_one_error() {
    let nearly = [
        (format!("\u{feff}{SCALE}"), "byte-order mark"),
        (String::new(), "there is no PTX here"),
        ("// Nothing.\n".to_owned(), "there is no PTX here"),
        (SCALE.replace(".entry scale", ".entry ns.scale"), "the name `ns.scale` has a dot"),
        (format!("{SCALE}.global .b32 table.1;\n"), "the name `table.1` has a dot"),
    ];
    for (text, part) in nearly {
        let file = file(&text);
        let (code, out, _) = said(&["check", file.name()]);
        assert!(code == 1 && out.contains(part) && out.matches("error[").count() == 1, "{out}");
        for command in ["transpile", "run"] {
            let (code, out, err) = said(&[command, file.name()]);
            let told = out + &err;
            assert!(code == 1 && told.contains("not valid PTX: 1 error") && told.contains(part), "{told}");
        }
    }
}

#[test]
fn commands_that_need_a_module_show_few_errors() {
    let many = file(&SCALE.replace("ret;", &"nothing; ".repeat(300)));
    for command in ["transpile", "run"] {
        let (code, out, err) = said(&[command, many.name()]);
        let told = out + &err;
        assert!(code == 1 && told.contains("not valid PTX: 300 errors"), "{told}");
        assert!(told.matches("error[").count() == 5 && told.contains("`ptx check "), "{told}");
    }
}

#[test]
fn warnings_are_allowed_one_by_one() {
    let warned = SCALE.replace("ret;", "bra end;\nunused: fma.rn.ftz.f32 %f1, %f1, %f1, %f1; end: ret;");
    let file = file(&warned.replace("fma.rn.ftz", "fma.ftz.rn"));
    let codes = |out: &str| out.matches("warning[").count();
    let (_, out, _) = said(&["check", file.name()]);
    let all = codes(&out);
    assert!(all > 1 && out.contains("[P0205]"), "{out}");
    let (_, out, _) = said(&["check", "-A", "P0205", file.name()]);
    assert!(codes(&out) == all - 1 && !out.contains("[P0205]"), "{out}");
    let (code, _, err) = said(&["check", "--allow", "P0255", file.name()]);
    assert!(code == 2 && err.contains("did you mean `P0205`?"), "{err}");
}

#[test]
fn library_names_the_module_of_a_function() {
    let (code, _, err) = said(&["library", "reduce_sum"]);
    assert!(code == 2 && err.contains("`warp::reduce_sum`, `block::reduce_sum`"), "{err}");
}

#[test]
fn explain_takes_any_case_and_names_the_near_miss() {
    let (code, out, _) = said(&["explain", "p0302"]);
    assert!(code == 0 && out.starts_with("P0302: ") && out.contains("Wrong:") && out.contains("Right:"));
    assert_eq!(said(&["explain", "P0320"]).0, 2);
    assert!(said(&["explain", "P0320"]).2.contains("did you mean P0302?"));
    assert_eq!(said(&["explain", "é"]).0, 2);
}

#[test]
fn isa_shows_instructions_registers_and_directives() {
    let (code, out, _) = said(&["isa", "mul.lo"]);
    assert!(
        code == 0 && out.starts_with("mul.lo.type d, a, b;") && out.contains("PTX 1.0, every target; section 9.7.1.3")
    );
    assert!(said(&["isa", "%tid"]).1.contains(".x .y .z"));
    assert!(said(&["isa", ".maxntid"]).1.contains("in: entry"));
    assert!(said(&["isa"]).1.lines().any(|l| l == "tcgen05"));
    let (code, _, err) = said(&["isa", "mull"]);
    assert!(code == 2 && err.contains("did you mean `mul`?"));
    for (name, other) in [("MUL", "mul"), ("tid", "%tid"), ("reg", ".reg")] {
        assert!(said(&["isa", name]).2.contains(&format!("did you mean `{other}`?")), "{name}");
    }
}

#[test]
fn fmt_lays_out_or_names_what_it_would() {
    let path = file(SCALE);
    let name = path.name();
    assert_eq!(said(&["fmt", "--check", name]), (1, format!("{name}\n"), String::new()));
    assert_eq!(std::fs::read_to_string(name).unwrap(), SCALE);
    assert_eq!(said(&["fmt", name]).0, 0);
    assert_eq!(said(&["fmt", "--check", name]), (0, String::new(), String::new()));
    let empty = path.beside("empty");
    std::fs::create_dir_all(&empty).unwrap();
    assert_eq!(said(&["fmt", "--check", empty.to_str().unwrap()]).0, 2);
}

#[test]
fn roundtrip_walks_folders() {
    let path = file(SCALE);
    let (code, out, _) = said(&["roundtrip", path.0.path().to_str().unwrap()]);
    assert!(code == 0 && out.starts_with(&format!("1 file, {} bytes, 1 identical, ", SCALE.len())), "{out}");
    let empty = path.beside("empty");
    std::fs::create_dir_all(&empty).unwrap();
    assert_eq!(said(&["roundtrip", empty.to_str().unwrap()]).0, 2);
}

#[test]
fn info_tells_what_a_module_holds_and_needs() {
    let path = file(SCALE);
    let (code, out, _) = said(&["info", path.name()]);
    for part in [
        "PTX 8.0, sm_80, 64-bit",
        "PTX 7.0 on sm_80",
        "CUDA 12.0 (driver 525.60.13) or newer",
        ".entry scale",
        ".f32 factor",
        "2 .f32",
        "2 ld",
    ] {
        assert!(code == 0 && out.contains(part), "{part}: {out}");
    }
}

#[test]
fn info_tells_what_a_header_lacks() {
    for (header, told) in [
        ("", "no `.version`, no `.target`, no `.address_size`"),
        (".version 8.0\n", "PTX 8.0, no `.target`, no `.address_size`"),
        (".version 9.9\n.target sm_80, debug\n", "PTX 9.9, sm_80 debug, no `.address_size`"),
    ] {
        let path = file(&format!("{header}.visible .entry k() {{ ret; }}\n"));
        let (code, out, _) = said(&["info", path.name()]);
        let first = format!("{}: {told}\n", path.name());
        assert!(code == 1 && out.starts_with(&first) && out.contains("`ptx check` shows them"), "{out}");
    }
}

#[test]
fn run_reads_and_writes_buffers() {
    let path = file(SCALE);
    let out = path.beside("out.bin");
    let buffer = format!("{}:16", out.display());
    let args = ["run", path.name(), "--block", "4", "--arg", "f32:1.5", "--arg", &buffer];
    assert_eq!(said(&args), (0, String::new(), String::new()));
    let bytes = std::fs::read(&out).unwrap();
    let values: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    assert_eq!(values, [0.0, 1.5, 3.0, 4.5]);
}

#[test]
fn run_passes_a_struct_by_value() {
    let sum = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .align 8 .b8 a[16], .param .u64 out) {\n\
               .reg .b32 %r<3>; .reg .b64 %o; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [a+12]; add.u32 %r1, %r1, %r2;\n\
               ld.param.u64 %o, [out]; st.global.u32 [%o], %r1; ret; }\n";
    let path = file(sum);
    let (input, out) = (path.beside("in.bin"), path.beside("out.bin"));
    std::fs::write(&input, [40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]).unwrap();
    let (input, buffer) = (input.display(), format!("{}:4", out.display()));
    let run = |first: &str| said(&["run", path.name(), "--arg", first, "--arg", &buffer]);
    assert_eq!(run(&format!("bytes@{input}")), (0, String::new(), String::new()));
    assert_eq!(std::fs::read(&out).unwrap(), [42, 0, 0, 0]);
    let (code, _, err) = run(&format!("@{input}"));
    assert!(code == 2 && err.contains("has 8 bytes; the parameter has 16; `--arg bytes@in.bin`"), "{err}");
}

#[test]
fn run_lays_out_a_struct_and_writes_a_buffer_back() {
    let sum = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .align 8 .b8 a[16], .param .u64 x) {\n\
               .reg .b32 %r<3>; .reg .b64 %v, %x; ld.param.u8 %r1, [a]; ld.param.u64 %v, [a+8]; cvt.u32.u64 %r2, %v; add.u32 %r1, %r1, %r2;\n\
               ld.param.u64 %x, [x]; ld.global.u32 %r2, [%x]; add.u32 %r1, %r1, %r2; st.global.u32 [%x], %r1; ret; }\n";
    let path = file(sum);
    let data = path.beside("data.bin");
    std::fs::write(&data, [100, 0, 0, 0, 7]).unwrap();
    let run = |first: &str, second: &str| said(&["run", path.name(), "--arg", first, "--arg", second]);
    let data_name = format!("inout@{}", data.display());
    assert_eq!(run("struct:u8:2,u64:40", &data_name), (0, String::new(), String::new()));
    assert_eq!(std::fs::read(&data).unwrap(), [142, 0, 0, 0, 7]);
    for (first, says) in [
        ("struct:u8:2,u32:40", "has 8 bytes; the parameter has 16"),
        ("struct:u8:256", "`256` is no .u8"),
        ("struct:40", "`40` is no field of a struct; write fields such as struct:u32:5,f32:1.5"),
        ("inout@", "the name of a file is missing behind `@`"),
    ] {
        let (code, _, err) = run(first, &data_name);
        assert!(code == 2 && err.contains(says), "{first}: {err}");
    }
}

#[test]
fn run_launches_a_kernel_of_a_rust_file_as_its_attribute_says() {
    let folder = TempDir::new("ptx-test").unwrap();
    let path = folder.path().join("k.rs");
    let text =
        "#[ptx_kernel(arch = \"sm_80\", block = 32, grid = (x.len().div_ceil(32), n - 1), unsafe(requires(true)))]
        fn k(x: &mut [u32], n: u32) {
            #[shared(dynamic)] let memory: [u32; 32];
            let (i, at): (u32, u32) = (ctaid.x * ntid.x + tid.x, memory + tid.x * 4);
            ptx! { st.shared.u32 [at], i; ld.shared.u32 i, [at]; }
            if i < n { let to = x.at(i); ptx! { st.global.u32 [to], i; } }
        }";
    std::fs::write(&path, text.replace("let (i, at)", "let (mut i, at)")).unwrap();
    let out = folder.path().join("out.bin");
    let (path, buffer) = (path.to_str().unwrap(), format!("{}:400", out.display()));
    let run = |n: &str| said(&["run", path, "--arg", &buffer, "--arg", n]);
    assert_eq!(run("u32:2").0, 0, "{:?}", run("u32:2"));
    assert_eq!(said(&["run", path, "--grid", "4", "--arg", &buffer, "--arg", "u32:100"]).0, 0);
    let last = std::fs::read(&out).unwrap()[396..].to_vec();
    assert_eq!(last, [99, 0, 0, 0]);
    let (code, _, err) = run("u32:0");
    assert!(code == 2 && err.contains("the attribute asks for 4×-1×1, which no launch takes"), "{err}");
}

/// The conditions of a kernel hold in every launch, also in one of the command.
#[test]
fn run_refuses_what_a_launch_of_the_kernel_refuses() {
    let folder = TempDir::new("ptx-test").unwrap();
    let path = folder.path().join("k.rs");
    let run = |grid: &str, condition: &str, n: &str| {
        let text = format!(
            "use host::m;
            #[ptx_kernel(arch = \"sm_80\", block = 32, grid = {grid}, unsafe(requires({condition})))]
            fn k(x: &mut [u32], n: u32) {{
                let i: u32 = ctaid.x * ntid.x + tid.x;
                if i < n {{ let to = x.at(i); ptx! {{ st.global.u32 [to], i; }} }}
            }}"
        );
        std::fs::write(&path, text).unwrap();
        let buffer = format!("{}:400", folder.path().join("out.bin").display());
        said(&["run", path.to_str().unwrap(), "--arg", &buffer, "--arg", n])
    };
    for (grid, condition, n, expected, says) in [
        ("n.div_ceil(32)", "x.len() >= n", "u32:100", 0, ""),
        ("n.div_ceil(32)", "x.len() >= n", "u32:101", 2, "its condition must hold: x.len() >= n"),
        ("n.div_ceil(n - 5)", "x.len() >= n", "u32:5", 2, "`n.div_ceil(n - 5)` divides by zero or overflows"),
        (
            "n.ceil_div(32)",
            "x.len() >= n",
            "u32:5",
            2,
            "`n.ceil_div(32)` cannot be evaluated without a compiler of Rust",
        ),
        ("n.div_ceil(32)", "x.len() >= m", "u32:5", 2, "`m` cannot be evaluated"),
    ] {
        let (code, _, err) = run(grid, condition, n);
        assert!(code == expected && err.contains(says), "{code}: {err}");
    }
    // A build may know more, so that it is a warning there.
    let (code, text, _) = said(&["check", path.to_str().unwrap()]);
    assert!(code == 0 && text.contains("only a build can launch this: `m` cannot be evaluated"), "{text}");
}

/// Copies a tensor of 8 x 16 elements of 4 bytes through shared memory.
const COPY_TENSOR: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128])
{
    .reg .b64 %a, %b;
    .reg .pred %p;
    .shared .align 128 .b8 tile[512];
    .shared .align 8 .b64 bar;
    mov.b64 %a, a;
    cvta.param.u64 %a, %a;
    mov.b64 %b, b;
    cvta.param.u64 %b, %b;
    mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%a, {0, 0}], [bar];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
    @!%p bra WAIT;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%b, {0, 0}], [tile];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}
";

#[test]
fn run_takes_tensor_maps() {
    let path = file(COPY_TENSOR);
    let (input, out) = (path.beside("in.bin"), path.beside("out.bin"));
    let bytes: Vec<u8> = (0..512u32).map(|i| i as u8).collect();
    std::fs::write(&input, &bytes).unwrap();
    let (from, to) = (format!("@{}", input.display()), format!(":out@{}", out.display()));
    let run = |a: &str, b: &str| {
        said(&["run", path.name(), "--arg", &format!("tma:{a}{from}"), "--arg", &format!("tma:{b}{to}")])
    };
    assert_eq!(run("f32[8x16]:box=8x16:swizzle=64", "u32[8x16]:swizzle=64"), (0, String::new(), String::new()));
    assert_eq!(std::fs::read(&out).unwrap(), bytes);
    // Rows that are further apart than they are long.
    assert_eq!(run("u32[8x16]", "u32[8x16]:strides=20x1").0, 0);
    assert_eq!(std::fs::read(&out).unwrap().len(), (7 * 20 + 16) * 4);
    for (a, says) in [
        ("f32[8x32]", "the file of a tensor map has 512 bytes; the tensor has 1024"),
        ("f33[8x16]", "`f33` is no type of a tensor's elements"),
        ("f32[8xx]", "`8xx` is no shape"),
        ("f32[8x16]:swizzle=48", "`swizzle=48` of a tensor map: it takes 32, 64, 128"),
        ("f32[8x16]:boxes=8", "`boxes` is no option of a tensor map: box=…"),
        ("f32", "a tensor map such as tma:f16[64x128]"),
        ("f32[8x16]:box=8x512", "512"),
    ] {
        let (code, _, err) = run(a, "u32[8x16]");
        assert!(code == 2 && err.contains(says), "{a}: {err}");
    }
}

#[test]
fn bench_needs_a_gpu() {
    let path = file(SCALE);
    let (code, out, err) = said(&["bench", path.name(), "--block", "32", "--arg", "f32:1", "--arg", "out.bin:128"]);
    if code == 0 {
        return assert!(out.starts_with("scale on ") && out.contains("cold cache"), "{out}");
    }
    assert!(code == 2 && err.contains("possible: `ptx profile`, which counts"), "{err}");
    assert!(said(&["bench", path.name(), "--runs", "0"]).2.contains("--runs"));
}

/// `out[i]` = what is at `i` between the texels of the first row.
const SAMPLE: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry sample(.param .u64 image, .param .u64 out)
{
    .reg .b32 %r1;
    .reg .b64 %i, %o;
    .reg .f32 %x, %c<4>;
    ld.param.u64 %i, [image];
    ld.param.u64 %o, [out];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %o, %r1, 4, %o;
    cvt.rn.f32.u32 %x, %r1;
    tex.2d.v4.f32.f32 {%c0, %c1, %c2, %c3}, [%i, {%x, 0f3F000000}];
    st.global.f32 [%o], %c0;
    ret;
}
";

#[test]
fn run_takes_textures() {
    let path = file(SAMPLE);
    let (texels, out) = (path.beside("texels.bin"), path.beside("out.bin"));
    std::fs::write(&texels, [0u8, 51, 102, 153, 204, 255, 255, 255]).unwrap();
    let output = format!("{}:16", out.display());
    let run = |texture: &str| {
        let texture = format!("tex:{texture}@{}", texels.display());
        ptx(&["run", path.name(), "--block", "4", "--arg", &texture, "--arg", &output])
    };
    let done = run("unorm8:4,2:linear,border");
    assert!(done.status.success(), "{done:?}");
    let found: Vec<f32> =
        std::fs::read(&out).unwrap().chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    // The chip filters `unorm` in 65535 steps: half of 51 · 257 is 6553.5, which it rounds away from zero.
    for (found, wanted) in found.iter().zip([0.0, 6554.0, 19661.0, 32768.0].map(|steps: f32| steps / 65535.0)) {
        assert!((found - wanted).abs() < 1e-6, "{found}, not {wanted}");
    }
    for (texture, says) in [
        ("u7:4,2", "`u7` is no channel of a texel"),
        ("f32:4,2:soft", "`soft` is no option of a texture"),
        ("f32:4,4,4,4", "a texture such as"),
        ("f32:64,64", "8 bytes; the texture has 16384"),
    ] {
        let refused = run(texture);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(says), "{refused:?}");
    }
}

#[test]
fn run_tells_findings_from_bad_usage() {
    let path = file(SCALE);
    let (name, out) = (path.name(), path.beside("out.bin").display().to_string());
    let small = format!("{out}:8");
    let (code, text, _) = said(&["run", name, "--block", "4", "--arg", "f32:1.5", "--arg", &small]);
    assert!(code == 1 && text.contains("input.ptx:16:5") && text.contains("thread (2, 0, 0)"), "{text}");
    let huge = format!("{out}:{}", u64::MAX);
    for bad in [
        &["--arg", "f32:1.5"][..],
        &["--arg", "f64:1.5", "--arg", &small],
        &["--arg", "u32:1", "--arg", &small],
        &["--arg", "f32:x", "--arg", &small],
        &["--arg", "f32:1.5", "--arg", "@no such file"],
        &["--arg", "f32:1.5", "--arg", &huge],
        &["--arg", "f32:1.5", "--arg", &small, "--block", "0"],
        &["--arg", "f32:1.5", "--arg", &small, "--block", "4096"],
        &["--arg", "f32:1.5", "--arg", &small, "--grid", "1,1,1,1"],
        &["--arg", "f32:1.5", "--arg", &small, "--entry", "other"],
    ] {
        let (code, _, err) = said(&[&["run", name], bad].concat());
        assert!(code == 2 && err.starts_with("error: "), "{bad:?}: {code} {err}");
    }
}

/// Block 1 looks whether block 0 has been there, without an order between the two.
const LUCK: &str = "\
.version 7.0
.target sm_70
.address_size 64
.visible .entry luck(.param .u64 out) {
    .reg .pred %p<3>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p1, %r1, 1;
    @%p1 bra LOOK;
    red.relaxed.gpu.global.add.u32 [%rd1], 1;
    ret;
LOOK:
    ld.relaxed.gpu.global.u32 %r2, [%rd1];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 trap;
    ret;
}
";

#[test]
fn run_tries_seeds_until_one_fails_and_says_which() {
    let path = file(LUCK);
    let (name, out) = (path.name(), format!("{}:4", path.beside("out.bin").display()));
    let (code, text, _) = said(&["run", name, "--grid", "2", "--block", "32", "--arg", &out]);
    assert_eq!((code, text.as_str()), (0, ""));
    let (code, text, _) = said(&["run", name, "--grid", "2", "--block", "32", "--arg", &out, "--seeds", "64"]);
    let (_, seed) = text.split_once("`--seed ").unwrap();
    let (seed, _) = seed.split_once('`').unwrap();
    assert!(code == 1 && seed.parse::<u64>().unwrap() > 0, "{text}");
    let (code, again, _) = said(&["run", name, "--grid", "2", "--block", "32", "--arg", &out, "--seed", seed]);
    assert_eq!((code, again), (1, text));
}

/// Without a driver that is the call's fault, told in words; with one the result is the same as on the CPU device.
#[test]
fn run_on_a_gpu_or_says_why_not() {
    let path = file(SCALE);
    let out = path.beside("out.bin");
    let buffer = format!("{}:16", out.display());
    let args = ["run", path.name(), "--device", "cuda", "--block", "4", "--arg", "f32:1.5", "--arg", &buffer];
    let (code, _, err) = said(&args);
    match code {
        0 => assert_eq!(std::fs::read(&out).unwrap()[4..8], 1.5f32.to_le_bytes()),
        code => assert!(code == 2 && err.starts_with("error: ") && !err.contains("panicked"), "{code}: {err}"),
    }
    for option in [["--trace", "0"], ["--seed", "3"], ["--seeds", "64"], ["--steps", "1000"]] {
        let (code, _, err) = said(&[&args[..], &option].concat());
        assert!(code == 2 && err.contains(&format!("leave out `{}`", option[0])) && err.contains("a GPU"), "{err}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ptx"))
        .args(["isa", "--markdown"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn diff_sees_instructions_and_not_names() {
    let a = file(SCALE);
    let renamed = file(&SCALE.replace("%rd", "%address").replace("factor", "by").replace("    ", "\t"));
    let (code, out, _) = said(&["diff", a.name(), renamed.name()]);
    assert_eq!((code, out.as_str()), (0, "the same but for names and layout: 1 function, 9 lines\n"));
    let other = file(&SCALE.replace("mul.rn", "add.rn"));
    let (code, out, _) = said(&["diff", a.name(), other.name()]);
    assert!(code == 1 && out.contains("mul.rn.f32 %f2, %f1, %f2;") && out.lines().count() == 3, "{out}");
}

#[test]
fn transpile_writes_rust_that_holds_the_bytes() {
    let input = file(SCALE);
    let (code, out, report) = said(&["transpile", "--name", "scale", input.name()]);
    assert!(code == 0 && report.ends_with(": the same bytes\n"), "{report}");
    assert!(out.contains("pub mod scale {") && out.contains(&format!("::ptx_launch::ptx! {{{SCALE}}}")), "{out}");
}

const REQUIRES: &str = "\
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to)
.explicitcluster
.reqnctapercluster 2
.reqntid 32
{
    .reg .u32 %r<2>;
    .reg .u64 %d;
    ld.param.u64 %d, [to];
    mov.u32 %r0, %cluster_nctarank;
    mov.u32 %r1, %ntid.x;
    mul.lo.u32 %r0, %r0, %r1;
    st.global.u32 [%d], %r0;
    ret;
}
";

#[test]
fn run_has_the_block_and_the_cluster_that_the_entry_requires() {
    let path = file(REQUIRES);
    let buffer = path.beside("out.bin");
    let argument = format!("{}:4", buffer.display());
    let (code, text, _) = said(&["run", "--no-watch", path.name(), "--grid", "2", "--arg", &argument]);
    assert_eq!((code, text.as_str()), (0, ""));
    assert_eq!(std::fs::read(&buffer).unwrap(), 64u32.to_le_bytes());
}

/// A kernel for any block size, in the language.
const KERNELS: &str = "use ptx_launch::prelude::*;
#[ptx_kernel(arch = \"sm_80\", block = BLOCK, grid = n.div_ceil(BLOCK), unsafe(requires(x.len() >= n)))]
pub fn scale<const BLOCK: u32>(factor: f32, x: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < n {
        let at = x.at(i);
        ptx! { st.global.f32 [at], factor; }
    }
}
";

#[test]
fn kernels_in_rust_need_no_project() {
    let folder = TempDir::new("ptx-test").unwrap();
    let path = folder.path().join("k.rs");
    std::fs::write(&path, KERNELS).unwrap();
    let name = path.to_str().unwrap();
    let emitted = ptx(&["emit", name, "--with", "BLOCK=64", "--target", "sm_90"]);
    let text = String::from_utf8(emitted.stdout).unwrap();
    assert!(text.contains(".target sm_90\n") && text.contains(".entry scale_64("), "{text}");
    assert_eq!(ptx(&["check", name, "--with", "BLOCK=64"]).status.code(), Some(0));
    let missing = ptx(&["check", name]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8(missing.stdout).unwrap().contains("k.rs:3:8\n"));
    assert_eq!(ptx(&["emit", name, "--entry", "other", "--with", "BLOCK=64"]).status.code(), Some(2));
    std::fs::write(folder.path().join("x.bin"), [0; 256]).unwrap();
    let x = format!("@{}", folder.path().join("x.bin").display());
    let run = ["run", name, "--with", "BLOCK=64", "--block", "64", "--arg", "f32:2", "--arg", &x, "--arg", "u32:64"];
    assert_eq!(ptx(&run).status.code(), Some(0));
}

/// Warnings, other chips and JSON of kernels in Rust are those of PTX.
#[test]
fn check_tells_all_of_kernels_in_rust() {
    let folder = TempDir::new("ptx-test").unwrap();
    let path = folder.path().join("k.rs");
    let kernel = |line: &str| {
        format!(
            "#[ptx_kernel(arch = \"sm_90a\", block = 128, grid = 1, unsafe(requires(x.len() >= 128)))]\n\
             fn k(x: &mut [u32]) {{\n    let i: u32 = tid.x;\n    ptx! {{ {line} st.global.u32 [x], i; }}\n}}\n"
        )
    };
    std::fs::write(&path, kernel("setmaxnreg.dec.sync.aligned.u32 40;")).unwrap();
    let name = path.to_str().unwrap();
    let (code, out, _) = said(&["check", name]);
    assert!(code == 0 && out.starts_with("warning: [P0725] ptxas ignores `setmaxnreg.dec`"), "{out}");
    assert!(
        out.contains("k.rs:4:12\n") && out.contains("help: write `max_regs = …` in the kernel's attribute"),
        "{out}"
    );
    assert_eq!(said(&["check", "-A", "P0725", name]), (0, String::new(), String::new()));
    let (code, out, _) = said(&["check", "--format", "json", name]);
    let line: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &line["severity"], &line["line"]), (0, &"warning".into(), &4.into()));

    std::fs::write(&path, kernel("")).unwrap();
    assert_eq!(said(&["check", "--chip", "H200", name]), (0, String::new(), String::new()));
    let (code, out, _) = said(&["check", "--chip", "A100", name]);
    assert!(code == 1 && out.contains("`k` has no PTX that sm_80 runs: it is for sm_90a"), "{out}");
    assert!(out.contains("help: add the target to its attribute, `arch(\"sm_90a\", \"sm_80\")`"), "{out}");
    let (code, _, message) = said(&["check", "--version", "8.7", name]);
    assert!(code == 2 && message.contains("`--version` is for PTX files"), "{message}");
}

/// A link in a folder leads to a file that nobody named, a pipe has no end, and `ptx fmt` takes what `ptx check` takes.
#[test]
#[cfg(unix)]
fn folders_have_files_and_nothing_else() {
    let folder = TempDir::new("ptx-test").unwrap();
    let (inside, outside) = (folder.path().join("in"), folder.path().join("outside.txt"));
    std::fs::create_dir(&inside).unwrap();
    let untidy = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry   k() {ret;}\n";
    for path in [&outside, &inside.join("own.ptx")] {
        std::fs::write(path, untidy).unwrap();
    }
    for (name, to) in [("link.ptx", outside.to_str().unwrap()), ("zero.ptx", "/dev/zero"), ("loop.ptx", ".")] {
        std::os::unix::fs::symlink(to, inside.join(name)).unwrap();
    }
    assert!(Command::new("mkfifo").arg(inside.join("pipe.ptx")).status().unwrap().success());
    let name = inside.to_str().unwrap();
    let checked = ptx(&["check", name]);
    assert_eq!(checked.status.code(), Some(0));
    assert_eq!(String::from_utf8(checked.stderr).unwrap().matches("is left out").count(), 4);
    assert_eq!(ptx(&["fmt", name]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), untidy);
    assert_ne!(std::fs::read_to_string(inside.join("own.ptx")).unwrap(), untidy);
    // A file of 2 GiB that takes no room.
    let large = folder.path().join("large.ptx");
    std::fs::File::create(&large).unwrap().set_len(2 << 30).unwrap();
    for (command, file) in [("check", "/dev/zero"), ("emit", "/dev/zero"), ("check", large.to_str().unwrap())] {
        let endless = ptx(&[command, file]);
        assert_eq!(endless.status.code(), Some(2), "{command} {file}");
        assert!(String::from_utf8(endless.stderr).unwrap().contains("has more than"), "{command} {file}");
    }
}

#[test]
fn fmt_takes_what_check_takes() {
    let warned =
        ".version 2.3\n.target sm_20\n.address_size 64\n.func f (.param .u32 a)\n.func f (.param .u32 a) { ret; }\n";
    let file = file(warned);
    assert_eq!(ptx(&["check", file.name()]).status.code(), Some(0));
    assert_eq!(ptx(&["fmt", file.name()]).status.code(), Some(0));
    assert_eq!(ptx(&["check", file.name()]).status.code(), Some(0));
}

/// Threads of a block store words in a stride of two, load them again, and copy them out in a stride of eight.
const STRIDES: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry strides(.param .u64 in, .param .u64 out)
{
    .reg .u32 %r<4>;
    .reg .u64 %rd<6>;
    .reg .pred %p;
    .shared .align 16 .b8 tile[1024];
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd1, %rd1, %rd3;
    ld.global.nc.u32 %r2, [%rd1];
    shl.b32 %r3, %r1, 3;
    st.shared.u32 [%r3], %r2;
    bar.sync 0;
    ld.shared.u32 %r2, [%r3];
    mul.wide.u32 %rd4, %r1, 32;
    add.u64 %rd2, %rd2, %rd4;
    setp.lt.u32 %p, %r1, 48;
    @%p st.global.u32 [%rd2], %r2;
    ret;
}
";

#[test]
fn profile_counts_what_a_kernel_requires_of_a_gpu() {
    let file = file(STRIDES);
    let (input, output) = (file.beside("in.bin"), file.beside("out.bin"));
    std::fs::write(&input, [7; 512]).unwrap();
    let (input, buffer) = (format!("@{}", input.display()), format!("{}:4096", output.display()));
    let line = [
        "profile",
        file.name(),
        "--entry",
        "strides",
        "--grid",
        "4",
        "--block",
        "128",
        "--arg",
        &input,
        "--arg",
        &buffer,
    ];
    let (code, json, said_there) = said(&[&line[..], &["--format", "json"]].concat());
    assert_eq!((code, said_there.as_str()), (0, ""));
    assert_eq!(&std::fs::read(&output).unwrap()[32 * 47..32 * 48 + 4], [[7; 4].as_slice(), &[0; 28], &[0; 4]].concat());
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let totals = [
        ("instructions", 15 * 16),
        ("thread_instructions", 15 * 512),
        ("thread_instructions_pred_on", 15 * 512 - 4 * 80),
        ("shared_load_wavefronts", 32),
        ("shared_load_wavefronts_ideal", 16),
        ("shared_store_wavefronts", 32),
        ("shared_store_wavefronts_ideal", 16),
        ("global_load_requests", 16),
        ("global_load_sectors", 64),
        ("global_load_sectors_ideal", 64),
        ("global_store_requests", 8),
        ("global_store_sectors", 4 * 48),
        ("global_store_sectors_ideal", 4 * 6),
    ];
    for (name, value) in totals {
        assert_eq!(report["totals"][name], value, "{name}");
    }
    let lines = report["lines"].as_array().unwrap();
    let store = lines.iter().find(|line| line["line"] == 23).unwrap();
    assert_eq!((&store["file"], &store["global_store_sectors"]), (&file.name().into(), &(4 * 48).into()));
    assert_eq!((&store["text"], &store["instructions"]), (&"@%p st.global.u32 [%rd2], %r2;".into(), &16.into()));
    assert_eq!(lines.iter().map(|line| line["instructions"].as_u64().unwrap()).sum::<u64>(), 15 * 16);
    let occupancy = &report["occupancy"];
    assert_eq!((&occupancy["chip"], &occupancy["shared_bytes_per_block"]), (&"H100".into(), &1024.into()));
    assert_eq!((&occupancy["warps_per_multiprocessor"], &occupancy["occupancy"]), (&64.into(), &1.0.into()));
    let (code, text, _) = said(&[&line[..], &["--chip", "a100"]].concat());
    assert!(code == 0 && text.contains("1. line 23: @%p st.global.u32") && text.contains("roofline of A100"), "{text}");
    let page = file.beside("report.html");
    let (code, text, _) = said(&[&line[..], &["--blocks", "2", "--html", page.to_str().unwrap()]].concat());
    assert!(code == 0 && text.contains("estimated from 2 of 4 blocks, standard error 0.0 %"), "{text}");
    assert!(text.contains("global stores   8 requests, 192 sectors"), "{text}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("id=\"L23\"") && !page.contains("http"), "{page}");
    let (code, _, message) = said(&[&line[..], &["--chip", "H1000"]].concat());
    assert!(code == 2 && message.contains("H100 (sm_90), H200"), "{message}");
}

/// A file that nvcc compiled with `-lineinfo`, and Triton's with inlined calls: counters by line of their sources.
#[test]
fn profiles_name_the_lines_that_a_compiler_read() {
    let file = file(
        &STRIDES
            .replace("    ld.global", "    .loc 1 2 7\n    ld.global")
            .replace("    @%p st.global", "    .loc 2 9 1, function_name $name, inlined_at 1 2 7\n    @%p st.global"),
    );
    let text = std::fs::read_to_string(&file.1).unwrap();
    let files = ".file 1 \"/none/such/kernel.cu\"\n.file 2 \"/none/such/helper.h\"\n.section .debug_str {\n$name:\n.b8 107,0\n}\n";
    std::fs::write(&file.1, text + files).unwrap();
    std::fs::write(file.beside("kernel.cu"), "// A kernel.\n  y = x[i] < 1;\n").unwrap();
    let (input, page) = (file.beside("in.bin"), file.beside("report.html"));
    std::fs::write(&input, [7; 512]).unwrap();
    let (input, buffer) = (format!("@{}", input.display()), format!("{}:4096", file.beside("out.bin").display()));
    let line = ["profile", file.name(), "--grid", "4", "--block", "128", "--arg", &input, "--arg", &buffer];
    let (code, json, _) = said(&[&line[..], &["--format", "json"]].concat());
    assert_eq!(code, 0, "{json}");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let lines = report["source_lines"].as_array().unwrap();
    let (kernel, helper) = (&lines[0], &lines[1]);
    assert_eq!((&kernel["file"], &kernel["line"]), (&"/none/such/kernel.cu".into(), &2.into()));
    assert_eq!((&kernel["text"], &kernel["global_load_sectors"]), (&"y = x[i] < 1;".into(), &64.into()));
    assert_eq!((&helper["file"], &helper["global_store_sectors"]), (&"/none/such/helper.h".into(), &(4 * 48).into()));
    assert_eq!(helper["inlined_at"], serde_json::json!([{ "file": "/none/such/kernel.cu", "line": 2 }]));
    let of_ptx = report["lines"].as_array().unwrap().iter().find(|line| line["global_store_sectors"] != 0).unwrap();
    assert_eq!(of_ptx["source"], serde_json::json!([{ "file": "/none/such/helper.h", "line": 9 }]));
    let (code, text, _) = said(&[&line[..], &["--html", page.to_str().unwrap()]].concat());
    assert!(code == 0 && text.contains("     from helper.h:9\n"), "{text}");
    assert!(
        text.contains("lines of the source\n  helper.h:9: \n") && text.contains("; inlined at kernel.cu:2\n"),
        "{text}"
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<h2>/none/such/kernel.cu</h2>") && page.contains("y = x[i] &lt; 1;"), "{page}");
}

/// The chapter about the profiler shows what the command prints about its listings.
#[test]
fn the_book_shows_real_profiles() {
    let book = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/book"));
    let folder = TempDir::new("ptx-test").unwrap();
    for name in ["slow.rs", "fast.rs"] {
        std::fs::copy(book.join("listings/profile").join(name), folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("x.bin"), vec![0; 393_216]).unwrap();
    // Without a ptxas on the way: machines differ in it.
    let shown = |command: &str| {
        let mut ptx = Command::new(env!("CARGO_BIN_EXE_ptx"));
        let ptx = ptx.args(command.split(' ')).current_dir(folder.path()).env("PATH", "");
        for variable in ["PTXAS", "VIRTUAL_ENV", "CONDA_PREFIX"] {
            ptx.env_remove(variable);
        }
        String::from_utf8(ptx.output().unwrap().stdout).unwrap()
    };
    let chapter = book.join("text/guides/profiling.md");
    let (mut text, mut rest) = (String::new(), std::fs::read_to_string(&chapter).unwrap());
    while let Some((before, behind)) = rest.split_once("<!-- $ ptx ") {
        let (marker, behind) = behind.split_once(" -->\n").unwrap();
        let (fence, behind) = behind.split_once('\n').unwrap();
        let (_, behind) = behind.split_once("```\n").unwrap();
        text += &format!("{before}<!-- $ ptx {marker} -->\n{fence}\n{}```\n", shown(marker));
        rest = behind.to_owned();
    }
    expect_test::expect_file![chapter].assert_eq(&(text + &rest));
}

#[test]
fn sass_says_which_tool_is_missing() {
    let file = file(SCALE);
    let output = Command::new(env!("CARGO_BIN_EXE_ptx"))
        .args(["sass", file.name()])
        .env_remove("PTXAS")
        .env_remove("NVDISASM")
        .env_remove("VIRTUAL_ENV")
        .env_remove("CONDA_PREFIX")
        .env("PATH", "")
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && message.contains("needs ptxas") && message.contains("pip install"),
        "{message}"
    );
    let (code, _, message) = said(&["sass", "--diff", file.name()]);
    assert!(code == 2 && message.contains("compares two files"), "{message}");
}

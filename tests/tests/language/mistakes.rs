//! Mistakes of somebody who comes from CUDA or from Rust, one each, and all that is said about them. `UPDATE_EXPECT=1` renews `mistakes.txt`, which is
//! read before it is committed: as somebody who does not know the language yet.

use expect_test::expect_file;
use libtest_mimic::Trial;
use ptx_expand::program::{Options, compile};

/// Statements of a kernel with `x: &[f32]`, `y: &mut [f32]`, `n: u32`, `a: f32`, `t: Tile<f32, (M, N)>`, the thread's number `i` and
/// a tile in shared memory.
const STATEMENTS: &[&str] = &[
    "y[i] = x[i] + 1.0;",
    "let v = x[i];",
    "y.at(i) = a;",
    "let i: u32 = blockIdx.x * blockDim.x + threadIdx.x;",
    "let i = tid.x + ntid.x * ctaid;",
    "let v = a + 1;",
    "let v = a + n;",
    "let v = n as usize;",
    "let v: usize = 0;",
    "let v: int = 0;",
    "let v: f32 = 1;",
    "let v: u32 = 1.5;",
    "let v: u32 = -1;",
    "let v: u8 = 300;",
    "let v = 1;",
    "let v: f64 = a;",
    "let v: f32; let w = v + 1.0;",
    "let v: u32 = n; v += 1;",
    "n += 1;",
    "if n { }",
    "if a > 0 { }",
    "if i < n && a > 0.0 { }",
    "if i < n { return 1; }",
    "let v = if i < n { a } else { 0 };",
    "let v = i < n ? a : 0.0;",
    "let v = match n { 0 => a, _ => 1.0 };",
    "for k in 0..n { }",
    "for k in 0..4 { let k = k; y[k] = a; }",
    "while i < n { i += 1; }",
    "let mut k: u32 = 0; while k < n { k++; }",
    "loop { }",
    "break;",
    "let v = max(a, 0.0);",
    "let v = a.max(0);",
    "let v = a.sqrt();",
    "let v = sqrtf(a);",
    "let v = a.powi(2);",
    "let v = __expf(a);",
    "let v = f32::max(a, 0.0);",
    "let v = a % 2.0;",
    "let v = -n;",
    "let v = !a;",
    "let v = n << a;",
    "let v = n / 0;",
    "let v: [f32; n] = [0.0; n];",
    "let v: [f32; 4] = [0.0; 4]; let w = v[i];",
    "let v: [f32; 4] = [0.0; 4]; let w = v[4];",
    "let v: [f32; 4] = [0.0; 3];",
    "let v = [0.0; 4];",
    "__syncthreads();",
    "syncthreads();",
    "block::sync();",
    "atomicAdd(y.at(i), a);",
    "let v = __shfl_xor_sync(0xffffffff, a, 16);",
    "let v = warp::shuffle(a, 16);",
    "let v = warp::reduce_add(a);",
    "let v = block::reduce_sum(a);",
    "let s: [f32; 32];",
    "tile[i] = a;",
    "let v: f32 = tile[i];",
    "let p = &tile[0];",
    "let p = tile.as_ptr();",
    "let v = *x.at(i);",
    "let v = x.len();",
    "let v = x.get(i);",
    "let v = t[i][0];",
    "let v = t.at(i);",
    "let v = t.rows;",
    "let v = M * N;",
    "let q: Global<f32> = tile;",
    "let q = x + 1.0;",
    "let q = x.at(1.0);",
    "println!(\"{}\", a);",
    "printf(\"%f\", a);",
    "assert!(i < n);",
    "let v = Some(a);",
    "let v = |k| k + 1;",
    "let v = (a, n).2;",
    "let v = a.x;",
    "let v = \"text\";",
    "let v = true + 1;",
    "let (v, w) = a;",
    "let v = half::f16::from_f32(a);",
    "let v: f16 = a;",
    "let v = a as f16 + a;",
    "ptx! { add.f32 v, a, a; }",
    "let v: f32; ptx! { add.f32 v, a, n; }",
    "let v: f32; ptx! { add.f32 v, a }",
    "let v: f32; ptx! { add v, a, a; }",
    "let v: f32; ptx! { addd.f32 v, a, a; }",
    "let v: f32; ptx! { ld.global.f32 v, x; }",
    "let v: f32; ptx! { ld.f32.global v, [x]; }",
    "let v: u32; ptx! { ld.global.f32 v, [x]; }",
    "let v: f32; ptx! { ld.shared.f32 v, [x]; }",
    "ptx! { st.global.f32 [x], a; }",
    "ptx! { bar.sync; }",
    "ptx! { @i bra end; end: }",
    "ptx! { mov.u32 i, %tid.x; }",
    "let v: f32; ptx! { wgmma.fence.sync.aligned; }",
    "cp_async::wait();",
    "mbarrier::init(tile, 1);",
    "cluster::sync();",
    "grid::sync();",
    "helper(a);",
    "let v = helper(a, a, a);",
    "let v: u32 = twice(a);",
    "twice(n);",
];

fn said(statement: &str) -> String {
    let source = format!(
        "#[ptx_module(arch = \"sm_80\")]\nmod m {{\n    fn twice(v: f32) -> f32 {{ v + v }}\n    #[ptx_kernel(block = 128)]\n\
         pub fn k(x: &[f32], y: &mut [f32], n: u32, a: f32, t: Tile<f32, (M, N)>) {{\n\
         #[shared] let tile: [f32; 128];\nlet i: u32 = tid.x;\n{statement}\n}}\n}}\n"
    );
    let (program, problems) = match compile(&source, &Options::default()) {
        Ok(program) => (true, program.warnings),
        Err(problems) => (false, problems.0),
    };
    let mut text = format!("{statement}\n");
    for problem in &problems {
        let level = if problem.is_warning { "warning" } else { "error" };
        text.push_str(&format!("    {level}: {}{}\n", problem.tag(), problem.message));
        problem.help.iter().for_each(|help| text.push_str(&format!("     help: {help}\n")));
    }
    if program && problems.is_empty() {
        text.push_str("    right\n");
    }
    text
}

pub fn trials() -> Vec<Trial> {
    vec![Trial::test("mistakes", || {
        let texts: Vec<String> = STATEMENTS.iter().map(|statement| said(statement)).collect();
        expect_file!["mistakes.txt"].assert_eq(&texts.join("\n"));
        Ok(())
    })]
}

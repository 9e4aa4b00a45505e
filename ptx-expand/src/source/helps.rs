//! Helps on addresses: everything that may be written with an address compiles, or has a help whose code compiles in its place.

use crate::program::{Options, Problem, compile};

/// Two addresses of each kind, `p` and `q`, and the type of their bytes.
const ADDRESSES: [(&str, &str, &str); 9] = [
    ("x.at(i)", "x", "u64"),
    ("out.at(i)", "out", "u64"),
    ("points.at(i)", "points.at(1)", "u64"),
    ("points.at(i).y", "points.at(1).y", "u64"),
    ("tile.at(i)", "tile.at(2)", "u32"),
    ("tile.at(3)", "tile.at(2)", "u32"),
    ("SharedCluster::<f32>::from_addr(i)", "SharedCluster::<f32>::from_addr(n)", "u32"),
    ("Tmem::from_addr(i)", "Tmem::from_addr(n)", "u32"),
    ("own.at(i)", "own.at(1)", "u64"),
];

const OPERATORS: [&str; 18] =
    ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "&&", "||"];

const OTHERS: [&str; 32] = [
    "let d = c.select(p, q);",
    "let d = c.select(p, 0);",
    "let d = c.select(i, p);",
    "let d = c.select(p, other);",
    "let mut d = p; d = c.select(q, d);",
    "let d: u32 = c.select(p, q);",
    "let d = p.select(p, q);",
    "let d = p.min(q);",
    "let d = p.max(1);",
    "let d = p.abs();",
    "let d = p.fma(p, p);",
    "let d = p.add(1);",
    "let d = p.len();",
    "let d = -p;",
    "let d = !p;",
    "let d = *p;",
    "let d = p[i];",
    "let d = p as u8;",
    "let d = p as u32;",
    "let d = p as i32;",
    "let d = p as u64;",
    "let d = p as i64;",
    "let d = p as b64;",
    "let d = p as f32;",
    "let d = p as f64;",
    "let d = p as pred;",
    "let mut d: u32 = 0; d = p;",
    "let mut d: f32 = p;",
    "let mut d = p; d = i;",
    "let mut d = p; d += i;",
    "let mut d = p; d -= wide(i) * 4;",
    "if p { }",
];

fn problems((p, q, width): (&str, &str, &str), statement: &str) -> Vec<Problem> {
    let source = format!(
        "#[ptx_module(arch = \"sm_100a\")] mod m {{ struct Point {{ x: f32, y: f32 }}\n\
         #[ptx_kernel(block = 32)] pub fn k(x: &[f32], out: &mut [f32], points: &[Point], other: &[u8], n: u32, bytes: {width}, long: u64) {{\n\
         #[shared] let tile: [f32; 32]; #[local] let own: [f32; 8];\n\
         let i: u32 = tid.x; let r: {width} = bytes; let c: pred = i < n; let p = {p}; let q = {q};\n{statement}\n}} }}"
    );
    compile(&source, &Options::default()).err().map_or_else(Vec::new, |problems| problems.0)
}

/// Code of signatures and attributes, and the names of methods.
const ELSEWHERE: [&str; 7] =
    ["n: u32", "x.len() >= n", "ptx! { … }", "at(i)", "at(row, column)", "row(i)", "cast::<u32>()"];

/// The pieces of code in a help, as statements.
fn suggestions(help: &str) -> Vec<String> {
    let code = help.split('`').skip(1).step_by(2).filter(|code| !ELSEWHERE.contains(code));
    let statement = |code: &str| match code {
        code if code.starts_with("let ") || code.starts_with("ptx!") => Some(code.to_owned()),
        code if code.starts_with('.') => Some(format!("let d = p{code};")),
        code if code.chars().all(|c| c.is_alphanumeric() || "_.".contains(c)) => None,
        code => Some(format!("let d = {code};")),
    };
    code.filter_map(statement).collect()
}

#[test]
fn what_a_help_for_an_address_shows_compiles() {
    let both = OPERATORS.iter().flat_map(|op| {
        ["q", "i", "1", "other", "long"]
            .map(|right| format!("let d = p {op} {right};"))
            .into_iter()
            .chain([format!("let d = 1 {op} p;")])
    });
    let statements: Vec<String> = both.chain(OTHERS.iter().map(|other| (*other).to_owned())).collect();
    // A sixth of the pairs, others for each address; all with `PTX_THOROUGH`, as in `.ci/run`.
    let step = if std::env::var_os("PTX_THOROUGH").is_some() { 1 } else { 6 };
    let mut wrong = Vec::new();
    for (number, place) in ADDRESSES.into_iter().enumerate() {
        for statement in statements.iter().skip(number % step).step_by(step) {
            for problem in problems(place, statement) {
                let suggestions: Vec<String> = problem.help.iter().flat_map(|help| suggestions(help)).collect();
                if problem.help.is_empty() {
                    wrong.push(format!("{place:?} {statement}: {} {:?}", problem.message, problem.help));
                }
                for code in suggestions {
                    if let Some(again) = problems(place, &code).first() {
                        wrong.push(format!(
                            "{place:?} {statement}: {} {:?}\n  {code}: {}",
                            problem.message, problem.help, again.message
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them\n{}", wrong.len(), wrong.join("\n"));
}

//! Rust source as text to the PTX of its macros, for tools: what a build would make, without a compiler.

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod counts;
#[cfg(test)]
mod helps;
#[cfg(test)]
mod speed;

use crate::program::{Options, Problem, Problems, Program, compile_with};

/// The PTX of one macro call.
#[derive(Clone, Debug)]
pub struct Module {
    /// The name of the kernel or of the module; empty for a `ptx!`.
    pub name: String,
    /// One text for each target.
    pub ptx: Vec<String>,
}

/// Why there is no PTX.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The compiler's messages.
    pub messages: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.messages.join("\n"))
    }
}

impl std::error::Error for Failure {}

/// The PTX of every `ptx! { … }`, `#[ptx_kernel]` and `#[ptx_module]` of a source file, in order, those in modules too.
///
/// # Errors
/// What a build would report.
pub fn modules(source: &str) -> Result<Vec<Module>, Failure> {
    compiled(source, false)
}

/// The same, where the helper library counts as part of the file: a mistake in a helper is reported where it stands, and not
/// at the call.
///
/// # Errors
/// As above.
pub fn modules_with_library(source: &str) -> Result<Vec<Module>, Failure> {
    compiled(source, true)
}

fn compiled(source: &str, own_library: bool) -> Result<Vec<Module>, Failure> {
    ptx_of(compile_with(source, &Options::default(), own_library))
}

/// The PTX of a program.
pub(crate) fn ptx_of(program: Result<Program, Problems>) -> Result<Vec<Module>, Failure> {
    let failure = |problems: Problems| Failure { messages: problems.0.iter().map(Problem::to_line).collect() };
    let modules = program.map_err(failure)?.modules.into_iter();
    Ok(modules.map(|of| Module { name: of.name, ptx: of.texts.into_iter().map(|text| text.ptx).collect() }).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    #[test]
    fn finds_every_module_with_its_bytes() {
        let text = ".version 8.0\n.target sm_80 // here\n.address_size 64\n.visible .entry  k( )\n{ ret; }\n";
        let source = format!(
            "mod inner {{ ptx_launch::ptx! {{{text}}} }}\n\
             #[ptx_kernel(arch = \"sm_80\")] pub fn one() {{ let x: u32 = tid.x; }}\n\
             #[ptx_module(arch = \"sm_80\")] pub mod two {{ #[ptx_kernel] pub fn three() {{}} }}"
        );
        let found = super::modules(&source).unwrap();
        let names: Vec<_> = found.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["", "one", "two"]);
        assert_eq!(found[0].ptx, [text]);
        assert!(found[1].ptx[0].contains("mov.u32 %x, %tid.x;"), "{:?}", found[1].ptx);
    }

    #[test]
    fn rows_of_elements_of_any_size_are_that_far_apart() {
        let row = |fields: &str| {
            let source = format!(
                "#[ptx_module(arch = \"sm_80\")] mod m {{ struct Point {{ {fields} }}\n\
                 #[ptx_kernel(block = 32)] fn k(a: Tile<Point, (M, N)>, r: u32) {{\n\
                 let (p, x): (Global<Point>, f32); p = a.row(r); ptx! {{ ld.global.f32 x, [p]; }} }} }}"
            );
            super::modules(&source).unwrap()[0].ptx[0].clone()
        };
        let (three, two) = (row("x: f32, y: f32, z: f32"), row("x: f32, y: f32"));
        assert!(three.contains("mul.lo.u64") && three.contains(", 12;") && !three.contains("shl"), "{three}");
        assert!(two.contains("shl.b64") && two.contains(", 3;"), "{two}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let failure = super::modules("#[ptx_kernel(arch = \"sm_80\")]\npub fn k() { y = 1; }").unwrap_err();
        assert!(failure.messages[0].starts_with("2:14: [P08"), "{failure}");
    }
    fn said(source: &str) -> String {
        super::modules(source).unwrap_err().to_string()
    }

    #[test]
    fn input_that_nests_too_deeply_is_an_error() {
        for n in [1000, 100_000] {
            let source = format!(
                "#[ptx_kernel(arch = \"sm_80\")]\npub fn k() {{ let x: u32 = {}1{}; }}",
                "(".repeat(n),
                ")".repeat(n)
            );
            assert_eq!(said(&source), "2:154: brackets nest more than 128 deep");
        }
        let source =
            format!("#[ptx_kernel(arch = \"sm_80\")]\npub fn k() {{ let x: u32 = 1{}; }}", " + 1".repeat(100_000));
        assert!(said(&source).ends_with("an expression of more than 256 operators"));
        let files: String = (1..=1000).map(|n| format!(".file {n} \"a{n}\"\n")).collect();
        let source = format!("ptx! {{ .version 8.0\n.target sm_80\n.address_size 64\n{files} }}");
        super::modules(&source).unwrap();
    }

    /// Helpers that each call the next one so often.
    fn helpers(levels: usize, times: usize) -> String {
        let mut source = String::from("#[ptx_module(arch = \"sm_80\")] pub mod m {\n");
        for level in 0..levels {
            let call = format!("h{}(); ", level + 1).repeat(times);
            source += &format!("fn h{level}() {{ {call} }}\n");
        }
        source + &format!("fn h{levels}() {{}}\n#[ptx_kernel] pub fn k() {{ h0(); }} }}")
    }

    #[test]
    fn helpers_that_call_helpers_end() {
        super::modules(&helpers(14, 2)).unwrap();
        assert!(said(&helpers(30, 2)).contains("[P0818] this kernel calls helpers more than 65536 times"));
        super::modules(&helpers(60, 1)).unwrap();
        assert!(said(&helpers(1000, 1)).contains("[P0818] helpers call each other more than 64 deep"));
    }

    /// A body that a limit cuts off is no text for the parser.
    #[test]
    fn a_kernel_that_unrolls_too_far_has_one_error() {
        let turns = "for i in 0..1024 { for j in 0..1024 { ptx! { mad.lo.u32 x, x, 3, 1; add.u32 x, x, 1; } } }";
        let source = format!("#[ptx_kernel(arch = \"sm_80\")]\npub fn k() {{ let mut x: u32 = 1; {turns} }}");
        assert!(
            said(&source).ends_with("[P0818] this kernel unrolls into more than a million instructions"),
            "{}",
            said(&source)
        );
    }

    /// With squared time this would take minutes.
    #[test]
    fn many_instances_of_a_kernel() {
        const INSTANCES: usize = 10_000;
        let instances: Vec<String> = (0..INSTANCES).map(|n| format!("({n})")).collect();
        let source = format!(
            "#[ptx_kernel(arch = \"sm_80\", instances = [{}])] pub fn k<const N: u32>() {{ let x: u32 = N; }}",
            instances.join(", ")
        );
        let modules = super::modules(&source).unwrap();
        assert_eq!(modules[0].ptx[0].matches(".entry").count(), INSTANCES);
    }

    /// Everything that could take for ever is computed once, or refused: one case for each kind of growth.
    #[test]
    fn unlucky_modules_end() {
        let kernel = |body: &str| format!("#[ptx_kernel] pub fn k(out: &mut [u32], n: u32) {{ {body} }}");
        let chain = |first: &str, each: &dyn Fn(usize) -> String, last: usize| {
            (1..last).map(each).fold(first.to_owned(), |text, item| text + &item)
        };
        let doubled = |i: usize| format!("const C{i}: u64 = C{} / 2 + C{} / 2;", i - 1, i - 1);
        let in_struct = |i: usize| format!("const C{i}: u64 = S::<N>::C{} / 2 + S::<N>::C{} / 2;", i - 1, i - 1);
        let structs =
            chain("struct S0 { a: u32, b: u32 }", &|i| format!("struct S{i} {{ a: S{}, b: S{} }}", i - 1, i - 1), 40);
        let cases = [
            (chain("const C0: u64 = 1;", &doubled, 60) + &kernel("let a: u64 = C59;"), None),
            (chain("const C0: u32 = 1;", &|i| format!("const C{i}: u32 = C{};", i - 1), 2000) + &kernel(""), None),
            (
                chain("", &|i| format!("const C{i}: u32 = C{};", i + 1), 2000) + "const C2000: u32 = 1;" + &kernel(""),
                Some("P0810"),
            ),
            (
                "fn f(n: u32) -> u32 { if n < 2 { 1 } else { f(n - 1) + f(n - 2) } } const A: u32 = f(40);".to_owned()
                    + &kernel(""),
                Some("P0818"),
            ),
            (
                format!(
                    "struct S<const N: u32> {{ x: u32 }} impl<const N: u32> S<N> {{ {} }}",
                    chain("const C0: u64 = 1;", &in_struct, 60)
                ) + &kernel("let a: u64 = S::<3>::C59;"),
                None,
            ),
            (structs.clone() + &kernel("let s: S39;"), Some("P0807")),
            (structs.clone() + &kernel("").replace("n: u32", "n: S39"), Some("P0817")),
            (structs + &kernel("#[shared] let s: S39;"), Some("P0")),
            (
                chain("const C0: [u32; 2] = [1, 2];", &|i| format!("const C{i}: [u32; 2] = [C0[0], C0[1]];"), 9)
                    + &kernel("let a: [[u32; 65536]; 65536] = [[0; 65536]; 65536];"),
                Some("P08"),
            ),
            ("const A: [[u32; 0]; 9] = [[0; 0]; 4294967295];".to_owned() + &kernel("let a: u32 = 1;"), Some("P0806")),
            ("const A: u32 = [[[0; 0]; 100000]; 100000];".to_owned() + &kernel("let a: u32 = A;"), Some("P0806")),
            (kernel("for i in 0..65536 { for j in 0..65536 { } }"), Some("P0818")),
            (
                kernel(
                    "for i in 0..3 { let pred: pred = n < 4; let f32: f32 = 1.0; let b32: b32 = 3; let u64: u64 = 2; }",
                ),
                None,
            ),
            (kernel("{ let u32: u32 = 1; } { let u32: u32 = 2; } let u32: [u32; 4] = [1; 4];"), None),
        ];
        for (items, expected) in cases {
            let result = super::modules(&format!("#[ptx_module(arch = \"sm_80\")] mod m {{ {items} }}"));
            let start = items.get(..90).unwrap_or(&items);
            match (result, expected) {
                (Ok(_), None) => {}
                (Err(failure), Some(code)) => assert!(failure.messages[0].contains(code), "{start}: {failure}"),
                (result, _) => panic!("{start}: {:?}", result.err().map(|failure| failure.messages.len())),
            }
        }
    }
}

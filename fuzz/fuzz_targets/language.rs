//! Any sequence of statements of the kernel language can be expanded: `cargo +nightly fuzz run language`. Random text
//! seldom is Rust; these are statements, most of them wrong: every operator, type, helper and piece of `ptx!`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_core::isa::table;
use ptx_language::prelude;
use ptx_expand::modules;
use std::sync::OnceLock;

/// Statements may nest this deep, expressions too.
const DEEP: usize = 5;

const TYPES: &[&str] = &[
    "u32",
    "u64",
    "f32",
    "f16x2",
    "pred",
    "b128",
    "i8",
    "[f32; 4]",
    "[u32; N]",
    "[[f32; 2]; 3]",
    "(u32, u64)",
    "T",
    "&[f32]",
    "M",
    "bool",
    "[u8; 18446744073709551615]",
    "[u32; 0]",
    "[[u32; 65536]; 65536]",
    "[f32; n]",
    "Global<f32>",
    "GlobalMut<T>",
    "Shared<[u32; 4]>",
    "Shared<Pair>",
    "SharedCluster<f16>",
    "Tmem",
    "Pair",
    "&mut u32",
    "[Pair; 2]",
];
const NAMES: &[&str] = &[
    "a",
    "b",
    "c",
    "x",
    "out",
    "n",
    "N",
    "M",
    "t",
    "tid.x",
    "laneid",
    "ctaid",
    "r#type",
    "arch",
    "i",
    "helper",
    "SIZE",
    "self",
    "pair",
    "pair.first",
    "place.most",
];
const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "&&", "||", "<", "<=", "==", "!=", ">", ">=", "="];
const LITERALS: &[&str] = &[
    "0",
    "1",
    "-1",
    "4294967296",
    "1.5",
    "true",
    "\"bfly\"",
    "[1, 2]",
    "0..4",
    "0..=99999999999",
    "1u8",
    "sm_90",
    "'c'",
    "b'c'",
    "*b\"text\"",
    "()",
];
const PTX: &[&str] = &[
    ";",
    ",",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    "@",
    "!",
    "|",
    ":",
    "+",
    "-",
    "a",
    "b",
    "x",
    "out",
    "t[0]",
    "{t[..]}",
    "{t[1..9]}",
    ".{N}",
    "%tid.x",
    "%r1",
    "1",
    "1.5",
    "0xff",
    "_",
    "skip",
    "unchecked",
    ".reg",
    ".b32",
    ".shared",
    ".loc 1 2 3",
    "\"s\"",
    "(4 * N + 1)",
    "..",
    "$",
    "?",
];

/// The choices that the bytes make; at their end always the first.
struct Choices<'d>(std::slice::Iter<'d, u8>);

impl Choices<'_> {
    fn number(&mut self) -> usize {
        self.0.next().map_or(0, |b| usize::from(*b))
    }

    fn of<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.number() % words.len()]
    }

    /// A word of the table or of the library.
    fn known(&mut self) -> &'static str {
        static KNOWN: OnceLock<Vec<String>> = OnceLock::new();
        let known = KNOWN.get_or_init(|| {
            let rows = table().rows().map(|r| r.name.to_owned());
            let members = table().rows().flat_map(|r| r.slots).flat_map(|s| s.members).map(|m| format!(".{}", m.text));
            rows.chain(members).collect()
        });
        &known[(self.number() << 8 | self.number()) % known.len()]
    }

    fn expression(&mut self, depth: usize) -> String {
        let deeper = depth + 1;
        match self.number() % 20 {
            _ if depth > DEEP => self.of(NAMES).to_owned(),
            0..4 => self.of(NAMES).to_owned(),
            4 | 5 => self.of(LITERALS).to_owned(),
            6..9 => {
                let (a, operator, b) = (self.expression(deeper), self.of(OPERATORS), self.expression(deeper));
                format!("({a} {operator} {b})")
            }
            9 => format!("wide({}) * {}", self.expression(deeper), self.expression(deeper)),
            10 => format!("{} as {}", self.expression(deeper), self.of(TYPES)),
            11 => format!("{}[{}]", self.of(NAMES), self.expression(deeper)),
            12 => format!("{}({})", self.helper(), self.expression(deeper)),
            13 => format!("{}{}", self.of(&["-", "!", "*", "&", "&mut "]), self.expression(deeper)),
            14 => format!(
                "{}.{}({})",
                self.of(NAMES),
                self.of(&["len", "max", "div_ceil", "pow", "iter", "at", "row", "fma", "abs", "advance", "cast::<T>"]),
                self.expression(deeper)
            ),
            15 => format!("{}.at({}, {})", self.of(NAMES), self.expression(deeper), self.expression(deeper)),
            16 => {
                format!("{}.select({}, {})", self.expression(deeper), self.expression(deeper), self.expression(deeper))
            }
            17 => match self.number() % 3 {
                0 => format!("Pair {{ first: {}, ..{} }}", self.expression(deeper), self.expression(deeper)),
                _ => format!(
                    "Pair {{ first: {}, most: {}, last: {} }}",
                    self.expression(deeper),
                    self.expression(deeper),
                    self.expression(deeper)
                ),
            },
            18 => format!(
                "match {} {{ 0 | N => {}, _ => {} }}",
                self.expression(deeper),
                self.expression(deeper),
                self.expression(deeper)
            ),
            _ => format!(
                "if {} {{ {} }} else {{ {} }}",
                self.expression(deeper),
                self.expression(deeper),
                self.expression(deeper)
            ),
        }
    }

    fn helper(&mut self) -> String {
        static LIBRARY: OnceLock<Vec<String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| {
            let of = |(module, source): &(&str, &'static str)| {
                let names: Vec<_> = prelude::helpers(source).iter().map(|h| format!("{module}::{}", h.name)).collect();
                names
            };
            prelude::FILES.iter().flat_map(of).chain(["helper".to_owned()]).collect()
        });
        let name = &library[self.number() % library.len()];
        let arguments = self.of(&["", "::<4>", "::<f32>", "::<8, f32>", "::<N, T>"]);
        format!("{name}{arguments}")
    }

    fn instruction(&mut self) -> String {
        let pieces = (0..self.number() % 24).map(|_| if self.number() % 4 == 0 { self.known() } else { self.of(PTX) });
        let text: Vec<&str> = pieces.collect();
        let balanced = text.join(" ");
        // What does not balance is no Rust and gets nowhere.
        if balanced.parse::<proc_macro2::TokenStream>().is_ok() {
            balanced
        } else {
            text.concat().replace(['(', ')', '[', ']', '{', '}'], "")
        }
    }

    fn statements(&mut self, depth: usize) -> String {
        (0..self.number() % 6).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: usize) -> String {
        let deeper = depth + 1;
        match self.number() % 15 {
            _ if depth > DEEP => "return;".to_owned(),
            0 => format!("let {}{} = {};\n", self.of(&["", "mut "]), self.of(NAMES), self.expression(0)),
            1 => format!(
                "let {}{}: {} = {};\n",
                self.of(&["", "mut "]),
                self.of(NAMES),
                self.of(TYPES),
                self.expression(0)
            ),
            2 => format!("let {}: {};\n", self.of(NAMES), self.of(TYPES)),
            3 => format!("{} {}= {};\n", self.expression(3), self.of(&["", "+", "<<"]), self.expression(0)),
            4..7 => format!("ptx! {{ {} }}\n", self.instruction()),
            7 => format!(
                "if {} {{ {} }} else {{ {} }}\n",
                self.expression(0),
                self.statements(deeper),
                self.statements(deeper)
            ),
            8 => format!("while {} {{ {} }}\n", self.expression(0), self.statements(deeper)),
            9 => format!("for {} in {} {{ {} }}\n", self.of(NAMES), self.expression(0), self.statements(deeper)),
            10 => format!(
                "'l: loop {{ {} {} }}\n",
                self.statements(deeper),
                self.of(&["break;", "continue 'l;", "return;", "break 'l 1;"])
            ),
            11 => format!(
                "#[{}] let {}: {};\n",
                self.of(&["shared", "shared(dynamic)", "local", "shared(align = 3)"]),
                self.of(NAMES),
                self.of(TYPES)
            ),
            12 => format!("const {}: {} = {};\n", self.of(NAMES), self.of(TYPES), self.expression(0)),
            13 => format!("assert!({}, \"{{{}}} {{T}}\");\n", self.expression(0), self.of(NAMES)),
            _ => format!("{};\n", self.expression(0)),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data.iter());
    let options = choices.of(&[
        "",
        ", block = 32",
        ", block = N",
        ", unsafe(requires(x.len() >= n))",
        ", instances = [(f32, 4), (u32, 8)]",
        ", raw",
    ]);
    let arch = choices.of(&["\"sm_80\"", "(\"sm_75\", \"sm_90a\")", "\"sm_100a\"", "\"sm_1\""]);
    let generics = choices.of(&["", "<T, const N: u32>", "<const N: u32>"]);
    let parameters = choices.of(&[
        "x: &[f32], out: &mut [f32], n: u32",
        "x: Tile<f32, (M, N)>, n: u32",
        "x: u32, x: f32",
        "r#type: u32, out: TensorMap",
    ]);
    let (helper, body) = (choices.statements(0), choices.statements(0));
    let taken =
        choices.of(&["a: u32", "a: &mut u32", "mut a: u32", "a: &[f32; 4]", "a: Global<f32>", "a: Pair", "a: &[f32]"]);
    let method = choices.of(&["self", "&self", "&mut self", "mut self"]);
    let equals = if arch.starts_with('(') { "" } else { " = " };
    let source = format!(
        "#[ptx_module(arch{equals}{arch})] mod m {{ #[align(16)] struct Pair {{ first: u32, #[align(64)] most: f32, last: bool }}\n\
         impl Pair {{ fn advance({method}, a: u32) {{ {helper} }} }}\n\
         fn helper<const K: u32>({taken}) -> u32 {{ {helper} a }}\n\
         #[ptx_kernel({})] pub fn k{generics}({parameters}) {{ {body} }} }}",
        options.trim_start_matches(", ")
    );
    let _ = modules(&source);
});

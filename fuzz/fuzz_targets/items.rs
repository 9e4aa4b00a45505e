//! Constants that name constants, structs of structs, helpers that call helpers, loops over all of these and registers named after types expand
//! within their budgets: `cargo +nightly fuzz run items`. The target `language` has statements; these are the items around them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_expand::modules;

/// Items of each kind.
const ITEMS: usize = 5;
/// Expressions and statements may nest this deep.
const DEEP: usize = 3;

const SCALARS: &[&str] = &["u32", "u64", "i32", "f32", "pred", "bool", "u8", "usize", "b128", "f16x2", "T"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "7",
    "32",
    "100",
    "1000",
    "65536",
    "4294967295",
    "18446744073709551615",
    "-1",
    "1.5",
    "true",
];
const OPERATORS: &[&str] = &["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", "==", "&&"];
const METHODS: &[&str] =
    &["max", "min", "pow", "div_ceil", "is_multiple_of", "wrapping_mul", "next_power_of_two", "len", "area"];

/// The choices that the bytes make; at their end always the first.
struct Choices<'d>(std::slice::Iter<'d, u8>);

impl Choices<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.0.next().map_or(0, |b| usize::from(*b)) % end
    }

    fn of(&mut self, words: &[&str]) -> String {
        words[self.below(words.len())].to_owned()
    }

    fn named(&mut self, prefix: &str) -> String {
        format!("{prefix}{}", self.below(ITEMS))
    }

    fn ty(&mut self, depth: usize) -> String {
        match self.below(8) {
            _ if depth > DEEP => "u32".to_owned(),
            0..3 => self.of(SCALARS),
            3 | 4 => self.named("S"),
            5 => format!("[{}; {}]", self.ty(depth + 1), self.number(DEEP)),
            6 => format!("({}, {})", self.ty(depth + 1), self.ty(depth + 1)),
            _ => format!("Shared<[{}; {}]>", self.ty(depth + 1), self.number(DEEP)),
        }
    }

    /// A value, mostly one that the expansion computes.
    fn number(&mut self, depth: usize) -> String {
        let deeper = depth + 1;
        match self.below(12) {
            0 | 1 => self.of(NUMBERS),
            2 | 3 => self.named("C"),
            4 => self.of(&["K", "N", "i", "j", "n", "a", "pred", "r#type"]),
            _ if depth > DEEP => self.named("C"),
            5 | 6 => format!("({} {} {})", self.number(deeper), self.of(OPERATORS), self.number(deeper)),
            7 => format!("{}.{}({})", self.number(deeper), self.of(METHODS), self.number(deeper)),
            8 => format!("{}[{}]", self.number(deeper), self.number(deeper)),
            9 => match self.below(3) {
                0 => format!("[{}; {}]", self.number(deeper), self.number(deeper)),
                1 => format!("[{}, {}, {}]", self.number(deeper), self.number(deeper), self.number(deeper)),
                _ => format!("{}.x.y", self.number(deeper)),
            },
            10 => format!("h{}::<{{ {} }}>({})", self.below(ITEMS), self.number(deeper), self.number(deeper)),
            _ => match self.below(3) {
                0 => format!("S{} {{ x: {}, ..{} }}", self.below(ITEMS), self.number(deeper), self.number(deeper)),
                1 => format!("S{} {{ x: {}, y: {} }}", self.below(ITEMS), self.number(deeper), self.number(deeper)),
                _ => format!(
                    "if {} {{ {} }} else {{ {} }}",
                    self.number(deeper),
                    self.number(deeper),
                    self.number(deeper)
                ),
            },
        }
    }

    fn block(&mut self, depth: usize) -> String {
        (0..self.below(5)).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: usize) -> String {
        let deeper = depth + 1;
        match self.below(10) {
            _ if depth > DEEP => "return;\n".to_owned(),
            0..3 => {
                let name = self.of(&["pred", "u32", "r", "f", "rd", "i", "x", "tmp", "b64"]);
                format!("let {}{name}: {} = {};\n", self.of(&["", "mut "]), self.ty(1), self.number(0))
            }
            3..5 => format!(
                "for {} in {}..{} {{ {} }}\n",
                self.of(&["i", "j"]),
                self.number(2),
                self.number(2),
                self.block(deeper)
            ),
            5 => format!("while {} {{ {} }}\n", self.number(1), self.block(deeper)),
            6 => format!("if {} {{ {} }} else {{ {} }}\n", self.number(1), self.block(deeper), self.block(deeper)),
            7 => format!("const C{}: {} = {};\n", self.below(ITEMS), self.ty(1), self.number(0)),
            8 => format!("#[{}] let s: {};\n", self.of(&["shared", "local", "shared(dynamic)"]), self.ty(0)),
            _ => format!("{};\n", self.number(0)),
        }
    }

    fn items(&mut self) -> String {
        let mut text = String::new();
        for at in 0..ITEMS {
            text += &format!("const C{at}: {} = {};\n", self.ty(2), self.number(0));
            text += &format!("struct S{at} {{ x: {}, y: {} }}\n", self.ty(0), self.ty(0));
            text += &format!("impl S{at} {{ const fn area(self) -> u32 {{ {} }} }}\n", self.number(0));
            let taken = self.ty(0);
            let (quick, result) = (self.of(&["", "const "]), self.ty(2));
            text += &format!(
                "{quick}fn h{at}<const K: u32>(a: {taken}) -> {result} {{ {} {} }}\n",
                self.block(0),
                self.number(0)
            );
        }
        text
    }
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data.iter());
    let items = choices.items();
    let instances =
        choices.of(&["(u32, 4)", "(f32, C0), (u32, C1)", "(u32, 1), (u32, 2), (f32, 3)", "([u32, f32], [1, 2, 3, 4])"]);
    let body = choices.block(0);
    let source = format!(
        "#[ptx_module(arch = \"sm_80\")] mod m {{ {items}\n\
         #[ptx_kernel(block = 32, instances = [{instances}])] pub fn k<T, const N: u32>(out: &mut [T], n: u32) {{ {body} }} }}"
    );
    let _ = modules(&source);
});

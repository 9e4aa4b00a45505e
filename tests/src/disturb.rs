//! Small mistakes in a whole module: tokens and lines lost, doubled, exchanged, written otherwise. Whether the result is
//! valid, ptxas decides. Mistakes in one instruction are [`crate::mutate`]'s.

use crate::random::Random;
use ptx_core::isa::table;
use ptx_core::lex::lex;
use ptx_core::token::{Kind, Source, TokenId};
use std::ops::Range;

/// One kind of mistake: the bytes that change, and what they become; `None` where there is no place for it.
type Mistake = fn(&Module, &mut Random) -> Option<Vec<(Range<usize>, String)>>;

/// By name, for reports.
const MISTAKES: &[(&str, Mistake)] = &[
    ("token dropped", dropped),
    ("token doubled", doubled),
    ("tokens swapped", swapped),
    ("token of the module", another),
    ("token of the module added", added),
    ("word of the language", word),
    ("word of the language added", word_added),
    ("number", number),
    ("line dropped", line_dropped),
    ("line doubled", line_doubled),
    ("line moved", line_moved),
    ("line added", line_added),
];

/// Numbers at borders.
const NUMBERS: &[&str] =
    &["0", "1", "2", "3", "4", "5", "8", "16", "32", "64", "128", "256", "1024", "1025", "65536", "-1", "4294967296"];

/// Words of directives and declarations, beside the names of directives and types.
const WORDS: &[&str] = &[
    ".v2",
    ".v4",
    ".ptr",
    "ret",
    "trap",
    "bra",
    "call",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ":",
    "=",
    "<",
    ">",
    "+",
    "-",
    "@",
    "!",
    "|",
    "_",
    "\"x\"",
    "1.0",
    "0f3F800000",
    "WARP_SZ",
    "%tid.x",
    "generic",
    "mask",
    "0xFF",
    ".managed",
    ".unified",
    "%r1",
    "%p1",
    "f",
];

/// Statements for anywhere.
const LINES: &[&str] = &[
    ".reg .b32 %new;",
    ".reg .v4 .f32 %new<4>;",
    ".reg .pred %new, %other;",
    ".shared .align 16 .b8 new[64];",
    ".local .align 8 .b8 new[8];",
    ".global .u32 new = 7;",
    ".visible .global .align 4 .f32 new[2] = {1.0, 0f3F800000};",
    ".const .b8 new[4] = {1, 2, 3, 4};",
    ".extern .global .b32 new;",
    ".extern .shared .align 16 .b8 new[];",
    ".weak .global .b32 new;",
    ".common .global .b32 new;",
    ".global .texref new;",
    ".global .surfref new;",
    ".global .samplerref new;",
    ".param .b32 new;",
    ".param .align 8 .b8 new[16];",
    ".extern .func new (.param .b32 a);",
    ".func new { ret; }",
    ".visible .func (.reg .b32 %out) new (.reg .b32 %in) { mov.b32 %out, %in; ret; }",
    ".visible .entry new () { ret; }",
    ".entry new (.param .u64 .ptr .global .align 16 a) .maxntid 32 { ret; }",
    ".alias new, f;",
    "new: .branchtargets new_label; new_label:",
    "new: .calltargets f;",
    "new: .callprototype _ (.param .b32 _);",
    "new: .callprototype (.param .b64 _) _ ();",
    "new:",
    "{",
    "}",
    "{ .reg .b32 %new; }",
    ".pragma \"nounroll\";",
    ".pragma \"new\";",
    ".maxntid 32, 2, 1",
    ".reqntid 64",
    ".minnctapersm 2",
    ".maxnreg 32",
    ".reqnctapercluster 2",
    ".explicitcluster",
    ".maxclusterrank 8",
    ".noreturn",
    ".blocksareclusters",
    ".abi_preserve 4",
    ".file 1 \"new.cu\"",
    ".file 2 \"new.cu\", 1700000000, 100",
    ".loc 1 1 1",
    ".section .debug_new { .b8 1, 2, 3 }",
    ".section .debug_new { .b32 new }",
    ".version 9.0",
    ".target sm_90",
    ".address_size 64",
    "ret;",
    "trap;",
    "bra new;",
    "exit;",
    "call f;",
    "@%p1 ret;",
];

/// A text and its tokens.
struct Module {
    text: String,
    source: Source,
    /// Positions of instructions: most of a module, and outside of this test's scope.
    instructions: Vec<Range<usize>>,
}

/// Makes one random mistake in a text; its kind, or `None` if it found no place.
pub fn disturb(text: &str, random: &mut Random) -> Option<(String, &'static str)> {
    let module = Module::new(text);
    let (kind, mistake) = random.pick(MISTAKES)?;
    let mut edits = mistake(&module, random)?;
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut out = module.text.clone();
    for (place, new) in edits {
        out.replace_range(place, &new);
    }
    (out != text).then_some((out, kind))
}

impl Module {
    fn new(text: &str) -> Module {
        let instructions = lines(text).filter(|line| is_instruction(&text[line.clone()])).collect();
        Module { text: text.to_owned(), source: lex(text.as_bytes()).0, instructions }
    }

    /// A random token; of four, three that stand in no instruction.
    fn token(&self, random: &mut Random) -> Option<(TokenId, Range<usize>)> {
        let anywhere = random.once_in(4);
        let count = self.source.tokens.len().checked_sub(1)?;
        let tries = (0..50).map(|_| TokenId::try_from(random.below(count)).unwrap_or(0));
        tries.map(|id| (id, self.place(id))).find(|(_, place)| anywhere || !self.is_inside(place))
    }

    fn place(&self, token: TokenId) -> Range<usize> {
        let span = self.source.span(token);
        span.lo as usize..span.hi as usize
    }

    fn is_inside(&self, place: &Range<usize>) -> bool {
        self.instructions.iter().any(|line| line.contains(&place.start))
    }

    /// A random line that is not blank, chosen as tokens are.
    fn line(&self, random: &mut Random) -> Option<Range<usize>> {
        let (_, token) = self.token(random)?;
        lines(&self.text).find(|line| line.contains(&token.start))
    }
}

fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    let ends = text.match_indices('\n').map(|(at, _)| at + 1).chain([text.len()]);
    ends.scan(0, |start, end| Some(std::mem::replace(start, end)..end))
}

fn is_instruction(line: &str) -> bool {
    let line = line.trim_start();
    line.ends_with(";\n") && line.starts_with(|c: char| c.is_ascii_lowercase() || c == '@')
}

fn before(place: &Range<usize>) -> Range<usize> {
    place.start..place.start
}

fn dropped(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let (_, place) = module.token(random)?;
    Some(vec![(place, String::new())])
}

fn doubled(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let (_, place) = module.token(random)?;
    let again = format!("{} ", &module.text[place.clone()]);
    Some(vec![(before(&place), again)])
}

/// Two tokens, often neighbors.
fn swapped(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let (first, a) = module.token(random)?;
    let b = if random.once_in(2) { module.place(first + 1) } else { module.token(random)?.1 };
    let text = |place: &Range<usize>| module.text[place.clone()].to_owned();
    (a != b).then(|| vec![(a.clone(), text(&b)), (b.clone(), text(&a))])
}

fn another(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let ((_, place), (_, other)) = (module.token(random)?, module.token(random)?);
    Some(vec![(place, module.text[other].to_owned())])
}

fn added(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let ((_, place), (_, other)) = (module.token(random)?, module.token(random)?);
    Some(vec![(before(&place), format!("{} ", &module.text[other]))])
}

/// A directive, a type or another word that the language has.
fn any_word(random: &mut Random) -> Option<String> {
    match random.below(3) {
        0 => {
            let mut names: Vec<&str> = table().directives.keys().copied().collect();
            names.sort_unstable();
            random.pick(&names).map(|name| (*name).to_owned())
        }
        1 => random.pick(&table().types).map(|ty| format!(".{}", ty.name)),
        _ => random.pick(WORDS).map(|word| (*word).to_owned()),
    }
}

fn word(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let (_, place) = module.token(random)?;
    Some(vec![(place, any_word(random)?)])
}

fn word_added(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let (_, place) = module.token(random)?;
    Some(vec![(before(&place), format!("{} ", any_word(random)?))])
}

fn number(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let is_number = |id: TokenId| module.source.tokens.get(id as usize).is_some_and(|t| t.kind == Kind::Int);
    let (_, place) = (0..20).filter_map(|_| module.token(random)).find(|(id, _)| is_number(*id))?;
    Some(vec![(place, (*random.pick(NUMBERS)?).to_owned())])
}

fn line_dropped(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    Some(vec![(module.line(random)?, String::new())])
}

fn line_doubled(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let line = module.line(random)?;
    Some(vec![(before(&line), module.text[line].to_owned())])
}

fn line_moved(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    let (line, to) = (module.line(random)?, module.line(random)?);
    (line != to).then(|| vec![(before(&to), module.text[line.clone()].to_owned()), (line, String::new())])
}

fn line_added(module: &Module, random: &mut Random) -> Option<Vec<(Range<usize>, String)>> {
    Some(vec![(before(&module.line(random)?), format!("{}\n", random.pick(LINES)?))])
}

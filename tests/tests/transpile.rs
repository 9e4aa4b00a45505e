//! Every real file that ptxas accepts, as Rust: plain it is the file byte for byte, or instruction for instruction where
//! Rust's lexer does not take its bytes; sugared it is what can be proved, and something always can.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use ptx_core::emit::rust;
use ptx_core::parse::parse_text;
use ptx_tests::corpus::{self, Sample};
use ptx_transpile::prove::prove;
use ptx_transpile::{Without, same};

/// The length of files from which on each takes seconds: they are written plain with `PTX_THOROUGH=1`, and `ptx transpile --sugar` on a
/// folder raises them.
const LONG: u64 = 24_000;

fn main() -> std::process::ExitCode {
    let mut trials = corpus::trials(|sample| Some(sample).filter(|s| s.accepted).into_iter().flat_map(trials));
    trials.push(Trial::test("addresses of our own prologue are typed", has_typed_addresses));
    trials.push(Trial::test("more equal statements than a loop has turns are loops all the same", has_short_loops));
    trials.push(Trial::test("names that Rust does not have survive", has_every_name));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A kernel of the language, whose PTX is raised again.
const OWN: &str = r#"
    #[ptx_kernel(arch = "sm_80", block = 256)]
    pub fn saxpy(x: &[f32], y: &mut [f32], a: f32, n: u32) {
        let i: u32 = ctaid.x * 256 + tid.x;
        if i < n {
            let (from, to) = (x.at(i), y.at(i));
            let (v, w): f32;
            ptx! { ld.global.f32 v, [from]; ld.global.f32 w, [to]; fma.rn.f32 v, v, a, w; st.global.f32 [to], v; }
        }
    }
"#;

fn has_typed_addresses() -> Result<(), Failed> {
    let ptx = expand(OWN)?;
    let proved = prove(&parse_text(ptx.as_bytes()).0, "m", &Without::new(), &expand)?;
    let typed = ["Global<f32> = x.at(", "GlobalMut<f32> = y.at("].iter().all(|part| proved.text.contains(part));
    let whole = proved.taken_back.iter().all(Vec::is_empty);
    if typed && whole { Ok(()) } else { Err(format!("{:?}\n{}", proved.taken_back, proved.text).into()) }
}

/// Words of Rust (of every edition, and reserved ones), and of the kernel language, which PTX allows as names.
const WORDS: &str = "as break const continue crate else enum extern false fn for if impl in let loop match mod move mut pub ref \
    return self Self static struct super trait true type unsafe use where while async await dyn abstract become box do final \
    macro override priv typeof unsized virtual yield try gen union auto default raw safe macro_rules u32 f32 bool str usize tid \
    ntid clock warp Global Shared Tile ptx arch wide unchecked pred select at PTX MODULE Instance launch config stream _x x$y";

/// A module with a name in one place.
const PLACES: [&str; 6] = [
    ".visible .entry k(.param .u64 NAME, .param .u64 arg1) { .reg .b64 a; .reg .b32 v; ld.param.u64 a, [NAME]; st.global.u64 [a], a; ret; }",
    ".visible .entry k(.param .u64 p) { .reg .b64 a; .reg .b32 NAME; ld.param.u64 a, [p]; ld.global.u32 NAME, [a]; st.global.u32 [a], NAME; ret; }",
    ".visible .entry k() { .reg .pred p; .reg .b32 v; mov.u32 v, %tid.x; NAME: setp.eq.u32 p, v, 1; @p bra NAME; ret; }",
    ".global .b32 NAME;\n.visible .entry k() { .reg .b32 v; .shared .b32 s; ld.global.u32 v, [NAME]; st.shared.u32 [s], v; ret; }",
    ".visible .func NAME () { ret; }\n.visible .entry k() { call NAME; ret; }",
    ".visible .entry NAME(.param .u32 NAME_param_0) { .reg .b32 v; ld.param.u32 v, [NAME_param_0]; ret; }",
];

fn has_every_name() -> Result<(), Failed> {
    for (place, word) in PLACES.iter().flat_map(|place| WORDS.split_whitespace().map(move |word| (place, word))) {
        let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n{}\n", place.replace("NAME", word));
        let (tree, wrong) = parse_text(text.as_bytes());
        if !wrong.is_empty() {
            return Err(format!("{word}: {wrong:?}\n{text}").into());
        }
        let plain = expand(&rust::plain(&tree, "m").text).map_err(|error| format!("{error}\n{text}"))?;
        let proved = prove(&tree, "m", &Without::new(), &expand).map_err(|error| format!("{error}\n{text}"))?;
        for (ptx, layout) in [(&plain, true), (&proved.ptx, false)] {
            if let Some(found) = same::difference(&tree, &parse_text(ptx.as_bytes()).0, layout) {
                return Err(format!("{found:?}\n{text}").into());
            }
        }
    }
    Ok(())
}

fn has_short_loops() -> Result<(), Failed> {
    let statements = "add.u32 %r1, %r1, 1; ".repeat(ptx_language::MOST_TURNS as usize + 100);
    let entry = format!(".visible .entry k() {{ .reg .b32 %r<2>; mov.u32 %r1, 1; {statements}ret; }}");
    let module = format!(".version 8.0\n.target sm_80\n.address_size 64\n{entry}\n");
    let proved = prove(&parse_text(module.as_bytes()).0, "m", &Without::new(), &expand)?;
    let whole = proved.taken_back.iter().all(Vec::is_empty);
    if proved.text.lines().count() < 30 && whole { Ok(()) } else { Err(format!("{:?}", proved.taken_back).into()) }
}

fn trials(sample: Sample) -> [Trial; 2] {
    let (plain, sugar) = (sample.clone(), sample);
    let is_thorough = std::env::var_os("PTX_THOROUGH").is_some();
    let unless = |left_out: Option<&'static str>, test: &dyn Fn() -> Result<(), Failed>| match left_out {
        Some(why) => Ok(Completion::ignored_with(why)),
        None => test().map(|()| Completion::Completed),
    };
    [
        Trial::ignorable_test(format!("plain {}", plain.name), move || {
            let left_out = !is_thorough && is_long(&plain);
            unless(left_out.then_some("takes seconds: set PTX_THOROUGH=1"), &|| is_the_file(&plain))
        }),
        Trial::ignorable_test(format!("sugar {}", sugar.name), move || {
            unless(is_long(&sugar).then_some("takes long: `ptx transpile --sugar` does it"), &|| is_proved(&sugar))
        }),
    ]
}

fn is_long(sample: &Sample) -> bool {
    std::fs::metadata(&sample.path).is_ok_and(|file| file.len() > LONG)
}

fn expand(source: &str) -> Result<String, String> {
    let modules = ptx_expand::modules(source).map_err(|e| e.to_string())?;
    modules.into_iter().next().and_then(|m| m.ptx.into_iter().next()).ok_or_else(|| "no module".to_owned())
}

fn is_the_file(sample: &Sample) -> Result<(), Failed> {
    let bytes = std::fs::read(&sample.path)?;
    let (tree, _) = parse_text(&bytes[..]);
    let plain = rust::plain(&tree, "m");
    let ptx = expand(&plain.text)?;
    if plain.rewritten.is_empty() && ptx.as_bytes() != bytes {
        return Err("the bytes are others".into());
    }
    match same::difference(&tree, &parse_text(ptx.as_bytes()).0, true) {
        None => Ok(()),
        Some(found) => Err(format!("{found:?}").into()),
    }
}

fn is_proved(sample: &Sample) -> Result<(), Failed> {
    let bytes = std::fs::read(&sample.path)?;
    let (tree, _) = parse_text(&bytes[..]);
    match prove(&tree, "m", &Without::new(), &expand) {
        Ok(proved) => match same::difference(&tree, &parse_text(proved.ptx.as_bytes()).0, false) {
            None => Ok(()),
            Some(found) => Err(format!("{found:?}").into()),
        },
        // What the language cannot declare stays plain.
        Err(why)
            if ["option", "directive", "debug", "statement", "parameter", "without"]
                .iter()
                .any(|w| why.contains(w)) =>
        {
            Ok(())
        }
        Err(why) => Err(why.into()),
    }
}

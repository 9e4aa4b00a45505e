//! Expansion of `ptx!` bodies in the fallback implementation of proc_macro2.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use super::{Host, source};
use proc_macro2::{Group, Span, TokenStream, TokenTree};
use ptx_core::token::Kind;

/// The group of `ptx! { … }` in a text.
fn group(text: &str) -> Group {
    let stream: TokenStream = text.parse().expect("Rust tokens");
    match stream.into_iter().last() {
        Some(TokenTree::Group(group)) => group,
        other => panic!("no group: {other:?}"),
    }
}

/// Each PTX token with the source text of the first and of the last Rust token it is made of.
fn origins(text: &str) -> Vec<String> {
    let group = group(text);
    let mut host = Host::default();
    host.token(Span::call_site());
    let (source, diagnostics) = source(&mut host, group.span(), group.stream());
    assert_eq!(diagnostics, []);
    let text_of = |span: Span| span.source_text().unwrap_or_default();
    let tokens = (0..source.tokens.len() as u32).filter(|t| source.kind(*t) != Kind::Eof);
    tokens
        .map(|t| {
            let (first, last) = host.ends(source.span(t));
            format!("{} = {} to {}", source.text(t), text_of(first), text_of(last))
        })
        .collect()
}

/// The bytes that the lexer was given.
fn bytes(text: &str) -> String {
    let group = group(text);
    let (source, _) = source(&mut Host::default(), group.span(), group.stream());
    String::from_utf8(source.bytes).unwrap()
}

#[test]
fn every_token_has_its_rust_tokens() {
    assert_eq!(
        origins("ptx! { @!%p1 ld.global.v2.f32 {%f1, _}, [%rd1+-8]; }")[..8],
        [
            "@ = @ to @",
            "! = ! to !",
            "%p1 = % to p1",
            "ld = ld to ld",
            ".global = . to global",
            ".v2 = . to v2",
            ".f32 = . to f32",
            "{ = { to {",
        ]
    );
}

#[test]
fn what_the_rust_lexer_joins_is_split() {
    let tcgen = origins("ptx! { tcgen05.cp.cta_group::1.128x128b [a], b; }");
    assert!(tcgen.contains(&".cta_group::1 = . to 1.128x128b".to_owned()), "{tcgen:#?}");
    assert!(tcgen.contains(&".128x128b = 1.128x128b to 1.128x128b".to_owned()), "{tcgen:#?}");
}

#[test]
fn literals_keep_their_spelling() {
    let text = "ptx! { mov.f32 x, 0f3F800000; mov.u32 y, 5U; mov.f64 z, .5; mov.u32 w, 0x1F; $L1: }";
    for literal in ["0f3F800000", "5U", "0x1F", "$L1"] {
        assert!(origins(text).iter().any(|o| o.starts_with(&format!("{literal} = "))), "{literal}");
    }
}

#[test]
fn comments_are_trivia_and_doc_comments_are_not_attributes() {
    let text = "ptx! {\n  // a\n  /// b\n  add.s32 x, y, z; /* c */ /** d */ //! e\n }";
    assert_eq!(bytes(text), "\n  // a\n  /// b\n  add.s32 x, y, z; /* c */ /** d */ //! e\n ");
    assert_eq!(origins(text).len(), 8);
}

#[test]
fn an_empty_body_has_no_tokens() {
    assert_eq!(origins("ptx! { }"), [""; 0]);
}

#[test]
fn text_is_made_from_tokens_where_the_source_is_another() {
    // As in `macro_rules!`: the group's span is that of the template, its tokens are what it expanded to.
    let template = group("ptx! { add.$ty $d, %r1, 1; $L: ret; }");
    let expanded = group("{ add.f32 sum, %r1, 1; $L: ret; }");
    let mut host = Host::default();
    let (source, diagnostics) = source(&mut host, template.span(), expanded.stream());
    assert_eq!(diagnostics, []);
    assert_eq!(String::from_utf8(source.bytes.clone()).unwrap(), "add.f32 sum, %r1, 1;\n$L: ret;");
    assert_eq!(source.origins.len(), source.tokens.len());
}

/// The same tokens with spans that say nothing, as in rust-analyzer.
fn nowhere(stream: TokenStream) -> TokenStream {
    let token = |tree| {
        let mut tree = match tree {
            TokenTree::Group(group) => TokenTree::Group(Group::new(group.delimiter(), nowhere(group.stream()))),
            tree => tree,
        };
        tree.set_span(Span::call_site());
        tree
    };
    stream.into_iter().map(token).collect()
}

#[test]
fn words_stay_apart_without_places() {
    let text = "{ .reg .f32 v; .global .align 4 .b8 x[4]; mul.f32 v, 1.0, -v; setp.ne.s32 p, a, b; \
                tcgen05.cp.cta_group::1.128x128b [a], b; tcgen05.mma.cta_group::2.kind::f16 [d], a, b, i, p; \
                .reg .b32 %r<4>; @!%p1 bra $L1; $L1: mov.u32 x, (1 << 4) + 2; ld.shared::cta.u32 x, [y+-8]; cvt.rn.{T}x2.f32 p, a, b; max.{T} p, a, b; \
                wgmma.mma_async.m64n{N}k16.f32 {d}, a, b; ld.b{BITS} x, [y]; }";
    let group = group(text);
    let mut host = Host::default();
    let (source, diagnostics) = source(&mut host, Span::call_site(), nowhere(group.stream()));
    assert_eq!(diagnostics, []);
    let words: Vec<_> = (0..source.tokens.len() as u32).map(|t| source.text(t).to_owned()).collect();
    let (expected, _) = super::source(&mut Host::default(), group.span(), group.stream());
    let expected: Vec<_> = (0..expected.tokens.len() as u32).map(|t| expected.text(t).to_owned()).collect();
    assert_eq!(words, expected);
}

/// Whole modules, of compilers and by hand, are the same tokens of PTX in an editor whose tokens have no places.
#[test]
fn modules_are_right_without_places() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root.join("tests/filetests"), root.join("corpus/ptx")];
    let (mut modules, mut wrong) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // Rust's lexer refuses what some modules hold.
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let Ok(tokens) = text.parse::<TokenStream>() else { continue };
            let (written, earlier) = ptx_core::lex::lex(text.as_bytes());
            if path.extension().is_none_or(|extension| extension != "ptx") || !earlier.is_empty() {
                continue;
            }
            let (found, _) = source(&mut Host::default(), Span::call_site(), nowhere(tokens));
            let words = |source: &ptx_core::token::Source| {
                (0..source.tokens.len() as u32).map(|token| source.text(token).to_owned()).collect::<Vec<_>>()
            };
            let (written, found) = (words(&written), words(&found));
            modules += 1;
            if let Some(at) = (0..written.len().max(found.len())).find(|at| written.get(*at) != found.get(*at)) {
                let near = |words: &[String]| {
                    words[at.saturating_sub(4).min(words.len())..(at + 3).min(words.len())].join(" ")
                };
                wrong.push(format!("{}: `{}` becomes `{}`", path.display(), near(&written), near(&found)));
            }
        }
    }
    assert!(modules > 100 && wrong.is_empty(), "{modules} modules, {} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// The kernels of the examples and, with `PTX_THOROUGH`, most of the library's become the same PTX in an editor whose tokens have no places.
#[test]
fn kernels_are_right_without_places() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root.join("examples")];
    // The library takes seconds: `.ci/run` does it, too.
    if std::env::var_os("PTX_THOROUGH").is_some() {
        folders.push(root.join("ptx-kernels/src"));
    }
    let mut kernels = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let tokens: TokenStream = text.parse().unwrap();
                let compile = |tokens| {
                    let file = syn::parse2(tokens).unwrap();
                    crate::source::ptx_of(crate::program::of_file(file, &Default::default(), false))
                };
                let Ok(placed) = compile(tokens.clone()) else { continue };
                let found = compile(nowhere(tokens));
                let found = found.unwrap_or_else(|failure| panic!("{}: {failure}", path.display()));
                kernels += found.len();
                for (placed, found) in placed.iter().zip(&found) {
                    assert_eq!(words(&placed.ptx), words(&found.ptx), "{} of {}", found.name, path.display());
                }
            }
        }
    }
    assert!(kernels >= 20, "{kernels} kernels");
}

/// The texts without comments, blanks and the lines that profilers read.
fn words(texts: &[String]) -> Vec<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with(".loc") && !line.trim_start().starts_with(".file");
    let code = |line: &str| line.split("//").next().unwrap_or("").split_whitespace().collect::<String>();
    texts.iter().map(|text| text.lines().filter(is_code).map(code).collect()).collect()
}

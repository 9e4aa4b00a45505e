//! The pages of `ptx explain`: each has its three parts, and the examples do what they say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use ptx_core::check::check;
use ptx_core::diag::{Code, codes};
use ptx_core::parse::parse_text;

/// The parts of a page: the meaning, the wrong example, the right one.
struct Page {
    meaning: &'static str,
    wrong: &'static str,
    right: &'static str,
}

fn page(code: &Code) -> Option<Page> {
    let text = code.explain;
    let (meaning, rest) = text.split_once("\nWrong:")?;
    let (wrong, right) = rest.split_once("\nRight:")?;
    Some(Page { meaning, wrong: fenced(wrong)?, right: fenced(right)? })
}

/// The text between the first fence, in any language, and the next.
fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("```")?;
    let (_, rest) = rest.split_once('\n')?;
    Some(rest.split_once("```")?.0)
}

#[test]
fn every_page_says_what_it_means_and_shows_wrong_and_right() {
    for code in codes::ALL {
        let page = page(code).unwrap_or_else(|| panic!("{} lacks a part", code.id));
        assert!(page.meaning.split_whitespace().count() >= 5, "{} does not say what it means", code.id);
        assert!(!page.meaning.starts_with('#'), "{} has a heading; its title is in codes.rs", code.id);
        assert_ne!(page.wrong.trim(), page.right.trim(), "{}", code.id);
    }
}

#[test]
fn wrong_examples_are_wrong_and_right_ones_right() {
    let mut mistakes = Vec::new();
    for code in codes::ALL.iter().filter(|c| ("P02".."P07").contains(&&c.id[..3])) {
        let Page { wrong, right, .. } = page(code).unwrap();
        if !found(wrong).iter().any(|(id, _)| *id == code.id) {
            mistakes.push(format!("{}: the wrong example gives {:?}", code.id, found(wrong)));
        }
        if found(right).iter().any(|(id, error)| *id == code.id || *error) {
            mistakes.push(format!("{}: the right example gives {:?}", code.id, found(right)));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// The codes of an example, and whether each is an error. One that is no module stands in a kernel.
fn found(example: &str) -> Vec<(&'static str, bool)> {
    let text = match example.contains(".version") {
        true => example.to_owned(),
        false => format!("{HEADER}{example}\n    ret;\n}}\n"),
    };
    let (tree, earlier) = parse_text(text.as_bytes());
    check(tree, earlier, &Default::default()).1.iter().map(|d| (d.code.id, d.is_error())).collect()
}

const HEADER: &str = ".version 8.7
.target sm_90
.address_size 64
.entry kernel(.param .u64 p)
{
    .reg .pred %p<4>;
    .reg .u32 %r<4>;
    .reg .u64 %rd<4>;
    .reg .f32 %f<4>;
    .reg .f64 %fd<4>;
";

//! The index of the helper library.

use ptx_language::prelude::{FILES, about, helpers};

#[test]
fn every_function_is_found_and_says_what_it_is() {
    for (module, source) in FILES {
        let found = helpers(source);
        let items = source.lines().map(str::trim_start);
        let items = items.filter(|line| ["fn ", "const fn ", "struct "].iter().any(|word| line.starts_with(word)));
        assert_eq!(found.len(), items.count(), "{module}");
        assert!(!about(source).is_empty(), "{module} says what it is for");
        for helper in found {
            assert!(helper.about.ends_with('.'), "{module}::{}: {:?}", helper.name, helper.about);
            assert!(helper.text.ends_with('}') && helper.text.trim_start().starts_with("///"), "{}", helper.text);
        }
    }
}

#[test]
fn a_signature_is_one_line() {
    let source =
        "//! Words.\n\n/// Adds: `add`.\nfn sum<const N: u32>(\n    a: u32,\n    b: u32,\n) -> u32 {\n    a + b\n}\n";
    let found = helpers(source);
    let told: Vec<_> = found.iter().map(|h| (h.name.as_str(), h.about.as_str(), h.signature.as_str())).collect();
    assert_eq!(told, [("sum", "Adds: `add`.", "fn sum<const N: u32>(a: u32, b: u32) -> u32")]);
}

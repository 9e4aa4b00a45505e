//! Calls of every helper of the library with one generic argument too many, and with one too few: each has one error, about that.

use ptx_language::prelude::{FILES, helpers};

/// What stands between the brackets behind the name of a function, at its commas; none where there is another bracket.
fn list(text: &str, (open, close): (char, char)) -> Option<(Vec<&str>, &str)> {
    let inside = text.strip_prefix(open)?;
    let (mut depth, mut from, mut parts) = (0usize, 0, Vec::new());
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if depth == 0 && letter == close => {
                parts.push(&inside[from..at]);
                parts.retain(|part| !part.trim().is_empty());
                return Some((parts, &inside[at + close.len_utf8()..]));
            }
            ',' if depth == 0 => {
                parts.push(&inside[from..at]);
                from = at + 1;
            }
            '(' | '[' | '<' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '>' if !inside[..at].ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// A call with each wrong number of generic arguments.
fn calls(module: &str, name: &str, text: &str) -> Vec<String> {
    let behind = text.find(&format!("fn {name}<")).map(|at| &text[at + 3 + name.len()..]);
    let Some((generics, rest)) = behind.and_then(|text| list(text, ('<', '>'))) else { return Vec::new() };
    let Some((params, _)) = list(rest, ('(', ')')) else { return Vec::new() };
    let args = vec!["0"; params.len()].join(", ");
    let written = |generic: &&str| match generic.split_once(':').map(|(_, ty)| ty.trim()) {
        Some("&str") => Some("\"add\""),
        Some("bool") => Some("true"),
        Some("u32" | "i32" | "usize") => Some("1"),
        Some(_) => None,
        None => Some("u32"),
    };
    let Some(all) = generics.iter().map(written).collect::<Option<Vec<&str>>>() else { return Vec::new() };
    let more = [all.as_slice(), &["1"]].concat();
    // A type is found from the values.
    let is_constant = generics.last().is_some_and(|last| last.contains(':'));
    let fewer = if is_constant { &all[..all.len() - 1] } else { &[] };
    let lists = [&more[..], fewer].into_iter().filter(|list| !list.is_empty());
    lists.map(|list| format!("{module}::{name}::<{}>({args});", list.join(", "))).collect()
}

#[test]
fn a_wrong_number_of_generic_arguments_has_one_error() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (module, source) in FILES {
        let of = helpers(source);
        let calls: Vec<String> = of.iter().flat_map(|helper| calls(module, &helper.name, helper.text)).collect();
        if calls.is_empty() {
            continue;
        }
        count += calls.len();
        let kernels = calls.iter().enumerate().map(|(at, call)| format!("#[ptx_kernel] pub fn k{at}() {{ {call} }}\n"));
        let kernels: String = kernels.collect();
        let failure = super::modules(&format!("#[ptx_module(arch = \"sm_100a\")] pub mod m {{\n{kernels}}}"));
        let messages = failure.map_or_else(|failure| failure.messages, |_| Vec::new());
        for (at, call) in calls.iter().enumerate() {
            let own = format!("{}:", at + 2);
            let said: Vec<&String> = messages.iter().filter(|message| message.starts_with(&own)).collect();
            if !matches!(said.as_slice(), [only] if only.contains("generic argument")) {
                wrong.push(format!("{call} {said:?}"));
            }
        }
    }
    assert!(count > 100, "{count}");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

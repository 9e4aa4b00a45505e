//! The text of one entry. The driver assembles everything that it gets, but a program launches few of the instances of a
//! module.

/// The words before an entry's name.
const ENTRIES: [&str; 3] = [".visible .entry ", ".entry ", ".weak .entry "];

/// A module's text with one of its entries alone. The lines of the other entries stay, empty, so that messages name the same
/// lines. `None` if there is no other entry, if the module has variables, which its kernels share, or if the ends of its entries are not
/// found by counting braces.
pub(super) fn of_entry(ptx: &str, entry: &str) -> Option<String> {
    let (mut text, mut depth, mut others) = (String::new(), 0_i32, false);
    // In an entry: whether it is the one.
    let (mut inside, mut found) = (None, false);
    for line in ptx.split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or(line);
        if declares_variable(code) || code.contains("/*") {
            return None;
        }
        inside = inside.or_else(|| entry_name(code).map(|name| name == entry));
        found |= inside == Some(true);
        others |= inside == Some(false);
        text.push_str(if inside == Some(false) { "\n" } else { line });
        let (opened, closed) = (code.matches('{').count(), code.matches('}').count());
        depth += opened as i32 - closed as i32;
        if depth == 0 && closed > 0 {
            inside = None;
        }
    }
    (found && others && depth == 0).then_some(text)
}

/// The name of the entry whose header begins in a line.
fn entry_name(line: &str) -> Option<&str> {
    let after = ENTRIES.iter().find_map(|words| line.trim_start().strip_prefix(words))?;
    after.split(|c: char| c == '(' || c.is_whitespace()).next()
}

/// Returns true if a line declares a variable in global or constant memory.
fn declares_variable(line: &str) -> bool {
    let line = line.trim_start();
    let is_header = [".param", ".entry", ".func"].iter().any(|word| line.contains(word));
    line.starts_with('.') && !is_header && (line.contains(".global") || line.contains(".const"))
}

#[cfg(test)]
mod tests {
    use super::of_entry;

    const TWO: &str = ".version 7.0\n.target sm_80\n.func g() {\n}\n.visible .entry a(\n    .param .u64 .ptr .global .align 4 x\n)\n{\n    \
                       mov.v2.b32 {%a, %b}, %c;\n    {\n    ret;\n    }\n}\n\n.visible .entry ab() {\n    ret; // }\n}\n";

    #[test]
    fn other_entries_are_empty_lines() {
        let a = of_entry(TWO, "a").unwrap_or_default();
        assert_eq!(a.lines().count(), TWO.lines().count());
        assert!(a.contains("mov.v2") && a.contains(".func g") && !a.contains("ab()"), "{a}");
        let ab = of_entry(TWO, "ab").unwrap_or_default();
        assert!(ab.starts_with(".version 7.0\n.target sm_80\n.func g() {\n}\n\n\n\n") && ab.ends_with("}\n"), "{ab}");
        assert!(ab.contains("entry ab") && !ab.contains("mov.v2"), "{ab}");
    }

    #[test]
    fn shared_variables_and_single_entries_need_the_whole_text() {
        assert_eq!(of_entry(&format!(".visible .global .u32 n;\n{TWO}"), "a"), None);
        assert_eq!(of_entry(&format!("    .const .align 4 .b8 n[4];\n{TWO}"), "a"), None);
        assert_eq!(of_entry(&TWO.replace(".visible .entry ab", ".func ab"), "a"), None);
        assert_eq!(of_entry(TWO, "b"), None);
        assert_eq!(of_entry(&format!("{TWO}}}"), "a"), None);
    }
}

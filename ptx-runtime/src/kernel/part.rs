//! The text of one entry. The driver assembles everything that it gets, but a program launches few of the instances of a
//! module.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The words before an entry's name.
const ENTRIES: [&str; 3] = [".visible .entry ", ".entry ", ".weak .entry "];

/// The divisions of a module's texts whose entries were loaded, by the addresses of the texts, which live as long as the module: a large text takes
/// longer to divide than an entry to assemble.
#[derive(Debug)]
pub(super) struct Divisions(Mutex<Known>);

/// Divisions by addresses; `None` for texts that are not divided.
type Known = BTreeMap<usize, Option<Arc<Division>>>;

/// A module's text in sections: the lines of an entry, or those between entries.
#[derive(Debug)]
struct Division(Vec<Section>);

/// The bytes of a section, the number of its lines, and the entry that it is.
#[derive(Debug)]
struct Section {
    bytes: Range<usize>,
    lines: usize,
    entry: Option<String>,
}

impl Divisions {
    pub(super) const fn new() -> Divisions {
        Divisions(Mutex::new(BTreeMap::new()))
    }

    /// A text of the module with one of its entries alone. The lines of the other entries stay, empty, so that messages name the same
    /// lines. `None` if there is no other entry, if the module has variables, which its kernels share, or if the ends of its entries are
    /// not found by counting braces.
    pub(super) fn alone(&self, ptx: &str, entry: &str) -> Option<String> {
        self.division(ptx)?.alone(ptx, entry)
    }

    /// The names of the entries of a text of the module that are assembled alone; else of the first one.
    pub(super) fn names<'a>(&self, ptx: &'a str) -> Vec<&'a str> {
        let all = || ptx.lines().filter_map(entry_name);
        if self.division(ptx).is_some() { all().collect() } else { all().take(1).collect() }
    }

    fn division(&self, ptx: &str) -> Option<Arc<Division>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(ptx.as_ptr() as usize).or_insert_with(|| Division::of(ptx).map(Arc::new)).clone()
    }
}

impl Division {
    fn of(ptx: &str) -> Option<Division> {
        let (mut sections, mut depth, mut at): (Vec<Section>, i32, usize) = (Vec::new(), 0, 0);
        let mut inside: Option<String> = None;
        for line in ptx.split_inclusive('\n') {
            let code = line.split("//").next().unwrap_or(line);
            if declares_variable(code) || code.contains("/*") {
                return None;
            }
            inside = inside.or_else(|| entry_name(code).map(str::to_owned));
            let bytes = at..at + line.len();
            at = bytes.end;
            match sections.last_mut() {
                Some(last) if last.entry == inside => (last.bytes.end, last.lines) = (at, last.lines + 1),
                _ => sections.push(Section { bytes, lines: 1, entry: inside.clone() }),
            }
            let (opened, closed) = (code.matches('{').count(), code.matches('}').count());
            depth += opened as i32 - closed as i32;
            if depth == 0 && closed > 0 {
                inside = None;
            }
        }
        (depth == 0).then_some(Division(sections))
    }

    fn alone(&self, ptx: &str, entry: &str) -> Option<String> {
        let is_it = |section: &&Section| section.entry.as_deref() == Some(entry);
        let entries = self.0.iter().filter(|section| section.entry.is_some()).count();
        if entries == 1 || !self.0.iter().any(|section| is_it(&section)) {
            return None;
        }
        let mut text = String::new();
        for section in &self.0 {
            match section.entry {
                Some(_) if !is_it(&section) => text.extend(std::iter::repeat_n('\n', section.lines)),
                _ => text.push_str(ptx.get(section.bytes.clone())?),
            }
        }
        Some(text)
    }
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
    use super::Division;

    fn of_entry(ptx: &str, entry: &str) -> Option<String> {
        Division::of(ptx)?.alone(ptx, entry)
    }

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

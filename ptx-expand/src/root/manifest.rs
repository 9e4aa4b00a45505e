//! The name of `ptx-launch` in the manifest of the package that is built. It reads as much of TOML as dependencies need: a
//! parser of all of it would cost every user's build.

use std::path::{Path, PathBuf};

const PACKAGE: &str = "ptx-launch";
/// Its own name, as code writes it.
const NAME: &str = "ptx_launch";

/// The answer of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub enum Dependency {
    /// It is a dependency with this name. So it is taken to be where there is no manifest to read.
    Named(String),
    /// There is a manifest, and it is no dependency.
    Absent,
}

/// The dependency of the package that is built. Another name is another `--extern` of the compiler, so that cargo builds again.
pub fn dependency() -> Dependency {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let read = |folder: &PathBuf| std::fs::read_to_string(folder.join("Cargo.toml")).ok();
    match folder.as_ref().and_then(|folder| Some((folder, read(folder)?))) {
        Some((folder, manifest)) => of_manifest(&manifest, || workspace(folder)),
        None => Dependency::Named(NAME.to_owned()),
    }
}

/// The manifest of the workspace around a package.
fn workspace(package: &Path) -> Option<String> {
    let manifests = package.ancestors().filter_map(|folder| std::fs::read_to_string(folder.join("Cargo.toml")).ok());
    manifests.into_iter().find(|manifest| entries(manifest).iter().any(|(keys, _)| keys[0] == "workspace"))
}

/// The dependency by its own name, else the first renamed one.
fn of_manifest(manifest: &str, workspace: impl Fn() -> Option<String>) -> Dependency {
    let entries = entries(manifest);
    if entries.iter().any(|(keys, value)| keys[..] == ["package", "name"] && text(value) == Some(PACKAGE)) {
        return Dependency::Named(NAME.to_owned());
    }
    let mut names: Vec<&str> = Vec::new();
    let mut inherited: Option<Vec<(Vec<String>, String)>> = None;
    for (keys, _) in &entries {
        let Some((name, _)) = dependency_of(keys) else { continue };
        if names.contains(&name) {
            continue;
        }
        let says = |key: &str| {
            let of_it = entries.iter().filter(|(keys, _)| dependency_of(keys).is_some_and(|(n, _)| n == name));
            of_it
                .filter(|(keys, _)| dependency_of(keys).is_some_and(|(_, k)| k == [key]))
                .map(|(_, value)| value)
                .next()
        };
        let package = match says("workspace") {
            Some(_) => {
                let all = inherited
                    .get_or_insert_with(|| workspace().map(|manifest| self::entries(&manifest)).unwrap_or_default());
                let package = all.iter().find(|(keys, _)| keys[..] == ["workspace", "dependencies", name, "package"]);
                package.and_then(|(_, value)| text(value)).unwrap_or(name)
            }
            None => says("package").and_then(|value| text(value)).unwrap_or(name),
        };
        if package == PACKAGE {
            names.push(name);
        }
    }
    let own = names.iter().find(|name| **name == PACKAGE);
    match own.or(names.first()) {
        Some(name) => Dependency::Named(name.replace('-', "_")),
        None => Dependency::Absent,
    }
}

/// The name of the dependency that an entry is about, and the keys behind it.
fn dependency_of(keys: &[String]) -> Option<(&str, &[String])> {
    const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let keys = match keys {
        [target, _, rest @ ..] if target == "target" => rest,
        keys => keys,
    };
    match keys {
        [table, name, rest @ ..] if TABLES.iter().any(|known| table == known) => Some((name, rest)),
        _ => None,
    }
}

/// The contents of a string.
fn text(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    value.strip_prefix(quote)?.strip_suffix(quote)
}

/// Every key of a manifest with its value as it is written: tables and inline tables become paths of keys.
fn entries(manifest: &str) -> Vec<(Vec<String>, String)> {
    let (mut table, mut found) = (Vec::new(), Vec::new());
    for statement in statements(manifest) {
        if let Some(header) = statement.strip_prefix('[') {
            table = keys(header.trim_matches(['[', ']']));
            found.push((table.clone(), String::new()));
        } else if let Some((key, value)) = assignment(&statement) {
            entry(&[table.as_slice(), &keys(key)].concat(), value, &mut found);
        }
    }
    found.retain(|(keys, _)| !keys.is_empty());
    found
}

fn entry(path: &[String], value: &str, found: &mut Vec<(Vec<String>, String)>) {
    match value.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
        Some(inner) => {
            found.push((path.to_vec(), String::new()));
            for (key, value) in split(inner, ',').into_iter().filter_map(assignment) {
                entry(&[path, &keys(key)].concat(), value, found);
            }
        }
        None => found.push((path.to_vec(), value.to_owned())),
    }
}

/// `key = value`
fn assignment(statement: &str) -> Option<(&str, &str)> {
    let at = split(statement, '=').first()?.len();
    let (key, value) = statement.split_at_checked(at)?;
    Some((key.trim(), value.strip_prefix('=')?.trim()))
}

/// `a."b.c".d`
fn keys(path: &str) -> Vec<String> {
    let bare = |key: &str| text(key.trim()).unwrap_or(key.trim()).to_owned();
    split(path, '.').into_iter().map(bare).collect()
}

/// The parts of a text between the marks that stand outside of strings and brackets.
fn split(text: &str, mark: char) -> Vec<&str> {
    let (mut parts, mut start, mut state) = (Vec::new(), 0, State::default());
    for (at, c) in text.char_indices() {
        if c == mark && state.is_outside() {
            parts.push(&text[start..at]);
            start = at + c.len_utf8();
        }
        state.step(c);
    }
    parts.push(&text[start..]);
    parts
}

/// Lines without comments; a value that goes on makes one of several.
fn statements(manifest: &str) -> Vec<String> {
    let (mut all, mut current, mut state) = (Vec::new(), String::new(), State::default());
    let mut is_comment = false;
    for c in manifest.chars().chain(['\n']) {
        is_comment = c != '\n' && (is_comment || c == '#' && state.quote.is_none());
        if c == '\n' && state.is_outside() {
            all.push(std::mem::take(&mut current).trim().to_owned());
        } else if !is_comment {
            state.step(c);
            current.push(c);
        }
    }
    all.retain(|statement| !statement.is_empty());
    all
}

/// The strings and brackets around a character. A string of several lines is three strings to it, which have the same end.
#[derive(Default)]
struct State {
    quote: Option<char>,
    is_escaped: bool,
    depth: usize,
}

impl State {
    fn is_outside(&self) -> bool {
        self.quote.is_none() && self.depth == 0
    }

    fn step(&mut self, c: char) {
        match (self.quote, c) {
            (Some(_), _) if self.is_escaped => self.is_escaped = false,
            (Some('"'), '\\') => self.is_escaped = true,
            (Some(quote), c) if c == quote => self.quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => self.quote = Some(c),
            (None, '[' | '{') => self.depth += 1,
            (None, ']' | '}') => self.depth = self.depth.saturating_sub(1),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(manifest: &str) -> Dependency {
        let workspace = "[workspace]\nmembers = []\n[workspace.dependencies]\ngpu = { package = \"ptx-launch\", path = \"x\" }\n\
                         ptx-launch = \"0.1\"\nother = \"1\"";
        of_manifest(manifest, || Some(workspace.to_owned()))
    }

    #[test]
    fn a_dependency_is_found_by_its_package() {
        let renamed = [
            "[dependencies]\ngpu = { package = \"ptx-launch\", version = \"0.1\" }",
            "[dependencies]\nserde = \"1\" # gpu\ngpu = { path = \"a{b\", features = [\"x\", \"y\"],\n package = 'ptx-launch' }",
            "[dependencies.gpu]\npackage = \"ptx-launch\"\nversion = \"0.1\"",
            "[dependencies]\ngpu.package = \"ptx-launch\"\ngpu.path = \"..\"",
            "[dev-dependencies]\ngpu = { package = \"ptx-launch\" }",
            "[target.'cfg(unix)'.dependencies]\n\"gpu\" = { package = \"ptx-launch\" }",
            "[dependencies]\ngpu = { workspace = true }",
            "[dependencies]\nother.workspace = true\ngpu.workspace = true",
            "[package]\ndescription = \"\"\"\n[dependencies]\nptx-launch = '1' \"\"\"\n[dependencies]\ngpu = { package = \"ptx-launch\" }",
        ];
        for manifest in renamed {
            assert_eq!(named(manifest), Dependency::Named("gpu".to_owned()), "{manifest}");
        }
    }

    #[test]
    fn its_own_name_comes_first() {
        let own = [
            "[dependencies]\nptx-launch = \"0.1\"",
            "[dependencies]\nptx-launch.workspace = true",
            "[dependencies]\ngpu = { package = \"ptx-launch\" }\nptx-launch = { path = \"..\" }",
            "[package]\nname = \"ptx-launch\"\n[dependencies]\nother = \"1\"",
        ];
        for manifest in own {
            assert_eq!(named(manifest), Dependency::Named("ptx_launch".to_owned()), "{manifest}");
        }
        let hyphen = "[dependencies]\nmy-gpu = { package = \"ptx-launch\" }";
        assert_eq!(named(hyphen), Dependency::Named("my_gpu".to_owned()));
    }

    #[test]
    fn absence_is_told() {
        let absent = [
            "",
            "[package]\nname = \"a\"",
            "[dependencies]\n# ptx-launch = \"1\"\nother = { workspace = true }",
            "[dependencies]\nptx-launch = { package = \"something-else\" }",
            "[features]\ndefault = [\"ptx-launch\"]",
            "[= } ' \" # ]\n\"",
        ];
        for manifest in absent {
            assert_eq!(named(manifest), Dependency::Absent, "{manifest}");
        }
    }
}

//! The helper library: modules in the kernel language itself, in `prelude/`. A kernel that names `warp::reduce_sum`
//! gets the module `warp`; the host reads the file then, and never before.
//!
//! The files are Rust syntax, but no Rust: they are text here. Every helper says which instructions it is.

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("prelude/", $name, ".rs")))),*]
    };
}

/// Every module: its name and its source.
pub const FILES: &[(&str, &str)] = files! {
    "warp" "block" "vector" "matrix" "fragment" "barrier" "cluster" "cp_async" "mbarrier" "swizzle" "tcgen05" "bulk" "tma"
    "wgmma" "cache" "grid" "math" "pipeline" "scheduler" "epilogue" "product" "attention"
};

/// The source of a module.
pub fn source(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

/// Purpose of a module: the text at its head.
pub fn about(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
}

/// A function of a module, as it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper<'s> {
    /// The name, without the module's.
    pub name: &'s str,
    /// Its effect, and its instructions.
    pub about: String,
    /// `fn load(to: u32, from: u64)`
    pub signature: String,
    /// All of it, comments included.
    pub text: &'s str,
}

/// The functions of a module, in order: each ends in a brace at the margin.
pub fn helpers(source: &str) -> Vec<Helper<'_>> {
    source.split_inclusive("\n}\n").filter_map(helper).collect()
}

/// The function at the end of a piece of source, with the comment above it.
fn helper(piece: &str) -> Option<Helper<'_>> {
    let piece = piece.trim();
    let (before, code) = piece.split_at(piece.find("\nfn ")? + 1);
    let comment = before.rfind("\n\n").map_or(0, |blank| blank + 2);
    let about = before.get(comment..)?.lines().filter_map(|line| line.strip_prefix("/// "));
    let signature = code.split(" {\n").next()?.split_whitespace().collect::<Vec<_>>().join(" ");
    let name = code.strip_prefix("fn ")?.split(['(', '<']).next()?;
    Some(Helper {
        name,
        about: about.collect::<Vec<_>>().join(" "),
        signature: tidy(&signature),
        text: piece.get(comment..)?,
    })
}

/// One line, as if it had never been several.
fn tidy(signature: &str) -> String {
    signature.replace("( ", "(").replace(", )", ")").replace("< ", "<").replace(", >", ">")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_and_says_what_it_is() {
        for (module, source) in FILES {
            let found = helpers(source);
            assert_eq!(found.len(), source.lines().filter(|line| line.starts_with("fn ")).count(), "{module}");
            assert!(!about(source).is_empty(), "{module} says what it is for");
            for helper in found {
                assert!(helper.about.ends_with('.'), "{module}::{}: {:?}", helper.name, helper.about);
                assert!(helper.text.ends_with('}') && helper.text.starts_with("///"), "{}", helper.text);
            }
        }
    }

    #[test]
    fn a_signature_is_one_line() {
        let source = "//! Words.\n\n/// Adds: `add`.\nfn sum<const N: u32>(\n    a: u32,\n    b: u32,\n) -> u32 {\n    a + b\n}\n";
        let found = helpers(source);
        let told: Vec<_> = found.iter().map(|h| (h.name, h.about.as_str(), h.signature.as_str())).collect();
        assert_eq!(told, [("sum", "Adds: `add`.", "fn sum<const N: u32>(a: u32, b: u32) -> u32")]);
    }
}

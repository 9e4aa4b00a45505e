//! Sugar that is proved: what a build makes of it is the input but for names, or the sugar is taken back, pass by pass
//! and kernel by kernel. Whoever calls this brings the macros.

use super::{Kernel, PASSES, Sugared, Without, entries, module, same, without_debug};
use ptx_core::parse::parse_text;
use ptx_core::syntax::Tree;

/// A module in the kernel language whose PTX is known to be the input.
#[derive(Clone, Debug)]
pub struct Proved {
    /// The source.
    pub text: String,
    /// Its PTX.
    pub ptx: String,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// The input as it is without what debuggers read, where that had to go.
    pub input: Option<Vec<u8>>,
    /// For each kernel the passes that had to be taken back, and why: what was different.
    pub taken_back: Vec<Vec<(&'static str, String)>>,
}

/// The PTX of a Rust source, or the errors of the build.
pub type Expand<'e> = &'e dyn Fn(&str) -> Result<String, String>;

/// Raises a module as far as it can be proved.
///
/// # Errors
/// Why not even the module with no pass at all could be proved.
pub fn prove(tree: &Tree, name: &str, without: &Without, expand: Expand<'_>) -> Result<Proved, String> {
    let input = without_debug(tree);
    let stripped = input.as_ref().map(|text| parse_text(&text[..]).0);
    let tree = stripped.as_ref().unwrap_or(tree);
    let count = entries(tree);
    let mut flags = vec![without.clone(); count];
    let mut taken_back = vec![Vec::new(); count];
    let attempted = attempt(tree, name, &flags, None, expand);
    let (sugared, ptx) = match attempted {
        Ok(proved) => proved,
        Err(why) => {
            let everything: Without = PASSES.iter().map(|(pass, _)| *pass).collect();
            for (at, back) in taken_back.iter_mut().enumerate() {
                if count == 1 || attempt(tree, name, &flags, Some(at), expand).is_err() {
                    *back = stepwise(tree, name, (&mut flags, at), expand)?;
                }
            }
            // Kernels that hold alone may yet meet in a name.
            attempt(tree, name, &flags, None, expand).or_else(|_| {
                taken_back.iter_mut().for_each(|kernel| kernel.push(("all", first_line(&why))));
                attempt(tree, name, &vec![everything; count], None, expand)
            })?
        }
    };
    Ok(Proved { text: sugared.text, ptx, kernels: sugared.kernels, input, taken_back })
}

/// The passes that were undone in one kernel, with the reason.
type TakenBack = Vec<(&'static str, String)>;

/// Adds the passes of one kernel one at a time, and leaves out each that does not hold.
fn stepwise(
    tree: &Tree,
    name: &str,
    (flags, at): (&mut [Without], usize),
    expand: Expand<'_>,
) -> Result<TakenBack, String> {
    let wanted = std::mem::replace(&mut flags[at], PASSES.iter().map(|(pass, _)| *pass).collect());
    attempt(tree, name, flags, Some(at), expand)?;
    let mut failed = Vec::new();
    for (pass, _) in PASSES.iter().filter(|(pass, _)| !wanted.contains(pass)) {
        flags[at].remove(pass);
        if let Err(why) = attempt(tree, name, flags, Some(at), expand) {
            flags[at].insert(pass);
            failed.push((*pass, first_line(&why)));
        }
    }
    Ok(failed)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// The source and its PTX, if that is the input; of one entry alone, if that is said.
fn attempt(
    tree: &Tree,
    name: &str,
    flags: &[Without],
    only: Option<usize>,
    expand: Expand<'_>,
) -> Result<(Sugared, String), String> {
    let sugared = module(tree, name, flags, only)?;
    let ptx = expand(&sugared.text)?;
    let again = parse_text(ptx.as_bytes()).0;
    let found = match only {
        None => same::difference(tree, &again, false),
        Some(entry) => same::difference_of_entry(tree, entry, &again),
    };
    let text = |line: Option<same::Line>| line.map_or_else(|| "nothing".to_owned(), |l| l.text);
    match found {
        None => Ok((sugared, ptx)),
        Some(found) => Err(format!("`{}` became `{}`", text(found.a), text(found.b))),
    }
}

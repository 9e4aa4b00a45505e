//! Sugar that is proved: what a build makes of it is the input but for names, or the sugar is taken back, pass by pass
//! and kernel by kernel. Whoever calls this brings the macros.

use super::{Kernel, PASSES, Sugared, Without, same, sugar};
use crate::parse::parse_text;
use crate::syntax::Tree;

/// A module in the kernel language whose PTX is known to be the input.
#[derive(Clone, Debug)]
pub struct Proved {
    /// The source.
    pub text: String,
    /// Its PTX.
    pub ptx: String,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// For each kernel the passes that had to be taken back, and why: what was different.
    pub taken_back: Vec<Vec<(&'static str, String)>>,
}

/// The PTX of a Rust source, or what the build says.
pub type Expand<'e> = &'e dyn Fn(&str) -> Result<String, String>;

/// Raises a module as far as it can be proved.
///
/// # Errors
/// Why not even the module with no pass at all could be proved.
pub fn prove(tree: &Tree, name: &str, without: &Without, expand: Expand<'_>) -> Result<Proved, String> {
    let everything = PASSES.iter().map(|(pass, _)| *pass).collect::<Without>();
    let count = sugar(tree, name, &[])?.kernels.len();
    let mut flags = vec![without.clone(); count];
    let mut taken_back = vec![Vec::new(); count];
    let first = attempt(tree, name, &flags, expand);
    let (sugared, ptx) = match first {
        Ok(proved) => proved,
        Err(_) => {
            let bare = vec![everything.clone(); count];
            attempt(tree, name, &bare, expand)?;
            for at in 0..count {
                let mut trial = bare.clone();
                trial[at].clone_from(without);
                if attempt(tree, name, &trial, expand).is_err() {
                    (flags[at], taken_back[at]) = stepwise(tree, name, (&bare, at), without, expand);
                }
            }
            // Kernels that hold alone may yet meet in a name.
            match attempt(tree, name, &flags, expand) {
                Ok(proved) => proved,
                Err(why) => {
                    taken_back.iter_mut().for_each(|kernel| kernel.push(("all", why.clone())));
                    attempt(tree, name, &bare, expand)?
                }
            }
        }
    };
    Ok(Proved { text: sugared.text, ptx, kernels: sugared.kernels, taken_back })
}

/// Adds the passes of one kernel one at a time, and leaves out each that does not hold.
fn stepwise(
    tree: &Tree,
    name: &str,
    (bare, at): (&[Without], usize),
    without: &Without,
    expand: Expand<'_>,
) -> (Without, Vec<(&'static str, String)>) {
    let mut trial = bare.to_vec();
    let mut failed = Vec::new();
    for (pass, _) in PASSES.iter().filter(|(pass, _)| !without.contains(pass)) {
        trial[at].remove(pass);
        if let Err(why) = attempt(tree, name, &trial, expand) {
            trial[at].insert(pass);
            failed.push((*pass, why.lines().next().unwrap_or_default().to_owned()));
        }
    }
    (trial.swap_remove(at), failed)
}

/// The source and its PTX, if that is the input.
fn attempt(tree: &Tree, name: &str, flags: &[Without], expand: Expand<'_>) -> Result<(Sugared, String), String> {
    let sugared = sugar(tree, name, flags)?;
    let ptx = expand(&sugared.text)?;
    let again = parse_text(ptx.as_bytes()).0;
    match same::difference(tree, &again, false) {
        None => Ok((sugared, ptx)),
        Some(found) => {
            let text = |line: Option<same::Line>| line.map_or_else(|| "nothing".to_owned(), |l| l.text);
            Err(format!("`{}` became `{}`", text(found.a), text(found.b)))
        }
    }
}

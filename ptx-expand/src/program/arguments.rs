//! The generic arguments that whoever compiles a text chose: each is that of a parameter, and is given once.

use super::Options;
use super::around::Files;
use super::names::Index;
use super::outline::of_items;
use crate::describe::Problem;
use ptx_core::diag::near::nearest;
use ptx_target::sort::SortSmall;

/// The arguments that no kernel takes, and those that are given twice.
pub(super) fn wrong(files: &Files, index: &Index, options: &Options) -> Vec<Problem> {
    if options.with.is_empty() {
        return Vec::new();
    }
    let is_chosen = |name: &str| options.only.as_ref().is_none_or(|only| only == name);
    let kernels = of_items(files.own(), index, |module| files.absolute(module));
    let kernels: Vec<_> = kernels.into_iter().filter(|kernel| is_chosen(&kernel.name)).collect();
    let mut known: Vec<&str> =
        kernels.iter().flat_map(|kernel| &kernel.generics).map(|own| own.name.as_str()).collect();
    known.sort_small();
    known.dedup();
    let mut found = Vec::new();
    for (at, (name, argument)) in options.with.iter().enumerate() {
        if let Some((_, earlier)) = options.with.iter().take(at).find(|(earlier, _)| earlier == name) {
            let message = format!("the generic parameter `{name}` has two arguments, `{earlier}` and `{argument}`");
            found.push(Problem { help: vec!["give it one".to_owned()], ..Problem::elsewhere(message) });
        } else if !kernels.is_empty() && !known.contains(&name.as_str()) {
            let help = match (nearest(name, known.iter().copied()), known.is_empty()) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, true) => "no kernel here is generic".to_owned(),
                (None, false) => format!("the generic parameters are `{}`", known.join("`, `")),
            };
            let message = format!("there is no generic parameter `{name}`");
            found.push(Problem { help: vec![help], ..Problem::elsewhere(message) });
        }
    }
    found
}

//! Names that something has, and the next free ones: `x`, `x_2`, `x_3`.

use std::collections::{HashMap, HashSet};

/// The names of a function or a module.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    names: HashSet<String>,
    /// The number to try next behind a stem: those below it are taken, so thousands of names with one stem do not count from the start.
    next: HashMap<String, usize>,
}

impl Taken {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Takes exactly this name. Returns false if something has it.
    pub(super) fn insert(&mut self, name: String) -> bool {
        self.names.insert(name)
    }

    /// Takes a name like this one.
    pub(super) fn free(&mut self, stem: &str) -> String {
        if self.names.insert(stem.to_owned()) {
            return stem.to_owned();
        }
        let next = self.next.entry(stem.to_owned()).or_insert(2);
        loop {
            let name = format!("{stem}_{next}");
            *next += 1;
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }
}

impl FromIterator<String> for Taken {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Taken {
        Taken { names: names.into_iter().collect(), next: HashMap::new() }
    }
}

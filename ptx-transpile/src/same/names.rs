//! Names to numbers: what a name means where it stands, and which number that got at its first use.

use std::collections::HashMap;

/// Declared meaning of a name.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    /// A register: what is said of it at its first use.
    Register(String),
    /// A variable or a parameter in a function: likewise.
    Variable(String),
    /// A variable or a function of the module: likewise.
    Symbol(String),
    /// The label in front of this instruction of the function.
    Label(u32),
    /// A name that means something outside of this module.
    Outside,
}

/// A declaration: the name, or the common part of a range and its count.
#[derive(Clone, Debug)]
struct Declared {
    /// Tells apart what is called the same in two scopes.
    id: u32,
    count: Option<u64>,
    meaning: Meaning,
}

/// The scopes around a place.
#[derive(Default)]
pub(super) struct Names {
    scopes: Vec<HashMap<String, Declared>>,
    declared: u32,
    numbers: HashMap<(u32, u64), u32>,
    /// Number of registers, variables and symbols that have a number.
    used: [u32; 3],
}

impl Names {
    pub(super) fn open(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// The numbers of registers and variables start again with each function.
    pub(super) fn start_function(&mut self) {
        self.used[0] = 0;
        self.used[1] = 0;
    }

    /// Declares a name in the innermost scope. The first one stays: a prototype comes before its definition.
    pub(super) fn declare(&mut self, name: &str, count: Option<u64>, meaning: Meaning) {
        let id = self.declared;
        self.declared += 1;
        if let Some(scope) = self.scopes.last_mut() {
            scope.entry(name.to_owned()).or_insert(Declared { id, count, meaning });
        }
    }

    /// Canonical form of a name: a number, and at its first use its declaration. `None` if nothing declares it.
    pub(super) fn canonical(&mut self, name: &str) -> Option<String> {
        let (declared, at) = self.find(name)?;
        let (class, mark, said) = match &declared.meaning {
            Meaning::Register(said) => (0, '%', said.clone()),
            Meaning::Variable(said) => (1, '&', said.clone()),
            Meaning::Symbol(said) => (2, '*', said.clone()),
            Meaning::Label(at) => return Some(format!("${at}")),
            Meaning::Outside => return Some(name.to_owned()),
        };
        let key = (declared.id, at);
        if let Some(number) = self.numbers.get(&key) {
            return Some(format!("{mark}{number}"));
        }
        let number = self.used[class];
        self.used[class] += 1;
        self.numbers.insert(key, number);
        Some(format!("{mark}{number}<{said}>"))
    }

    /// The innermost declaration of a name, and which of its registers it is.
    fn find(&self, name: &str) -> Option<(&Declared, u64)> {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[stem.len()..].parse::<u64>().ok();
        self.scopes.iter().rev().find_map(|scope| {
            if let Some(declared) = scope.get(name).filter(|d| d.count.is_none()) {
                return Some((declared, 0));
            }
            let range = scope.get(stem).filter(|d| d.count.is_some_and(|count| number.is_some_and(|n| n < count)))?;
            Some((range, number?))
        })
    }
}

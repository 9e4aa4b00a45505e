//! The module graph of a crate: its rooms (a module at the top with its folder), and who uses whom.

use crate::source::{self, File};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Graph {
    /// The rooms, with their lines of source.
    pub(crate) rooms: BTreeMap<String, usize>,
    /// From the user to the used, with one place of each use.
    pub(crate) arrows: BTreeMap<(String, String), Vec<String>>,
}

impl Graph {
    pub(crate) fn of(name: &str) -> Graph {
        let files = source::files(name);
        let mut rooms = BTreeMap::new();
        for file in &files {
            *rooms.entry(file.module.first().cloned().unwrap_or_default()).or_default() += file.lines;
        }
        let exports = exports(&files, &rooms);
        let mut arrows: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for file in files.iter().filter(|file| !file.module.is_empty()) {
            let from = &file.module[0];
            source::paths(&file.names, |at, up, name| {
                let outside = up.is_none_or(|supers| supers == file.module.len());
                let to = if rooms.contains_key(name) { Some(name) } else { exports.get(name).map(String::as_str) };
                if let Some(to) = to.filter(|to| outside && to != from) {
                    let path = file.path.strip_prefix(source::root()).unwrap_or(&file.path).display();
                    let place = format!("{path}:{}", source::line(&file.names, at));
                    arrows.entry((from.clone(), to.to_owned())).or_default().push(place);
                }
            });
        }
        Graph { rooms, arrows }
    }

    /// The sets of rooms that reach each other.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<String>> {
        let reach: BTreeMap<&String, BTreeSet<&String>> =
            self.rooms.keys().map(|room| (room, self.reached_from(room))).collect();
        let mut circles = Vec::<BTreeSet<String>>::new();
        for room in self.rooms.keys().filter(|room| reach[room].contains(room)) {
            if circles.iter().all(|circle| !circle.contains(room)) {
                let mates = reach[room].iter().filter(|other| reach[*other].contains(room));
                circles.push(mates.map(|other| (*other).clone()).collect());
            }
        }
        circles
    }

    fn reached_from(&self, room: &String) -> BTreeSet<&String> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![room]);
        while let Some(from) = open.pop() {
            for (_, to) in self.arrows.keys().filter(|(user, _)| user == from) {
                if reached.insert(to) {
                    open.push(to);
                }
            }
        }
        reached
    }
}

/// The names that `lib.rs` re-exports, each with its room.
fn exports(files: &[File], rooms: &BTreeMap<String, usize>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for file in files.iter().filter(|file| file.module.is_empty()) {
        for statement in file.names.split(';').filter_map(|text| text.split_once("pub use ").map(|(_, rest)| rest)) {
            let Some((room, names)) = statement.split_once("::").filter(|(room, _)| rooms.contains_key(*room)) else {
                continue;
            };
            for name in names.split(['{', '}', ',', ' ', ':', '\n']).filter(|name| !name.is_empty()) {
                found.insert(name.to_owned(), room.to_owned());
            }
        }
    }
    found
}

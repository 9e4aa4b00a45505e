//! The rules of `ARCHITECTURE.md` that can be read from the source: who may use whom, and where opcodes may stand.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod graph;
mod limits;
mod newer;
mod opcodes;
mod source;
mod words;

use graph::Graph;
use std::collections::{BTreeMap, BTreeSet};

/// The rooms of `ptx-core`. A room uses those to its left.
const LEFT_TO_RIGHT: &[&str] =
    &["span", "hash", "host", "diag", "isa", "token", "syntax", "lex", "parse", "edit", "ir", "lower", "check", "emit"];

/// The crates, each with those that it uses.
const CRATES: &[(&str, &[&str])] = &[
    ("ptx-target", &[]),
    ("ptx-pack", &[]),
    ("ptx-core", &["ptx_target"]),
    ("ptx-language", &["ptx_core"]),
    ("ptx-interp", &["ptx_core", "ptx_target"]),
    // Descriptors of matrices.
    ("ptx-prove", &["ptx_core", "ptx_target"]),
    ("ptx-transpile", &["ptx_core", "ptx_language"]),
    // Contracts on machine code and the occupancy of chips; proofs.
    ("ptx-expand", &["ptx_core", "ptx_language", "ptx_pack", "ptx_prove", "ptx_target"]),
    ("ptx-macros", &["ptx_expand"]),
    ("ptx-runtime", &["ptx_core", "ptx_interp", "ptx_pack", "ptx_target"]),
    ("ptx-launch", &["ptx_macros", "ptx_runtime"]),
    ("ptx-jit", &["ptx_core", "ptx_expand", "ptx_runtime", "ptx_transpile"]),
    ("ptx-kernels", &["ptx_launch"]),
    ("ptx-ffi-macros", &[]),
    ("ptx-ffi", &["ptx_ffi_macros", "ptx_jit", "ptx_launch", "ptx_target"]),
    ("benches", &["ptx_kernels", "ptx_launch"]),
    // Layouts of fragments are drawn from the functions of the CPU device.
    ("ptx-lsp", &["ptx_core", "ptx_expand", "ptx_interp", "ptx_language"]),
    (
        "ptx-cli",
        &[
            "ptx_core",
            "ptx_expand",
            "ptx_interp",
            "ptx_jit",
            "ptx_language",
            "ptx_lsp",
            "ptx_prove",
            "ptx_runtime",
            "ptx_transpile",
        ],
    ),
];

/// A set of rooms that use each other, and the reason.
struct Circle {
    krate: &'static str,
    rooms: &'static [&'static str],
    #[expect(dead_code, reason = "for the reader")]
    reason: &'static str,
}

/// The only circles. None may grow; whoever breaks one up takes its rooms out of here.
const CIRCLES: &[Circle] = &[
    Circle {
        krate: "ptx-ffi",
        rooms: &["call", "function", "host", "stream", "value"],
        reason: "a function's description holds the pointer that a call goes through, and a call checks its values against the description",
    },
    Circle {
        krate: "ptx-runtime",
        rooms: &["buffer", "graph"],
        reason: "a capture records uses of buffers, and a buffer remembers the graphs that use it",
    },
    Circle {
        krate: "ptx-runtime",
        rooms: &["device", "stream"],
        reason: "a device makes streams, and a stream belongs to its device: methods of public types that name each other",
    },
    Circle {
        krate: "ptx-runtime",
        rooms: &["kernel", "launch", "load"],
        reason: "a kernel keeps what was loaded of it, loading fits a launch to the chip, and a launch takes a kernel",
    },
];

#[test]
fn rooms_of_the_core_use_what_is_to_their_left() {
    let graph = Graph::of("ptx-core");
    let place = |room: &str| LEFT_TO_RIGHT.iter().position(|r| *r == room);
    let unlisted: Vec<_> = graph.rooms.keys().filter(|room| !room.is_empty() && place(room).is_none()).collect();
    assert!(unlisted.is_empty(), "rooms without a place in LEFT_TO_RIGHT: {unlisted:?}");
    let wrong = graph.arrows.iter().filter(|((from, to), _)| place(from) < place(to));
    let told: Vec<_> = wrong.map(|((from, to), at)| format!("`{from}` uses `{to}`, to its right: {at:?}")).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn circles_are_those_that_are_listed() {
    let mut found = BTreeSet::new();
    for (krate, _) in CRATES {
        found.extend(Graph::of(krate).circles().into_iter().map(|rooms| (*krate, rooms)));
    }
    let listed =
        CIRCLES.iter().map(|circle| (circle.krate, circle.rooms.iter().map(|room| (*room).to_owned()).collect()));
    let listed: BTreeSet<(&str, BTreeSet<String>)> = listed.collect();
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "circles that are not listed: {new:#?}\nlisted, but not there: {gone:#?}"
    );
}

/// The engine and the operations know an `Observer`, and not the watcher that implements it. The watcher gets the state of a
/// warp, and not the context of its steps, which holds the observer.
#[test]
fn the_engine_and_the_watcher_know_only_their_trait() {
    let graph = Graph::of("ptx-interp");
    let users: Vec<_> = graph.arrows.iter().filter(|((_, to), _)| to == "watch").collect();
    let wrong: Vec<_> = users.iter().filter(|((from, _), _)| from != "machine").collect();
    assert!(!users.is_empty() && wrong.is_empty(), "rooms that use the watcher: {wrong:#?}");
    let used = ["ctx", "engine"].map(|room| graph.arrows.get(&("watch".to_owned(), room.to_owned())));
    assert_eq!(used, [None; 2], "the watcher uses the engine");
}

#[test]
fn crates_use_what_is_above_them() {
    for (krate, allowed) in CRATES {
        let names = CRATES.iter().map(|(name, _)| name.replace('-', "_"));
        let forbidden: Vec<String> =
            names.filter(|name| !allowed.contains(&&**name) && *name != krate.replace('-', "_")).collect();
        for file in source::files(krate) {
            for other in &forbidden {
                // `::ptx_launch::` stands in what the macros generate.
                let path = format!("{other}::");
                let uses = file.names.match_indices(&path).filter(|(at, _)| !file.names[..*at].ends_with("::"));
                let lines: Vec<_> = uses.map(|(at, _)| source::line(&file.names, at)).collect();
                assert!(lines.is_empty(), "{} uses {other}: lines {lines:?}", file.path.display());
            }
        }
    }
}

/// The `rust-version` of `Cargo.toml` is older than the compiler that most people run tests with.
#[test]
fn syntax_is_as_old_as_the_declared_compiler() {
    let folders =
        CRATES.iter().map(|(krate, _)| *krate).chain(["examples", "ptx-macros", "docs/book/listings", "tests"]);
    let paths = folders.flat_map(|folder| source::paths_below(&source::root().join(folder)));
    let mut found = Vec::new();
    for path in paths.filter(|path| !path.components().any(|part| part.as_os_str() == "target")) {
        let names = source::names(&std::fs::read_to_string(&path).unwrap());
        found.extend(
            newer::find(&names).map(|(at, what)| format!("{}:{}: {what}", path.display(), source::line(&names, at))),
        );
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let text = "match x { Some(a) if let Some(b) = f(a, |c| c) => b, _ => { if d && let A { b } = c { } } e if d && let f = g => 1, e if d => 2 }";
    let found: Vec<&str> = newer::find(text).map(|(at, _)| &text[at..at + 8]).collect();
    assert_eq!(found, ["if let S", "if d && "]);
}

/// cudarc's calls that bind a context return the errors of earlier drops, and its drops need the right one: only `context` uses them.
#[test]
fn contexts_are_bound_in_one_place() {
    const DOOR: &str = "ptx-runtime/src/context.rs";
    const CALLS: &[&str] = &[
        "bind_to_thread",
        "record_err",
        "check_err",
        "record_event",
        "new_event",
        "CudaEvent",
        "result::event::",
        "free_async",
        "free_sync",
        ".wait(&",
    ];
    let files = source::files("ptx-runtime");
    assert!(files.iter().any(|file| file.path.ends_with(DOOR)), "the door is gone");
    for file in files.iter().filter(|file| !file.path.ends_with(DOOR)) {
        for call in CALLS {
            let lines: Vec<_> = file.names.match_indices(call).map(|(at, _)| source::line(&file.names, at)).collect();
            assert!(lines.is_empty(), "{} calls `{call}` itself: lines {lines:?}", file.path.display());
        }
    }
}

/// Only the places listed in [`opcodes::ALLOWED`] compare opcodes.
#[test]
fn opcodes_are_compared_where_they_belong() {
    let found = opcodes::comparisons(&[
        "ptx-core",
        "ptx-language",
        "ptx-interp",
        "ptx-prove",
        "ptx-transpile",
        "ptx-expand",
        "ptx-runtime",
        "ptx-lsp",
        "ptx-cli",
    ]);
    let mut allowed: BTreeMap<&str, usize> = opcodes::ALLOWED.iter().map(|(path, count, _)| (*path, *count)).collect();
    let mut wrong = Vec::new();
    for (path, lines) in &found {
        let expected = allowed.remove(&**path).unwrap_or(0);
        if lines.len() != expected {
            wrong.push(format!(
                "{path} compares opcodes {} times, in lines {lines:?}; allowed: {expected}",
                lines.len()
            ));
        }
    }
    wrong.extend(allowed.keys().map(|path| format!("{path} is listed without need")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Kernels and helpers keep the limits of [`limits`].
#[test]
fn device_functions_are_short() {
    let files = limits::files();
    let functions: Vec<_> =
        files.iter().flat_map(|(path, code)| code.functions.iter().map(move |function| (path, function))).collect();
    let kernels = functions.iter().filter(|(_, function)| function.is_kernel).count();
    assert!(kernels >= 100 && functions.len() >= 900, "{kernels} kernels of {} functions were found", functions.len());
    let mut wrong = Vec::new();
    for (path, function) in functions {
        let (name, at) = (&function.name, function.at);
        if function.lines > limits::LINES {
            wrong.push(format!("{path}:{at}: `{name}` has {} lines, of at most {}", function.lines, limits::LINES));
        }
        // A kernel of an example lists its arguments; others are in `functions_have_few_parameters`.
        if !function.is_kernel && function.parameters > limits::PARAMETERS {
            let (has, most) = (function.parameters, limits::PARAMETERS);
            wrong.push(format!("{path}:{at}: `{name}` has {has} parameters, of at most {most}"));
        }
    }
    assert!(wrong.is_empty(), "{} device functions are too large:\n{}", wrong.len(), wrong.join("\n"));
}

/// Values that belong together are a struct.
#[test]
fn functions_have_few_parameters() {
    let (wide, count) = limits::wide_functions();
    assert!(count >= 1000, "{count} functions were found");
    assert!(wide.is_empty(), "{} functions have too many parameters:\n{}", wide.len(), wide.join("\n"));
}

/// Comments describe code as code.
#[test]
fn code_does_not_speak() {
    let (found, most) = (words::spoken(), words::LEFT);
    let help = "write: returns, reads, computes, checks, requires";
    assert!(
        found.len() <= most,
        "{} comments, of at most {most}, have code that speaks; {help}:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// Kernels have the words of their field.
#[test]
fn kernels_have_no_private_words() {
    let found = words::private();
    assert!(found.is_empty(), "{} lines have words that a reader cannot look up:\n{}", found.len(), found.join("\n"));
}

/// The table for `ARCHITECTURE.md` and reviews.
#[test]
#[ignore = "prints the graph: cargo test -p ptx-tests --test architecture -- --ignored --nocapture"]
fn print_the_graph() {
    for (krate, _) in CRATES {
        let graph = Graph::of(krate);
        println!("{krate}: {} lines", graph.rooms.values().sum::<usize>());
        for (room, lines) in &graph.rooms {
            let uses: Vec<_> = graph.arrows.iter().filter(|((from, _), _)| from == room).collect();
            let uses: Vec<_> = uses.iter().map(|((_, to), at)| format!("{to} {}", at.len())).collect();
            println!("  {room:12} {lines:6}  {}", uses.join(", "));
        }
        graph.circles().iter().for_each(|circle| println!("  circle of {}: {circle:?}", circle.len()));
    }
}

/// The table for `docs/comparison.md`.
#[test]
#[ignore = "prints sizes: cargo test -p ptx-tests --test architecture -- --ignored --nocapture"]
fn print_the_sizes() {
    for (path, code) in limits::files().iter().filter(|(_, code)| code.lines > 0) {
        let (lines, longest, parameters) = (code.lines, code.longest(), code.most_parameters());
        println!("{path:56} {lines:4} lines, longest function {longest:3}, most parameters of a helper {parameters}");
    }
}

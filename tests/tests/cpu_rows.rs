//! Which rows of the table the CPU device cannot run, and why: `cpu_rows.txt` is the whole list. It can only become shorter.

use expect_test::expect_file;
use ptx_core::check::check;
use ptx_core::isa::{Arch, table};
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;
use ptx_interp::Program;
use ptx_tests::agreement::{MODULE, kernel};
use ptx_tests::instance::{Instance, instances};
use std::collections::{BTreeMap, BTreeSet};

/// Rows that only spellings with numbers of their own make: calls, and branches to tables. `corpus_runs` runs them.
const SPELLED_ELSEWHERE: &[&str] = &["call", "brx"];

type Row = (&'static str, u32);

/// Rejections in a batch of instructions: by place in the batch, the reason of the checker or the engine.
struct Verdicts {
    checker: BTreeSet<usize>,
    engine: BTreeMap<usize, String>,
}

#[test]
fn rows_that_do_not_run() {
    // The modules are of the newest version, which no longer has some rows.
    let rows = || table().rows().filter(|row| row.until.is_none());
    let mut left: Vec<Instance> = rows().flat_map(instances).collect();
    let (mut run, mut refused) = (BTreeSet::new(), BTreeMap::<_, BTreeMap<Row, usize>>::new());
    for arch in table().targets.iter().filter(|t| t.assembled).map(|t| t.arch).rev() {
        let Verdicts { checker, engine } = judge(arch, &left);
        for (at, instance) in left.iter().enumerate().filter(|(at, _)| !checker.contains(at)) {
            let row = (instance.row.file, instance.row.line);
            match engine.get(&at) {
                Some(why) => *refused.entry(why.clone()).or_default().entry(row).or_default() += 1,
                None => drop(run.insert(row)),
            }
        }
        let mut at = 0;
        left.retain(|_| (checker.contains(&at), at += 1).0);
    }
    let seen = |row: &Row| run.contains(row) || refused.values().any(|rows| rows.contains_key(row));
    let all = || rows().filter(|r| !SPELLED_ELSEWHERE.contains(&r.opcode())).map(|r| ((r.file, r.line), r.name));
    let names: BTreeMap<Row, &str> = all().collect();
    let mut text = format!("{} of {} rows run in some form\n", run.len(), names.len());
    for (why, rows) in &refused {
        text += &format!("\n{why}\n");
        let mut named = BTreeMap::<_, (usize, usize)>::new();
        for (row, forms) in rows {
            let entry = named.entry((row.0, names.get(row))).or_default();
            *entry = (entry.0 + forms, entry.1 + usize::from(!run.contains(row)));
        }
        for ((file, name), (forms, whole)) in named {
            text += &format!("    {file}: {forms} forms of {}, {whole} rows whole\n", name.unwrap_or(&""));
        }
    }
    let unseen: Vec<String> =
        all().filter(|(row, _)| !seen(row)).map(|(row, name)| format!("    {}: {name}\n", row.0)).collect();
    text += &format!("\nrows of which this test spells no form\n{}", unseen.concat());
    expect_file!["cpu_rows.txt"].assert_eq(&text);
}

/// Asks for all instructions at once, each in a kernel of its own.
fn judge(arch: Arch, all: &[Instance]) -> Verdicts {
    let newest = table().targets.iter().map(|t| t.since).max();
    let header = format!(
        ".version {}\n.target {arch}\n.address_size 64\n{MODULE}\n",
        newest.map_or_else(String::new, |v| v.to_string())
    );
    let (text, starts) = module(&header, all, &BTreeSet::new());
    let (tree, earlier) = parse_text(text.as_bytes());
    let (_, diagnostics) = check(tree, earlier, &Options::default());
    let errors = diagnostics.iter().filter(|d| d.is_error());
    let checker = errors.filter_map(|d| place(&starts, d.span.lo)).collect();
    let (text, starts) = module(&header, all, &checker);
    let (tree, earlier) = parse_text(text.as_bytes());
    let (checked, _) = check(tree, earlier, &Options::default());
    let refusals = checked.as_ref().map(Program::new).and_then(Result::err).unwrap_or_default();
    let mut engine = BTreeMap::new();
    for refusal in refusals {
        let message = refusal.message.trim_start_matches("the CPU device cannot run this: ").to_owned();
        engine.extend(place(&starts, refusal.span.lo).map(|at| (at, message)));
    }
    Verdicts { checker, engine }
}

/// The kernels but for those left out, and where each of the others begins, with its number.
fn module(header: &str, all: &[Instance], without: &BTreeSet<usize>) -> (String, Vec<(u32, usize)>) {
    let (mut text, mut starts) = (header.to_owned(), Vec::new());
    for (at, instance) in all.iter().enumerate().filter(|(at, _)| !without.contains(at)) {
        starts.push((text.len() as u32, at));
        text += &kernel(at, &instance.instruction);
        text += "\n";
    }
    (text, starts)
}

fn place(starts: &[(u32, usize)], at: u32) -> Option<usize> {
    starts[..starts.partition_point(|(start, _)| *start <= at)].last().map(|(_, at)| *at)
}

//! The texts of logical lines, and the lines that are read at once: `type`, `sreg`, `directive`, `target`, `idle`.

use crate::isa::gate::Gate;
use crate::isa::{Class, DirectiveInfo, Idle, SpecialRegister, Table, TargetInfo, Type, TypeInfo, Version};

/// A logical line without its comment; one text where the file has it on several lines.
pub(super) fn joined(text: &'static str) -> &'static str {
    let text = text.trim_ascii();
    if !text.as_bytes().contains(&b'\n') {
        return strip_comment(text);
    }
    strip_comment(String::leak(text.split("\\\n").map(str::trim_ascii_start).collect()))
}

fn strip_comment(line: &str) -> &str {
    let is_comment = |at: usize| at == 0 || line.get(..at).is_some_and(|before| before.ends_with("  "));
    let end = line.match_indices('#').map(|(at, _)| at).find(|at| is_comment(*at)).unwrap_or(line.len());
    line.get(..end).unwrap_or_default().trim_ascii()
}

/// Reads a line that begins with a keyword.
pub(super) type ReadLine = fn(&mut Table, &[&'static str]) -> Option<()>;

/// The reader of the lines that begin with a word; `None` if it is no keyword.
pub(super) fn reader(word: &str) -> Option<ReadLine> {
    Some(match word {
        "type" => type_line,
        "sreg" => sreg_line,
        "directive" => directive_line,
        "feature" => feature_line,
        "target" => target_line,
        "idle" => idle_line,
        _ => return None,
    })
}

/// Reads a line that begins with a keyword into the table.
pub(super) fn read(table: &mut Table, read: ReadLine, keyword: &str, text: &'static str) {
    let text = joined(text);
    let rest = text.get(keyword.len()..).unwrap_or_default();
    let columns: Vec<&'static str> = rest.split('|').map(str::trim_ascii).collect();
    if read(table, &columns).is_none() {
        table.index.mistake(format!("cannot read: {text}"));
    }
}

fn idle_line(table: &mut Table, columns: &[&'static str]) -> Option<()> {
    let words = columns.first()?.split_ascii_whitespace().map(|word| word.trim_start_matches('.')).collect();
    let listed = columns.get(1)?;
    let (all, names) = match listed.strip_prefix("all") {
        Some(rest) => (true, rest.trim_start().trim_start_matches("but ")),
        None => (false, *listed),
    };
    table.idle.push(Idle { words, all, names: names.split_ascii_whitespace().collect() });
    Some(())
}

fn type_line(table: &mut Table, columns: &[&'static str]) -> Option<()> {
    let mut words = columns.first()?.split_ascii_whitespace();
    let name = words.next()?;
    let bits = words.next()?.parse().ok()?;
    let class = match words.next()? {
        "pred" => Class::Pred,
        "bits" => Class::Bits,
        "unsigned" => Class::Unsigned,
        "signed" => Class::Signed,
        "float" => Class::Float,
        "packed" => Class::Packed,
        "opaque" => Class::Opaque,
        _ => return None,
    };
    let registers: Vec<&str> = columns.get(1)?.split_ascii_whitespace().collect();
    let literals = columns.get(2).copied().unwrap_or("");
    let takes = |kind| literals.split_ascii_whitespace().any(|literal| literal == kind);
    table.type_names.insert(name, Type(u8::try_from(table.types.len()).ok()?));
    table.types.push(TypeInfo {
        name,
        bits,
        class,
        declares: registers.contains(&name),
        registers,
        holders: 0,
        takes_int: takes("int"),
        takes_float: takes("float"),
        gate: columns.get(3).zip(columns.get(4)).and_then(|(since, targets)| Gate::read(since, targets)),
    });
    Some(())
}

/// The names of the types that hold each type, as sets.
pub(super) fn holders(table: &mut Table) {
    let Table { types, type_names, .. } = table;
    for info in types {
        let all = info.registers.iter().filter_map(|name| type_names.get(name));
        info.holders = all.fold(0, |set, ty| set | 1u128.checked_shl(ty.0.into()).unwrap_or(0));
    }
}

/// `%tid.{x,y,z} u32 | 1.0 | all`, `%pm[0..7] u32`, `%laneid u32`.
fn sreg_line(table: &mut Table, columns: &[&'static str]) -> Option<()> {
    let (names, types) = columns.first()?.split_once(' ')?;
    let types: Option<Vec<Type>> = types.split_ascii_whitespace().map(|t| table.type_names.get(t).copied()).collect();
    let types = types?;
    let (ty, earlier) = types.split_first()?;
    let gate = Gate::read(columns.get(1)?, columns.get(2)?)?;
    let section = table.index.section();
    let needs = columns.get(3).copied().unwrap_or("");
    let mut add = |name: &'static str, component: &'static str, vector: bool| {
        let (earlier, gate) = (earlier.to_vec(), gate.clone());
        let register = SpecialRegister { name, ty: *ty, earlier, component, vector, gate, needs, section };
        table.specials.insert(name, register);
    };
    if let Some((base, components)) = names.split_once(".{") {
        add(base, "", true);
        for c in components.trim_end_matches('}').split(',') {
            add(String::leak(format!("{base}.{c}")), c, false);
        }
        return Some(());
    }
    for (name, _) in super::sets::expand(names)? {
        add(name, "", false);
    }
    Some(())
}

fn directive_line(table: &mut Table, columns: &[&'static str]) -> Option<()> {
    let (name, place) = columns.first()?.split_once(' ').unwrap_or((columns.first()?, ""));
    let (gate, until) = lifetime(columns.get(2)?, columns.get(3)?)?;
    let section = table.index.section();
    let info = DirectiveInfo { name, place: place.trim(), text: columns.get(1)?, gate, until, section };
    table.directives.insert(name, info);
    Some(())
}

fn feature_line(table: &mut Table, columns: &[&'static str]) -> Option<()> {
    let [name, text, since, targets] = *columns else { return None };
    let (gate, until) = lifetime(since, targets)?;
    let section = table.index.section();
    table.features.insert(name, DirectiveInfo { name, place: "", text, gate, until, section });
    Some(())
}

/// `1.3` or `1.3..2.1`: the versions that have something, and the first that no longer does.
fn lifetime(since: &str, targets: &str) -> Option<(Gate, Option<Version>)> {
    match since.split_once("..") {
        Some((since, until)) => Some((Gate::read(since, targets)?, Some(until.trim().parse().ok()?))),
        None => Some((Gate::read(since, targets)?, None)),
    }
}

fn target_line(table: &mut Table, columns: &[&'static str]) -> Option<()> {
    let (name, since) = columns.first()?.split_once(' ')?;
    let limits = columns.get(1).copied().unwrap_or("");
    table.targets.push(TargetInfo {
        arch: name.parse().ok()?,
        since: since.trim().parse().ok()?,
        assembled: limits != "gone",
        limits: limits.split_ascii_whitespace().filter_map(|l| l.split_once('=')).filter_map(limit).collect(),
    });
    Some(())
}

fn limit((name, value): (&'static str, &str)) -> Option<(&'static str, u64)> {
    Some((name, value.parse().ok()?))
}

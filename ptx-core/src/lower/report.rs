//! The diagnostics of lowering: what was found, what exists, what was probably meant.

use super::bind::{Mismatch, Why};
use super::body::Refused;
use super::form::modifier;
use crate::diag::near::nearest;
use crate::diag::{Diagnostic, codes};
use crate::isa::find::{Form, Misfit};
use crate::isa::{Arch, Class, Gate, Range, Row, Suffix, Type, Version, show, table};
use crate::span::Span;
use crate::syntax::{Declarator, Inst, Tree, Var};

/// Where an instruction stands.
pub(super) struct Place<'a> {
    pub(super) tree: &'a Tree,
    pub(super) inst: &'a Inst,
    pub(super) name: Span,
    pub(super) operands: &'a [Span],
}

/// How many forms a help lists.
const MOST_FORMS: usize = 6;
/// How many members of a set it lists.
const MOST_MEMBERS: usize = 12;

// ---- names and declarations

pub(super) fn unknown_name(name: &str, hint: Option<String>, span: Span) -> Diagnostic {
    let d = Diagnostic::error(&codes::P0501, span, format!("`{name}` is not declared here"));
    match hint {
        Some(hint) => d.help(hint),
        None if name.starts_with('%') => d.help(format!("declare it before its use: `.reg .b32 {name};`")),
        None => d.help(format!(
            "declare it before its use (`.reg .b32 {name};`), or, for a label, write `{name}:` somewhere"
        )),
    }
}

pub(super) fn duplicate(name: &str, span: Span, earlier: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0502, span, format!("`{name}` is declared twice in this scope"))
        .label(earlier, "first declared here")
}

/// A variable that is `.extern` first, and then something that does not define it.
pub(super) fn other_variable(name: &str, hidden: bool, span: Span, earlier: Span) -> Diagnostic {
    let text = match hidden {
        true => format!("`{name}` is `.extern`: what defines it is `.visible` or `.weak`"),
        false => format!("`{name}` is declared as something else"),
    };
    Diagnostic::error(&codes::P0502, span, text).label(earlier, "declared here").section("11.6.1")
}

/// A function that is declared `.extern` once and once not.
pub(super) fn extern_or_not(name: &str, span: Span, earlier: Span) -> Diagnostic {
    let text = format!("`{name}` is `.extern` here or where it was declared, but not in both places");
    let d = Diagnostic::error(&codes::P0608, span, text).label(earlier, "declared here").section("11.6.1");
    d.help("what has a body in this module is not `.extern`")
}

pub(super) fn reserved(name: &str, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0502, span, format!("nothing can be named `{name}`: PTX has a meaning for it"))
        .section("4.5")
}

pub(super) fn lone_semicolon(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0101, span, "a `;` that ends nothing").help("leave it out")
}

pub(super) fn other_signature(name: &str, span: Span, earlier: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0612, span, format!("`{name}` was declared with other parameters"))
        .label(earlier, "declared here")
        .section("11.2.2")
}

/// A function whose declarations contradict each other.
pub(super) fn other_declaration(name: &str, said: &str, span: Span, earlier: Span) -> Diagnostic {
    let d = Diagnostic::error(&codes::P0608, span, format!("`{name}` is {said}"));
    d.label(earlier, "declared here").section("11.2.2")
}

pub(super) fn dots_in_a_label(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0101, span, "a label has no dot in its name").section("4.4")
}

/// `.branchtargets` and `.callprototype` are nothing without a label.
pub(super) fn no_label(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0616, span, "this needs a label before it")
        .help("write `name:` in front")
        .section("11.3")
}

pub(super) fn not_a_label(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0301, span, "`.branchtargets` lists labels").section("11.3.1")
}

pub(super) fn list_comes_later(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0501, span, "the list stands behind the branch that uses it")
        .help("move the `.branchtargets` before it")
        .section("9.7.12.4")
}

pub(super) fn guard_type(name: &str, ty: Type, span: Span) -> Diagnostic {
    Diagnostic::error(
        &codes::P0305,
        span,
        format!("the guard must be a `.pred` register; `{name}` is `.{}`", ty.name()),
    )
    .help("compute a predicate with `setp`, and guard with that")
    .section("9.3")
}

pub(super) fn guard_name(name: &str, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0305, span, format!("the guard must be a `.pred` register; `{name}` is no register"))
        .section("9.3")
}

pub(super) fn unknown_type(text: &str, span: Span) -> Diagnostic {
    let d = Diagnostic::error(&codes::P0306, span, format!("`{text}` is not a type"));
    match nearest(text.trim_start_matches('.'), table().types.iter().map(|t| t.name)) {
        Some(near) => d.help(format!("did you mean `.{near}`?")),
        None => d,
    }
}

pub(super) fn not_a_register_type(ty: Type, span: Span) -> Diagnostic {
    let registers = ty.info().registers.iter().map(|r| format!("`.{r}`")).collect::<Vec<_>>().join(" or ");
    let d = Diagnostic::error(&codes::P0306, span, format!("no register is declared as `.{}`", ty.name()));
    match registers.is_empty() {
        true => d,
        false => d.help(format!("a register of type {registers} holds it")),
    }
}

pub(super) fn no_type(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0306, span, "the declaration has no type").help("write one before the name: `.b32`")
}

pub(super) fn no_space(tree: &Tree, word: u32) -> Diagnostic {
    let (text, span) = (tree.source.text(word), tree.source.span(word));
    Diagnostic::error(&codes::P0608, span, format!("`{text}` is no state space"))
        .help("write `.param` or another before it")
}

/// A directive that does not stand at `place` (`module`, `body`) or, for debuggers, anywhere.
pub(super) fn misplaced(tree: &Tree, directive: u32, place: &str) -> Option<Diagnostic> {
    let (text, span) = (tree.source.text(directive), tree.source.span(directive));
    match table().directives.get(text) {
        Some(info) if info.place.split(' ').any(|p| p == place || p == "debug") => None,
        Some(info) => {
            Some(Diagnostic::error(&codes::P0616, span, format!("`{text}` has no place here")).section(info.section))
        }
        None if Type::find(text.trim_start_matches('.')).is_some() => Some(no_space(tree, directive)),
        None => {
            let d = Diagnostic::error(&codes::P0616, span, format!("there is no directive `{text}`"));
            Some(match nearest(text, table().directives.keys().copied()) {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d,
            })
        }
    }
}

/// The type is the last word before the name; only `.ptr` and what belongs to it follow.
pub(super) fn behind_type(tree: &Tree, var: &Var, ty: u32) -> Option<Diagnostic> {
    let behind = tree.attributes(var).iter().map(|a| a.name).find(|name| *name > ty)?;
    let text = tree.source.text(behind);
    let param = tree.source.text(var.space) == ".param";
    (text != ".ptr" && !(param && text == ".align")).then(|| {
        let message = format!("`{text}` stands behind the type");
        Diagnostic::error(&codes::P0306, tree.source.span(behind), message).help("the type comes last, before the name")
    })
}

pub(super) fn no_parameter_name(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0608, span, "the parameter has no name").help("write one; in a prototype, `_`")
}

pub(super) fn initial_value(text: String, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0606, span, text).section("5.4.4")
}

pub(super) fn wrong_value(what: &str, ty: Type, span: Span) -> Diagnostic {
    let text = format!("{what} cannot be the initial value of a `.{}`", ty.name());
    Diagnostic::error(&codes::P0303, span, text).section("5.4.4")
}

/// What no register can be, whatever its name.
pub(super) fn register_shape(ty: Type, vector: u32, on: (Arch, Version), span: Span) -> Option<Diagnostic> {
    let closed = ty.info().gate.as_ref().filter(|g| !g.admits(on.0, on.1));
    if let Some(closed) = closed {
        return Some(gate(span, &format!(".{}", ty.name()), closed, on.0, on.1));
    }
    if vector > 1 && ty.class() == Class::Pred {
        return Some(Diagnostic::error(&codes::P0608, span, "a predicate register is no vector").section("5.4.2"));
    }
    (vector > 1 && vector * ty.bits() > 128).then(|| {
        let text = format!("a `.v{vector}` of `.{}` is wider than 128 bits", ty.name());
        Diagnostic::error(&codes::P0614, span, text).section("5.4.2")
    })
}

/// A declaration that only a variable in memory can have.
pub(super) fn no_register(tree: &Tree, name: &Declarator) -> Option<Diagnostic> {
    let (text, span) = (tree.source.text(name.name), tree.source.span(name.name));
    if name.init.is_some() {
        let message = format!("a register cannot have an initial value: `{text}`");
        return Some(
            Diagnostic::error(&codes::P0606, span, message).help(format!("write `mov` to `{text}` in the body")),
        );
    }
    (!name.dims.is_empty()).then(|| {
        let help = format!("a range of registers is `{text}<4>`: `{text}0` to `{text}3`");
        Diagnostic::error(&codes::P0608, span, format!("a register is no array: `{text}`")).help(help).section("5.4.3")
    })
}

pub(super) fn unknown_component(suffix: &str, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0307, span, format!("a register has no component `{suffix}`"))
        .help("the components of a vector register are `.x`, `.y`, `.z`, `.w`")
}

pub(super) fn not_constant(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0308, span, "this must be a constant expression").section("4.5")
}

pub(super) fn not_an_operand(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0309, span, "this is no operand")
        .help("an operand is a register, a constant, a name with a constant added, or an address in brackets")
        .section("6.1")
}

pub(super) fn not_an_address(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0309, span, "this is no address")
        .help("write `[register]`, `[register+8]`, `[variable]`, `[variable+8]` or `[constant]`; any other sum is computed before, into a register of its own")
        .section("6.4.1")
}

// ---- header

pub(super) fn no_header(what: &str, tree: &Tree) -> Diagnostic {
    let span = tree.eof.map_or_else(Span::default, |t| tree.source.span(t));
    let span = tree.items.first().map_or(span, |i| tree.span(&tree.stmt(*i).head));
    let name = what.split(' ').next().unwrap_or(what);
    Diagnostic::error(&codes::P0601, span, format!("the module has no `{name}`")).help(format!("begin with `{what}`"))
}

pub(super) fn bad_version(text: &str, last_minors: &[u8], span: Span) -> Diagnostic {
    let ranges: Vec<String> =
        (1..).zip(last_minors).map(|(major, last)| format!("{major}.0 to {major}.{last}")).collect();
    Diagnostic::error(&codes::P0602, span, format!("there is no PTX version `{text}`"))
        .help(format!("the versions are {}", ranges.join(", ")))
        .section("11.1.1")
}

pub(super) fn version_on_another_line(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0602, span, "the version stands on the same line as `.version`").section("11.1.1")
}

pub(super) fn unknown_target(text: &str, span: Span) -> Diagnostic {
    let names: Vec<String> = table().targets.iter().map(|t| t.arch.to_string()).collect();
    let d = Diagnostic::error(&codes::P0603, span, format!("there is no target `{text}`")).section("11.1.2");
    match nearest(text, names.iter().map(String::as_str)) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    }
}

pub(super) fn target_since(arch: Arch, since: Version, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0402, span, format!("target `{arch}` needs PTX {since} or later"))
        .help(format!("write `.version {since}`"))
        .section("11.1.2")
}

// ---- mnemonics

/// No row has these modifiers.
pub(super) fn misfit(tree: &Tree, inst: &Inst, misfits: &[Misfit], name: Span) -> Diagnostic {
    let opcode = tree.source.text(inst.opcode);
    let Some(best) = misfits.first() else {
        let d = Diagnostic::error(
            &codes::P0201,
            tree.source.span(inst.opcode),
            format!("there is no instruction `{opcode}`"),
        );
        return match nearest(opcode, table().opcodes()) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d,
        };
    };
    if let Some(d) = best.missing.is_none().then(|| nameless(tree, inst, name)).flatten() {
        return d;
    }
    let mut rows: Vec<&Row> = misfits.iter().map(|m| m.row).collect();
    let d = match (best.unplaced, best.missing) {
        (Some(at), _) => unplaced(tree, inst, misfits, at, &mut rows),
        (None, Some(_)) => missing(opcode, misfits, name),
        (None, None) => {
            let wanted = best.row.name;
            Diagnostic::error(&codes::P0203, name, format!("`{opcode}` alone is no instruction"))
                .help(format!("write `{wanted}`"))
        }
    };
    with_forms(d, rows.into_iter())
}

/// A piece of the name is left out: `mul.s32` for `mul.lo.s32`.
fn nameless(tree: &Tree, inst: &Inst, name: Span) -> Option<Diagnostic> {
    let opcode = tree.source.text(inst.opcode);
    let modifiers: Vec<&str> = inst.modifiers.clone().map(|m| modifier(tree, m)).collect();
    let whole = |row: &&'static Row| {
        let all: Vec<&str> = row.parts.iter().chain(&modifiers).copied().collect();
        !row.parts.is_empty() && table().find(opcode, &all).is_ok_and(|forms| forms.iter().any(|f| f.row == *row))
    };
    let rows: Vec<&Row> = table().forms(opcode).iter().filter(whole).collect();
    let mut names: Vec<String> = rows.iter().map(|r| format!("`.{}`", r.parts.join("."))).collect();
    names.dedup();
    if names.is_empty() || names.len() > 6 {
        return None;
    }
    let one_of = if names.len() == 1 { "" } else { "one of " };
    let text = format!("`{opcode}` lacks {one_of}{}", names.join(" "));
    Some(with_forms(Diagnostic::error(&codes::P0203, name, text), rows.into_iter()))
}

/// A modifier without a place. If a near one makes it whole, `rows` becomes the forms that it then has.
fn unplaced(tree: &Tree, inst: &Inst, misfits: &[Misfit], at: usize, rows: &mut Vec<&'static Row>) -> Diagnostic {
    let opcode = tree.source.text(inst.opcode);
    let token = inst.modifiers.start + u32::try_from(at).unwrap_or(0);
    let (text, span) = (modifier(tree, token), tree.source.span(token));
    let elsewhere = table().forms(opcode).iter().any(|r| has_member(r, text));
    let free = || {
        let members = misfits.iter().flat_map(|m| &m.row.slots).flat_map(|s| s.members.iter().map(|m| m.text));
        members.chain(misfits.iter().flat_map(|m| m.row.parts.iter().copied()))
    };
    // `.wait.ld` for `.wait::ld`.
    let next = inst.modifiers.clone().nth(at + 1).map(|next| format!("{text}::{}", modifier(tree, next)));
    let torn = next.and_then(|whole| free().find(|known| *known == whole));
    let near = torn.or_else(|| kin(text, free())).or_else(|| nearest(text, free()));
    let d = match elsewhere {
        true => Diagnostic::error(&codes::P0203, span, format!("`.{text}` has no place here in `{opcode}`")),
        false => Diagnostic::error(&codes::P0202, span, format!("`{opcode}` has no modifier `.{text}`")),
    };
    let Some(near) = near else { return d };
    let mut modifiers: Vec<&str> = inst.modifiers.clone().map(|m| modifier(tree, m)).collect();
    if let Some(wrong) = modifiers.get_mut(at) {
        *wrong = near;
    }
    if torn.is_some() {
        modifiers.remove(at + 1);
    }
    if let Ok(forms) = table().find(opcode, &modifiers) {
        *rows = forms.iter().map(|f| f.row).collect();
    }
    d.help(format!("did you mean `.{near}`?"))
}

/// Integer types that are meant where another is written, the likeliest first: the kernel language's `i32` is `.s32` here.
const KIN: [(&str, [&str; 2]); 4] = [("i", ["s", "b"]), ("b", ["u", "s"]), ("u", ["b", "s"]), ("s", ["b", "u"])];

/// The type of the same width that was probably meant.
fn kin<'a>(text: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let (class, width) = text.split_at_checked(1)?;
    let (_, others) = KIN.iter().find(|(letter, _)| *letter == class && width.parse::<u32>().is_ok())?;
    others.iter().find_map(|other| known.clone().find(|k| k.strip_prefix(other) == Some(width)))
}

fn has_member(row: &Row, text: &str) -> bool {
    row.parts.contains(&text) || row.slots.iter().any(|s| s.members.iter().any(|m| m.text == text))
}

fn missing(opcode: &str, misfits: &[Misfit], name: Span) -> Diagnostic {
    let mut wanted: Vec<String> = Vec::new();
    for misfit in misfits {
        let Some(slot) = misfit.missing.and_then(|s| misfit.row.slots.get(s)) else { continue };
        for member in slot.members.iter().map(|m| format!("`.{}`", m.text)) {
            if !wanted.contains(&member) {
                wanted.push(member);
            }
        }
    }
    let text = match &wanted[..] {
        [only] => format!("`{opcode}` lacks {only}"),
        _ => {
            let more = if wanted.len() > MOST_MEMBERS { " …" } else { "" };
            wanted.truncate(MOST_MEMBERS);
            format!("`{opcode}` lacks one of {}{more}", wanted.join(" "))
        }
    };
    Diagnostic::error(&codes::P0203, name, text)
}

fn with_forms(d: Diagnostic, rows: impl Iterator<Item = &'static Row>) -> Diagnostic {
    let mut forms: Vec<(String, &Row)> = Vec::new();
    for row in rows {
        let form = show::form(row);
        if forms.iter().all(|(known, _)| *known != form) {
            forms.push((form, row));
        }
    }
    let Some((_, first)) = forms.first() else { return d };
    let mut text = String::from(if forms.len() == 1 { "the form is:" } else { "the forms are:" });
    for (form, _) in forms.iter().take(MOST_FORMS) {
        text.push_str(&format!("\n    {form}"));
    }
    if forms.len() == 1 {
        show::sets(first, MOST_MEMBERS).iter().for_each(|set| text.push_str(&format!("\n    {set}")));
    } else if forms.len() > MOST_FORMS {
        text.push_str(&format!("\n    and {} more: `ptx isa {}`", forms.len() - MOST_FORMS, first.opcode()));
    }
    d.help(text).section(first.section)
}

/// The modifiers stand in an order that only ptxas takes.
pub(super) fn order(form: &Form, name: Span) -> Diagnostic {
    let mut text = form.row.name.to_owned();
    for member in form.slots.iter().flatten() {
        text.push('.');
        text.push_str(member.text);
    }
    Diagnostic::warning(&codes::P0205, name, "the modifiers are not in the manual's order")
        .help(format!("write `{text}`"))
        .section(form.row.section)
}

/// A modifier that does nothing.
pub(super) fn idle(tree: &Tree, inst: &Inst, form: &Form, at: usize) -> Diagnostic {
    let token = inst.modifiers.start + u32::try_from(at).unwrap_or(0);
    let text = format!("`.{}` does nothing here", modifier(tree, token));
    Diagnostic::warning(&codes::P0207, tree.source.span(token), text).help("leave it out").section(form.row.section)
}

/// Something that ptxas takes without a word of the manual about it.
pub(super) fn undocumented(row: &Row, rule: &str, name: Span) -> Diagnostic {
    let text = format!("ptxas takes this form of `{}`, but the manual does not have it", row.name);
    let d = Diagnostic::warning(&codes::P0207, name, text).section(row.section);
    if rule.starts_with('!') { d } else { d.help(format!("the manual's rule is: {rule}")) }
}

/// A function's name where a number stands.
pub(super) fn function_as_number(row: &Row, name: Span) -> Diagnostic {
    let text = format!("ptxas takes the name of a function as an operand of `{}`, but the manual does not", row.name);
    Diagnostic::warning(&codes::P0207, name, text)
        .help("`mov.b64` has the address of a function; `call` calls it")
        .section(row.section)
}

/// A sum where a number stands.
pub(super) fn sum_as_number(row: &Row, name: Span) -> Diagnostic {
    let text =
        format!("ptxas adds up an operand of `{}` before, but the manual knows sums in addresses only", row.name);
    Diagnostic::warning(&codes::P0207, name, text).help("write an `add`, or `mov` for an address").section("6.4.1")
}

/// `0f3F800000` where the manual wants a register.
pub(super) fn number_as_register(row: &Row, name: Span) -> Diagnostic {
    let text = format!("ptxas takes this literal for a register of `{}`, but the manual does not", row.name);
    Diagnostic::warning(&codes::P0207, name, text).help("write a `mov` before").section(row.section)
}

/// `@@DWARF` between instructions.
pub(super) fn dwarf_in_body(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0616, span, "`@@DWARF` has no place in a function").help("move it out of the function")
}

/// The pieces that name an instruction stand apart: `tcgen05 .mma`.
pub(super) fn torn(tree: &Tree, inst: &Inst, form: &Form, name: Span) -> Option<Diagnostic> {
    let mut parts = inst.modifiers.clone().take(form.row.parts.len());
    parts.any(|part| !tree.source.trivia(part).is_empty()).then(|| {
        let whole = form.row.name;
        Diagnostic::error(&codes::P0203, name, format!("`{whole}` is one name; nothing may stand inside it"))
            .help(format!("write `{whole}` without blanks"))
    })
}

// ---- operands, rules, gates

/// Rows have the modifiers, but none takes the rest.
pub(super) fn refused(place: &Place, refused: &[(&Form, Refused)], arch: Arch, version: Version) -> Diagnostic {
    // A wrong register or number says more than "this is no …".
    let rank = |r: &Refused| match r {
        Refused::Operands(m) => (0, m.operand, !matches!(m.why, Why::Shape(_))),
        Refused::Rule(_) => (1, 0, true),
        Refused::RuleGate(_) => (2, 0, true),
        Refused::Gate | Refused::MemberGate(_) => (3, 0, true),
    };
    let Some((form, why)) = refused.iter().max_by_key(|(_, r)| rank(r)) else {
        return Diagnostic::error(&codes::P0203, place.name, "there is no such form");
    };
    let rows = refused.iter().filter(|(_, r)| rank(r).0 == rank(why).0).map(|(f, _)| f.row);
    match why {
        Refused::Operands(mismatch) => {
            let span = place.operands.get(mismatch.operand).copied().unwrap_or(place.name);
            with_forms(operand(place, form, mismatch, refused, span), rows)
        }
        Refused::Rule(rule) | Refused::RuleGate(rule) => {
            with_forms(broken(place, rule, arch, version), [form.row].into_iter())
        }
        Refused::Gate => gate(place.name, &mnemonic(place), &form.row.gate, arch, version).section(form.row.section),
        Refused::MemberGate(slot) => member_gate(place, form, *slot, arch, version).section(form.row.section),
    }
}

fn mnemonic(place: &Place) -> String {
    place.tree.compact(&(place.inst.opcode..place.inst.modifiers.end.max(place.inst.opcode + 1)))
}

fn operand(place: &Place, form: &Form, mismatch: &Mismatch, refused: &[(&Form, Refused)], span: Span) -> Diagnostic {
    let name = form.row.name;
    match &mismatch.why {
        Why::Count => {
            let (written, wanted) = (place.operands.len(), counts(form.row));
            let text = format!("`{name}` takes {wanted} operands here, not {written}");
            Diagnostic::error(&codes::P0204, place.name, text)
        }
        Why::Shape(wanted) => Diagnostic::error(&codes::P0301, span, format!("`{name}` wants {wanted} here")),
        Why::Class { found, wanted } => {
            let registers: Vec<String> = wanted.info().registers.iter().map(|r| format!("`.{r}`")).collect();
            let text = format!("a `.{found}` register cannot be a `.{}` operand of `{name}`", wanted.name());
            let d = Diagnostic::error(&codes::P0302, span, text);
            match registers.is_empty() {
                true => d,
                false => d.help(format!("`.{}` takes a register of type {}", wanted.name(), registers.join(", "))),
            }
        }
        Why::Literal(ty) => {
            let text = format!("a literal of this kind cannot be a `.{}` operand of `{name}`", ty.name());
            let d = Diagnostic::error(&codes::P0303, span, text);
            match ty.class() {
                Class::Float if ty.bits() >= 32 => {
                    d.help("a floating-point number has a point (`1.0`) or is written bit by bit (`0f3F800000`)")
                }
                Class::Float | Class::Packed => d.help("`mov` it into a register first: this type has no literals"),
                _ => d,
            }
        }
        Why::Range(_) => {
            let text = format!("this must be a constant {}", allowed(refused, mismatch.operand));
            Diagnostic::error(&codes::P0304, span, text)
        }
        Why::Space(space) => Diagnostic::error(
            &codes::P0310,
            span,
            format!("the variable is in `.{space}`, not in the space of `{}`", mnemonic(place)),
        )
        .help(format!("address it in its own space: `.{space}`")),
    }
}

/// The literals that any of the forms takes at an operand.
fn allowed(refused: &[(&Form, Refused)], operand: usize) -> String {
    let mut ranges: Vec<Range> = refused.iter().filter_map(|(_, why)| why.range(operand)).collect();
    ranges.sort_by_key(|range| (range.lo, range.hi));
    ranges.dedup();
    if ranges.iter().all(|range| range.lo == range.hi) {
        return format!("equal to {}", either(ranges.iter().map(|range| range.lo)));
    }
    either(ranges)
}

/// `4, 8 or 16`
fn either(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => items.concat(),
    }
}

fn counts(row: &Row) -> String {
    let least = row.operands.iter().filter(|o| o.group == 0).count();
    match row.operands.len() {
        most if most == least => least.to_string(),
        most => format!("{least} to {most}"),
    }
}

fn broken(place: &Place, rule: &str, arch: Arch, version: Version) -> Diagnostic {
    let text = format!("`{}` is not a combination that exists for {arch}, PTX {version}", mnemonic(place));
    Diagnostic::error(&codes::P0206, place.name, text).help(format!("the rule is: {rule}"))
}

fn member_gate(place: &Place, form: &Form, slot: usize, arch: Arch, version: Version) -> Diagnostic {
    let Some(member) = form.slots.get(slot).copied().flatten() else {
        return Diagnostic::error(&codes::P0401, place.name, "not for this target");
    };
    let at = place.inst.modifiers.clone().find(|m| modifier(place.tree, *m) == member.text);
    let span = at.map_or(place.name, |m| place.tree.source.span(m));
    match &member.gate {
        Some(g) => gate(span, &format!(".{}", member.text), g, arch, version),
        None => Diagnostic::error(&codes::P0401, span, "not for this target"),
    }
}

/// What it takes to have something.
pub(crate) fn gate(span: Span, what: &str, gate: &Gate, arch: Arch, version: Version) -> Diagnostic {
    if let Some(since) = gate.since(arch) {
        return Diagnostic::error(&codes::P0402, span, format!("`{what}` needs PTX {since}; this module is {version}"))
            .help(format!("write `.version {since}` or later"));
    }
    let targets: Vec<String> = gate.anyof.iter().map(|(a, _)| target_name(*a)).collect();
    let text = format!("`{what}` needs target {}; this module is for {arch}", targets.join(", "));
    let d = Diagnostic::error(&codes::P0401, span, text);
    match gate.anyof.first() {
        Some((first, since)) => d.help(format!("write `.target {first}` (PTX {} or later)", since.max(&version))),
        None => d,
    }
}

fn target_name(arch: Arch) -> String {
    match arch.suffix {
        Suffix::None => format!("{arch} or later"),
        Suffix::Family => format!("{arch} (its family)"),
        Suffix::Arch => arch.to_string(),
    }
}

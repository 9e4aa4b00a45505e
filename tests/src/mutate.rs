//! Small mistakes in an instruction: what a hand or a macro gets wrong. Whether the result is valid, ptxas says.

use crate::instance::Instance;
use crate::random::Random;
use crate::spelling::{ADDRESSES, CLASSES, LITERALS, SPECIAL};
use ptx_core::isa::table;

/// One kind of mistake; `None` where the instruction has no place for it.
type Mutation = fn(&mut Instance, &mut Random) -> Option<()>;

/// By name, for reports.
const MUTATIONS: &[(&str, Mutation)] = &[
    ("register class", register_class),
    ("modifier dropped", modifier_dropped),
    ("modifier doubled", modifier_doubled),
    ("modifiers swapped", modifiers_swapped),
    ("modifier of another form", modifier_changed),
    ("modifier added", modifier_added),
    ("operand dropped", operand_dropped),
    ("operand added", operand_added),
    ("operands swapped", operands_swapped),
    ("literal", literal),
    ("operand negated", negated),
    ("special register", special_register),
    ("address", address),
    ("vector width", vector_width),
    ("vector element", vector_element),
    ("operand", another_operand),
    ("type", another_type),
    ("modifier of another instruction", foreign_modifier),
    ("misspelt", misspelt),
    ("opcode", another_opcode),
    ("guard", guarded),
    ("punctuation", punctuation),
];

/// Makes one random mistake; its kind, or `None` if it found no place.
pub fn mutate(instance: &mut Instance, random: &mut Random) -> Option<&'static str> {
    let (name, mutation) = random.pick(MUTATIONS)?;
    mutation(instance, random).map(|()| *name)
}

fn register_class(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = random.below(instance.registers.len());
    instance.registers.get_mut(at)?.0 = (*random.pick(CLASSES)?).to_owned();
    Some(())
}

/// The place of a random modifier.
fn modifier(instance: &Instance, random: &mut Random) -> Option<usize> {
    let count = instance.mnemonic.len().checked_sub(1).filter(|n| *n > 0)?;
    Some(1 + random.below(count))
}

/// A random modifier of any form of the opcode.
fn known_modifier(instance: &Instance, random: &mut Random) -> Option<String> {
    let row = random.pick(table().forms(instance.row.opcode()))?;
    let slot = random.pick(&row.slots)?;
    random.pick(slot.members).map(|m| m.text.to_owned())
}

fn modifier_dropped(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = modifier(instance, random)?;
    instance.mnemonic.remove(at);
    Some(())
}

fn modifier_doubled(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = modifier(instance, random)?;
    instance.mnemonic.insert(at, instance.mnemonic[at].clone());
    Some(())
}

fn modifiers_swapped(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let (a, b) = (modifier(instance, random)?, modifier(instance, random)?);
    instance.mnemonic.swap(a, b);
    (a != b).then_some(())
}

fn modifier_changed(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = modifier(instance, random)?;
    instance.mnemonic[at] = known_modifier(instance, random)?;
    Some(())
}

fn modifier_added(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = random.below(instance.mnemonic.len()) + 1;
    instance.mnemonic.insert(at, known_modifier(instance, random)?);
    Some(())
}

fn operand_dropped(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = random.below(instance.operands.len());
    (!instance.operands.is_empty()).then(|| drop(instance.operands.remove(at)))
}

fn operand_added(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let operand = match instance.registers.is_empty() {
        true => "0".to_owned(),
        false => instance.registers[random.below(instance.registers.len())].1.clone(),
    };
    instance.operands.insert(random.below(instance.operands.len() + 1), operand);
    Some(())
}

fn operands_swapped(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let (a, b) = (random.below(instance.operands.len()), random.below(instance.operands.len()));
    (a != b).then(|| instance.operands.swap(a, b))
}

fn operand<'a>(instance: &'a mut Instance, random: &mut Random) -> Option<&'a mut String> {
    let at = random.below(instance.operands.len());
    instance.operands.get_mut(at)
}

/// Instead of a register, wherever it stands.
fn literal(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let (_, name) = random.pick(&instance.registers)?.clone();
    let literal = random.pick(LITERALS)?;
    let operand = instance.operands.iter_mut().find(|o| o.ends_with(&name) || o.contains(&format!("{name},")))?;
    *operand = operand.replacen(&name, literal, 1);
    Some(())
}

fn negated(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let sign = if random.once_in(2) { '!' } else { '-' };
    operand(instance, random)?.insert(0, sign);
    Some(())
}

fn special_register(instance: &mut Instance, random: &mut Random) -> Option<()> {
    *operand(instance, random)? = (*random.pick(SPECIAL)?).to_owned();
    Some(())
}

fn address(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = instance.operands.iter().position(|o| o.starts_with('['))?;
    let (_, register) = random.pick(&instance.registers)?;
    let address = random.pick(ADDRESSES)?.replace('@', register);
    let old = &instance.operands[at];
    let end = old.find([',', ']'])?;
    instance.operands[at] = match random.once_in(6) {
        true => address,
        false => format!("[{address}{}", &old[end..]),
    };
    Some(())
}

/// Anything, in place of anything.
fn another_operand(instance: &mut Instance, random: &mut Random) -> Option<()> {
    const OTHERS: &[&str] =
        &["_", "L", "s", "g", "p", "f", "t", "{}", "()", "[]", "_|_", "{_, _}", "{1, 2}", "\"s\"", "%tid", "q"];
    *operand(instance, random)? = (*random.pick(OTHERS)?).to_owned();
    Some(())
}

/// A literal, `_` or another register in a vector.
fn vector_element(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let name = &random.pick(&instance.registers)?.1;
    let element = *random.pick(&["_", "1", "1.0", "-1", "%tid.x", name.as_str(), "s"])?;
    let inside = |c: char| c == '{' || c == ',';
    let vectors = instance.operands.iter_mut().filter(|o| o.contains('{'));
    let old = vectors.last()?;
    let starts: Vec<usize> = old.match_indices(inside).map(|(at, _)| at + 1).collect();
    let start = *random.pick(&starts)?;
    let end = old[start..].find([',', '}']).map(|n| start + n)?;
    let element = element.to_owned();
    old.replace_range(start..end, &element);
    Some(())
}

/// A type of the table where another stands.
fn another_type(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let types = &table().types;
    let is_type = |text: &str| types.iter().any(|t| t.name == text);
    let places: Vec<usize> = (1..instance.mnemonic.len()).filter(|at| is_type(&instance.mnemonic[*at])).collect();
    instance.mnemonic[*random.pick(&places)?] = random.pick(types)?.name.to_owned();
    Some(())
}

fn foreign_modifier(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let opcodes = table().opcodes();
    let opcode = random.pick(&opcodes)?;
    let row = random.pick(table().forms(opcode))?;
    let slot = random.pick(&row.slots)?;
    let text = random.pick(slot.members)?.text;
    let at = random.below(instance.mnemonic.len()) + 1;
    instance.mnemonic.insert(at, text.to_owned());
    Some(())
}

/// A letter missing, doubled or exchanged, in the opcode or a modifier.
fn misspelt(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = random.below(instance.mnemonic.len());
    let word = &mut instance.mnemonic[at];
    let letter = random.below(word.len());
    let old = word.get(letter..=letter)?.to_owned();
    let new = match random.below(3) {
        0 => String::new(),
        1 => old.repeat(2),
        _ => "x".to_owned(),
    };
    word.replace_range(letter..=letter, &new);
    Some(())
}

fn another_opcode(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let opcodes = table().opcodes();
    instance.mnemonic[0] = (*random.pick(&opcodes)?).to_owned();
    Some(())
}

fn punctuation(instance: &mut Instance, random: &mut Random) -> Option<()> {
    const ODD: &[&str] = &[",", ";", " x", "]", "|", ".", ".x", "+1", " 1", ":", "!", "@"];
    let odd = *random.pick(ODD)?;
    operand(instance, random)?.push_str(odd);
    Some(())
}

/// One element more or less, or braces about one.
fn vector_width(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let operand = operand(instance, random)?;
    *operand = match operand.rsplit_once(", ").filter(|_| operand.starts_with('{')) {
        Some((front, _)) if random.once_in(2) => format!("{front}}}"),
        Some((_, last)) => format!("{}, {last}", operand.trim_end_matches('}')),
        None => format!("{{{operand}}}"),
    };
    Some(())
}

fn guarded(instance: &mut Instance, random: &mut Random) -> Option<()> {
    if random.once_in(2) {
        instance.registers.push(("pred".to_owned(), "%g".to_owned()));
    }
    let name = if random.once_in(8) { "%tid.x" } else { &random.pick(&instance.registers)?.1 };
    instance.guard = format!("@{}{name} ", random.pick(&["", "!", "-", "!!"])?);
    Some(())
}

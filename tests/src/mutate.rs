//! Small mistakes in an instruction: what a hand or a macro gets wrong. ptxas decides whether the result is valid.

use crate::instruction::Instruction;
use crate::random::Random;
use crate::spelling::{ADDRESSES, CLASSES, LITERALS, SPECIAL};
use crate::vocabulary::Vocabulary;
use ptx_core::isa::table;

/// One kind of mistake; `None` where the instruction has no place for it.
type Mutation = fn(&mut Instruction, &Vocabulary, &mut Random) -> Option<()>;

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
    ("brackets dropped", brackets_dropped),
    ("modifier moved", modifier_moved),
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
pub fn mutate(instruction: &mut Instruction, words: &Vocabulary, random: &mut Random) -> Option<&'static str> {
    let (name, mutation) = random.pick(MUTATIONS)?;
    mutation(instruction, words, random).map(|()| *name)
}

fn register_class(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = random.below(instruction.registers.len());
    instruction.registers.get_mut(at)?.0 = (*random.pick(CLASSES)?).to_owned();
    Some(())
}

/// The place of a random modifier.
fn modifier(instruction: &Instruction, random: &mut Random) -> Option<usize> {
    let count = instruction.mnemonic.len().checked_sub(1).filter(|n| *n > 0)?;
    Some(1 + random.below(count))
}

fn modifier_dropped(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = modifier(instruction, random)?;
    instruction.mnemonic.remove(at);
    Some(())
}

fn modifier_doubled(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = modifier(instruction, random)?;
    instruction.mnemonic.insert(at, instruction.mnemonic[at].clone());
    Some(())
}

fn modifiers_swapped(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let (a, b) = (modifier(instruction, random)?, modifier(instruction, random)?);
    instruction.mnemonic.swap(a, b);
    (a != b).then_some(())
}

fn modifier_changed(instruction: &mut Instruction, words: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = modifier(instruction, random)?;
    instruction.mnemonic[at] = words.modifier_of(instruction.opcode(), random)?;
    Some(())
}

fn modifier_added(instruction: &mut Instruction, words: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = random.below(instruction.mnemonic.len()) + 1;
    instruction.mnemonic.insert(at, words.modifier_of(instruction.opcode(), random)?);
    Some(())
}

fn operand_dropped(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = random.below(instruction.operands.len());
    (!instruction.operands.is_empty()).then(|| drop(instruction.operands.remove(at)))
}

fn operand_added(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let operand = match instruction.registers.is_empty() {
        true => "0".to_owned(),
        false => instruction.registers[random.below(instruction.registers.len())].1.clone(),
    };
    instruction.operands.insert(random.below(instruction.operands.len() + 1), operand);
    Some(())
}

fn operands_swapped(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let (a, b) = (random.below(instruction.operands.len()), random.below(instruction.operands.len()));
    (a != b).then(|| instruction.operands.swap(a, b))
}

fn operand<'a>(instruction: &'a mut Instruction, random: &mut Random) -> Option<&'a mut String> {
    let at = random.below(instruction.operands.len());
    instruction.operands.get_mut(at)
}

/// Instead of a register, wherever it stands.
fn literal(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let (_, name) = random.pick(&instruction.registers)?.clone();
    let literal = random.pick(LITERALS)?;
    let operand = instruction.operands.iter_mut().find(|o| o.ends_with(&name) || o.contains(&format!("{name},")))?;
    *operand = operand.replacen(&name, literal, 1);
    Some(())
}

fn negated(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let sign = if random.once_in(2) { '!' } else { '-' };
    operand(instruction, random)?.insert(0, sign);
    Some(())
}

fn special_register(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    *operand(instruction, random)? = (*random.pick(SPECIAL)?).to_owned();
    Some(())
}

/// The place of a random operand in brackets.
fn bracketed(instruction: &Instruction, random: &mut Random) -> Option<usize> {
    let places: Vec<usize> =
        (0..instruction.operands.len()).filter(|at| instruction.operands[*at].starts_with('[')).collect();
    random.pick(&places).copied()
}

fn brackets_dropped(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = bracketed(instruction, random)?;
    instruction.operands[at].retain(|c| !matches!(c, '[' | ']'));
    Some(())
}

/// Also one that is a part of the name.
fn modifier_moved(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let (from, to) = (modifier(instruction, random)?, modifier(instruction, random)?);
    let moved = instruction.mnemonic.remove(from);
    instruction.mnemonic.insert(to, moved);
    (from != to).then_some(())
}

fn address(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = bracketed(instruction, random)?;
    let (_, register) = random.pick(&instruction.registers)?;
    let address = random.pick(ADDRESSES)?.replace('@', register);
    let old = &instruction.operands[at];
    let end = old.find([',', ']'])?;
    instruction.operands[at] = match random.once_in(6) {
        true => address,
        false => format!("[{address}{}", &old[end..]),
    };
    Some(())
}

/// Anything, in place of anything.
fn another_operand(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    const OTHERS: &[&str] =
        &["_", "L", "s", "g", "p", "f", "t", "{}", "()", "[]", "_|_", "{_, _}", "{1, 2}", "\"s\"", "%tid", "q"];
    *operand(instruction, random)? = (*random.pick(OTHERS)?).to_owned();
    Some(())
}

/// A literal, `_` or another register in a vector.
fn vector_element(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let name = &random.pick(&instruction.registers)?.1;
    let element = *random.pick(&["_", "1", "1.0", "-1", "%tid.x", name.as_str(), "s"])?;
    let inside = |c: char| c == '{' || c == ',';
    let vectors = instruction.operands.iter_mut().filter(|o| o.contains('{'));
    let old = vectors.last()?;
    let starts: Vec<usize> = old.match_indices(inside).map(|(at, _)| at + 1).collect();
    let start = *random.pick(&starts)?;
    let end = old[start..].find([',', '}']).map(|n| start + n)?;
    let element = element.to_owned();
    old.replace_range(start..end, &element);
    Some(())
}

/// A type of the table where another stands.
fn another_type(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let types = &table().types;
    let is_type = |text: &str| types.iter().any(|t| t.name == text);
    let places: Vec<usize> = (1..instruction.mnemonic.len()).filter(|at| is_type(&instruction.mnemonic[*at])).collect();
    instruction.mnemonic[*random.pick(&places)?] = random.pick(types)?.name.to_owned();
    Some(())
}

fn foreign_modifier(instruction: &mut Instruction, words: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = random.below(instruction.mnemonic.len()) + 1;
    instruction.mnemonic.insert(at, words.modifier(random)?);
    Some(())
}

/// A letter missing, doubled or exchanged, in the opcode or a modifier.
fn misspelt(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let at = random.below(instruction.mnemonic.len());
    let word = &mut instruction.mnemonic[at];
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

fn another_opcode(instruction: &mut Instruction, words: &Vocabulary, random: &mut Random) -> Option<()> {
    instruction.mnemonic[0] = words.opcode(random)?;
    Some(())
}

fn punctuation(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    const ODD: &[&str] = &[",", ";", " x", "]", "|", ".", ".x", "+1", " 1", ":", "!", "@"];
    let odd = *random.pick(ODD)?;
    operand(instruction, random)?.push_str(odd);
    Some(())
}

/// One element more or less, or braces about one.
fn vector_width(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    let operand = operand(instruction, random)?;
    *operand = match operand.rsplit_once(", ").filter(|_| operand.starts_with('{')) {
        Some((front, _)) if random.once_in(2) => format!("{front}}}"),
        Some((_, last)) => format!("{}, {last}", operand.trim_end_matches('}')),
        None => format!("{{{operand}}}"),
    };
    Some(())
}

fn guarded(instruction: &mut Instruction, _: &Vocabulary, random: &mut Random) -> Option<()> {
    if random.once_in(2) {
        instruction.registers.push(("pred".to_owned(), "%g".to_owned()));
    }
    let name = if random.once_in(8) { "%tid.x" } else { &random.pick(&instruction.registers)?.1 };
    instruction.guard = format!("@{}{name} ", random.pick(&["", "!", "-", "!!"])?);
    Some(())
}

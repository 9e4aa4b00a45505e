//! Small mistakes in an instruction: what a hand or a macro gets wrong. Whether the result is valid, ptxas says.

use crate::instance::Instance;
use crate::random::Random;
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
    ("guard", guarded),
];

/// Declared types, of registers.
const CLASSES: &[&str] =
    &["pred", "b8", "u8", "b16", "u16", "f16", "b32", "u32", "s32", "f32", "f16x2", "b64", "u64", "s64", "f64", "b128"];

/// Literals at the borders of types and ranges.
const LITERALS: &[&str] =
    &["0", "1", "2", "3", "16", "31", "32", "128", "-1", "0xFFFFFFFF", "4294967296", "1.0", "0f3F800000", "WARP_SZ"];

/// Addresses: of shared, global and constant variables, with offsets, absolute.
const ADDRESSES: &[&str] = &["[s]", "[s+16]", "[g]", "[g+32]", "[c]", "[64]", "s", "[L]"];

/// Makes one random mistake; its kind, or `None` if it found no place.
pub fn mutate(instance: &mut Instance, random: &mut Random) -> Option<&'static str> {
    let (name, mutation) = random.pick(MUTATIONS)?;
    mutation(instance, random).map(|()| *name)
}

fn register_class(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = random.below(instance.registers.len());
    instance.registers.get_mut(at)?.0 = random.pick(CLASSES)?;
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
    const SPECIAL: &[&str] = &["%tid.x", "%laneid", "%clock64", "%tid", "%lanemask_lt"];
    *operand(instance, random)? = (*random.pick(SPECIAL)?).to_owned();
    Some(())
}

fn address(instance: &mut Instance, random: &mut Random) -> Option<()> {
    let at = instance.operands.iter().position(|o| o.starts_with('[') && !o.contains(','))?;
    instance.operands[at] = (*random.pick(ADDRESSES)?).to_owned();
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
    let (_, name) = random.pick(&instance.registers)?;
    instance.guard = format!("@{}{name} ", if random.once_in(2) { "!" } else { "" });
    Some(())
}

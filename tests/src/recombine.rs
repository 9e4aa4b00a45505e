//! Makes new instructions of those that files hold: modifiers of one with operands of another, other types, other words.

use crate::harvest::Harvest;
use crate::instruction::Instruction;
use crate::mutate::mutate;
use crate::random::Random;
use crate::spelling::{CLASSES, LITERALS};
use crate::template::Template;
use ptx_core::isa::table;

/// One kind of change that often makes another valid instruction; `None` where there is no place for it.
type Change = fn(&mut Instruction, &Template, &Harvest, &mut Random) -> Option<()>;

/// By name, for reports.
const CHANGES: &[(&str, Change)] = &[
    ("operands of another", operands_of_another),
    ("an operand of another", operand_of_another),
    ("modifiers of another", modifiers_of_another),
    ("a modifier replaced", modifier_replaced),
    ("a modifier added", modifier_added),
    ("a modifier dropped", modifier_dropped),
    ("another type everywhere", type_everywhere),
    ("another class everywhere", class_everywhere),
    ("a class", class),
    ("a literal", literal),
];

/// A new instruction, and how it was made.
pub fn recombine(harvest: &Harvest, random: &mut Random) -> Option<(Instruction, &'static str)> {
    let opcodes: Vec<&Vec<Template>> = harvest.templates.values().collect();
    let templates = *random.pick(&opcodes)?;
    let template = random.pick(templates)?;
    let mut out = template.fill(random);
    let mut how = "as it was";
    for _ in 0..random.below(4) {
        let (name, change) = random.pick(CHANGES)?;
        if change(&mut out, template, harvest, random).is_some() {
            how = name;
        }
    }
    if random.once_in(4) {
        how = mutate(&mut out, &harvest.words, random)?;
    }
    Some((out, how))
}

/// Another of the same opcode, most often one that begins alike.
fn relative<'a>(template: &Template, harvest: &'a Harvest, random: &mut Random) -> Option<&'a Template> {
    let all = harvest.templates.get(template.mnemonic.first()?)?;
    let second = template.mnemonic.get(1);
    let alike: Vec<&Template> = all.iter().filter(|other| other.mnemonic.get(1) == second).collect();
    if random.once_in(3) { random.pick(all) } else { random.pick(&alike).copied() }
}

fn operands_of_another(out: &mut Instruction, of: &Template, harvest: &Harvest, random: &mut Random) -> Option<()> {
    let other = relative(of, harvest, random)?.fill(random);
    (out.registers, out.operands) = (other.registers, other.operands);
    Some(())
}

fn operand_of_another(out: &mut Instruction, of: &Template, harvest: &Harvest, random: &mut Random) -> Option<()> {
    let other = relative(of, harvest, random)?;
    let at = random.below(other.operands.len().min(out.operands.len()));
    let operand = other.operand(other.operands.get(at)?, &mut out.registers, random);
    *out.operands.get_mut(at)? = operand;
    Some(())
}

fn modifiers_of_another(out: &mut Instruction, of: &Template, harvest: &Harvest, random: &mut Random) -> Option<()> {
    out.mnemonic.clone_from(&relative(of, harvest, random)?.mnemonic);
    Some(())
}

/// Of the opcode, most often one that begins alike.
fn modifier_replaced(out: &mut Instruction, of: &Template, harvest: &Harvest, random: &mut Random) -> Option<()> {
    let at = 1 + random.below(out.mnemonic.len().checked_sub(1).filter(|n| *n > 0)?);
    let other = relative(of, harvest, random)?;
    let word = match random.once_in(2) {
        true => other.mnemonic.get(at)?.clone(),
        false => harvest.words.modifier_of(out.opcode(), random)?,
    };
    *out.mnemonic.get_mut(at)? = word;
    Some(())
}

fn modifier_added(out: &mut Instruction, _: &Template, harvest: &Harvest, random: &mut Random) -> Option<()> {
    let at = 1 + random.below(out.mnemonic.len());
    let word = harvest.words.modifier_of(out.opcode(), random)?;
    out.mnemonic.insert(at, word);
    Some(())
}

fn modifier_dropped(out: &mut Instruction, _: &Template, _: &Harvest, random: &mut Random) -> Option<()> {
    let at = 1 + random.below(out.mnemonic.len().checked_sub(1).filter(|n| *n > 0)?);
    out.mnemonic.remove(at);
    Some(())
}

/// A type among the modifiers becomes another, and so do the registers of its width.
fn type_everywhere(out: &mut Instruction, _: &Template, _: &Harvest, random: &mut Random) -> Option<()> {
    let types = &table().types;
    let is_type = |word: &String| types.iter().any(|t| t.name == word);
    let old = random.pick(&out.mnemonic.iter().skip(1).filter(|w| is_type(w)).cloned().collect::<Vec<_>>())?.clone();
    let new = random.pick(types)?;
    let holder = random.pick(&new.registers).copied().unwrap_or(new.name);
    let width = types.iter().find(|t| t.name == old)?.bits;
    out.mnemonic.iter_mut().skip(1).filter(|word| **word == old).for_each(|word| new.name.clone_into(word));
    for (class, _) in &mut out.registers {
        if types.iter().any(|t| t.name == class && t.bits == width) {
            holder.clone_into(class);
        }
    }
    Some(())
}

fn class_everywhere(out: &mut Instruction, _: &Template, _: &Harvest, random: &mut Random) -> Option<()> {
    let old = random.pick(&out.registers)?.0.clone();
    let new = *random.pick(CLASSES)?;
    out.registers.iter_mut().filter(|(class, _)| *class == old).for_each(|(class, _)| new.clone_into(class));
    Some(())
}

fn class(out: &mut Instruction, _: &Template, _: &Harvest, random: &mut Random) -> Option<()> {
    let at = random.below(out.registers.len());
    out.registers.get_mut(at)?.0 = (*random.pick(CLASSES)?).to_owned();
    Some(())
}

/// For an operand that is a register or a number.
fn literal(out: &mut Instruction, _: &Template, _: &Harvest, random: &mut Random) -> Option<()> {
    let plain = |text: &String| !text.contains(['[', '{', '|', '(']);
    let places: Vec<usize> = (1..out.operands.len()).filter(|at| plain(&out.operands[*at])).collect();
    out.operands[*random.pick(&places)?] = (*random.pick(LITERALS)?).to_owned();
    Some(())
}

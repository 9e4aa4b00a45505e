//! nvdisasm's output, read: functions, instructions with their schedule, the lines they come from, live registers.

use super::control::Control;
use crate::ptxas::Resources;
use std::collections::HashMap;

/// The machine code of one function.
#[derive(Clone, Debug, Default)]
pub(super) struct Function {
    pub name: String,
    pub instructions: Vec<Instruction>,
    pub resources: Option<Resources>,
}

/// One machine instruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Instruction {
    pub address: u64,
    /// Without its final semicolon: `@P0 LDG.E R0, desc[UR4][R2.64]`.
    pub text: String,
    pub control: Control,
    /// The line of PTX that it comes from.
    pub line: Option<usize>,
    /// Registers that are alive.
    pub registers: Option<u32>,
    /// Labels in front of it.
    pub labels: Vec<String>,
}

impl Instruction {
    /// The opcode without its modifiers: `LDG`.
    pub(super) fn opcode(&self) -> &str {
        let words = self.text.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("");
        words.split('.').next().unwrap_or("")
    }

    /// Returns true if it may go on elsewhere.
    pub(super) fn jumps(&self) -> bool {
        const JUMPS: [&str; 8] = ["BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "CALL", "BREAK"];
        JUMPS.contains(&self.opcode())
    }
}

/// The functions of a listing with lines and encodings, and of one with live registers.
pub(super) fn read(lines: &str, registers: &str) -> Vec<Function> {
    let alive = read_registers(registers);
    let mut functions: Vec<Function> = Vec::new();
    let (mut line, mut labels) = (None, Vec::new());
    for text in lines.lines() {
        if let Some(name) = section(text) {
            functions.push(Function { name: name.to_owned(), ..Function::default() });
            (line, labels) = (None, Vec::new());
            continue;
        }
        let Some(function) = functions.last_mut() else { continue };
        if let Some(label) = text.trim_end().strip_suffix(':').filter(|label| label.starts_with(".L")) {
            labels.push(label.to_owned());
        } else if text.contains("//## File") {
            line = number_behind(text, "line ").or(line);
        } else if let Some((address, code)) = instruction(text) {
            let registers = alive.get(&(function.name.clone(), address)).copied();
            let labels = std::mem::take(&mut labels);
            let control = Control::default();
            function.instructions.push(Instruction { address, text: code, control, line, registers, labels });
        } else if let (Some(high), Some(last)) = (encoding(text), function.instructions.last_mut()) {
            last.control = Control::decode(high);
        }
    }
    functions.retain(|function| !function.instructions.is_empty());
    functions.iter_mut().for_each(cut_padding);
    functions
}

/// Behind the code there is a jump to itself, and nothing that runs.
fn cut_padding(function: &mut Function) {
    while function.instructions.last().is_some_and(|last| last.opcode() == "NOP") {
        function.instructions.pop();
    }
    let ends = function
        .instructions
        .last()
        .is_some_and(|last| last.labels.iter().any(|label| last.text.contains(&format!("`({label})"))));
    if ends {
        function.instructions.pop();
    }
}

/// `.section .text.k,"ax",@progbits`
fn section(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once(".section")?;
    let name = behind.trim_start().strip_prefix(".text.")?;
    Some(name.split(',').next().unwrap_or(name).trim_matches('"'))
}

fn number_behind(text: &str, word: &str) -> Option<usize> {
    let (_, behind) = text.split_once(word)?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// `        /*0050*/                   LDG.E R0, desc[UR4][R2.64] ;          /* 0x… */`: the address and the code.
fn instruction(text: &str) -> Option<(u64, String)> {
    let behind = text.trim_start().strip_prefix("/*")?;
    let (address, code) = behind.split_once("*/")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (code, _) = code.split_once(';')?;
    Some((address, code.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// The upper half of an encoding, alone on its line.
fn encoding(text: &str) -> Option<u64> {
    let word = text.trim().strip_prefix("/* 0x")?.strip_suffix("*/")?;
    u64::from_str_radix(word.trim(), 16).ok()
}

/// The live registers of each instruction: the number behind the first bar of the comment.
fn read_registers(text: &str) -> HashMap<(String, u64), u32> {
    let (mut found, mut function) = (HashMap::new(), String::new());
    for line in text.lines() {
        if let Some(name) = section(line) {
            name.clone_into(&mut function);
        }
        let Some((address, _)) = instruction(line) else { continue };
        let Some((_, table)) = line.rsplit_once("// |") else { continue };
        if let Some(count) = table.split_whitespace().next().and_then(|count| count.parse().ok()) {
            found.insert((function.clone(), address), count);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn listings_are_read() {
        let lines = "\t.section\t.text.k,\"ax\",@progbits\nk:\n.text.k:\n\t//## File \"k.ptx\", line 11\n\
             \x20       /*0000*/                   S2R R4, SR_TID.X ;                    /* 0x0000000000047919 */\n\
             \x20                                                                        /* 0x000e2e0000002100 */\n\
             .L_x_0:\n\t//## File \"k.ptx\", line 12\n\
             \x20       /*0010*/              @!P0 FFMA R0, R4, R4, RZ ;   /* 0x0000000000007223 */\n\
             \x20                                                          /* 0x004fc800000000ff */\n\
             .L_x_1:\n\x20       /*0020*/  BRA `(.L_x_1); /* 0xfffffffc00fc7947 */\n /* 0x000fc0000383ffff */\n\
             \x20       /*0030*/  NOP; /* 0x0000000000007918 */\n /* 0x000fc00000000000 */\n";
        let registers =
            "\t.section\t.text.k,\"ax\",@progbits\n   /*0000*/   S2R R4, SR_TID.X ;  // |  2   ^     ^ |  |\n";
        let functions = read(lines, registers);
        assert_eq!(functions.len(), 1, "{functions:?}");
        let code = &functions[0].instructions;
        assert_eq!(code.len(), 2, "{code:?}");
        let (first, second) = (&code[0], &code[1]);
        assert_eq!((first.text.as_str(), first.line, first.registers), ("S2R R4, SR_TID.X", Some(11), Some(2)));
        assert_eq!((first.control.stall, first.control.write), (7, Some(0)));
        assert_eq!((second.opcode(), second.line, second.labels.len()), ("FFMA", Some(12), 1));
    }
}

//! An instruction as it is written, with the registers that it needs: the material of the comparisons with ptxas.

/// One instruction.
#[derive(Clone, Debug, Default)]
pub struct Instruction {
    /// The registers, with what declares them: `b32`, `v4 .b32`.
    pub registers: Vec<(String, String)>,
    /// Text before the instruction: nothing, or a guard.
    pub guard: String,
    /// The opcode and the modifiers, without dots.
    pub mnemonic: Vec<String>,
    /// As written.
    pub operands: Vec<String>,
}

/// The labels that calls and branches to tables name: `T`, `C` and `P`. The module declares `f` and `f1`.
const TARGETS: &[(&str, &str)] = &[
    ("T", "T: .branchtargets L; "),
    ("C", "C: .calltargets f; "),
    ("P", "P: .callprototype _ (.reg .b32 _); "),
    ("P1", "P1: .callprototype (.reg .b32 _) _ (.reg .b32 _); "),
];

impl Instruction {
    /// The declarations and the instruction, on one line.
    pub fn body(&self) -> String {
        let registers: String = self.registers.iter().map(|(ty, name)| format!(".reg .{ty} {name}; ")).collect();
        let (guard, mnemonic, operands) = (&self.guard, self.mnemonic.join("."), self.operands.join(", "));
        let named = |name: &str| self.operands.iter().any(|o| o == name);
        let targets = TARGETS.iter().filter(|(name, _)| named(name)).map(|(_, line)| *line).collect::<String>();
        format!(".shared .align 128 .b8 s[1024]; {registers}L: {targets}{guard}{mnemonic} {operands};")
    }

    /// Declares a register; its name.
    pub fn register(&mut self, class: &str) -> String {
        let name = format!("%r{}", self.registers.len());
        self.registers.push((class.to_owned(), name.clone()));
        name
    }

    /// The first word.
    pub fn opcode(&self) -> &str {
        self.mnemonic.first().map_or("", String::as_str)
    }
}

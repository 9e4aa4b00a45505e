//! Contracts on machine code: the promises of a kernel's attribute that no text shows, because the assembler decides. One place for their meaning,
//! which the macros, tests and the launch runtime read.

use crate::Arch;
use crate::chip::{Chip, Needs};

/// The promises of a kernel about its machine code. A number of 0 is no promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// A thread has no local memory: no array on its stack, and no spilled register.
    pub no_local: bool,
    /// No register is spilled to local memory.
    pub no_spills: bool,
    /// The most registers that a thread takes.
    pub max_registers: u32,
    /// The blocks that a multiprocessor holds at once, at least.
    pub occupancy: u32,
    /// Threads of such a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of such a block.
    pub dynamic_shared: u32,
}

/// The needs of a kernel's machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCode {
    /// Registers of a thread; 0 if they are not known.
    pub registers: u32,
    /// Bytes of local memory of a thread, with those of spilled registers.
    pub local: u32,
    /// Bytes that the instructions store that spill registers, and bytes that they load, if they are known.
    pub spills: Option<[u32; 2]>,
    /// Bytes of static shared memory of a block.
    pub shared: u32,
}

/// A promise that machine code breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The option of the attribute: `no_local`.
    pub option: &'static str,
    /// The machine code's property, to be read after the kernel's name: `takes 140 registers a thread`.
    pub found: String,
    /// The fix.
    pub help: &'static str,
}

impl MachineCode {
    /// The needs of an entry as the log of `ptxas -v` has them; `None` if it lacks them.
    ///
    /// ```
    /// let log = "ptxas info    : Function properties for k\n    64 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n\
    ///            ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem\n";
    /// let code = ptx_target::MachineCode::from_log(log, "k").ok_or("no log")?;
    /// assert_eq!((code.registers, code.local, code.spills, code.shared), (40, 64, Some([8, 4]), 1024));
    /// assert_eq!(ptx_target::MachineCode::from_log(log, "j"), None);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn from_log(log: &str, entry: &str) -> Option<MachineCode> {
        let about =
            |line: &str| line.split_once("Function properties for ").is_some_and(|(_, name)| name.trim() == entry);
        let mut lines = log.lines().skip_while(|line| !about(line)).skip(1);
        let mut memory = lines.next()?.split(',').map(|part| number_before(part, " bytes"));
        let (local, stores, loads) = (memory.next()??, memory.next()??, memory.next()??);
        let used = lines.next().filter(|line| line.contains("Used ")).unwrap_or_default();
        let of = |unit| used.split(',').find_map(|part| number_before(part, unit)).unwrap_or(0);
        Some(MachineCode {
            registers: of(" registers"),
            local,
            spills: Some([stores, loads]),
            shared: of(" bytes smem"),
        })
    }
}

/// The number in front of a unit: 64 in `    64 bytes stack frame`.
fn number_before(text: &str, unit: &str) -> Option<u32> {
    text.split_once(unit)?.0.split_whitespace().next_back()?.parse().ok()
}

impl Contract {
    /// No promise.
    pub const NONE: Contract =
        Contract { no_local: false, no_spills: false, max_registers: 0, occupancy: 0, threads: 0, dynamic_shared: 0 };

    /// Returns true if nothing is promised.
    pub fn is_empty(&self) -> bool {
        let Contract { no_local, no_spills, max_registers, occupancy, .. } = *self;
        !no_local && !no_spills && max_registers == 0 && occupancy == 0
    }

    /// The blocks of the kernel that a multiprocessor of a chip holds at once, where an occupancy is promised.
    pub fn resident_blocks(&self, code: &MachineCode, chip: Arch) -> Option<u32> {
        let shared = u64::from(code.shared) + u64::from(self.dynamic_shared);
        let needs = Needs { threads: self.threads.into(), registers: Some(code.registers.into()), shared };
        (self.occupancy > 0).then(|| u32::try_from(Chip::usual(chip).occupancy(needs).blocks).unwrap_or(u32::MAX))
    }

    /// The promises that machine code breaks. `blocks` of it are on a multiprocessor at once, if that is known.
    ///
    /// ```
    /// use ptx_target::{Contract, MachineCode};
    /// let code = MachineCode { registers: 140, local: 64, spills: Some([8, 4]), shared: 0 };
    /// let all = Contract { no_local: true, no_spills: true, max_registers: 139, occupancy: 2, ..Contract::NONE };
    /// let broken: Vec<&str> = all.breaches(&code, Some(1)).iter().map(|breach| breach.option).collect();
    /// assert_eq!(broken, ["no_local", "no_spills", "max_registers", "occupancy"]);
    /// assert!(Contract { max_registers: 140, occupancy: 1, ..Contract::NONE }.breaches(&code, Some(1)).is_empty());
    /// ```
    pub fn breaches(&self, code: &MachineCode, blocks: Option<u32>) -> Vec<Breach> {
        let [stores, loads] = code.spills.unwrap_or_default();
        let arrays = code.local.saturating_sub(stores.max(loads));
        let checks = [
            (self.no_local && code.local > 0).then(|| Breach {
                option: "no_local",
                found: format!("takes {} bytes of local memory a thread", code.local),
                help: if arrays > 0 {
                    "index its arrays with constants, so that they stay in registers"
                } else {
                    "let fewer values live at the same time, or allow more registers: fewer threads of a block, a larger `max_regs`"
                },
            }),
            (self.no_spills && stores + loads > 0).then(|| Breach {
                option: "no_spills",
                found: format!("spills registers: {stores} bytes of stores and {loads} of loads"),
                help: "let fewer values live at the same time, or allow more registers: fewer threads of a block, a larger `max_regs`",
            }),
            (self.max_registers > 0 && code.registers > self.max_registers).then(|| Breach {
                option: "max_registers",
                found: format!("takes {} registers a thread, more than {}", code.registers, self.max_registers),
                help: "let fewer values live at the same time; `max_regs` makes the assembler keep to a number, and spill",
            }),
            blocks.filter(|blocks| *blocks < self.occupancy).map(|blocks| Breach {
                option: "occupancy",
                found: format!(
                    "has {blocks} blocks on a multiprocessor, less than {}: a block has {} threads of {} registers and {} bytes of shared memory",
                    self.occupancy,
                    self.threads,
                    code.registers,
                    u64::from(code.shared) + u64::from(self.dynamic_shared)
                ),
                help: "let it take fewer registers (`min_blocks`, `max_regs`), less shared memory or fewer threads",
            }),
        ];
        checks.into_iter().flatten().collect()
    }
}

/// The line of the first array in local memory of an entry, from 1.
///
/// ```
/// let text = ".visible .entry a()\n{\n}\n.visible .entry ab()\n{\n    .local .align 4 .b8 x[64];\n}\n";
/// assert_eq!((ptx_target::local_array(text, "a"), ptx_target::local_array(text, "ab")), (None, Some(6)));
/// ```
pub fn local_array(ptx: &str, entry: &str) -> Option<u32> {
    let begins = |line: &str| line.split_once(".entry ").map(|(_, name)| name.split(['(', ' ']).next() == Some(entry));
    let mut lines = (1..).zip(ptx.lines()).skip_while(|(_, line)| begins(line) != Some(true));
    lines.next()?;
    let own = lines.take_while(|(_, line)| begins(line).is_none());
    own.filter(|(_, line)| line.trim_start().starts_with(".local ")).map(|(line, _)| line).next()
}

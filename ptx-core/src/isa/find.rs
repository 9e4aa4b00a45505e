//! Which row an instruction is: modifiers to slots.

//! The diagnostics of lowering: what was found, what exists, what was probably meant. One file a theme; when they are
//! reported, those decide who call them.

mod declaration;
mod forms;
mod gate;
mod header;
mod mnemonic;
mod names;
mod operand;
mod refused;
mod tolerated;

pub(super) use declaration::{
    alignment, behind_type, dwarf_in_body, initial_value, lone_semicolon, misplaced, no_parameter_name, no_register,
    no_space, no_type, not_a_register_type, register_shape, unknown_type, wrong_value,
};
pub(crate) use gate::{gate, gone};
pub(super) use header::{bad_version, no_header, other_chip, target_since, unknown_target, version_elsewhere};
pub(super) use mnemonic::{misfit, torn};
pub(super) use names::{
    comes_later, dots_in_a_label, duplicate, extern_or_not, no_label, not_a_target, other_declaration, other_signature,
    other_variable, reserved, unknown_name,
};
pub(super) use operand::{
    guard_name, guard_type, not_an_address, not_an_array, not_an_index, not_an_operand, not_constant, unknown_component,
};
pub(super) use refused::{Place, refused};
pub(super) use tolerated::{
    address_without_brackets, component_behind, function_as_number, halves_as_predicate, handle_as_address, idle,
    number_as_register, order, predicate_as_number, sum_as_number, undocumented,
};

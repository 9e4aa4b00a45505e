//! The PTX text of a module that is sound.

use super::tree::print_tree;
use crate::check::Checked;

/// The text of a checked module. [`print_tree`] prints what has errors.
pub fn print(checked: &Checked) -> String {
    String::from_utf8_lossy(&print_tree(checked.tree())).into_owned()
}

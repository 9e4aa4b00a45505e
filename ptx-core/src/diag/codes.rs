//! Every diagnostic code: one line here, one page in `explain/`.
//!
//! P00 lexing · P01 syntax · P02 instruction form · P03 operands and registers · P04 target and version ·
//! P05 names, labels, flow · P06 module, directives, resources · P07 protocol (warnings) · P08 kernel language ·
//! P09 attribute and launch.

use super::Code;

macro_rules! codes {
    ($($id:ident $title:literal)*) => {
        $(
            #[doc = $title]
            pub static $id: Code = Code {
                id: stringify!($id),
                title: $title,
                explain: include_str!(concat!("../../explain/", stringify!($id), ".md")),
            };
        )*
        /// All codes, in order.
        pub static ALL: &[&Code] = &[$(&$id),*];
    };
}

codes! {
    P0001 "a character that PTX does not have"
    P0002 "a comment that never ends"
    P0003 "a string that never ends"
    P0004 "a source that is too long"
    P0101 "unexpected token"
    P0102 "a brace without its partner"
    P0103 "nested too deeply"
    P0201 "unknown instruction"
    P0202 "unknown modifier for this instruction"
    P0203 "the modifiers do not make a form of this instruction"
    P0204 "wrong number or shape of operands"
    P0850 "Rust that the kernel language does not have"
    P0851 "an attribute that has no meaning here"
    P0901 "an option that the attribute does not have"
    P0902 "the same thing given twice"
    P0903 "an option with a wrong value"
    P0904 "a signature that a kernel cannot have"
    P0905 "an option is missing"
    P0906 "options that contradict each other"
    P0907 "an item that a kernel module cannot hold"
    P0908 "a PTX file that cannot be read"
}

/// The code with this id, in any case.
pub fn find(id: &str) -> Option<&'static Code> {
    ALL.iter().copied().find(|c| c.id.eq_ignore_ascii_case(id))
}

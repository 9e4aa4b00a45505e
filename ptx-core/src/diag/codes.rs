//! Every diagnostic code: one line here, one page in `explain/`.
//!
//! P00 lexing · P01 syntax · P02 instruction form · P03 operands and registers · P04 target and version ·
//! P05 names, labels, flow · P06 module, directives, resources · P07 protocol (warnings) · P08 kernel language ·
//! P09 attribute and launch. What the CPU device finds while a kernel runs: W01 memory · W02 races · W03 barriers ·
//! W04 asynchronous operations · W05 resources · W06 runs that do not end.

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
    P0104 "too many syntax errors"
    P0201 "unknown instruction"
    P0202 "unknown modifier for this instruction"
    P0203 "the modifiers do not make a form of this instruction"
    P0204 "wrong number of operands"
    P0205 "modifiers out of the manual's order"
    P0206 "a combination that does not exist"
    P0207 "something that only ptxas knows"
    P0301 "an operand of the wrong kind"
    P0302 "a register of the wrong class or width"
    P0303 "a literal where none of its kind may stand"
    P0304 "a constant out of range"
    P0305 "the guard is not a predicate"
    P0306 "not a type, or not one for registers"
    P0307 "unknown component of a register"
    P0308 "not a constant expression"
    P0309 "not an operand or an address"
    P0310 "a variable of another state space"
    P0401 "not available for this target"
    P0402 "not available in this PTX version"
    P0501 "an undeclared name"
    P0502 "a name declared twice"
    P0503 "a register read before it is written"
    P0504 "a label that nothing uses"
    P0505 "code that nothing reaches"
    P0601 "the module lacks its header"
    P0602 "no such PTX version"
    P0603 "no such target"
    P0604 "the header in the wrong order"
    P0605 "an alignment that is no power of two"
    P0606 "an initial value where none may be"
    P0607 "a variable without a size"
    P0608 "a parameter or variable of the wrong kind"
    P0609 "a directive with the wrong numbers"
    P0610 "directives that exclude each other"
    P0611 "more memory than there is"
    P0612 "arguments that do not fit the function"
    P0613 "a callee that cannot be called"
    P0614 "a vector that is too wide"
    P0615 "no such address size"
    P0616 "a directive where it has no place"
    P0617 "a parameter used against its direction"
    P0618 "debug information that is missing"
    P0701 "a `wgmma.mma_async` without its fence"
    P0702 "a `wgmma.mma_async` that is never committed"
    P0703 "a `wgmma.mma_async` that nothing waits for"
    P0704 "an accumulator touched while it is being computed"
    P0711 "an `mbarrier` that nothing has initialised"
    P0712 "an asynchronous read of fresh writes without a proxy fence"
    P0721 "an aligned instruction where threads are apart"
    P0722 "a barrier where threads are apart"
    P0723 "`setmaxnreg` for a part of a warpgroup"
    P0731 "an asynchronous copy that nothing waits for"
    P0732 "an asynchronous copy in no group"
    P0741 "a barrier for a part of a warp"
    P0742 "a barrier with different thread counts"
    P0751 "an access that is not aligned"
    P0801 "a name that means nothing here"
    P0802 "types that do not match"
    P0803 "an operator without an instruction"
    P0804 "a register without a type"
    P0805 "not a constant"
    P0806 "a constant that overflows"
    P0807 "an index that is wrong"
    P0808 "not something to write to"
    P0809 "no loop to leave"
    P0810 "something that needs itself"
    P0811 "arguments that do not fit"
    P0812 "no such type"
    P0813 "what a register cannot do"
    P0814 "memory that cannot be declared so"
    P0815 "not a condition"
    P0816 "a parameter of a raw kernel used as a value"
    P0817 "no such field"
    P0818 "too much to unroll"
    P0820 "a name in `ptx!` that is no operand"
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
    P0909 "instructions outside of a kernel"
    P0910 "an entry that the PTX does not have"
    P0911 "a signature that is not the entry's"
    P0912 "a struct that cannot be a kernel parameter"
    P0913 "machine code that cannot be embedded"
    P0990 "an instruction that the CPU device cannot run"
    W0101 "an access outside of every allocation"
    W0102 "an address that is no multiple of the access"
    W0103 "an access to memory that was freed"
    W0104 "a read of memory that nothing wrote"
    W0105 "a write to memory that kernels only read"
    W0201 "a data race in shared memory"
    W0202 "a data race in global memory"
    W0203 "atomic accesses with too narrow a scope"
    W0301 "a barrier where a warp is apart"
    W0302 "a barrier with contradictory thread counts"
    W0303 "a deadlock"
    W0401 "an asynchronous read of writes without a proxy fence"
    W0402 "an access to what an asynchronous copy is writing"
    W0403 "a write to what an asynchronous operation is reading"
    W0404 "a register of `wgmma` in flight"
    W0411 "an mbarrier that is none"
    W0412 "an mbarrier begun or ended while in use"
    W0413 "an mbarrier with impossible counts"
    W0414 "an ordinary access to an mbarrier"
    W0501 "tensor memory that is not freed"
    W0502 "registers out of balance"
    W0601 "a launch that does not end"
}

/// The code with this id, in any case.
pub fn find(id: &str) -> Option<&'static Code> {
    ALL.iter().copied().find(|c| c.id.eq_ignore_ascii_case(id))
}

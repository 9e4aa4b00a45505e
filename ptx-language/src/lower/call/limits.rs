//! Limits of calls: their number, their depth, and the warps of a block.

use super::Lowerer;
use crate::scope::Binding;
use crate::types::Const;
use crate::value::Value;
use ptx_core::diag::codes;
use ptx_core::span::Span;

/// The threads of a warp.
const WARP_THREADS: i128 = 32;

/// More calls inside of each other than this are refused: each is a recursion here, on the compiler's stack.
const MOST_NESTED: usize = 64;

/// More calls than this in one kernel are refused: helpers that call each other twice double with each level.
const MOST_CALLS: u32 = 1 << 16;

impl Lowerer<'_> {
    /// Checks that a library helper with a parameter `WARPS` gets the number of warps of the kernel's block.
    pub(super) fn fits_block(&mut self, name: &str, generics: &[(String, Binding)], span: Span) -> bool {
        let warps = generics.iter().find(|(generic, _)| generic == "WARPS").map(|(_, binding)| binding);
        let (Some(Binding::Value(Value::Const(Const::Int(warps, _)))), Some(threads)) = (warps, self.f.threads) else {
            return true;
        };
        if warps.checked_mul(WARP_THREADS) == Some(threads.into()) {
            return true;
        }
        let message = format!(
            "`{name}` is for blocks of {} threads, but this kernel has blocks of {threads}",
            warps.saturating_mul(WARP_THREADS)
        );
        let help = match threads.is_multiple_of(WARP_THREADS as u64) {
            true => format!("write {0} for `WARPS`: {threads} threads are {0} warps", threads / 32),
            false => "use a block of whole warps: a multiple of 32 threads".to_string(),
        };
        self.fail(&codes::P0811, span, message, help);
        false
    }

    /// Counts a call and reports, once, that there are too many or that they nest too deeply.
    pub(super) fn is_too_long(&mut self, span: Span) -> bool {
        self.f.calls += 1;
        let (message, help) = if self.expanding.len() >= MOST_NESTED {
            let help = "a helper is written where it is called: call fewer one inside of the other";
            (format!("helpers call each other more than {MOST_NESTED} deep"), help)
        } else if self.f.calls > MOST_CALLS {
            let help = "a helper is written where it is called: `#[noinline]` writes it once";
            (format!("this kernel calls helpers more than {MOST_CALLS} times"), help)
        } else {
            return false;
        };
        self.f.code.full = true;
        self.fail(&codes::P0818, span, message, help);
        true
    }
}

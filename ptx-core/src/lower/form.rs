//! Mnemonics to forms, remembered: a module contains `add.f32` thousands of times.

use super::body::Refused;
use crate::hash::{Map, Set};
use crate::ir::Module;
use crate::isa::find::{Form, Misfit};
use crate::isa::rule::Rule;
use crate::isa::{Member, table};
use crate::lower::rule::Case;
use crate::syntax::{Inst, Tree};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::{Mutex, OnceLock};

/// Candidates for a mnemonic.
pub(super) type Found = Rc<Result<Vec<Candidate>, Vec<Misfit>>>;

/// A form, and what this module's target, version and options leave to ask of each instruction.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) form: Form,
    /// The rules that do not hold for all operands.
    pub(super) open: Vec<&'static Rule>,
    /// Why the target or version does not have it.
    pub(super) gate: Option<Refused>,
}

impl Candidate {
    fn new(form: Form, module: &Module) -> Candidate {
        let (arch, version) = (module.arch, module.version);
        let case = Case { form: &form, operands: &[], options: &module.options, arch, version };
        let open = form.row.rules().iter().filter(|rule| !rule.is_settled(&case)).collect();
        let closed = |m: &Option<&Member>| m.and_then(|m| m.gate.as_ref()).is_some_and(|g| !g.admits(arch, version));
        let gate = match form.row.gate.admits(arch, version) {
            true => form.slots.iter().position(closed).map(Refused::MemberGate),
            false => Some(Refused::Gate),
        };
        Candidate { form, open, gate }
    }
}

/// The mnemonics that were looked up, by their bytes.
#[derive(Debug, Default)]
pub(super) struct Forms<'t> {
    known: Map<Cow<'t, [u8]>, Found>,
}

impl<'t> Forms<'t> {
    /// The forms of an instruction's opcode and modifiers.
    pub(super) fn find(&mut self, tree: &'t Tree, inst: &Inst, module: &Module) -> Found {
        let key = mnemonic(tree, inst);
        if let Some(found) = self.known.get(&key) {
            return Rc::clone(found);
        }
        let modifiers: Vec<&str> = inst.modifiers.clone().map(|m| modifier(tree, m)).collect();
        let forms = table().find_in(module.version, tree.source.text(inst.opcode), &modifiers);
        let candidates = |forms: Vec<Form>| forms.into_iter().map(|form| Candidate::new(form, module)).collect();
        let found = Rc::new(forms.map(candidates));
        self.known.insert(key, Rc::clone(&found));
        found
    }
}

/// The opcode and its modifiers: a piece of the source where nothing stands between them.
fn mnemonic<'t>(tree: &'t Tree, inst: &Inst) -> Cow<'t, [u8]> {
    let source = &tree.source;
    let pieces = || std::iter::once(inst.opcode).chain(inst.modifiers.clone());
    let mut whole = source.place(inst.opcode);
    for piece in inst.modifiers.clone().map(|t| source.place(t)) {
        if piece.lo != whole.hi {
            return pieces().flat_map(|t| source.bytes(t)).copied().collect();
        }
        whole.hi = piece.hi;
    }
    Cow::Borrowed(source.bytes.get(whole.lo as usize..whole.hi as usize).unwrap_or_default())
}

/// A modifier without its dot.
pub(super) fn modifier(tree: &Tree, token: u32) -> &str {
    tree.source.text(token).trim_start_matches('.')
}

/// The one copy of a selector of a video instruction: `b0`, `h1`, `b3210`.
pub(super) fn selector(text: &str) -> Option<&'static str> {
    static KNOWN: OnceLock<Mutex<Set<&'static str>>> = OnceLock::new();
    let (kind, digits) = text.split_at_checked(1)?;
    let shaped = matches!(kind, "b" | "h") && (1..=4).contains(&digits.len());
    if !shaped || !digits.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
        return None;
    }
    let mut known = KNOWN.get_or_init(Mutex::default).lock().ok()?;
    if let Some(found) = known.get(text) {
        return Some(found);
    }
    let text: &'static str = String::leak(text.to_owned());
    known.insert(text);
    Some(text)
}

//! Generic addresses. Those of shared, local and constant memory are the start of the space's window, and the address in the space; those of global memory,
//! and of parameters, are the addresses in the space.

use crate::form::{Coef, Form};
use crate::machine::Machine;
use crate::memory::Place;
use crate::site::Site;
use crate::world::{Meaning, Origin, Scope, Symbol};
use ptx_core::ir::Space;

/// Spaces with a window, by the modifiers that name them.
const WINDOWS: [(&str, Space); 5] = [
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("shared::cluster", Space::Shared),
    ("local", Space::Local),
    ("const", Space::Const),
];

/// Windows start at multiples of this.
const ALIGN: i128 = 1 << 24;
/// The end of all addresses.
const END: i128 = 1 << 47;

impl Machine<'_> {
    /// The start of the window of the space that a conversion of addresses names; zero for the other spaces.
    pub(crate) fn window(&mut self, site: &Site<'_>) -> Form {
        let Some(space) = site.one_of(&WINDOWS) else { return Form::number(0) };
        if let Some(window) = self.windows.get(&space) {
            return Form::symbol(*window);
        }
        let (scope, origin, meaning) = (Scope::Grid, Origin::Loose, Meaning::Base);
        let window = Symbol { least: ALIGN, most: END, scope, origin, meaning, facts: Vec::new() };
        let window = self.world.add(window);
        self.world.align(window, ALIGN);
        self.windows.insert(space, window);
        Form::symbol(window)
    }

    /// An offset from a variable of a space without the start of the space's window; and true if it had one.
    pub(crate) fn without_window(&self, space: Space, mut offset: Form) -> (Form, bool) {
        let window = self.windows.get(&space);
        let at = offset
            .terms
            .iter()
            .position(|(mono, coef)| mono.first() == window && *coef == Coef::One(1) && mono.len() == 1);
        let is_generic = at.map(|at| offset.terms.remove(at)).is_some();
        (offset, is_generic)
    }

    /// Returns true if an instruction takes such an address of a place: a generic one where it names no space, else one in the space.
    pub(crate) fn takes(&self, site: &Site<'_>, place: &Place) -> bool {
        let space = self.bases[place.base].space;
        let mut names = WINDOWS.iter().filter(|(_, own)| *own == space).peekable();
        names.peek().is_none() || names.any(|(name, _)| site.is(name)) != place.is_generic
    }
}

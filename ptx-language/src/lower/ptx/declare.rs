//! Declarations inside `ptx!`: the names stay as they are, unless something has them already.

use super::{Brace, Copy, Lowerer};

/// The directives that declare names.
pub(super) const SPACES: &[&str] = &[".reg", ".shared", ".local", ".param", ".global", ".const", ".extern"];

impl Lowerer<'_> {
    /// A word of a declaration: a name, or a constant in `<n>`, `[n]`, an initializer.
    pub(super) fn declared(&mut self, copy: &mut Copy<'_>) {
        let name = copy.text(copy.at).to_owned();
        let before = |punct| copy.at > 0 && copy.is(copy.at - 1, punct);
        if before(b'<') || before(b'[') || before(b'=') {
            return self.resolve(copy);
        }
        let array = copy.is(copy.at + 1, b'<');
        let emitted = self.free_declaration(copy, &name, array);
        self.scopes.bind_verbatim(&name, emitted.clone());
        if array {
            // `.reg .b32 r<4>;` names r0 to r3.
            let count: u64 = copy.text(copy.at + 2).parse().unwrap_or(0);
            for at in 0..count.min(1 << 12) {
                self.scopes.bind_verbatim(&format!("{name}{at}"), format!("{emitted}{at}"));
            }
        }
        self.write(copy, &emitted, 1);
    }

    /// The name itself if it is free. In a scope of PTX it need not stay taken.
    fn free_declaration(&mut self, copy: &Copy<'_>, name: &str, array: bool) -> String {
        let register = copy.statement.declares.as_deref() == Some(".reg");
        let inner = copy.braces.iter().any(|brace| matches!(brace, Brace::Scope(..)));
        let clashes = !name.starts_with('%') && !self.f.symbols.is_free(name);
        let names = if register { &mut self.f.registers.names } else { &mut self.f.symbols };
        if clashes && register {
            return names.unique(&format!("{name}_r"));
        }
        if inner && names.is_free(name) && !array {
            return name.to_owned();
        }
        let count = copy.text(copy.at + 2).parse().unwrap_or(1);
        if array { names.unique_array(name, count) } else { names.unique(name) }
    }
}

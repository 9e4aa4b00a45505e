//! The help that lists the forms which exist.

use crate::diag::Diagnostic;
use crate::isa::{Row, show};

/// Number of forms that a help lists.
const MOST_FORMS: usize = 6;
/// Number of members of a set that a help lists.
pub(super) const MOST_MEMBERS: usize = 12;

/// With the forms that these rows are, in the manual's words.
pub(super) fn with_forms(d: Diagnostic, rows: impl Iterator<Item = &'static Row>) -> Diagnostic {
    let mut forms: Vec<(String, &Row)> = Vec::new();
    for row in rows {
        let form = show::form(row);
        if forms.iter().all(|(known, _)| *known != form) {
            forms.push((form, row));
        }
    }
    let Some((_, first)) = forms.first() else { return d };
    let mut text = String::from(if forms.len() == 1 { "the form is:" } else { "the forms are:" });
    for (form, _) in forms.iter().take(MOST_FORMS) {
        text.push_str(&format!("\n    {form}"));
    }
    if forms.len() == 1 {
        show::sets(first, MOST_MEMBERS).iter().for_each(|set| text.push_str(&format!("\n    {set}")));
    } else if forms.len() > MOST_FORMS {
        text.push_str(&format!("\n    and {} more: `ptx isa {}`", forms.len() - MOST_FORMS, first.opcode()));
    }
    d.help(text).section(first.section)
}

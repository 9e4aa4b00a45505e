//! Syntax that is newer than the declared compiler, found in a text without comments and strings.

/// What is newer, and where.
pub(crate) fn find(names: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let starts = names.match_indices("if ").map(|(at, _)| at);
    let words = starts.filter(|at| names[..*at].ends_with(char::is_whitespace));
    let guards = words.filter(|at| is_let_guard(&names[*at..]));
    let select = names.match_indices("cfg_select!").map(|(at, _)| (at, "`cfg_select!` needs Rust 1.95"));
    guards.map(|at| (at, "`let` in the guard of a match needs Rust 1.95")).chain(select)
}

/// Returns true if a condition has a `let`, and an arrow ends it, not a block. Patterns may have braces.
fn is_let_guard(text: &str) -> bool {
    let (mut depth, mut in_pattern, mut has_let, mut before) = (0, false, false, ' ');
    for (at, c) in text.char_indices() {
        match c {
            'l' if depth == 0 && before == ' ' && text[at..].starts_with("let ") => {
                (in_pattern, has_let) = (true, true)
            }
            '{' if depth == 0 && !in_pattern => return false,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before == '=' && depth == 0 => return has_let,
            '=' if depth == 0 && before != '.' && !text[at + 1..].starts_with(['=', '>']) => in_pattern = false,
            ';' if depth == 0 => return false,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
        before = c;
    }
    false
}

//! Debug information: `debug` of `.target`, sections, `.file` and `.loc`. It contains the PTX's own names and lines,
//! so raised code goes without it.

use ptx_core::sort::SortSmall;
use ptx_core::syntax::{StmtKind, Tree};
use ptx_core::token::TokenId;
use std::ops::Range;

/// The text of a module for a debugger (`.target …, debug`) as it is without that; `None` for any other module. ptxas
/// optimizes such a text, and does not optimize the module that it comes from.
pub fn without_debug(tree: &Tree) -> Option<Vec<u8>> {
    let option = option(tree)?;
    let mut gone: Vec<Range<TokenId>> = std::iter::once(option).collect();
    for stmt in &tree.stmts {
        let goes = match &stmt.kind {
            StmtKind::Section(_) => true,
            StmtKind::Directive(directive) => matches!(tree.source.text(directive.name), ".loc" | ".file"),
            _ => false,
        };
        if goes {
            // With the labels of a section.
            gone.push(stmt.head.start..stmt.tail().end.max(stmt.head.end));
        }
    }
    gone.sort_small_by_key(|tokens| tokens.start);
    let mut out = Vec::new();
    let mut rest = gone.iter().peekable();
    for token in 0..tree.source.tokens.len() as TokenId {
        while rest.next_if(|tokens| tokens.end <= token).is_some() {}
        if !rest.peek().is_some_and(|tokens| tokens.contains(&token)) {
            out.extend_from_slice(tree.source.trivia(token));
            out.extend_from_slice(tree.source.bytes(token));
        }
    }
    Some(out)
}

/// The tokens of `, debug` in `.target sm_90, debug`.
fn option(tree: &Tree) -> Option<Range<TokenId>> {
    tree.items.iter().find_map(|&item| match &tree.stmt(item).kind {
        StmtKind::Directive(directive) if tree.source.text(directive.name) == ".target" => {
            let debug = tree.stmt(item).head.clone().find(|token| tree.source.text(*token) == "debug")?;
            Some(debug.checked_sub(1)?..debug + 1)
        }
        _ => None,
    })
}

//! Pass `names`: what a person calls things: functions without their mangling, registers after what they hold.

use super::body::{Body, Expr, Node, Piece, each_block};
use super::infer;
use ptx_core::sort::SortSmall;
use std::collections::HashMap;

/// The last name in an Itanium or Rust mangled name: `matmulKernel12` of `_ZN3M1214matmulKernel12ILi128E…`. What is not
/// mangled stays.
pub(super) fn demangled(name: &str) -> String {
    let Some(mut rest) = name.strip_prefix("_Z") else { return name.to_owned() };
    rest = rest.strip_prefix('N').unwrap_or(rest).trim_start_matches(['K', 'L']);
    let mut last = "";
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(length) = rest[..digits].parse::<usize>() else { break };
        let Some(part) = rest.get(digits..digits + length) else { break };
        let hash = part.len() == 17 && part.starts_with('h') && part[1..].bytes().all(|b| b.is_ascii_hexdigit());
        if !hash && !part.starts_with("_GLOBAL__N") && !part.starts_with("_INTERNAL") {
            last = part;
        }
        rest = &rest[digits + length..];
    }
    if last.is_empty() { name.to_owned() } else { last.to_owned() }
}

/// Calls registers that only ever hold a special register after it. Returns how many.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut written: HashMap<usize, usize> = HashMap::new();
    let mut holds: HashMap<usize, String> = HashMap::new();
    let mut nodes = std::mem::take(&mut body.nodes);
    each_block(&mut nodes, &mut |block| {
        for node in block.iter() {
            match node {
                Node::Assign(Piece::Reg(dest), Expr::Leaf(Piece::Text(special)), _)
                    if infer::special(special).is_some() =>
                {
                    *written.entry(*dest).or_default() += 1;
                    holds.insert(*dest, special.replace('.', "_"));
                }
                // Whatever stands first may be written.
                Node::Assign(Piece::Reg(dest), ..) => *written.entry(*dest).or_default() += 1,
                Node::Inst(inst) => {
                    for piece in inst.operands.first().into_iter().flatten() {
                        if let Piece::Reg(reg) = piece {
                            *written.entry(*reg).or_default() += 1;
                        }
                    }
                }
                _ => {}
            }
        }
    });
    body.nodes = nodes;
    let mut sorted: Vec<_> = holds.into_iter().filter(|(reg, _)| written.get(reg) == Some(&1)).collect();
    sorted.sort_small();
    let mut made = 0;
    for (reg, name) in sorted {
        // A special register without a component keeps its name for itself.
        let special = ptx_core::isa::table().specials.contains_key(format!("%{name}").as_str());
        let name = if name.contains('_') && !special { name } else { format!("{name}_now") };
        if body.taken.insert(name.clone()) {
            body.regs[reg].name = name;
            made += 1;
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn the_last_name_is_the_functions() {
        assert_eq!(demangled("_ZN3M1214matmulKernel12ILi128ELi256EEEviii14CUtensorMap_st"), "matmulKernel12");
        assert_eq!(demangled("_Z5saxpyfPKfPfi"), "saxpy");
        assert_eq!(demangled("_ZN4core3fmt17h0123456789abcdefE"), "fmt");
        assert_eq!(demangled("plain_name"), "plain_name");
    }
}

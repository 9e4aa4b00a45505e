//! Which blocks depend on a branch: post-dominators, by Cooper, Harvey and Kennedy's iteration over the reversed edges.

use crate::check::graph::Graph;

/// For each block the nearest block that every way out of the function passes behind it. The exit is the block behind
/// the last; a block from which no way leads out has none.
pub(super) struct PostDominators {
    nearest: Vec<Option<usize>>,
}

impl PostDominators {
    /// `exits`: the blocks whose last instruction may leave the function.
    pub(super) fn new(graph: &Graph, exits: &[bool]) -> PostDominators {
        let exit = graph.next.len();
        let to = |b: usize| graph.next[b].iter().copied().chain(exits[b].then_some(exit));
        let mut back = vec![Vec::new(); exit + 1];
        (0..exit).for_each(|b| to(b).for_each(|n| back[n].push(b)));
        let order = postorder(&back, exit);
        let mut rank = vec![0; exit + 1];
        order.iter().enumerate().for_each(|(at, b)| rank[*b] = at);
        let mut nearest = vec![None; exit + 1];
        nearest[exit] = Some(exit);
        let mut changed = true;
        while changed {
            changed = false;
            for b in order.iter().rev().copied().filter(|b| *b != exit) {
                let known = to(b).filter(|n| nearest[*n].is_some());
                let new = known.reduce(|x, y| meet(&nearest, &rank, x, y));
                changed |= new != nearest[b];
                nearest[b] = new;
            }
        }
        PostDominators { nearest }
    }

    /// The blocks that run or not as `branch` decides when it takes the edge to `next`.
    pub(super) fn dependent(&self, branch: usize, next: usize) -> Vec<usize> {
        let end = self.nearest[branch];
        let mut found = Vec::new();
        let mut block = next;
        while Some(block) != end && block + 1 < self.nearest.len() {
            found.push(block);
            match self.nearest[block] {
                Some(up) => block = up,
                None => break,
            }
        }
        found
    }
}

fn meet(nearest: &[Option<usize>], rank: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        let lower = if rank[a] < rank[b] { &mut a } else { &mut b };
        match nearest[*lower] {
            Some(up) => *lower = up,
            None => return a,
        }
    }
    a
}

/// Depth first over `edges`, without recursion: a function can have very many blocks.
fn postorder(edges: &[Vec<usize>], root: usize) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; edges.len()];
    let mut pending = vec![(root, 0)];
    seen[root] = true;
    while let Some((block, at)) = pending.pop() {
        match edges[block].get(at) {
            Some(next) => {
                pending.push((block, at + 1));
                if !std::mem::replace(&mut seen[*next], true) {
                    pending.push((*next, 0));
                }
            }
            None => order.push(block),
        }
    }
    order
}

//! What happens beside registers, as data: accesses and barriers, as a graph in the order of execution, and the memory that is accessed.

use crate::form::{Cond, Form, Sym};
use crate::path::Path;
use ptx_core::hash::{Map, Set};
use ptx_core::ir::{Space, VarId};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A buffer or a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// The buffer whose address is the parameter with this number.
    Param(usize),
    /// A variable.
    Var(VarId),
    /// A variable of another block of the cluster, at one of its addresses.
    Peer(VarId, usize),
    /// Memory whose address is an entry of a table: an index into the machine's list of these.
    Entry(usize),
    /// Memory whose address is a number in a struct: the parameter, and the offset of the number.
    Field(usize, u64),
    /// Tensor memory of the block: its bytes stand for lanes.
    Tensor,
}

/// Memory with a start and a length.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) what: What,
    pub(crate) space: Space,
    pub(crate) name: String,
    /// In bytes.
    pub(crate) len: Form,
    /// Its address is a multiple of this.
    pub(crate) align: u64,
}

/// The way in which memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Atomic,
    /// Into a cache: no value is read.
    Fetch,
    /// A bulk copy reads global memory.
    Take,
    /// Any other whose order the exploration of pipelines describes, such as one of a barrier in memory, or of a bulk copy.
    Signal,
}

/// An access of all threads for which its conditions hold.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) inst: usize,
    pub(crate) kind: Kind,
    /// The buffer or variable: an index into the machine's bases.
    pub(crate) base: usize,
    /// In bytes from its start.
    pub(crate) offset: Form,
    /// The bits of the address: the offset is a sum of integers modulo that. Zero if it is no address.
    pub(crate) bits: u32,
    pub(crate) size: u64,
    /// The first bytes of these that it needs, one at least, if they may be fewer: those of a copy that fills up with zeros.
    pub(crate) needs: Option<Form>,
    pub(crate) align: u64,
    pub(crate) path: Path,
    pub(crate) guard: Cond,
    /// The value that is written, or the first operand of an atomic operation, if it is a number.
    pub(crate) value: Option<Form>,
    /// True for volatile, relaxed, acquire and release accesses.
    pub(crate) strong: bool,
    /// True if a warp makes it as one, together: its lanes have come to it, and go on when it is done.
    pub(crate) of_warp: bool,
    /// True for a part of an asynchronous copy.
    pub(crate) is_copy: bool,
    /// True if its scope is the block or the cluster: to other blocks it is a plain access.
    pub(crate) narrow: bool,
    /// The loops around it that are executed once for all turns.
    pub(crate) turns: Rc<[usize]>,
}

/// The threads that a barrier orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Block,
    Warp,
    /// The threads of a named barrier that is for a part of the block: an index into the groups.
    Group(usize),
}

/// The threads of a named barrier that is for a part of the block.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The number of the barrier.
    pub(crate) number: i128,
    /// By thread.
    pub(crate) threads: Rc<[bool]>,
}

/// The lanes that an instruction of a warp names.
#[derive(Clone, Debug)]
pub(crate) enum Lanes {
    All,
    /// The bits of a number, for each thread.
    Mask(Form),
    Unknown,
}

/// A barrier.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub(crate) inst: usize,
    pub(crate) span: Span,
    /// The part of the way that all who could come have in common.
    pub(crate) since: Path,
    pub(crate) path: Path,
    pub(crate) guard: Cond,
}

/// An instruction that lanes of a warp execute together.
#[derive(Clone, Debug)]
pub(crate) struct Collective {
    pub(crate) barrier: Barrier,
    /// The lanes that it names.
    pub(crate) lanes: Lanes,
    /// The lane that each thread reads.
    pub(crate) source: Source,
}

/// The lanes that a shuffle reads.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Any that it names.
    Named,
    /// By thread.
    Lanes(Vec<usize>),
    Unknown,
}

/// A place in shared memory to which an address is written: variable and offset.
pub(crate) type Slot = (usize, i128);

/// The effect of an instruction on tensor memory.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Allocate(Slot, i128),
    Free(i128),
    /// No more is allocated.
    Relinquish,
    /// Lanes and columns.
    Load([i128; 2]),
    Store([i128; 2]),
    WaitLoad,
    WaitStore,
}

/// An event of tensor memory, with the way to it.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) inst: usize,
    pub(crate) act: Act,
    /// The address in tensor memory.
    pub(crate) address: Option<Form>,
    pub(crate) path: Path,
}

/// One event of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    Access(usize),
    Barrier(usize),
    Copy(Step),
    /// The thread waits for the launch before.
    Waits,
    /// An event of tensor memory.
    Tensor(usize),
    /// A copy by a tensor map: an index into the trace's list.
    Map(usize),
}

/// A copy by a tensor map.
#[derive(Clone, Debug)]
pub(crate) struct MapUse {
    pub(crate) inst: usize,
    /// The parameter with the map, by name; nothing if it is chosen at run time.
    pub(crate) map: Option<String>,
    /// True if it changes global memory.
    pub(crate) writes: bool,
    /// The access of shared memory.
    pub(crate) access: Option<usize>,
    /// The first element of its box, the innermost coordinate first; nothing if it is not described.
    pub(crate) coords: Option<Vec<Form>>,
}

/// An instruction about groups of asynchronous copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Copies since the last one are a group.
    Commit,
    /// The same of some threads.
    MayCommit,
    /// Waits for all groups but the newest ones, of which there are at most so many.
    WaitGroups(i128),
    /// Waits for all copies.
    WaitAll,
}

/// The execution of a basic block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) marks: Vec<Mark>,
    /// The nodes that follow; behind the last block of a loop that is executed once for all turns, with the loop.
    pub(crate) next: Vec<(usize, Option<usize>)>,
    /// True if threads may end here.
    pub(crate) may_end: bool,
    /// The loops around it that are executed once for all turns.
    pub(crate) turns: Rc<[usize]>,
    /// The way to it.
    pub(crate) path: Path,
}

/// A loop that is executed once for all turns.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    /// The number of the turn.
    pub(crate) turn: Sym,
    /// The first symbol that was made in it.
    pub(crate) first: Sym,
    /// True if all threads of the block are in the same turn between its barriers.
    pub(crate) together: bool,
    /// True if all lanes of a warp are in the same turn where they meet.
    pub(crate) warps: bool,
    /// Under this condition the turn before led to this one, or this one is the first; nothing if it is not known.
    pub(crate) enters: Option<Cond>,
}

/// All events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) nodes: Vec<Node>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) loops: Vec<Turns>,
    /// Jumps back of loops with barriers: all threads take them together.
    pub(crate) meetings: Vec<Barrier>,
    /// Named barriers for parts of the block. No thread is in two of them.
    pub(crate) groups: Vec<Group>,
    /// The numbers of barriers for the whole block; nothing for one that is computed.
    pub(crate) numbers: Vec<Option<i128>>,
    /// True if threads are ordered in ways that only the other checks describe, so that a race may be none.
    pub(crate) has_other_order: bool,
    /// Instructions that lanes of a warp execute together.
    pub(crate) collectives: Vec<Collective>,
    /// Events of tensor memory.
    pub(crate) tensor: Vec<Use>,
    /// Instructions that read a number which may not fit its register, or of which less than its value is known.
    pub(crate) inexact: Set<usize>,
    /// Copies by tensor maps.
    pub(crate) maps: Vec<MapUse>,
    /// Loads of one word of shared memory at a known place: the symbol of the value, by access.
    pub(crate) slot_loads: Map<usize, Sym>,
    /// Loads of elements of buffers of different numbers.
    pub(crate) elements: Vec<Element>,
    /// Additions of one to a known place, each by one thread of a block: the access, and the symbol of the value before.
    pub(crate) tickets: Vec<(usize, Sym)>,
}

/// Elements that one instruction reads from a buffer of different numbers.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    /// The access.
    pub(crate) access: usize,
    /// The value of each element.
    pub(crate) values: Vec<Form>,
}

/// Crossings of the jumps back of loops: how often, or unknown.
pub(crate) type Crossings = BTreeMap<usize, Option<i128>>;

impl Trace {
    /// A new node behind others.
    pub(crate) fn node(&mut self, from: &[usize], turns: &[usize], path: &Path) -> usize {
        let new = self.nodes.len();
        self.nodes.push(Node { turns: turns.into(), path: path.clone(), ..Node::default() });
        from.iter().for_each(|from| self.nodes[*from].next.push((new, None)));
        new
    }

    /// Notes that threads may end in a node.
    pub(crate) fn end(&mut self, node: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.may_end = true;
        }
    }

    pub(crate) fn tensor(&mut self, node: usize, one: Use) {
        self.mark(node, Mark::Tensor(self.tensor.len()));
        self.tensor.push(one);
    }

    pub(crate) fn map(&mut self, node: usize, one: MapUse) {
        self.mark(node, Mark::Map(self.maps.len()));
        self.maps.push(one);
    }

    pub(crate) fn copy(&mut self, node: usize, step: Step) {
        self.mark(node, Mark::Copy(step));
    }

    pub(crate) fn waits(&mut self, node: usize) {
        self.mark(node, Mark::Waits);
    }

    fn mark(&mut self, node: usize, mark: Mark) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.marks.push(mark);
        }
    }

    pub(crate) fn access(&mut self, node: usize, access: Access) {
        self.mark(node, Mark::Access(self.accesses.len()));
        self.accesses.push(access);
    }

    /// A barrier of `threads` threads in a block. One whose guard may let threads pass orders nothing, though all that it counts must come.
    pub(crate) fn barrier(&mut self, node: usize, barrier: Barrier, threads: usize) {
        let guard = barrier.guard.decided(threads);
        let is_met = match barrier.span {
            // Those whom the guard leaves out are in no such group.
            Span::Group(_) => guard.is_some(),
            Span::Block | Span::Warp => guard.is_some_and(|guard| guard.iter().all(|holds| *holds)),
        };
        if is_met {
            self.mark(node, Mark::Barrier(self.barriers.len()));
        }
        self.barriers.push(barrier);
    }

    /// Accesses that follow a place before a barrier that stops.
    pub(crate) fn follow(&self, start: (usize, usize), stops: &dyn Fn(usize) -> bool) -> Vec<(usize, Crossings)> {
        let mut found: Set<(usize, Crossings)> = Set::default();
        let mut seen: Set<(usize, usize, Crossings)> = Set::default();
        let mut pending = vec![(start.0, start.1, Crossings::new())];
        let mut order = Vec::new();
        'next: while let Some((node, from, crossed)) = pending.pop() {
            if !seen.insert((node, from, crossed.clone())) {
                continue;
            }
            for mark in self.nodes[node].marks.iter().skip(from) {
                match mark {
                    Mark::Barrier(barrier) if stops(*barrier) => continue 'next,
                    Mark::Barrier(_) | Mark::Copy(_) | Mark::Waits | Mark::Tensor(_) | Mark::Map(_) => {}
                    Mark::Access(access) => {
                        if found.insert((*access, crossed.clone())) {
                            order.push((*access, crossed.clone()));
                        }
                    }
                }
            }
            for (next, back) in &self.nodes[node].next {
                let mut crossed = crossed.clone();
                if let Some(own) = back
                    && self.loops[*own].together
                {
                    let count = crossed.entry(*own).or_insert(Some(0));
                    *count = count.and_then(|count| if count < 1 { Some(count + 1) } else { None });
                    // Loops inside of it begin again.
                    crossed.extend((own + 1..self.loops.len()).map(|inner| (inner, None)));
                }
                pending.push((*next, 0, crossed));
            }
        }
        order
    }
}

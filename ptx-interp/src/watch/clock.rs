//! Happens-before: vector clocks of threads and of asynchronous operations.
//!
//! Time advances for a warp when it releases something (a barrier, an atomic, a fence). A [`Clock`] has, for each actor,
//! up to which tick of it everything is known. Clocks are shared until somebody learns something new: the threads of a
//! block that meet at a barrier have one clock.

use crate::role::{Actor, Scope};
use std::sync::Arc;

/// The number of kinds that every thread has.
pub(super) const KINDS: usize = Actor::Phase as usize;

/// Ticks of the actors of one block.
type Ticks = Arc<Vec<u32>>;

/// Known ticks of each block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Vec<(u32, Ticks)>);

impl Clock {
    /// Nothing is known.
    pub(super) const NEW: Clock = Clock(Vec::new());

    /// Up to which tick an actor of a block is known.
    pub(super) fn tick(&self, block: u32, actor: usize) -> u32 {
        self.ticks(block).and_then(|ticks| ticks.get(actor)).copied().unwrap_or(0)
    }

    /// Known ticks of a block.
    pub(super) fn ticks(&self, block: u32) -> Option<&Vec<u32>> {
        match self.0.as_slice() {
            [(only, ticks)] => (*only == block).then_some(&**ticks),
            blocks => blocks.binary_search_by_key(&block, |(b, _)| *b).ok().map(|at| &*blocks[at].1),
        }
    }

    /// The same to write to, at least `len` long.
    pub(super) fn ticks_mut(&mut self, block: u32, len: usize) -> &mut [u32] {
        let at = self.0.binary_search_by_key(&block, |(b, _)| *b).unwrap_or_else(|at| {
            self.0.insert(at, (block, Ticks::default()));
            at
        });
        let ticks = Arc::make_mut(&mut self.0[at].1);
        if ticks.len() < len {
            ticks.resize(len, 0);
        }
        ticks
    }

    /// Keeps the ticks of some blocks.
    pub(super) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        self.0.retain(|(block, _)| keep(*block));
    }

    /// Returns true if the other's clock includes all of this one.
    fn within(&self, other: &Clock) -> bool {
        let mut later = &other.0[..];
        self.0.iter().all(|(block, ticks)| {
            later = from(later, *block);
            match later.first() {
                Some((same, theirs)) if same == block => Arc::ptr_eq(ticks, theirs) || none_is_later(ticks, theirs),
                _ => none_is_later(ticks, &[]),
            }
        })
    }

    /// Joins the other's clock.
    pub(super) fn join(&mut self, other: &Clock) {
        let mut at = 0;
        for (block, theirs) in &other.0 {
            at = self.0.len() - from(&self.0[at..], *block).len();
            match self.0.get_mut(at) {
                Some((same, ours)) if same == block => join(ours, theirs),
                _ => self.0.insert(at, (*block, theirs.clone())),
            }
        }
    }
}

/// The entries of this block and of later ones.
fn from(known: &[(u32, Ticks)], block: u32) -> &[(u32, Ticks)] {
    let before = known.iter().take_while(|(other, _)| *other < block).count();
    &known[before..]
}

/// The later ticks of both. What includes the other is shared, so that the next comparison ends at once.
fn join(ours: &mut Ticks, theirs: &Ticks) {
    if Arc::ptr_eq(ours, theirs) || none_is_later(theirs, ours) {
        return;
    }
    if none_is_later(ours, theirs) {
        *ours = theirs.clone();
        return;
    }
    let ours = Arc::make_mut(ours);
    ours.resize(ours.len().max(theirs.len()), 0);
    ours.iter_mut().zip(theirs.iter()).for_each(|(our, their)| *our = (*our).max(*their));
}

/// Returns true if no tick is later than the other's. In runs, each without a branch, because vector instructions compare these.
fn none_is_later(ours: &[u32], theirs: &[u32]) -> bool {
    const RUN: usize = 32;
    let (same, more) = ours.split_at(ours.len().min(theirs.len()));
    let later =
        |ours: &[u32], theirs: &[u32]| ours.iter().zip(theirs).fold(false, |any, (our, their)| any | (our > their));
    more.iter().all(|tick| *tick == 0)
        && !same.chunks(RUN).zip(theirs.chunks(RUN)).any(|(our, their)| later(our, their))
}

/// A view for each scope.
pub(crate) type Scoped = [Option<Arc<View>>; Scope::ALL.len()];

/// View of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// Events that happened before now.
    pub seen: Clock,
    /// Events whose reads are known to be over. What they wrote need not be visible, unless they are in `seen` too.
    pub reads: Clock,
    /// The part of `seen` that proxy fences have made visible to the async proxy.
    pub fenced: Clock,
    /// The `tcgen05` operations that run before those which are issued behind a `tcgen05.fence::after_thread_sync`.
    pub issued: Clock,
    /// Views that fences have prepared for later strong writes, by the scope in which those may release them: of the thread itself,
    /// or of those who went to a barrier with it.
    pub published: Scoped,
    /// Views that strong reads have found, for later fences of at least this scope.
    pub found: Scoped,
}

impl View {
    fn within(&self, other: &View) -> bool {
        let one = |(ours, theirs): (&Option<Arc<View>>, &Option<Arc<View>>)| match (ours, theirs) {
            (None, _) => true,
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs) || ours.within(theirs),
            _ => false,
        };
        let within = |ours: &Scoped, theirs: &Scoped| ours.iter().zip(theirs).all(one);
        let clocks =
            self.seen.within(&other.seen) && self.reads.within(&other.reads) && self.fenced.within(&other.fenced);
        clocks
            && self.issued.within(&other.issued)
            && within(&self.published, &other.published)
            && within(&self.found, &other.found)
    }

    pub(super) fn join(&mut self, other: &View) {
        self.seen.join(&other.seen);
        self.reads.join(&other.reads);
        self.fenced.join(&other.fenced);
        self.issued.join(&other.issued);
        add_each(&mut self.published, &other.published);
        add_each(&mut self.found, &other.found);
    }

    /// Later strong writes release this, to threads of this scope or a narrower one.
    pub(super) fn publish(&mut self, view: &Arc<View>, scope: Scope) {
        self.published[..=scope as usize].iter_mut().for_each(|old| add(old, view));
    }

    /// A strong read has found this; it takes a fence of this scope to learn it.
    pub(super) fn find(&mut self, view: &Arc<View>, scope: Scope) {
        add(&mut self.found[scope as usize], view);
    }

    /// Drops blocks of launches that every view has the end of.
    pub(super) fn forget_before(&mut self, block: u32) {
        for clock in [&mut self.seen, &mut self.reads, &mut self.fenced, &mut self.issued] {
            clock.retain(|known| known >= block);
        }
    }

    /// The same without what fences have to do with.
    pub(super) fn plain(&self) -> View {
        View { published: Scoped::default(), found: Scoped::default(), ..self.clone() }
    }

    /// Union of both views.
    pub(super) fn joined(ours: &Arc<View>, theirs: &Arc<View>) -> Arc<View> {
        if Arc::ptr_eq(ours, theirs) || theirs.within(ours) {
            return ours.clone();
        }
        if ours.within(theirs) {
            return theirs.clone();
        }
        let mut view = (**ours).clone();
        view.join(theirs);
        Arc::new(view)
    }
}

fn add(old: &mut Option<Arc<View>>, view: &Arc<View>) {
    *old = Some(old.as_ref().map_or_else(|| view.clone(), |old| View::joined(old, view)));
}

fn add_each(ours: &mut Scoped, theirs: &Scoped) {
    for (old, view) in ours.iter_mut().zip(theirs) {
        view.iter().for_each(|view| add(old, view));
    }
}

/// View that threads leave for later threads: at a barrier, in a phase of an mbarrier, on an atomic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Release {
    pub(super) view: View,
    /// The view that was joined last: most threads of a block have the same.
    last: Option<Arc<View>>,
}

impl Release {
    pub(super) fn join(&mut self, view: &Arc<View>) {
        if self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, view)) {
            return;
        }
        self.view.join(view);
        self.last = Some(view.clone());
    }

    /// Threads of a narrower scope left a view: those beyond it know that its reads are over.
    pub(super) fn join_reads(&mut self, view: &View) {
        self.view.reads.join(&view.seen);
        self.view.reads.join(&view.reads);
        self.last = None;
    }

    /// As [`View::forget_before`].
    pub(super) fn forget_before(&mut self, block: u32) {
        self.view.forget_before(block);
        // Whoever left a view has a newer one by now.
        self.last = self.last.take().map(|_| Arc::default());
    }

    /// The view, if anybody left one.
    pub(crate) fn view(self) -> Option<Arc<View>> {
        self.last.as_ref()?;
        Some(Arc::new(self.view))
    }

    /// The same for any number of threads.
    pub(super) fn shared(&self) -> Arc<View> {
        Arc::new(self.view.clone())
    }
}

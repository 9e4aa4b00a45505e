//! The shadow of a memory: for each cell who wrote it last and who has read it since.
//!
//! A cell is four bytes; a page where somebody accesses less is split into cells of one or two. Pages exist where
//! somebody looked.

use super::event::Event;
use std::sync::Arc;

/// Bytes of memory in a page.
const PAGE: u64 = 4096;
/// The most pages of one memory; when there are more, the shadow forgets and begins anew.
const MOST_PAGES: usize = 1 << 16;
/// The most readers that a cell remembers beside the first.
const MOST_READERS: usize = 64;

/// The shadow of one memory.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    pages: Vec<Option<Box<Page>>>,
    /// Pages here and in the base.
    used: usize,
    /// Shadow from before blocks ran ahead, in pages that nobody has touched since.
    base: Option<Arc<Shadow>>,
}

/// The last write of a cell, and the reads since.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    write: Event,
    read: Event,
}

#[derive(Clone, Debug)]
struct Page {
    /// A cell has `1 << shift` bytes.
    shift: u32,
    cells: Vec<Cell>,
    /// Readers of the cells that have several.
    many: Vec<Vec<Event>>,
}

/// Relation of an access to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It came after it, or both may happen at once.
    Fine,
    /// Nothing orders the two.
    Apart,
    /// It came after it, but what was written need not be visible: the release had a scope without this thread.
    Narrow,
    /// It came after it, but nothing makes the one visible to the proxy of the other.
    Unfenced,
    /// It is of the launch before, for which nobody has waited.
    Early,
    /// The cell is part of an mbarrier, and the access is none of an mbarrier's.
    Object,
}

/// An earlier access that stands in the way of a new one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clash {
    pub other: Event,
    /// True if the other one wrote.
    pub wrote: bool,
    pub relation: Relation,
    /// Number of bytes after the start of the access.
    pub offset: u64,
}

/// A new access: who it is, and how it stands to earlier ones (the flag is true if those wrote).
pub(super) struct Access<'a> {
    pub event: Event,
    pub relation: &'a dyn Fn(Event, bool) -> Relation,
    /// Events before this one can be forgotten: they are of an earlier launch, or none.
    pub since: u32,
    /// The first event of the launch before, if this access is too early to rely on it; else the greatest number.
    pub early: u32,
}

impl Shadow {
    /// A read of `at .. at + size`.
    pub(super) fn read(&mut self, at: u64, size: u64, access: &Access) -> Result<(), Clash> {
        self.each(at, size, |cell, many| cell.read(many, access))
    }

    /// A write, or an atomic update.
    pub(super) fn write(&mut self, at: u64, size: u64, access: &Access) -> Result<(), Clash> {
        self.each(at, size, |cell, many| cell.write(many, access))
    }

    /// Forgets `at .. at + size` with its users.
    pub(super) fn forget(&mut self, at: u64, size: u64) {
        let gone = self.each(at, size, |cell, _| {
            *cell = Cell::default();
            Ok(())
        });
        debug_assert!(gone.is_ok(), "nothing objects");
    }

    /// The same for blocks that run ahead. From now on both say what is new since.
    pub(crate) fn fork(&mut self) -> Shadow {
        let base = self.base.take().unwrap_or_else(|| Arc::new(std::mem::take(self)));
        *self = Shadow { pages: Vec::new(), used: base.used, base: Some(base.clone()) };
        Shadow { pages: Vec::new(), used: base.used, base: Some(base) }
    }

    /// Returns true if the two together say all that one would have said: neither has forgotten anything, or would
    /// have.
    pub(crate) fn has_room_for(&self, other: &Shadow) -> bool {
        self.base.is_some() && other.base.is_some() && self.used + other.used < MOST_PAGES
    }

    /// Takes over the accesses of the other since both were one. Neither has written what the other has touched.
    pub(crate) fn take_over(&mut self, other: Shadow) {
        let base = other.base;
        let known = |number: usize| base.as_ref().and_then(|base| base.pages.get(number)?.as_deref());
        self.pages.resize_with(self.pages.len().max(other.pages.len()), || None);
        for (number, (mine, theirs)) in self.pages.iter_mut().zip(other.pages).enumerate() {
            match (mine, theirs) {
                (_, None) => {}
                (Some(mine), Some(theirs)) => mine.join(*theirs, known(number)),
                (mine, theirs) => {
                    self.used += usize::from(known(number).is_none());
                    *mine = theirs;
                }
            }
        }
    }

    /// Nobody runs ahead any more.
    pub(crate) fn settle(&mut self) {
        let Some(base) = self.base.take() else { return };
        let mut pages = Arc::try_unwrap(base).map_or_else(|base| base.pages.clone(), |base| base.pages);
        pages.resize_with(pages.len().max(self.pages.len()), || None);
        for (page, new) in pages.iter_mut().zip(self.pages.drain(..)) {
            *page = new.or(page.take());
        }
        self.pages = pages;
    }

    fn each(
        &mut self,
        at: u64,
        size: u64,
        mut visit: impl FnMut(&mut Cell, &mut Vec<Vec<Event>>) -> Result<(), Clash>,
    ) -> Result<(), Clash> {
        let end = at.saturating_add(size);
        let mut from = at;
        while from < end {
            let to = end.min((from / PAGE + 1) * PAGE);
            let page = self.page(from / PAGE);
            page.split(((from | to) % 4).trailing_zeros().min(2));
            let (first, last) = ((from % PAGE) >> page.shift, ((to - 1) % PAGE) >> page.shift);
            for number in first..=last {
                let Some(cell) = page.cells.get_mut(number as usize) else { continue };
                let here = from / PAGE * PAGE + (number << page.shift);
                visit(cell, &mut page.many).map_err(|clash| Clash { offset: here.saturating_sub(at), ..clash })?;
            }
            from = to;
        }
        Ok(())
    }

    fn page(&mut self, number: u64) -> &mut Page {
        let number = number as usize;
        if self.used >= MOST_PAGES {
            *self = Shadow::default();
        }
        if self.pages.len() <= number {
            self.pages.resize_with(number + 1, || None);
        }
        let (used, base) = (&mut self.used, &self.base);
        self.pages[number].get_or_insert_with(|| {
            base.as_ref().and_then(|base| base.pages.get(number)?.clone()).unwrap_or_else(|| {
                *used += 1;
                Box::default()
            })
        })
    }
}

impl Default for Page {
    fn default() -> Page {
        Page { shift: 2, cells: vec![Cell::default(); (PAGE / 4) as usize], many: Vec::new() }
    }
}

impl Page {
    /// Joins the accesses of another page since both were `base`. Of each cell at most one has seen a write, and then
    /// the other nothing.
    fn join(&mut self, mut other: Page, base: Option<&Page>) {
        let mut base = base.cloned().unwrap_or_default();
        let shift = self.shift.min(other.shift);
        [&mut base, self, &mut other].into_iter().for_each(|page| page.split(shift));
        for at in 0..self.cells.len() {
            if other.same(at, &base) {
                continue;
            }
            let mut readers = if self.same(at, &base) { Vec::new() } else { self.readers(at).to_vec() };
            readers.extend(other.readers(at).iter().filter(|reader| reader.warp != 0));
            readers.truncate(MOST_READERS);
            self.cells[at] = Cell { write: other.cells[at].write, read: self.reader(readers) };
        }
    }

    /// Returns true if a cell is what it is in another page with cells of this size.
    fn same(&self, at: usize, other: &Page) -> bool {
        self.cells[at].write == other.cells[at].write && self.readers(at) == other.readers(at)
    }

    fn readers(&self, at: usize) -> &[Event] {
        let read = &self.cells[at].read;
        read.list().map_or(std::slice::from_ref(read), |list| self.many.get(list).map_or(&[], Vec::as_slice))
    }

    /// Readers as a cell remembers them.
    fn reader(&mut self, readers: Vec<Event>) -> Event {
        match readers[..] {
            [] => Event::default(),
            [only] => only,
            _ => {
                self.many.push(readers);
                Event::many(self.many.len() as u32 - 1)
            }
        }
    }

    /// Makes the cells as small as `1 << shift` bytes.
    fn split(&mut self, shift: u32) {
        if shift >= self.shift {
            return;
        }
        let parts = 1usize << (self.shift - shift);
        let mut cells = Vec::with_capacity(self.cells.len() * parts);
        for cell in &self.cells {
            let list = cell.read.list().and_then(|list| self.many.get(list)).cloned();
            for part in 0..parts {
                let mut cell = *cell;
                if let (Some(list), 1..) = (&list, part) {
                    cell.read = Event::many(self.many.len() as u32);
                    self.many.push(list.clone());
                }
                cells.push(cell);
            }
        }
        (self.shift, self.cells) = (shift, cells);
    }
}

impl Cell {
    fn read(&mut self, many: &mut Vec<Vec<Event>>, access: &Access) -> Result<(), Clash> {
        let me = access.event;
        access.check(self.write, true)?;
        let first = self.read;
        if let Some(list) = first.list().and_then(|list| many.get_mut(list)) {
            add_reader(list, access);
        } else if first.warp < access.since || covers(me, first) {
            self.read = me;
        } else if first.alike(me) && first.tick == me.tick {
            self.read = me.with(first.lanes);
        } else if (access.relation)(first, false) == Relation::Fine && !me.is_strong() {
            self.read = me;
        } else {
            self.read = Event::many(many.len() as u32);
            many.push(vec![first, me]);
        }
        Ok(())
    }

    fn write(&mut self, many: &mut [Vec<Event>], access: &Access) -> Result<(), Clash> {
        access.check(self.write, true)?;
        match self.read.list().and_then(|list| many.get_mut(list)) {
            Some(list) => {
                list.iter().try_for_each(|reader| access.check(*reader, false))?;
                list.clear();
            }
            None => {
                access.check(self.read, false)?;
                self.read = Event::default();
            }
        }
        self.write = access.event;
        Ok(())
    }
}

/// Returns true if the first stands for the second too: the same threads, later.
fn covers(new: Event, old: Event) -> bool {
    new.alike(old) && old.lanes & !new.lanes == 0
}

fn add_reader(list: &mut Vec<Event>, access: &Access) {
    let me = access.event;
    if let Some(same) = list.iter_mut().find(|e| e.alike(me) && e.tick == me.tick) {
        same.lanes |= me.lanes;
        return;
    }
    list.retain(|e| e.warp >= access.since && !covers(me, *e));
    if list.len() >= MOST_READERS {
        list.retain(|e| (access.relation)(*e, false) != Relation::Fine);
        list.truncate(MOST_READERS - 1);
    }
    list.push(me);
}

impl Access<'_> {
    #[inline]
    fn check(&self, other: Event, wrote: bool) -> Result<(), Clash> {
        if other.warp < self.since {
            return match other.warp < self.early || self.event.meets(other) {
                true => Ok(()),
                false => Err(Clash { other, wrote, relation: Relation::Early, offset: 0 }),
            };
        }
        match (self.relation)(other, wrote) {
            Relation::Fine => Ok(()),
            relation => Err(Clash { other, wrote, relation, offset: 0 }),
        }
    }
}

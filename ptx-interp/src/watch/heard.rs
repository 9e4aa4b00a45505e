//! Which views lanes have learned already: who looks at a flag in a loop finds the same one again and again.

use super::clock::View;
use std::sync::Arc;

/// Number of remembered views.
const MOST: usize = 12;

/// The last views that lanes of a warp have learned. Views only grow, so that nothing is forgotten.
#[derive(Debug, Default)]
pub(super) struct Heard {
    views: Vec<(Arc<View>, u32)>,
    /// Index of the next one when there is no more room.
    next: usize,
}

impl Heard {
    /// Returns true if a view is news to some lanes; from now on it is not.
    pub(super) fn is_news(&mut self, group: u32, view: &Arc<View>) -> bool {
        if let Some((_, knowing)) = self.views.iter_mut().find(|(known, _)| Arc::ptr_eq(known, view)) {
            let news = group & !*knowing != 0;
            *knowing |= group;
            return news;
        }
        let entry = (view.clone(), group);
        match self.views.get_mut(self.next) {
            Some(old) => *old = entry,
            None => self.views.push(entry),
        }
        self.next = (self.next + 1) % MOST;
        true
    }
}

//! Events behind submitted work. Several uses may share one: it is recorded for new work only when none of them needs it anymore.

use crate::context::Event;
use cudarc::driver::{CudaContext, DriverError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The events of one context that nobody needs now. The uses of memory keep it alive.
#[derive(Default)]
struct Spare(Mutex<Vec<Arc<Event>>>);

/// The most events that are kept.
const KEPT: usize = 64;

/// Those of the contexts that have some, by the context.
static SPARES: Mutex<Vec<(usize, Weak<Spare>)>> = Mutex::new(Vec::new());

/// The spare events of the context that a piece of memory belongs to, from the first use on that needs an event.
#[derive(Default)]
pub(super) struct EventPool(Option<Arc<Spare>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spare {
    fn of(context: &CudaContext) -> Arc<Spare> {
        let (at, mut spares) = (context.cu_ctx().addr(), lock(&SPARES));
        if let Some(spare) = spares.iter().find(|(home, _)| *home == at).and_then(|(_, spare)| spare.upgrade()) {
            return spare;
        }
        let spare = Arc::<Spare>::default();
        spares.retain(|(home, spare)| *home != at && spare.strong_count() > 0);
        spares.push((at, Arc::downgrade(&spare)));
        spare
    }
}

impl EventPool {
    /// An event that nobody else has.
    pub(super) fn take(&mut self, context: &Arc<CudaContext>) -> Result<Arc<Event>, DriverError> {
        let spare = self.0.get_or_insert_with(|| Spare::of(context));
        let event = lock(&spare.0).pop();
        event.map_or_else(|| Event::new(context).map(Arc::new), Ok)
    }

    /// A use needs this event no longer. The last one gives it back.
    pub(super) fn put(&self, event: Option<Arc<Event>>) {
        let (Some(mut event), Some(spare)) = (event, &self.0) else { return };
        if Arc::get_mut(&mut event).is_some() {
            let mut events = lock(&spare.0);
            if events.len() < KEPT {
                events.push(event);
            }
        }
    }

    /// Nothing is left that needs an event.
    pub(super) fn release(&mut self) {
        self.0 = None;
    }
}

//! Memory in the graphs of other libraries, cudarc's among them: the graph itself holds it, by an object of the driver whose destructor
//! gives it back.
#![allow(unsafe_code, reason = "calls of the driver, and its call of ours")]

use crate::context::set_aside;
use crate::driver::Driver;
use crate::error::Result;
use crate::stream::Capture;
use std::any::Any;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Object = Arc<dyn Any + Send + Sync>;

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC` and `CU_GRAPH_USER_OBJECT_MOVE`.
const NO_DESTRUCTOR_SYNC: u32 = 1;
const MOVE: u32 = 1;

/// The numbers of captures, each with the address of an object that its graph holds, so that it holds it once.
static SEEN: Mutex<Vec<(u64, usize)>> = Mutex::new(Vec::new());

/// Objects that are held to the end of the process: the driver cannot tie them to their graphs.
static FOREVER: Mutex<Vec<Object>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called by the driver when the graph is gone, on a thread of its own, which may not call it back.
///
/// # Safety
/// `held` is a boxed `Object`, and nobody else has it.
unsafe extern "C" fn release(held: *mut c_void) {
    // SAFETY: passed on.
    set_aside(unsafe { Box::from_raw(held.cast::<Object>()) });
}

/// Lets the graph that the capture records hold `object` from now on.
///
/// # Errors
/// Those of the driver.
pub(super) fn retain(capture: &Capture, object: &Object) -> Result<()> {
    let (at, mut seen) = (Arc::as_ptr(object).addr(), lock(&SEEN));
    if capture.id != 0 && seen.contains(&(capture.id, at)) {
        return Ok(());
    }
    let driver = Driver::get()?;
    let calls = (driver.cuUserObjectCreate(), driver.cuGraphRetainUserObject(), driver.cuUserObjectRelease());
    let (Ok(create), Ok(retain), Ok(let_go), false) = (calls.0, calls.1, calls.2, capture.graph.0.is_null()) else {
        let mut forever = lock(&FOREVER);
        if !forever.iter().any(|held| Arc::ptr_eq(held, object)) {
            forever.push(object.clone());
        }
        return Ok(());
    };
    let (held, mut user) = (Box::into_raw(Box::new(object.clone())).cast::<c_void>(), null_mut());
    // SAFETY: the driver calls `release` once, with `held`.
    let code = unsafe { create(&raw mut user, held, release, 1, NO_DESTRUCTOR_SYNC) };
    if code != 0 {
        // SAFETY: the driver has not taken it.
        drop(unsafe { Box::from_raw(held.cast::<Object>()) });
    }
    let asked = "the graph of a capture comes to hold memory";
    driver.check(code, asked)?;
    // SAFETY: the stream records this graph, and the object is ours to give away.
    let code = unsafe { retain(capture.graph.0, user, 1, MOVE) };
    if code != 0 {
        // SAFETY: the graph has not taken it; this calls `release`.
        unsafe { let_go(user, 1) };
    }
    driver.check(code, asked)?;
    // Numbers grow: old captures are over.
    seen.retain(|(id, _)| id + SPAN > capture.id);
    seen.push((capture.id, at));
    Ok(())
}

/// A capture is taken to be over when this many have begun after it.
const SPAN: u64 = 16;

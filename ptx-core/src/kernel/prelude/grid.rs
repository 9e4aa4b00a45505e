//! The grids of a stream, for kernels that are launched with `pdl`: the next one may start before this one has ended.
//! For `sm_90` and later.

/// Lets the next grid start as soon as all blocks of this one have said so, or ended, and there is room:
/// `griddepcontrol.launch_dependents`.
fn launch_dependents() {
    ptx! { griddepcontrol.launch_dependents; }
}

/// Waits until the grids before this one have ended and what they wrote can be read: `griddepcontrol.wait`.
fn wait() {
    ptx! { griddepcontrol.wait; }
}

//! Named barriers: 16 of them in a block, each for a number of threads that is a multiple of 32.

/// Waits until `THREADS` threads have arrived at barrier `id`: `bar.sync`.
fn sync<const THREADS: u32>(id: u32) {
    ptx! { bar.sync id, THREADS; }
}

/// Arrives at barrier `id` without waiting: `bar.arrive`.
fn arrive<const THREADS: u32>(id: u32) {
    ptx! { bar.arrive id, THREADS; }
}

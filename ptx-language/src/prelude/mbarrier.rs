//! Barriers in shared memory that count arrivals and bytes. `Shared<Barrier>` has the methods; the functions take bare
//! addresses. For `sm_90` and later.

/// A barrier: 8 bytes of shared memory.
struct Barrier {
    state: u64,
}

impl Shared<Barrier> {
    /// Initializes the barrier for `count` arrivals per phase: `mbarrier.init`.
    fn init(self, count: u32) {
        ptx! { mbarrier.init.shared::cta.b64 [self], count; }
    }

    /// Ends the use of the barrier: `mbarrier.inval`.
    fn invalidate(self) {
        ptx! { mbarrier.inval.shared::cta.b64 [self]; }
    }

    /// Arrives: `mbarrier.arrive`.
    fn arrive(self) {
        ptx! { mbarrier.arrive.shared::cta.b64 _, [self]; }
    }

    /// Arrives, and expects `bytes` more before the phase ends: `mbarrier.arrive.expect_tx`.
    fn arrive_expect(self, bytes: u32) {
        ptx! { mbarrier.arrive.expect_tx.shared::cta.b64 _, [self], bytes; }
    }

    /// Expects `bytes` more before the phase ends: `mbarrier.expect_tx`.
    fn expect(self, bytes: u32) {
        ptx! { mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [self], bytes; }
    }

    /// Waits until the phase of parity `phase` has ended: a loop around `mbarrier.try_wait.parity`.
    fn wait(self, phase: u32) {
        loop {
            let done: pred;
            ptx! { mbarrier.try_wait.parity.shared::cta.b64 done, [self], phase; }
            if done {
                break;
            }
        }
    }

    /// Returns true if the phase of parity `phase` has ended: `mbarrier.test_wait.parity`.
    fn test(self, phase: u32) -> pred {
        let done: pred;
        ptx! { mbarrier.test_wait.parity.shared::cta.b64 done, [self], phase; }
        done
    }
}

/// Makes a barrier for `count` arrivals a phase: `mbarrier.init`.
fn init(bar: u32, count: u32) {
    ptx! { mbarrier.init.shared::cta.b64 [bar], count; }
}

/// Makes the initialized barriers visible to the cluster and to asynchronous copies: `fence.mbarrier_init`.
fn fence_init() {
    ptx! { fence.mbarrier_init.release.cluster; }
}

/// Ends a barrier's use: `mbarrier.inval`.
fn invalidate(bar: u32) {
    ptx! { mbarrier.inval.shared::cta.b64 [bar]; }
}

/// Arrives: `mbarrier.arrive`.
fn arrive(bar: u32) {
    ptx! { mbarrier.arrive.shared::cta.b64 _, [bar]; }
}

/// Arrives, and expects `bytes` more before the phase ends: `mbarrier.arrive.expect_tx`.
fn arrive_expect(bar: u32, bytes: u32) {
    ptx! { mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], bytes; }
}

/// Expects `bytes` more before the phase ends: `mbarrier.expect_tx`.
fn expect(bar: u32, bytes: u32) {
    ptx! { mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], bytes; }
}

/// Arrives at the same barrier of the cluster's block `block`: `mapa` and `mbarrier.arrive` on the remote address.
fn arrive_remote(bar: u32, block: u32) {
    let remote: u32;
    ptx! {
        mapa.shared::cluster.u32 remote, bar, block;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];
    }
}

/// Waits until the phase of parity `phase` has ended: a loop around `mbarrier.try_wait.parity`.
fn wait(bar: u32, phase: u32) {
    loop {
        let done: pred;
        ptx! { mbarrier.try_wait.parity.shared::cta.b64 done, [bar], phase; }
        if done {
            break;
        }
    }
}

/// True if the phase of parity `phase` has ended: `mbarrier.test_wait.parity`.
fn test(bar: u32, phase: u32) -> pred {
    let done: pred;
    ptx! { mbarrier.test_wait.parity.shared::cta.b64 done, [bar], phase; }
    done
}

//! How long `ptx run` waits for a kernel in silence, and when it calls the kernel endless.

use super::Arguments;
use ptx_interp::{Progress, Reporter};
use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Silence before the first line, and between two lines.
const FIRST_LINE: Duration = Duration::from_secs(2);
const NEXT_LINE: Duration = Duration::from_secs(5);
/// Time without the end of a block after which a launch counts as endless, unless `--steps` limits it.
const ENDLESS: Duration = Duration::from_secs(15);

/// Tells how far a launch is, and ends it when no block ends any longer.
pub(super) fn reporter(arguments: &Arguments) -> Reporter {
    let start = Instant::now();
    let mut patience = Patience { limited: arguments.kernel.steps.is_none(), ..Patience::default() };
    Reporter::new(move |progress| {
        let (line, flow) = patience.look(start.elapsed(), progress);
        // Without standard error there is nobody to tell.
        line.into_iter().for_each(|line| drop(writeln!(std::io::stderr(), "{line}")));
        flow
    })
}

#[derive(Default)]
struct Patience {
    limited: bool,
    /// When the last line was written.
    told: Option<Duration>,
    /// Blocks that had ended at the last look, and when the last one did.
    ended: u64,
    since: Duration,
}

impl Patience {
    /// The line to write at this time, if any, and whether the launch goes on.
    fn look(&mut self, now: Duration, progress: Progress) -> (Option<String>, ControlFlow<()>) {
        if progress.ended != self.ended {
            (self.ended, self.since) = (progress.ended, now);
        }
        if self.limited && now.saturating_sub(self.since) >= ENDLESS {
            return (None, ControlFlow::Break(()));
        }
        if now < self.told.map_or(FIRST_LINE, |told| told + NEXT_LINE) {
            return (None, ControlFlow::Continue(()));
        }
        self.told = Some(now);
        let Progress { warp_instructions, ended, blocks } = progress;
        let seconds = now.as_secs();
        let line = format!(
            "note: after {seconds} s {ended} of {blocks} blocks have ended, in {warp_instructions} warp instructions"
        );
        (Some(line), ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_tells_how_far_it_is_and_ends_when_nothing_does() {
        let mut patience = Patience { limited: true, ..Patience::default() };
        let mut lines = Vec::new();
        let mut stopped = None;
        // A block ends at 10 s, the other one never.
        for tenth in 0..400 {
            let progress = Progress { warp_instructions: tenth * 1000, ended: u64::from(tenth >= 100), blocks: 2 };
            let (line, flow) = patience.look(Duration::from_millis(tenth * 100), progress);
            lines.extend(line);
            if flow.is_break() {
                stopped = Some(tenth);
                break;
            }
        }
        assert_eq!(stopped, Some(250));
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(lines[0], "note: after 2 s 0 of 2 blocks have ended, in 20000 warp instructions");
        let mut unlimited = Patience::default();
        let late = Progress { warp_instructions: 1, ended: 0, blocks: 2 };
        assert!(unlimited.look(Duration::from_secs(1000), late).1.is_continue());
    }
}

//! The time of a run, shared among its contests: each begins, and turns become shorter where the time is short.

use std::time::{Duration, Instant};

/// A shorter turn measures the clock that the contestant before has left.
const SHORTEST: Duration = Duration::from_millis(4);

/// The time that is left for the contests that are left.
#[derive(Debug, Default)]
pub struct Budget {
    /// Contests are counted, none is held.
    pub is_counting: bool,
    /// No contest begins later.
    pub until: Option<Instant>,
    contests: u32,
    /// The end of the current contest's share.
    share: Option<Instant>,
}

impl Budget {
    /// The budget that ends at `until`, which counts contests first.
    pub fn counting(until: Option<Instant>) -> Budget {
        Budget { is_counting: true, until, ..Budget::default() }
    }

    /// Returns true if no contest may begin any more.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() > until)
    }

    /// Returns true if the time of the current contest is over.
    pub fn is_share_over(&self) -> bool {
        self.share.is_some_and(|share| Instant::now() > share)
    }

    /// Counts contests that will be held.
    pub fn count(&mut self, contests: u32) {
        self.contests += contests;
    }

    /// A contest begins that counts as so many: it has that share of the time that is left.
    pub fn begin(&mut self, now: Instant, contests: u32) {
        let left = self.until.map(|until| until.saturating_duration_since(now));
        self.share = left.map(|left| now + left * contests / self.contests.max(contests));
        self.contests = self.contests.saturating_sub(contests);
    }

    /// The length of a turn, at most `longest`, with which `players` end their `turns` within the share.
    pub fn turn(&self, now: Instant, longest: Duration, players: usize, turns: u32) -> Duration {
        let Some(share) = self.share else { return longest };
        let each = share.saturating_duration_since(now) / (players as u32 * turns).max(1);
        each.clamp(SHORTEST.min(longest), longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contests_share_what_is_left() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut budget = Budget { until: Some(now + 10 * second), ..Budget::default() };
        budget.count(4);
        budget.count(1);
        budget.begin(now, 1);
        assert_eq!(budget.turn(now, second, 2, 10), second / 10);
        assert_eq!(budget.turn(now + second, second, 2, 10), second / 20);
        assert_eq!(budget.turn(now + 3 * second, second, 2, 10), SHORTEST);
        budget.begin(now + 2 * second, 1);
        assert_eq!(budget.turn(now + 2 * second, second / 100, 2, 10), second / 100);
        budget.begin(now + 2 * second, 3);
        assert_eq!(budget.turn(now + 2 * second, 9 * second, 1, 1), 8 * second);
        assert_eq!(Budget::default().turn(now, second, 2, 10), second);
    }
}

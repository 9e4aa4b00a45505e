//! Many spans, asked for the ones that touch or hold another.

use ptx_core::span::Span;
use ptx_target::sort::SortSmall;

/// Spans by their start, each with the furthest end of those up to it.
#[derive(Default)]
pub struct Spans {
    sorted: Vec<Span>,
}

impl Spans {
    /// The set of these.
    pub fn new(spans: impl IntoIterator<Item = Span>) -> Spans {
        let mut sorted: Vec<Span> = spans.into_iter().collect();
        sorted.sort_small();
        let mut furthest = 0;
        for span in &mut sorted {
            furthest = span.hi.max(furthest);
            span.hi = furthest;
        }
        Spans { sorted }
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Returns true if one of them has a token in common with `span`.
    pub fn touch(&self, span: Span) -> bool {
        self.furthest(|lo| lo < span.hi).is_some_and(|hi| hi > span.lo)
    }

    /// Returns true if one of them holds all of `span`.
    pub fn hold(&self, span: Span) -> bool {
        self.furthest(|lo| lo <= span.lo).is_some_and(|hi| hi >= span.hi)
    }

    /// The furthest end of those whose start is accepted; they are the first ones.
    fn furthest(&self, accepted: impl Fn(u32) -> bool) -> Option<u32> {
        let behind = self.sorted.partition_point(|span| accepted(span.lo));
        self.sorted.get(behind.checked_sub(1)?).map(|span| span.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_as_asking_each() {
        let all = [(3, 5), (10, 30), (12, 14), (3, 4), (40, 40)].map(|(lo, hi)| Span::new(lo, hi));
        let spans = Spans::new(all);
        for (lo, hi) in (0..45).flat_map(|lo| (lo..45).map(move |hi| (lo, hi))) {
            let span = Span::new(lo, hi);
            assert_eq!(spans.touch(span), all.iter().any(|s| s.lo < hi && lo < s.hi), "{span:?}");
            assert_eq!(spans.hold(span), all.iter().any(|s| s.lo <= lo && hi <= s.hi), "{span:?}");
        }
        assert!(Spans::default().is_empty());
    }
}

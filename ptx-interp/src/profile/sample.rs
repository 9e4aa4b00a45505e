//! Samples: some blocks of a grid run, and the error that follows from how much they differ.

use super::Sample;
use super::counts::Counts;
use crate::mix::nth;

/// The clusters of a sample: about so many blocks, one from each of as many equal parts of the grid. Nothing if that is all of them.
pub(crate) fn choose_clusters(clusters: u64, cluster: u64, blocks: u64) -> Option<Vec<u64>> {
    let count = blocks.div_ceil(cluster.max(1)).max(1);
    let start = |part: u64| (u128::from(part) * u128::from(clusters) / u128::from(count)) as u64;
    // At random places: equal distances could meet the same column of the grid each time.
    let place = |part: u64| start(part) + nth(part) % (start(part + 1) - start(part)).max(1);
    (count < clusters).then(|| (0..count).map(place).collect())
}

/// What each cluster has counted.
#[derive(Debug, Default)]
pub(super) struct Parts {
    clusters: Vec<([u32; 3], Counts)>,
    /// The sum at the last change.
    before: Counts,
    current: Option<usize>,
}

impl Parts {
    /// Another cluster runs from now on.
    pub(super) fn change(&mut self, cluster: [u32; 3], counts: &[Counts]) {
        self.settle(counts);
        let known = self.clusters.iter().position(|(id, _)| *id == cluster);
        self.current = Some(known.unwrap_or_else(|| {
            self.clusters.push((cluster, Counts::default()));
            self.clusters.len() - 1
        }));
    }

    /// Gives the cluster that has run what was counted meanwhile.
    fn settle(&mut self, counts: &[Counts]) {
        let mut sum = Counts::default();
        counts.iter().for_each(|part| sum.add(part));
        if let Some((_, cluster)) = self.current.and_then(|at| self.clusters.get_mut(at)) {
            cluster.add(&sum.since(&self.before));
        }
        self.before = sum;
    }

    /// The sample, of a grid of so many clusters with so many blocks each. Blocks of a cluster are no independent samples.
    pub(super) fn finish(mut self, counts: &[Counts], clusters: u64, cluster: u64) -> Sample {
        self.settle(counts);
        let entries: Vec<_> = self.clusters.iter().map(|(_, counts)| counts.entries()).collect();
        let ran = entries.len() as u64;
        let names = Counts::default().entries();
        let error = |(at, (name, _)): (usize, &(&'static str, u64))| {
            let values: Vec<f64> =
                entries.iter().filter_map(|cluster| cluster.get(at)).map(|(_, value)| *value as f64).collect();
            standard_error(&values, clusters).map(|error| (*name, error))
        };
        Sample {
            ran: ran * cluster,
            blocks: clusters * cluster,
            errors: names.iter().enumerate().filter_map(error).collect(),
        }
    }
}

/// The standard error of a sum that is estimated from some of its parts, relative to it; nothing for a sum of zero.
fn standard_error(values: &[f64], whole: u64) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 || mean == 0.0 {
        return None;
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let rest = (1.0 - count / whole.max(1) as f64).max(0.0);
    Some((variance / count * rest).sqrt() / mean)
}

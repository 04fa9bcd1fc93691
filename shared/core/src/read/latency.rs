//! How long the calls to one model take, from those that were observed lately.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};

/// Observations that are kept per model and process.
const MAX_SAMPLES: usize = 64;
/// Fewer observations say little about how much the calls to a model vary.
pub const MIN_SAMPLES: u32 = 3;

/// A summary of the observed latencies of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    pub median_ms: u64,
    /// Nearly all calls (95 %) took at most this long.
    pub high_ms: u64,
    pub samples: u32,
}

impl Latency {
    pub fn median(&self) -> Duration {
        Duration::from_millis(self.median_ms)
    }

    pub fn high(&self) -> Duration {
        Duration::from_millis(self.high_ms)
    }
}

/// The latest observations of one process.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    latest: VecDeque<u64>,
}

impl Samples {
    /// Adds a call that took `latency`. A call that was cut off took at least that long.
    pub fn add(&mut self, latency: Duration) {
        if self.latest.len() == MAX_SAMPLES {
            self.latest.pop_front();
        }
        self.latest.push_back(latency.as_millis() as u64);
    }

    /// `None` until there is an observation.
    pub fn summary(&self) -> Option<Latency> {
        let samples = self.latest.len() as u32;
        if samples == 0 {
            return None;
        }
        let mut sorted: Vec<u64> = self.latest.iter().copied().collect();
        sorted.sort_unstable();
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).ceil() as usize];
        Some(Latency { median_ms: at(0.5), high_ms: at(0.95), samples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_follows_the_latest_calls() {
        let mut samples = Samples::default();
        assert_eq!(samples.summary(), None);
        for ms in [100, 200, 900] {
            samples.add(Duration::from_millis(ms));
        }
        assert_eq!(samples.summary(), Some(Latency { median_ms: 200, high_ms: 900, samples: 3 }));
        for _ in 0..MAX_SAMPLES {
            samples.add(Duration::from_secs(5));
        }
        assert_eq!(samples.summary(), Some(Latency { median_ms: 5000, high_ms: 5000, samples: 64 }));
    }
}

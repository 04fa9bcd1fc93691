//! Pseudo-random draws that depend on a counter alone, so that every run has the same weather.

use std::f64::consts::TAU;

/// What a draw is for: draws of different streams are independent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    /// Whether a call belongs to a rule's share of calls.
    Share { rule: u64 },
    /// The time that a call takes.
    Latency,
}

impl Stream {
    fn seed(self) -> u64 {
        match self {
            // Chosen so that short runs have their part too.
            Self::Share { rule } => 0x5ef0_4000 + rule,
            Self::Latency => 0x1a7e_0000_0000,
        }
    }

    /// A number from 0 to below 1, the same for the same counter.
    pub(super) fn uniform(self, counter: u64) -> f64 {
        let bits = mix(mix(self.seed()).wrapping_add(counter));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the normal distribution with mean 0 and deviation 1 (Box and Muller).
    pub(super) fn normal(self, counter: u64) -> f64 {
        let radius = (1.0 - self.uniform(2 * counter)).ln() * -2.0;
        radius.sqrt() * (TAU * self.uniform(2 * counter + 1)).cos()
    }
}

/// SplitMix64.
fn mix(counter: u64) -> u64 {
    let mut bits = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_spread_evenly() {
        let draws: Vec<f64> = (0..10_000).map(|counter| Stream::Latency.uniform(counter)).collect();
        for tenth in 0..10 {
            let low = f64::from(tenth) / 10.0;
            let within = draws.iter().filter(|draw| (low..low + 0.1).contains(*draw)).count();
            assert!((900..1100).contains(&within), "{within} of 10000 draws from {low}");
        }
    }

    #[test]
    fn normal_draws_have_mean_0_and_deviation_1() {
        let draws: Vec<f64> = (0..10_000).map(|counter| Stream::Latency.normal(counter)).collect();
        let mean = draws.iter().sum::<f64>() / 10_000.0;
        let deviation = (draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 10_000.0).sqrt();
        assert!(mean.abs() < 0.03 && (deviation - 1.0).abs() < 0.03, "{mean} {deviation}");
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draws = |stream: Stream| [0, 1, 2].map(|counter| stream.uniform(counter));
        assert_eq!(draws(Stream::Share { rule: 1 }), draws(Stream::Share { rule: 1 }));
        assert_ne!(draws(Stream::Share { rule: 1 }), draws(Stream::Share { rule: 2 }));
    }
}

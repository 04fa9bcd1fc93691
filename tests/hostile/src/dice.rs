//! A random number generator with a seed.

/// SplitMix64: unlike a library's generator it does not change with a version, so a recorded seed
/// always makes the same files.
pub(crate) struct Dice(u64);

impl Dice {
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed);
        let start = dice.roll() ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
        Self(start)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, excluding, `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound.max(1) as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll() as u8).collect()
    }
}

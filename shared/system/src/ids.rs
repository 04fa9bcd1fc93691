//! Unique ids that sort by time.

use everypage_core::ports::ids::Ids;
use rand::Rng;

pub struct UlidIds;

impl Ids for UlidIds {
    fn fresh(&self) -> String {
        ulid::Ulid::new().to_string().to_lowercase()
    }

    fn random_below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { rand::rng().random_range(0..bound) }
    }
}

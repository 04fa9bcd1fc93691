//! Limits each caller to its share of connections, requests and streams.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;

/// Counts what each holder has at the moment, up to a limit.
pub struct Shares<K> {
    max: usize,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

/// One of them, until it is dropped.
pub struct Share<K: Eq + Hash> {
    holder: K,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Eq + Hash + Clone> Shares<K> {
    pub fn new(max: usize) -> Self {
        Self { max, held: Arc::default() }
    }

    /// One more for `holder`; `None` when it has all that it may have.
    pub fn take(&self, holder: K) -> Option<Share<K>> {
        let mut held = self.held.lock();
        let count = held.entry(holder.clone()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        drop(held);
        Some(Share { holder, held: self.held.clone() })
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_returned_when_it_is_dropped() {
        let shares = Shares::new(2);
        let first = shares.take("acme").unwrap();
        let second = shares.take("acme");
        assert!(second.is_some() && shares.take("acme").is_none());
        assert!(shares.take("globex").is_some(), "another holder has its own");
        drop((first, second));
        assert!(shares.take("acme").is_some());
        assert!(shares.held.lock().is_empty(), "nothing is kept of a holder without shares");
    }
}

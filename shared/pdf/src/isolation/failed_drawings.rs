//! Pages whose image could not be rendered, so that nothing tries again and again.

use std::collections::{HashMap, VecDeque};

use everypage_core::ids::PageNumber;
use parking_lot::Mutex;

use super::pool::Key;

/// Pages that are remembered; the oldest are discarded first.
const MAX_REMEMBERED: usize = 4096;

/// The failures of this process. After a restart each page is tried once more.
#[derive(Default)]
pub(super) struct FailedDrawings(Mutex<State>);

#[derive(Default)]
struct State {
    faults: HashMap<(Key, PageNumber), String>,
    order: VecDeque<(Key, PageNumber)>,
}

impl FailedDrawings {
    pub fn remember(&self, document: &Key, page: PageNumber, fault: &str) {
        let mut state = self.0.lock();
        let page = (document.clone(), page);
        if state.faults.insert(page.clone(), fault.to_owned()).is_none() {
            state.order.push_back(page);
        }
        if state.order.len() > MAX_REMEMBERED
            && let Some(oldest) = state.order.pop_front()
        {
            state.faults.remove(&oldest);
        }
    }

    /// Why the page could not be rendered before.
    pub fn fault(&self, document: &Key, page: PageNumber) -> Option<String> {
        self.0.lock().faults.get(&(document.clone(), page)).cloned()
    }
}

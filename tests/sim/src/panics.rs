//! A panic in a run fails it, wherever it happens: most tasks are joined by nobody.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

thread_local! {
    /// A run has its thread to itself; nothing between runs.
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Does the work and answers with every panic in it; with nothing else if it panicked itself.
pub fn heard<T>(work: impl FnOnce() -> T) -> (Option<T>, Vec<String>) {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(listen);
    HEARD.set(Some(vec![]));
    let done = catch_unwind(AssertUnwindSafe(work)).ok();
    (done, HEARD.take().unwrap_or_default())
}

/// What panics outside runs is told as ever; inside, the trace of each would drown its seed.
fn listen() {
    let aloud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.to_string();
        let heard = HEARD.with_borrow_mut(|heard| heard.as_mut().map(|heard| heard.push(said)));
        if heard.is_none() {
            aloud(panic);
        }
    }));
}

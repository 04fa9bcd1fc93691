//! A panic in a run fails the run, wherever it happens: most tasks are never joined.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

thread_local! {
    /// The panics of the run on this thread; `None` between runs.
    static CAPTURED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs `work` and captures every panic in it; its value is `None` if `work` itself panicked.
pub fn capture<T>(work: impl FnOnce() -> T) -> (Option<T>, Vec<String>) {
    static HOOK: Once = Once::new();
    HOOK.call_once(install_hook);
    CAPTURED.set(Some(vec![]));
    let done = catch_unwind(AssertUnwindSafe(work)).ok();
    (done, CAPTURED.take().unwrap_or_default())
}

/// Panics outside runs are printed as usual; inside, their traces would hide the seed.
fn install_hook() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.to_string();
        let captured = CAPTURED.with_borrow_mut(|panics| panics.as_mut().map(|panics| panics.push(message)));
        if captured.is_none() {
            default_hook(panic);
        }
    }));
}

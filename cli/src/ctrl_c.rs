//! Ctrl-C: the first one cancels, the second one exits immediately.

use tokio_util::sync::CancellationToken;

use crate::{exit::Exit, screen::Screen};

/// A token that Ctrl-C cancels; `later` is where jobs continue after an immediate exit.
pub fn cancellation(screen: &Screen, later: &'static str) -> CancellationToken {
    let token = CancellationToken::new();
    let (screen, cancelled) = (screen.clone(), token.clone());
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler the system's default stays: the first Ctrl-C ends the process.
            return;
        }
        screen.note(&format!("cancelling; Ctrl-C again exits immediately, and jobs continue {later}"));
        cancelled.cancel();
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ = screen.bars.clear();
            std::process::exit(i32::from(Exit::Cancelled.code()));
        }
    });
    token
}

//! Ctrl-C: the first asks for an end, the second is one.

use tokio::sync::watch;

use crate::{exit::Exit, screen::Screen};

#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// `later` says where jobs go on that are left at once.
    pub fn on_ctrl_c(screen: &Screen, later: &'static str) -> Self {
        let (sender, receiver) = watch::channel(false);
        let screen = screen.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                // No handler could be set, so the system's stays: the first Ctrl-C ends everything.
                return std::future::pending().await;
            }
            screen.note(&format!("cancelling; Ctrl-C again leaves at once, and jobs go on {later}"));
            let _ = sender.send(true);
            if tokio::signal::ctrl_c().await.is_ok() {
                let _ = screen.bars.clear();
                std::process::exit(i32::from(Exit::Cancelled.code()));
            }
        });
        Self(receiver)
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    pub async fn requested(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|stop| *stop).await.is_err() {
            std::future::pending().await
        }
    }
}

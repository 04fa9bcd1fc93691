//! Notices at the terminal of `serve`.

use async_trait::async_trait;
use everypage_core::ports::{
    Fault,
    notifier::{Channel, Notice, Notifier},
};

use crate::screen::Screen;

pub struct TerminalNotifier(pub Screen);

#[async_trait]
impl Notifier for TerminalNotifier {
    fn channel(&self) -> Channel {
        Channel::Terminal
    }

    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        let lines: Vec<String> = notice.body.lines().map(|line| format!("         {line}")).collect();
        self.0.warn(&format!("{}\n{}", notice.subject, lines.join("\n")));
        Ok(())
    }
}

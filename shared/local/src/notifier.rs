//! On one machine the responsible person reads the log.

use async_trait::async_trait;
use everypage_core::ports::{
    Fault,
    notifier::{Notice, Notifier},
};
use tracing::warn;

pub struct LogNotifier;

#[async_trait]
impl Notifier for LogNotifier {
    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        let responsible = notice.responsible.as_deref().unwrap_or("nobody set");
        warn!(tenant = %notice.tenant, responsible, subject = notice.subject, "notice");
        Ok(())
    }
}

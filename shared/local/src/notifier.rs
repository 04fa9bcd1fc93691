//! Notices as warnings in the log, where the responsible person reads them.

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
        let Notice { tenant, responsible, subject, body } = notice;
        warn!(%tenant, responsible = responsible.as_deref(), subject, body, "notice");
        Ok(())
    }
}

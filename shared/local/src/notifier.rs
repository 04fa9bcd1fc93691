//! Notices as warnings in the log.

use async_trait::async_trait;
use everypage_core::ports::{
    Fault,
    notifier::{Channel, Notice, Notifier},
};
use tracing::warn;

pub struct LogNotifier;

#[async_trait]
impl Notifier for LogNotifier {
    fn channel(&self) -> Channel {
        Channel::Log
    }

    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        let Notice { id, tenant, kind, responsible, subject, body } = notice;
        warn!(notice = id, %tenant, %kind, responsible = responsible.as_deref(), subject, body, "notice");
        Ok(())
    }
}

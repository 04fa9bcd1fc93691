#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use async_trait::async_trait;
use everypage_core::{
    ids::TenantId,
    ports::notifier::{MAX_SUBJECT_CHARS, Notice, NoticeKind, Notifier},
};

/// The recipient of the notifier's notices.
#[async_trait]
pub trait Recipient: Send + Sync {
    /// Every notice received so far. Waits until there are at least `count`.
    async fn notices(&self, count: usize) -> Vec<Notice>;
}

pub struct Subject {
    notifier: Arc<dyn Notifier>,
    recipient: Arc<dyn Recipient>,
}

impl Subject {
    pub fn new(notifier: Arc<dyn Notifier>, recipient: Arc<dyn Recipient>) -> Self {
        Self { notifier, recipient }
    }

    /// Sends a notice; returns what its recipient got.
    async fn delivered(&self, notice: Notice) -> Notice {
        self.notifier.notify(&notice).await.unwrap();
        let mut received = self.recipient.notices(1).await;
        assert_eq!(received.len(), 1, "{received:?}");
        received.remove(0)
    }
}

fn notice() -> Notice {
    Notice {
        id: "01H".into(),
        kind: NoticeKind::DeadLetter,
        tenant: TenantId::new("acme"),
        responsible: Some("eve@example.org".into()),
        subject: "Everypage gave up on a page".into(),
        body: "No model answered.\nSee it: everypage dlq show d".into(),
    }
}

pub async fn a_notice_arrives_with_its_subject_and_body(subject: &Subject) {
    assert_eq!(subject.delivered(notice()).await, notice());
}

pub async fn a_notice_names_its_tenant_and_responsible_person(subject: &Subject) {
    let unowned = Notice { responsible: None, tenant: TenantId::new("other"), ..notice() };
    subject.notifier.notify(&notice()).await.unwrap();
    subject.notifier.notify(&unowned).await.unwrap();
    let received = subject.recipient.notices(2).await;
    assert_eq!(received.len(), 2);
    assert!(received.contains(&notice()) && received.contains(&unowned), "{received:?}");
}

pub async fn a_long_body_arrives_complete(subject: &Subject) {
    let line = "a \"quoted\" word, a \\ and ä \u{1F511}\t& <b>\r\n";
    let long = Notice { body: line.repeat(200), ..notice() };
    assert_eq!(subject.delivered(long.clone()).await, long);
}

pub async fn a_long_subject_arrives(subject: &Subject) {
    let long = Notice { subject: "gave up on ä ".repeat(50), ..notice() };
    let received = subject.delivered(long.clone()).await;
    let guaranteed: String = long.subject.chars().take(MAX_SUBJECT_CHARS).collect();
    assert!(received.subject.starts_with(&guaranteed), "{}", received.subject);
    assert_eq!(received.body, long.body);
}

pub async fn a_subject_of_many_lines_arrives(subject: &Subject) {
    let torn = Notice { subject: "gave\r\nup\u{0}on\u{2028}it".into(), ..notice() };
    let received = subject.delivered(torn.clone()).await;
    let words = |text: &str| -> Vec<String> {
        let apart = text.split(|c: char| c.is_control() || c.is_whitespace());
        apart.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(words(&received.subject), ["gave", "up", "on", "it"]);
    assert_eq!(received.body, torn.body);
}

pub async fn a_notice_without_a_subject_arrives(subject: &Subject) {
    let bare = Notice { subject: String::new(), ..notice() };
    assert_eq!(subject.delivered(bare.clone()).await, bare);
}

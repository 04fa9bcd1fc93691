#![allow(clippy::unwrap_used, reason = "an exam fails by panicking")]

use std::sync::Arc;

use async_trait::async_trait;
use everypage_core::{
    domain::ids::TenantId,
    ports::notifier::{Notice, Notifier, SUBJECT_CHARACTERS},
};

/// Whoever reads what the notifier tells.
#[async_trait]
pub trait Reader: Send + Sync {
    /// All that was told. At least `count` notices, for which it waits.
    async fn told(&self, count: usize) -> Vec<Notice>;
}

pub struct Subject {
    notifier: Arc<dyn Notifier>,
    reader: Arc<dyn Reader>,
}

impl Subject {
    pub fn new(notifier: Arc<dyn Notifier>, reader: Arc<dyn Reader>) -> Self {
        Self { notifier, reader }
    }

    /// What a person reads of a notice.
    async fn told_of(&self, notice: Notice) -> Notice {
        self.notifier.notify(&notice).await.unwrap();
        let mut told = self.reader.told(1).await;
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0)
    }
}

fn notice() -> Notice {
    Notice {
        tenant: TenantId::new("acme"),
        responsible: Some("eve@example.org".into()),
        subject: "Everypage gave up on a page".into(),
        body: "Nobody answered.\nSee it: everypage dlq show d".into(),
    }
}

pub async fn a_notice_says_what_happened_and_what_can_be_done(subject: &Subject) {
    assert_eq!(subject.told_of(notice()).await, notice());
}

pub async fn a_notice_names_its_tenant_and_who_is_responsible(subject: &Subject) {
    let unowned = Notice { responsible: None, tenant: TenantId::new("other"), ..notice() };
    subject.notifier.notify(&notice()).await.unwrap();
    subject.notifier.notify(&unowned).await.unwrap();
    let told = subject.reader.told(2).await;
    assert_eq!(told.len(), 2);
    assert!(told.contains(&notice()) && told.contains(&unowned), "{told:?}");
}

pub async fn a_body_is_told_whole(subject: &Subject) {
    let line = "a \"quoted\" word, a \\ and ä \u{1F511}\t& <b>\r\n";
    let long = Notice { body: line.repeat(200), ..notice() };
    assert_eq!(subject.told_of(long.clone()).await, long);
}

pub async fn a_subject_is_told_however_long_it_is(subject: &Subject) {
    let long = Notice { subject: "gave up on ä ".repeat(50), ..notice() };
    let told = subject.told_of(long.clone()).await;
    let promised: String = long.subject.chars().take(SUBJECT_CHARACTERS).collect();
    assert!(told.subject.starts_with(&promised), "{}", told.subject);
    assert_eq!(told.body, long.body);
}

pub async fn a_subject_of_many_lines_is_told(subject: &Subject) {
    let torn = Notice { subject: "gave\r\nup\u{0}on\u{2028}it".into(), ..notice() };
    let told = subject.told_of(torn.clone()).await;
    let words = |text: &str| -> Vec<String> {
        let apart = text.split(|c: char| c.is_control() || c.is_whitespace());
        apart.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(words(&told.subject), ["gave", "up", "on", "it"]);
    assert_eq!(told.body, torn.body);
}

pub async fn a_notice_without_a_subject_is_told(subject: &Subject) {
    let bare = Notice { subject: String::new(), ..notice() };
    assert_eq!(subject.told_of(bare.clone()).await, bare);
}

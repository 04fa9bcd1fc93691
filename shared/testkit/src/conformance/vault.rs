#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use everypage_core::{
    ports::{
        Fault,
        vault::{MAX_SECRET_BYTES, Vault},
    },
    secret::Secret,
};

/// Long enough not to occur in a sealed text by chance.
const PASSWORD: &str = "correct horse battery stäple, and then some more of it";

pub struct Subject {
    vault: Arc<dyn Vault>,
    /// This vault in another process.
    again: Arc<dyn Vault>,
    /// A vault with another key.
    other: Arc<dyn Vault>,
}

impl Subject {
    pub fn new(vault: Arc<dyn Vault>, again: Arc<dyn Vault>, other: Arc<dyn Vault>) -> Self {
        Self { vault, again, other }
    }

    async fn seal(&self, secret: &str) -> String {
        self.vault.seal(&Secret::new(secret)).await.unwrap()
    }

    async fn open(&self, sealed: &str) -> String {
        self.vault.open(sealed).await.unwrap().expose().to_owned()
    }
}

async fn refuses(vault: &Arc<dyn Vault>, sealed: &str) {
    let opened = vault.open(sealed).await;
    assert!(matches!(opened, Err(Fault::Broken { .. })), "{opened:?} of {sealed:?}");
}

pub async fn a_sealed_secret_can_be_opened(subject: &Subject) {
    let of_a_pdf = "x".repeat(127);
    let [longest, zeros] = ["y", "\0"].map(|one| one.repeat(MAX_SECRET_BYTES));
    let texts = ["", " ", "a", "\0", "\0\0", "ä\n密码\u{1F511}", "sealed:", &of_a_pdf, &longest, &zeros];
    for text in texts {
        let sealed = subject.seal(text).await;
        assert!(subject.open(&sealed).await == text, "{text:?}");
    }
}

pub async fn a_sealed_text_reveals_nothing_of_the_secret(subject: &Subject) {
    let sealed = subject.seal(PASSWORD).await;
    for word in PASSWORD.split(' ') {
        assert!(!sealed.contains(word) || word.len() < 5, "{sealed}");
    }
    assert!(!subject.seal("").await.is_empty(), "an empty secret must not be recognizable");
}

pub async fn another_process_can_open_a_sealed_secret(subject: &Subject) {
    let sealed = subject.seal(PASSWORD).await;
    assert_eq!(subject.again.open(&sealed).await.unwrap(), Secret::new(PASSWORD));
}

pub async fn a_secret_sealed_twice_opens_from_both(subject: &Subject) {
    let (first, second) = (subject.seal(PASSWORD).await, subject.seal(PASSWORD).await);
    subject.seal("another").await;
    assert_eq!((subject.open(&first).await, subject.open(&second).await), (PASSWORD.into(), PASSWORD.into()));
}

pub async fn a_text_that_was_never_sealed_does_not_open(subject: &Subject) {
    let long = "ab".repeat(5000);
    for text in ["", " ", "0", "zz", PASSWORD, "sealed:", "sealed:x", "bm90IHNlYWxlZA==", "ä\u{0}\n", &long]
    {
        refuses(&subject.vault, text).await;
    }
}

pub async fn a_changed_sealed_text_does_not_open(subject: &Subject) {
    // Short enough that the middle is not the secret itself: an emulator of KMS may not check that part.
    let sealed = subject.seal("x1").await;
    let middle = sealed.len() / 2;
    let other = if &sealed[middle..=middle] == "0" { "1" } else { "0" };
    refuses(&subject.vault, &format!("{}{other}{}", &sealed[..middle], &sealed[middle + 1..])).await;
    refuses(&subject.vault, &sealed[..middle]).await;
}

pub async fn another_vault_cannot_open_a_sealed_secret(subject: &Subject) {
    refuses(&subject.other, &subject.seal(PASSWORD).await).await;
    refuses(&subject.vault, &subject.other.seal(&Secret::new(PASSWORD)).await.unwrap()).await;
}

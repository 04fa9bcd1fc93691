use everypage_core::notices::{NoticeRecord, Progress};
use jiff::Timestamp;
use serde::Serialize;
use strum::VariantArray;
use utoipa::{ToSchema, openapi::Schema};

use crate::openapi::one_of;

/// Something that a person has to know or decide.
#[derive(Debug, Serialize, ToSchema)]
pub struct Notice {
    pub id: String,
    #[schema(schema_with = kinds)]
    pub kind: String,
    /// What happened, in one line.
    #[schema(example = "A plan of 3.20 USD waits for approval: report.pdf")]
    pub subject: String,
    /// What happened, why, and what to do.
    pub body: String,
    pub at: Timestamp,
    /// `waiting`, `sent`, or `given_up` if no channel took it for a day.
    #[schema(schema_with = states)]
    pub state: String,
    /// The channels that took it: `log`, `terminal`, `webhook`, `email` or `sns`.
    pub sent_by: Vec<String>,
    /// How often it was tried to send it.
    pub attempts: u32,
    /// When it is sent next; only while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// Why a channel did not take it, at the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

fn kinds() -> Schema {
    let names = everypage_core::ports::notifier::NoticeKind::VARIANTS.iter().map(|kind| (*kind).into());
    one_of(names, "What the notice is about.")
}

fn states() -> Schema {
    one_of(
        ["waiting", "sent", "given_up"],
        "Whether it was sent; `given_up` if no channel took it for a day.",
    )
}

impl From<NoticeRecord> for Notice {
    fn from(notice: NoticeRecord) -> Self {
        Self {
            id: notice.id,
            kind: notice.kind.to_string(),
            subject: notice.subject,
            body: notice.body,
            at: notice.at,
            state: notice.progress.to_string(),
            attempts: notice.attempts,
            next_attempt_at: (notice.progress == Progress::Waiting).then_some(notice.due),
            sent_by: notice.sent_by.iter().map(ToString::to_string).collect(),
            last_error: notice.last_error,
        }
    }
}

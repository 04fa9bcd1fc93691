//! The notice as it is stored, and the decisions on it: when it may be sent, and as what message.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    backoff::cooldown,
    ids::TenantId,
    ports::notifier::{Channel, NoticeKind},
    time::after,
};

/// Notices that one message lists; the others are counted.
const MAX_LISTED: usize = 20;
/// Pauses after failed attempts: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(600);
/// Age at which a notice that no channel took is given up; it stays in the list, with its error.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

impl NoticeKind {
    /// The time between two messages of a group: what comes in between is sent as one message.
    pub fn quiet_time(self) -> Duration {
        Duration::from_secs(match self {
            // A plan waits until its deadline only.
            Self::Approval => 10,
            Self::DeadLetter | Self::Purchase | Self::Erasure => 60,
            // These repeat until a person acts.
            Self::BadKey | Self::Budget | Self::AccountDrift => 3600,
        })
    }

    fn plural(self) -> &'static str {
        match self {
            Self::DeadLetter => "dead letters",
            Self::Approval => "plans wait for approval",
            Self::BadKey => "problems with providers",
            Self::Purchase => "purchases wait for an operator",
            Self::Erasure => "erasures of tenants wait for an operator",
            Self::Budget => "budgets used up",
            Self::AccountDrift => "accounts that differ from their ledger",
        }
    }
}

/// A notice to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNotice {
    pub tenant: TenantId,
    pub kind: NoticeKind,
    /// Notices of one kind about different topics are separate messages.
    pub topic: String,
    /// The id of what it is about, or of a part of that: a job, a dead letter of a job. It is deleted with it.
    pub about: Option<String>,
    pub subject: String,
    /// What happened, why, and what to do; never document text.
    pub body: String,
}

impl NewNotice {
    /// A budget is used up: `budget` names it, `detail` says what that means and what to do.
    pub fn budget_used_up(tenant: &TenantId, budget: &str, detail: String) -> Self {
        Self {
            tenant: tenant.clone(),
            kind: NoticeKind::Budget,
            topic: budget.to_owned(),
            about: None,
            subject: format!("The budget {budget} of {tenant} is used up"),
            body: detail,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Progress {
    Waiting,
    /// Every channel took it.
    Sent,
    /// Some channel did not take it for a day.
    GivenUp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeRecord {
    pub id: String,
    pub tenant: TenantId,
    pub kind: NoticeKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub topic: String,
    pub subject: String,
    pub body: String,
    pub at: Timestamp,
    pub progress: Progress,
    #[serde(default)]
    pub sent_by: Vec<Channel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    #[serde(default)]
    pub attempts: u32,
    pub due: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl NoticeRecord {
    pub fn new(new: &NewNotice, id: String, now: Timestamp) -> Self {
        Self {
            id,
            tenant: new.tenant.clone(),
            kind: new.kind,
            topic: new.topic.clone(),
            subject: printable(&new.subject, false),
            body: printable(&new.body, true),
            at: now,
            progress: Progress::Waiting,
            sent_by: vec![],
            sent_at: None,
            attempts: 0,
            due: now,
            last_error: None,
        }
    }

    /// The notice after an attempt to send it, of which `failed` is the last error.
    pub fn attempted(&self, sent_by: Vec<Channel>, failed: Option<String>, now: Timestamp) -> Self {
        let mut next = Self { sent_by, attempts: self.attempts + 1, ..self.clone() };
        match failed {
            None => {
                (next.progress, next.sent_at, next.last_error) = (Progress::Sent, Some(now), None);
            }
            Some(error) => {
                next.last_error = Some(error);
                if after(self.at, MAX_AGE) <= now {
                    next.progress = Progress::GivenUp;
                }
                next.due = after(now, cooldown(next.attempts, FIRST_PAUSE, MAX_PAUSE));
            }
        }
        next
    }
}

/// Without control characters, which a terminal or a mail header would obey; `lines` keeps line breaks.
fn printable(text: &str, lines: bool) -> String {
    let is_bidi =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let plain = |c: char| match c {
        '\n' if lines => '\n',
        c if c.is_control() || is_bidi(c) || matches!(c, '\u{2028}' | '\u{2029}') => ' ',
        c => c,
    };
    text.chars().map(plain).collect()
}

/// Subject and body of the message about these notices of one group, oldest first.
pub fn message(notices: &[&NoticeRecord]) -> (String, String) {
    if let [only] = notices {
        return (only.subject.clone(), only.body.clone());
    }
    let Some(first) = notices.first() else { return Default::default() };
    let subject = format!("{} {}", notices.len(), first.kind.plural());
    let mut parts: Vec<String> = notices
        .iter()
        .take(MAX_LISTED)
        .map(|notice| format!("{}\n{}", notice.subject, indented(&notice.body)))
        .collect();
    if notices.len() > MAX_LISTED {
        parts.push(format!("and {} more", notices.len() - MAX_LISTED));
    }
    parts.push("List them: everypage notices".to_owned());
    (subject, parts.join("\n\n"))
}

fn indented(body: &str) -> String {
    body.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(subject: &str) -> NoticeRecord {
        let new = NewNotice {
            tenant: TenantId::new("acme"),
            kind: NoticeKind::DeadLetter,
            topic: String::new(),
            about: None,
            subject: subject.into(),
            body: "it broke\nShow it: everypage dlq show x".into(),
        };
        NoticeRecord::new(&new, "n".into(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn one_notice_is_its_own_message_and_many_are_one() {
        let one = record("gave up on a");
        assert_eq!(message(&[&one]), (one.subject.clone(), one.body.clone()));
        let many: Vec<NoticeRecord> = (0..25).map(|n| record(&format!("gave up on {n}"))).collect();
        let (subject, body) = message(&many.iter().collect::<Vec<_>>());
        assert_eq!(subject, "25 dead letters");
        assert!(body.contains("gave up on 19\n  it broke") && !body.contains("gave up on 20"), "{body}");
        assert!(body.contains("and 5 more"), "{body}");
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        let notice = record("gave\r\nup \u{1b}[31m\u{202e}x");
        assert_eq!(notice.subject, "gave  up  [31m x");
        assert!(notice.body.contains('\n'));
    }

    #[test]
    fn a_notice_is_given_up_after_a_day_of_failures() {
        let mut notice = record("a");
        let mut now = Timestamp::UNIX_EPOCH;
        while notice.progress == Progress::Waiting {
            notice = notice.attempted(vec![], Some("refused".into()), now);
            assert!(notice.due > now);
            now = notice.due;
        }
        assert_eq!(notice.progress, Progress::GivenUp);
        assert!(after(notice.at, MAX_AGE) <= now && notice.attempts < 200, "{}", notice.attempts);
    }
}

use everypage_core::dead_letters;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::Priority;
use crate::problem::Code;

/// The subject of a dead letter.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Subject {
    Job {
        job: String,
    },
    Page {
        job: String,
        page: u32,
    },
    /// A message that the webhook did not accept, about an event of a job in most cases.
    Webhook {
        #[serde(skip_serializing_if = "Option::is_none")]
        job: Option<String>,
    },
    /// A message that could not be parsed.
    Message,
}

/// A message that was given up, with its reason. The message itself is not shown: it holds document text.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadLetter {
    /// The id of the dead letter.
    pub id: String,
    pub subject: Subject,
    /// The name of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "report.pdf")]
    pub document: Option<String>,
    /// Why the message was given up.
    pub reason: String,
    /// How often the queue delivered the message.
    pub receive_count: u32,
    /// When the message failed first.
    pub first_at: Timestamp,
    /// When the message failed last.
    pub last_at: Timestamp,
    /// The correlation id of the job's events.
    pub correlation_id: String,
    pub priority: Priority,
}

impl DeadLetter {
    pub fn new(dead_letter: dead_letters::DeadLetter, document: Option<String>) -> Self {
        Self {
            document,
            id: dead_letter.id.to_string(),
            subject: match dead_letter.subject {
                dead_letters::Subject::Job { job } => Subject::Job { job: job.to_string() },
                dead_letters::Subject::Page { job, page } => {
                    Subject::Page { job: job.to_string(), page: page.get() }
                }
                dead_letters::Subject::Webhook { job, .. } => {
                    Subject::Webhook { job: job.map(|job| job.to_string()) }
                }
                dead_letters::Subject::Message => Subject::Message,
            },
            reason: dead_letter.reason,
            receive_count: dead_letter.receive_count,
            first_at: dead_letter.first_at,
            last_at: dead_letter.last_at,
            correlation_id: dead_letter.correlation_id.to_string(),
            priority: dead_letter.priority.into(),
        }
    }
}

/// A dead letter that could not be redriven.
#[derive(Debug, Serialize, ToSchema)]
pub struct RedriveFailure {
    /// The id of the dead letter.
    pub id: String,
    pub code: Code,
    /// Why the dead letter could not be redriven.
    pub reason: String,
}

/// The outcome of a redrive.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Redriven {
    /// Ids of dead letters whose messages are in the queue again.
    pub redriven: Vec<String>,
    /// Dead letters that could not be redriven.
    pub failed: Vec<RedriveFailure>,
    /// Dead letters that did not fit into the time of one request: repeat it.
    pub remaining: usize,
}

/// The estimated cost of a redrive.
#[derive(Debug, Serialize, ToSchema)]
pub struct Estimate {
    /// Dead letters that the estimate covers.
    pub dead_letters: usize,
    /// Pages that would be sent to a model.
    pub pages: u32,
    /// Millionths of a US dollar, from the plans of their jobs.
    pub cost_micro_usd: u64,
    /// Dead letters of documents without a plan: their cost is known once they are opened.
    pub unknown: usize,
    /// Dead letters that did not fit into the time of one request: the last ones of the list.
    pub remaining: usize,
}

/// The outcome of a purge.
#[derive(Debug, Serialize, ToSchema)]
pub struct Purged {
    /// The number of deleted dead letters.
    pub purged: usize,
}

use everypage_core::job::{Job, Status};

/// The status of a job in a sentence.
pub fn message(job: &Job) -> String {
    let reason = || {
        job.failure
            .as_ref()
            .map_or_else(|| "the job ended without a result".to_owned(), |failure| failure.reason.clone())
    };
    let metadata = job.result.as_ref().map(|result| &result.metadata);
    match job.status() {
        Status::Queued => "queued".into(),
        Status::AwaitingApproval => {
            let reason = job.plan.as_ref().and_then(|plan| plan.approval.clone()).unwrap_or_default();
            format!("waiting for approval: {reason}")
        }
        Status::Processing => match &job.plan {
            Some(plan) => format!("reading: {} with AI", pages(plan.ai_pages)),
            None => "opening the document".into(),
        },
        Status::Failed | Status::Rejected => reason(),
        Status::Cancelled => match metadata {
            Some(metadata) => {
                format!(
                    "cancelled; the result has the text available so far of {}",
                    pages(metadata.total_pages)
                )
            }
            None => "cancelled before the document was opened".into(),
        },
        Status::Success => match metadata {
            Some(metadata) if metadata.timeout_occurred => {
                "the deadline came first; every page has the best text available by then".into()
            }
            Some(metadata) if metadata.pages_failed > 0 => {
                let own = if metadata.pages_failed == 1 { "its" } else { "their" };
                format!("{} fell back to {own} own text", pages(metadata.pages_failed))
            }
            _ => "every page has its text".into(),
        },
    }
}

fn pages(count: u32) -> String {
    format!("{count} {}", if count == 1 { "page" } else { "pages" })
}

//! The notice that a plan waits for a person: what it costs, and how to answer.

use crate::{
    job::{Job, State},
    notices::NewNotice,
    ports::notifier::NoticeKind,
};

/// The notice of a job that came to wait for approval with this change.
pub(super) fn notice(before: &Job, job: &Job) -> Option<NewNotice> {
    let plan =
        job.plan.as_ref().filter(|_| job.state == State::Proposed && before.state != State::Proposed)?;
    let reason = plan.approval.as_ref()?;
    let (id, name) = (&job.id, &job.received.document.name);
    let cost = plan.estimated_cost_micro_usd.usd();
    Some(NewNotice {
        tenant: job.received.tenant.clone(),
        kind: NoticeKind::Approval,
        topic: String::new(),
        about: Some(id.to_string()),
        subject: format!("A plan of {cost:.2} USD waits for approval: {name}"),
        body: format!(
            "AI would read {} pages of {name}, for about {cost:.2} USD and {} credits: {reason}.\n\
             Without an answer by {:.0}, it is published with the text that Everypage reads itself.\n\
             Approve it: everypage jobs approve {id}\n\
             Make it cheaper: everypage jobs modify {id} --tier fast (or --pages, --deadline)\n\
             Reject it: everypage jobs reject {id}\n\
             In the console: #/jobs/{id}",
            plan.ai_pages, plan.estimated_credits, job.deadline,
        ),
    })
}

//! What a transition of a job means for its tenant's account: hold, pay and release credits.

use crate::{
    billing::{
        account::{Account, AccountEvent, Cause},
        accounts::{AccountError, Origin, load, moves},
    },
    event::Actor,
    events::Store,
    ids::JobId,
    job::{Job, JobEvent, State},
    ports::records::Change,
};

/// What a job's move means for its tenant's account: written with it or not at all, so that a job
/// holds, pays and gives back exactly once.
pub(super) async fn follow(
    store: &Store,
    actor: Actor,
    before: &Job,
    after: &Job,
    events: &[JobEvent],
) -> Result<(Vec<AccountEvent>, Vec<Change>), AccountError> {
    let tenant = &before.received.tenant;
    let consequence = match Consequence::of(before, after, events) {
        None => return Ok(Default::default()),
        Some(Consequence::Pay { .. }) if !before.is_prepaid() => return Ok(Default::default()),
        Some(consequence) => consequence,
    };
    let account = load(store, tenant).await?;
    let moved = consequence.events(&account.value, &after.id);
    if moved.is_empty() {
        return Ok(Default::default());
    }
    let metadata = after.metadata(actor, &store.environment);
    let origin = Origin { metadata, correlation: before.correlation_id.clone() };
    let (_, changes) = moves(store, &origin, &account, &moved)?;
    Ok((moved, changes))
}

enum Consequence {
    /// It was approved.
    Hold { credits: u64 },
    /// It has ended, and gives back what it did not use.
    End { used: u64, rest: u64 },
    /// Pages were read after its end: they are paid with the version that has them.
    Pay { credits: u64 },
}

impl Consequence {
    fn of(before: &Job, after: &Job, events: &[JobEvent]) -> Option<Self> {
        let (held, holds) = (u64::from(before.reserved_credits), u64::from(after.reserved_credits));
        if holds > held {
            return Some(Self::Hold { credits: holds - held });
        }
        // Rejected, cancelled and failed jobs use none.
        let used = events.iter().find_map(|event| match event {
            JobEvent::Audited { credits, .. } => Some(u64::from(*credits)),
            _ => None,
        });
        let used = used.unwrap_or(0);
        if held > holds {
            let used = used.min(held);
            return Some(Self::End { used, rest: held - used });
        }
        // Approved by its deadline it held nothing; what was healed since is paid all the same.
        if used > 0 {
            return Some(Self::Pay { credits: used });
        }
        // One that is healed before its audit pays there.
        let is_healed = events.iter().any(|event| matches!(event, JobEvent::Healed { .. }));
        let credits = |job: &Job| job.result.as_ref().map_or(0, |result| u64::from(result.metadata.credits));
        let more = credits(after).saturating_sub(credits(before));
        (is_healed && before.state == State::Audited && more > 0).then_some(Self::Pay { credits: more })
    }

    fn events(&self, account: &Account, job: &JobId) -> Vec<AccountEvent> {
        let cause = || Cause::Job { job: job.clone() };
        let hold = |credits| AccountEvent::Reserved { credits, cause: cause() };
        let settle = |credits| AccountEvent::Settled { credits, job: job.clone() };
        let release = |credits| AccountEvent::Released { credits, cause: cause() };
        let events = match *self {
            Self::Hold { credits } => vec![hold(credits)],
            Self::End { used, rest } => vec![settle(used), release(rest)],
            // A page can't be unread: what the account does not have for it is not charged. Whoever
            // sends pages to be healed looks first, so that this is a matter of races.
            Self::Pay { credits } => {
                let credits = credits.min(account.available());
                vec![hold(credits), settle(credits)]
            }
        };
        events.into_iter().filter(|event| event.credits() > 0).collect()
    }
}

//! Reserves, settles and releases credits of the tenant's account with each transition of a job.

use crate::{
    billing::{
        account::{Account, AccountEvent, Cause},
        accounts::{AccountError, Origin, load, transition},
    },
    event::Actor,
    events::Store,
    ids::JobId,
    job::{Job, JobEvent, State},
    ports::records::Change,
};

/// The events and writes in the tenant's account that a transition of a job requires.
///
/// The caller stores them in the same transaction as the transition, so that a job reserves, settles and
/// releases its credits exactly once.
pub(super) async fn account_changes(
    store: &Store,
    actor: Actor,
    before: &Job,
    after: &Job,
    events: &[JobEvent],
) -> Result<(Vec<AccountEvent>, Vec<Change>), AccountError> {
    let tenant = &before.received.tenant;
    let effect = match AccountEffect::of(before, after, events) {
        None => return Ok(Default::default()),
        Some(AccountEffect::Charge { .. }) if !before.is_prepaid() => return Ok(Default::default()),
        Some(effect) => effect,
    };
    let account = load(store, tenant).await?;
    let account_events = effect.events(&account.value, &after.id);
    if account_events.is_empty() {
        return Ok(Default::default());
    }
    let metadata = after.metadata(actor, &store.environment);
    let origin = Origin { metadata, correlation: before.correlation_id.clone() };
    let (_, changes) = transition(store, &origin, &account, &account_events)?;
    Ok((account_events, changes))
}

enum AccountEffect {
    /// The job was approved.
    Reserve { credits: u64 },
    /// The job ended: settle the used credits and release the unused ones.
    End { used: u64, unused: u64 },
    /// Pages were read after the job's end: charge them with the result version that contains them.
    Charge { credits: u64 },
}

impl AccountEffect {
    fn of(before: &Job, after: &Job, events: &[JobEvent]) -> Option<Self> {
        let (reserved, still_reserved) =
            (u64::from(before.reserved_credits), u64::from(after.reserved_credits));
        if still_reserved > reserved {
            return Some(Self::Reserve { credits: still_reserved - reserved });
        }
        // Rejected, cancelled and failed jobs use no credits.
        let used = events.iter().find_map(|event| match event {
            JobEvent::Audited { credits, .. } => Some(u64::from(*credits)),
            _ => None,
        });
        let used = used.unwrap_or(0);
        if reserved > still_reserved {
            let used = used.min(reserved);
            return Some(Self::End { used, unused: reserved - used });
        }
        // A job that its deadline ended before approval reserved nothing, but pages healed since are charged.
        if used > 0 {
            return Some(Self::Charge { credits: used });
        }
        // A job that is healed before its audit is charged at the audit.
        let is_healed = events.iter().any(|event| matches!(event, JobEvent::Healed { .. }));
        let credits = |job: &Job| job.result.as_ref().map_or(0, |result| u64::from(result.metadata.credits));
        let more = credits(after).saturating_sub(credits(before));
        (is_healed && before.state == State::Audited && more > 0).then_some(Self::Charge { credits: more })
    }

    fn events(&self, account: &Account, job: &JobId) -> Vec<AccountEvent> {
        let cause = || Cause::Job { job: job.clone() };
        let reserve = |credits| AccountEvent::Reserved { credits, cause: cause() };
        let deduct = |credits| AccountEvent::Deducted { credits, cause: cause() };
        let settle = |credits| AccountEvent::Settled { credits, job: job.clone(), deducted: true };
        let release = |credits| AccountEvent::Released { credits, cause: cause() };
        let events = match *self {
            Self::Reserve { credits } => vec![reserve(credits)],
            Self::End { used, unused } => vec![deduct(used), settle(used), release(unused)],
            // The pages are read already: what exceeds the balance is not charged. Healing checks the
            // balance before it sends pages, so this happens only if two jobs use the credits concurrently.
            Self::Charge { credits } => {
                let credits = credits.min(account.available());
                vec![reserve(credits), deduct(credits), settle(credits)]
            }
        };
        events.into_iter().filter(|event| event.credits() > 0).collect()
    }
}

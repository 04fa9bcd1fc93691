//! Discarding a dead letter.

use super::{DeadLetter, DeadLetterEvent, load, save};
use crate::{events::Store, ids::DeadLetterId, job::StepError};

/// Lets a dead letter go: it is no longer listed, and its message is forgotten.
pub async fn purge(store: &Store, id: &DeadLetterId, by: &str) -> Result<(), StepError> {
    let kept = load(store, id).await?;
    let letter = DeadLetter { message: None, purged: true, ..kept.value.clone() };
    save(store, Some(&kept), letter, DeadLetterEvent::Purged { by: by.to_owned() }).await?;
    Ok(())
}

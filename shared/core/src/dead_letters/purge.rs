//! Discards a dead letter.

use super::{DeadLetter, DeadLetterEvent, load, save};
use crate::{events::Store, ids::DeadLetterId, job::StepError};

/// Discards a dead letter: it is no longer listed, and its message is deleted.
pub async fn purge(store: &Store, id: &DeadLetterId, by: &str) -> Result<(), StepError> {
    loop {
        let before = load(store, id).await?;
        let purged = DeadLetter { message: None, purged: true, ..before.value.clone() };
        if save(store, Some(&before), purged, DeadLetterEvent::Purged { by: by.to_owned() }).await? {
            return Ok(());
        }
    }
}

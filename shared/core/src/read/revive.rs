//! Messages that the queue's own tools sent back.

use super::{PageReader, pages};
use crate::{
    dead_letters::{self, DeadLetter, DeadLetterEvent, Revived},
    job::{StepError, jobs, message::PageMessage},
    ports::queue::Delivery,
    time::after,
};

/// Recognises a message that the queue's own tools redrove: SQS sends a dead message back unchanged, and
/// knows nothing of dead letters. Returns the message as it must be handled, redriven once more and with a
/// deadline of its own; `None` for a message that is only late.
pub async fn revived(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
) -> Result<Option<PageMessage>, StepError> {
    let id = dead_letters::page_dead_letter_id(&message.job_id, message.page_id);
    loop {
        let Some(kept) = dead_letters::find(&reader.store, &id).await? else { return Ok(None) };
        let dead_letter = &kept.value;
        let as_it_stands = |revived: Revived| PageMessage {
            redrive_count: revived.redrive_count,
            deadline: revived.deadline,
            ..message.clone()
        };
        if let Some(revived) = dead_letter.revived {
            return Ok(Some(as_it_stands(revived)));
        }
        // A receive count that continues from before was never redriven. Neither was a copy of a message that
        // we gave up ourselves: the queue's own dead-letter queue has only those delivered too often.
        let queue_has_it = dead_letter.receive_count >= reader.settings.max_receive_count;
        if !dead_letter.is_waiting() || !queue_has_it || delivery.receive_count > dead_letter.receive_count {
            return Ok(None);
        }
        let job = jobs::load(&reader.store, &message.job_id).await?.value;
        if job.is_over() && !job.is_healable() {
            return Ok(None);
        }
        let page = pages::find(&reader.store, &message.job_id, message.page_id).await?;
        let now = reader.store.clock.now();
        let revived = Revived {
            redrive_count: page
                .map_or(0, |kept| kept.value.redrive_count)
                .max(dead_letter.redrive_count)
                .max(message.redrive_count)
                + 1,
            deadline: after(now, job.received.options.job_timeout()),
        };
        let marked = DeadLetter {
            redriven_at: Some(now),
            revived: Some(revived),
            message: None,
            ..dead_letter.clone()
        };
        if dead_letters::save(
            &reader.store,
            Some(&kept),
            marked,
            DeadLetterEvent::Redriven { by: "queue".into(), revived: Some(revived) },
        )
        .await?
        {
            return Ok(Some(as_it_stands(revived)));
        }
    }
}

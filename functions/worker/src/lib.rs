//! The worker function: processes page messages. The messages of a batch are processed concurrently, and
//! a failing one does not fail the others.

use std::{sync::Arc, time::Duration};

use aws_lambda_events::{
    event::sqs::SqsEvent,
    sqs::{BatchItemFailure, SqsBatchResponse, SqsMessage},
};
use everypage_aws::SqsQueue;
use everypage_core::{
    app::App,
    ports::queue::{Delivery, Receipt},
    read::dispatch::{Disposition, dispatch_until, send_copy},
    time::{after, until, within},
};
use futures::future::join_all;
use jiff::Timestamp;
use tracing::warn;

/// Time reserved at the end of an invocation to report unfinished messages, so that finished ones are
/// not delivered again.
const REPORT_RESERVE: Duration = Duration::from_secs(5);

/// Time reserved before that to store the outcome of the last model call.
const STORE_RESERVE: Duration = Duration::from_secs(5);

/// Processes a batch for at most `time`. The response lists messages that are not done: SQS delivers them
/// again when their visibility timeout expires, and moves them to the dead-letter queue after three
/// deliveries.
pub async fn handle(app: &Arc<App>, queue: &SqsQueue, batch: SqsEvent, time: Duration) -> SqsBatchResponse {
    let deliveries: Vec<Delivery> =
        batch.records.into_iter().map(|message| delivery(queue, message)).collect();
    let end = after(app.store.clock.now(), time.saturating_sub(REPORT_RESERVE));
    let Batch { suspect, others } = Batch::new(deliveries);
    let mut response = SqsBatchResponse::default();
    let mut report = |delivery: &Delivery, is_done: bool| {
        if !is_done {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = delivery.id.clone();
            response.batch_item_failures.push(failure);
        }
    };
    match suspect {
        // The others first become messages that a crash of this invocation does not count for.
        Some(suspect) => {
            for delivery in &others {
                report(delivery, send_again(app, delivery).await);
            }
            report(&suspect, process(app.clone(), suspect.clone(), end).await);
        }
        None => {
            let processed = others.iter().map(|delivery| process(app.clone(), delivery.clone(), end));
            for (delivery, is_done) in others.iter().zip(join_all(processed).await) {
                report(delivery, is_done);
            }
        }
    }
    response
}

/// The messages of a batch, by whether one may be what crashed an earlier invocation.
struct Batch {
    /// Processed alone: if the function crashes then, it was this one.
    suspect: Option<Delivery>,
    others: Vec<Delivery>,
}

impl Batch {
    fn new(mut deliveries: Vec<Delivery>) -> Self {
        deliveries.sort_by_key(|delivery| delivery.receive_count);
        let suspect = deliveries.pop_if(|last| last.receive_count > 1);
        Self { suspect, others: deliveries }
    }
}

/// Sends a message again as a new one and deletes it; returns whether that is done.
async fn send_again(app: &App, delivery: &Delivery) -> bool {
    match send_copy(&app.reader, delivery).await {
        Ok(()) => {
            if let Err(fault) = app.queue.delete(&delivery.receipt).await {
                warn!(%fault, message = delivery.id, "message not deleted, it is delivered twice");
            }
            true
        }
        Err(fault) => {
            warn!(%fault, message = delivery.id, "message not sent again");
            false
        }
    }
}

fn delivery(queue: &SqsQueue, message: SqsMessage) -> Delivery {
    let source = message.event_source_arn.unwrap_or_default();
    let count = message.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse().ok());
    Delivery {
        id: message.message_id.unwrap_or_default(),
        receipt: SqsQueue::receipt(&source, &message.receipt_handle.unwrap_or_default()),
        lane: queue.lane_of(&source),
        body: message.body.unwrap_or_default(),
        receive_count: count.unwrap_or(1),
    }
}

/// Processes a message; returns whether it is done. For one that is not, the visibility timeout decides
/// when it is delivered again.
async fn process(app: Arc<App>, delivery: Delivery, end: Timestamp) -> bool {
    let time = until(app.store.clock.now(), end);
    let leave_by = end.saturating_sub(STORE_RESERVE).unwrap_or(end);
    // Lambda requires that the queue hides a message for as long as the function may run. A worker that
    // dies would hide it from the others for that long: so it is hidden for a short time only, which is
    // extended while it is processed.
    hide(&app, &delivery.receipt, app.settings.page_visibility).await;
    let work = {
        let (app, delivery) = (app.clone(), delivery.clone());
        // In a separate task: a panic is a bug, and costs this delivery and no other.
        tokio::spawn(async move { dispatch_until(&app.reader, &delivery, leave_by).await })
    };
    let task = work.abort_handle();
    match within(app.store.clock.as_ref(), time, work).await {
        Some(Ok(Disposition::Done)) => {
            // Lambda deletes it when the whole batch has ended: by then it would be visible again.
            if let Err(fault) = app.queue.delete(&delivery.receipt).await {
                warn!(%fault, message = delivery.id, "message not deleted before the end of its batch");
            }
            true
        }
        Some(Ok(Disposition::Later(pause))) => {
            hide(&app, &delivery.receipt, pause).await;
            false
        }
        Some(Err(error)) => {
            warn!(%error, message = delivery.id, "page worker panicked");
            false
        }
        None => {
            // It is delivered again when its visibility timeout and the page's lease have expired.
            task.abort();
            warn!(message = delivery.id, "out of time, message returned to the queue");
            false
        }
    }
}

async fn hide(app: &App, receipt: &Receipt, time: Duration) {
    if let Err(fault) = app.queue.extend(receipt, time).await {
        warn!(%fault, "visibility not set");
    }
}

//! Page messages from the lanes. The messages of one batch are worked on at once, and one that
//! fails does not fail the others.

use std::{sync::Arc, time::Duration};

use aws_lambda_events::{
    event::sqs::SqsEvent,
    sqs::{BatchItemFailure, SqsBatchResponse, SqsMessage},
};
use everypage_aws::SqsQueue;
use everypage_core::{
    app::App,
    ports::{
        clock::{after, within},
        queue::{Delivery, Receipt},
    },
    usecases::dispatch::{Disposition, dispatch_until},
};
use futures::future::join_all;
use jiff::Timestamp;
use tracing::warn;

/// What is left of an invocation's time when unfinished messages are handed back, so that finished
/// ones are reported and not delivered again.
const TO_REPORT: Duration = Duration::from_secs(5);

/// What is left of it when calls are cut off at last.
const TO_STORE: Duration = Duration::from_secs(5);

/// Works on a batch for at most `time`. Messages that are not done are named in the answer: SQS
/// delivers them again once their visibility has run out, after three times into the dead letters.
pub async fn handle(app: &Arc<App>, queue: &SqsQueue, batch: SqsEvent, time: Duration) -> SqsBatchResponse {
    let deliveries: Vec<Delivery> =
        batch.records.into_iter().map(|message| delivery(queue, message)).collect();
    let time = time.saturating_sub(TO_REPORT);
    // What the last call brought has to be stored.
    let leave_by = after(app.clock.now(), time.saturating_sub(TO_STORE));
    let worked = deliveries.iter().map(|delivery| attend(app.clone(), delivery.clone(), leave_by, time));
    let mut response = SqsBatchResponse::default();
    for (delivery, done) in deliveries.iter().zip(join_all(worked).await) {
        if !done {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = delivery.id.clone();
            response.batch_item_failures.push(failure);
        }
    }
    response
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

/// Whether the message is done; one that is not has been told when it comes back.
async fn attend(app: Arc<App>, delivery: Delivery, leave_by: Timestamp, time: Duration) -> bool {
    // Lambda demands that the queue hides a message for as long as the function may run. A worker
    // that dies would keep it from everybody for that long: so it is hidden for a short while only,
    // and again and again while it is worked on.
    hide(&app, &delivery.receipt, app.settings.page_visibility).await;
    let work = {
        let (app, delivery) = (app.clone(), delivery.clone());
        // A task of its own: should it panic, that is a bug which costs this delivery and no other.
        tokio::spawn(async move { dispatch_until(&app, &delivery, leave_by).await })
    };
    let stop = work.abort_handle();
    match within(app.clock.as_ref(), time, work).await {
        Some(Ok(Disposition::Done)) => {
            // Lambda does so when the whole batch is over: by then this one would be visible again.
            if let Err(fault) = app.queue.delete(&delivery.receipt).await {
                warn!(%fault, message = delivery.id, "message not deleted before its batch is over");
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
            // It comes back when its visibility, and the page's lease with it, has run out.
            stop.abort();
            warn!(message = delivery.id, "out of time, page goes back to the queue");
            false
        }
    }
}

async fn hide(app: &App, receipt: &Receipt, time: Duration) {
    if let Err(fault) = app.queue.extend(receipt, time).await {
        warn!(%fault, "visibility not set");
    }
}

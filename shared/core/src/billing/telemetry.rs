//! Metrics of credits and purchases.

use super::{
    account::AccountEvent,
    purchase::{Purchase, PurchaseEvent},
};
use crate::{telemetry::metrics::*, time::until};

/// Records account events that were stored with those of a job.
pub(crate) fn credits_changed(events: &[AccountEvent]) {
    for event in events {
        match event {
            AccountEvent::Reserved { credits, .. } => CREDITS_RESERVED.count([], *credits),
            AccountEvent::Settled { credits, .. } => CREDITS_SETTLED.count([], *credits),
            _ => {}
        }
    }
}

/// Records stored events of a purchase.
pub(crate) fn purchase_changed(after: &Purchase, events: &[PurchaseEvent]) {
    for event in events {
        match event {
            PurchaseEvent::UndoDone { .. } => SAGA_COMPENSATIONS.count(["done".into()], 1),
            PurchaseEvent::UndoFailed { again: None, .. } => SAGA_COMPENSATIONS.count(["stuck".into()], 1),
            _ => {}
        }
    }
    if let Some(ended) = after.ended_at {
        let time = until(after.started_at, ended).as_secs_f64();
        SAGA_DURATION.record([after.state.name().into()], time);
    }
}

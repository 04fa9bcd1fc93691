//! Metrics of credits.

use super::account::AccountEvent;
use crate::telemetry::metrics::{CREDITS_RESERVED, CREDITS_SETTLED};

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

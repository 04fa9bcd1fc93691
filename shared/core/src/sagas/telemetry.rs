//! Metrics of sagas.

use super::{
    definition::SagaStep,
    progress::{Progress, SagaEvent},
};
use crate::{
    telemetry::metrics::{SAGA_COMPENSATIONS, SAGA_DURATION},
    time::until,
};

/// Records stored events of a saga.
pub(crate) fn changed<'a, S: SagaStep>(
    after: &Progress<S>,
    events: impl IntoIterator<Item = &'a SagaEvent<S>>,
) {
    let kind = S::definition().kind;
    let count = |result: &'static str| SAGA_COMPENSATIONS.count([kind.into(), result.into()], 1);
    for event in events {
        match event {
            SagaEvent::UndoDone { .. } => count("done"),
            SagaEvent::UndoFailed { again: None, .. } => count("stuck"),
            _ => {}
        }
    }
    if let Some(ended) = after.ended_at {
        let time = until(after.started_at, ended).as_secs_f64();
        SAGA_DURATION.record([kind.into(), after.state.name().into()], time);
    }
}

//! Failures under names that `statemachine.asl.json` knows: it decides by them what is tried again.

use everypage_core::{domain::job::Failure, usecases::StepError};
use lambda_runtime::Diagnostic;
use serde::Deserialize;

/// Stable: a name is part of the state machine, and of what operators look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The document itself can't be processed; trying again would end the same way.
    DocumentError,
    /// Something that must be there is not; trying again would end the same way.
    StepBroken,
    /// Our own storage or network; worth trying again.
    InternalFault,
}

impl Name {
    pub const ALL: [Self; 3] = [Self::DocumentError, Self::StepBroken, Self::InternalFault];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::DocumentError => "DocumentError",
            Self::StepBroken => "StepBroken",
            Self::InternalFault => "InternalFault",
        }
    }
}

/// A step that did not get done, as the state machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStep {
    pub name: Name,
    pub code: String,
    pub reason: String,
}

impl FailedStep {
    /// An event that no version of this function understands.
    pub fn unknown_event(error: impl std::fmt::Display) -> Self {
        Self { name: Name::StepBroken, code: "unknown_event".into(), reason: error.to_string() }
    }

    /// The failure behind what a `Catch` of the state machine was told: one of ours as it was, or
    /// whatever else happened (a timeout, a function that was killed) in its own words.
    pub fn read(error: &str, cause: &str) -> Failure {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Told {
            error_message: String,
        }
        let told = serde_json::from_str::<Told>(cause).map(|told| told.error_message).ok();
        let ours = Name::ALL.iter().any(|name| name.as_str() == error);
        match told.as_deref().and_then(|told| told.split_once(": ")).filter(|_| ours) {
            Some((code, reason)) => Failure { code: code.to_owned(), reason: reason.to_owned() },
            None => Failure {
                code: "step_failed".into(),
                reason: format!("{error}: {}", told.unwrap_or_else(|| cause.to_owned())),
            },
        }
    }
}

impl From<StepError> for FailedStep {
    fn from(error: StepError) -> Self {
        let name = match error {
            StepError::Document(_) => Name::DocumentError,
            StepError::Broken { .. } => Name::StepBroken,
            StepError::Fault(_) => Name::InternalFault,
        };
        Self { name, code: error.code().to_owned(), reason: error.to_string() }
    }
}

impl From<FailedStep> for Diagnostic {
    fn from(failed: FailedStep) -> Self {
        Self {
            error_type: failed.name.as_str().to_owned(),
            error_message: format!("{}: {}", failed.code, failed.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use everypage_core::ports::{Fault, pdf::PdfError};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_goes_through_the_state_machine_and_comes_out_as_it_was() {
        let errors = [
            (StepError::Document(PdfError::PasswordWrong), "DocumentError"),
            (
                StepError::Broken { code: "source_missing", reason: "it is gone: all of it".into() },
                "StepBroken",
            ),
            (StepError::Fault(Fault::unreachable("S3", "no route")), "InternalFault"),
        ];
        for (error, name) in errors {
            let (code, reason) = (error.code().to_owned(), error.to_string());
            let diagnostic = Diagnostic::from(FailedStep::from(error));
            assert_eq!(diagnostic.error_type, name);
            // What Lambda hands to Step Functions as the cause.
            let cause = serde_json::to_string(&diagnostic).unwrap();
            assert_eq!(FailedStep::read(&diagnostic.error_type, &cause), Failure { code, reason });
        }
    }

    #[test]
    fn what_others_say_is_kept_in_their_words() {
        let killed = json!({"errorType": "Runtime.ExitError", "errorMessage": "RequestId: 1 Error: killed"});
        let failure = FailedStep::read("Runtime.ExitError", &killed.to_string());
        assert_eq!(failure.code, "step_failed");
        assert_eq!(failure.reason, "Runtime.ExitError: RequestId: 1 Error: killed");
        assert_eq!(FailedStep::read("States.Timeout", "").reason, "States.Timeout: ");
        assert_eq!(FailedStep::read("DocumentError", "no json").code, "step_failed");
    }
}

//! Failures under the error names of `statemachine.asl.json`, which decide what it retries.

use everypage_core::job::{Failure, Job, StepCode, StepError};
use lambda_runtime::Diagnostic;
use serde::Deserialize;
use strum::VariantArray;

/// Stable: the state machine and operators' queries refer to these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
pub enum ErrorName {
    /// The document itself can't be processed; a retry would end the same way.
    DocumentError,
    /// Something that the step needs is missing; a retry would end the same way.
    StepBroken,
    /// Storage or network failed; worth a retry.
    InternalFault,
    /// The document was not opened before its deadline, and finalize can't open it: intake does.
    NotOpened,
    /// The result waits for OCR of pages that no AI has read.
    JobNeedsOcr,
    /// The job was not ended, because its deadline was moved: it continues.
    JobStillOpen,
}

impl ErrorName {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A step that failed, as the state machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStep {
    pub name: ErrorName,
    pub code: String,
    pub reason: String,
}

impl FailedStep {
    /// The event has a shape that this function does not know.
    pub fn unknown_event(error: impl std::fmt::Display) -> Self {
        Self { name: ErrorName::StepBroken, code: "unknown_event".into(), reason: error.to_string() }
    }

    /// Pages are left for OCR, and there is time.
    pub fn needs_ocr(job: &Job) -> Self {
        let reason = format!("job {} has time until {} to recognize pages", job.id, job.deadline);
        Self { name: ErrorName::JobNeedsOcr, code: "needs_ocr".into(), reason }
    }

    /// The job's deadline was moved just before it passed.
    pub fn still_open(job: &Job) -> Self {
        let reason = format!("job {} has time until {}", job.id, job.deadline);
        Self { name: ErrorName::JobStillOpen, code: "still_open".into(), reason }
    }

    /// Converts the input of a `Catch` of the state machine: a failed step back to its failure, and
    /// anything else (a timeout, a function that was killed) to `step_failed` with its message.
    pub fn read(error: &str, cause: &str) -> Failure {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cause {
            error_message: String,
        }
        let message = serde_json::from_str::<Cause>(cause).map(|cause| cause.error_message).ok();
        let is_failed_step = ErrorName::ALL.iter().any(|name| name.as_str() == error);
        match message.as_deref().and_then(|message| message.split_once(": ")).filter(|_| is_failed_step) {
            Some((code, reason)) => Failure { code: code.to_owned(), reason: reason.to_owned() },
            None => Failure {
                code: "step_failed".into(),
                reason: format!("{error}: {}", message.unwrap_or_else(|| cause.to_owned())),
            },
        }
    }
}

impl From<StepError> for FailedStep {
    fn from(error: StepError) -> Self {
        let name = match error {
            StepError::Document(_) => ErrorName::DocumentError,
            StepError::Broken { code: StepCode::NotOpened, .. } => ErrorName::NotOpened,
            StepError::Broken { .. } => ErrorName::StepBroken,
            StepError::Fault(_) => ErrorName::InternalFault,
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
    use everypage_core::{
        job::StepCode,
        ports::{Fault, pdf::PdfError},
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_passes_through_the_state_machine_unchanged() {
        let errors = [
            (StepError::Document(PdfError::PasswordWrong), "DocumentError"),
            (
                StepError::Broken { code: StepCode::SourceMissing, reason: "it is gone: all of it".into() },
                "StepBroken",
            ),
            (StepError::Fault(Fault::unreachable("S3", "no route")), "InternalFault"),
        ];
        for (error, name) in errors {
            let (code, reason) = (error.code().to_owned(), error.to_string());
            let diagnostic = Diagnostic::from(FailedStep::from(error));
            assert_eq!(diagnostic.error_type, name);
            // Lambda passes this to Step Functions as the cause.
            let cause = serde_json::to_string(&diagnostic).unwrap();
            assert_eq!(FailedStep::read(&diagnostic.error_type, &cause), Failure { code, reason });
        }
    }

    #[test]
    fn other_errors_keep_their_message() {
        let killed = json!({"errorType": "Runtime.ExitError", "errorMessage": "RequestId: 1 Error: killed"});
        let failure = FailedStep::read("Runtime.ExitError", &killed.to_string());
        assert_eq!(failure.code, "step_failed");
        assert_eq!(failure.reason, "Runtime.ExitError: RequestId: 1 Error: killed");
        assert_eq!(FailedStep::read("States.Timeout", "").reason, "States.Timeout: ");
        assert_eq!(FailedStep::read("DocumentError", "no json").code, "step_failed");
    }
}

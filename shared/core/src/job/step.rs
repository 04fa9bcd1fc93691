//! Why a step of a job did not get done.

use serde::Serialize;

use crate::{
    billing::account::Refused,
    job::{Illegal, jobs::JobError},
    ports::{Fault, pdf::PdfError},
    telemetry::spans::ErrorCode,
};

/// Why a step can't succeed, as a stable name for scripts and the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum StepCode {
    /// The tenant's account is in no state for this.
    Account,
    ContextMissing,
    /// The document could not be opened before its deadline.
    Deadline,
    /// A panic, which is a bug.
    Defect,
    Encoding,
    IllegalTransition,
    ImageMissing,
    /// A job that has not ended can't be deleted.
    JobIsOpen,
    Manifest,
    NoSuchPages,
    NotEnoughCredits,
    NotPrepared,
    NothingToHeal,
    Result,
    SourceMissing,
    StoredImages,
    StoredText,
    TooManyCredits,
    UnknownDeadLetter,
    UnknownJob,
    UnreadableMessage,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The document itself can't be processed; trying again would end the same way.
    #[error("{0}")]
    Document(PdfError),
    /// Something that must be there is not: the job can't go on.
    #[error("{reason}")]
    Broken { code: StepCode, reason: String },
    /// Our own storage or network; may be gone the next time.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl ErrorCode for StepError {
    fn code(&self) -> &'static str {
        Self::code(self)
    }
}

impl StepError {
    /// A stable name for scripts and the state machine.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Document(error) => error.code(),
            Self::Broken { code, .. } => code.into(),
            Self::Fault(_) => "internal",
        }
    }
}

impl From<PdfError> for StepError {
    fn from(error: PdfError) -> Self {
        match error {
            // Our side's fault, not the document's.
            PdfError::Unavailable(detail) => Self::Fault(Fault::ParserUnavailable { detail }),
            error => Self::Document(error),
        }
    }
}

impl From<Illegal> for StepError {
    fn from(error: Illegal) -> Self {
        Self::Broken { code: StepCode::IllegalTransition, reason: error.to_string() }
    }
}

impl From<Refused> for StepError {
    fn from(refused: Refused) -> Self {
        let code = match refused {
            Refused::NotEnough { .. } => StepCode::NotEnoughCredits,
            Refused::TooMany { .. } => StepCode::TooManyCredits,
            Refused::Missing { .. } => StepCode::Account,
        };
        Self::Broken { code, reason: refused.to_string() }
    }
}

impl From<JobError> for StepError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Unknown(id) => {
                Self::Broken { code: StepCode::UnknownJob, reason: format!("there is no job {id}") }
            }
            JobError::Illegal(illegal) => illegal.into(),
            JobError::Credits(refused) => refused.into(),
            JobError::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// The JSON of a value that becomes a blob.
pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>, StepError> {
    serde_json::to_vec(value)
        .map_err(|error| StepError::Broken { code: StepCode::Encoding, reason: error.to_string() })
}

//! Errors of the steps of a job.

use serde::Serialize;

use crate::{
    billing::account::Refused,
    job::{Illegal, jobs::JobError},
    ports::{Fault, pdf::PdfError},
    telemetry::spans::ErrorCode,
};

/// Why a step can't succeed: a stable name for programs and the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum StepCode {
    /// The tenant's account does not have the expected reservation.
    Account,
    ContextMissing,
    /// A panic, which is a bug.
    Defect,
    Encoding,
    IllegalTransition,
    ImageMissing,
    /// The job has not ended, so it can't be deleted.
    JobIsOpen,
    Manifest,
    NoSuchPages,
    NotEnoughCredits,
    /// The document was not opened before its deadline, and this process has no parser.
    NotOpened,
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
    /// The document can't be processed; a retry would fail in the same way.
    #[error("{0}")]
    Document(PdfError),
    /// Stored data is missing or invalid, or the operation is not allowed; a retry would fail in the same way.
    #[error("{reason}")]
    Broken { code: StepCode, reason: String },
    /// A failure of storage, network or the parser process; a retry may succeed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl ErrorCode for StepError {
    fn code(&self) -> &'static str {
        Self::code(self)
    }
}

impl StepError {
    /// The stable name for programs and the state machine.
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
            // The parser failed, not the document.
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

/// Encodes a value as the JSON of a blob.
pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>, StepError> {
    serde_json::to_vec(value)
        .map_err(|error| StepError::Broken { code: StepCode::Encoding, reason: error.to_string() })
}

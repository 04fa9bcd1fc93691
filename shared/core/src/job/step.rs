//! Why a step of a job did not get done.

use crate::{
    billing::account::Refused,
    job::{Illegal, jobs::JobError},
    ports::{Fault, pdf::PdfError},
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The document itself can't be processed; trying again would end the same way.
    #[error("{0}")]
    Document(PdfError),
    /// Something that must be there is not: the job can't go on.
    #[error("{reason}")]
    Broken { code: &'static str, reason: String },
    /// Our own storage or network; may be gone the next time.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl StepError {
    /// A stable name for scripts and the state machine.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Document(error) => error.code(),
            Self::Broken { code, .. } => code,
            Self::Fault(_) => "internal",
        }
    }
}

impl From<PdfError> for StepError {
    fn from(error: PdfError) -> Self {
        match error {
            // Our side's fault, not the document's.
            PdfError::Unavailable(detail) => Self::Fault(Fault::Unreachable { service: "pdf", detail }),
            error => Self::Document(error),
        }
    }
}

impl From<Illegal> for StepError {
    fn from(error: Illegal) -> Self {
        Self::Broken { code: "illegal_transition", reason: error.to_string() }
    }
}

impl From<Refused> for StepError {
    fn from(refused: Refused) -> Self {
        let code = match refused {
            Refused::NotEnough { .. } => "not_enough_credits",
            Refused::TooMany { .. } => "too_many_credits",
            Refused::Missing { .. } => "account",
        };
        Self::Broken { code, reason: refused.to_string() }
    }
}

impl From<JobError> for StepError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Unknown(id) => {
                Self::Broken { code: "unknown_job", reason: format!("there is no job {id}") }
            }
            JobError::Illegal(illegal) => illegal.into(),
            JobError::Credits(refused) => refused.into(),
            JobError::Fault(fault) => Self::Fault(fault),
        }
    }
}

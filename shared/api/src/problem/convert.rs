//! Errors of the core as problems.

use everypage_core::{
    billing::buy::PurchaseError,
    intake::submit::SubmitError,
    job::{StepCode, StepError, jobs::JobError},
    ports::Fault,
    tenants::administration::{ActError, TenantClosed},
};
use tracing::error;

use super::{Code, Problem};

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Throttled { retry_after, .. } => {
                let seconds = retry_after.map_or(1, |pause| pause.as_secs().max(1));
                Self::new(Code::Unavailable, "the storage is throttled; retry after the time in Retry-After")
                    .with_header("retry-after", &seconds.to_string())
            }
            Fault::Unreachable { .. } | Fault::ParserUnavailable { .. } => {
                error!(cause = %fault, "request failed");
                Self::new(Code::Unavailable, "a part of the service can't be reached; retry later")
                    .with_header("retry-after", "5")
            }
            Fault::Broken { .. } => Self::internal(fault),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::TooLarge { .. } => Self::new(Code::FileTooLarge, error.to_string()),
            SubmitError::KeyReused { .. } => Self::new(Code::IdempotencyKeyReused, error.to_string()),
            SubmitError::BadOptions(_) => Self::new(Code::BadOptions, error.to_string()),
            SubmitError::UnknownTenant(_) => Self::new(Code::UnknownTenant, error.to_string()),
            SubmitError::Closed(closed) => closed.into(),
            SubmitError::Unreadable { .. } => Self::internal(error),
            SubmitError::Fault(fault) => fault.into(),
        }
    }
}

impl From<TenantClosed> for Problem {
    fn from(closed: TenantClosed) -> Self {
        Self::new(Code::TenantClosed, closed.to_string())
    }
}

impl From<ActError> for Problem {
    fn from(error: ActError) -> Self {
        match error {
            ActError::Closed(closed) => closed.into(),
            ActError::Fault(fault) => fault.into(),
        }
    }
}

impl From<StepError> for Problem {
    fn from(error: StepError) -> Self {
        let code = match &error {
            StepError::Document(_) => Code::BadDocument,
            StepError::Fault(fault) => return fault.clone().into(),
            StepError::Broken { code, .. } => match code {
                StepCode::IllegalTransition => Code::IllegalTransition,
                StepCode::JobIsOpen => Code::JobIsOpen,
                StepCode::NothingToHeal => Code::NothingToHeal,
                StepCode::NotEnoughCredits => Code::NotEnoughCredits,
                StepCode::UnknownJob => Code::UnknownJob,
                StepCode::UnknownDeadLetter => Code::UnknownDeadLetter,
                StepCode::UnreadableMessage => Code::UnreadableMessage,
                _ => return Self::internal(error),
            },
        };
        Self::new(code, error.to_string())
    }
}

impl From<PurchaseError> for Problem {
    fn from(error: PurchaseError) -> Self {
        let code = match &error {
            PurchaseError::NotSetUp => Code::PurchasesNotAvailable,
            PurchaseError::BadAmount { .. } => return Self::invalid("credits", error.to_string()),
            PurchaseError::KeyReused { .. } => Code::IdempotencyKeyReused,
            PurchaseError::Unknown(_) => Code::UnknownPurchase,
            PurchaseError::Closed(_) => Code::TenantClosed,
            PurchaseError::NotAllowed(_) => Code::IllegalTransition,
            PurchaseError::Fault(fault) => return fault.clone().into(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        StepError::from(error).into()
    }
}

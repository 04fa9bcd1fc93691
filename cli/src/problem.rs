//! Why a command failed, as a message for people.

use std::{io, path::Path};

use everypage_core::{
    intake::submit::SubmitError,
    job::{StepError, jobs::JobError},
    ports::Fault,
    tenants::administration::ActError,
};
use everypage_local::OpenError;
use everypage_serve::ServeError;

use crate::exit::Exit;

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The command line or a setting is wrong.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
    /// The user cancelled it.
    #[error("{0}")]
    Cancelled(String),
}

impl Problem {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Failed(_) => Exit::Failed,
            Self::Cancelled(_) => Exit::Cancelled,
        }
    }

    /// The AWS backend was requested from a build without it.
    #[cfg(not(feature = "aws"))]
    pub fn without_aws() -> Self {
        Self::Usage(
            "this build has no AWS backend; build one with `cargo build --release --package everypage \
             --features aws`, or run `./everypage --backend aws …` in a checkout, which builds it"
                .into(),
        )
    }

    /// A file that can't be written.
    pub fn unwritable(path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("{} can't be written: {error}", path.display()))
    }
}

macro_rules! failed_from {
    ($($error:ty),+) => {$(
        impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                Self::Failed(error.to_string())
            }
        }
    )+};
}

failed_from!(Fault, SubmitError, JobError, OpenError, serde_json::Error);

impl From<ServeError> for Problem {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Open(_) | ServeError::Address { .. } => Self::Usage(error.to_string()),
            ServeError::Backend(error) => error.into(),
            ServeError::Fault(fault) => fault.into(),
        }
    }
}

#[cfg(feature = "aws")]
impl From<everypage_aws::StackError> for Problem {
    fn from(error: everypage_aws::StackError) -> Self {
        use everypage_aws::StackError;
        match error {
            StackError::Settings(_) | StackError::Unknown { .. } => Self::Usage(error.to_string()),
            StackError::Fault(fault) => fault.into(),
        }
    }
}

impl From<ActError> for Problem {
    fn from(error: ActError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<StepError> for Problem {
    fn from(error: StepError) -> Self {
        Self::Failed(match error {
            // The code is for programs.
            StepError::Broken { reason, .. } => reason,
            error => error.to_string(),
        })
    }
}

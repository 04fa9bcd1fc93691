//! Exit codes.

use everypage_core::job::{Job, ResultMetadata, Status};

/// Ordered by severity: with several documents the most severe one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Every page has the text that was planned for it.
    Complete,
    /// Some page has its own text instead of a model's, or the deadline was reached.
    Fallback,
    /// Some page has no text at all.
    Missing,
    /// A document or the command failed.
    Failed,
    Cancelled,
    /// Wrong usage or settings; nothing was done.
    Usage,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Fallback => 3,
            Self::Missing => 4,
            Self::Cancelled => 130,
        }
    }

    /// The exit code of an ended job.
    pub fn of(job: &Job) -> Self {
        match (job.status(), &job.result) {
            (Status::Cancelled, _) => Self::Cancelled,
            (Status::Success, Some(result)) => Self::of_result(&result.metadata),
            _ => Self::Failed,
        }
    }

    fn of_result(metadata: &ResultMetadata) -> Self {
        if metadata.missing_pages > 0 {
            Self::Missing
        } else if metadata.mupdf_fallback_count > 0 || metadata.timeout_occurred {
            Self::Fallback
        } else {
            Self::Complete
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_severe_document_wins() {
        use Exit::*;
        for (all, expected) in [
            (vec![Complete, Complete], 0),
            (vec![Complete, Fallback], 3),
            (vec![Missing, Fallback], 4),
            (vec![Missing, Failed, Complete], 1),
            (vec![Cancelled, Failed], 130),
        ] {
            assert_eq!(all.iter().max().map(|exit| exit.code()), Some(expected), "{all:?}");
        }
    }

    #[test]
    fn the_worst_page_decides() {
        let with = |missing_pages, fallbacks, timeout_occurred| {
            Exit::of_result(&ResultMetadata {
                missing_pages,
                mupdf_fallback_count: fallbacks,
                timeout_occurred,
                ..ResultMetadata::default()
            })
        };
        assert_eq!(with(0, 0, false), Exit::Complete);
        assert_eq!(with(0, 2, false), Exit::Fallback);
        assert_eq!(with(0, 0, true), Exit::Fallback);
        assert_eq!(with(1, 1, true), Exit::Missing);
    }
}

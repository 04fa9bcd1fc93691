//! The lanes of the parser pool: text of any document before images, images before what can wait longer.

use everypage_core::ports::pdf::{ReadOptions, RenderPages};

/// The purpose of a parser process, in order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Lane {
    /// Opening a document and reading its text: without it there is no result.
    Text,
    /// Rendering images: without one, a page still has its text.
    Images,
}

impl Lane {
    pub fn of(options: &ReadOptions) -> Self {
        match options.render {
            RenderPages::None => Self::Text,
            RenderPages::Graphics | RenderPages::All => Self::Images,
        }
    }

    /// The nice value of a process in this lane, so that text has the processor first too.
    pub fn nice(self) -> i32 {
        match self {
            Self::Text => 0,
            Self::Images => 5,
        }
    }
}

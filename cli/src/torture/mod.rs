//! Any folder of PDFs through the reading that a job does, and how each of them ends.
//!
//! ```text
//! dev torture ──> a process per file ──> IsolatedPdf ──> a parser's process
//!  watches time    (dev torture-file)     (as in a job)   (as in a job)
//!  and memory
//! ```
//!
//! The process in the middle is there so that a mistake of our own, which in a job would take the
//! whole program down, costs one file here and is told.

mod end;
mod file;
mod folder;
mod read;
mod report;
mod watch;

pub use end::{End, Ended, Order, Told};
pub use file::put_through;
pub use folder::pdfs_in;
pub use read::read;
pub use report::Report;

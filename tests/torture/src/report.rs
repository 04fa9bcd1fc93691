//! The totals of all files.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    human,
    outcome::{FileReport, Outcome},
};

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub counts: Counts,
    pub files: Vec<FileReport>,
}

#[derive(Debug, Default, Serialize)]
pub struct Counts {
    pub files: u64,
    pub text: u64,
    pub errors: u64,
    pub defects: u64,
    /// Errors by code.
    pub errors_by_code: BTreeMap<String, u64>,
    /// Contained, so not defects: parsers that crashed, or were stopped when a page reached its timeout.
    pub parsers_crashed: u64,
    pub files_with_crashes: u64,
    pub parsers_timed_out: u64,
    pub files_with_timeouts: u64,
    /// Files whose reading the time limit ended, as a job's deadline would.
    pub files_cut: u64,
    pub pages: u64,
    pub pages_unreadable: u64,
    pub characters: u64,
    pub images: u64,
    pub max_own_bytes: u64,
    pub max_parser_bytes: u64,
    pub max_milliseconds: u64,
}

impl Report {
    pub fn add(&mut self, file: FileReport) {
        let counts = &mut self.counts;
        counts.files += 1;
        match &file.outcome {
            Outcome::Text(pages) => {
                counts.text += 1;
                counts.files_cut += u64::from(pages.cut);
                counts.pages += u64::from(pages.read);
                counts.pages_unreadable += u64::from(pages.unreadable);
                counts.characters += pages.characters;
                counts.images += u64::from(pages.images);
            }
            Outcome::Error { code, .. } => {
                counts.errors += 1;
                *counts.errors_by_code.entry(code.clone()).or_default() += 1;
            }
            Outcome::Defect { .. } => counts.defects += 1,
        }
        counts.parsers_crashed += file.losses.crashed;
        counts.files_with_crashes += u64::from(file.losses.crashed > 0);
        counts.parsers_timed_out += file.losses.timed_out;
        counts.files_with_timeouts += u64::from(file.losses.timed_out > 0);
        counts.max_own_bytes = counts.max_own_bytes.max(file.own_bytes);
        counts.max_parser_bytes = counts.max_parser_bytes.max(file.parser_bytes);
        counts.max_milliseconds = counts.max_milliseconds.max(file.milliseconds);
        self.files.push(file);
    }

    pub fn defects(&self) -> impl Iterator<Item = &FileReport> {
        self.files.iter().filter(|file| matches!(file.outcome, Outcome::Defect { .. }))
    }

    /// A few lines for people.
    pub fn summary(&self) -> String {
        let Counts { files, text, errors, defects, .. } = self.counts;
        let Counts { parsers_crashed, files_with_crashes, parsers_timed_out, files_with_timeouts, .. } =
            self.counts;
        let counts = &self.counts;
        let by_code: Vec<String> =
            counts.errors_by_code.iter().map(|(code, count)| format!("{count} {code}")).collect();
        let lines = [
            format!(
                "{}: {text} with text, {errors} with a clear error, {}",
                human::count(files, "file", "files"),
                human::count(defects, "defect", "defects")
            ),
            format!(
                "text       {} pages ({} of them unreadable), {} characters, {} images",
                counts.pages, counts.pages_unreadable, counts.characters, counts.images
            ),
            format!("errors     {}", if by_code.is_empty() { "none".into() } else { by_code.join(", ") }),
            format!(
                "contained  {parsers_crashed} crashes of a parser in {files_with_crashes} files, \
                 {parsers_timed_out} pages or openings timed out in {files_with_timeouts}, \
                 {} files ended by the time limit",
                counts.files_cut
            ),
            format!(
                "maximum    {} of memory in a parser, {} in the program itself, {} for a file",
                human::megabytes(counts.max_parser_bytes),
                human::megabytes(counts.max_own_bytes),
                human::duration(std::time::Duration::from_millis(counts.max_milliseconds))
            ),
        ];
        lines.join("\n")
    }
}

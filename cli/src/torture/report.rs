//! What came of all files together.

use std::collections::BTreeMap;

use serde::Serialize;

use super::end::{End, Ended};
use crate::human;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub counts: Counts,
    pub files: Vec<Ended>,
}

#[derive(Debug, Default, Serialize)]
pub struct Counts {
    pub files: u64,
    pub text: u64,
    pub errors: u64,
    pub defects: u64,
    /// Errors by their names.
    pub errors_by_code: BTreeMap<String, u64>,
    /// Contained, so no defects: parsers that crashed, or were stopped at a page that took too long.
    pub parsers_crashed: u64,
    pub files_with_crashes: u64,
    pub parsers_timed_out: u64,
    pub files_with_timeouts: u64,
    /// Files whose reading was cut at the time limit, as by a job's deadline.
    pub files_cut: u64,
    pub pages: u64,
    pub pages_unreadable: u64,
    pub characters: u64,
    pub images: u64,
    pub most_own_bytes: u64,
    pub most_parser_bytes: u64,
    pub longest_milliseconds: u64,
}

impl Report {
    pub fn add(&mut self, ended: Ended) {
        let counts = &mut self.counts;
        counts.files += 1;
        match &ended.end {
            End::Text(pages) => {
                counts.text += 1;
                counts.files_cut += u64::from(pages.cut);
                counts.pages += u64::from(pages.read);
                counts.pages_unreadable += u64::from(pages.unreadable);
                counts.characters += pages.characters;
                counts.images += u64::from(pages.images);
            }
            End::Error { code, .. } => {
                counts.errors += 1;
                *counts.errors_by_code.entry(code.clone()).or_default() += 1;
            }
            End::Defect { .. } => counts.defects += 1,
        }
        counts.parsers_crashed += ended.losses.crashed;
        counts.files_with_crashes += u64::from(ended.losses.crashed > 0);
        counts.parsers_timed_out += ended.losses.timed_out;
        counts.files_with_timeouts += u64::from(ended.losses.timed_out > 0);
        counts.most_own_bytes = counts.most_own_bytes.max(ended.own_bytes);
        counts.most_parser_bytes = counts.most_parser_bytes.max(ended.parser_bytes);
        counts.longest_milliseconds = counts.longest_milliseconds.max(ended.milliseconds);
        self.files.push(ended);
    }

    pub fn defects(&self) -> impl Iterator<Item = &Ended> {
        self.files.iter().filter(|ended| matches!(ended.end, End::Defect { .. }))
    }

    /// For people.
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
                human::count(files as usize, "file", "files"),
                human::count(defects as usize, "defect", "defects")
            ),
            format!(
                "text       {} pages ({} of them unreadable), {} characters, {} images",
                counts.pages, counts.pages_unreadable, counts.characters, counts.images
            ),
            format!("errors     {}", if by_code.is_empty() { "none".into() } else { by_code.join(", ") }),
            format!(
                "contained  {parsers_crashed} crashes of a parser in {files_with_crashes} files, \
                 {parsers_timed_out} pages or openings stopped for their time in {files_with_timeouts}, \
                 {} files cut at the time limit",
                counts.files_cut
            ),
            format!(
                "most       {} of memory in a parser, {} in the program itself, {} for a file",
                human::bytes(counts.most_parser_bytes),
                human::bytes(counts.most_own_bytes),
                human::duration(std::time::Duration::from_millis(counts.longest_milliseconds))
            ),
        ];
        lines.join("\n")
    }
}

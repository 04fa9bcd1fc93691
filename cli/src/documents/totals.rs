//! How many documents ended how, for the table at the end of a command.

use everypage_core::money::MicroUsd;
use serde::Serialize;

use super::document::Document;
use crate::{exit::Exit, human, table::Table};

/// The documents that ended in one way.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Total {
    pub documents: usize,
    pub pages: usize,
    pub ai_pages: usize,
    /// Pages with text of our own where AI text was planned.
    pub fallback_pages: usize,
    pub pages_without_text: usize,
    pub cost_micro_usd: MicroUsd,
}

impl Total {
    fn add(&mut self, other: Self) {
        self.documents += other.documents;
        self.pages += other.pages;
        self.ai_pages += other.ai_pages;
        self.fallback_pages += other.fallback_pages;
        self.pages_without_text += other.pages_without_text;
        self.cost_micro_usd += other.cost_micro_usd;
    }

    fn of(document: &Document) -> Self {
        let result = document.job.as_ref().and_then(|job| job.result.as_ref());
        let Some(metadata) = result.map(|result| &result.metadata) else {
            return Self { documents: 1, ..Self::default() };
        };
        Self {
            documents: 1,
            pages: metadata.total_pages as usize,
            ai_pages: metadata.final_ai_pages as usize,
            fallback_pages: metadata.mupdf_fallback_count as usize,
            pages_without_text: metadata.missing_pages as usize,
            // The pages of a job that existed already were paid for by another command.
            cost_micro_usd: if document.repeated { MicroUsd::default() } else { metadata.cost_micro_usd },
        }
    }
}

/// The documents of one command.
#[derive(Debug, Default, Serialize)]
pub struct Totals {
    pub complete: Total,
    pub with_fallback_text: Total,
    pub with_pages_without_text: Total,
    pub failed: Total,
    pub cancelled: Total,
    pub not_started: usize,
    /// Of all these, the documents whose job existed already.
    pub done_before: usize,
}

impl Totals {
    pub fn add(&mut self, document: &Document) {
        if document.not_started {
            self.not_started += 1;
            return;
        }
        self.done_before += usize::from(document.repeated);
        let row = match document.exit {
            Exit::Complete => &mut self.complete,
            Exit::Fallback => &mut self.with_fallback_text,
            Exit::Missing => &mut self.with_pages_without_text,
            Exit::Failed | Exit::Usage => &mut self.failed,
            Exit::Cancelled => &mut self.cancelled,
        };
        row.add(Total::of(document));
    }

    fn rows(&self) -> [(&'static str, Total); 6] {
        let not_started = Total { documents: self.not_started, ..Total::default() };
        [
            ("complete", self.complete),
            ("with fallback text", self.with_fallback_text),
            ("with pages without text", self.with_pages_without_text),
            ("failed", self.failed),
            ("cancelled", self.cancelled),
            ("not started", not_started),
        ]
    }

    /// A row for each way in which documents ended, and one for all.
    pub fn lines(&self, took: &str) -> Vec<String> {
        let mut table = Table::new(["DOCUMENTS", "", "PAGES", "AI", "FALLBACK", "NO TEXT", "COST"])
            .right(&[0, 2, 3, 4, 5, 6]);
        let mut all = Total::default();
        let rows: Vec<_> = self.rows().into_iter().filter(|(_, total)| total.documents > 0).collect();
        for (_, total) in &rows {
            all.add(*total);
        }
        let sum = (rows.len() > 1).then_some(("in all", all));
        for (name, total) in rows.into_iter().chain(sum) {
            table.row([
                total.documents.to_string(),
                name.to_owned(),
                total.pages.to_string(),
                total.ai_pages.to_string(),
                total.fallback_pages.to_string(),
                total.pages_without_text.to_string(),
                human::money(total.cost_micro_usd).unwrap_or_else(|| "-".into()),
            ]);
        }
        let mut lines = table.lines(None);
        let mut facts = vec![format!("took {took}")];
        if self.done_before > 0 {
            facts.push(format!("{} done before", self.done_before));
        }
        lines.push(facts.join(", "));
        lines
    }
}

//! The source of each page's text, in a few lines.

use everypage_core::{
    finish::result::{PageResult, ResultDocument},
    job::{Job, Status},
    source::Source,
};
use serde::Serialize;

use crate::human;

/// Pages whose text has the same source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// `ai openai:gpt-5.4`, `mupdf`, `mupdf_fallback`, …
    pub from: String,
    pub pages: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_reason: Option<String>,
}

fn from(page: &PageResult) -> String {
    match (page.source, &page.read_by.provider, &page.read_by.model) {
        (Source::AI, Some(provider), Some(model)) => format!("ai {provider}:{model}"),
        (source, ..) => source.to_string(),
    }
}

/// Groups pages by the source of their text, and by reason.
pub fn origins(document: &ResultDocument) -> Vec<Origin> {
    // The order of the table of sources is that of their lines.
    let rank = |source| Source::ALL.iter().position(|known| *known == source);
    let mut groups: Vec<(Option<usize>, String, Option<String>, Vec<_>)> = Vec::new();
    for page in &document.pages {
        let (from, reason) = (from(page), page.fallback_reason.clone());
        match groups.iter_mut().find(|group| group.1 == from && group.2 == reason) {
            Some(group) => group.3.push(page.page),
            None => groups.push((rank(page.source), from, reason, vec![page.page])),
        }
    }
    groups.sort_by_key(|group| group.0);
    groups
        .into_iter()
        .map(|(_, from, fallback_reason, pages)| Origin { from, pages: human::pages(pages), fallback_reason })
        .collect()
}

/// Aligned lines such as `ai openai:gpt-5.4  3, 7-9`, and the pages without text.
pub fn origin_lines(document: &ResultDocument) -> Vec<String> {
    let origins = origins(document);
    let none = human::pages(document.metadata.missing_page_numbers.iter().copied());
    let mut rows: Vec<(String, String)> = origins
        .into_iter()
        .map(|origin| match origin.fallback_reason {
            Some(reason) => (origin.from, format!("{}  ({reason})", human::shorten_ranges(&origin.pages))),
            None => (origin.from, human::shorten_ranges(&origin.pages)),
        })
        .collect();
    if !none.is_empty() {
        rows.push(("no text at all".into(), human::shorten_ranges(&none)));
    }
    let width = rows.iter().map(|(from, _)| from.len()).max().unwrap_or(0);
    rows.into_iter().map(|(from, pages)| format!("  {from:width$}  {pages}")).collect()
}

/// `success, 12 pages in 3.4 s, $0.0123`.
pub fn headline(job: &Job) -> String {
    let metadata = job.result.as_ref().map(|result| &result.metadata);
    let took = job.finished_at.map(|finished| human::between(job.run_started_at(), finished));
    let work = match (metadata, took) {
        (Some(metadata), Some(took)) => {
            let pages = human::count(metadata.total_pages as usize, "page", "pages");
            Some(format!("{pages} in {took}"))
        }
        (None, Some(took)) => Some(format!("after {took}")),
        (_, None) => None,
    };
    let cost = metadata.and_then(|metadata| human::money(metadata.cost_micro_usd));
    let version = job
        .result
        .as_ref()
        .filter(|result| result.version > 1)
        .map(|result| format!("version {}", result.version));
    let facts = [Some(status(job)), work, cost, version];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What matters of its pages, for a line: `, 4 by AI, 1 with fallback text, 1 without text`.
pub fn page_facts(job: &Job) -> String {
    let Some(metadata) = job.result.as_ref().map(|result| &result.metadata) else { return String::new() };
    let facts = [
        (metadata.final_ai_pages as usize, "by AI"),
        (metadata.mupdf_fallback_count as usize, "with fallback text"),
        (metadata.missing_pages as usize, "without text"),
    ];
    let known = facts.into_iter().filter(|(count, _)| *count > 0);
    known.map(|(count, what)| format!(", {count} {what}")).collect()
}

/// The status, and whether the deadline ended the work.
pub fn status(job: &Job) -> String {
    let timed_out = job.result.as_ref().is_some_and(|result| result.metadata.timeout_occurred);
    match job.status() {
        Status::Success if timed_out => "success, ended by the deadline".into(),
        status => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use everypage_core::{
        document::Reason,
        finish::result::{Cause, PageInput, assemble},
        ids::{JobId, PageNumber},
        providers::target::{Provider, Target},
        read::outcome::Settlement,
        source::TextSource,
    };
    use jiff::Timestamp;

    use super::*;

    fn page(number: u32, text: &str, settled: Option<(Settlement, Option<String>)>) -> PageInput {
        PageInput {
            page: PageNumber::new(number).unwrap(),
            reason: Reason::Image,
            own_text: Some(text.into()),
            own_source: TextSource::Mupdf,
            awaits_ocr: false,
            own_blocks: vec![],
            confidence: None,
            doubts: vec![],
            fault: None,
            sent_to_ai: settled.is_some(),
            other_calls: vec![],
            settled,
        }
    }

    #[test]
    fn pages_are_grouped_by_the_source_of_their_text() {
        let at = Timestamp::UNIX_EPOCH;
        let read = |model: &str| {
            let outcome =
                Settlement::read_by(Target::new(Provider::OpenAi, model), "words", None, vec![], at, at);
            Some((outcome, Some("words".to_owned())))
        };
        let failed = Some((Settlement::fallback("no model answered".into(), vec![], at, at), None));
        let inputs = [
            page(1, "a", None),
            page(2, "a", read("big")),
            page(3, "a", read("small")),
            page(4, "a", read("small")),
            page(5, "", failed),
            page(6, "a", None),
        ];
        let document = assemble(JobId::new("J"), 1, ("n".into(), "s".into()), at, Cause::Settled, inputs);
        assert_eq!(
            origin_lines(&document),
            [
                "  ai openai:big    2",
                "  ai openai:small  3-4",
                "  mupdf            1, 6",
                "  mupdf_fallback   5  (no model answered)",
                "  no text at all   5",
            ]
        );
    }
}

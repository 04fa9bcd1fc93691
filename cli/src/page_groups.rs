//! The pages of a running job by status, in a few lines.

use everypage_core::{
    finish::{page_status::PageStatus, result::ResultDocument},
    ids::PageNumber,
    read::waiting::WaitReason,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{human, page_counts::in_words};

/// Pages with the same status; waiting pages with the same reason and model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageGroup {
    pub status: PageStatus,
    pub pages: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Wait>,
}

/// Why the pages of a group wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    pub reason: WaitReason,
    /// `openai:gpt-5.4`, the model that is expected to be available first.
    pub model: String,
    /// When the first of the pages continues.
    pub until: Timestamp,
}

/// Groups the pages of a provisional result: done ones first.
pub fn groups(document: &ResultDocument) -> Vec<PageGroup> {
    let mut groups: Vec<(PageStatus, Option<Wait>, Vec<PageNumber>)> = Vec::new();
    for page in &document.pages {
        let status = page.status.unwrap_or(PageStatus::Settled);
        let wait = page.waiting.as_ref().map(|waiting| Wait {
            reason: waiting.reason,
            model: waiting.target.to_string(),
            until: waiting.until,
        });
        let found = groups.iter_mut().find(|(other, known, _)| {
            let same = |a: &Wait, b: &Wait| a.reason == b.reason && a.model == b.model;
            *other == status
                && match (known, &wait) {
                    (Some(known), Some(wait)) => same(known, wait),
                    (known, wait) => known.is_none() && wait.is_none(),
                }
        });
        match found {
            Some((_, known, pages)) => {
                if let (Some(known), Some(wait)) = (known, wait) {
                    known.until = known.until.min(wait.until);
                }
                pages.push(page.page);
            }
            None => groups.push((status, wait, vec![page.page])),
        }
    }
    groups.sort_by_key(|(status, ..)| std::cmp::Reverse(*status));
    groups
        .into_iter()
        .map(|(status, waiting, pages)| PageGroup { status, pages: human::pages(pages), waiting })
        .collect()
}

/// Lines such as `waiting  8-9  (rate limited, openai:gpt-5.4, until 2026-11-16 09:30:01)`.
pub fn lines(document: &ResultDocument) -> Vec<String> {
    let line = |group: PageGroup| {
        let pages = human::shorten_ranges(&group.pages);
        let wait = group.waiting.map(|wait| {
            format!("  ({}, {}, until {})", in_words(wait.reason), wait.model, human::time(wait.until))
        });
        format!("  {:7}  {pages}{}", group.status, wait.unwrap_or_default())
    };
    groups(document).into_iter().map(line).collect()
}

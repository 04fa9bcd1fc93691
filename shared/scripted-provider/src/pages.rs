//! A set of pages, written `7,9-12`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::GrammarError;

/// Inclusive ranges; a single page is a range of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pages(Vec<(u32, u32)>);

impl Pages {
    pub fn contains(&self, page: u32) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&page))
    }
}

impl From<u32> for Pages {
    fn from(page: u32) -> Self {
        Self(vec![(page, page)])
    }
}

impl From<std::ops::RangeInclusive<u32>> for Pages {
    fn from(pages: std::ops::RangeInclusive<u32>) -> Self {
        Self(vec![pages.into_inner()])
    }
}

impl FromIterator<u32> for Pages {
    fn from_iter<I: IntoIterator<Item = u32>>(pages: I) -> Self {
        Self(pages.into_iter().map(|page| (page, page)).collect())
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Pages {
    type Err = GrammarError;

    fn from_str(text: &str) -> Result<Self, GrammarError> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (0 < range.0 && range.0 <= range.1).then_some(range)
        };
        let bad = |part: &str| GrammarError::new(part, "is not a page or range of pages, such as 7 or 9-12");
        text.split(',').map(|part| range(part).ok_or_else(|| bad(part))).collect::<Result<_, _>>().map(Self)
    }
}

impl TryFrom<String> for Pages {
    type Error = GrammarError;

    fn try_from(text: String) -> Result<Self, GrammarError> {
        text.parse()
    }
}

impl From<Pages> for String {
    fn from(pages: Pages) -> Self {
        pages.to_string()
    }
}

//! The selection of pages, written as `1-10,12,40-`.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use serde::{Deserialize, Serialize, de::Error as _};

use crate::ids::PageNumber;

/// Ranges of pages, sorted and merged; an open range ends at the last page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageSelection(Vec<RangeInclusive<u32>>);

impl PageSelection {
    pub fn all() -> Self {
        Self(vec![1..=u32::MAX])
    }

    pub fn is_all(&self) -> bool {
        self.0 == [1..=u32::MAX]
    }

    /// The selected pages of a document of `count` pages, in order.
    pub fn pages(&self, count: u32) -> impl Iterator<Item = PageNumber> + '_ {
        self.0
            .iter()
            .flat_map(move |range| *range.start()..=(*range.end()).min(count))
            .filter_map(PageNumber::new)
    }

    pub fn contains(&self, page: PageNumber) -> bool {
        self.0.iter().any(|range| range.contains(&page.get()))
    }

    fn from_ranges(mut ranges: Vec<RangeInclusive<u32>>) -> Self {
        ranges.sort_by_key(|range| *range.start());
        let mut merged: Vec<RangeInclusive<u32>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => merged.push(range),
            }
        }
        Self(merged)
    }
}

impl FromStr for PageSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |part: &str| {
            format!("{part:?} is not a page or a range of pages, such as 1-10,12,40- (the first page is 1)")
        };
        if text.trim().eq_ignore_ascii_case("all") {
            return Ok(Self::all());
        }
        let mut ranges = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (first, last) = match part.split_once('-') {
                Some((first, "")) => (first.trim().parse().map_err(|_| bad(part))?, u32::MAX),
                Some((first, last)) => (
                    first.trim().parse().map_err(|_| bad(part))?,
                    last.trim().parse().map_err(|_| bad(part))?,
                ),
                None => {
                    let page = part.parse().map_err(|_| bad(part))?;
                    (page, page)
                }
            };
            if first == 0 || last < first {
                return Err(bad(part));
            }
            ranges.push(first..=last);
        }
        Ok(Self::from_ranges(ranges))
    }
}

impl fmt::Display for PageSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str("all");
        }
        for (index, range) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match (*range.start(), *range.end()) {
                (first, last) if first == last => write!(f, "{first}")?,
                (first, u32::MAX) => write!(f, "{first}-")?,
                (first, last) => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for PageSelection {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PageSelection {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str, count: u32) -> Vec<u32> {
        text.parse::<PageSelection>().unwrap().pages(count).map(PageNumber::get).collect()
    }

    #[test]
    fn overlapping_ranges_give_each_page_once_and_in_order() {
        assert_eq!(numbers("5-7,1-2,6-9", 100), [1, 2, 5, 6, 7, 8, 9]);
        assert_eq!(numbers("3-", 5), [3, 4, 5]);
        assert_eq!(numbers("9", 5), [] as [u32; 0]);
    }

    #[test]
    fn a_printed_selection_parses_to_the_same_selection() {
        for text in ["all", "1-10,12,40-", "7"] {
            let selection: PageSelection = text.parse().unwrap();
            assert_eq!(selection.to_string(), text);
        }
    }

    #[test]
    fn an_invalid_part_is_named_in_the_error() {
        for text in ["0", "5-2", "a-b", "", "1,,2", "-3"] {
            assert!(text.parse::<PageSelection>().unwrap_err().contains("not a page"), "{text}");
        }
    }
}

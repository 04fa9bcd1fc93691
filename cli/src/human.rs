//! Numbers and times as people write them.

use std::time::Duration;

use everypage_core::{ids::PageNumber, money::MicroUsd, time::until};
use jiff::{Timestamp, tz::TimeZone};

/// Ranges in a line for people.
const MAX_RANGES: usize = 10;

/// `3, 7-9`: ascending pages as ranges.
pub fn pages(pages: impl IntoIterator<Item = PageNumber>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for page in pages.into_iter().map(PageNumber::get) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == page => *last = page,
            _ => ranges.push((page, page)),
        }
    }
    let written: Vec<String> = ranges
        .into_iter()
        .map(|range| match range {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        })
        .collect();
    written.join(", ")
}

/// Shortens a long list of ranges to `1, 3, 5, and 30 more`.
pub fn shorten_ranges(list: &str) -> String {
    let ranges: Vec<&str> = list.split(", ").collect();
    match ranges.get(MAX_RANGES..).map_or(0, <[_]>::len) {
        0 => list.to_owned(),
        more => format!("{}, and {more} more", ranges[..MAX_RANGES].join(", ")),
    }
}

/// `1 page`, `12 pages`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `812 ms`, `3.4 s`, `2 min 5 s`, `1 h 30 min`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => match seconds % 60 {
            0 => format!("{} min", seconds / 60),
            rest => format!("{} min {rest} s", seconds / 60),
        },
        _ => match seconds % 3600 / 60 {
            0 => format!("{} h", seconds / 3600),
            rest => format!("{} h {rest} min", seconds / 3600),
        },
    }
}

pub fn between(from: Timestamp, to: Timestamp) -> String {
    duration(until(from, to))
}

/// `3 min ago`, `2 h ago`; a date after two days.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    match until(then, now).as_secs() {
        0..5 => "just now".into(),
        seconds @ 5..60 => format!("{seconds} s ago"),
        seconds @ 60..3600 => format!("{} min ago", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => then.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string(),
    }
}

/// `2026-11-16 09:30:01`, in this machine's time zone.
pub fn time(then: Timestamp) -> String {
    then.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// `$0.0123`; `None` for 0.
pub fn money(cost: MicroUsd) -> Option<String> {
    match cost.0 {
        0 => None,
        1..=99 => Some("<$0.0001".into()),
        100..=999_999 => Some(format!("${:.4}", cost.usd())),
        _ => Some(format!("${:.2}", cost.usd())),
    }
}

/// `712 bytes`, `1.4 MB`.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Parses a time of the command line: a timestamp, a day, or a duration ago.
pub fn parse_time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let local = text.parse::<jiff::civil::DateTime>().or_else(|_| {
        text.parse::<jiff::civil::Date>().map(|day| day.to_datetime(jiff::civil::Time::midnight()))
    });
    if let Ok(local) = local
        && let Ok(zoned) = local.to_zoned(TimeZone::system())
    {
        return Ok(zoned.timestamp());
    }
    match everypage_core::settings::parse_duration(text.trim_end_matches(" ago")) {
        Ok(time) => now.checked_sub(time).map_err(|_| format!("{text:?} is too long ago")),
        Err(_) => Err(format!(
            "{text:?} is not a time; write for example 2026-11-16, 2026-11-16T09:30Z or 2h (ago)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_pages_are_joined() {
        let written = |numbers: &[u32]| pages(numbers.iter().filter_map(|number| PageNumber::new(*number)));
        assert_eq!(written(&[]), "");
        assert_eq!(written(&[3]), "3");
        assert_eq!(written(&[3, 7, 8, 9, 11, 12]), "3, 7-9, 11-12");
        let odd: Vec<u32> = (0..40).map(|number| 2 * number + 1).collect();
        let short = shorten_ranges(&written(&odd));
        assert_eq!(short, "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, and 30 more");
        assert_eq!(shorten_ranges("3, 7-9"), "3, 7-9");
    }

    #[test]
    fn timestamps_days_and_durations_are_parsed() {
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        let read = |text| parse_time(text, now);
        assert_eq!(read("2026-11-16T09:30Z"), read("30m"));
        assert_eq!(read("2h"), read("2h ago"));
        assert!(read("2026-11-15").unwrap() < now);
        assert!(read("yesterday").unwrap_err().contains("2h (ago)"));
    }

    #[test]
    fn amounts_are_short() {
        let after = |ms| duration(Duration::from_millis(ms));
        assert_eq!(
            [after(812), after(3_400), after(125_000), after(300_000), after(5_400_000)],
            ["812 ms", "3.4 s", "2 min 5 s", "5 min", "1 h 30 min"]
        );
        assert_eq!(money(MicroUsd(12_345)).as_deref(), Some("$0.0123"));
        assert_eq!(money(MicroUsd(0)), None);
        assert_eq!(bytes(1_400_000), "1.4 MB");
    }
}

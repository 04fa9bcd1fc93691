//! How long an API asks us to stay away, from the headers of its answer.
//!
//! Dates are compared with the answer's own `Date`, so neither a clock nor an agreement on the
//! time is needed.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// More than this is a mistake or a joke, and would overflow somebody's arithmetic.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The most explicit header wins; among limits that are used up, the one that lasts longest.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let explicit = || {
        let milliseconds = text(headers, "retry-after-ms").and_then(|value| number(value, 0.001));
        milliseconds
            .or_else(|| text(headers, RETRY_AFTER.as_str()).and_then(|value| seconds_or_date(headers, value)))
    };
    explicit()
        .or_else(|| openai_resets(headers))
        .or_else(|| anthropic_resets(headers))
        .map(|wait| wait.min(LONGEST))
}

fn openai_resets(headers: &HeaderMap) -> Option<Duration> {
    let reset = |what: &str| {
        let remaining = text(headers, &format!("x-ratelimit-remaining-{what}"))?;
        let used_up = remaining.parse::<f64>().is_ok_and(|left| left <= 0.0);
        let value = text(headers, &format!("x-ratelimit-reset-{what}")).filter(|_| used_up)?;
        go_duration(value).or_else(|| number(value, 1.0))
    };
    ["requests", "tokens"].into_iter().filter_map(reset).max()
}

fn anthropic_resets(headers: &HeaderMap) -> Option<Duration> {
    let reset = |what: &str| {
        let remaining = text(headers, &format!("anthropic-ratelimit-{what}-remaining"));
        let left = remaining.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
        let value = text(headers, &format!("anthropic-ratelimit-{what}-reset")).filter(|_| left == 0)?;
        until(headers, value.parse().ok()?)
    };
    ["requests", "tokens", "input-tokens", "output-tokens"].into_iter().filter_map(reset).max()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

/// A count of units of `unit` seconds; a negative one means now.
fn number(value: &str, unit: f64) -> Option<Duration> {
    let seconds = value.parse::<f64>().ok().filter(|number| number.is_finite())? * unit;
    Some(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST))
}

fn seconds_or_date(headers: &HeaderMap, value: &str) -> Option<Duration> {
    number(value, 1.0).or_else(|| until(headers, http_date(value)?))
}

/// From the moment the answer was sent; a moment gone by means now.
fn until(headers: &HeaderMap, moment: Timestamp) -> Option<Duration> {
    let sent = http_date(text(headers, DATE.as_str())?)?;
    Some(Duration::try_from(moment.duration_since(sent)).unwrap_or(Duration::ZERO))
}

fn http_date(value: &str) -> Option<Timestamp> {
    rfc2822::parse(value).ok().map(|date| date.timestamp())
}

/// `1m30.5s`, `250ms`, `6m0s`: numbers with units, one after the other.
fn go_duration(value: &str) -> Option<Duration> {
    let mut rest = value;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (count, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.saturating_add(number(count, seconds)?);
        rest = tail;
    }
    (!value.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE_LINE: (&str, &str) = ("date", "Sun, 16 Nov 2025 12:00:00 GMT");

    /// Headers, and the seconds they ask for.
    type Case = (&'static [(&'static str, &'static str)], Option<f64>);

    fn of(lines: &[(&'static str, &str)]) -> Option<f64> {
        let headers = lines
            .iter()
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()));
        retry_after(&headers.collect()).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let table: [Case; 14] = [
            (&[], None),
            (&[("retry-after", "5")], Some(5.0)),
            (&[("retry-after", " 0 ")], Some(0.0)),
            (&[("retry-after", "1.5")], Some(1.5)),
            (&[("retry-after", "-3")], Some(0.0)),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "inf")], None),
            (&[("retry-after", "99999999999999999999")], Some(86_400.0)),
            (&[("retry-after-ms", "250"), ("retry-after", "5")], Some(0.25)),
            (&[("retry-after-ms", "x"), ("retry-after", "5")], Some(5.0)),
            (&[DATE_LINE, ("retry-after", "Sun, 16 Nov 2025 12:01:30 GMT")], Some(90.0)),
            (&[DATE_LINE, ("retry-after", "Sun, 16 Nov 2025 11:59:00 GMT")], Some(0.0)),
            (&[("retry-after", "Sun, 16 Nov 2025 12:01:30 GMT")], None),
            (&[("date", "yesterday"), ("retry-after", "Sun, 16 Nov 2025 12:01:30 GMT")], None),
        ];
        for (lines, expected) in table {
            assert_eq!(of(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn openai_limits_count_only_when_used_up() {
        let table: [Case; 7] = [
            (&[("x-ratelimit-reset-requests", "20s")], None),
            (&[("x-ratelimit-remaining-requests", "3"), ("x-ratelimit-reset-requests", "20s")], None),
            (&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "20s")], Some(20.0)),
            (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1m30.5s")], Some(90.5)),
            (
                &[
                    ("x-ratelimit-remaining-requests", "9"),
                    ("x-ratelimit-reset-requests", "8h"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "250ms"),
                ],
                Some(0.25),
            ),
            (
                &[
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "2s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "1s"),
                ],
                Some(2.0),
            ),
            (
                &[
                    ("retry-after", "1"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "9s"),
                ],
                Some(1.0),
            ),
        ];
        for (lines, expected) in table {
            assert_eq!(of(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn anthropic_limits_are_moments_measured_from_the_answers_date() {
        const REQUESTS: &str = "anthropic-ratelimit-requests-reset";
        const INPUT: &str = "anthropic-ratelimit-input-tokens-reset";
        let table: [Case; 6] = [
            (&[DATE_LINE, (REQUESTS, "2025-11-16T12:00:42Z")], Some(42.0)),
            (&[(REQUESTS, "2025-11-16T12:00:42Z")], None),
            (&[DATE_LINE, (REQUESTS, "in a while")], None),
            (&[DATE_LINE, (REQUESTS, "2025-11-16T11:00:00Z")], Some(0.0)),
            (
                &[DATE_LINE, (REQUESTS, "2025-11-16T12:00:05Z"), (INPUT, "2025-11-16T12:00:07+00:00")],
                Some(7.0),
            ),
            (
                &[
                    DATE_LINE,
                    (REQUESTS, "2025-11-16T12:00:05Z"),
                    (INPUT, "2025-11-16T12:00:30Z"),
                    ("anthropic-ratelimit-input-tokens-remaining", "1000"),
                ],
                Some(5.0),
            ),
        ];
        for (lines, expected) in table {
            assert_eq!(of(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn go_durations() {
        let table = [
            ("1s", Some(1.0)),
            ("6m0s", Some(360.0)),
            ("1h2m3.5s", Some(3723.5)),
            ("250ms", Some(0.25)),
            ("500us", Some(0.0005)),
            ("0", None),
            ("", None),
            ("s", None),
            ("1.2.3s", None),
            ("5 s", None),
            ("3 fortnights", None),
        ];
        for (value, seconds) in table {
            assert_eq!(go_duration(value).map(|wait| wait.as_secs_f64()), seconds, "{value:?}");
        }
    }
}

//! How long an API asks to wait, from the headers of its response.
//!
//! Dates are compared with the response's own `Date`, so the machine's clock does not matter.

use std::time::Duration;

use everypage_core::{
    ports::vision::{Allowance, Quota},
    providers::target::Provider,
};
use jiff::{Timestamp, fmt::rfc2822};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

use crate::dialect::dialect;

/// A longer wait is a mistake of the server, and could overflow later arithmetic.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The most explicit header wins; among limits that are used up, the one that lasts longest.
///
/// The headers of every provider count, whichever was called: gateways pass them on.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let limits = || Provider::ALL.iter().find_map(|provider| dialect(*provider).rate_limit_reset(headers));
    explicit_retry_after(headers).or_else(limits).map(|wait| wait.min(MAX_WAIT))
}

/// The time that the server asks for in so many words.
pub(crate) fn explicit_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let milliseconds = || header(headers, "retry-after-ms").and_then(|value| number(value, 0.001));
    let seconds_or_date = || {
        let value = header(headers, RETRY_AFTER.as_str())?;
        number(value, 1.0).or_else(|| until(headers, http_date(value)?))
    };
    milliseconds().or_else(seconds_or_date).map(|wait| wait.min(MAX_WAIT))
}

/// What is left of the provider's limits, by the headers of a response; by those of another provider, where a
/// gateway passes them on.
pub(crate) fn allowance(provider: Provider, headers: &HeaderMap) -> Allowance {
    let others = Provider::ALL.iter().copied().filter(|other| *other != provider);
    let mut found = std::iter::once(provider).chain(others).map(|one| dialect(one).allowance(headers));
    found.find(|allowance| *allowance != Allowance::default()).unwrap_or_default()
}

/// The limit with the fewest left.
pub(crate) fn tightest(quotas: impl IntoIterator<Item = Option<Quota>>) -> Option<Quota> {
    quotas.into_iter().flatten().min_by_key(|quota| quota.left)
}

/// The value of a header; `None` when it is missing or blank.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

/// Parses a count of units of `unit` seconds; a negative one means now.
pub(crate) fn number(value: &str, unit: f64) -> Option<Duration> {
    let seconds = value.parse::<f64>().ok().filter(|number| number.is_finite())? * unit;
    Some(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(MAX_WAIT))
}

/// The time from when the response was sent to `moment`; a moment in the past means now.
pub(crate) fn until(headers: &HeaderMap, moment: Timestamp) -> Option<Duration> {
    let sent = http_date(header(headers, DATE.as_str())?)?;
    Some(Duration::try_from(moment.duration_since(sent)).unwrap_or(Duration::ZERO))
}

fn http_date(value: &str) -> Option<Timestamp> {
    rfc2822::parse(value).ok().map(|date| date.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE_LINE: (&str, &str) = ("date", "Sun, 16 Nov 2025 12:00:00 GMT");

    /// Headers, and the seconds that they ask to wait.
    type Case = (&'static [(&'static str, &'static str)], Option<f64>);

    fn of(lines: &[(&'static str, &str)]) -> Option<f64> {
        let headers = lines
            .iter()
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()));
        retry_after(&headers.collect()).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn retry_after_is_parsed_in_all_its_forms() {
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
    fn anthropic_limits_are_moments_measured_from_the_date_of_the_response() {
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
}

//! The rate-limit headers of a response, in the provider's dialect.

use std::sync::Arc;

use hyper::http::response;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{dialect::Dialect, limit::Limiter};

/// Adds the state of each limit as it is now: the response is sent next.
pub(super) fn announce(
    mut response: response::Builder,
    dialect: &dyn Dialect,
    limits: &[Arc<Limiter>],
) -> response::Builder {
    for limit in limits {
        let levels = limit.levels(Instant::now());
        let named = [("requests", levels.requests), ("tokens", levels.tokens)];
        for (name, level) in named.into_iter().filter_map(|(name, level)| Some((name, level?))) {
            for (header, value) in dialect.limit_headers(name, &level, now()) {
                response = response.header(header, value);
            }
        }
        for (header, value) in levels
            .output_tokens
            .map(|level| dialect.output_limit_headers(&level, now()))
            .into_iter()
            .flatten()
        {
            response = response.header(header, value);
        }
    }
    response
}

#[expect(clippy::disallowed_methods, reason = "the provider plays the outside world, which has real time")]
fn now() -> Timestamp {
    Timestamp::now()
}

//! Parts of results and images: `Range` and `If-Range`, for routes that send `Accept-Ranges: bytes`.

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{ACCEPT_RANGES, CONTENT_RANGE, ETAG, IF_RANGE, RANGE},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_range_header::{StartPosition, parse_range_header};

use crate::problem::{Code, Problem};

/// The header of a response that may be requested in parts.
pub const IN_PARTS: (HeaderName, HeaderValue) = (ACCEPT_RANGES, HeaderValue::from_static("bytes"));

/// Middleware: answers a request for one range of bytes with that range. A request that is malformed, asks for
/// several ranges, or is based on another version (`If-Range`) gets the whole, as RFC 9110 allows.
pub async fn ranges(request: Request, next: Next) -> Response {
    let wanted = request.headers().get(RANGE).filter(|_| request.method() == Method::GET).cloned();
    let version = request.headers().get(IF_RANGE).cloned();
    let response = next.run(request).await;
    let Some(wanted) = wanted.as_ref().and_then(|value| value.to_str().ok()) else { return response };
    let is_divisible = response.status() == StatusCode::OK
        && response.headers().get(ACCEPT_RANGES) == Some(&IN_PARTS.1)
        && is_current(version.as_ref(), response.headers());
    if !is_divisible {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Problem::internal("the body of a response can't be read").into_response();
    };
    match part(wanted, &bytes) {
        Part::Whole => Response::from_parts(parts, Body::from(bytes)),
        Part::Range(first, last) => {
            let range = format!("bytes {first}-{last}/{}", bytes.len());
            parts.status = StatusCode::PARTIAL_CONTENT;
            parts.headers.extend(HeaderValue::from_str(&range).ok().map(|range| (CONTENT_RANGE, range)));
            Response::from_parts(parts, Body::from(bytes.slice(first..=last)))
        }
        Part::Beyond => {
            let detail = format!("{wanted:?} is outside of the {} bytes", bytes.len());
            Problem::new(Code::RangeNotSatisfiable, detail)
                .with_header("content-range", &format!("bytes */{}", bytes.len()))
                .into_response()
        }
    }
}

/// Whether the client's other parts are of this version. Strong comparison: a weak ETag is that of a compressed
/// response, whose bytes are others.
fn is_current(version: Option<&HeaderValue>, headers: &HeaderMap) -> bool {
    version.is_none_or(|version| !version.as_bytes().starts_with(b"W/") && headers.get(ETAG) == Some(version))
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Whole,
    /// The first byte and the last.
    Range(usize, usize),
    Beyond,
}

fn part(wanted: &str, bytes: &Bytes) -> Part {
    let Ok(mut parsed) = parse_range_header(wanted) else { return Part::Whole };
    let length = bytes.len() as u64;
    for range in &mut parsed.ranges {
        // The last thousand bytes of a hundred are the hundred.
        if let StartPosition::FromLast(count) = &mut range.start {
            *count = (*count).min(length);
        }
    }
    let several = parsed.ranges.len() > 1;
    match parsed.validate(length).as_deref() {
        Ok([range]) if *range.start() < length && range.start() <= range.end() => {
            Part::Range(*range.start() as usize, *range.end() as usize)
        }
        Ok([_]) => Part::Beyond,
        Err(_) if !several => Part::Beyond,
        _ => Part::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_a_part_and_anything_else_the_whole() {
        let bytes = Bytes::from_static(b"0123456789");
        for (wanted, expected) in [
            ("bytes=0-3", Part::Range(0, 3)),
            ("bytes=4-", Part::Range(4, 9)),
            ("bytes=-3", Part::Range(7, 9)),
            ("bytes=-100", Part::Range(0, 9)),
            ("bytes=8-100", Part::Range(8, 9)),
            ("bytes=10-", Part::Beyond),
            ("bytes=10-20", Part::Beyond),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=3-1", Part::Beyond),
            ("pages=1-2", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("", Part::Whole),
        ] {
            assert_eq!(part(wanted, &bytes), expected, "{wanted}");
        }
        assert_eq!(part("bytes=0-", &Bytes::new()), Part::Beyond);
    }
}

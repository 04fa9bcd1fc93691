//! Trace contexts in the W3C format (`traceparent`), and the spans of a trace.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::Error};

/// Identifies a span in a trace: `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
///
/// ```text
///    trace (upload to result) ───────┘                span ─────┘      └── 1: recorded
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: u128,
    pub span: u64,
    /// The process that started the trace wants it recorded.
    pub sampled: bool,
}

impl TraceContext {
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent of the form 00-TRACE-SPAN-FLAGS")]
pub struct InvalidTraceparent;

impl FromStr for TraceContext {
    type Err = InvalidTraceparent;

    /// Parses a later version like version 00 and ignores what it adds, as the W3C specifies.
    fn from_str(text: &str) -> Result<Self, InvalidTraceparent> {
        let mut parts = text.split('-');
        let mut number = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits).ok_or(InvalidTraceparent)?;
            let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if !part.bytes().all(lower_hex) {
                return Err(InvalidTraceparent);
            }
            u128::from_str_radix(part, 16).map_err(|_| InvalidTraceparent)
        };
        let (version, trace, span, flags) = (number(2)?, number(32)?, number(16)?, number(2)?);
        let more = parts.next().is_some();
        if version == 0xff || (version == 0 && more) || trace == 0 || span == 0 {
            return Err(InvalidTraceparent);
        }
        Ok(Self { trace, span: span as u64, sampled: flags & 1 == 1 })
    }
}

impl Serialize for TraceContext {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The role of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A whole job, from its request until it has ended.
    Job,
    /// Work within this process.
    Internal,
    /// Processes a message from a queue.
    Consumer,
    /// Waits for the response of another service.
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number.try_into().unwrap_or(i64::MAX))
    }
}

/// A unit of work that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub context: TraceContext,
    pub parent: Option<u64>,
    pub name: &'static str,
    pub kind: SpanKind,
    pub start: Timestamp,
    pub end: Timestamp,
    /// Names and numbers; never text of a document.
    pub attributes: Vec<(&'static str, Value)>,
    /// Set if the work failed: the stable name of the reason.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const W3C: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_parsed_and_formatted() {
        let context: TraceContext = W3C.parse().unwrap();
        assert!(context.sampled);
        assert_eq!(context.to_string(), W3C);
        assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.span_id(), "00f067aa0ba902b7");
        let unrecorded = TraceContext { sampled: false, ..context };
        assert_eq!(unrecorded.to_string().parse(), Ok(unrecorded));
    }

    #[test]
    fn a_later_version_is_parsed_and_its_additions_are_ignored() {
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09-what-comes";
        assert_eq!(later.parse::<TraceContext>().unwrap().to_string(), W3C);
    }

    #[test]
    fn a_malformed_traceparent_is_rejected() {
        for text in [
            "",
            "00",
            "garbage",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ä1",
        ] {
            assert_eq!(text.parse::<TraceContext>(), Err(InvalidTraceparent), "{text}");
        }
    }
}

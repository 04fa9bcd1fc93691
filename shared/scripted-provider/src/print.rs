//! Writes a rule as text that parses back to it. Nested delays become one.

use std::fmt;

use super::{Behaviour, Rule, When};

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let When { provider, model, page, shape, tier, after_calls, first_calls, share, from_ms, to_ms } =
            &self.when;
        let conditions: Vec<String> = [
            provider.map(|provider| format!("provider={provider}")),
            model.as_ref().map(|model| format!("model={model}")),
            page.as_ref().map(|page| format!("page={page}")),
            shape.map(|shape| format!("shape={shape}")),
            tier.map(|tier| format!("tier={tier}")),
            after_calls.map(|calls| format!("after={calls}")),
            first_calls.map(|calls| format!("first={calls}")),
            share.map(|share| format!("share={share}")),
            from_ms.map(|ms| format!("from={ms}ms")),
            to_ms.map(|ms| format!("to={ms}ms")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !conditions.is_empty() {
            write!(f, "{}=", conditions.join(";"))?;
        }
        self.then.fmt(f)
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer => f.write_str("answer"),
            Self::AnswerText(text) => write!(f, "text={}", serde_json::Value::from(text.as_str())),
            Self::Status(status) => write!(f, "{status}"),
            Self::StatusWithRetryAfter { status, retry_after } => {
                write!(f, "{status};retry-after={retry_after}")
            }
            Self::RateLimited { retry_after: None, .. } => f.write_str("429"),
            Self::RateLimited { retry_after: Some(seconds), .. } => write!(f, "429;retry-after={seconds}"),
            Self::NoCapacity => f.write_str("no-capacity"),
            Self::Quota => f.write_str("quota"),
            Self::BadKey => f.write_str("bad-key"),
            Self::UnknownModel => f.write_str("unknown-model"),
            Self::Hang => f.write_str("hang"),
            Self::Delay { .. } => {
                let (pause, then) = self.unwrapped();
                write!(f, "{then};delay={}ms", pause.as_millis())
            }
            Self::Lognormal { median_ms, sigma_percent, then } => {
                write!(f, "{then};delay={median_ms}ms~{}", f64::from(*sigma_percent) / 100.0)
            }
            Self::Next => f.write_str("next"),
            Self::Limit(limit) => limit.fmt(f),
            Self::SlowDrip { bytes, every_ms } => write!(f, "drip;bytes={bytes};every={every_ms}ms"),
            Self::HalfBody => f.write_str("half-body"),
            Self::Reset => f.write_str("reset"),
            Self::Html => f.write_str("html"),
            Self::Garbage => f.write_str("garbage"),
            Self::WrongJson => f.write_str("wrong-json"),
            Self::Huge { bytes } => write!(f, "huge;bytes={bytes}"),
            Self::Refusal => f.write_str("refusal"),
            Self::Truncated => f.write_str("truncated"),
            Self::Loop => f.write_str("loop"),
            Self::Empty => f.write_str("empty"),
        }
    }
}

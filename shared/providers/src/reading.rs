//! What both vendors' answers have in common.

use everypage_core::ports::vision::Finish;
use serde::Deserialize;

/// An answer taken out of its vendor's wrapping.
#[derive(Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) text: String,
    pub(crate) finish: Finish,
    pub(crate) tokens: Tokens,
}

/// Either vendor's names for the same two numbers; absent means not told.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Tokens {
    #[serde(alias = "prompt_tokens")]
    input_tokens: Option<u64>,
    #[serde(alias = "completion_tokens")]
    output_tokens: Option<u64>,
    /// Anthropic counts these apart from `input_tokens`.
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

impl Tokens {
    pub(crate) fn input(&self) -> u64 {
        [self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add)
    }

    pub(crate) fn output(&self) -> u64 {
        self.output_tokens.unwrap_or(0)
    }
}

/// A string, or a list of parts of which some are text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
}

impl Content {
    /// The text parts, one after the other; thinking and tool calls are not the page.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => {
                let is_text =
                    |part: &Part| matches!(part.kind.as_deref(), None | Some("text" | "output_text"));
                parts.into_iter().filter(is_text).filter_map(|part| part.text).collect()
            }
        }
    }

    pub(crate) fn has_refusal(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Parts(parts) => parts.iter().any(|part| part.kind.as_deref() == Some("refusal")),
        }
    }
}

//! What the responses of several providers have in common.

use everypage_core::ports::vision::Finish;
use serde::Deserialize;

/// A parsed response. Its tokens are 0 where the response does not report them.
#[derive(Debug, PartialEq)]
pub(crate) struct Completion {
    pub(crate) text: String,
    pub(crate) finish: Finish,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// The `usage` of a response, under the names of either OpenAI or Anthropic.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    #[serde(alias = "prompt_tokens")]
    input_tokens: Option<u64>,
    #[serde(alias = "completion_tokens")]
    output_tokens: Option<u64>,
    /// Anthropic does not include these in `input_tokens`.
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

impl Tokens {
    pub(super) fn input(&self) -> u64 {
        [self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add)
    }

    pub(super) fn output(&self) -> u64 {
        self.output_tokens.unwrap_or(0)
    }
}

/// A string, or a list of parts of which some are text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
}

impl Content {
    /// Joins the text parts; thinking and tool calls are not part of the page.
    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => {
                let is_text =
                    |part: &Part| matches!(part.kind.as_deref(), None | Some("text" | "output_text"));
                parts.into_iter().filter(is_text).filter_map(|part| part.text).collect()
            }
        }
    }

    pub(super) fn has_refusal(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Parts(parts) => parts.iter().any(|part| part.kind.as_deref() == Some("refusal")),
        }
    }
}

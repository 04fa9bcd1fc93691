//! Parts of responses that several providers have in common.

use everypage_core::ports::vision::Finish;
use serde::Deserialize;

/// A parsed response.
#[derive(Debug, PartialEq)]
pub(crate) struct Completion {
    pub(crate) text: String,
    pub(crate) finish: Finish,
    pub(crate) used: Used,
}

/// Tokens of a call; 0 where the response does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// All tokens of the request.
    pub(crate) input: u64,
    /// Those of `input` that the provider had in its cache.
    pub(crate) cached: u64,
    /// Those of `input` that it wrote into its cache.
    pub(crate) cache_written: u64,
    /// With what the model thought.
    pub(crate) output: u64,
    pub(crate) pages: u64,
    /// In the flex tier.
    pub(crate) is_flex: bool,
}

/// The `usage` of a response, under the names of either OpenAI or Anthropic.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    #[serde(alias = "prompt_tokens")]
    input_tokens: Option<u64>,
    #[serde(alias = "completion_tokens")]
    output_tokens: Option<u64>,
    /// OpenAI includes those that are cached, and those that it writes into its cache, in `prompt_tokens`.
    prompt_tokens_details: Option<PromptDetails>,
    /// Anthropic does not include these in `input_tokens`.
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl Tokens {
    pub(super) fn used(&self) -> Used {
        let (read, written) =
            (self.cache_read_input_tokens.unwrap_or(0), self.cache_creation_input_tokens.unwrap_or(0));
        let input = self.input_tokens.unwrap_or(0).saturating_add(read).saturating_add(written);
        let details = self.prompt_tokens_details.as_ref();
        let cached = details.and_then(|details| details.cached_tokens).unwrap_or(0).saturating_add(read);
        let cached = cached.min(input);
        let written =
            details.and_then(|details| details.cache_write_tokens).unwrap_or(0).saturating_add(written);
        Used {
            input,
            cached,
            cache_written: written.min(input - cached),
            output: self.output_tokens.unwrap_or(0),
            pages: 0,
            is_flex: false,
        }
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

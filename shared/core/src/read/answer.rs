//! Judges whether a model's answer is the page: a refusal, an empty or repeating answer, or one that
//! leaves words out is not.

use std::collections::{HashMap, HashSet};

use crate::{ports::vision::Finish, read::outcome::CallResult};

/// A text layer with fewer words than this is too short to check an answer against.
const MIN_WORDS_TO_COMPARE: usize = 20;
/// The share of a sound text layer's distinct words that an answer must contain. Models drop headers and
/// join hyphenated words, so it is well below all; under half, something was left out.
const MIN_SHARE_OF_WORDS: f64 = 0.5;
/// A line that is repeated this often in a row is a loop of the model, not a page.
const MAX_EQUAL_LINES: usize = 20;
/// A short run of words that is repeated this often at the end of an answer is a loop.
const MAX_EQUAL_TAILS: usize = 12;
/// Longest run of words that is checked for repetition.
const MAX_TAIL_WORDS: usize = 30;

/// Returns what is wrong with an answer, if anything. Failures of the call itself are not judged here.
pub fn judge(text: &str, finish: Finish, text_layer: Option<&str>) -> Result<(), CallResult> {
    match finish {
        Finish::Refusal => return Err(CallResult::Refusal),
        // A loop ends only with the output limit: more tokens would not help.
        Finish::Length if repeats(text) && !text_layer.is_some_and(repeats) => {
            return Err(CallResult::Repeating);
        }
        Finish::Length => return Err(CallResult::Truncated),
        Finish::Complete => {}
    }
    if text.trim().is_empty() {
        return Err(CallResult::Empty);
    }
    if reads_as_refusal(text) {
        return Err(CallResult::Refusal);
    }
    if repeats(text) && !text_layer.is_some_and(repeats) {
        return Err(CallResult::Repeating);
    }
    if text_layer.is_some_and(|layer| misses_most_of(text, layer)) {
        return Err(CallResult::Incomplete);
    }
    Ok(())
}

/// Recognises refusals that come as ordinary text: short, with a typical opening.
fn reads_as_refusal(text: &str) -> bool {
    let text = text.trim().to_lowercase().replace('’', "'");
    const OPENINGS: [&str; 9] = [
        "i'm sorry, but i can",
        "i'm sorry, i can",
        "sorry, but i can",
        "i can't assist",
        "i can't help with",
        "i cannot assist",
        "i'm unable to",
        "i am unable to",
        "i cannot help with",
    ];
    text.len() < 400 && OPENINGS.iter().any(|opening| text.starts_with(opening))
}

fn repeats(text: &str) -> bool {
    repeats_lines(text) || repeats_tail(text)
}

fn repeats_lines(text: &str) -> bool {
    let mut run = 0;
    let mut last = "";
    // Table rules and blank form lines are alike by nature: only lines with words count.
    for line in text.lines().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric)) {
        run = if line == last { run + 1 } else { 1 };
        if run >= MAX_EQUAL_LINES {
            return true;
        }
        last = line;
    }
    false
}

fn repeats_tail(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    (1..=MAX_TAIL_WORDS).any(|size| {
        let times = if size < 3 { MAX_EQUAL_TAILS * 4 } else { MAX_EQUAL_TAILS };
        if words.len() < size * times {
            return false;
        }
        let end = &words[words.len() - size..];
        end.iter().any(|word| word.chars().any(char::is_alphabetic))
            && words.rchunks_exact(size).take(times).all(|chunk| chunk == end)
    })
}

fn misses_most_of(text: &str, layer: &str) -> bool {
    let expected = words(layer);
    if expected.len() < MIN_WORDS_TO_COMPARE || !is_language(layer) {
        return false;
    }
    let found = words(text);
    let kept = expected.iter().filter(|word| found.contains(*word)).count();
    (kept as f64) < expected.len() as f64 * MIN_SHARE_OF_WORDS
}

fn words(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() > 1)
        .map(str::to_lowercase)
        .collect()
}

/// A text layer that is mostly letters and digits, not replacement or private-use characters.
pub fn is_language(text: &str) -> bool {
    let mut counts: HashMap<bool, usize> = HashMap::new();
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        *counts.entry(c.is_alphanumeric() || c.is_ascii_punctuation()).or_default() += 1;
    }
    let good = counts.get(&true).copied().unwrap_or(0);
    let bad = counts.get(&false).copied().unwrap_or(0);
    good > 0 && bad * 4 < good
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYER: &str = "The quick brown fox jumps over the lazy dog while seventeen grey herons watch from \
        the northern bank and a small boat drifts slowly under the old stone bridge towards evening";

    #[test]
    fn a_faithful_answer_passes() {
        assert_eq!(judge(&format!("# Title\n\n{LAYER}"), Finish::Complete, Some(LAYER)), Ok(()));
        assert_eq!(judge("A chart of sales.", Finish::Complete, None), Ok(()));
        assert_eq!(judge("Figure 3", Finish::Complete, Some("Fig")), Ok(()));
    }

    #[test]
    fn an_answer_that_is_not_the_page_is_named_for_what_it_is() {
        let row = "| 1 | 2 |\n".repeat(400);
        for (text, finish, expected) in [
            ("", Finish::Complete, CallResult::Empty),
            (" \n\t", Finish::Complete, CallResult::Empty),
            ("half of", Finish::Length, CallResult::Truncated),
            ("no", Finish::Refusal, CallResult::Refusal),
            ("I’m sorry, but I can't transcribe this page.", Finish::Complete, CallResult::Refusal),
            (row.as_str(), Finish::Complete, CallResult::Repeating),
            ("A page about animals.", Finish::Complete, CallResult::Incomplete),
        ] {
            assert_eq!(judge(text, finish, Some(LAYER)), Err(expected), "{text:.40}");
        }
    }

    #[test]
    fn a_page_that_itself_repeats_may_be_answered_so() {
        let page = "Lorem ipsum dolor sit amet\n".repeat(40);
        assert_eq!(judge(&page, Finish::Complete, Some(&page)), Ok(()));
    }

    #[test]
    fn a_loop_without_line_breaks_is_seen() {
        let text = format!("{LAYER} {}", "and then he said ".repeat(200));
        assert_eq!(judge(&text, Finish::Complete, Some(LAYER)), Err(CallResult::Repeating));
    }

    #[test]
    fn a_garbage_text_layer_is_no_measure() {
        let garbage = "\u{fffd}\u{e001}x ".repeat(200);
        assert_eq!(judge("A perfectly fine page.", Finish::Complete, Some(&garbage)), Ok(()));
    }
}

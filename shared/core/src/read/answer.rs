//! Judges whether a model's answer is the page: a refusal, a loop, or an answer that leaves the page's words out or
//! has other ones is not.

use super::{reference::Reference, words::Words};
use crate::{document::Confidence, ports::vision::Finish, read::outcome::CallResult};

/// The share of the page's distinct words that an answer must contain. Models drop headers and join hyphenated words,
/// and next to a picture some text may be part of it, so it is well below all.
const MIN_WORDS: f32 = 0.6;
const MIN_WORDS_WITH_GRAPHICS: f32 = 0.5;
/// The share of its distinct numbers, if it has enough of them. A chart's scale is often left out.
const MIN_NUMBERS: f32 = 0.5;
const MIN_NUMBERS_WITH_GRAPHICS: f32 = 0.35;
const MIN_NUMBERS_TO_COMPARE: usize = 12;
/// An answer of which a larger part is not on the page is another text.
const MAX_UNKNOWN: f32 = 0.5;
/// On a page without graphics there is nothing to describe: an answer with the whole page in it and so much more, in
/// words and as a part of the answer, has invented that.
const MAX_ADDED_WORDS: usize = 60;
const MAX_ADDED: f32 = 0.6;
/// A model may add a sentence of its own to a page of text without lowering its confidence.
const FREE_ADDED: f32 = 0.2;
/// Answers with fewer words are too short to compare with each other.
const MIN_WORDS_TO_COMPARE: usize = 20;
/// Two answers that share so many words are the same text.
const MIN_SAME: f32 = 0.7;
/// A line that is repeated this often in a row is a loop of the model, not a page.
const MAX_EQUAL_LINES: usize = 20;
/// A short run of words that is repeated this often at the end of an answer is a loop.
const MAX_EQUAL_TAILS: usize = 12;
/// Longest run of words that is checked for repetition.
const MAX_TAIL_WORDS: usize = 30;

/// Why an answer is not the page, in words that have none of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub result: CallResult,
    pub detail: String,
}

impl From<CallResult> for Rejection {
    fn from(result: CallResult) -> Self {
        Self { result, detail: "the model answered, but not with the page".to_owned() }
    }
}

/// The share of the page's own text that the answer has, as its confidence; `None` where there is nothing to compare
/// it with. An error if the answer is not the page. Failures of the call itself are not judged here.
pub fn judge(
    text: &str,
    finish: Finish,
    reference: Option<&Reference>,
) -> Result<Option<Confidence>, Rejection> {
    let is_loop = || repeats(text) && !reference.is_some_and(|reference| reference.repeats);
    match finish {
        Finish::Refusal => return Err(CallResult::Refusal.into()),
        // A loop ends only with the output limit: more tokens would not help.
        Finish::Length if is_loop() => return Err(CallResult::Repeating.into()),
        Finish::Length => return Err(CallResult::Truncated.into()),
        Finish::Complete => {}
    }
    if text.trim().is_empty() {
        return Err(CallResult::Empty.into());
    }
    if reads_as_refusal(text, reference) {
        return Err(CallResult::Refusal.into());
    }
    if is_loop() {
        return Err(CallResult::Repeating.into());
    }
    reference.map(|reference| compare(text, reference)).transpose()
}

/// Whether two answers that have little in common with the page's own text are the same: two models do not invent
/// the same page, so it is the page's text that is wrong.
pub fn is_same_text(one: &str, other: &str) -> bool {
    let (one, other) = (Words::of_answer(one), Words::of_answer(other));
    let share = |of: &Words, there: &Words| {
        share(there.count_words(of) + there.count_numbers(of), of.len()) >= MIN_SAME
    };
    one.len() >= MIN_WORDS_TO_COMPARE
        && other.len() >= MIN_WORDS_TO_COMPARE
        && share(&one, &other)
        && share(&other, &one)
}

fn compare(text: &str, reference: &Reference) -> Result<Confidence, Rejection> {
    let answer = Words::of_answer(text);
    let Reference { required, all, has_graphics, .. } = reference;
    let (words, numbers) = (answer.count_words(required), answer.count_numbers(required));
    let known = all.count_words(&answer) + all.count_numbers(&answer);
    let added = answer.len() - known;
    let unknown = share(added, answer.len());
    if reference.is_sound {
        let percent = |found, of| (100.0 * share(found, of)).round();
        let rejected = |what: &str, found, of| {
            let is_other_text = unknown > MAX_UNKNOWN && answer.len() >= MIN_WORDS_TO_COMPARE;
            let share = percent(found, of);
            Err(if is_other_text {
                let unknown = (100.0 * unknown).round();
                let detail = format!(
                    "{unknown:.0} % of the answer is not on the page, and {share:.0} % of the page's {what} are in it"
                );
                Rejection { result: CallResult::Invented, detail }
            } else {
                let detail = format!("the answer has {share:.0} % of the page's {what}");
                Rejection { result: CallResult::Incomplete, detail }
            })
        };
        let (min_words, min_numbers) = match has_graphics {
            true => (MIN_WORDS_WITH_GRAPHICS, MIN_NUMBERS_WITH_GRAPHICS),
            false => (MIN_WORDS, MIN_NUMBERS),
        };
        if !required.words.is_empty() && share(words, required.words.len()) < min_words {
            return rejected("words", words, required.words.len());
        }
        if required.numbers.len() >= MIN_NUMBERS_TO_COMPARE
            && share(numbers, required.numbers.len()) < min_numbers
        {
            let own = answer.numbers.len() - all.count_numbers(&answer);
            let has_others = own * 2 >= required.numbers.len() - numbers;
            return match has_others {
                true => Err(Rejection {
                    result: CallResult::Invented,
                    detail: format!(
                        "{own} numbers of the answer are not on the page, and {:.0} % of the page's are in it",
                        percent(numbers, required.numbers.len())
                    ),
                }),
                false => rejected("numbers", numbers, required.numbers.len()),
            };
        }
        if !has_graphics && added > MAX_ADDED_WORDS && unknown > MAX_ADDED {
            return rejected("words", words, required.words.len());
        }
    }
    let excess = if *has_graphics { 0.0 } else { (unknown - FREE_ADDED).max(0.0) };
    Ok(Confidence::new(share(words + numbers, required.len()) * (1.0 - excess)))
}

fn share(part: usize, whole: usize) -> f32 {
    part as f32 / whole.max(1) as f32
}

/// Recognises refusals that come as ordinary text: short, with a typical opening that the page does not have.
fn reads_as_refusal(text: &str, reference: Option<&Reference>) -> bool {
    const OPENINGS: [&str; 25] = [
        "i'm sorry, but i can",
        "i'm sorry, i can",
        "i am sorry, but i can",
        "sorry, but i can",
        "sorry, i can",
        "i can't assist",
        "i can't help with",
        "i can't transcribe",
        "i can't provide",
        "i cannot assist",
        "i cannot help with",
        "i cannot transcribe",
        "i cannot provide",
        "i'm unable to",
        "i am unable to",
        "i'm not able to",
        "as an ai",
        "es tut mir leid, aber ich kann",
        "je suis désolé, mais je ne peux",
        "lo siento, pero no puedo",
        "mi dispiace, ma non posso",
        "desculpe, mas não posso",
        "извините, но я не могу",
        "抱歉，我无法",
        "申し訳ありませんが",
    ];
    if text.len() >= 400 {
        return false;
    }
    let text = text.trim().to_lowercase().replace('’', "'");
    let opening = OPENINGS.iter().find(|opening| text.starts_with(**opening));
    opening.is_some_and(|opening| {
        !reference.is_some_and(|reference| reference.opening.replace('’', "'").contains(opening))
    })
}

pub(super) fn repeats(text: &str) -> bool {
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

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

//! The words and numbers of a text, in a form in which two readings of one page can be compared: without markup,
//! case, accents and vowel signs, whatever the script.

use std::collections::HashSet;

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

/// Longer texts are compared by their first part only: a page has some thousand characters.
const MAX_CHARACTERS: usize = 200_000;
/// A word of at least so many letters counts as found where the other text has it as part of a longer word: spaces
/// are lost and words are broken on the way.
const MIN_PART_LETTERS: usize = 4;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Distinct words of two letters or more; pairs of characters for scripts without spaces.
    pub words: HashSet<String>,
    /// Distinct numbers, without their separators: `1,234.50` is `123450`.
    pub numbers: HashSet<String>,
    /// All letters and digits in order.
    letters: String,
    digits: String,
}

impl Words {
    pub fn of(text: &str) -> Self {
        let mut words = Self::default();
        words.add(text);
        words
    }

    /// What a model wrote, without its markup: HTML tags, LaTeX commands, addresses of links and images.
    pub fn of_answer(text: &str) -> Self {
        Self::of(&without_markup(text))
    }

    pub fn add(&mut self, text: &str) {
        let mut token = Token::default();
        let mut characters = text.chars().take(MAX_CHARACTERS).flat_map(simplified).peekable();
        while let Some(c) = characters.next() {
            let is_inner = matches!(c, '.' | ',' | '\'' | '’' | '٫' | '٬')
                && token.text.ends_with(|last: char| last.is_ascii_digit())
                && characters.peek().is_some_and(char::is_ascii_digit);
            if c.is_alphanumeric() {
                if token.is_unspaced.is_some_and(|is_unspaced| is_unspaced != is_unspaced_script(c)) {
                    self.take(&mut token);
                }
                token.is_unspaced = Some(is_unspaced_script(c));
                token.text.push(c);
            } else if !is_inner {
                self.take(&mut token);
            }
        }
        self.take(&mut token);
    }

    fn take(&mut self, token: &mut Token) {
        let Token { text, is_unspaced } = std::mem::take(token);
        if text.is_empty() {
            return;
        }
        self.letters.push_str(&text);
        if text.contains(|c: char| c.is_ascii_digit()) {
            self.digits.extend(text.chars().filter(char::is_ascii_digit));
            self.numbers.insert(text);
        } else if is_unspaced == Some(true) {
            let characters: Vec<char> = text.chars().collect();
            self.words.extend(characters.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if text.chars().nth(1).is_some() {
            self.words.insert(text);
        }
    }

    /// Distinct words and numbers.
    pub fn len(&self) -> usize {
        self.words.len() + self.numbers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of the words of `other` are here, whole or as parts.
    pub fn count_words(&self, other: &Self) -> usize {
        other.words.iter().filter(|word| self.has_word(word)).count()
    }

    pub fn count_numbers(&self, other: &Self) -> usize {
        other.numbers.iter().filter(|number| self.has_number(number)).count()
    }

    fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
            || ((word.chars().count() >= MIN_PART_LETTERS || word.starts_with(is_unspaced_script))
                && (self.letters.contains(word) || self.has_reversed(word)))
    }

    /// Some text layers have words of right-to-left scripts in the order in which they are painted.
    fn has_reversed(&self, word: &str) -> bool {
        word.starts_with(is_right_to_left) && self.letters.contains(&word.chars().rev().collect::<String>())
    }

    fn has_number(&self, number: &str) -> bool {
        self.numbers.contains(number)
            || (number.len() >= MIN_PART_LETTERS
                && (self.letters.contains(number)
                    || (number.bytes().all(|b| b.is_ascii_digit()) && self.digits.contains(number))))
    }
}

#[derive(Default)]
struct Token {
    text: String,
    is_unspaced: Option<bool>,
}

/// A character in lower case without its accents, as ASCII where it is a digit. Raised and lowered digits are marks
/// of notes and exponents, which models write in many ways: they separate words.
fn simplified(c: char) -> impl Iterator<Item = char> {
    let c = match c {
        '⁰' | '¹' | '²' | '³' | '⁴'..='⁹' | '₀'..='₉' => ' ',
        c => digit(c).unwrap_or(c),
    };
    std::iter::once(c).nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase)
}

/// The ASCII digit of a digit of another script.
fn digit(c: char) -> Option<char> {
    const ZEROS: [u32; 15] = [
        0x660, 0x6f0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0, 0x1040,
        0x17e0,
    ];
    let code = u32::from(c);
    let zero = ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&code))?;
    char::from_digit(code - zero, 10)
}

/// Whether the script is written without spaces between words.
fn is_unspaced_script(c: char) -> bool {
    matches!(
        c,
        '\u{e01}'..='\u{eff}'
            | '\u{f00}'..='\u{fff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}')
}

fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '\\', '&', ']']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let skipped = match rest.as_bytes()[0] {
            b'<' => tag(rest),
            b'\\' => 1 + rest[1..].bytes().take_while(u8::is_ascii_alphabetic).count(),
            b'&' => entity(rest),
            _ => link(rest),
        };
        out.push(if skipped > 0 { ' ' } else { char::from(rest.as_bytes()[0]) });
        rest = &rest[skipped.max(1)..];
    }
    out.push_str(rest);
    out
}

/// The length of an HTML tag or comment at the start of the text; 0 if there is none.
fn tag(text: &str) -> usize {
    let is_tag = text[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!'));
    let end = text.char_indices().take(400).find(|(_, c)| *c == '>').map(|(end, _)| end + 1);
    end.filter(|_| is_tag).unwrap_or(0)
}

fn entity(text: &str) -> usize {
    let name = text[1..].bytes().take(10).take_while(|b| b.is_ascii_alphanumeric() || *b == b'#').count();
    if name > 0 && text.as_bytes().get(name + 1) == Some(&b';') { name + 2 } else { 0 }
}

/// `](address)` behind the text of a link or the description of an image.
fn link(text: &str) -> usize {
    if !text.starts_with("](") {
        return 0;
    }
    text.char_indices().take(2_000).find(|(_, c)| *c == ')').map_or(0, |(end, _)| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shared(layer: &str, answer: &str) -> (usize, usize) {
        let (layer, answer) = (Words::of(layer), Words::of_answer(answer));
        (answer.count_words(&layer) + answer.count_numbers(&layer), layer.len())
    }

    #[test]
    fn the_same_text_is_found_however_it_is_written() {
        for (layer, answer) in [
            ("The total is 1,234.50 dollars", "**The** total is `1234.50` dollars"),
            ("docu- mentation of hyphens", "documentation of hyphens"),
            ("thequickbrown fox", "the quick brown fox"),
            ("Neuchâtel café naïve", "Neucha\u{302}tel cafe\u{301} naive"),
            ("E = mc² costs 10 euro", "$$E = mc^{2}$$ costs 10 euro"),
            ("efﬁcient oﬃce", "efficient office"),
            (
                "Name Value alpha 12",
                "<table><tr><td>Name</td><td>Value</td></tr><tr><td>alpha</td><td>12</td></tr></table>",
            ),
            ("مرحبا بالعالم", "مَرْحَبًا بِالعالم"),
            ("ﻣﺮﺣﺒﺎ", "مرحبا"),
            ("שלום עולם", "שָׁלוֹם עוֹלָם"),
            ("敏捷的棕色狐狸跳过了懒狗", "敏捷的棕色\n狐狸跳过了懒狗。"),
            ("สวัสดีชาวโลก", "สวัสดี ชาวโลก"),
            ("दाम १२३४ रुपये", "दाम 1234 रुपये"),
            ("안녕하세요 세계", "안녕하세요 세계"),
            ("Быстрая лиса", "быстрая ЛИСА"),
        ] {
            let (found, of) = shared(layer, answer);
            assert!(of > 0 && found == of, "{layer}: {found} of {of}");
        }
    }

    #[test]
    fn words_of_right_to_left_scripts_are_found_in_painted_order() {
        let painted: String = "مرحبا".chars().rev().collect();
        assert_eq!(shared(&painted, "مرحبا بالعالم"), (1, 1));
    }

    #[test]
    fn other_words_and_numbers_are_not_found() {
        for (layer, answer) in [
            ("alpha beta 1234", "gamma delta 5678"),
            ("敏捷的棕色狐狸", "今天天气很好"),
            ("12 34 56", "78 90 11"),
        ] {
            assert_eq!(shared(layer, answer).0, 0, "{layer}");
        }
    }

    #[test]
    fn markup_is_no_text() {
        let answer = r#"\begin{tabular} <td class="wide">one</td> [two](https://example.org/three) &nbsp; \frac{44}{55} a < b"#;
        let words = Words::of_answer(answer);
        let mut found: Vec<&str> = words.words.iter().chain(&words.numbers).map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["44", "55", "one", "tabular", "two"]);
    }

    proptest! {
        #[test]
        fn every_text_agrees_with_itself(text in "\\PC{0,200}") {
            let words = Words::of(&text);
            prop_assert_eq!(words.count_words(&words), words.words.len());
            prop_assert_eq!(words.count_numbers(&words), words.numbers.len());
        }

        #[test]
        fn no_markup_breaks_the_comparison(text in "[<>&;\\\\\\[\\]()a-z/!é ]{0,80}") {
            Words::of_answer(&text);
        }
    }
}

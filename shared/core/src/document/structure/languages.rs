//! The languages that a document is written in, so that OCR of its scanned pages knows them too.
//!
//! A script of its own says the language, or nearly so. Languages in Latin letters are known by short words that are
//! frequent in one of them and rare in the others. Names are those of Tesseract's data.

use std::collections::BTreeMap;

/// Letters of a document that are enough to know its languages.
const MAX_LETTERS: usize = 40_000;
/// Fewer letters of a script are a name or a quotation.
const MIN_LETTERS: usize = 100;
/// A language has at least this share of the letters, or of the frequent words.
const MIN_SHARE: f64 = 0.1;
/// Fewer frequent words are chance.
const MIN_WORDS: usize = 8;
/// More languages would make OCR slow and worse.
const MAX_LANGUAGES: usize = 3;

/// Words that are frequent in one of these languages and rare or missing in the others.
const FREQUENT: [(&str, &[&str]); 12] = [
    ("ces", &["jsou", "která", "který", "podle", "nebo", "také", "při", "být", "může", "není"]),
    ("dan", &["og", "ikke", "af", "blev", "hvor", "være", "også", "noget", "hvad", "blevet"]),
    ("deu", &["und", "der", "nicht", "ist", "eine", "werden", "mit", "auf", "für", "sich", "auch", "oder"]),
    ("eng", &["the", "and", "that", "with", "are", "this", "which", "from", "were", "been", "have", "their"]),
    ("fin", &["ja", "kuin", "että", "ovat", "mutta", "myös", "tai", "sekä", "joka", "ollut"]),
    ("fra", &["les", "des", "est", "une", "dans", "qui", "sur", "pour", "avec", "aux", "sont", "leur"]),
    ("ita", &["che", "di", "della", "sono", "gli", "nel", "anche", "più", "alla", "degli", "questo"]),
    ("nld", &["het", "een", "van", "niet", "zijn", "voor", "wordt", "ook", "aan", "naar", "deze"]),
    ("pol", &["jest", "nie", "się", "przez", "oraz", "które", "przy", "może", "tym", "lub"]),
    ("por", &["não", "uma", "são", "também", "pela", "foram", "nas", "ao", "você", "às", "pelo"]),
    ("spa", &["el", "los", "las", "fue", "sus", "muy", "también", "más", "hasta", "están", "pero"]),
    ("swe", &["och", "att", "är", "inte", "för", "från", "också", "mycket", "när", "sedan"]),
];

/// The languages of a text, the most frequent first; none if it is too short to know.
pub(super) fn languages_of<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut scripts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut letters, mut latin) = (0, 0);
    for text in texts {
        for word in text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
            let lower = word.to_lowercase();
            for (language, frequent) in FREQUENT {
                *words.entry(language).or_default() += usize::from(frequent.contains(&lower.as_str()));
            }
            for letter in word.chars() {
                letters += 1;
                match language_of_script(letter) {
                    Some(language) => *scripts.entry(language).or_default() += 1,
                    None => latin += 1,
                }
            }
        }
        if letters >= MAX_LETTERS {
            break;
        }
    }
    // Japanese has Chinese characters, too.
    if scripts.get("jpn").is_some_and(|kana| *kana >= MIN_LETTERS) {
        let han = scripts.remove("chi_sim").unwrap_or_default();
        *scripts.entry("jpn").or_default() += han;
    }
    let share = |count: usize, all: usize| count as f64 / all.max(1) as f64;
    let mut found: Vec<(f64, &str)> = scripts
        .into_iter()
        .filter(|(_, count)| *count >= MIN_LETTERS)
        .map(|(language, count)| (share(count, letters), language))
        .collect();
    let all: usize = words.values().sum();
    let known = words.into_iter().filter(|(_, count)| *count >= MIN_WORDS && share(*count, all) >= MIN_SHARE);
    found.extend(known.map(|(language, count)| (share(count, all) * share(latin, letters), language)));
    found.retain(|(share, _)| *share >= MIN_SHARE);
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.truncate(MAX_LANGUAGES);
    found.into_iter().map(|(_, language)| language.to_owned()).collect()
}

fn language_of_script(letter: char) -> Option<&'static str> {
    Some(match letter {
        '\u{0370}'..='\u{03ff}' => "ell",
        'і' | 'ї' | 'є' | 'ґ' | 'І' | 'Ї' | 'Є' | 'Ґ' => "ukr",
        '\u{0400}'..='\u{04ff}' => "rus",
        '\u{0590}'..='\u{05ff}' => "heb",
        '\u{0600}'..='\u{06ff}' => "ara",
        '\u{0900}'..='\u{097f}' => "hin",
        '\u{0e00}'..='\u{0e7f}' => "tha",
        '\u{3040}'..='\u{30ff}' => "jpn",
        '\u{4e00}'..='\u{9fff}' => "chi_sim",
        '\u{ac00}'..='\u{d7af}' => "kor",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let page = text.repeat(10);
        languages_of([page.as_str()].into_iter())
    }

    #[test]
    fn a_language_is_known_by_its_frequent_words_or_its_script() {
        for (text, expected) in [
            ("The harbour is closed and the boats are at the pier by this time. ", "eng"),
            ("Der Hafen ist geschlossen und die Boote werden nicht mit der Flut ankommen. ", "deu"),
            ("Le port est fermé et les bateaux sont dans une baie, avec des voiles pour la nuit. ", "fra"),
            ("El puerto está cerrado y los barcos están en una bahía, como por la noche. ", "spa"),
            ("Гавань закрыта, и лодки стоят у причала до самого утра. ", "rus"),
            ("Το λιμάνι είναι κλειστό και τα πλοία περιμένουν ως το πρωί. ", "ell"),
            ("港は閉まっていて、船は朝まで桟橋で待っている。", "jpn"),
            ("港口已经关闭，船只在码头等到早上。", "chi_sim"),
        ] {
            assert_eq!(of(text).first().map(String::as_str), Some(expected), "{text}");
        }
        assert_eq!(of("The harbour is closed and that is that. ").len(), 1);
    }

    #[test]
    fn a_document_of_two_languages_has_both_and_a_few_words_are_none() {
        let both = of(
            "The harbour is closed and the boats are here. Der Hafen ist zu und die Boote werden nicht fahren. ",
        );
        assert_eq!(both, ["deu", "eng"]);
        assert_eq!(languages_of(["Invoice 4711, total: 20 EUR und Π"].into_iter()), Vec::<String>::new());
        assert_eq!(languages_of(std::iter::empty()), Vec::<String>::new());
    }
}

use proptest::prelude::*;

use super::*;
use crate::{
    document::{Block, BlockKind, PageBox, Reason},
    ids::PageNumber,
    prepare::StoredPage,
};

const LAYER: &str = "The quick brown fox jumps over the lazy dog while seventeen grey herons watch from \
    the northern bank and a small boat drifts slowly under the old stone bridge towards evening";

const CHINESE: &str =
    "敏捷的棕色狐狸跳过了懒狗。今天天气很好，我们去公园散步吧。孩子们在草地上放风筝，老人们坐在长椅上聊天。";
const ARABIC: &str = "اجتمعت اللجنة يوم الثلاثاء لمناقشة التقرير السنوي وميزانية العام المقبل وطلب الأعضاء بيانا \
    أوضح للمخاطر ووافق أمين الصندوق على كتابة واحد قبل الاجتماع التالي وانتهت الجلسة مبكرا دون أعمال أخرى";
const HINDI: &str = "समिति ने मंगलवार को वार्षिक रिपोर्ट और आने वाले वर्ष के बजट पर चर्चा की सदस्यों ने जोखिमों का स्पष्ट विवरण \
    माँगा और कोषाध्यक्ष अगली बैठक से पहले इसे लिखने पर सहमत हुए कोई अन्य कार्य नहीं उठाया गया";
const RUSSIAN: &str = "Комитет собрался во вторник чтобы обсудить годовой отчет и бюджет на предстоящий год члены \
    попросили более ясного изложения рисков и казначей согласился подготовить его до следующего заседания";

fn stored(reason: Reason, confidence: f32, blocks: Vec<Block>, text: &str) -> StoredPage {
    StoredPage {
        page: PageNumber::new(1).unwrap(),
        reason,
        text: text.to_owned(),
        fault: None,
        area: PageBox::default(),
        blocks,
        images: vec![],
        confidence: Confidence::new(confidence),
        doubts: vec![],
        without_images: None,
        is_recognized: false,
        awaits_ocr: false,
    }
}

fn page(reason: Reason, text: &str) -> Reference {
    Reference::of(&stored(reason, 0.97, vec![], text)).unwrap()
}

fn confidence(answer: &str, reference: &Reference) -> f32 {
    judge(answer, Finish::Complete, Some(reference)).unwrap().unwrap().get()
}

fn rejection(answer: &str, reference: &Reference) -> CallResult {
    judge(answer, Finish::Complete, Some(reference)).unwrap_err().result
}

/// A page of a report: 40 words, and a table of 30 numbers.
fn report() -> String {
    let rows: String = (0..10)
        .map(|row| format!("region{row}\t{}\t{}\t{}\n", 1037 * row + 11, 271 * row + 5, 97 * row + 3))
        .collect();
    format!("{LAYER}\n\n{rows}")
}

#[test]
fn honest_answers_pass() {
    let report = report();
    let html: String = report
        .lines()
        .map(|line| format!("<tr><td>{}</td></tr>\n", line.replace('\t', "</td><td>")))
        .collect();
    let described = format!(
        "{LAYER}\n\n![A photograph](figure.png)\n\nThe photograph shows a wide river at dusk with wooden piers, \
         two fishermen with their nets, a row of poplars behind them and heavy clouds gathering above distant hills."
    );
    let without_header = LAYER.replacen("The quick brown fox ", "", 1);
    for (answer, reason, text) in [
        (format!("# Title\n\n{LAYER}"), Reason::Text, LAYER),
        (format!("```markdown\n{LAYER}\n```"), Reason::Text, LAYER),
        (format!("Here is the transcription of the page:\n\n{LAYER}"), Reason::Text, LAYER),
        (LAYER.to_uppercase(), Reason::Text, LAYER),
        (without_header, Reason::Text, LAYER),
        (described, Reason::Image, LAYER),
        (html, Reason::Text, report.as_str()),
        (report.replace('\t', " | "), Reason::Text, report.as_str()),
        (CHINESE.replace('。', "。\n\n"), Reason::Text, CHINESE),
        (ARABIC.to_owned(), Reason::Text, ARABIC),
        (HINDI.to_owned(), Reason::Text, HINDI),
        (RUSSIAN.to_uppercase(), Reason::Text, RUSSIAN),
    ] {
        let share = confidence(&answer, &page(reason, text));
        assert!(share >= 0.8, "{share}: {answer:.60}");
    }
}

#[test]
fn dishonest_answers_are_named_for_what_they_are() {
    let report = report();
    let invented = "Our quarterly newsletter introduces three colleagues who joined marketing last spring and \
        explains why parking permits must be renewed online before Friday because paper forms disappear forever";
    let other_numbers: String = report
        .chars()
        .map(|c| c.to_digit(10).and_then(|digit| char::from_digit((digit * 7 + 4) % 10, 10)).unwrap_or(c))
        .collect();
    let no_numbers = report.lines().take(2).collect::<Vec<_>>().join("\n");
    let added = format!(
        "{LAYER}\n\n{}",
        (0..90)
            .map(|word| format!("invention{}", "x".repeat(word % 7) + &word.to_string()))
            .collect::<Vec<_>>()
            .join(" ")
    );
    let half: String = LAYER.split_whitespace().take(12).collect::<Vec<_>>().join(" ");
    for (answer, reason, text, expected) in [
        ("A page about animals.", Reason::Image, LAYER, CallResult::Incomplete),
        (half.as_str(), Reason::Text, LAYER, CallResult::Incomplete),
        (invented, Reason::Image, LAYER, CallResult::Invented),
        (invented, Reason::Text, LAYER, CallResult::Invented),
        (&other_numbers, Reason::Text, &report, CallResult::Invented),
        (&no_numbers, Reason::Text, &report, CallResult::Incomplete),
        (&added, Reason::Text, LAYER, CallResult::Invented),
        (ARABIC, Reason::Image, CHINESE, CallResult::Invented),
        (RUSSIAN, Reason::Image, HINDI, CallResult::Invented),
        (LAYER, Reason::Image, RUSSIAN, CallResult::Invented),
        (CHINESE, Reason::Text, ARABIC, CallResult::Invented),
    ] {
        assert_eq!(rejection(answer, &page(reason, text)), expected, "{answer:.60}");
    }
}

#[test]
fn an_answer_that_is_not_the_page_is_named_for_what_it_is() {
    let row = "| 1 | 2 |\n".repeat(400);
    let reference = page(Reason::Text, LAYER);
    for (text, finish, expected) in [
        ("", Finish::Complete, CallResult::Empty),
        (" \n\t", Finish::Complete, CallResult::Empty),
        ("half of", Finish::Length, CallResult::Truncated),
        ("no", Finish::Refusal, CallResult::Refusal),
        ("I’m sorry, but I can't transcribe this page.", Finish::Complete, CallResult::Refusal),
        ("Es tut mir leid, aber ich kann das nicht lesen.", Finish::Complete, CallResult::Refusal),
        (row.as_str(), Finish::Complete, CallResult::Repeating),
    ] {
        assert_eq!(judge(text, finish, Some(&reference)).unwrap_err().result, expected, "{text:.40}");
    }
}

#[test]
fn a_page_that_reads_like_a_refusal_may_be_answered_so() {
    let letter = format!("I'm sorry, but I can not come to dinner. {LAYER}");
    let reference = page(Reason::Text, &letter);
    let short: String = letter.chars().take(390).collect();
    assert!(judge(&short, Finish::Complete, Some(&reference)).is_ok());
}

#[test]
fn headers_and_labels_of_figures_may_be_left_out() {
    let block = |kind, text: &str| Block { kind, text: text.to_owned(), ..Block::default() };
    let labels = (0..60).map(|tick| format!("tick{tick} {}", tick * 5)).collect::<Vec<_>>().join(" ");
    let blocks = vec![
        block(
            BlockKind::PageHeader,
            "Proceedings of the annual conference on migrating waterfowl, volume 27",
        ),
        block(BlockKind::Figure, &labels),
        block(BlockKind::Paragraph, LAYER),
    ];
    let reference =
        Reference::of(&stored(Reason::VectorFigure, 0.6, blocks, &format!("{labels} {LAYER}"))).unwrap();
    assert_eq!(confidence(LAYER, &reference), 1.0);
    assert_eq!(confidence(&format!("{LAYER} {labels}"), &reference), 1.0);
}

#[test]
fn a_weak_text_rejects_nothing_and_still_measures() {
    let weak = Reference::of(&stored(Reason::Scanned, 0.3, vec![], LAYER)).unwrap();
    assert!(confidence(CHINESE, &weak) < 0.1);
    assert!(confidence(&LAYER.replace("herons", "hcrons"), &weak) > 0.9);
    // A scan that was read with a high confidence is as good as a text layer.
    let sound = Reference::of(&stored(Reason::Scanned, 0.93, vec![], LAYER)).unwrap();
    assert_eq!(rejection(CHINESE, &sound), CallResult::Invented);
}

#[test]
fn garbage_and_short_texts_are_no_measure() {
    for (reason, text) in [
        (Reason::GarbageText, LAYER),
        (Reason::Text, "Page 7 of 9"),
        (Reason::Text, &"\u{fffd}\u{e001}x ".repeat(200)),
    ] {
        assert!(Reference::of(&stored(reason, 0.1, vec![], text)).is_none(), "{text:.20}");
    }
    assert_eq!(judge("A chart of sales.", Finish::Complete, None), Ok(None));
}

#[test]
fn a_page_that_itself_repeats_may_be_answered_so() {
    let text = format!("{LAYER}\n{}", "Lorem ipsum dolor sit amet\n".repeat(40));
    assert!(judge(&text, Finish::Complete, Some(&page(Reason::Text, &text))).is_ok());
}

#[test]
fn a_loop_without_line_breaks_is_seen() {
    let text = format!("{LAYER} {}", "and then he said ".repeat(200));
    assert_eq!(rejection(&text, &page(Reason::Text, LAYER)), CallResult::Repeating);
}

#[test]
fn two_answers_are_the_same_text_or_not() {
    assert!(is_same_text(LAYER, &format!("# Birds\n\n{LAYER}")));
    assert!(!is_same_text(LAYER, RUSSIAN));
    assert!(!is_same_text("too short", "too short"));
}

proptest! {
    /// A faithful transcription passes in any markup and any order of its lines, and its confidence is high.
    #[test]
    fn a_reordered_transcription_passes(
        lines in prop::collection::vec("[a-z]{3,9}( [a-z]{3,9}){4,9}", 5..20),
        seed in any::<u64>(),
        prefix in prop::sample::select(vec!["", "- ", "> ", "## ", "| ", "**"]),
    ) {
        let layer = lines.join("\n");
        let mut shuffled = lines.clone();
        shuffled.sort_by_key(|line| crate::digest::sha256_hex(format!("{seed}{line}").as_bytes()));
        let answer: String = shuffled.iter().map(|line| format!("{prefix}{line}\n")).collect();
        if let Some(reference) = Reference::of(&stored(Reason::Text, 0.97, vec![], &layer)) {
            prop_assert_eq!(confidence(&answer, &reference), 1.0);
        }
    }

    /// The more of a page an answer leaves out, the lower its confidence, until it is rejected.
    #[test]
    fn what_is_left_out_lowers_the_confidence(kept in 0_usize..=60) {
        let words: Vec<String> = (0..60).map(|word| format!("{}word{}", ["ea", "ton", "ris"][word % 3], "abcdefghij".chars().nth(word % 10).unwrap().to_string().repeat(1 + word / 10))).collect();
        let reference = page(Reason::Text, &words.join(" "));
        let answer = format!("| {}", words[..kept].join(" | "));
        match judge(&answer, Finish::Complete, Some(&reference)) {
            Ok(found) => prop_assert!(kept as f32 / 60.0 >= MIN_WORDS - 0.1 && found.unwrap().get() >= MIN_WORDS - 0.01),
            Err(rejection) => prop_assert!(kept < 45 && rejection.result != CallResult::Invented),
        }
    }

    #[test]
    fn no_answer_panics(answer in "\\PC{0,300}", layer in "\\PC{0,300}") {
        let reference = Reference::of(&stored(Reason::Text, 0.9, vec![], &layer));
        let _ = judge(&answer, Finish::Complete, reference.as_ref());
    }
}

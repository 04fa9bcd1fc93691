use super::*;
use proptest::prelude::*;

use crate::{document::TableStyle, finish::format::Format, providers::target::Provider};

fn number(page: u32) -> PageNumber {
    PageNumber::new(page).unwrap()
}

fn ai(text: &str) -> (Settlement, Option<String>) {
    let at = Timestamp::UNIX_EPOCH;
    let outcome = Settlement::read_by(Target::new(Provider::OpenAi, "m"), text, None, vec![], at, at);
    (outcome, Some(text.to_owned()))
}

fn fallback() -> (Settlement, Option<String>) {
    let at = Timestamp::UNIX_EPOCH;
    (Settlement::fallback("all models failed".into(), vec![], at, at), None)
}

fn input(
    page: u32,
    text: Option<&str>,
    sent: bool,
    settled: Option<(Settlement, Option<String>)>,
) -> PageInput {
    let reason = if sent { Reason::Image } else { Reason::Text };
    PageInput {
        page: number(page),
        reason,
        own_text: text.map(str::to_owned),
        own_source: TextSource::Mupdf,
        awaits_ocr: false,
        own_blocks: vec![],
        confidence: None,
        doubts: vec![],
        fault: None,
        sent_to_ai: sent,
        settled,
        other_calls: vec![],
    }
}

fn document(cause: Cause) -> ResultDocument {
    assemble(
        JobId::new("j"),
        1,
        ("report.pdf".into(), "00".into()),
        Timestamp::UNIX_EPOCH,
        cause,
        [
            input(1, Some("one\n"), false, None),
            input(2, Some("two"), true, Some(ai("# Two"))),
            input(3, Some("three"), true, Some(fallback())),
            input(4, Some("four"), true, None),
            input(5, None, true, None),
        ],
    )
}

fn rendered(format: Format, document: &ResultDocument) -> String {
    String::from_utf8(format.render(document, TableStyle::default()).unwrap()).unwrap()
}

#[test]
fn each_page_says_where_its_text_came_from() {
    let sources = |cause| document(cause).pages.iter().map(|page| page.source.name()).collect::<Vec<_>>();
    assert_eq!(
        sources(Cause::Deadline),
        ["mupdf", "ai", "mupdf_fallback", "mupdf_timeout_fallback", "mupdf_timeout_fallback"]
    );
    assert_eq!(
        sources(Cause::Cancelled),
        ["mupdf", "ai", "mupdf_fallback", "mupdf_fallback", "mupdf_fallback"]
    );
}

#[test]
fn the_plain_form_names_every_page() {
    insta::assert_snapshot!(rendered(Format::Text, &document(Cause::Deadline)), @r"
    === Page 1 ===
    one

    === Page 2 ===
    # Two

    === Page 3 ===
    three

    === Page 4 ===
    four

    === Page 5 ===
    [Page 5 - text not available]
    ");
}

#[test]
fn the_markdown_form_has_an_anchor_for_every_page() {
    insta::assert_snapshot!(rendered(Format::Markdown, &document(Cause::Deadline)), @r#"
    <a id="page-1"></a>
    <!-- page 1: mupdf -->

    one

    ---

    <a id="page-2"></a>
    <!-- page 2: ai, openai:m -->

    # Two

    ---

    <a id="page-3"></a>
    <!-- page 3: mupdf_fallback -->

    three

    ---

    <a id="page-4"></a>
    <!-- page 4: mupdf_timeout_fallback -->

    four

    ---

    <a id="page-5"></a>
    <!-- page 5: mupdf_timeout_fallback -->

    [Page 5 - text not available]
    "#);
}

#[test]
fn the_figures_add_up() {
    let metadata = document(Cause::Deadline).metadata;
    assert_eq!(
        (metadata.total_pages, metadata.ai_pages, metadata.pages_done, metadata.pages_failed),
        (5, 4, 1, 3)
    );
    assert_eq!((metadata.missing_pages, metadata.missing_page_numbers), (1, vec![number(5)]));
    assert_eq!(metadata.timeout_fallback_pages, 2);
    assert_eq!(metadata.timeout_fallback_page_numbers, [number(4), number(5)]);
    assert!(metadata.timeout_occurred);
    assert_eq!(
        metadata.final_ai_pages + metadata.final_mupdf_pages + metadata.final_timeout_fallback_pages,
        metadata.total_pages
    );
}

proptest! {
    #[test]
    fn every_page_is_there_once_with_text(kinds in prop::collection::vec((0u8..3, any::<bool>(), any::<bool>()), 0..50)) {
        let inputs = kinds.iter().enumerate().map(|(index, (settled, sent, text))| {
            let settled = match (sent, settled) { (true, 0) => Some(ai("seen")), (true, 1) => Some(fallback()), _ => None };
            input(index as u32 + 1, text.then_some("layer"), *sent, settled)
        });
        let document = assemble(JobId::new("j"), 1, (String::new(), String::new()), Timestamp::UNIX_EPOCH, Cause::Deadline, inputs);
        let pages: Vec<u32> = document.pages.iter().map(|page| page.page.get()).collect();
        prop_assert_eq!(pages, (1..=kinds.len() as u32).collect::<Vec<_>>());
        prop_assert!(document.pages.iter().all(|page| !page.text.is_empty()));
        let metadata = &document.metadata;
        prop_assert_eq!(metadata.pages_done + metadata.pages_failed, metadata.ai_pages);
        prop_assert_eq!(metadata.final_ai_pages + metadata.final_mupdf_pages + metadata.final_timeout_fallback_pages, metadata.total_pages);
    }
}

//! Scans without an AI: the real program with the real OCR, where that is built.

use crate::support::{Bench, report};

/// Whether `everypage-ocr` is next to the program; `./test` builds it and then requires it.
fn is_ocr_built() -> bool {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_everypage")).with_file_name("everypage-ocr");
    let required = std::env::var_os("EVERYPAGE_TEST_OCR").is_some();
    assert!(program.exists() || !required, "{} is missing", program.display());
    program.exists()
}

#[tokio::test]
async fn a_scan_has_text_without_any_key() {
    if !is_ocr_built() {
        return;
    }
    let bench = Bench::new(&[]).await.with("OPENAI_API_KEY", "").with("ANTHROPIC_API_KEY", "");
    let bench = bench.with("OPENAI_BASE_URL", "").with("ANTHROPIC_BASE_URL", "").with("OCR", "auto");
    // A letter, scanned with its edges.
    let ran = bench.run(&["process", &report(), "--pages", "8-9"]).await.code(0);
    let ran = ran.reports("ocr    9").prints("=== Page 9 ===");
    let letter = ran.stdout.split("=== Page 9 ===").nth(1).unwrap();
    assert!(letter.contains("1926"), "{letter}");
    bench.run(&["config", "check"]).await.prints("OCR: ready, languages: eng");
    // Nothing is done twice: the stored page is found.
    let again =
        bench.run(&["process", &report(), "--pages", "9", "--force", "--format", "json"]).await.code(0);
    assert_eq!(again.json()["pages"][0]["source"], "ocr");
    // And a text of it can be checked.
    for (text, agrees) in [(letter, true), ("Dear Sir, another letter was written in 1926.", false)] {
        std::fs::write(bench.path("letter.txt"), format!("=== Page 9 ===\n{text}")).unwrap();
        let verdict = bench.run(&["verify", &report(), &bench.path("letter.txt"), "--json"]).await.json();
        let page = &verdict["pages"][8];
        assert_eq!((&page["page"], &page["is_recognized"]), (&9.into(), &true.into()), "{page}");
        let differ = verdict["pages_that_differ"].as_array().unwrap();
        assert_eq!(!differ.contains(&9.into()), agrees, "{page}");
    }
}

#[tokio::test]
async fn missing_language_data_is_named() {
    let bench = Bench::new(&[]).await.with("OCR", "auto").with("OCR_LANGUAGES", "eng+xyz");
    let ran = bench.run(&["config", "check"]).await.code(0);
    ran.prints("OCR: not available, languages: eng+xyz").reports("tesseract-ocr-xyz");
    let bench = Bench::new(&[]).await.with("OCR_LANGUAGES", "../../etc/passwd");
    bench.run(&["config", "check"]).await.code(2).reports("OCR_LANGUAGES");
}

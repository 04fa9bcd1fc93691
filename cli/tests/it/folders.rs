//! `everypage process` with folders, patterns and standard input.

use everypage_hostile::{
    builder::{Page, document},
    picture::{Pixels, png, tiff},
};
use tokio::io::AsyncWriteExt;

use crate::support::{Bench, bounded, end, interrupt, report, sample};

/// Three documents of two pages in two folders, and one that is none.
fn make_tree(bench: &Bench) {
    for (path, first) in [("in/a.pdf", 1), ("in/deep/a.pdf", 2), ("in/deep/er/b.pdf", 3)] {
        let path = bench.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, document(&[Page::prose(first), Page::prose(first + 10)])).unwrap();
    }
    std::fs::write(bench.path("in/deep/words.pdf"), "these are words").unwrap();
    std::fs::write(bench.path("in/notes.txt"), "not a document").unwrap();
}

#[tokio::test]
async fn a_folder_is_read_into_the_same_tree_and_again_without_work() {
    let bench = Bench::new(&[]).await;
    make_tree(&bench);
    let (input, out) = (bench.path("in"), bench.path("out"));
    let ran = bench.run(&["process", &input, "-o", &out, "--jobs", "2"]).await.code(1);
    let ran = ran
        .reports("in/deep/words.pdf: this is not a PDF")
        .reports("in/deep/er/b.pdf: success, 2 pages in ")
        .reports("3  complete")
        .reports("1  failed")
        .reports("4  in all");
    assert_eq!(ran.stderr.lines().filter(|line| line.contains("/a.pdf: ")).count(), 2, "{}", ran.stderr);
    assert!(!ran.stderr.contains("all plain text"), "one line per document: {}", ran.stderr);
    for (file, page) in [("out/a.txt", 11), ("out/deep/a.txt", 12), ("out/deep/er/b.txt", 13)] {
        assert!(bench.read(file).contains(&format!("Page {page}, line 0")), "{file}");
    }
    // The same command again: results that are gone are written again, and nothing is read again.
    std::fs::remove_dir_all(bench.path("out/deep")).unwrap();
    std::fs::remove_file(bench.path("in/deep/words.pdf")).unwrap();
    let ran = bench.run(&["process", &input, "-o", &out]).await.code(0);
    ran.reports("3 done before").reports("in/a.pdf: success, 2 pages").reports(", done before, written to ");
    assert!(bench.read("out/deep/er/b.txt").contains("Page 13, line 0"));
    let listed = bench.run(&["jobs", "list", "--json"]).await.json();
    assert_eq!(listed.as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_pattern_in_quotes_is_expanded() {
    let bench = Bench::new(&[]).await;
    make_tree(&bench);
    let (pattern, out) = (bench.path("in/**/a.pdf"), bench.path("out"));
    let ran = bench.run(&["process", &pattern, "-o", &out, "--json"]).await.code(0).json();
    assert_eq!(ran["totals"]["complete"]["pages"], 4);
    assert!(bench.read("out/deep/a.txt").contains("Page 12, line 0"));
    bench.run(&["process", &bench.path("in/*.png"), "-o", &out]).await.code(1).reports("no file matches");
}

#[tokio::test]
async fn standard_input_is_a_document() {
    let bench = Bench::new(&[]).await;
    let mut child = bench.start(&["process", "-", "--pages", "1"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&std::fs::read(report()).unwrap()).await.unwrap();
    drop(stdin);
    let ran = end(child).await.code(0);
    ran.prints("=== Page 1 ===\nHarbour report").reports("standard input: success, 1 page");
    bench.run(&["process", "-"]).await.code(1).reports("standard input: the file is empty");
    bench.run(&["process", "-", "-", "--json"]).await.code(2).reports("only once");
    bench.run(&["process", "-", "--password-stdin"]).await.code(2).reports("--password-stdin");
    let bench = bench.with("MAX_FILE_BYTES", "1000");
    let ran = bench.run_with(&["process", "-"], &"x".repeat(2000)).await.code(1);
    ran.reports("the limit is 1000");
}

#[tokio::test]
async fn documents_are_started_as_there_is_room_and_the_rest_is_not_after_ctrl_c() {
    let bench = Bench::new(&["hang"]).await.with("REQUEST_TIMEOUT", "1m");
    for number in 0..30 {
        let mut bytes = std::fs::read(sample("harbour-report-2026.pdf")).unwrap();
        bytes.extend(format!("\n% {number}").as_bytes());
        std::fs::create_dir_all(bench.path("in")).unwrap();
        std::fs::write(bench.path(&format!("in/{number}.pdf")), bytes).unwrap();
    }
    let child = bench.start(&["process", &bench.path("in"), "--json", "--jobs", "3", "--pages", "4"]);
    bench.calls(3).await;
    let listed = bench.run(&["jobs", "list", "--json"]).await.json();
    assert_eq!(listed.as_array().unwrap().len(), 3, "no more jobs than asked for");
    interrupt(&child);
    let ran = end(child).await.code(130);
    assert_eq!(ran.json()["totals"]["not_started"], 27);
    assert_eq!(ran.json()["totals"]["cancelled"]["documents"], 3);
    ran.reports("27  not started");
}

#[tokio::test]
async fn images_of_a_folder_are_read_by_ai() {
    let bench = Bench::new(&[]).await;
    let picture =
        || Pixels::new(300, 200, |x, y| if (x / 20 + y / 20) % 2 == 0 { [20, 30, 40] } else { [250; 3] });
    std::fs::create_dir(bench.path("in")).unwrap();
    std::fs::write(bench.path("in/a.png"), png(&picture())).unwrap();
    std::fs::write(bench.path("in/a.tiff"), tiff(&[picture(), picture(), picture()], &[])).unwrap();
    std::fs::write(bench.path("in/broken.jpg"), b"\xff\xd8\xff\xe0 not a picture").unwrap();
    let ran = bench.run(&["process", &bench.path("in"), "-o", &bench.path("out")]).await.code(1);
    ran.reports("a.png: success, 1 page in")
        .reports("a.tiff: success, 3 pages in")
        .reports(", 3 by AI")
        .reports("broken.jpg: the image can't be read: ");
    assert!(bench.read("out/a.txt").contains("[read by gpt-5.4]"));
    assert_eq!(bench.read("out/a-2.txt").matches("[read by gpt-5.4]").count(), 3);
}

#[tokio::test]
async fn a_result_never_replaces_its_document() {
    let bench = Bench::new(&[]).await;
    std::fs::write(bench.path("x.txt"), document(&[Page::prose(1)])).unwrap();
    let before = std::fs::read(bench.path("x.txt")).unwrap();
    let folder = bench.folder.path().display().to_string();
    bench.run(&["process", &bench.path("x.txt"), "-o", &folder]).await.code(2).reports("would replace");
    assert_eq!(std::fs::read(bench.path("x.txt")).unwrap(), before);
}

#[tokio::test]
async fn a_terminal_shows_the_documents_that_have_ended() {
    let bench = Bench::new(&[]).await;
    make_tree(&bench);
    let mut child = bench.start_at_terminal(&["process", &bench.path("in"), "-o", &bench.path("out")]);
    child.stdin = None;
    let output = bounded(child.wait_with_output()).await.unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("er/b.pdf: success, 2 pages"), "{shown}");
    assert!(shown.contains("3  complete"), "{shown}");
}

#[tokio::test]
async fn a_document_in_s3_is_for_a_stack() {
    let bench = Bench::new(&[]).await;
    let process = bench.run(&["process", "s3://acme-scans/a.pdf"]).await;
    process.code(2).reports("`submit` reads it on a stack");
}

//! Bad input gets a clear error, and good input next to it gets its text.

use std::{cell::Cell, path::Path};

use futures::future::join_all;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    builder::{Page, document, with_count},
    hostile::{bomb, runaway, with_bad_tag},
    processes::{signal_busy_child, wait_until_gone, watch_memory},
    support::{Bench, Ran, end, report, sample},
};

/// Words of every page that [`Page::prose`] makes.
const PROSE: &str = "The committee met again";

/// The expected outcome of a file.
enum Expected {
    /// Accepted, failed, and a dead letter with this code.
    DeadLetter { code: &'static str },
    /// Rejected before a job is created.
    Rejected,
    /// Read: the number of pages with text, and the exit code of the file alone.
    Read { with_text: usize, exit: u64 },
}

use Expected::{DeadLetter, Read, Rejected};

struct Case {
    name: &'static str,
    expected: Expected,
    /// Part of the message or the summary.
    message: &'static str,
}

fn case(name: &'static str, expected: Expected, message: &'static str) -> Case {
    Case { name, expected, message }
}

fn three() -> Vec<u8> {
    document(&[Page::prose(1), Page::prose(2), Page::prose(3)])
}

/// Writes a file and returns its path.
fn write(bench: &Bench, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = bench.path(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn noise(count: u32) -> impl Iterator<Item = u8> {
    (0..count).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
}

/// Every kind of bad file that the specification names.
fn make_files(bench: &Bench) -> Vec<Case> {
    let whole = three();
    write(bench, "good.pdf", &whole);
    write(bench, "words.pdf", "Dear Sir or Madam");
    write(bench, "page.pdf", "<html><body>404</body></html>");
    write(bench, "picture.pdf", b"\x89PNG\r\n\x1a\n0000");
    write(bench, "empty.pdf", "");
    write(bench, "header.pdf", &whole[..20]);
    write(bench, "cut-early.pdf", &whole[..whole.len() / 20]);
    write(bench, "cut-late.pdf", &whole[..whole.len() - 200]);
    write(bench, "noise.pdf", b"%PDF-1.7\n".iter().copied().chain(noise(20_000)).collect::<Vec<_>>());
    let mut scratched = whole.clone();
    let middle = scratched.len() / 2;
    scratched.splice(middle..middle + 300, noise(300));
    write(bench, "scratched.pdf", scratched);
    let text = String::from_utf8_lossy(&whole).replace("xref\n0 ", "xreg\n7 ");
    write(bench, "no-index.pdf", text);
    write(bench, "no-pages.pdf", document(&[]));
    write(bench, "long.pdf", document(&vec![Page::blank(); 100_000]));
    write(bench, "boast.pdf", with_count(&[Page::prose(1)], 100_000));
    let poster = Page::prose(2).size(28_346.0, 28_346.0);
    write(bench, "poster.pdf", document(&[Page::prose(1), poster, Page::prose(3)]));
    write(bench, "bomb.pdf", document(&[Page::prose(1), bomb(), Page::prose(3)]));
    write(bench, "tag.pdf", document(&[Page::prose(1), with_bad_tag(Page::prose(2)), Page::prose(3)]));
    write(bench, "runaway.pdf", document(&[Page::prose(1), runaway(), Page::prose(3)]));
    std::fs::copy(sample("encrypted.pdf"), bench.path("locked.pdf")).unwrap();
    std::fs::create_dir(bench.path("folder.pdf")).unwrap();
    std::os::unix::fs::symlink("round.pdf", bench.path("round.pdf")).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", bench.path("broken-disk.pdf")).unwrap();
    // One byte over the limit, as a sparse file.
    let large = std::fs::File::create(bench.path("large.pdf")).unwrap();
    large.set_len(MAX_FILE_BYTES + 1).unwrap();
    vec![
        case("good.pdf", Read { with_text: 3, exit: 0 }, "success, 3 pages"),
        case(
            "words.pdf",
            DeadLetter { code: "not_a_pdf" },
            "this is not a PDF or an image (PNG, JPEG, TIFF, WebP): it starts like none of them",
        ),
        case("page.pdf", DeadLetter { code: "not_a_pdf" }, "WebP): it looks like HTML"),
        case("picture.pdf", DeadLetter { code: "bad_image" }, "the image can't be read: "),
        case("empty.pdf", DeadLetter { code: "empty_file" }, "the file is empty (0 bytes); copy"),
        case("header.pdf", DeadLetter { code: "corrupt_pdf" }, "the PDF is damaged beyond repair"),
        // The first page is incomplete and the others are missing, which differs from blank pages.
        case("cut-early.pdf", Read { with_text: 1, exit: 4 }, "the page is missing from the file"),
        case("cut-late.pdf", Read { with_text: 3, exit: 0 }, "success, 3 pages"),
        case(
            "noise.pdf",
            DeadLetter { code: "corrupt_pdf" },
            "damaged beyond repair: no objects found; get it again",
        ),
        case("scratched.pdf", Read { with_text: 3, exit: 0 }, "success, 3 pages"),
        case("no-index.pdf", Read { with_text: 3, exit: 0 }, "success, 3 pages"),
        case("no-pages.pdf", DeadLetter { code: "no_pages" }, "the PDF has no pages; get it again"),
        case(
            "long.pdf",
            DeadLetter { code: "too_many_pages" },
            "the document has 100000 pages; the limit is 20000 (MAX_PAGES); split it",
        ),
        case("boast.pdf", DeadLetter { code: "corrupt_pdf" }, "it claims an impossible number of pages"),
        case(
            "poster.pdf",
            Read { with_text: 2, exit: 4 },
            "the page measures 10.0 m x 10.0 m (28346 x 28346 points); the limit is 14400 points (MAX_PAGE_POINTS)",
        ),
        case("bomb.pdf", Read { with_text: 2, exit: 4 }, "success, 3 pages"),
        case("tag.pdf", Read { with_text: 3, exit: 0 }, "success, 3 pages"),
        case("runaway.pdf", Read { with_text: 2, exit: 4 }, "took longer than 2 s"),
        case(
            "locked.pdf",
            DeadLetter { code: "password_needed" },
            "the PDF is encrypted and no password was given; pass the right one with --password-stdin",
        ),
        case("folder.pdf", Rejected, "the folder has no documents (.pdf"),
        case("missing.pdf", Rejected, "No such file or directory"),
        case("round.pdf", Rejected, "Too many levels of symbolic links"),
        case("broken-disk.pdf", Rejected, "Input/output error"),
        case("large.pdf", Rejected, "it has 67108865 bytes; the limit is 67108864 (MAX_FILE_BYTES)"),
    ]
}

const MAX_FILE_BYTES: u64 = 64 << 20;
const MAX_MEMORY_BYTES: u64 = 512 << 20;

#[tokio::test]
async fn each_bad_file_is_reported_and_none_stops_the_others() {
    let bench = Bench::new(&[])
        .await
        .with("MAX_FILE_BYTES", &MAX_FILE_BYTES.to_string())
        .with("PDF_MAX_MEMORY_BYTES", &MAX_MEMORY_BYTES.to_string())
        .with("PAGE_TIMEOUT", "2s")
        .with("IMAGE_DPI", "20");
    let cases = make_files(&bench);
    let files: Vec<String> = cases.iter().map(|case| bench.path(case.name)).collect();
    let out = bench.path("out");
    let mut args = vec!["process", "-o", &out, "--json"];
    args.extend(files.iter().map(String::as_str));

    let child = bench.start(&args);
    let (pid, peak) = (child.id().unwrap(), Cell::default());
    let ran = tokio::select! {
        ran = end(child) => ran.code(1),
        () = watch_memory(pid, &peak) => unreachable!("it watches until the program ends"),
    };
    let (own, parser) = peak.get();
    println!("peak memory: {own} kB, and {parser} kB of a parser's process");
    assert!(own < 300_000, "{own} kB");
    assert!(parser <= MAX_MEMORY_BYTES >> 10, "{parser} kB");

    let summary = ran.json();
    let listed = bench.run(&["jobs", "list", "--limit", "100", "--json"]).await.code(0).json();
    let letters = bench.run(&["dlq", "list", "--json"]).await.code(0).json();
    for (case, document) in cases.iter().zip(summary["documents"].as_array().unwrap()) {
        check(case, document, &ran, &listed, &letters, Path::new(&out));
    }
    let dead = cases.iter().filter(|case| matches!(case.expected, DeadLetter { .. })).count();
    assert_eq!(letters.as_array().unwrap().len(), dead);
}

fn check(case: &Case, summary: &Value, ran: &Ran, listed: &Value, letters: &Value, out: &Path) {
    let Case { name, expected, message } = case;
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let job = listed.as_array().unwrap().iter().find(|job| job["id"] == summary["job"]);
    let error = lines.iter().find(|line| line.starts_with("error: ") && line.contains(&format!("/{name}: ")));
    match expected {
        DeadLetter { code } => {
            let job = job.unwrap_or_else(|| panic!("{name} has no job"));
            assert_eq!((&job["state"], &job["status"]), (&"FAILED".into(), &"failed".into()), "{name}");
            assert_eq!(summary["error"]["code"], *code, "{name}");
            let letter =
                letters.as_array().unwrap().iter().find(|letter| letter["subject"]["job"] == job["id"]);
            let reason =
                letter.unwrap_or_else(|| panic!("{name} has no dead letter"))["reason"].as_str().unwrap();
            assert!(reason.starts_with(&format!("{code}: ")), "{name}: {reason}");
        }
        Rejected => assert!(job.is_none(), "{name}: {job:?}"),
        Read { with_text, exit } => {
            let job = job.unwrap_or_else(|| panic!("{name} has no job: {summary}"));
            assert_eq!(job["state"], "AUDITED", "{name}");
            assert_eq!(summary["exit_code"], *exit, "{name}: {summary}");
            let text = std::fs::read_to_string(out.join(name).with_extension("txt")).unwrap();
            let pages: Vec<&str> = text.split("=== Page ").skip(1).collect();
            assert_eq!(pages.len(), 3, "{name}");
            for (page, number) in pages.iter().zip(1..) {
                let stands_for = format!("[Page {number} - text not available]");
                assert!(page.contains(PROSE) != page.contains(&stands_for), "{name}: {page:.200}");
            }
            assert_eq!(pages.iter().filter(|page| page.contains(PROSE)).count(), *with_text, "{name}");
            let said = summary["pages"].to_string() + &ran.stderr;
            assert!(said.contains(message), "{name}: no {message:?} in {said}");
            assert!(error.is_none(), "{name}: {error:?}");
            return;
        }
    }
    assert_eq!((&summary["status"], &summary["exit_code"]), (&"failed".into(), &1.into()), "{name}");
    let error = error.unwrap_or_else(|| panic!("no error about {name}:\n{}", ran.stderr));
    assert!(error.contains(message), "{name}: no {message:?} in {error}");
    assert_eq!(error.matches(name).count(), 1, "{name} is named once: {error}");
}

#[tokio::test]
async fn a_file_without_read_permission_is_reported() {
    let bench = Bench::new(&[]).await;
    let file = write(&bench, "private.pdf", three());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(&file, mode).unwrap();
    let ran = bench.run(&["-q", "process", &file]).await;
    match rustix::process::geteuid().is_root() {
        // Nothing is unreadable to root.
        true => drop(ran.code(0)),
        false => drop(ran.code(1).reports("private.pdf: Permission denied")),
    }
}

#[tokio::test]
async fn an_encrypted_file_needs_the_right_password_and_does_not_stop_others() {
    let bench = Bench::new(&[]).await;
    let (locked, good) = (sample("encrypted.pdf"), write(&bench, "good.pdf", three()));
    let (first, second) = (bench.path("wrong"), bench.path("right"));
    let wrong = ["process", &locked, &good, "-o", &first, "--password", "sesame"];
    let right = ["process", &locked, &good, "-o", &second, "--password-stdin"];
    let words =
        "encrypted.pdf: the PDF is encrypted and the password given does not open it; pass the right one";
    bench.run(&wrong).await.code(1).reports(words).reports("good.pdf: success, 3 pages");
    assert!(bench.read("wrong/good.txt").contains(PROSE));
    bench.run_with(&right, "harbour\n").await.code(0);
    assert!(bench.read("right/encrypted.txt").contains("customs house"));
    let letters = bench.run(&["dlq", "list", "--json"]).await.json();
    assert_eq!(letters.as_array().unwrap().len(), 1);
    assert!(letters[0]["reason"].as_str().unwrap().starts_with("password_wrong: "), "{letters}");
}

#[tokio::test]
async fn a_parser_that_crashes_costs_its_page_and_nothing_else() {
    let bench = Bench::new(&[]).await.with("PAGE_TIMEOUT", "50s");
    let trap = write(&bench, "trap.pdf", document(&[Page::prose(1), runaway(), Page::prose(3)]));
    let (good, out) = (write(&bench, "good.pdf", three()), bench.path("out"));
    let child = bench.start(&["process", &trap, &good, "-o", &out]);
    // Not SIGSEGV: Rust handles that one first, and passes it on when no stack has overflowed.
    // Twice: a page is retried if its process had read others before it.
    let first = signal_busy_child(&child, Signal::ILL).await;
    wait_until_gone(first).await;
    signal_busy_child(&child, Signal::ILL).await;
    let ran = end(child).await.code(4);
    ran.reports("the parser crashed (signal 4, SIGILL) at this page")
        .reports("no text at all  2")
        .reports("good.pdf: success");
    let text = bench.read("out/trap.txt");
    assert_eq!(text.matches("line 0.").count(), 2, "{text}");
    assert!(text.contains("[Page 2 - text not available]"));
    assert_eq!(bench.read("out/good.txt").matches("line 0.").count(), 3);
}

#[tokio::test]
async fn pages_outside_the_document_are_reported_and_those_inside_are_read() {
    let bench = Bench::new(&[]).await;
    let good = write(&bench, "good.pdf", three());
    for (pages, exit, words) in [
        (
            "7-9",
            1,
            "good.pdf: pages 7-9 were requested, but the document has 3; choose other pages with --pages",
        ),
        ("2-9", 0, "mupdf  2-3"),
        ("0", 2, "not a page"),
        ("3-1", 2, "3-1"),
        ("one", 2, "one"),
    ] {
        bench.run(&["process", &good, "--pages", pages]).await.code(exit).reports(words);
    }
}

#[tokio::test]
async fn a_job_of_another_tenant_is_reported_as_unknown() {
    let bench = Bench::new(&["page=4=400"]).await.with("TENANT", "anna");
    bench.run(&["-q", "process", &report(), "--pages", "4"]).await.code(3);
    let job = bench.job().await;
    let bench = bench.with("TENANT", "bert");
    assert_eq!(bench.run(&["jobs", "list", "--json"]).await.json(), serde_json::json!([]));
    let unknown = "01jzzzzzzzzzzzzzzzzzzzzzzz";
    let mut commands = Vec::new();
    for id in [unknown, &job, &job[..12]] {
        for command in ["show", "cancel", "result", "events", "approve", "reject"] {
            commands.push((
                vec!["jobs", command, id],
                format!("there is no job {id}; `everypage jobs list` lists them"),
            ));
        }
        for command in [vec!["events", "verify", id], vec!["heal", id]] {
            commands.push((command, format!("there is no job {id}; `everypage jobs list` lists them")));
        }
    }
    for command in [
        vec!["dlq", "show", unknown],
        vec!["dlq", "redrive", unknown],
        vec!["dlq", "purge", "--yes", unknown],
    ] {
        commands
            .push((command, format!("there is no dead letter {unknown}; `everypage dlq list` lists them")));
    }
    for some in commands.chunks(6) {
        let ran = join_all(some.iter().map(|(args, _)| bench.run(args))).await;
        for ((args, words), ran) in some.iter().zip(ran) {
            assert_eq!(ran.code, 1, "{args:?}: {}{}", ran.stdout, ran.stderr);
            assert!(
                ran.stderr.contains(words) && ran.stdout.is_empty(),
                "{args:?}: {}{}",
                ran.stdout,
                ran.stderr
            );
        }
    }
    // The job is unchanged.
    let bench = bench.with("TENANT", "anna");
    assert_eq!(bench.run(&["jobs", "show", &job, "--json"]).await.code(0).json()["status"], "success");
}

#[tokio::test]
async fn all_bad_variables_are_reported_together_and_nothing_is_done() {
    let bad = [
        ("REQUEST_TIMEOUT", "fast"),
        ("JOB_TIMEOUT", "0s"),
        ("PRIMARY_ENGINE", "abacus"),
        ("OPENAI_BASE_URL", "ftp://x"),
        ("IMAGE_DPI", "1"),
        ("IMAGE_COLOR", "sepia"),
        ("IMAGE_FORMAT", "gif"),
        ("IMAGE_JPEG_QUALITY", "101"),
        ("AI_PAGES", "some"),
        ("WORKER_CONCURRENCY", "0"),
        ("MAX_INFLIGHT_PER_MODEL", "-1"),
        ("RETRY_INTERVALS", "1s,often"),
        ("MAX_PAGES", "many"),
        ("MAX_FILE_BYTES", "1GB"),
        ("APPROVAL_THRESHOLD_USD", "free"),
        ("LOG_LEVEL", "loud"),
        ("LOG_PRETTY", "perhaps"),
        ("PORT", "65536"),
    ];
    let bench = bad.iter().fold(Bench::new(&[]).await, |bench, (name, value)| bench.with(name, value));
    let file = report();
    for args in [vec!["process", &file], vec!["jobs", "list"], vec!["resume"], vec!["config", "check"]] {
        let ran = bench.run(&args).await.code(2);
        for (name, value) in bad {
            let line =
                ran.stderr.lines().find(|line| line.contains(&format!("{name} is \"{value}\"; accepted: ")));
            assert!(line.is_some(), "{args:?} does not report {name}:\n{}", ran.stderr);
        }
    }
    assert_eq!(bench.provider.counts().total, 0);
    assert!(!bench.folder.path().join("data").exists());
}

#[tokio::test]
async fn an_unusable_data_folder_is_reported() {
    let bench = Bench::new(&[]).await;
    let file = write(&bench, "taken", "a file");
    let inside = format!("{file}/data");
    let ran = bench.run(&["jobs", "list", "--data", &inside]).await.code(1);
    ran.reports(&inside).reports("EVERYPAGE_DATA");
    std::fs::create_dir(bench.path("other")).unwrap();
    write(
        &bench,
        "other/everypage.db",
        "not a database at all, but long enough to be taken for one".repeat(40),
    );
    let other = bench.path("other");
    bench
        .run(&["jobs", "list", "--data", &other])
        .await
        .code(1)
        .reports("everypage.db")
        .reports("not a database");
}

//! Hostile files by the hundred: each ends in text or in a clear error, and none is a defect.

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    builder::{Page, document},
    hostile::runaway,
    processes::signal_child,
    support::{Bench, end},
};

/// One of each kind, and about a hundred damaged relatives.
const FILES: usize = 260;
const MEMORY: u64 = 512 << 20;

fn file<'a>(report: &'a Value, name: &str) -> &'a Value {
    let files = report["files"].as_array().unwrap();
    let found = files.iter().find(|file| file["file"].as_str().unwrap().ends_with(&format!("-{name}.pdf")));
    found.unwrap_or_else(|| panic!("no {name}"))
}

#[tokio::test]
async fn hostile_files_by_the_hundred_are_no_defect() {
    let bench = Bench::new(&[]).await.with("PAGE_TIMEOUT", "1500ms").with("IMAGE_DPI", "40");
    let (folder, json) = (bench.path("hostile"), bench.path("report.json"));
    bench.run(&["dev", "hostile", &folder, "--count", &FILES.to_string()]).await.code(0);
    let memory = MEMORY.to_string();
    let torture =
        ["-q", "dev", "torture", &folder, "--time-limit", "5s", "--memory-limit", &memory, "--json", &json];
    // The test's own time limit is that of the test runner: this is most of a minute where it is slow.
    let output = bench.start(&torture).wait_with_output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    println!("{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");

    let report: Value = serde_json::from_str(&bench.read("report.json")).unwrap();
    let counts = &report["counts"];
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((count("files"), count("defects")), (FILES as u64, 0));
    assert_eq!(count("text") + count("errors"), FILES as u64);
    assert!(count("text") > 100 && count("errors") > 25 && count("images") > 10, "{counts}");
    assert!(count("most_parser_bytes") > 0 && count("most_parser_bytes") <= MEMORY, "{counts}");
    // Endless pages were met, and contained.
    assert!(count("parsers_timed_out") > 0, "{counts}");
    for (name, code) in [
        ("empty", "empty_file"),
        ("html", "not_a_pdf"),
        ("no-pages", "no_pages"),
        ("pages-over-the-limit", "too_many_pages"),
        ("count-one-hundred-thousand", "corrupt_pdf"),
        ("locked-aes-256-r6", "password_needed"),
    ] {
        assert_eq!(file(&report, name)["code"], code, "{name}");
    }
    for encryption in ["rc4-40", "rc4-128", "aes-128", "aes-256-r5", "aes-256-r6"] {
        let opened = file(&report, &format!("owner-only-{encryption}"));
        assert!(opened["characters"].as_u64().unwrap() > 2_000, "{opened}");
        let locked = file(&report, &format!("locked-{encryption}"))["file"].as_str().unwrap();
        bench.run(&["dev", "torture", locked, "--password", "hostile"]).await.code(0).prints("1 with text");
    }
}

#[tokio::test]
async fn a_defect_is_told_with_the_command_that_shows_it_again() {
    let bench = Bench::new(&[]).await.with("PAGE_TIMEOUT", "50s");
    let trap = bench.path("trap.pdf");
    std::fs::write(&trap, document(&[Page::prose(1), runaway()])).unwrap();
    let child = bench.start(&["dev", "torture", &trap]);
    signal_child(&child, "torture-file", Signal::ILL).await;
    let ran = end(child).await.code(1).prints("crash: the process that read it ended with signal: 4");
    ran.prints("1 defect\n").prints(&format!("again: everypage dev torture '{trap}' --time-limit 60000ms"));
}

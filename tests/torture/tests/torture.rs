//! Hundreds of hostile files: each ends with text or a clear error, and none is a defect.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::{path::Path, process::Stdio, time::Duration};

use everypage_hostile::{
    builder::{Page, document},
    pages::runaway,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};

/// One of each kind, and about a hundred damaged variants.
const FILES: usize = 260;
const MEMORY: u64 = 512 << 20;

/// Starts the program with nothing in its environment but `variables`.
fn start(args: &[&str], variables: &[(&str, &str)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_everypage-torture"))
        .args(args)
        .env_clear()
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Waits for the program, checks its exit code and returns what it printed.
#[track_caller]
fn printed(output: std::process::Output, code: i32) -> String {
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stdout}");
    stdout
}

async fn run(args: &[&str], variables: &[(&str, &str)], code: i32) -> String {
    printed(start(args, variables).wait_with_output().await.unwrap(), code)
}

fn file<'a>(report: &'a Value, name: &str) -> &'a Value {
    let files = report["files"].as_array().unwrap();
    let found = files.iter().find(|file| file["file"].as_str().unwrap().ends_with(&format!("-{name}.pdf")));
    found.unwrap_or_else(|| panic!("no {name}"))
}

#[tokio::test]
async fn hostile_files_by_the_hundred_are_no_defect() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name).display().to_string();
    let settings = [("PAGE_TIMEOUT", "1500ms"), ("IMAGE_DPI", "40")];
    let (folder, json, memory) = (path("hostile"), path("report.json"), MEMORY.to_string());
    run(&["hostile", &folder, "--count", &FILES.to_string()], &[], 0).await;
    let torture =
        ["torture", "-q", &folder, "--time-limit", "5s", "--memory-limit", &memory, "--json", &json];
    // The time limit of this test is that of the test runner: on a slow machine it takes a minute.
    println!("{}", run(&torture, &settings, 0).await);

    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let counts = &report["counts"];
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((count("files"), count("defects")), (FILES as u64, 0));
    assert_eq!(count("text") + count("errors"), FILES as u64);
    assert!(count("text") > 100 && count("errors") > 25 && count("images") > 10, "{counts}");
    assert!(count("max_parser_bytes") > 0 && count("max_parser_bytes") <= MEMORY, "{counts}");
    // Some pages never end, and their parsers were stopped.
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
        let summary = run(&["torture", locked, "--password", "hostile"], &settings, 0).await;
        assert!(summary.contains("1 with text"), "{summary}");
    }
}

#[tokio::test]
async fn a_defect_is_reported_with_the_command_that_shows_it_again() {
    let root = tempfile::tempdir().unwrap();
    let trap = root.path().join("trap.pdf").display().to_string();
    std::fs::write(&trap, document(&[Page::prose(1), runaway()])).unwrap();
    let child = start(&["torture", &trap], &[("PAGE_TIMEOUT", "50s")]);
    signal_reader(&child, Signal::ILL).await;
    let summary = printed(child.wait_with_output().await.unwrap(), 1);
    for text in [
        "crash: the process that read it ended with signal: 4",
        "1 defect\n",
        &format!("again: ./everypage dev torture '{trap}' --time-limit 60000ms"),
    ] {
        assert!(summary.contains(text), "no {text:?} in {summary}");
    }
}

/// Sends `signal` to the process that reads the file, once it has started.
async fn signal_reader(program: &Child, signal: Signal) {
    loop {
        if let Some(reader) = children(program.id().unwrap(), "torture-file").first() {
            kill_process(Pid::from_raw(reader.cast_signed()).unwrap(), signal).unwrap();
            return;
        }
        let _ = tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>()).await;
    }
}

/// The children of `parent` whose command line contains `word`.
fn children(parent: u32, word: &str) -> Vec<u32> {
    let parent = parent.to_string();
    // The second field after the name, which may contain anything.
    let parent_of = |pid: u32| {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
        Some(stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_owned())
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| parent_of(*pid).as_ref() == Some(&parent))
        // A child that is being started still has its parent's command line.
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(word))
        })
        .collect()
}

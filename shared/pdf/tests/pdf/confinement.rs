//! A parser that was taken over by its document can do nothing but answer wrongly.

use std::{collections::BTreeMap, fs, os::fd::AsRawFd, process::Command};

use everypage_confine::kernel_support;
use everypage_core::ports::pdf::Pdf;

use crate::support::{
    OPEN_TIMEOUT,
    builder::{Page, document},
    children, limits, no_images, of, pages, reader, save,
};

#[test]
fn a_confined_process_has_no_file_no_socket_and_no_other_process() {
    let support = kernel_support();
    println!("{support}");
    let tried = Command::new(env!("CARGO_BIN_EXE_everypage-pdf-child"))
        .args(["try-to-escape", &std::process::id().to_string()])
        .output()
        .unwrap();
    let tried = String::from_utf8(tried.stdout).unwrap();
    assert_eq!(tried.lines().count(), 13, "{tried}");
    let possible: Vec<&str> = tried.lines().filter(|line| line.ends_with("possible")).collect();
    // Without them, resource limits alone: no new descriptor.
    if support.seccomp {
        assert!(possible.is_empty(), "{possible:?}");
    }
}

/// The fields of `/proc/PID/status`.
fn status(pid: i32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

#[tokio::test]
async fn a_parser_is_confined_while_it_reads() {
    let saved = save(document(&[Page::prose(1), Page::prose(2)]));
    let reader = reader(limits(), 1);
    // A descriptor that a careless program passes on to its children.
    let inherited = fs::File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    assert_eq!(reader.inspect(of(&saved.path), OPEN_TIMEOUT).await, Ok(2));
    let [pid] = children::all()[..] else { panic!("one child") };
    let status = status(pid);
    let support = kernel_support();
    assert_eq!(status["NoNewPrivs"], "1");
    assert_eq!(status["CapEff"], "0000000000000000");
    assert_eq!(status["CapPrm"], "0000000000000000");
    if support.seccomp {
        assert_eq!(status["Seccomp"], "2");
        for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let text = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            assert!(text.contains("Seccomp:\t2"), "every thread: {text}");
        }
    }
    let hard = |name: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(hard("Max open files"), "0");
    assert_eq!(hard("Max file size"), "0");
    assert_eq!(hard("Max processes"), "0");
    assert_eq!(hard("Max core file size"), "0");
    assert_eq!(hard("Max address space"), limits().max_memory_bytes.to_string());
    // Nothing but its pipes: not even the document, which it has in memory by now.
    let open: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|entry| fs::read_link(entry.unwrap().path()).unwrap().display().to_string())
        .collect();
    assert!(open.iter().all(|target| target == "/dev/null" || target.starts_with("pipe:")), "{open:?}");
    assert!(fs::read(format!("/proc/{pid}/environ")).unwrap_or_default().is_empty());
    // It still works.
    let readings = reader.read(of(&saved.path), &pages([2]), &no_images()).await.unwrap();
    assert!(readings[0].text.contains("committee"));
    assert!(inherited.as_raw_fd() > 2);
}

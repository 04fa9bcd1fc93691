//! Failing and idle children do not affect the parent, the pool or other pages.

use std::time::Duration;

use everypage_core::{
    document::Reason,
    ports::pdf::{Pdf, PdfError, PdfLimits},
};
use everypage_pdf::{ChildCommand, ChildFailures, IsolatedPdf};
use tokio::time::timeout;

use crate::support::{
    OPEN_TIMEOUT,
    builder::{Page, document},
    children,
    hostile::{runaway, with_bad_tag},
    limits, no_images, of, pages, pause, reader, save,
};

fn document_with_endless_page() -> Vec<u8> {
    document(&[Page::prose(1), runaway(), Page::prose(3), Page::prose(4)])
}

#[tokio::test]
async fn an_endless_page_times_out_and_the_others_are_read() {
    let saved = save(document_with_endless_page());
    let reader = reader(PdfLimits { page_timeout: Duration::from_millis(700), ..limits() }, 1);
    let readings = reader.read(of(&saved.path), &pages(1..=4), &no_images()).await.unwrap();
    assert_eq!(readings.iter().map(|reading| reading.number.get()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(readings[1].reason, Reason::Unreadable);
    assert_eq!(readings[1].fault.as_deref(), Some("took longer than 700 ms"));
    for good in [0, 2, 3] {
        assert_eq!((readings[good].reason, &readings[good].fault), (Reason::Text, &None));
    }
    drop(reader);
    children::wait_for(0).await;
}

#[tokio::test]
async fn a_killed_child_costs_its_page_only_and_only_when_it_was_fresh() {
    let saved = save(document_with_endless_page());
    let reader = reader(PdfLimits { page_timeout: Duration::from_secs(60), ..limits() }, 1);
    let numbers = pages(1..=4);
    let options = no_images();
    let (readings, ()) = tokio::join!(reader.read(of(&saved.path), &numbers, &options), async {
        // This child has read page 1 before, which might have corrupted it.
        let used = children::wait_until_busy(30).await;
        children::kill(used);
        children::wait_until_gone(used).await;
        children::kill(children::wait_until_busy(30).await);
    });
    let readings = readings.unwrap();
    assert_eq!(reader.child_failures().crashed, 2);
    assert_eq!(readings[1].reason, Reason::Unreadable);
    let fault = readings[1].fault.as_deref().unwrap();
    assert!(fault.contains("crashed") && fault.contains("SIGKILL"), "{fault}");
    for good in [0, 2, 3] {
        assert!(readings[good].text.contains("committee"));
    }
    // The pool still works.
    assert_eq!(reader.inspect(of(&saved.path), OPEN_TIMEOUT).await, Ok(4));
}

#[tokio::test]
async fn an_abort_is_retried_in_careful_mode() {
    let saved = save(document(&[Page::prose(1), with_bad_tag(Page::prose(2)), Page::prose(3)]));
    let reader = reader(limits(), 1);
    let readings = reader.read(of(&saved.path), &pages(1..=3), &no_images()).await.unwrap();
    for reading in readings {
        assert_eq!((reading.reason, &reading.fault), (Reason::Text, &None), "page {}", reading.number);
        assert!(reading.text.contains("committee"));
    }
    assert_eq!(reader.child_failures(), ChildFailures { crashed: 1, ..ChildFailures::default() });
}

#[tokio::test]
async fn a_dropped_read_leaves_no_child() {
    let saved = save(document_with_endless_page());
    let reader = reader(PdfLimits { page_timeout: Duration::from_secs(60), ..limits() }, 1);
    let numbers = pages(1..=4);
    let options = no_images();
    let read = reader.read(of(&saved.path), &numbers, &options);
    tokio::select! {
        _ = read => panic!("the page should not have ended"),
        _ = children::wait_until_busy(10) => {}
    }
    children::wait_for(0).await;
    // The slot is free again.
    let readings = reader.read(of(&saved.path), &pages([1]), &no_images()).await.unwrap();
    assert_eq!(readings[0].reason, Reason::Text);
}

#[tokio::test]
async fn ranges_of_one_document_share_a_child() {
    let saved = save(document(&(1..=20).map(Page::prose).collect::<Vec<_>>()));
    let reader = reader(limits(), 1);
    assert_eq!(reader.inspect(of(&saved.path), OPEN_TIMEOUT).await, Ok(20));
    let first = children::all();
    for start in [1, 11] {
        reader.read(of(&saved.path), &pages(start..start + 10), &no_images()).await.unwrap();
    }
    assert_eq!(children::all(), first);
}

#[tokio::test]
async fn a_file_replaced_under_its_name_is_opened_again() {
    let saved = save(document(&[Page::prose(1)]));
    let reader = reader(limits(), 1);
    assert_eq!(reader.inspect(of(&saved.path), OPEN_TIMEOUT).await, Ok(1));
    std::fs::write(&saved.path, document(&[Page::prose(1), Page::prose(2)])).unwrap();
    assert_eq!(reader.inspect(of(&saved.path), OPEN_TIMEOUT).await, Ok(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_documents_in_parallel_do_not_mix() {
    let one = save(document(&(1..=30).map(Page::prose).collect::<Vec<_>>()));
    let two = save(document(&(101..=130).map(Page::prose).collect::<Vec<_>>()));
    let reader = reader(limits(), 2);
    let (numbers, options) = (pages(1..=30), no_images());
    let (a, b) = tokio::join!(
        reader.read(of(&one.path), &numbers, &options),
        reader.read(of(&two.path), &numbers, &options)
    );
    for (readings, offset) in [(a.unwrap(), 0), (b.unwrap(), 100)] {
        assert_eq!(readings.len(), 30);
        for (index, reading) in readings.iter().enumerate() {
            let number = index as u32 + 1;
            assert_eq!(reading.number.get(), number);
            assert!(reading.text.starts_with(&format!("Page {}, line 0.", number + offset)));
        }
    }
    assert!(children::all().len() <= 2);
}

#[tokio::test]
async fn idle_children_that_died_are_replaced() {
    let saved = save(document(&[Page::prose(1)]));
    let reader = reader(limits(), 1);
    reader.inspect(of(&saved.path), OPEN_TIMEOUT).await.unwrap();
    children::all().into_iter().for_each(children::kill);
    pause(Duration::from_millis(200)).await;
    let readings = reader.read(of(&saved.path), &pages([1]), &no_images()).await.unwrap();
    assert_eq!(readings[0].fault, None);
}

#[tokio::test]
async fn idle_children_end_after_a_timeout() {
    let saved = save(document(&[Page::prose(1)]));
    let reader = reader(limits(), 1);
    reader.inspect(of(&saved.path), OPEN_TIMEOUT).await.unwrap();
    assert_eq!(children::all().len(), 1);
    pause(Duration::from_secs(10)).await;
    children::wait_for(0).await;
}

#[tokio::test]
async fn a_program_that_is_no_parser_is_distinguished_from_a_bad_file() {
    let saved = save(document(&[Page::prose(1)]));
    let inspect = |program: &str| {
        let reader = IsolatedPdf::new(ChildCommand::new(program), limits());
        let path = saved.path.clone();
        async move { reader.inspect(of(&path), Duration::from_millis(500)).await }
    };
    assert!(matches!(inspect("/no/such/program").await, Err(PdfError::Unavailable(_))));
    assert!(matches!(inspect("/bin/true").await, Err(PdfError::ParserDied(_))));
    assert_eq!(inspect("/bin/cat").await, Err(PdfError::ParserDied("ended unexpectedly".into())));
}

#[tokio::test]
async fn opening_has_a_time_limit() {
    let saved = save(document(&[Page::prose(1)]));
    let command = ChildCommand::new("/bin/sleep").arg("60");
    let reader = IsolatedPdf::new(command, limits());
    let opening = reader.inspect(of(&saved.path), Duration::from_millis(200));
    let opened = timeout(Duration::from_secs(5), opening).await.unwrap();
    assert_eq!(opened, Err(PdfError::ParserDied("took longer than 200 ms".into())));
    children::wait_for(0).await;
}

/// The limit is one of processor time: a machine that is busy with other documents refuses none.
#[tokio::test]
async fn opening_has_its_time_also_on_a_busy_machine() {
    let saved = save(document(&[Page::prose(1)]));
    let parser = env!("CARGO_BIN_EXE_everypage-pdf-child");
    let late = format!("sleep 2; exec {parser}");
    let reader = IsolatedPdf::new(ChildCommand::new("/bin/sh").arg("-c").arg(late), limits());
    assert_eq!(reader.inspect(of(&saved.path), Duration::from_secs(1)).await, Ok(1));
    let busy = ChildCommand::new("/bin/sh").arg("-c").arg("while :; do :; done");
    let reader = IsolatedPdf::new(busy, limits());
    let refused = Err(PdfError::ParserDied("took longer than 1 s".into()));
    assert_eq!(reader.inspect(of(&saved.path), Duration::from_secs(1)).await, refused);
}

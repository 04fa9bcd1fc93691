//! Pages that are made to be slow hold up their own tenant only.

use std::time::Duration;

use everypage_core::{
    document::{ImageStyle, Reason},
    ids::TenantId,
    ports::pdf::{Pdf, PdfLimits, PdfSource, ReadOptions, RenderPages},
};
use everypage_pdf::ChildFailures;

use crate::support::{
    OPEN_TIMEOUT,
    builder::{Page, document},
    children,
    hostile::slow_to_render,
    limits, no_images, of, pages, reader, save,
};

fn images() -> ReadOptions {
    ReadOptions { render: RenderPages::All, style: ImageStyle::default() }
}

#[tokio::test]
async fn a_document_is_read_while_another_tenants_drawings_hold_every_parser() {
    let slow = save(document(&[slow_to_render()]));
    let good = save(document(&(1..=20).map(Page::prose).collect::<Vec<_>>()));
    // No drawing ends by itself while this test runs.
    let patient = PdfLimits { page_timeout: OPEN_TIMEOUT * 6, render_timeout: OPEN_TIMEOUT * 6, ..limits() };
    let reader = reader(patient, 1);
    let mallory = TenantId::new("mallory");
    let hostile = PdfSource { tenant: &mallory, ..of(&slow.path) };
    let (first, options) = (pages([1]), images());
    let drawings = || reader.read(hostile, &first, &options);
    let attack = async { tokio::join!(drawings(), drawings(), drawings(), drawings()) };
    let victim = async {
        children::wait_until_busy(5).await;
        let source = of(&good.path);
        assert_eq!(reader.inspect(source, OPEN_TIMEOUT).await, Ok(20));
        let texts = reader.read(source, &pages(1..=20), &no_images()).await.unwrap();
        assert!(texts.iter().all(|page| page.text.contains("committee")));
        // Its images too, although the attacker's were requested first.
        let drawn = reader.read(source, &pages(1..=20), &images()).await.unwrap();
        assert!(drawn.iter().all(|page| page.image.is_some()));
    };
    tokio::select! {
        biased;
        () = victim => {}
        _ = attack => panic!("the drawings should have taken longer"),
    }
}

#[tokio::test]
async fn a_drawing_that_takes_too_long_is_given_up_and_not_tried_again() {
    let saved = save(document(&[Page::prose(1), slow_to_render(), Page::prose(3)]));
    let reader = reader(PdfLimits { render_timeout: Duration::from_millis(500), ..limits() }, 1);
    let draw = || async { reader.read(of(&saved.path), &pages(1..=3), &images()).await.unwrap() };
    // Two at once and one later.
    let (first, second) = tokio::join!(draw(), draw());
    for readings in [first, second, draw().await] {
        assert_eq!(readings.iter().map(|page| page.image.is_some()).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(readings[1].fault.as_deref(), Some("took longer than 500 ms"));
        // The one attempt, and no second one.
        assert_eq!(reader.child_failures(), ChildFailures { timed_out: 1, ..ChildFailures::default() });
    }
    // Its text is not affected.
    let texts = reader.read(of(&saved.path), &pages([2]), &no_images()).await.unwrap();
    assert_ne!(texts[0].reason, Reason::Unreadable);
    assert!(texts[0].text.contains("committee"));
}

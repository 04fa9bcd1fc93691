//! A hostile page costs its own text or image, not the process or other pages.

use std::time::Duration;

use everypage_core::{
    document::{ImageStyle, Reason},
    ports::pdf::{Pdf, PdfLimits, ReadOptions, RenderPages},
};

use crate::support::{
    builder::{Page, document},
    children,
    hostile::{bomb, image_bomb},
    limits, no_images, of, pages, reader, save,
};

#[tokio::test]
async fn a_page_of_ten_meters_is_unreadable_and_the_fault_names_its_size() {
    let saved = save(document(&[Page::prose(1), Page::prose(2).size(28_346.0, 28_346.0), Page::prose(3)]));
    let options = ReadOptions { render: RenderPages::All, style: ImageStyle::default() };
    let readings = reader(limits(), 1).read(of(&saved.path), &pages(1..=3), &options).await.unwrap();
    assert_eq!(readings[1].reason, Reason::Unreadable);
    let fault = readings[1].fault.as_deref().unwrap();
    assert!(fault.contains("10.0 m x 10.0 m") && fault.contains("MAX_PAGE_POINTS"), "{fault}");
    assert!(readings[0].image.is_some() && readings[2].image.is_some());
}

#[tokio::test]
async fn a_decompression_bomb_stays_within_the_memory_and_time_limits() {
    let saved = save(document(&[Page::prose(1), bomb(), Page::prose(3)]));
    let tight = PdfLimits { max_memory_bytes: 400 << 20, page_timeout: Duration::from_secs(20), ..limits() };
    let reader = reader(tight, 1);
    let readings = reader.read(of(&saved.path), &pages(1..=3), &no_images()).await.unwrap();
    assert_eq!([0, 2].map(|index| readings[index].reason), [Reason::Text, Reason::Text]);
    // Unreadable by the memory limit, or blank: never more memory than allowed.
    assert!(matches!(readings[1].reason, Reason::Unreadable | Reason::Blank), "{:?}", readings[1].reason);
    for pid in children::all() {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
        let kilobytes: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
        assert!(kilobytes <= 400 << 10, "{kilobytes} kB");
    }
}

#[tokio::test]
async fn an_image_of_billions_of_pixels_costs_its_page_only() {
    let saved = save(document(&[Page::prose(1), image_bomb(), Page::prose(3)]));
    let tight = PdfLimits { max_memory_bytes: 600 << 20, ..limits() };
    let options = ReadOptions { render: RenderPages::All, style: ImageStyle::default() };
    let readings = reader(tight, 1).read(of(&saved.path), &pages(1..=3), &options).await.unwrap();
    assert_eq!([0, 2].map(|index| readings[index].reason), [Reason::Text, Reason::Text]);
    assert!(readings[0].image.is_some() && readings[2].image.is_some());
}

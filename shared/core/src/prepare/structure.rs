//! The structure of a document: found once when all text is read, and applied to every page.

use crate::{
    document::{Doubt, Findings, PageBlocks, Reason, WithoutImages, plain_text},
    ids::JobId,
    job::{Job, StepError, encode},
    keys::blob,
    ports::blobs::Blobs,
    prepare::{
        Preparer,
        inspect::inspect,
        ranges::{StoredPage, ranges_as_read},
    },
};

/// Finds the structure of a document whose pages are read, and stores it. Of several callers the first wins.
pub(super) async fn store_findings(
    blobs: &dyn Blobs,
    job: &JobId,
    stored: &[Option<Vec<StoredPage>>],
) -> Result<Findings, StepError> {
    let pages = || stored.iter().flatten().flatten();
    let sound = pages().filter(|page| page.reason != Reason::GarbageText);
    let findings = find(pages()).with_languages_of(sound.map(|page| page.text.as_str()));
    blobs.put_new(&blob::structure(job), encode(&findings)?).await?;
    Ok(findings)
}

/// Stores the findings, unless they are stored or some text is not read yet.
pub(super) async fn ensure_findings(preparer: &Preparer, job: &Job) -> Result<(), StepError> {
    let blobs = preparer.blobs.as_ref();
    if blobs.get(&blob::structure(&job.id)).await?.is_some() {
        return Ok(());
    }
    let stored = ranges_as_read(blobs, &job.id, &inspect(preparer, job).await?).await?;
    if stored.iter().all(Option::is_some) {
        store_findings(blobs, &job.id, &stored).await?;
    }
    Ok(())
}

/// The findings that are stored; `None` before all text is read.
pub(super) async fn findings(blobs: &dyn Blobs, job: &JobId) -> Result<Option<Findings>, StepError> {
    let stored = blobs.get(&blob::structure(job)).await?;
    Ok(stored.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

pub(super) fn find<'a>(pages: impl Iterator<Item = &'a StoredPage>) -> Findings {
    let pages: Vec<PageBlocks<'_>> = pages
        .map(|page| PageBlocks {
            number: page.page.get(),
            page: page.area,
            blocks: &page.blocks,
            images: &page.images,
        })
        .collect();
    Findings::of(&pages)
}

impl StoredPage {
    /// Gives the blocks their final kinds and levels, takes page headers, footers and numbers out of the text, and
    /// forgives images that are on most pages. A page without blocks keeps its text.
    pub(super) fn complete(&mut self, findings: &Findings) {
        if findings.are_repeated(self.area, &self.images) {
            match self.without_images.take() {
                Some(WithoutImages { reason, confidence, doubts }) => {
                    (self.reason, self.confidence, self.doubts) = (reason, confidence, doubts);
                }
                // An older version stored no more than that.
                None if self.reason == Reason::Image => {
                    self.reason = Reason::Text;
                    self.doubts.retain(|doubt| *doubt != Doubt::Picture);
                }
                None => {}
            }
        }
        if !self.blocks.is_empty() {
            findings.apply(self.page.get(), self.area, &mut self.blocks);
            self.text = plain_text(&self.blocks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        document::{Block, Confidence, PageBox},
        ids::PageNumber,
    };

    const PAGE: PageBox = PageBox([0, 0, 600, 800]);

    fn page(number: u32, reason: Reason, image: PageBox, without_images: Option<Reason>) -> StoredPage {
        let block = Block {
            area: PageBox([50, 100, 550, 700]),
            text: format!("The body of page {number}."),
            ..Block::default()
        };
        StoredPage {
            page: PageNumber::new(number).unwrap(),
            reason,
            text: block.text.clone(),
            fault: None,
            area: PAGE,
            blocks: vec![block],
            images: vec![image],
            confidence: Confidence::new(0.6),
            doubts: vec![Doubt::Picture],
            without_images: without_images.map(|reason| WithoutImages {
                reason,
                confidence: Confidence::new(0.97),
                doubts: vec![],
            }),
            is_recognized: false,
            awaits_ocr: false,
        }
    }

    /// The pages of a document, completed.
    fn completed(mut pages: Vec<StoredPage>) -> Vec<StoredPage> {
        let findings = find(pages.iter());
        pages.iter_mut().for_each(|page| page.complete(&findings));
        pages
    }

    #[test]
    fn a_letterhead_takes_nothing_from_the_confidence() {
        let letterhead = PageBox([50, 20, 550, 90]);
        let page = |number| page(number, Reason::Image, letterhead, Some(Reason::Text));
        for page in completed((1..=4).map(page).collect()) {
            assert_eq!(page.reason, Reason::Text);
            assert_eq!((page.confidence, page.doubts), (Confidence::new(0.97), vec![]));
        }
    }

    #[test]
    fn what_a_letterhead_hid_is_still_a_reason() {
        let letterhead = PageBox([50, 20, 550, 90]);
        let rest = |number| if number == 2 { Reason::VectorFigure } else { Reason::Text };
        let page = |number| page(number, Reason::Image, letterhead, Some(rest(number)));
        let reasons: Vec<Reason> =
            completed((1..=4).map(page).collect()).iter().map(|page| page.reason).collect();
        assert_eq!(reasons, [Reason::Text, Reason::VectorFigure, Reason::Text, Reason::Text]);
    }

    #[test]
    fn a_background_under_visible_text_is_no_scan_and_pages_of_a_scan_are() {
        let page = |rest: Option<Reason>| move |number| page(number, Reason::Scanned, PAGE, rest);
        let backgrounds = completed((1..=4).map(page(Some(Reason::Text))).collect());
        assert!(backgrounds.iter().all(|page| page.reason == Reason::Text));
        let scans = completed((1..=4).map(page(None)).collect());
        assert!(scans.iter().all(|page| page.reason == Reason::Scanned && !page.doubts.is_empty()));
    }

    #[test]
    fn pages_of_an_older_version_lose_the_doubt() {
        let page = |number| page(number, Reason::Image, PageBox([50, 20, 550, 90]), None);
        for page in completed((1..=4).map(page).collect()) {
            assert_eq!((page.reason, page.doubts), (Reason::Text, vec![]));
        }
    }
}

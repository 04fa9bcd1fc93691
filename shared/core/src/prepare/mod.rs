//! Opens the document and stores the text of every page as MuPDF reads it, range by range, then the images;
//! and recognizes pages without a sound text layer (OCR).
//!
//! The text of all pages comes first, because every page falls back to it and it takes a hundredth of the
//! time: if the deadline passes while images are being rendered, every page has text.

mod images;
mod inspect;
mod ocr;
mod ranges;
mod read_text;
mod render;
mod searchable;
mod structure;
mod understand;

use std::sync::Arc;

pub use images::{all_stored_images, stored_image, stored_images};
pub use inspect::inspect;
pub use ocr::{
    OCR_IMAGE, OCR_PAGE_TIMEOUT, Recognition, add_recognized, is_recognized, needs_ocr, recognize_page,
    recognized_page, recognized_words, to_recognize, why_no_ocr,
};
pub use ranges::{StoredPage, stored_pages, stored_range, stored_ranges};
pub use read_text::read_range;
pub use render::{render_images, render_page, render_range, render_sharper, wants_image};
pub use searchable::searchable;
pub use understand::{understand, understand_late, understand_prepared};

use crate::{
    events::Store,
    ports::{blobs::Blobs, ocr::Ocr, pdf::Pdf, vault::Vault},
    settings::Settings,
    tenants::Tenants,
};

/// The ports and settings with which a document is prepared.
#[derive(Clone)]
pub struct Preparer {
    pub store: Store,
    pub blobs: Arc<dyn Blobs>,
    pub pdf: Arc<dyn Pdf>,
    pub ocr: Arc<dyn Ocr>,
    pub vault: Arc<dyn Vault>,
    pub tenants: Tenants,
    pub settings: Arc<Settings>,
}

use everypage_core::{ids::PageNumber, job::selection::PageSelection};

/// Selected pages are in order and unique, none is beyond the document, and a selection round-trips as text.
pub fn selection(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let selection: PageSelection = match text.parse() {
        Ok(selection) => selection,
        Err(error) => return super::is_explained(&error),
    };
    assert_eq!(selection.to_string().parse(), Ok(selection.clone()), "{text:?}");
    const COUNT: u32 = 300;
    let pages: Vec<PageNumber> = selection.pages(COUNT).collect();
    assert!(pages.is_sorted_by(|one, next| one < next), "{text:?}");
    let contained = (1..=COUNT).filter_map(PageNumber::new).filter(|page| selection.contains(*page));
    assert!(contained.eq(pages), "{text:?}");
}

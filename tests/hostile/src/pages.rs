//! Hostile pages.

use crate::builder::{Page, deflate, line_at, stream};

/// Forms that call forms, ten times each, twenty deep: it never ends and paints nothing.
pub fn runaway() -> Page {
    (0..20).fold(Page::new("/X0 Do\n"), |page, level| {
        let resources = format!("/Resources << /XObject << /Y @{} >> >>", level + 1);
        let head = format!("/Type /XObject /Subtype /Form /BBox [0 0 100 100] {resources}");
        let body = if level == 19 { String::new() } else { "/Y Do\n".repeat(10) };
        page.extra(&format!("/X{level}"), "XObject", stream(&head, body.as_bytes()))
    })
}

/// An expansion (`/E`) that ends in half a surrogate pair, which makes the bindings' device abort.
pub fn with_bad_tag(page: Page) -> Page {
    page.draw("/Span << /E <FEFFD800> >> BDC 72 60 m 80 60 l S EMC\n")
}

/// 100 million graphics states from less than a megabyte.
pub fn bomb() -> Page {
    let mut page = Page::new(deflate(&b"q ".repeat(100 << 20)));
    page.filter = "/Filter /FlateDecode".into();
    page
}

/// An image that claims more pixels than fit in memory.
pub fn image_bomb() -> Page {
    let head = "/Type /XObject /Subtype /Image /Width 60000 /Height 60000 /BitsPerComponent 8 \
                /ColorSpace /DeviceRGB /Filter /FlateDecode";
    Page::new("q 500 0 0 700 40 40 cm /Im0 Do Q\n").extra(
        "/Im0",
        "XObject",
        stream(head, &deflate(&vec![7; 8 << 20])),
    )
}

/// Twenty thousand fills of the whole page under a blend mode: its text is read in no time, its image takes many
/// seconds. With compression the file has less than 2 KB.
pub fn slow_to_render() -> Page {
    let mut content =
        line_at(72.0, 700.0, "The committee met again to discuss the report and its many findings.");
    content += "/G0 gs\n";
    content += &"0 0 595 842 re f\n".repeat(20_000);
    let mut page = Page::new(deflate(content.as_bytes()));
    page.filter = "/Filter /FlateDecode".into();
    page.extra("/G0", "ExtGState", "<< /BM /Luminosity >>")
}

//! Objects that refer to themselves.

use super::{Maker, TREE, among_good, once, one_page, varied};
use crate::builder::{Page, stream};

pub(super) const MAKERS: &[Maker] = &[
    once("cycle-page-tree", |_| one_page("<< /Type /Pages /Kids [2 0 R] /Count 1 >>", "").bytes()),
    once("cycle-page-tree-of-two", |_| {
        let mut file = one_page("<< /Type /Pages /Kids [6 0 R 4 0 R] /Count 5 >>", "");
        file.object("<< /Type /Pages /Parent 2 0 R /Kids [2 0 R 4 0 R] /Count 4 >>");
        file.bytes()
    }),
    once("cycle-parent", |_| {
        one_page("<< /Type /Pages /Parent 2 0 R /Kids [4 0 R] /Count 1 >>", "/Parent 4 0 R ").bytes()
    }),
    varied("cycle-references", |dice| {
        let mut file = one_page(TREE, "/MediaBox 6 0 R /Resources 7 0 R /Rotate 8 0 R ");
        for _ in 0..3 {
            file.object(format!("{} 0 R", 6 + dice.below(3)));
        }
        file.bytes()
    }),
    once("cycle-length", |_| {
        let mut file = one_page(TREE, "");
        file.objects[4] = b"<< /Length 5 0 R >>\nstream\nq Q\nendstream".to_vec();
        file.bytes()
    }),
    once("cycle-outlines", |_| {
        let mut file = one_page(TREE, "");
        file.objects[0] = b"<< /Type /Catalog /Pages 2 0 R /Outlines 6 0 R >>".to_vec();
        file.object("<< /Type /Outlines /First 7 0 R /Last 7 0 R /Count 1 >>");
        file.object(
            "<< /Title (again) /Parent 6 0 R /First 7 0 R /Next 7 0 R /Prev 7 0 R /Dest [4 0 R /Fit] >>",
        );
        file.bytes()
    }),
    once("cycle-form", |_| {
        let head = "/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Resources << /XObject << /X @0 >> >>";
        among_good(Page::new("/X Do\n").extra("/X", "XObject", stream(head, b"/X Do /X Do q Q")))
    }),
    once("cycle-forms-of-two", |_| {
        let head = |other| {
            format!(
                "/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Resources << /XObject << /X @{other} >> >>"
            )
        };
        let page = Page::new("/X Do\n").extra("/X", "XObject", stream(&head(1), b"/X Do /X Do"));
        among_good(page.extra("/Y", "XObject", stream(&head(0), b"/X Do /X Do")))
    }),
    once("cycle-soft-mask", |_| {
        let head = "/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Group << /S /Transparency /CS /DeviceGray >> \
                    /Resources << /ExtGState << /G << /SMask << /S /Luminosity /G @0 >> >> >> >>";
        among_good(Page::new("/X Do\n").extra("/X", "XObject", stream(head, b"/G gs 0 0 500 500 re f")))
    }),
    once("cycle-image-mask", |_| {
        let head = "/Type /XObject /Subtype /Image /Width 2 /Height 2 /BitsPerComponent 8 /ColorSpace /DeviceGray /SMask @0";
        among_good(Page::new("q 99 0 0 99 9 9 cm /X Do Q\n").extra("/X", "XObject", stream(head, b"abcd")))
    }),
    once("cycle-color-space", |_| {
        let mut file = one_page(TREE, "/Resources << /Font << /F1 3 0 R >> /ColorSpace << /C 6 0 R >> >> ");
        file.objects[4] = stream("", b"/C cs 0.5 sc 0 0 300 300 re f");
        file.object("[/Indexed 6 0 R 255 (abc)]");
        file.bytes()
    }),
    once("cycle-type3-font", |_| {
        let font = "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 9 9] /FontMatrix [1 0 0 1 0 0] /FirstChar 97 /LastChar 97 \
                    /Widths [9] /Encoding << /Differences [97 /a] >> /CharProcs << /a @1 >> /Resources << /Font << /T @0 >> >> >>";
        let glyph = stream("", b"9 0 d0 BT /T 9 Tf (aaaa) Tj ET");
        let page = Page::new("BT /T 20 Tf 72 700 Td (aaaa) Tj ET\n").extra("/T", "Font", font);
        among_good(page.extra("/G", "XObject", glyph))
    }),
    once("cycle-pattern", |_| {
        let mut file = one_page(TREE, "/Resources << /Pattern << /P 6 0 R >> >> ");
        file.objects[4] = stream("", b"/Pattern cs /P scn 0 0 500 500 re f");
        let head = "/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 9 9] /XStep 9 /YStep 9 \
                    /Resources << /Pattern << /P 6 0 R >> >>";
        file.object(stream(head, b"/Pattern cs /P scn 0 0 9 9 re f"));
        file.bytes()
    }),
    once("cycle-function", |_| {
        let mut file = one_page(TREE, "/Resources << /Shading << /S 6 0 R >> >> ");
        file.objects[4] = stream("", b"/S sh");
        file.object("<< /ShadingType 2 /ColorSpace /DeviceGray /Coords [0 0 500 500] /Function 7 0 R >>");
        file.object(
            "<< /FunctionType 3 /Domain [0 1] /Functions [7 0 R 7 0 R] /Bounds [0.5] /Encode [0 1 0 1] >>",
        );
        file.bytes()
    }),
    once("cycle-optional-content", |_| {
        let mut file = one_page(TREE, "/Resources << /Properties << /O 6 0 R >> /Font << /F1 3 0 R >> >> ");
        file.objects[0] =
            b"<< /Type /Catalog /Pages 2 0 R /OCProperties << /OCGs [6 0 R] /D << /Order [6 0 R] >> >> >>"
                .to_vec();
        file.objects[4] = stream("", b"/OC /O BDC BT /F1 12 Tf 72 700 Td (hidden) Tj ET EMC");
        file.object("<< /Type /OCMD /OCGs [6 0 R] /VE [/And 6 0 R [/Not 6 0 R]] >>");
        file.bytes()
    }),
];

//! Deep nesting, which overflows stacks.

use super::{Maker, TREE, among_good, once, one_page, varied};
use crate::builder::{Page, stream};

pub(super) const MAKERS: &[Maker] = &[
    varied("nested-arrays", |dice| {
        let deep = 1 << (4 + dice.below(17));
        one_page(TREE, &format!("/Deep {}{} ", "[".repeat(deep), "]".repeat(deep))).bytes()
    }),
    varied("nested-dictionaries", |dice| {
        let deep = 1 << (4 + dice.below(15));
        one_page(TREE, &format!("/Deep {}null{} ", "<</A ".repeat(deep), ">>".repeat(deep))).bytes()
    }),
    varied("nested-arrays-unclosed", |dice| one_page(TREE, &"[".repeat(1 << (4 + dice.below(17)))).bytes()),
    once("nested-page-tree", |_| {
        let mut file = one_page("<< /Type /Pages /Kids [6 0 R] /Count 1 >>", "");
        for level in 0..20_000 {
            let (number, parent) = (level + 6, if level == 0 { 2 } else { level + 5 });
            let kid = if level == 19_999 { 4 } else { number + 1 };
            file.object(format!("<< /Type /Pages /Parent {parent} 0 R /Kids [{kid} 0 R] /Count 1 >>"));
        }
        file.bytes()
    }),
    once("nested-references", |_| {
        let mut file = one_page(TREE, "/MediaBox 6 0 R ");
        for number in 7..20_007 {
            file.object(format!("{number} 0 R"));
        }
        file.object("[0 0 595 842]");
        file.bytes()
    }),
    varied("nested-graphics-states", |dice| {
        let deep = 1 << (8 + dice.below(12));
        among_good(Page::new("q ".repeat(deep)).draw("BT /F1 12 Tf 72 700 Td (below) Tj ET\n"))
    }),
    varied("nested-clips", |dice| {
        let deep = 1 << (6 + dice.below(9));
        among_good(Page::new("q 10 10 400 400 re W n ".repeat(deep)).draw("0 0 99 99 re f\n"))
    }),
    varied("nested-marks", |dice| {
        among_good(Page::new("/Span << /ActualText (x) >> BDC ".repeat(1 << (6 + dice.below(10)))))
    }),
    varied("nested-strings", |dice| {
        let deep = 1 << (4 + dice.below(16));
        among_good(Page::new(format!(
            "BT /F1 12 Tf 72 700 Td ({}{}) Tj ET\n",
            "(".repeat(deep),
            ")".repeat(deep)
        )))
    }),
    once("nested-forms", |_| {
        let page = (0..35).fold(Page::new("/X0 Do\n"), |page, level| {
            let resources = if level == 34 {
                String::new()
            } else {
                format!("/Resources << /XObject << /Y @{} >> >>", level + 1)
            };
            let head = format!(
                "/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Group << /S /Transparency >> {resources}"
            );
            page.extra(&format!("/X{level}"), "XObject", stream(&head, b"/Y Do"))
        });
        among_good(page)
    }),
    once("nested-functions", |_| {
        let mut file = one_page(TREE, "/Resources << /Shading << /S 6 0 R >> >> ");
        file.objects[4] = stream("", b"/S sh");
        file.object("<< /ShadingType 1 /ColorSpace /DeviceGray /Domain [0 1 0 1] /Matrix [500 0 0 500 0 0] /Function 7 0 R >>");
        let program = format!("{{ {} 0.5 exch pop exch pop {} }}", "{ ".repeat(3_000), "} ".repeat(3_000));
        file.object(stream("/FunctionType 4 /Domain [0 1 0 1] /Range [0 1]", program.as_bytes()));
        file.bytes()
    }),
    once("nested-outlines", |_| {
        let mut file = one_page(TREE, "");
        file.objects[0] = b"<< /Type /Catalog /Pages 2 0 R /Outlines 6 0 R >>".to_vec();
        for number in 7..10_007 {
            file.object(format!("<< /Title (deeper) /First {number} 0 R /Last {number} 0 R /Count 1 >>"));
        }
        file.bytes()
    }),
];

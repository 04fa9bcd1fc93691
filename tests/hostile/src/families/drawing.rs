//! Pages that take very long to render.

use super::{Maker, TREE, among_good, once, one_page, varied};
use crate::{
    builder::{Page, stream},
    pages,
};

pub(super) const MAKERS: &[Maker] = &[
    once("runaway-forms", |_| among_good(pages::runaway())),
    once("bad-tag", |_| among_good(pages::with_bad_tag(Page::prose(2)))),
    varied("tag-odd", |dice| {
        let tags = [
            "<FEFFD800>",
            "<FEFFDC00D800>",
            "<FFFE00D8>",
            "<FEFF>",
            "<EFBBBFED A080>",
            "(\\000)",
            "null",
            "[1]",
        ];
        let tag = *dice.pick(&tags);
        let key = *dice.pick(&["ActualText", "Alt", "E", "MCID", "Lang"]);
        among_good(
            Page::prose(2)
                .draw(&format!("/Span << /{key} {tag} >> BDC 72 60 m 80 60 l S BT /F1 9 Tf (x) Tj ET EMC\n")),
        )
    }),
    varied("pattern-explosion", |dice| {
        let step = *dice.pick(&["0.001", "0.0000001", "0", "-0.01", "1e-30"]);
        let size = *dice.pick(&["1", "500", "1e9"]);
        let mut file = one_page(TREE, "/Resources << /Pattern << /P 6 0 R >> >> ");
        file.objects[4] = stream("", b"/Pattern cs /P scn 0 0 595 842 re f");
        let head = format!(
            "/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 {size} {size}] /XStep {step} /YStep {step} /Resources << >>"
        );
        file.object(stream(&head, b"1 0 0 rg 0 0 1 1 re f 0.5 0.5 2 2 re S"));
        file.bytes()
    }),
    varied("dashes-without-end", |dice| {
        let dash = *dice.pick(&["[0.0001]", "[1e-30 1e-30]", "[0 0]", "[-1 1]", "[1e30]"]);
        among_good(Page::new(format!("{dash} 0 d 0.001 w 0 0 m 595 842 l 0 842 l 595 0 l S\n")))
    }),
    varied("line-width-huge", |dice| {
        let width = *dice.pick(&["1e30", "-1", "99999999", "1e-30"]);
        among_good(Page::new(format!("{width} w 1 J 1 j 1e30 M 10 10 m 500 700 l 30 20 900 1e30 5 5 c S\n")))
    }),
    varied("shading-odd", |dice| {
        let kind = dice.below(9);
        let coords = *dice.pick(&["[0 0 500 500]", "[0 0 1e30 5 5 -1e30]", "[0 0 0 0 0 0]", "[1]", "null"]);
        let domain = *dice.pick(&["[0 1]", "[1 0]", "[0 0]", "[-1e30 1e30]", "[0 1 0 1]"]);
        let mut file = one_page(TREE, "/Resources << /Shading << /S 6 0 R >> >> ");
        file.objects[4] = stream("", b"/S sh");
        let head = format!(
            "/ShadingType {kind} /ColorSpace /DeviceRGB /Coords {coords} /Domain {domain} /Extend [true true] /Function 7 0 R \
             /BitsPerCoordinate 32 /BitsPerComponent 16 /BitsPerFlag 8 /VerticesPerRow 2 /Decode [-1e9 1e9 -1e9 1e9 0 1 0 1 0 1]"
        );
        file.object(stream(&head, &dice.bytes(4_000)));
        file.object("<< /FunctionType 2 /Domain [0 1] /N 1e30 /C0 [0 0 0] /C1 [1 1 1] >>");
        file.bytes()
    }),
    varied("function-sampled-huge", |dice| {
        let size = *dice.pick(&["[2147483647]", "[65536 65536]", "[0]", "[-1]", "[255 255 255 255]"]);
        let bits = *dice.pick(&["1", "32", "0", "7"]);
        let mut file = one_page(TREE, "/Resources << /Shading << /S 6 0 R >> >> ");
        file.objects[4] = stream("", b"/S sh");
        file.object("<< /ShadingType 2 /ColorSpace /DeviceGray /Coords [0 0 500 500] /Function 7 0 R >>");
        let head = format!("/FunctionType 0 /Domain [0 1] /Range [0 1] /Size {size} /BitsPerSample {bits}");
        file.object(stream(&head, &dice.bytes(100)));
        file.bytes()
    }),
    once("blend-groups", |_| {
        let head = "/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Group << /S /Transparency /I true /K true >> \
                    /Resources << /ExtGState << /G << /BM /Luminosity /ca 0.5 >> >> >>";
        let page = Page::new("/X Do ".repeat(3_000));
        among_good(page.extra("/X", "XObject", stream(head, b"/G gs 0 0 595 842 re f 0 0 595 842 re f")))
    }),
    varied("type3-glyphs", |dice| {
        let matrix = *dice.pick(&["[1 0 0 1 0 0]", "[0 0 0 0 0 0]", "[1e30 0 0 1e30 0 0]", "[]", "null"]);
        let widths = *dice.pick(&["[9]", "[1e30]", "[]", "null", "[-9 -9]"]);
        let font = format!(
            "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 0 0] /FontMatrix {matrix} /FirstChar -5 /LastChar 2147483647 \
             /Widths {widths} /Encoding << /Differences [97 /a 99999 /a /a] >> /CharProcs << /a @1 >> /Resources << >> >>"
        );
        let page = Page::new("BT /T 20 Tf 72 700 Td (aaaa) Tj ET\n").extra("/T", "Font", font);
        among_good(page.extra(
            "/G",
            "XObject",
            stream("", b"1e30 0 -9 -9 9e9 9e9 d1 0 0 5 5 re f BI /W 9999999 /H 9999999 ID x EI"),
        ))
    }),
    varied("font-file-of-noise", |dice| {
        let (key, kind) = *dice.pick(&[
            ("FontFile", "Type1"),
            ("FontFile2", "TrueType"),
            ("FontFile3", "Type1"),
            ("FontFile2", "CIDFontType2"),
        ]);
        let start: &[u8] = match key {
            "FontFile2" => b"\0\x01\0\0\0\x10\x80\0\0\x03\0\x70glyf",
            "FontFile" => b"%!PS-AdobeFont-1.0\n/FontMatrix [",
            _ => b"\x01\0\x04\x04\0\x01",
        };
        let noise = [start.to_vec(), dice.bytes(8_000)].concat();
        let font = format!(
            "<< /Type /Font /Subtype /{kind} /BaseFont /Odd /FirstChar 0 /LastChar 255 /FontDescriptor @1 >>"
        );
        let descriptor =
            format!("<< /Type /FontDescriptor /FontName /Odd /Flags 4 /FontBBox [0 0 1 1] /{key} @2 >>");
        let page = Page::new("BT /T 20 Tf 72 700 Td (strange letters) Tj ET\n").extra("/T", "Font", font);
        among_good(page.extra("/D", "Other", descriptor).extra(
            "/E",
            "Other",
            stream("/Subtype /Type1C", &noise),
        ))
    }),
    varied("character-map-odd", |dice| {
        let maps = [
            "1 begincodespacerange <0000> <FFFFFFFF> endcodespacerange 1 beginbfrange <0000> <FFFFFFFF> <D800> endbfrange",
            "/Self usecmap 9999999 begincidrange <00> <ff> -5 endcidrange",
            "1 beginbfchar <61> <DC00D800DC00> endbfchar",
            "1 beginbfrange <00> <ff> [<0041>] endbfrange",
        ];
        let font = "<< /Type /Font /Subtype /Type0 /BaseFont /Odd /Encoding @2 /ToUnicode @1 /DescendantFonts [@3] >>";
        let descendant = "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Odd /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> \
                          /W [0 2147483647 1e30 5 [1 2 (x)]] /DW -1e30 >>";
        let map = format!("/CIDInit /ProcSet findresource begin begincmap {} endcmap", dice.pick(&maps));
        let encoding =
            format!("/Type /CMap /CMapName /Self /UseCMap {}", dice.pick(&["/Identity-H", "@2", "null"]));
        let page = Page::new("BT /T 20 Tf 72 700 Td (abcabc) Tj ET\n").extra("/T", "Font", font);
        let page = page.extra("/U", "Other", stream("", map.as_bytes())).extra(
            "/V",
            "Other",
            stream(&encoding, map.as_bytes()),
        );
        among_good(page.extra("/W", "Other", descendant))
    }),
];

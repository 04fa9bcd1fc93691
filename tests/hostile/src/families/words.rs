//! Names, strings and numbers that are too long, and text of control characters.

use super::{Maker, TREE, among_good, once, one_page, varied};
use crate::builder::{Page, line_at, stream};

pub(super) const MAKERS: &[Maker] = &[
    once("name-of-megabytes", |_| one_page(TREE, &format!("/{} 1 ", "N".repeat(4 << 20))).bytes()),
    once("string-of-megabytes", |_| one_page(TREE, &format!("/A ({}) ", "s".repeat(8 << 20))).bytes()),
    varied("number-long", |dice| {
        let digits = "9".repeat(1 << (4 + dice.below(14)));
        one_page(TREE, &format!("/A {digits} /B -{digits}.{digits} /UserUnit {digits} ")).bytes()
    }),
    varied("names-odd", |dice| {
        let names: String =
            (0..2_000).map(|_| format!("/#{:02x}#00#{:02x} 1 ", dice.below(256), dice.below(256))).collect();
        one_page(TREE, &names).bytes()
    }),
    varied("names-of-escapes", |dice| {
        const NAME: &str = "/#1b#5b31mred#07#0aline#e2#80#ae";
        let place = dice.pick(&[
            "/ColorSpace",
            "/Pattern",
            "/Shading",
            "/ExtGState",
            "/XObject",
            "/Font",
            "/Properties",
        ]);
        let what =
            dice.pick(&["", "<< /Type X /Subtype X /Filter X /BM X /CS X >>", "[X X X]", "[/ICCBased X]"]);
        let page =
            format!("/Resources << {place} << {NAME} {what} >> >> ").replace(" X", &format!(" {NAME}"));
        let mut file = one_page(TREE, &page);
        let content = "X cs 1 sc X scn X sh X gs BT X 12 Tf (a) Tj ET X BMC X Do EMC 0 0 99 99 re f BI /CS X /F X /W 9 /H 9 ID x EI X";
        file.objects[4] = stream(
            dice.pick(&["", "/Filter X"]).replace('X', NAME).as_str(),
            content.replace('X', NAME).as_bytes(),
        );
        file.bytes()
    }),
    varied("keys-by-the-thousand", |dice| {
        let keys: String = (0..50_000).map(|_| format!("/K{} 1 ", dice.below(1 << 20))).collect();
        one_page(TREE, &keys).bytes()
    }),
    once("line-of-megabytes", |_| among_good(Page::new(line_at(72.0, 700.0, &"word ".repeat(400_000))))),
    varied("text-of-control-characters", |dice| {
        let codes: String = (0..2_000).map(|_| format!("{:02x}", dice.below(256))).collect();
        among_good(Page::new(format!("BT /F1 12 Tf 72 700 Td <{codes}> Tj ET\n")))
    }),
    varied("text-everywhere", |dice| {
        let mut page = Page::blank();
        for _ in 0..3_000 {
            let (x, y) = (dice.below(20_000) as f32 - 10_000.0, dice.below(20_000) as f32 - 10_000.0);
            page = page.draw(&line_at(x, y, "lost"));
        }
        among_good(page)
    }),
    once("comments-by-the-megabyte", |_| {
        let mut bytes = b"%PDF-1.7\n".to_vec();
        bytes.extend(b"% nothing to see here\n".repeat(200_000));
        bytes.extend(&super::good_paper()[9..]);
        bytes
    }),
    once("objects-by-the-hundred-thousand", |_| {
        let mut file = one_page(TREE, "");
        for _ in 0..200_000 {
            file.object("null");
        }
        file.bytes()
    }),
];

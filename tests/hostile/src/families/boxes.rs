//! Pages of impossible size, rotated and scaled.

use super::{Maker, TREE, among_good, once, one_page, varied};
use crate::builder::Page;

const BOXES: [&str; 16] = [
    "[0 0 28346 28346]",
    "[0 0 1e30 1e30]",
    "[0 0 99999999999999999999999999999999999999999 842]",
    "[-1e38 -1e38 1e38 1e38]",
    "[0 0 0 0]",
    "[0 0 0.0001 0.0001]",
    "[595 842 0 0]",
    "[0 0 -595 -842]",
    "[2147483647 2147483647 2147483648 2147483648]",
    "[0 0 14400 1]",
    "[0 0 1 14400]",
    "[0 0 NaN Inf]",
    "[0 0 595]",
    "[]",
    "[(a) /b null <c>]",
    "null",
];

pub(super) const MAKERS: &[Maker] = &[
    once("box-ten-meters", |_| among_good(Page::prose(2).size(28_346.0, 28_346.0))),
    once("box-largest-allowed", |_| {
        among_good(Page::prose(2).size(14_400.0, 14_400.0).image((0.0, 0.0, 14_000.0, 14_000.0)))
    }),
    varied("box-odd", |dice| {
        let media = *dice.pick(&BOXES);
        let crop = *dice.pick(&BOXES);
        let name = *dice.pick(&["MediaBox", "MediaBox", "CropBox", "TrimBox", "BleedBox"]);
        one_page(TREE, &format!("/{name} {media} /CropBox {crop} ")).bytes()
    }),
    varied("user-unit", |dice| {
        let unit = *dice.pick(&["0", "-1", "1e30", "75000", "0.000001", "/One"]);
        one_page(TREE, &format!("/UserUnit {unit} ")).bytes()
    }),
    varied("rotated-oddly", |dice| {
        let angle = *dice.pick(&["1", "45", "-90", "99999999999", "1e30", "/Up", "450"]);
        one_page(TREE, &format!("/Rotate {angle} ")).bytes()
    }),
    varied("matrix-huge", |dice| {
        let number = *dice.pick(&["1e30", "-1e30", "1e-30", "0", "99999999999999999999", "32768"]);
        let other = *dice.pick(&["1e30", "0", "1", "-1"]);
        let draw = format!(
            "q {number} {other} {other} {number} 0 0 cm 0 0 100 100 re f BT /F1 12 Tf 5 5 Td (far) Tj ET Q\n"
        );
        among_good(Page::prose(2).draw(&draw))
    }),
    varied("font-size-huge", |dice| {
        let size = *dice.pick(&["1e30", "-1e30", "1e9", "0", "65536", "1e-20"]);
        let draw = format!(
            "BT /F1 {size} Tf 72 72 Td (large) Tj ET 1e30 Tc 1e30 Tw 1e30 TL BT /F1 12 Tf (x) ' ET\n"
        );
        among_good(Page::prose(2).draw(&draw))
    }),
];

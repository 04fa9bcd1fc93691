//! Each kind of page, and its classification.

use everypage_core::document::Reason;
use everypage_pdf::ReadMode;

use crate::support::{
    builder::{A4, Page, document, line_at, stream},
    first_page,
};

fn reason(page: Page) -> Reason {
    let reading = first_page(document(&[page]), ReadMode::Normal);
    assert_eq!(reading.fault, None);
    reading.reason
}

fn ocr_layer() -> String {
    (0..30)
        .map(|line| {
            format!("BT 3 Tr /F1 12 Tf 72 {} Td (Recognised words on a line) Tj ET\n", 760 - 20 * line)
        })
        .collect()
}

/// Adds a font whose codes map to private use characters, as in broken font subsets.
fn broken_font(page: Page) -> Page {
    let cmap = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def\n\
        1 begincodespacerange <00> <ff> endcodespacerange\n\
        1 beginbfrange <20> <7e> <e020> endbfrange\nendcmap end end";
    page.extra("/F2", "Font", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode @1 >>").extra(
        "/Unused",
        "Unused",
        stream("", cmap.as_bytes()),
    )
}

#[test]
fn plain_text_is_text() {
    assert_eq!(reason(Page::prose(1)), Reason::Text);
}

#[test]
fn rules_tables_and_boxes_are_text() {
    let mut table = String::from("0.5 w\n");
    for row in 0..10 {
        table += &format!("72 {y} m 520 {y} l S\n", y = 700 - 20 * row);
        table += &line_at(80.0, 686.0 - 20.0 * row as f32, "A cell of the table");
    }
    for column in 0..5 {
        table += &format!("{x} 700 m {x} 520 l S\n", x = 72 + 112 * column);
    }
    // Shaded header and stripes, a border around the page, an underline drawn as a thin box.
    let shaded = "0.8 0.85 0.95 rg 72 680 448 20 re f 0.9 g 72 640 448 20 re f 0 g\n";
    let border = "2 w 30 30 535 782 re S\n";
    let underline = "72 500 200 0.8 re f\n";
    let rounded = "0.2 0.4 0.8 RG 80 300 m 500 300 l 505 300 510 305 510 310 c 510 380 l 510 385 505 390 500 390 c \
                   80 390 l 75 390 70 385 70 380 c 70 310 l 70 305 75 300 80 300 c s\n";
    assert_eq!(
        reason(Page::prose(1).draw(shaded).draw(&table).draw(border).draw(underline).draw(rounded)),
        Reason::Text
    );
}

#[test]
fn dark_header_cells_of_different_widths_are_text() {
    let mut header = String::new();
    for (x, width) in [(72, 80), (152, 120), (272, 60), (332, 188)] {
        header += &format!("0.1 0.2 0.4 rg {x} 680 {width} 20 re f\n1 g ");
        header += &line_at(x as f32 + 5.0, 686.0, "Head");
    }
    assert_eq!(reason(Page::prose(1).draw(&header)), Reason::Text);
}

#[test]
fn a_colored_background_and_bullets_are_text() {
    let mut page = Page::new(format!("0.95 0.95 0.85 rg 0 0 {} {} re f 0 g\n", A4.0, A4.1));
    for line in 0..30 {
        let y = 760.0 - 16.0 * line as f32;
        let bullet = format!(
            "60 {} m 62 {} 64 {} 64 {} c 64 {} 60 {} 60 {} c f\n",
            y,
            y + 2.0,
            y + 2.0,
            y,
            y - 2.0,
            y - 2.0,
            y
        );
        page = page.draw(&bullet).draw(&line_at(72.0, y, "An entry of the list with enough words in it"));
    }
    assert_eq!(reason(page), Reason::Text);
}

#[test]
fn a_small_logo_is_text() {
    assert_eq!(reason(Page::prose(1).image((450.0, 770.0, 90.0, 45.0))), Reason::Text);
}

#[test]
fn a_photo_is_an_image() {
    assert_eq!(reason(Page::prose(1).image((150.0, 60.0, 300.0, 200.0))), Reason::Image);
}

#[test]
fn a_line_chart_is_a_figure() {
    let mut chart = String::from("1 w 100 100 m 100 280 l S 100 100 m 450 100 l S 0 0 1 RG 100 120 m ");
    for step in 1..12 {
        chart += &format!("{} {} l ", 100 + 30 * step, 120 + (step * 53) % 140);
    }
    chart += "S\n";
    assert_eq!(reason(Page::prose(1).draw(&chart)), Reason::VectorFigure);
}

#[test]
fn a_pie_and_a_bar_chart_are_figures() {
    let pie = "1 0 0 rg 300 160 m 390 160 l 390 210 350 250 300 250 c f 0 1 0 rg 300 160 m 300 250 l 250 250 210 210 210 160 c f \
               0 0 1 rg 300 160 m 210 160 l 210 110 250 70 300 70 c 350 70 390 110 390 160 c f\n";
    assert_eq!(reason(Page::prose(1).draw(pie)), Reason::VectorFigure);
    let mut bars = String::from("0.2 0.4 0.7 rg ");
    for (index, height) in [60, 110, 90, 150, 40].into_iter().enumerate() {
        bars += &format!("{} 90 30 {height} re ", 120 + 50 * index);
    }
    assert_eq!(reason(Page::prose(1).draw(&bars).draw("f\n")), Reason::VectorFigure);
}

#[test]
fn a_scan_is_scanned_with_and_without_an_ocr_layer() {
    let scan = Page::blank().image((0.0, 0.0, A4.0, A4.1));
    assert_eq!(reason(scan.clone()), Reason::Scanned);
    assert_eq!(reason(scan.draw(&ocr_layer())), Reason::Scanned);
    // With wide margins, and in strips as some scanners produce them.
    assert_eq!(reason(Page::blank().image((70.0, 90.0, 455.0, 660.0)).draw(&ocr_layer())), Reason::Scanned);
    let strips =
        (0..8).fold(Page::blank(), |page, strip| page.image((0.0, 105.25 * strip as f32, A4.0, 105.25)));
    assert_eq!(reason(strips), Reason::Scanned);
}

#[test]
fn text_over_a_background_is_known_from_a_layer_of_a_scan() {
    let background = || Page::blank().image((0.0, 0.0, A4.0, A4.1));
    let lines: String =
        (0..30).map(|line| line_at(72.0, 760.0 - 20.0 * line as f32, "Words over a background")).collect();
    let rest = |page: Page| {
        let reading = first_page(document(&[page]), ReadMode::Normal);
        assert_eq!(reading.reason, Reason::Scanned);
        reading.without_images.map(|rest| (rest.reason, rest.confidence.get() > 0.9))
    };
    assert_eq!(rest(background().draw(&lines)), Some((Reason::Text, true)));
    assert_eq!(rest(background()), None);
    assert_eq!(rest(background().draw(&ocr_layer())), None);
    // The layer under the picture is visible only to a program.
    assert_eq!(rest(Page::prose(1).image((0.0, 0.0, A4.0, A4.1))), None);
}

#[test]
fn text_in_a_broken_encoding_is_garbage() {
    let page = Page::new("BT /F2 12 Tf 72 700 Td (The committee met again to discuss the report) Tj ET\n");
    assert_eq!(reason(broken_font(page)), Reason::GarbageText);
}

#[test]
fn letters_drawn_as_shapes_are_no_text_layer() {
    let mut outlined = String::new();
    for row in 0..20 {
        for column in 0..40 {
            let (x, y) = (72 + 11 * column, 740 - 18 * row);
            outlined += &format!("{x} {y} m {} {} l {} {y} l f\n", x + 4, y + 9, x + 8);
        }
    }
    assert_eq!(reason(Page::new(outlined)), Reason::NoTextLayer);
    assert_eq!(reason(Page::new("72 700 m 500 700 l S\n")), Reason::NoTextLayer);
}

#[test]
fn an_empty_page_is_blank() {
    assert_eq!(reason(Page::blank()), Reason::Blank);
    assert_eq!(reason(Page::new("1 g 0 0 595 842 re f 1 1 1 rg 50 50 300 300 re f\n")), Reason::Blank);
    assert_eq!(reason(Page::new("BT /F1 12 Tf 72 700 Td (   ) Tj ET\n")), Reason::Blank);
}

#[test]
fn clipped_graphics_do_not_count() {
    let hidden = Page::prose(1).draw("q 0 0 1 1 re W n\n").image((0.0, 0.0, A4.0, A4.1)).draw("Q\n");
    assert_eq!(reason(hidden), Reason::Text);
}

#[test]
fn careful_mode_classifies_simple_pages_alike() {
    let kinds = [
        (Page::prose(1), Reason::Text),
        (Page::prose(1).image((150.0, 60.0, 300.0, 200.0)), Reason::Image),
        (Page::blank().image((0.0, 0.0, A4.0, A4.1)), Reason::Scanned),
        (Page::blank(), Reason::Blank),
    ];
    for (page, expected) in kinds {
        assert_eq!(first_page(document(&[page]), ReadMode::Careful).reason, expected);
    }
}

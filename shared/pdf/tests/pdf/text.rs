//! Text is extracted in reading order.

use crate::support::{
    builder::{File, Page, document, line_at, stream},
    text_of,
};

fn lines(lines: &[(f32, f32, &str)]) -> String {
    let content: String = lines.iter().map(|(x, y, text)| line_at(*x, *y, text)).collect();
    text_of(document(&[Page::new(content)]))
}

#[test]
fn lines_of_a_paragraph_are_joined_and_blocks_end_in_an_empty_line() {
    let text = lines(&[
        (72.0, 780.0, "A heading"),
        (72.0, 740.0, "First line of the paragraph"),
        (72.0, 726.0, "and its second line."),
        (72.0, 690.0, "Another paragraph."),
    ]);
    assert_eq!(text, "A heading\n\nFirst line of the paragraph and its second line.\n\nAnother paragraph.");
}

#[test]
fn two_columns_are_read_one_after_the_other() {
    let text = lines(&[
        (60.0, 700.0, "The left column begins here"),
        (60.0, 686.0, "and continues for a while."),
        (320.0, 700.0, "The right column follows it"),
        (320.0, 686.0, "and comes to an end."),
    ]);
    assert_eq!(
        text,
        "The left column begins here and continues for a while.\n\n\
         The right column follows it and comes to an end."
    );
}

#[test]
fn columns_written_across_the_gutter_are_separated() {
    let mut across = Vec::new();
    for row in 0..4 {
        let y = 700.0 - 14.0 * row as f32;
        across.push((
            60.0,
            y,
            [
                "Left one is long enough",
                "left two is long enough",
                "left three continues and",
                "left four is the end.",
            ][row],
        ));
        across.push((
            320.0,
            y,
            [
                "Right one is long enough",
                "right two is long enough",
                "right three continues and",
                "right four is the end.",
            ][row],
        ));
    }
    assert_eq!(
        lines(&across),
        "Left one is long enough left two is long enough left three continues and left four is the end.\n\n\
         Right one is long enough right two is long enough right three continues and right four is the end."
    );
}

#[test]
fn cells_of_a_table_stay_in_their_row() {
    let text = lines(&[
        (72.0, 700.0, "Item"),
        (250.0, 700.0, "Count"),
        (400.0, 700.0, "Price"),
        (72.0, 686.0, "Bolts"),
        (250.0, 686.0, "12"),
        (400.0, 686.0, "3.40"),
    ]);
    assert_eq!(text, "Item\tCount\tPrice\nBolts\t12\t3.40");
}

#[test]
fn pieces_of_one_line_are_joined() {
    let content = "BT /F1 12 Tf 72 700 Td (One ) Tj (line ) Tj 0 Ts (of three) Tj ET\n";
    assert_eq!(text_of(document(&[Page::new(content)])), "One line of three");
}

#[test]
fn words_hyphenated_at_a_lines_end_are_rejoined() {
    let text = lines(&[
        (72.0, 700.0, "This is an exam-"),
        (72.0, 686.0, "ple of hyphenation from 1990-"),
        (72.0, 672.0, "1995 by Jean-"),
        (72.0, 658.0, "Paul."),
    ]);
    assert_eq!(text, "This is an example of hyphenation from 1990-1995 by Jean-Paul.");
}

#[test]
fn ligatures_become_letters() {
    let font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Type /Encoding /Differences [1 /fi /fl] >> >>";
    let page =
        Page::new("BT /F2 12 Tf 72 700 Td (of\\001ce \\002oor) Tj ET\n").extra("/F2", "Font", font.to_vec());
    assert_eq!(text_of(document(&[page])), "office floor");
}

#[test]
fn invisible_text_is_left_out() {
    let cell =
        format!("q 72 690 60 20 re W n\n{}Q\n", line_at(72.0, 700.0, "Shown and then cut off far away"));
    assert!(!text_of(document(&[Page::new(cell)])).contains("away"));
    assert_eq!(lines(&[(72.0, 700.0, "Inside"), (3000.0, 700.0, "Outside")]), "Inside");
}

/// Such files rely on a font of the reader; without one their text is garbage and their images are
/// empty boxes.
#[test]
fn japanese_in_a_font_that_is_not_embedded_is_read() {
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /HeiseiMin-W3 /Encoding /UniJIS-UCS2-H /DescendantFonts [@1] >>";
    let descendant = "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /HeiseiMin-W3 \
                      /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> /FontDescriptor @2 >>";
    let descriptor = "<< /Type /FontDescriptor /FontName /HeiseiMin-W3 /Flags 4 /FontBBox [0 0 1000 1000] >>";
    let page = Page::new("BT /F2 12 Tf 72 700 Td <30423044304630483048> Tj ET\n")
        .extra("/F2", "Font", font)
        .extra("/Unused", "Unused", descendant)
        .extra("/Unused", "Unused", descriptor);
    assert_eq!(text_of(document(&[page])), "あいうええ");
}

#[test]
fn fields_of_a_form_are_text_with_their_labels_and_states() {
    let widget = |entries: &str| format!("<< /Type /Annot /Subtype /Widget /F 4 /P 3 0 R {entries} >>");
    let mut file = File::default();
    file.object(
        "<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [5 0 R 6 0 R 7 0 R 8 0 R] \
         /DR << /Font << /F1 4 0 R >> >> /DA (/F1 12 Tf 0 g) >> >>",
    );
    file.object("<< /Type /Pages /Kids [3 0 R] /Count 1 >>");
    file.object(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 9 0 R \
         /Annots [5 0 R 6 0 R 7 0 R 8 0 R] /Resources << /Font << /F1 4 0 R >> >> >>",
    );
    file.object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>");
    file.object(widget("/FT /Tx /T (n) /V (Ada Holm) /DA (/F1 12 Tf 0 g) /Rect [150 697 300 715]"));
    file.object(widget("/FT /Btn /T (a) /V /Yes /AS /Yes /Rect [150 657 164 671]"));
    file.object(widget("/FT /Btn /T (b) /V /Off /AS /Off /Rect [150 637 164 651]"));
    // MuPDF paints passwords as they are.
    file.object(widget("/FT /Tx /Ff 8192 /T (p) /V (secret) /DA (/F1 12 Tf 0 g) /Rect [150 597 300 615]"));
    let labels =
        [(72.0, 700.0, "Name"), (170.0, 660.0, "by night"), (170.0, 640.0, "by day"), (72.0, 600.0, "Key")];
    let content: String = labels.into_iter().map(|(x, y, text)| line_at(x, y, text)).collect();
    file.object(stream("", content.as_bytes()));
    let text = text_of(file.bytes());
    for expected in ["Name: Ada Holm", "[x] by night", "[ ] by day", "Key"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("secret") && text.matches("Ada").count() == 1, "{text}");
}

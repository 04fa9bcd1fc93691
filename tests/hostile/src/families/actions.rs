//! What a viewer might run, open or fetch, and a text reader must not.

use super::{Maker, TREE, once, one_page, varied};
use crate::builder::{deflate, stream};

pub(super) const MAKERS: &[Maker] = &[
    varied("action-on-open", |dice| {
        let action = *dice.pick(&[
            "/S /JavaScript /JS (while \\(true\\) app.alert\\(1\\))",
            "/S /Launch /F (/bin/sh) /Win << /F (cmd.exe) /P (/c calc) >>",
            "/S /URI /URI (http://127.0.0.1:1/)",
            "/S /GoToR /F (//127.0.0.1/share/x.pdf) /D [0 /Fit]",
            "/S /SubmitForm /F (http://127.0.0.1:1/)",
            "/S /ImportData /F (/etc/passwd)",
            "/S /JavaScript /JS 6 0 R /Next 7 0 R",
        ]);
        let mut file = one_page(TREE, &format!("/AA << /O << {action} >> >> "));
        file.objects[0] =
            format!("<< /Type /Catalog /Pages 2 0 R /OpenAction << {action} >> >>").into_bytes();
        file.object(stream("", b"this.exportDataObject({ cName: 'x', nLaunch: 2 });"));
        file.object("<< /S /Named /N /Print /Next 7 0 R >>");
        file.bytes()
    }),
    once("embedded-files", |_| {
        let mut file = one_page(TREE, "/Annots [8 0 R] ");
        file.objects[0] =
            b"<< /Type /Catalog /Pages 2 0 R /Names << /EmbeddedFiles << /Names [(../../etc/passwd) 6 0 R] >> >> >>".to_vec();
        file.object("<< /Type /Filespec /F (../../etc/passwd) /EF << /F 7 0 R >> >>");
        file.object(stream("/Type /EmbeddedFile /Filter /FlateDecode", &deflate(&vec![0; 64 << 20])));
        file.object("<< /Type /Annot /Subtype /FileAttachment /Rect [0 0 99 99] /FS 6 0 R >>");
        file.bytes()
    }),
    once("external-stream", |_| {
        let mut file = one_page(TREE, "");
        file.objects[4] =
            b"<< /Length 3 /F (/etc/passwd) /FFilter /FlateDecode >>\nstream\nq Q\nendstream".to_vec();
        file.bytes()
    }),
    varied("annotations-odd", |dice| {
        let kind = *dice.pick(&[
            "Widget",
            "FreeText",
            "Stamp",
            "Ink",
            "Link",
            "Popup",
            "Redact",
            "3D",
            "RichMedia",
            "Movie",
        ]);
        let rect = *dice.pick(&["[0 0 99 99]", "[0 0 1e30 1e30]", "[99 99 0 0]", "null", "[]"]);
        let annots = "6 0 R 7 0 R ".repeat(1 + dice.below(500));
        let mut file = one_page(TREE, &format!("/Annots [{annots}] "));
        file.object(format!(
            "<< /Type /Annot /Subtype /{kind} /Rect {rect} /AP << /N 7 0 R >> /Parent 6 0 R /Popup 6 0 R /InkList [[1 2 3]] /DA (/F1 1e30 Tf) /Contents (x) >>"
        ));
        file.object(stream(
            "/Type /XObject /Subtype /Format /BBox [0 0 0 0] /Matrix [0 0 0 0 0 0]",
            b"0 0 9 9 re f",
        ));
        file.bytes()
    }),
    once("form-fields-in-a-ring", |_| {
        let mut file = one_page(TREE, "/Annots [6 0 R] ");
        file.objects[0] = b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [6 0 R] /NeedAppearances true /XFA (x) >> >>".to_vec();
        file.object("<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /Kids [6 0 R] /Parent 6 0 R /Rect [0 0 99 99] >>");
        file.bytes()
    }),
];

//! Images whose data does not match their entries.

use super::{Maker, among_good, varied};
use crate::{
    builder::{Page, stream},
    dice::Dice,
};

pub(super) const MAKERS: &[Maker] = &[
    varied("jbig2-garbage", |dice| {
        // A segment header that claims a page of any size, then noise.
        let head = [0, 0, 0, 0, 48, 0, 1, 0, 0, 0, 19];
        image("/JBIG2Decode", "", &[head.to_vec(), dice.bytes(600)].concat())
    }),
    varied("jbig2-globals-garbage", |dice| {
        let globals = stream("", &dice.bytes(500));
        image_with("/JBIG2Decode", "/DecodeParms << /JBIG2Globals @1 >>", &dice.bytes(500), globals)
    }),
    varied("jpx-garbage", |dice| {
        let signature = b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 \0\0\0-jp2h\0\0\0\x16ihdr";
        image("/JPXDecode", "", &[signature.to_vec(), dice.bytes(2_000)].concat())
    }),
    varied("jpx-codestream-huge", |dice| {
        let mut data = b"\xff\x4f\xff\x51\0\x2f\0\0".to_vec();
        // Size, offset and tile of the image, at their maximum.
        for _ in 0..8 {
            data.extend(dice.pick(&[0_u32, 1, 65_536, 0x7fff_ffff, 0xffff_ffff]).to_be_bytes());
        }
        data.extend(b"\0\x03\x07\x01\x01\x07\x01\x01\x07\x01\x01");
        data.extend(dice.bytes(1_000));
        image("/JPXDecode", "", &data)
    }),
    varied("ccitt-garbage", |dice| {
        let k = *dice.pick(&["-1", "0", "1", "99"]);
        let columns = *dice.pick(&["1", "1728", "0", "-5", "2147483647", "60000"]);
        let rows = *dice.pick(&["0", "60000", "2147483647", "-1"]);
        let parameters =
            format!("/DecodeParms << /K {k} /Columns {columns} /Rows {rows} /EndOfBlock false >>");
        image("/CCITTFaxDecode", &parameters, &dice.bytes(4_000))
    }),
    varied("jpeg-garbage", |dice| {
        let size = dice.pick(&[0_u16, 1, 0xffff]).to_be_bytes();
        let mut data = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xc2\0\x11\x08".to_vec();
        data.extend([size[0], size[1], size[1], size[0], 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
        data.extend(dice.bytes(3_000));
        image("/DCTDecode", "", &data)
    }),
    varied("image-entries-odd", |dice| {
        let entries = [
            "/Decode [1e30 -1e30]",
            "/Mask [300 -5 9]",
            "/ImageMask true /ColorSpace /DeviceRGB",
            "/ColorSpace [/ICCBased 99 0 R]",
            "/ColorSpace [/Separation /All /DeviceCMYK null]",
            "/ColorSpace [/DeviceN [/A /B /C /D /E /F /G /H /I /J /K /L /M /N /O /P /Q /R /S /T /U /V /W /X /Y /Z /a /b /c /d /e /f /g /h] /DeviceRGB null]",
            "/SMask << >> /SMaskInData 2",
            "/Matte [1 2 3] /Intent /None",
        ];
        let entry = *dice.pick(&entries);
        image("/FlateDecode", entry, &crate::builder::deflate(&dice.bytes(64 * 64 * 3)))
    }),
    varied("inline-image-odd", inline),
];

fn image(filter: &str, more: &str, data: &[u8]) -> Vec<u8> {
    image_with(filter, more, data, stream("", b""))
}

fn image_with(filter: &str, more: &str, data: &[u8], other: Vec<u8>) -> Vec<u8> {
    let head = format!(
        "/Type /XObject /Subtype /Image /Width 64 /Height 64 /BitsPerComponent 8 /ColorSpace /DeviceRGB /Filter {filter} {more}"
    );
    // References are resolved in text only, so the binary part is hex.
    let head =
        head.replace("/Filter ", "/Filter [/ASCIIHexDecode ").replacen(filter, &format!("{filter}]"), 1);
    let head = head.replace("/DecodeParms <<", "/DecodeParms [null <<").replace(">>", ">>]");
    let hex = crate::crypt::hex(data) + ">";
    let page =
        Page::new("q 500 0 0 700 40 40 cm /X Do Q\n").extra("/X", "XObject", stream(&head, hex.as_bytes()));
    among_good(page.extra("/Other", "Other", other))
}

fn inline(dice: &mut Dice) -> Vec<u8> {
    let size = *dice.pick(&["8", "0", "-8", "99999999", "2147483647"]);
    let filter = *dice.pick(&["", "/F /Fl", "/F /CCF", "/F [/AHx /LZW]", "/F /DCT", "/F /Nonsense"]);
    let mut content =
        format!("q 99 0 0 99 9 9 cm BI /W {size} /H {size} /BPC 8 /CS /G {filter} ID ").into_bytes();
    content.extend(dice.bytes(300));
    if dice.below(2) == 0 {
        content.extend(b" EI Q\n");
    }
    among_good(Page::new(content))
}

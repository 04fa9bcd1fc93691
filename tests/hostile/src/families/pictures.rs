//! Images as documents: bombs, circles, sizes and data that do not match.

use super::{Maker, once, varied};
use crate::{
    builder::deflate,
    dice::Dice,
    picture::{Pixels, chunk, png, png_of, tiff, tiff_directory, tiff_entries},
};

const SIZES: [u32; 8] = [0, 1, 7, 4_000, 20_000, 65_536, 0x7fff_ffff, 0xffff_ffff];

pub(super) const MAKERS: &[Maker] = &[
    once("png-bomb", |_| png_of(12_000, 12_000, &deflate(&vec![0; 12_000 * 36_001]))),
    varied("png-size-odd", |dice| png_of(*dice.pick(&SIZES), *dice.pick(&SIZES), &deflate(&dice.bytes(500)))),
    varied("png-garbage", |dice| png_of(64, 64, &dice.bytes(3_000))),
    varied("png-chunks-odd", |dice| {
        let mut file = png(&noise(dice, 16));
        file.truncate(33);
        for _ in 0..40 {
            let name = dice.pick(&[b"IDAT", b"PLTE", b"tRNS", b"eXIf", b"iCCP", b"pHYs", b"IHDR", b"acTL"]);
            let length = dice.below(60);
            file.extend(chunk(name, &dice.bytes(length)));
        }
        file
    }),
    varied("tiff-circle", |dice| {
        let pixels = noise(dice, 8);
        let mut file = b"II*\0\x08\0\0\0".to_vec();
        // Each directory is followed by another one that came before it.
        for index in 0..20_u32 {
            let next = if index == 19 { 8 } else { 8 + (index + 1) * 114 };
            file.extend(tiff_directory(&tiff_entries(&pixels, 4_000), next));
        }
        file.resize(4_000, 0);
        file.extend(&pixels.rgb);
        file
    }),
    once("tiff-100000-pages", |dice| {
        let pixels = noise(dice, 1);
        let mut file = b"II*\0\x08\0\0\0".to_vec();
        for index in 0..100_000_u32 {
            let next = if index == 99_999 { 0 } else { 8 + (index + 1) * 114 };
            file.extend(tiff_directory(&tiff_entries(&pixels, 8), next));
        }
        file
    }),
    varied("tiff-entries-odd", |dice| {
        let mut extra = Vec::new();
        for _ in 0..12 {
            let tag = *dice.pick(&[
                256_u16, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 282, 317, 320, 322, 325, 347,
            ]);
            let kind = *dice.pick(&[0_u16, 1, 2, 3, 4, 5, 7, 13, 65_535]);
            extra.push((tag, kind, *dice.pick(&SIZES), *dice.pick(&SIZES)));
        }
        tiff(&[noise(dice, 8), noise(dice, 8)], &extra)
    }),
    varied("tiff-compressed-garbage", |dice| {
        // Fax, LZW, JPEG, Deflate, PackBits, and unknown ones.
        let compression = *dice.pick(&[2_u32, 3, 4, 5, 6, 7, 8, 32_773, 32_946, 34_712, 1_000]);
        let pixels = noise(dice, 64);
        let data = 8 + 2 + 9 * 12 + 4;
        let mut entries = tiff_entries(&pixels, data);
        entries[3].3 = compression;
        let mut file = b"II*\0\x08\0\0\0".to_vec();
        file.extend(tiff_directory(&entries, 0));
        file.extend(dice.bytes(pixels.rgb.len()));
        file
    }),
    varied("jpeg-file-garbage", |dice| {
        let size = dice.pick(&[0_u16, 1, 640, 0xffff]).to_be_bytes();
        let marker = *dice.pick(&[0xc0_u8, 0xc1, 0xc2, 0xc3, 0xc9, 0xcf]);
        let mut data =
            b"\xff\xd8\xff\xe1\0\x20Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"
                .to_vec();
        data.extend([0xff, marker, 0, 0x11, 8, size[0], size[1], size[1], size[0]]);
        data.extend([3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
        data.extend(dice.bytes(3_000));
        data
    }),
    varied("webp-garbage", |dice| {
        let kind = dice.pick(&[b"VP8 ", b"VP8L", b"VP8X", b"ANIM", b"ALPH"]);
        let mut chunk = [kind.as_slice(), &dice.pick(&SIZES).to_le_bytes()].concat();
        let start: &[u8] = match *kind {
            b"VP8L" => &[0x2f, 0xff, 0xff, 0xff, 0x0f],
            b"VP8 " => &[0x10, 0, 0, 0x9d, 0x01, 0x2a, 0xff, 0x3f, 0xff, 0x3f],
            _ => &[0x3e, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        };
        chunk.extend(start);
        chunk.extend(dice.bytes(2_000));
        let length = (chunk.len() as u32 + 4).to_le_bytes();
        [b"RIFF".as_slice(), &length, b"WEBP", &chunk].concat()
    }),
];

fn noise(dice: &mut Dice, side: u32) -> Pixels {
    let rgb = dice.bytes((side * side * 3) as usize);
    Pixels { width: side, height: side, rgb }
}

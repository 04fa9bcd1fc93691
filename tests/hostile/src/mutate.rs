//! Random damage, aimed at the structure of a file.

use crate::dice::Dice;

/// Numbers that parsers mishandle.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "99999999999999999999",
    "1e30",
    "0.0000000001",
];

/// Keywords whose number controls the parser.
const KEYWORDS: [&[u8]; 16] = [
    b"/Length",
    b"/Count",
    b"/Size",
    b"/Prev",
    b"/W",
    b"/Index",
    b"/First",
    b"/N ",
    b"/Width",
    b"/Height",
    b"/BitsPerComponent",
    b"/Columns",
    b"/MediaBox",
    b"/Rotate",
    b"startxref",
    b"obj",
];

/// Returns the damaged file, and a name for the damage.
pub(crate) fn mutated(mut bytes: Vec<u8>, dice: &mut Dice) -> (Vec<u8>, &'static str) {
    if bytes.is_empty() {
        return (bytes, "untouched");
    }
    let how = match dice.below(8) {
        0 => {
            for _ in 0..1 + dice.below(40) {
                let at = dice.below(bytes.len());
                bytes[at] ^= 1 << dice.below(8);
            }
            "bits-flipped"
        }
        1 => {
            bytes.truncate(1 + dice.below(bytes.len()));
            "cut-off"
        }
        2 => {
            let (from, chunk) = chunk(&bytes, dice);
            bytes.drain(from..from + chunk);
            "chunk-deleted"
        }
        3 => {
            let (from, chunk) = chunk(&bytes, dice);
            let copy = bytes[from..from + chunk].to_vec();
            let to = dice.below(bytes.len());
            bytes.splice(to..to, copy);
            "chunk-doubled"
        }
        4 => {
            let (from, length) = chunk(&bytes, dice);
            let cut: Vec<u8> = bytes.drain(from..from + length).collect();
            let to = dice.below(bytes.len() + 1);
            bytes.splice(to..to, cut);
            "chunk-moved"
        }
        5 => {
            for _ in 0..1 + dice.below(4) {
                let keyword = *dice.pick(&KEYWORDS);
                replace_number_after(&mut bytes, keyword, dice);
            }
            "numbers-changed"
        }
        6 => {
            let (from, length) = chunk(&bytes, dice);
            let noise = dice.bytes(length);
            bytes.splice(from..from + length, noise);
            "chunk-of-noise"
        }
        _ => {
            for _ in 0..1 + dice.below(12) {
                let at = structure(&bytes, dice);
                bytes[at] = dice.roll() as u8;
            }
            "structure-scratched"
        }
    };
    (bytes, how)
}

/// The offset and length of a chunk: mostly small, sometimes half of the file.
fn chunk(bytes: &[u8], dice: &mut Dice) -> (usize, usize) {
    let max = if dice.below(4) == 0 { bytes.len() / 2 } else { 200.min(bytes.len()) };
    let from = dice.below(bytes.len());
    (from, (1 + dice.below(max)).min(bytes.len() - from))
}

/// The next name, dictionary, array or string after a random place.
fn structure(bytes: &[u8], dice: &mut Dice) -> usize {
    let at = dice.below(bytes.len());
    (at..bytes.len()).find(|&index| b"/<>[](".contains(&bytes[index])).unwrap_or(at)
}

/// Replaces the first number after one occurrence of `keyword`.
fn replace_number_after(bytes: &mut Vec<u8>, keyword: &[u8], dice: &mut Dice) {
    let found: Vec<usize> = (0..bytes.len().saturating_sub(keyword.len()))
        .filter(|&at| bytes[at..].starts_with(keyword))
        .map(|at| at + keyword.len())
        .collect();
    if found.is_empty() {
        return;
    }
    let after = *dice.pick(&found);
    let near = (after + 24).min(bytes.len());
    let Some(start) = (after..near).find(|&at| bytes[at].is_ascii_digit()) else { return };
    let end = (start..bytes.len()).find(|&at| !bytes[at].is_ascii_digit()).unwrap_or(bytes.len());
    bytes.splice(start..end, dice.pick(&NUMBERS).bytes());
}

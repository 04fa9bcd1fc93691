//! Every encryption, valid and invalid.

use super::{Maker, TREE, once, one_page, varied, xref::replaced};
use crate::{
    builder::{Page, stream},
    crypt::{Encryption, Method, PASSWORD, hex},
    dice::Dice,
};

pub(super) const MAKERS: &[Maker] = &[
    once("encryption-handler-of-escapes", |dice| {
        changed(dice, "/Filter /Standard", "/Filter /#1b#5b31mred#07#0aline")
    }),
    varied("locked-rc4-40", |dice| encrypted(Method::Rc4With40, PASSWORD, dice)),
    varied("locked-rc4-128", |dice| encrypted(Method::Rc4With128, PASSWORD, dice)),
    varied("locked-aes-128", |dice| encrypted(Method::Aes128, PASSWORD, dice)),
    varied("locked-aes-256-r5", |dice| encrypted(Method::Aes256R5, PASSWORD, dice)),
    varied("locked-aes-256-r6", |dice| encrypted(Method::Aes256R6, PASSWORD, dice)),
    varied("owner-only-rc4-40", |dice| encrypted(Method::Rc4With40, "", dice)),
    varied("owner-only-rc4-128", |dice| encrypted(Method::Rc4With128, "", dice)),
    varied("owner-only-aes-128", |dice| encrypted(Method::Aes128, "", dice)),
    varied("owner-only-aes-256-r5", |dice| encrypted(Method::Aes256R5, "", dice)),
    varied("owner-only-aes-256-r6", |dice| encrypted(Method::Aes256R6, "", dice)),
    varied("encryption-unknown", |dice| {
        let handler =
            *dice.pick(&["/Filter /Adobe.PubSec", "/Filter /Unknown", "/Filter null", "/SubFilter /x"]);
        changed(dice, "/Filter /Standard", handler)
    }),
    varied("encryption-version-wrong", |dice| {
        let version = *dice.pick(&["/V 0", "/V 3", "/V 99", "/V -1", "/V 1e9", "/V 4", "/V 5"]);
        changed(dice, "/V ", &format!("{version} /Was "))
    }),
    varied("encryption-revision-wrong", |dice| {
        let revision = *dice.pick(&["/R 0", "/R 3", "/R 7", "/R -1", "/R 5", "/R 6", "/R null"]);
        changed(dice, "/R ", &format!("{revision} /Was "))
    }),
    varied("encryption-length-wrong", |dice| {
        let length = *dice.pick(&[
            "/Length 0",
            "/Length 7",
            "/Length -8",
            "/Length 4096",
            "/Length 2147483647",
            "/Length 1e9",
        ]);
        changed(dice, "/Length ", &format!("{length} /Was "))
    }),
    varied("encryption-filter-wrong", |dice| {
        let filter = *dice.pick(&["/CFM /None", "/CFM /V2", "/CFM /AESV9", "/CFM null", "/CFM /AESV3"]);
        changed(dice, "/CFM /AESV", &format!("{filter} /Was /"))
    }),
    varied("encryption-keys-short", |dice| {
        let entry = *dice.pick(&["/O <", "/U <", "/UE <", "/OE <", "/Perms <"]);
        changed(dice, entry, &format!("{entry}00> /Was <"))
    }),
    varied("encryption-stream-broken", |dice| {
        let encryption = Encryption::new(*dice.pick(&METHODS), "", dice);
        let length = dice.below(40);
        let noise = dice.bytes(length);
        assembled(&encryption, &noise)
    }),
    varied("encryption-dictionary-missing", |dice| {
        let entry = *dice.pick(&[
            "/Encrypt 99 0 R",
            "/Encrypt null",
            "/Encrypt << >>",
            "/Encrypt 6 0 R /ID null",
            "/Encrypt [6 0 R]",
        ]);
        changed(dice, "/Encrypt 6 0 R", entry)
    }),
];

const METHODS: [Method; 5] =
    [Method::Rc4With40, Method::Rc4With128, Method::Aes128, Method::Aes256R5, Method::Aes256R6];

/// A valid file that opens with `password`.
fn encrypted(method: Method, password: &str, dice: &mut Dice) -> Vec<u8> {
    let encryption = Encryption::new(method, password, dice);
    let content = encryption.stream(5, &Page::prose(1).content, dice);
    assembled(&encryption, &content)
}

fn assembled(encryption: &Encryption, content: &[u8]) -> Vec<u8> {
    let mut file = one_page(TREE, "");
    file.objects[4] = stream("", content);
    file.object(encryption.dictionary.clone());
    let id = hex(&encryption.id);
    file.trailer = format!("/Encrypt 6 0 R /ID [<{id}> <{id}>] ");
    file.bytes()
}

/// A file of any method that is valid but for one entry of its dictionary.
fn changed(dice: &mut Dice, from: &str, to: &str) -> Vec<u8> {
    let (method, password) = (*dice.pick(&METHODS), *dice.pick(&["", PASSWORD]));
    let file = encrypted(method, password, dice);
    // The dictionary is the last object: everything before it is valid.
    let start = file.windows(7).rposition(|bytes| bytes == b"6 0 obj").unwrap_or(0);
    [&file[..start], &replaced(&file[start..], from, to)].concat()
}

//! Verifies AWS signatures, version 4, as docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
//! defines them: written from that page, so that a mistake of the signer's library would show.

use std::fmt::Write;

use hmac::{Hmac, Mac};
use hyper::{HeaderMap, header::AUTHORIZATION};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

/// The credentials whose signatures are valid here.
pub const AWS_KEY_ID: &str = "AKIDSCRIPTED";
pub const AWS_SECRET_KEY: &str = "scripted/secret+key";

/// Whether a POST is signed with [`AWS_SECRET_KEY`] for `service`. `path` is as it was sent.
pub(super) fn is_valid(service: &str, path: &str, headers: &HeaderMap, body: &[u8]) -> bool {
    signature(service, path, headers, body).is_some_and(|(sent, expected)| sent == expected)
}

/// The signature that was sent and the one that is right; `None` when the request is not signed as
/// documented.
fn signature(service: &str, path: &str, headers: &HeaderMap, body: &[u8]) -> Option<(String, String)> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let fields = text(AUTHORIZATION.as_str())?.strip_prefix("AWS4-HMAC-SHA256 ")?;
    let field =
        |name: &str| fields.split(',').find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='));
    let (date, signed_headers) = (text("x-amz-date")?, field("SignedHeaders")?);
    let (id, scope) = field("Credential")?.split_once('/')?;
    let [day, region, in_service, "aws4_request"] = scope.split('/').collect::<Vec<_>>()[..] else {
        return None;
    };
    if id != AWS_KEY_ID || in_service != service || !date.starts_with(day) {
        return None;
    }
    if !signed_headers.split(';').any(|name| name == "host") {
        return None;
    }
    let mut canonical = format!("POST\n{}\n\n", encoded(path));
    for name in signed_headers.split(';') {
        writeln!(canonical, "{name}:{}", text(name)?).ok()?;
    }
    write!(canonical, "\n{signed_headers}\n{}", hex(&Sha256::digest(body))).ok()?;
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = format!("AWS4{AWS_SECRET_KEY}").into_bytes();
    for part in [day, region, service, "aws4_request"] {
        key = hmac(&key, part);
    }
    Some((field("Signature")?.to_owned(), hex(&hmac(&key, &to_sign))))
}

/// Each segment of a path is encoded once more than it was for sending.
fn encoded(path: &str) -> String {
    const PLAIN: &percent_encoding::AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
    utf8_percent_encode(path, PLAIN).to_string()
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    // A key of any length is accepted.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

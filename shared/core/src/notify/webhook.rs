//! What a tenant is told of a job's end, signed as Standard Webhooks has it.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{event::Event, job::Job, secret::Secret};

/// Every secret begins so.
pub const SECRET_PREFIX: &str = "whsec_";

/// Types of the events that end a job.
const ENDS: [&str; 4] = ["job.audited", "job.rejected", "job.cancelled", "job.failed"];

/// Is a job over with this?
pub fn is_end(event: &Event) -> bool {
    ENDS.contains(&event.kind.as_str())
}

/// A secret of these bytes, to be shown to the tenant once.
pub fn secret(bytes: &[u8]) -> Secret {
    Secret::new(format!("{SECRET_PREFIX}{}", BASE64.encode(bytes)))
}

/// The body: the job's end with where to find its result. No document text.
pub fn body(job: &Job, at: Timestamp) -> Value {
    let status = job.status().to_string();
    let place = format!("/v1/jobs/{}", job.id);
    let result = job.result.as_ref().map(|result| {
        json!({
            "version": result.version,
            "sha256": result.sha256,
            "href": format!("{place}/result"),
            "metadata": result.metadata,
        })
    });
    json!({
        "type": format!("job.{status}"),
        "timestamp": at,
        "data": {
            "id": job.id,
            "status": status,
            "state": job.state,
            "tenant": job.received.tenant,
            "document": { "name": job.received.document.name, "sha256": job.received.document.sha256 },
            "created_at": job.received_at,
            "finished_at": job.finished_at,
            "redrives": job.redrives,
            "href": place,
            "result": result,
            "error": job.failure,
        },
    })
}

/// The header `webhook-signature` for a message of this id, sent at this second.
pub fn sign(secret: &Secret, id: &str, timestamp: i64, body: &str) -> String {
    let text = secret.expose();
    let key = BASE64.decode(text.strip_prefix(SECRET_PREFIX).unwrap_or(text));
    let key = key.unwrap_or_else(|_| text.as_bytes().to_vec());
    format!("v1,{}", BASE64.encode(hmac_sha256(&key, format!("{id}.{timestamp}.{body}").as_bytes())))
}

/// RFC 2104 over SHA-256, whose blocks have 64 bytes.
fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    match key.len() {
        0..=64 => block[..key.len()].copy_from_slice(key),
        _ => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::hex;

    /// Test cases 1, 2, 3 and 6 of RFC 4231.
    #[test]
    fn the_code_is_the_one_of_the_standard() {
        for (key, message, code) in [
            (
                vec![0x0b; 20],
                b"Hi There".to_vec(),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?".to_vec(),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                vec![0xaa; 20],
                vec![0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
            (
                vec![0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&hmac_sha256(&key, &message)), code);
        }
    }

    /// The example of the Standard Webhooks specification's libraries.
    #[test]
    fn a_signature_is_the_one_that_receivers_expect() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signature =
            sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}

//! Secrets sealed by a KMS key. The key never leaves KMS; whoever may call `kms:Decrypt` with it
//! and knows the encryption context can open what was sealed.

use async_trait::async_trait;
use aws_sdk_kms::{Client, operation::decrypt::DecryptError, primitives::Blob};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use everypage_core::{
    domain::secret::Secret,
    ports::{
        Fault,
        vault::{MAX_SECRET_BYTES, Vault},
    },
};

use crate::fault::fault;

const SERVICE: &str = "KMS";
/// Bound into what is sealed and shown in CloudTrail; policies can demand it.
const CONTEXT: (&str, &str) = ("application", "everypage");

pub struct KmsVault {
    client: Client,
    key: String,
}

impl KmsVault {
    /// `key` is an id, an ARN or an alias.
    pub fn new(client: Client, key: impl Into<String>) -> Self {
        Self { client, key: key.into() }
    }
}

/// KMS refuses an empty text. So a secret of nothing but zeros, as the empty one is, has one more.
fn padded(secret: &str) -> String {
    let zero = if only_zeros(secret) { "\0" } else { "" };
    format!("{secret}{zero}")
}

fn unpadded(mut text: String) -> Option<Secret> {
    if only_zeros(&text) {
        text.pop()?;
    }
    Some(Secret::new(text))
}

fn only_zeros(text: &str) -> bool {
    text.bytes().all(|byte| byte == 0)
}

#[async_trait]
impl Vault for KmsVault {
    async fn seal(&self, secret: &Secret) -> Result<String, Fault> {
        if secret.expose().len() > MAX_SECRET_BYTES {
            return Err(Fault::broken(SERVICE, format!("a secret is longer than {MAX_SECRET_BYTES} bytes")));
        }
        let call = self
            .client
            .encrypt()
            .key_id(&self.key)
            .encryption_context(CONTEXT.0, CONTEXT.1)
            .plaintext(Blob::new(padded(secret.expose())));
        let answer = call.send().await.map_err(|error| fault(SERVICE, error))?;
        let sealed =
            answer.ciphertext_blob.ok_or_else(|| Fault::broken(SERVICE, "no ciphertext came back"))?;
        Ok(BASE64.encode(sealed))
    }

    async fn open(&self, sealed: &str) -> Result<Secret, Fault> {
        let foreign = || Fault::broken(SERVICE, "this was not sealed with our key");
        let ciphertext = BASE64.decode(sealed).ok().filter(|bytes| !bytes.is_empty()).ok_or_else(foreign)?;
        let call = self
            .client
            .decrypt()
            .key_id(&self.key)
            .encryption_context(CONTEXT.0, CONTEXT.1)
            .ciphertext_blob(Blob::new(ciphertext));
        let answer = call.send().await.map_err(|error| match error.as_service_error() {
            Some(DecryptError::InvalidCiphertextException(_) | DecryptError::IncorrectKeyException(_)) => {
                foreign()
            }
            _ => fault(SERVICE, error),
        })?;
        let opened = answer.plaintext.ok_or_else(foreign)?;
        String::from_utf8(opened.into_inner()).ok().and_then(unpadded).ok_or_else(foreign)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::replay::{answer, bodies, clients};

    #[tokio::test]
    async fn a_secret_is_sealed_in_our_context_and_opens_again() {
        let sealed = json!({"CiphertextBlob": BASE64.encode("sealed")}).to_string();
        let opened = json!({"Plaintext": BASE64.encode("pässword")}).to_string();
        let (clients, sent) = clients(vec![answer(200, &sealed), answer(200, &opened)]);
        let vault = KmsVault::new(clients.kms, "alias/k");
        let text = vault.seal(&Secret::new("pässword")).await.unwrap();
        assert_eq!(vault.open(&text).await.unwrap(), Secret::new("pässword"));
        for call in bodies(&sent) {
            assert_eq!(call["EncryptionContext"], json!({"application": "everypage"}));
            assert_eq!(call["KeyId"], "alias/k");
        }
    }

    #[tokio::test]
    async fn what_was_not_sealed_here_does_not_open() {
        let (clients, _) = clients(vec![answer(400, r#"{"__type":"InvalidCiphertextException"}"#)]);
        let vault = KmsVault::new(clients.kms, "k");
        for text in ["", "not base64!"] {
            assert!(matches!(vault.open(text).await, Err(Fault::Broken { .. })), "{text}");
        }
        assert!(matches!(vault.open("AAAA").await, Err(Fault::Broken { .. })));
        assert!(vault.seal(&Secret::new("x".repeat(5000))).await.is_err());
    }

    #[test]
    fn kms_is_never_given_an_empty_text_and_no_two_secrets_become_one() {
        for secret in ["", "\0", "\0\0", "a", "a\0", "\0a"] {
            assert!(!padded(secret).is_empty());
            assert_eq!(unpadded(padded(secret)), Some(Secret::new(secret)), "{secret:?}");
        }
        assert_eq!(unpadded(String::new()), None);
    }
}

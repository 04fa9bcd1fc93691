//! Secrets encrypted by a KMS key, which never leaves KMS. Decrypting needs the permission
//! `kms:Decrypt` for the key, and the encryption context.

use async_trait::async_trait;
use aws_sdk_kms::{Client, operation::decrypt::DecryptError, primitives::Blob};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use everypage_core::{
    ports::{
        Fault,
        vault::{MAX_SECRET_BYTES, Vault},
    },
    secret::Secret,
};

use crate::fault::fault;

const SERVICE: &str = "KMS";
/// The encryption context: authenticated with the ciphertext and shown in CloudTrail; policies can
/// require it.
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

/// Appends a zero byte to a secret that consists of zero bytes only, such as the empty one: KMS
/// refuses an empty plaintext.
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
            let bytes = secret.expose().len();
            let detail = format!("the secret has {bytes} bytes; the limit is {MAX_SECRET_BYTES}");
            return Err(Fault::broken(SERVICE, detail));
        }
        let call = self
            .client
            .encrypt()
            .key_id(&self.key)
            .encryption_context(CONTEXT.0, CONTEXT.1)
            .plaintext(Blob::new(padded(secret.expose())));
        let response = call.send().await.map_err(|error| fault(SERVICE, error))?;
        let sealed = response
            .ciphertext_blob
            .ok_or_else(|| Fault::broken(SERVICE, "the response has no ciphertext"))?;
        Ok(BASE64.encode(sealed))
    }

    async fn open(&self, sealed: &str) -> Result<Secret, Fault> {
        let foreign = || Fault::broken(SERVICE, "the secret was not sealed with this stack's key");
        let ciphertext = BASE64.decode(sealed).ok().filter(|bytes| !bytes.is_empty()).ok_or_else(foreign)?;
        let call = self
            .client
            .decrypt()
            .key_id(&self.key)
            .encryption_context(CONTEXT.0, CONTEXT.1)
            .ciphertext_blob(Blob::new(ciphertext));
        let response = call.send().await.map_err(|error| match error.as_service_error() {
            Some(DecryptError::InvalidCiphertextException(_) | DecryptError::IncorrectKeyException(_)) => {
                foreign()
            }
            _ => fault(SERVICE, error),
        })?;
        let opened = response.plaintext.ok_or_else(foreign)?;
        String::from_utf8(opened.into_inner()).ok().and_then(unpadded).ok_or_else(foreign)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_clients::{bodies, clients, response};

    #[tokio::test]
    async fn a_secret_is_sealed_with_the_encryption_context_and_opens_again() {
        let sealed = json!({"CiphertextBlob": BASE64.encode("sealed")}).to_string();
        let opened = json!({"Plaintext": BASE64.encode("pässword")}).to_string();
        let (clients, sent) = clients(vec![response(200, &sealed), response(200, &opened)]);
        let vault = KmsVault::new(clients.kms, "alias/k");
        let text = vault.seal(&Secret::new("pässword")).await.unwrap();
        assert_eq!(vault.open(&text).await.unwrap(), Secret::new("pässword"));
        for call in bodies(&sent) {
            assert_eq!(call["EncryptionContext"], json!({"application": "everypage"}));
            assert_eq!(call["KeyId"], "alias/k");
        }
    }

    #[tokio::test]
    async fn a_text_sealed_with_another_key_does_not_open() {
        let (clients, _) = clients(vec![response(400, r#"{"__type":"InvalidCiphertextException"}"#)]);
        let vault = KmsVault::new(clients.kms, "k");
        for text in ["", "not base64!"] {
            assert!(matches!(vault.open(text).await, Err(Fault::Broken { .. })), "{text}");
        }
        assert!(matches!(vault.open("AAAA").await, Err(Fault::Broken { .. })));
        assert!(vault.seal(&Secret::new("x".repeat(5000))).await.is_err());
    }

    #[test]
    fn padding_is_never_empty_and_distinguishes_all_secrets() {
        for secret in ["", "\0", "\0\0", "a", "a\0", "\0a"] {
            assert!(!padded(secret).is_empty());
            assert_eq!(unpadded(padded(secret)), Some(Secret::new(secret)), "{secret:?}");
        }
        assert_eq!(unpadded(String::new()), None);
    }
}

use async_trait::async_trait;
use everypage_core::{
    digest::sha256_hex,
    ports::{Fault, vault::Vault},
    secret::Secret,
};

/// Does not encrypt, but shows missing seals: a sealed text starts with `sealed:`. Stateless, so all
/// instances with one key are one vault.
#[derive(Default)]
pub struct PlainVault {
    key: String,
}

impl PlainVault {
    pub fn with_key(key: impl Into<String>) -> Self {
        Self { key: key.into() }
    }

    /// Identifies what was sealed with this key.
    fn mark(&self, reversed: &str) -> String {
        sha256_hex(format!("{}:{reversed}", self.key).as_bytes())
    }
}

#[async_trait]
impl Vault for PlainVault {
    async fn seal(&self, secret: &Secret) -> Result<String, Fault> {
        let reversed: String = secret.expose().chars().rev().collect();
        Ok(format!("sealed:{}:{reversed}", self.mark(&reversed)))
    }

    async fn open(&self, sealed: &str) -> Result<Secret, Fault> {
        let parts = sealed.strip_prefix("sealed:").and_then(|rest| rest.split_once(':'));
        match parts {
            Some((mark, reversed)) if mark == self.mark(reversed) => {
                Ok(Secret::new(reversed.chars().rev().collect::<String>()))
            }
            _ => Err(Fault::broken("vault", "not sealed here")),
        }
    }
}

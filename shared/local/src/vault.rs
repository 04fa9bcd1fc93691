//! Encryption of secrets at rest with a key file that only this user can read.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use async_trait::async_trait;
use chacha20poly1305::{
    ChaCha20Poly1305, Key, Nonce,
    aead::{Aead, AeadCore, KeyInit, OsRng},
};
use everypage_core::{
    ports::{Fault, vault::Vault},
    secret::Secret,
};

const NONCE_BYTES: usize = 12;

pub struct FileVault {
    cipher: ChaCha20Poly1305,
}

impl FileVault {
    /// Reads the key file, or creates it on first use.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let fault = |error: io::Error| Fault::unreachable("vault", format!("{}: {error}", path.display()));
        if !path.exists() {
            create_key(path).map_err(fault)?;
        }
        let bytes = fs::read(path).map_err(fault)?;
        if bytes.len() != 32 {
            let detail = format!("{} has {} bytes; a key has 32", path.display(), bytes.len());
            return Err(Fault::broken("vault", detail));
        }
        Ok(Self { cipher: ChaCha20Poly1305::new(Key::from_slice(&bytes)) })
    }
}

/// Creates the key file atomically, readable by its owner only. When another process created one
/// first, that one stays.
fn create_key(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".key-").tempfile_in(folder)?;
    file.write_all(&ChaCha20Poly1305::generate_key(&mut OsRng))?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

#[async_trait]
impl Vault for FileVault {
    async fn seal(&self, secret: &Secret) -> Result<String, Fault> {
        let nonce = ChaCha20Poly1305::generate_nonce(&mut OsRng);
        let sealed = self.cipher.encrypt(&nonce, secret.expose().as_bytes());
        let sealed = sealed.map_err(|_| Fault::broken("vault", "the secret can't be sealed"))?;
        Ok(everypage_core::digest::hex(&[nonce.as_slice(), &sealed].concat()))
    }

    async fn open(&self, sealed: &str) -> Result<Secret, Fault> {
        let foreign = || Fault::broken("vault", "the secret was not sealed with the key of this data folder");
        let bytes = from_hex(sealed).filter(|bytes| bytes.len() > NONCE_BYTES).ok_or_else(foreign)?;
        let (nonce, sealed) = bytes.split_at(NONCE_BYTES);
        let opened = self.cipher.decrypt(Nonce::from_slice(nonce), sealed).map_err(|_| foreign())?;
        String::from_utf8(opened).map(Secret::new).map_err(|_| foreign())
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_file_is_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        FileVault::open(&path).unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_sealed_secret_that_was_changed_or_cut_does_not_open() {
        let folder = tempfile::tempdir().unwrap();
        let vault = FileVault::open(&folder.path().join("key")).unwrap();
        let sealed = vault.seal(&Secret::new("password")).await.unwrap();
        for place in 0..sealed.len() {
            let other = if &sealed[place..=place] == "0" { "1" } else { "0" };
            let changed = format!("{}{other}{}", &sealed[..place], &sealed[place + 1..]);
            assert!(vault.open(&changed).await.is_err(), "at {place}");
            assert!(vault.open(&sealed[..place]).await.is_err(), "cut at {place}");
        }
        assert!(vault.open(&format!("{sealed}00")).await.is_err());
    }
}

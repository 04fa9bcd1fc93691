//! Encrypts as PDF's standard security handler does, in every revision.
//!
//! Encrypts streams only: the files that use it have no strings outside of streams.

use aes::cipher::{BlockEncryptMut, KeyIvInit, block_padding::NoPadding, block_padding::Pkcs7};
use md5::{Digest as _, Md5};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use crate::dice::Dice;

/// The password of every encrypted file that needs one.
pub const PASSWORD: &str = "hostile";
const OWNER: &[u8] = b"owner";

const PADDING: [u8; 32] = [
    0x28, 0xBF, 0x4E, 0x5E, 0x4E, 0x75, 0x8A, 0x41, 0x64, 0x00, 0x4E, 0x56, 0xFF, 0xFA, 0x01, 0x08, 0x2E,
    0x2E, 0x00, 0xB6, 0xD0, 0x68, 0x3E, 0x80, 0x2F, 0x0C, 0xA9, 0xFE, 0x64, 0x53, 0x69, 0x7A,
];
/// Only printing is allowed.
const PERMISSIONS: i32 = -3900;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Rc4With40,
    Rc4With128,
    Aes128,
    Aes256R5,
    Aes256R6,
}

/// A document's key, and the dictionary from which a reader with the password derives it.
pub(crate) struct Encryption {
    method: Method,
    key: Vec<u8>,
    pub dictionary: String,
    pub id: [u8; 16],
}

impl Encryption {
    pub fn new(method: Method, user: &str, dice: &mut Dice) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&dice.bytes(16));
        match method {
            Method::Aes256R5 | Method::Aes256R6 => Self::modern(method, user.as_bytes(), id, dice),
            _ => Self::classic(method, user.as_bytes(), id),
        }
    }

    /// Revisions 2 to 4: MD5 and RC4 protect the key.
    fn classic(method: Method, user: &[u8], id: [u8; 16]) -> Self {
        let (version, revision, length) = match method {
            Method::Rc4With40 => (1, 2, 5),
            Method::Rc4With128 => (2, 3, 16),
            _ => (4, 4, 16),
        };
        let repeated = |digest: Vec<u8>| match revision {
            2 => digest,
            _ => (0..50).fold(digest, |digest, _| Md5::digest(&digest[..length]).to_vec()),
        };
        let rounds = |key: &[u8], data: &[u8]| {
            let most: u8 = if revision == 2 { 1 } else { 20 };
            (0..most).fold(data.to_vec(), |data, round| {
                rc4(&key.iter().map(|byte| byte ^ round).collect::<Vec<_>>(), &data)
            })
        };
        let owner_key = repeated(Md5::digest(padded(OWNER)).to_vec());
        let owner = rounds(&owner_key[..length], &padded(user));
        let seed = [&padded(user), owner.as_slice(), &PERMISSIONS.to_le_bytes(), &id].concat();
        let key = repeated(Md5::digest(seed).to_vec())[..length].to_vec();
        let user = match revision {
            2 => rounds(&key, &PADDING),
            _ => {
                let mut check = rounds(&key, &Md5::digest([PADDING.as_slice(), &id].concat()));
                check.resize(32, 0);
                check
            }
        };
        let filters = match method {
            Method::Aes128 => {
                " /CF << /StdCF << /CFM /AESV2 /AuthEvent /DocOpen /Length 16 >> >> /StmF /StdCF /StrF /StdCF"
            }
            _ => "",
        };
        let dictionary = format!(
            "<< /Filter /Standard /V {version} /R {revision} /Length {} /P {PERMISSIONS} /O <{}> /U <{}>{filters} >>",
            8 * length,
            hex(&owner),
            hex(&user)
        );
        Self { method, key, dictionary, id }
    }

    /// Revisions 5 and 6: SHA-2 and AES-256 protect the key.
    fn modern(method: Method, user: &[u8], id: [u8; 16], dice: &mut Dice) -> Self {
        let (key, salts) = (dice.bytes(32), dice.bytes(32));
        let hash = |password: &[u8], salt: &[u8], more: &[u8]| match method {
            Method::Aes256R5 => Sha256::digest([password, salt, more].concat()).to_vec(),
            _ => hardened(password, salt, more),
        };
        let entry = |password: &[u8], salts: &[u8], more: &[u8]| {
            let check = [hash(password, &salts[..8], more), salts.to_vec()].concat();
            let wrapped = aes_256(&hash(password, &salts[8..], more), &[0; 16], &key);
            (check, wrapped)
        };
        let (user_check, user_key) = entry(user, &salts[..16], b"");
        let (owner_check, owner_key) = entry(OWNER, &salts[16..], &user_check);
        let permissions = [&PERMISSIONS.to_le_bytes(), b"\xff\xff\xff\xffTadb".as_slice(), &id[..4]].concat();
        let revision = if method == Method::Aes256R5 { 5 } else { 6 };
        let dictionary = format!(
            "<< /Filter /Standard /V 5 /R {revision} /Length 256 /P {PERMISSIONS} /U <{}> /UE <{}> /O <{}> /OE <{}> /Perms <{}> \
             /CF << /StdCF << /CFM /AESV3 /AuthEvent /DocOpen /Length 32 >> >> /StmF /StdCF /StrF /StdCF >>",
            hex(&user_check),
            hex(&user_key),
            hex(&owner_check),
            hex(&owner_key),
            // One block: CBC with a zero vector is ECB.
            hex(&aes_256(&key, &[0; 16], &permissions)),
        );
        Self { method, key, dictionary, id }
    }

    /// The encrypted data of object `number`.
    pub fn stream(&self, number: usize, data: &[u8], dice: &mut Dice) -> Vec<u8> {
        let vector = dice.bytes(16);
        let of_object = |salt: &[u8]| {
            let number = (number as u32).to_le_bytes();
            let digest = Md5::digest([&self.key, &number[..3], &[0, 0], salt].concat());
            digest[..(self.key.len() + 5).min(16)].to_vec()
        };
        let padded = |key: &[u8]| -> Vec<u8> {
            match key.len() {
                16 => cbc::Encryptor::<aes::Aes128>::new_from_slices(key, &vector)
                    .map(|cipher| cipher.encrypt_padded_vec_mut::<Pkcs7>(data)),
                _ => cbc::Encryptor::<aes::Aes256>::new_from_slices(key, &vector)
                    .map(|cipher| cipher.encrypt_padded_vec_mut::<Pkcs7>(data)),
            }
            .unwrap_or_default()
        };
        match self.method {
            Method::Rc4With40 | Method::Rc4With128 => rc4(&of_object(b""), data),
            Method::Aes128 => [vector.clone(), padded(&of_object(b"sAlT"))].concat(),
            Method::Aes256R5 | Method::Aes256R6 => [vector.clone(), padded(&self.key)].concat(),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn padded(password: &[u8]) -> [u8; 32] {
    let mut padded = [0; 32];
    let joined = [password, &PADDING].concat();
    padded.copy_from_slice(&joined[..32]);
    padded
}

fn rc4(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut state: Vec<u8> = (0..=255).collect();
    let mut j = 0_u8;
    for i in 0..256 {
        j = j.wrapping_add(state[i]).wrapping_add(key[i % key.len()]);
        state.swap(i, usize::from(j));
    }
    let (mut i, mut j) = (0_u8, 0_u8);
    data.iter()
        .map(|byte| {
            i = i.wrapping_add(1);
            j = j.wrapping_add(state[usize::from(i)]);
            state.swap(usize::from(i), usize::from(j));
            byte ^ state[usize::from(state[usize::from(i)].wrapping_add(state[usize::from(j)]))]
        })
        .collect()
}

/// Encrypts whole blocks, without padding.
fn aes_256(key: &[u8], vector: &[u8], data: &[u8]) -> Vec<u8> {
    cbc::Encryptor::<aes::Aes256>::new_from_slices(key, vector)
        .map(|cipher| cipher.encrypt_padded_vec_mut::<NoPadding>(data))
        .unwrap_or_default()
}

/// ISO 32000-2, algorithm 2.B.
fn hardened(password: &[u8], salt: &[u8], more: &[u8]) -> Vec<u8> {
    let mut key = Sha256::digest([password, salt, more].concat()).to_vec();
    for round in 1.. {
        let data = [password, &key, more].concat().repeat(64);
        let sealed = cbc::Encryptor::<aes::Aes128>::new_from_slices(&key[..16], &key[16..32])
            .map(|cipher| cipher.encrypt_padded_vec_mut::<NoPadding>(&data))
            .unwrap_or_default();
        key = match sealed.iter().take(16).map(|byte| u32::from(*byte)).sum::<u32>() % 3 {
            0 => Sha256::digest(&sealed).to_vec(),
            1 => Sha384::digest(&sealed).to_vec(),
            _ => Sha512::digest(&sealed).to_vec(),
        };
        let last = sealed.last().copied().unwrap_or(0);
        if round >= 64 && i32::from(last) <= round - 32 {
            break;
        }
    }
    key.truncate(32);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rc4_is_what_everybody_elses_is() {
        assert_eq!(hex(&rc4(b"Key", b"Plaintext")), "bbf316e8d940af0ad3");
    }
}

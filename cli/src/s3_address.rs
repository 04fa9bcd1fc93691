//! Addresses of documents in S3.

use std::{fmt, path::Path, str::FromStr};

use glob::{MatchOptions, Pattern};

const SCHEME: &str = "s3://";
/// As in a shell: `*` stays in one folder, and hidden names have to be named.
const GLOB: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// `s3://BUCKET/KEY`: an object, or, where the key is empty, ends with `/` or has wildcards, many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Address {
    pub bucket: String,
    pub key: String,
}

#[cfg_attr(not(feature = "aws"), expect(dead_code, reason = "only a stack reads from S3"))]
impl S3Address {
    /// Whether an argument is meant as such an address, and not as a file.
    pub fn is_meant(arg: &Path) -> bool {
        arg.to_str().is_some_and(|text| text.starts_with(SCHEME))
    }

    /// The address of one document, where a path is meant as one.
    pub fn of_document(file: &Path) -> Result<Option<Self>, String> {
        if !Self::is_meant(file) {
            return Ok(None);
        }
        let address: Self = file.to_string_lossy().parse()?;
        match address.names_many() {
            true => Err(format!("{address} may name many documents: give the address of one")),
            false => Ok(Some(address)),
        }
    }

    pub fn names_many(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/') || self.has_wildcards()
    }

    fn has_wildcards(&self) -> bool {
        self.key.contains(['*', '?', '['])
    }

    /// What the keys of all objects that it names start with.
    pub fn prefix(&self) -> &str {
        self.key.split(['*', '?', '[']).next().unwrap_or_default()
    }

    /// Whether a key that starts with the prefix is among those that it names.
    pub fn matches(&self, key: &str) -> bool {
        !self.has_wildcards() || Pattern::new(&self.key).is_ok_and(|pattern| pattern.matches_with(key, GLOB))
    }

    /// Another object of the same bucket.
    pub fn with_key(&self, key: String) -> Self {
        Self { bucket: self.bucket.clone(), key }
    }

    /// The object's name, without the part up to the last `/`.
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }
}

impl FromStr for S3Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest =
            text.strip_prefix(SCHEME).ok_or_else(|| format!("{text:?} does not start with {SCHEME}"))?;
        let Some((bucket, key)) = rest.split_once('/') else {
            return Err(format!("{text} names no document: s3://BUCKET/KEY, or s3://BUCKET/ for all"));
        };
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_plain) {
            return Err(format!("{text}: {bucket:?} is not the name of a bucket"));
        }
        if key.len() > 1024 {
            return Err(format!("{text}: a key has at most 1024 bytes"));
        }
        if let Err(error) = Pattern::new(key) {
            return Err(format!("{text} is not a valid pattern: {error}"));
        }
        Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for S3Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.bucket, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let table = [
            ("s3://acme-scans/a b/ä.pdf", Some(("acme-scans", "a b/ä.pdf", false))),
            ("s3://acme-scans/", Some(("acme-scans", "", true))),
            ("s3://acme.scans/2026/", Some(("acme.scans", "2026/", true))),
            ("s3://acme-scans/2026/**/*.pdf", Some(("acme-scans", "2026/**/*.pdf", true))),
            ("s3://acme-scans", None),
            ("s3:///a.pdf", None),
            ("s3://ACME/a.pdf", None),
            ("s3://a/a.pdf", None),
            ("s3://acme-scans/[", None),
            ("acme-scans/a.pdf", None),
        ];
        for (text, expected) in table {
            let parsed = text.parse::<S3Address>();
            let found =
                parsed.as_ref().ok().map(|one| (one.bucket.as_str(), one.key.as_str(), one.names_many()));
            assert_eq!(found, expected, "{text}: {parsed:?}");
            assert!(parsed.is_err() || parsed.unwrap().to_string() == text, "{text}");
        }
        assert!("s3://acme-scans".parse::<S3Address>().unwrap_err().contains("names no document"));
        assert!(S3Address::is_meant(Path::new("s3://x")) && !S3Address::is_meant(Path::new("./s3:")));
        let document = |text: &str| S3Address::of_document(Path::new(text));
        assert_eq!(document("a.pdf"), Ok(None));
        assert_eq!(document("s3://acme-scans/2026/a.pdf").unwrap().unwrap().key, "2026/a.pdf");
        assert!(document("s3://acme-scans/2026/").unwrap_err().contains("may name many documents"));
        assert!(document("s3://acme-scans").unwrap_err().contains("names no document"));
    }

    #[test]
    fn a_prefix_names_all_keys_below_and_a_pattern_those_that_match() {
        let table = [
            ("s3://acme-scans/2026/", "2026/", &["2026/a.pdf", "2026/b/c.pdf"][..], &[][..]),
            ("s3://acme-scans/2026/*.pdf", "2026/", &["2026/a.pdf"], &["2026/b/c.pdf", "2026/a.png"]),
            ("s3://acme-scans/20??/**/*.pdf", "20", &["2026/a.pdf", "2026/b/c.pdf"], &["200/a.pdf"]),
        ];
        for (text, prefix, inside, outside) in table {
            let address: S3Address = text.parse().unwrap();
            assert_eq!(address.prefix(), prefix);
            assert!(inside.iter().all(|key| address.matches(key)), "{text}");
            assert!(!outside.iter().any(|key| address.matches(key)), "{text}");
        }
    }
}

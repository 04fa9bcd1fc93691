//! Files that can't be processed, and their errors.

use everypage_core::{
    document::Reason,
    ports::pdf::{Pdf, PdfError, PdfLimits, PdfSource},
    secret::Secret,
};
use mupdf::pdf::{Encryption, PdfDocument, PdfWriteOptions};

use crate::support::{
    OPEN_TIMEOUT,
    builder::{Page, document, with_count},
    limits, no_images, of, pages, reader, save,
};

async fn inspect(
    bytes: impl AsRef<[u8]>,
    password: Option<&str>,
    limits: PdfLimits,
) -> Result<u32, PdfError> {
    let saved = save(bytes);
    reader(limits, 1)
        .inspect(PdfSource { password: password.map(Secret::new).as_ref(), ..of(&saved.path) }, OPEN_TIMEOUT)
        .await
}

fn encrypted() -> Vec<u8> {
    let plain = PdfDocument::from_bytes(&document(&[Page::prose(1)])).unwrap();
    let mut options = PdfWriteOptions::default();
    options.set_encryption(Encryption::Aes256).set_user_password("correct horse").set_owner_password("owner");
    let mut bytes = Vec::new();
    plain.write_to_with_options(&mut bytes, options).unwrap();
    bytes
}

#[tokio::test]
async fn an_encrypted_file_needs_the_right_password() {
    assert_eq!(inspect(encrypted(), None, limits()).await, Err(PdfError::PasswordNeeded));
    assert_eq!(inspect(encrypted(), Some("wrong"), limits()).await, Err(PdfError::PasswordWrong));
    assert_eq!(inspect(encrypted(), Some("nul\0"), limits()).await, Err(PdfError::PasswordWrong));
    assert_eq!(inspect(encrypted(), Some("correct horse"), limits()).await, Ok(1));
    assert_eq!(inspect(encrypted(), Some("owner"), limits()).await, Ok(1));
}

#[tokio::test]
async fn control_sequences_in_a_file_do_not_reach_error_messages() {
    let handler =
        "trailer\n<< /Encrypt << /Filter /#1b#5b31mred#07#0aline#e2#80#ae /V 1 /R 2 >> /ID [<00> <00>]";
    let file = String::from_utf8_lossy(&document(&[Page::prose(1)])).replace("trailer\n<<", handler);
    let error = inspect(file, None, limits()).await.unwrap_err();
    assert_eq!(error, PdfError::Corrupt("unknown encryption handler: '?[31mred??line?'".into()));
}

#[tokio::test]
async fn an_open_document_is_not_shown_to_another_password() {
    let saved = save(encrypted());
    let reader = reader(limits(), 1);
    let right = Secret::new("correct horse");
    let readings = reader
        .read(PdfSource { password: Some(&right), ..of(&saved.path) }, &pages([1]), &no_images())
        .await
        .unwrap();
    assert!(readings[0].text.contains("committee"));
    // The child still has it open, decrypted.
    let wrong = Secret::new("wrong");
    assert_eq!(
        reader.read(PdfSource { password: Some(&wrong), ..of(&saved.path) }, &pages([1]), &no_images()).await,
        Err(PdfError::PasswordWrong)
    );
    assert_eq!(reader.read(of(&saved.path), &pages([1]), &no_images()).await, Err(PdfError::PasswordNeeded));
}

#[tokio::test]
async fn the_error_for_another_file_type_names_it() {
    for (bytes, name) in [
        (&b"GIF89a"[..], "GIF"),
        (b"PK\x03\x04....", "ZIP"),
        (b"<html><body>404</body></html>", "HTML"),
        (b"Dear Sir or Madam", "none of them"),
    ] {
        match inspect(bytes, None, limits()).await {
            Err(PdfError::NotAPdf(reason)) => assert!(reason.contains(name), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    // MuPDF does not open an image or XML with a PDF header somewhere inside.
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg'><!-- %PDF-1.7 --><rect width='9' height='9'/></svg>";
    assert!(matches!(inspect(svg, None, limits()).await, Err(PdfError::Corrupt(_) | PdfError::NotAPdf(_))));
}

#[tokio::test]
async fn empty_missing_and_too_large_files_are_refused_without_a_parser() {
    assert_eq!(inspect("", None, limits()).await, Err(PdfError::Empty));
    let small = PdfLimits { max_file_bytes: 100, ..limits() };
    let bytes = document(&[Page::prose(1)]);
    assert_eq!(
        inspect(&bytes, None, small).await,
        Err(PdfError::TooLarge { bytes: bytes.len() as u64, limit: 100 })
    );
    let saved = save("");
    let missing = saved.path.with_file_name("missing.pdf");
    let opened = reader(limits(), 1).inspect(of(&missing), OPEN_TIMEOUT).await;
    assert!(matches!(opened, Err(PdfError::Unavailable(_))), "{opened:?}");
    let directory = reader(limits(), 1).inspect(of(saved.path.parent().unwrap()), OPEN_TIMEOUT).await;
    assert!(matches!(directory, Err(PdfError::NotAPdf(_))), "{directory:?}");
}

#[tokio::test]
async fn a_truncated_file_is_repaired_or_refused() {
    let whole = document(&[Page::prose(1), Page::prose(2), Page::prose(3)]);
    // The cross-reference table is lost but all pages are in the file.
    assert_eq!(inspect(&whole[..whole.len() - 200], None, limits()).await, Ok(3));
    for share in [1, 5, 20, 50, 80] {
        let opened = inspect(&whole[..whole.len() * share / 100], None, limits()).await;
        assert!(
            matches!(opened, Ok(1..=3) | Err(PdfError::Corrupt(_) | PdfError::NoPages)),
            "{share} %: {opened:?}"
        );
    }
}

#[tokio::test]
async fn a_file_of_random_bytes_is_corrupt() {
    let mut noise = b"%PDF-1.7\n".to_vec();
    noise.extend((0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8));
    let opened = inspect(noise, None, limits()).await;
    assert!(matches!(opened, Err(PdfError::Corrupt(_) | PdfError::NoPages)), "{opened:?}");
}

#[tokio::test]
async fn a_document_without_pages_or_with_too_many_is_refused() {
    assert_eq!(inspect(document(&[]), None, limits()).await, Err(PdfError::NoPages));
    let many = document(&vec![Page::blank(); 100_000]);
    assert_eq!(
        inspect(many, None, limits()).await,
        Err(PdfError::TooManyPages { pages: 100_000, limit: 20_000 })
    );
    for claimed in [100_000, 2_000_000_000, 99_999_999_999, -5] {
        assert_eq!(
            inspect(with_count(&[Page::prose(1)], claimed), None, limits()).await,
            Err(PdfError::Corrupt("it claims an impossible number of pages".into())),
            "{claimed}"
        );
    }
}

#[tokio::test]
async fn claimed_pages_that_do_not_exist_are_unreadable() {
    let page = (0..50).fold(Page::prose(1), |page, _| page.extra("/Unused", "Unused", "null"));
    let saved = save(with_count(&[page], 40));
    let readings = reader(limits(), 1).read(of(&saved.path), &pages(1..=41), &no_images()).await.unwrap();
    assert_eq!(readings.len(), 41);
    assert_eq!(readings[0].fault, None);
    assert!(readings[1..].iter().all(|reading| reading.fault.is_some()));
}

#[tokio::test]
async fn pages_truncated_from_a_file_are_unreadable_and_not_blank() {
    let whole = document(&[Page::prose(1), Page::blank(), Page::prose(3)]);
    // Truncated near the end of the last page's content, and before that page.
    for (share, last) in [(95, Reason::Text), (51, Reason::Unreadable)] {
        let truncated = save(&whole[..whole.len() * share / 100]);
        let readings =
            reader(limits(), 1).read(of(&truncated.path), &pages(1..=3), &no_images()).await.unwrap();
        let reasons: Vec<Reason> = readings.iter().map(|reading| reading.reason).collect();
        assert_eq!(reasons, [Reason::Text, Reason::Blank, last], "{share} %");
        let fault = readings[2].fault.as_deref().unwrap_or_default();
        assert_eq!(fault.contains("missing from the file"), last == Reason::Unreadable, "{share} %: {fault}");
    }
}

use everypage_core::{
    dead_letters::DeadLetter,
    finish::result::ResultDocument,
    intake::uploads::Upload,
    job::{Job, Plan},
    prepare::StoredPage,
    read::{breaker::Breaker, pages::Page},
    tenants::api_keys::ApiKey,
};
use serde::{Serialize, de::DeserializeOwned};

/// Whatever is read from the store is written back as it was.
pub fn record(data: &[u8]) {
    comes_back::<Job>(data);
    comes_back::<Page>(data);
    comes_back::<Plan>(data);
    comes_back::<ResultDocument>(data);
    comes_back::<Breaker>(data);
    comes_back::<DeadLetter>(data);
    comes_back::<ApiKey>(data);
    comes_back::<Upload>(data);
    comes_back::<Vec<StoredPage>>(data);
    if let Ok(document) = serde_json::from_slice::<ResultDocument>(data) {
        for format in everypage_core::finish::format::Format::ALL {
            let _ = format.render(&document);
        }
    }
}

fn comes_back<T: Serialize + DeserializeOwned>(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(data) else { return };
    let what = std::any::type_name::<T>();
    let written =
        serde_json::to_vec(&value).unwrap_or_else(|error| panic!("{what} can't be written: {error}"));
    let again = serde_json::from_slice::<T>(&written)
        .unwrap_or_else(|error| panic!("{what} can't be read again: {error}"));
    assert_eq!(serde_json::to_vec(&again).ok(), Some(written), "{what}");
}

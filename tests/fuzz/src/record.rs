use everypage_core::{
    dead_letters::DeadLetter,
    document::TableStyle,
    finish::result::ResultDocument,
    intake::uploads::Upload,
    job::{Job, Plan},
    prepare::StoredPage,
    read::{breaker::Breaker, pages::Page},
    tenants::api_keys::ApiKey,
};
use serde::{Serialize, de::DeserializeOwned};

/// A record that is read from the store is written back unchanged.
pub fn record(data: &[u8]) {
    round_trips::<Job>(data);
    round_trips::<Page>(data);
    round_trips::<Plan>(data);
    round_trips::<ResultDocument>(data);
    round_trips::<Breaker>(data);
    round_trips::<DeadLetter>(data);
    round_trips::<ApiKey>(data);
    round_trips::<Upload>(data);
    round_trips::<Vec<StoredPage>>(data);
    if let Ok(document) = serde_json::from_slice::<ResultDocument>(data) {
        for format in everypage_core::finish::format::Format::ALL {
            let _ = format.render(&document, TableStyle::Html);
        }
    }
}

fn round_trips<T: Serialize + DeserializeOwned>(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(data) else { return };
    let name = std::any::type_name::<T>();
    let written =
        serde_json::to_vec(&value).unwrap_or_else(|error| panic!("{name} can't be written: {error}"));
    let again = serde_json::from_slice::<T>(&written)
        .unwrap_or_else(|error| panic!("{name} can't be read again: {error}"));
    assert_eq!(serde_json::to_vec(&again).ok(), Some(written), "{name}");
}

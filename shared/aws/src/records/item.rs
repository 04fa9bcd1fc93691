//! The encoding of records as DynamoDB items.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use everypage_core::ports::{
    Fault,
    records::{Draft, IndexEntry, Item, Key},
};
use jiff::Timestamp;

use super::{
    SERVICE,
    index::{sharded, unsharded},
};

pub type Attributes = HashMap<String, AttributeValue>;

pub fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub fn key_attributes(key: &Key) -> Attributes {
    [("pk".to_owned(), text(&key.partition)), ("sk".to_owned(), text(&key.sort))].into()
}

pub fn encode(draft: &Draft, version: u64, stamp: &str) -> Attributes {
    let mut attributes = key_attributes(&draft.key);
    let mut set = |name: &str, value| attributes.insert(name.to_owned(), value);
    set("version", number(version));
    set("stamp", text(stamp));
    set("body", text(&draft.body));
    for (index, entry) in [("tenant", &draft.tenant_index), ("state", &draft.state_index)] {
        if let Some(entry) = entry {
            set(&format!("{index}_pk"), text(&sharded(&entry.partition, &draft.key)));
            set(&format!("{index}_sk"), text(&entry.sort));
        }
    }
    if let Some(expires) = draft.expires {
        // DynamoDB's time to live is in whole seconds; rounded up, so that no item expires early.
        set("expires", number((expires.as_millisecond() + 999).div_euclid(1000)));
        set("expires_ms", number(expires.as_millisecond()));
    }
    attributes
}

pub fn decode(attributes: &Attributes) -> Result<Item, Fault> {
    let find = |name: &str| attributes.get(name).and_then(|value| value.as_s().ok()).cloned();
    let missing = |name: &str| {
        let key = (find("pk").unwrap_or_default(), find("sk").unwrap_or_default());
        Fault::broken(SERVICE, format!("item {}/{} has no {name}", key.0, key.1))
    };
    let need = |name: &str| find(name).ok_or_else(|| missing(name));
    let number = |name: &str| attributes.get(name).and_then(|value| value.as_n().ok());
    let entry = |index: &str| {
        let partition = find(&format!("{index}_pk"))?;
        Some(IndexEntry::new(unsharded(&partition), find(&format!("{index}_sk"))?))
    };
    let expires = number("expires_ms").and_then(|ms| Timestamp::from_millisecond(ms.parse().ok()?).ok());
    Ok(Item {
        draft: Draft {
            key: Key::new(need("pk")?, need("sk")?),
            body: need("body")?,
            tenant_index: entry("tenant"),
            state_index: entry("state"),
            expires,
        },
        version: number("version").and_then(|n| n.parse().ok()).ok_or_else(|| missing("version"))?,
        stamp: need("stamp")?,
    })
}

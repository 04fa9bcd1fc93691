//! Cases that an emulator can't produce: unprocessed keys, items in another order.

use serde_json::{Value, json};

use super::*;
use crate::test_clients::{bodies, clients, response};

fn stored(sort: &str) -> Value {
    json!({"pk": {"S": "p"}, "sk": {"S": sort}, "version": {"N": "1"}, "stamp": {"S": "s"}, "body": {"S": sort}})
}

fn found(sorts: &[&str], unprocessed: &[&str]) -> String {
    let keys: Vec<Value> =
        unprocessed.iter().map(|sort| json!({"pk": {"S": "p"}, "sk": {"S": sort}})).collect();
    let unprocessed = if keys.is_empty() { json!({}) } else { json!({"t": {"Keys": keys}}) };
    let items: Vec<Value> = sorts.iter().map(|sort| stored(sort)).collect();
    json!({"Responses": {"t": items}, "UnprocessedKeys": unprocessed}).to_string()
}

fn keys(sorts: &[&str]) -> Vec<Key> {
    sorts.iter().map(|sort| Key::new("p", *sort)).collect()
}

#[tokio::test]
async fn unprocessed_keys_are_requested_again_and_items_are_in_the_callers_order() {
    let (clients, sent) =
        clients(vec![response(200, &found(&["b"], &["a"])), response(200, &found(&["a"], &[]))]);
    let records = DynamoRecords::new(clients.dynamodb, "t");
    let items = records.get_many(&keys(&["a", "b", "none", "a"])).await.unwrap();
    let sorts: Vec<_> =
        items.iter().map(|item| item.as_ref().map(|item| item.draft.key.sort.as_str())).collect();
    assert_eq!(sorts, [Some("a"), Some("b"), None, Some("a")]);
    let sent = bodies(&sent);
    assert_eq!(sent[0]["RequestItems"]["t"]["Keys"].as_array().unwrap().len(), 3, "a duplicate key was sent");
    assert_eq!(sent[0]["RequestItems"]["t"]["ConsistentRead"], true);
    assert_eq!(sent[1]["RequestItems"]["t"]["Keys"], json!([{"pk": {"S": "p"}, "sk": {"S": "a"}}]));
}

#[tokio::test]
async fn no_processed_key_is_throttling() {
    let (clients, _) = clients(vec![response(200, &found(&[], &["a"]))]);
    let fault = DynamoRecords::new(clients.dynamodb, "t").get_many(&keys(&["a"])).await.unwrap_err();
    assert!(matches!(fault, Fault::Throttled { .. }));
}

#[tokio::test]
async fn more_than_a_hundred_keys_are_several_calls() {
    let empty = found(&[], &[]);
    let (clients, sent) = clients(vec![response(200, &empty), response(200, &empty), response(200, &empty)]);
    let sorts: Vec<String> = (0..201).map(|n| n.to_string()).collect();
    let sorts: Vec<&str> = sorts.iter().map(String::as_str).collect();
    let items = DynamoRecords::new(clients.dynamodb, "t").get_many(&keys(&sorts)).await.unwrap();
    assert_eq!(items.len(), 201);
    let count = |body: &Value| body["RequestItems"]["t"]["Keys"].as_array().unwrap().len();
    assert_eq!(bodies(&sent).iter().map(count).collect::<Vec<_>>(), [100, 100, 1]);
}

#[tokio::test]
async fn a_listing_continues_over_pages_cut_short_by_size() {
    let page = |sort: &str, more: bool| {
        let mut page = json!({"Items": [stored(sort)]});
        if more {
            page["LastEvaluatedKey"] = json!({"pk": {"S": "p"}, "sk": {"S": sort}});
        }
        response(200, &page.to_string())
    };
    let (clients, sent) = clients(vec![page("page#1", true), page("page#2", true)]);
    let listing = DynamoRecords::new(clients.dynamodb, "t").list("p", "page#", None, 2).await.unwrap();
    assert_eq!((listing.items.len(), listing.next.as_deref()), (2, Some("page#2")));
    let sent = bodies(&sent);
    assert_eq!((&sent[0]["Limit"], &sent[1]["Limit"]), (&json!(2), &json!(1)));
    assert_eq!(sent[1]["ExclusiveStartKey"]["sk"]["S"], "page#1");
}

#[tokio::test]
async fn a_start_key_outside_the_prefix_is_not_sent() {
    let (clients, sent) = clients(vec![response(200, r#"{"Items": []}"#)]);
    let records = DynamoRecords::new(clients.dynamodb, "t");
    records.list("p", "page#", Some("job"), 5).await.unwrap();
    assert_eq!(records.list("p", "page#", Some("pagelog"), 5).await.unwrap(), Listing::default());
    assert_eq!(bodies(&sent).len(), 1);
    assert_eq!(bodies(&sent)[0]["ExclusiveStartKey"], Value::Null);
}

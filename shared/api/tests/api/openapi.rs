//! The committed OpenAPI document is the one that is served, and describes every route.

use std::collections::BTreeSet;

use everypage_api::openapi;

use crate::support::{Service, operator, request};

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

/// `UPDATE_OPENAPI=1 cargo nextest run --workspace -E 'package(everypage-api) & test(committed)'` updates it.
#[test]
#[expect(clippy::disallowed_methods, reason = "an option of the test run, not a setting")]
fn the_committed_document_is_the_one_that_is_served() {
    let made = format!("{}\n", openapi().to_pretty_json().unwrap());
    if std::env::var("UPDATE_OPENAPI").is_ok() {
        std::fs::write(COMMITTED, &made).unwrap();
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(made == committed, "openapi.json is out of date; run with UPDATE_OPENAPI=1");
}

/// The routes of the API, so that none is added or removed by accident.
const ROUTES: [(&str, &str); 42] = [
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/v1/openapi.json"),
    ("GET", "/v1/me"),
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs/{id}"),
    ("DELETE", "/v1/jobs/{id}"),
    ("GET", "/v1/jobs/{id}/pages"),
    ("GET", "/v1/jobs/{id}/pages/{page}"),
    ("GET", "/v1/jobs/{id}/pages/{page}/image"),
    ("GET", "/v1/jobs/{id}/result"),
    ("GET", "/v1/jobs/{id}/events"),
    ("POST", "/v1/jobs/{id}/cancel"),
    ("POST", "/v1/jobs/{id}/approve"),
    ("POST", "/v1/jobs/{id}/reject"),
    ("POST", "/v1/jobs/{id}/modify"),
    ("POST", "/v1/jobs/{id}/heal"),
    ("GET", "/v1/account"),
    ("GET", "/v1/account/ledger"),
    ("POST", "/v1/account/credits"),
    ("GET", "/v1/account/purchases"),
    ("GET", "/v1/account/purchases/{id}"),
    ("GET", "/v1/dlq"),
    ("POST", "/v1/dlq/estimate"),
    ("POST", "/v1/dlq/redrive"),
    ("POST", "/v1/dlq/purge"),
    ("GET", "/v1/breakers"),
    ("GET", "/v1/notices"),
    ("GET", "/v1/load"),
    ("GET", "/v1/events"),
    ("GET", "/v1/stats"),
    ("GET", "/v1/webhooks"),
    ("POST", "/v1/webhooks"),
    ("GET", "/v1/webhooks/{id}"),
    ("PUT", "/v1/webhooks/{id}"),
    ("DELETE", "/v1/webhooks/{id}"),
    ("GET", "/v1/webhooks/{id}/deliveries"),
    ("GET", "/v1/webhook"),
    ("PUT", "/v1/webhook"),
    ("DELETE", "/v1/webhook"),
];

#[tokio::test(start_paused = true)]
async fn every_route_is_described_and_every_description_is_a_route() {
    let service = Service::new(&[]);
    let served = service.get(operator(), "/v1/openapi.json").await;
    assert_eq!(served.header("content-type"), "application/json");
    assert_eq!(served.text("/openapi"), "3.1.0");
    let document = served.json();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let promised = ROUTES.map(|(method, path)| (method.to_owned(), path.to_owned())).into_iter().collect();
    assert_eq!(described, promised);
    for (method, path) in ROUTES {
        let answer = service
            .send(
                Some(operator()),
                request(method, &path.replace("{id}", "1").replace("{page}", "1"), "", vec![]),
            )
            .await;
        let code = answer.at("/code");
        assert!(code != "not_found" && code != "method_not_allowed", "{method} {path}: {answer:?}");
        let operation = &document["paths"][path][method.to_lowercase()];
        assert!(operation["responses"]["default"].is_object(), "{method} {path} has no problem response");
    }
    let names =
        document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let names: BTreeSet<&str> = names.filter_map(|operation| operation["operationId"].as_str()).collect();
    assert_eq!(names.len(), ROUTES.len(), "operations share an id: {names:?}");
    // Every reference has its schema.
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name} is not described");
    }
}

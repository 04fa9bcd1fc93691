use everypage_core::notify::{deliver, relay};
use everypage_testkit::pdf::FakeDocument;
use serde_json::{Value, json};

use crate::support::{Answer, Service, operator, other_tenant, request, user};

async fn send(service: &Service, method: &str, path: &str, body: &str) -> Answer {
    let request = request(method, path, "application/json", body.as_bytes().to_vec());
    service.send(Some(operator()), request).await
}

fn ids(listed: &Answer) -> Vec<String> {
    listed.items().iter().map(|hook| hook["id"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn webhooks_for_types_of_events_are_added_changed_listed_and_removed() {
    let service = Service::new(&[]);
    service.post(user(), "/v1/webhooks", "{}").await.is_problem(403, "forbidden");
    for events in [r#"["Job Failed"]"#, r#"[""]"#, r#"["job.*.failed"]"#] {
        let body = format!(r#"{{"url":"https://example.com","events":{events}}}"#);
        send(&service, "POST", "/v1/webhooks", &body).await.is_problem(422, "bad_options");
    }
    send(&service, "POST", "/v1/webhooks", "{}").await.is_problem(422, "bad_options");
    let body = r#"{"url":"https://example.com/hook","events":["page.settled","job.*"]}"#;
    let added = send(&service, "POST", "/v1/webhooks", body).await;
    assert_eq!((added.status.as_u16(), added.at("/events")), (201, json!(["page.settled", "job.*"])));
    assert!(added.text("/secret").starts_with("whsec_"), "{added:?}");
    let path = format!("/v1/webhooks/{}", added.text("/id"));
    send(&service, "PUT", "/v1/webhook", r#"{"url":"https://example.com/ends"}"#).await;
    let listed = service.get(operator(), "/v1/webhooks").await;
    assert_eq!(ids(&listed), ["default".to_owned(), added.text("/id")]);
    assert!(listed.at("/items/0/secret").is_null() && listed.at("/items/1/secret").is_null());

    let body = r#"{"url":"https://example.com/other","events":["dlq.*"]}"#;
    let changed = send(&service, "PUT", &path, body).await;
    assert_eq!(
        (changed.text("/url"), changed.at("/secret")),
        ("https://example.com/other".into(), Value::Null)
    );
    let body = r#"{"url":"https://example.com/other","new_secret":true}"#;
    let rotated = send(&service, "PUT", &path, body).await;
    assert!(rotated.text("/secret") != added.text("/secret") && rotated.at("/events") == json!([]));

    assert_eq!(service.get(operator(), &format!("{path}/deliveries")).await.items().len(), 0);
    for missing in ["/v1/webhooks/none", "/v1/webhooks/none/deliveries"] {
        service.get(operator(), missing).await.is_problem(404, "no_webhook");
    }
    for foreign in [path.clone(), format!("{path}/deliveries")] {
        service.get(other_tenant(), &foreign).await.is_problem(404, "no_webhook");
    }
    assert_eq!(send(&service, "DELETE", &path, "").await.status, 204);
    service.get(operator(), &path).await.is_problem(404, "no_webhook");
    assert_eq!(ids(&service.get(operator(), "/v1/webhooks").await), ["default"]);
}

#[tokio::test(start_paused = true)]
async fn messages_to_a_webhook_are_listed_with_their_next_attempt_and_reason() {
    let service = Service::new(&[]);
    let url = "https://example.com/hook";
    let body = format!(r#"{{"url":"{url}","events":["job.audited"]}}"#);
    let added = send(&service, "POST", "/v1/webhooks", &body).await;
    service.harness.hooks.refuse_at(url);
    let job = service.finished(&FakeDocument::graphics(1)).await;
    let app = &service.process.app;
    relay::relay(&app.publisher, &app.store.node).await.unwrap();
    deliver::deliver(&app.publisher).await.unwrap();
    let listed = service.get(operator(), &format!("/v1/webhooks/{}/deliveries", added.text("/id"))).await;
    assert_eq!(listed.items().len(), 1, "{listed:?}");
    assert_eq!((listed.text("/items/0/state"), listed.at("/items/0/attempts")), ("waiting".into(), json!(1)));
    assert_eq!((listed.text("/items/0/type"), listed.text("/items/0/job")), ("job.audited".into(), job));
    assert_eq!(listed.text("/items/0/last_error"), "it answered 500");
    assert!(listed.text("/items/0/next_attempt_at") > listed.text("/items/0/created_at"), "{listed:?}");
}

#[tokio::test(start_paused = true)]
async fn the_list_of_a_jobs_events_has_the_types_that_were_asked_for() {
    let service = Service::new(&[]);
    let job = service.finished(&FakeDocument::graphics(2)).await;
    let types = async |filter: &str| {
        let listed = service.get(user(), &format!("/v1/jobs/{job}/events{filter}")).await;
        let kinds = listed.items().into_iter().map(|event| event["type"].as_str().unwrap().to_owned());
        kinds.collect::<Vec<_>>()
    };
    assert!(types("").await.len() > 5);
    assert_eq!(types("?type=page.settled").await, ["page.settled", "page.settled"]);
    assert_eq!(types("?type=job.received,job.au*").await, ["job.received", "job.audited"]);
    assert!(types("?type=credit.*").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_waits_shows_when_it_is_sent_next() {
    let service = Service::new(&[]);
    let locked = FakeDocument { password: Some("x".into()), ..FakeDocument::graphics(1) };
    service.finished(&locked).await;
    let listed = service.get(operator(), "/v1/notices").await;
    let state = (listed.text("/items/0/state"), listed.at("/items/0/next_attempt_at").is_string());
    assert!(matches!((state.0.as_str(), state.1), ("waiting", true) | ("sent", false)), "{listed:?}");
    assert!(listed.at("/items/0/attempts").is_u64(), "{listed:?}");
}

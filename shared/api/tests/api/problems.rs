use everypage_testkit::{
    faulty::{Faults, Mode},
    pdf::FakeDocument,
};
use everypage_tests::harness::Harness;
use proptest::prelude::*;

use crate::support::{Service, operator, request, user, with_header};

#[tokio::test(start_paused = true)]
async fn errors_of_the_framework_are_problems_too() {
    let service = Service::new(&[]);
    for path in ["/", "/v1", "/v1/nothing", "/v2/jobs", "/v1/jobs/"] {
        service.get(user(), path).await.is_problem(404, "not_found").says(path);
    }
    for (method, path, allowed) in [
        ("PUT", "/v1/jobs", "GET,HEAD,POST"),
        ("GET", "/v1/jobs/x/cancel", "POST"),
        ("PATCH", "/v1/jobs/x", "DELETE,GET,HEAD"),
    ] {
        let answer = service.send(Some(user()), request(method, path, "", vec![])).await;
        answer.is_problem(405, "method_not_allowed").says(method);
        let mut allow: Vec<&str> = answer.header("allow").split(',').map(str::trim).collect();
        allow.sort();
        assert_eq!(allow.join(","), allowed, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_storage_is_503_without_details() {
    // Four calls: retried after 1 s, 4 s and 16 s.
    let service = Service::of(Harness::with_faults(&[], Faults::at(0, 4, Mode::Refuse), false), |api| api);
    let answer = service.get(user(), "/v1/jobs/1").await;
    answer.is_problem(503, "unavailable");
    assert_eq!(answer.header("retry-after"), "5");
    service.get(user(), "/v1/jobs/1").await.is_problem(404, "unknown_job");
    let service = Service::of(Harness::with_faults(&[], Faults::at(0, 1, Mode::Refuse), false), |api| api);
    service.get(user(), "/readyz").await.is_problem(503, "unavailable").says("storage");
    assert_eq!(service.get(user(), "/healthz").await.status, 200);
    assert_eq!(service.get(user(), "/readyz").await.status, 200);
    let service = Service::of(Harness::with_faults(&[], Faults::stop_at(0), false), |api| api);
    service.get(user(), "/readyz").await.is_problem(503, "unavailable").says("too long");
}

#[tokio::test(start_paused = true)]
async fn a_corrupt_record_is_an_internal_error_without_details() {
    let service = Service::new(&[]);
    let id = service.job("", &FakeDocument::graphics(1)).await;
    let key = everypage_core::keys::record::job(&everypage_core::ids::JobId::new(&id));
    service.harness.records.forge(&key, "{\"secret\":\"of the house\"}".into());
    let answer = service.get(user(), &format!("/v1/jobs/{id}")).await;
    answer.is_problem(500, "internal");
    assert!(!format!("{answer:?}").contains("house"));
}

#[tokio::test(start_paused = true)]
async fn a_request_keeps_its_id() {
    let service = Service::new(&[]);
    let named = with_header(request("GET", "/healthz", "", vec![]), "x-request-id", "abc");
    assert_eq!(service.send(None, named).await.header("x-request-id"), "abc");
}

fn anything() -> impl Strategy<Value = (usize, String, String, usize, Vec<u8>)> {
    let value =
        prop_oneof!["[ -~]{0,12}", "[0-9]{1,20}", "\\PC{0,6}", Just("all".to_owned()), Just("5m".to_owned())];
    let name = prop::sample::select(vec![
        "pages", "ai_pages", "tier", "deadline", "priority", "provider", "force", "name", "limit", "cursor",
        "status", "format", "version", "reason", "ids", "all", "rate", "upload", "x",
    ]);
    let json = (name.clone(), value.clone())
        .prop_map(|(name, value)| serde_json::json!({ name: value }).to_string());
    let body = prop_oneof![prop::collection::vec(any::<u8>(), 0..60), json.prop_map(String::into_bytes)];
    (0..ROUTES.len(), name.prop_map(str::to_owned), value, 0..MEDIA_TYPES.len(), body)
}

const ROUTES: [(&str, &str); 12] = [
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs/{id}"),
    ("GET", "/v1/jobs/{id}/pages"),
    ("GET", "/v1/jobs/{id}/result"),
    ("GET", "/v1/jobs/{id}/events"),
    ("POST", "/v1/jobs/{id}/cancel"),
    ("POST", "/v1/jobs/{id}/reject"),
    ("POST", "/v1/jobs/{id}/modify"),
    ("POST", "/v1/jobs/{id}/heal"),
    ("GET", "/v1/dlq"),
    ("POST", "/v1/dlq/redrive"),
];
const MEDIA_TYPES: [&str; 5] = [
    "",
    "application/json",
    "application/pdf",
    "multipart/form-data; boundary=XX",
    "multipart/form-data; boundary=",
];

/// Percent-encodes every byte, so that any text fits into a URL.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn no_input_causes_a_server_error() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let (service, id) = runtime.block_on(async {
        let service = Service::new(&[]);
        let id = service.finished(&FakeDocument::graphics(1)).await;
        (service, id)
    });
    proptest!(|((route, name, value, media, body) in anything())| {
        let (method, path) = ROUTES[route];
        for id in [id.clone(), encoded(&value)] {
            let path = format!("{}?{name}={}", path.replace("{id}", &id), encoded(&value));
            let request = request(method, &path, MEDIA_TYPES[media], body.clone());
            let answer = runtime.block_on(service.send(Some(operator()), request));
            prop_assert!(answer.status.as_u16() < 500, "{} {}: {:?}", method, path, answer);
        }
    });
}

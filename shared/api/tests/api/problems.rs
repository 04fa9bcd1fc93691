use everypage_testkit::{
    faulty::{Faults, Mode},
    pdf::FakeDocument,
};
use everypage_tests::world::World;

use crate::support::{Service, request, user, with_header};

#[tokio::test(start_paused = true)]
async fn what_the_framework_refuses_has_the_same_shape() {
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
async fn a_storage_that_does_not_answer_is_503_and_tells_nothing() {
    // Tried four times: with the intervals of 1 s, 4 s and 16 s in between.
    let service = Service::of(World::with_faults(&[], Faults::at(0, 4, Mode::Refuse), false), |api| api);
    let answer = service.get(user(), "/v1/jobs/1").await;
    answer.is_problem(503, "unavailable");
    assert_eq!(answer.header("retry-after"), "5");
    service.get(user(), "/v1/jobs/1").await.is_problem(404, "unknown_job");
    let service = Service::of(World::with_faults(&[], Faults::at(0, 1, Mode::Refuse), false), |api| api);
    service.get(user(), "/readyz").await.is_problem(503, "unavailable").says("storage");
    assert_eq!(service.get(user(), "/healthz").await.status, 200);
    assert_eq!(service.get(user(), "/readyz").await.status, 200);
    let service = Service::of(World::with_faults(&[], Faults::stop_at(0), false), |api| api);
    service.get(user(), "/readyz").await.is_problem(503, "unavailable").says("too long");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_can_not_be_read_is_our_fault_and_told_as_such() {
    let service = Service::new(&[]);
    let id = service.job("", &FakeDocument::graphics(1)).await;
    let key = everypage_core::store::jobs::key(&everypage_core::domain::ids::JobId::new(&id));
    service.world.records.forge(&key, "{\"secret\":\"of the house\"}".into());
    let answer = service.get(user(), &format!("/v1/jobs/{id}")).await;
    answer.is_problem(500, "internal");
    assert!(!format!("{answer:?}").contains("house"));
}

#[tokio::test(start_paused = true)]
async fn a_request_keeps_its_name() {
    let service = Service::new(&[]);
    let named = with_header(request("GET", "/healthz", "", vec![]), "x-request-id", "abc");
    assert_eq!(service.send(None, named).await.header("x-request-id"), "abc");
}

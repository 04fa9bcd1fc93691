use everypage_core::ids::JobId;
use everypage_testkit::pdf::FakeDocument;

use crate::support::{Service, operator, user};

const NEEDS_APPROVAL: [(&str, &str); 1] = [("APPROVAL_THRESHOLD_USD", "0.000001")];

#[tokio::test(start_paused = true)]
async fn an_approved_plan_continues() {
    let service = Service::new(&NEEDS_APPROVAL);
    let id = service.proposed("", &FakeDocument::graphics(2)).await;
    let path = format!("/v1/jobs/{id}");
    assert!(service.get(user(), &path).await.text("/plan/approval").contains("over the threshold"));
    let approved = service.post(operator(), &format!("{path}/approve"), "").await;
    assert_eq!((approved.status.as_u16(), approved.text("/state")), (200, "APPROVED".into()));
    let again = service.post(operator(), &format!("{path}/approve"), "").await;
    again.is_problem(409, "illegal_transition").says("does not wait");
    service.harness.start("b").finish(&JobId::new(&id)).await;
    let events = service.get(user(), &format!("{path}/events")).await;
    let by = events.items().into_iter().find(|event| event["type"] == "job.approved").unwrap();
    assert_eq!(by["data"]["by"], "user of acme");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_plan_ends_with_the_reason() {
    let service = Service::new(&NEEDS_APPROVAL);
    let id = service.proposed("", &FakeDocument::graphics(2)).await;
    let path = format!("/v1/jobs/{id}/reject");
    service.post(operator(), &path, "{\"why\":\"x\"}").await.is_problem(422, "bad_options").says("reason");
    let long = format!("{{\"reason\":\"{}\"}}", "x".repeat(1001));
    service.post(operator(), &path, &long).await.is_problem(422, "bad_options");
    let rejected = service.post(operator(), &path, "{\"reason\":\"too expensive\"}").await;
    assert_eq!((rejected.status.as_u16(), rejected.text("/status")), (200, "rejected".into()));
    assert_eq!(rejected.text("/message"), "too expensive (by user of acme)");
    service
        .get(user(), &format!("/v1/jobs/{id}/result"))
        .await
        .is_problem(404, "no_result")
        .says("too expensive");
}

#[tokio::test(start_paused = true)]
async fn a_modified_plan_is_executed() {
    let service = Service::new(&NEEDS_APPROVAL);
    let id = service.proposed("", &FakeDocument::graphics(4)).await;
    let path = format!("/v1/jobs/{id}/modify");
    service.post(operator(), &path, "{}").await.is_problem(422, "bad_options").says("tier");
    let bad = service
        .post(operator(), &path, "{\"tier\":\"best\",\"force\":true,\"name\":\"x\",\"pages\":[1]}")
        .await;
    bad.is_problem(422, "bad_options").says("can't be changed");
    assert_eq!(bad.at("/errors").as_array().unwrap().len(), 4, "{bad:?}");
    let change = "{\"tier\":\"fast\",\"provider\":\"anthropic\",\"pages\":\"2-3\",\"deadline\":\"20m\",\"priority\":5}";
    let modified = service.post(operator(), &path, change).await;
    assert_eq!((modified.status.as_u16(), modified.text("/state")), (200, "APPROVED".into()), "{modified:?}");
    assert_eq!((modified.at("/plan/version"), modified.at("/plan/ai_pages")), (2.into(), 2.into()));
    assert_eq!(modified.text("/deadline"), "2026-11-16T00:20:01Z");
    service.harness.start("b").finish(&JobId::new(&id)).await;
    let pages = service.get(user(), &format!("/v1/jobs/{id}/pages")).await.items();
    let sources: Vec<&str> = pages.iter().map(|page| page["source"].as_str().unwrap()).collect();
    assert_eq!(sources, ["mupdf", "ai", "ai", "mupdf"]);
    assert_eq!(pages[1]["provider"], "anthropic");
    service.post(operator(), &path, "{\"tier\":\"fast\"}").await.is_problem(409, "illegal_transition");
}

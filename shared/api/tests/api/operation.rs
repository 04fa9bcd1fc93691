use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use everypage_api::{Caller, Role, Workers};
use everypage_core::{
    dead_letters::add::{self, NewDeadLetter},
    ids::JobId,
    ports::{clock::Clock, vision::VisionError},
};
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::harness::Harness;

use crate::support::{Service, caller, operator, other_tenant, request, user, with_header};

/// A service with dead letters, each of the only page of a job.
async fn with_dead_letters(count: u32) -> (Service, Vec<String>) {
    let service = Service::new(&[]);
    service
        .harness
        .vision
        .set_behaviour(|_, _| Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }));
    let mut ids = Vec::new();
    for number in 0..count {
        let mut document = FakeDocument::graphics(1);
        document.pages[0].text = format!("layer of page of document {number}");
        ids.push(service.finished(&document).await);
        // Until the records of the breakers have expired.
        service.harness.advance(Duration::from_secs(700)).await;
    }
    service.harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    (service, ids)
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_listed_for_their_tenant_without_their_text() {
    let (service, ids) = with_dead_letters(5).await;
    let all = service.get(operator(), "/v1/dlq").await;
    assert_eq!(all.items().len(), 5, "{all:?}");
    assert!(all.text("/items/0/reason").contains("HTTP 418"));
    assert_eq!(all.text("/items/0/subject/job"), ids[0]);
    assert_eq!(all.text("/items/0/subject/kind"), "page");
    assert!(!format!("{all:?}").contains("layer of page"), "document text in {all:?}");
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let list = service.get(operator(), &format!("/v1/dlq?limit=2{cursor}")).await;
        seen.extend(list.items());
        match list.at("/next").as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, all.items());
    assert_eq!(service.get(other_tenant(), "/v1/dlq").await.items().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn lists_and_cursors_reveal_nothing_of_other_tenants() {
    let service = Service::new(&[]);
    service
        .harness
        .vision
        .set_behaviour(|_, _| Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }));
    let mut foreign = Vec::new();
    for number in 0..6 {
        let mut document = FakeDocument::graphics(1);
        document.pages[0].text = format!("document {number}");
        let caller = if number % 2 == 0 { operator() } else { other_tenant() };
        let id = service.submit(caller, "", &document).await.text("/id");
        service.process.finish(&JobId::new(&id)).await;
        foreign.extend((number % 2 == 1).then_some(id));
        service.harness.advance(Duration::from_secs(700)).await;
    }
    let (mut cursor, mut seen) = (String::new(), 0);
    loop {
        let list = service.get(operator(), &format!("/v1/dlq?limit=1{cursor}")).await;
        seen += list.items().len();
        let Some(next) = list.at("/next").as_str().map(str::to_owned) else { break };
        let place = String::from_utf8(URL_SAFE_NO_PAD.decode(&next).unwrap()).unwrap();
        assert!(!foreign.iter().any(|id| place.contains(id)), "{place} of {foreign:?}");
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, 3);
    assert_eq!(service.get(operator(), "/v1/load").await.at("/dead_letters"), 3);
    assert_eq!(service.get(caller("unknown", Role::Operator), "/v1/load").await.at("/dead_letters"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_purged_dead_letter_costs_nothing_and_is_not_redriven() {
    let (service, _) = with_dead_letters(2).await;
    let first = service.get(operator(), "/v1/dlq").await.text("/items/0/id");
    let ids = format!("{{\"ids\":[\"{first}\"]}}");
    let purge = format!("{{\"ids\":[\"{first}\"],\"confirm\":1}}");
    assert_eq!(service.post(operator(), "/v1/dlq/estimate", &ids).await.at("/dead_letters"), 1);
    assert_eq!(service.post(operator(), "/v1/dlq/purge", &purge).await.at("/purged"), 1);
    let cost = service.post(operator(), "/v1/dlq/estimate", &ids).await;
    assert_eq!((cost.at("/dead_letters"), cost.at("/pages")), (0.into(), 0.into()));
    let sent = service.post(operator(), "/v1/dlq/redrive", &ids).await;
    assert_eq!(sent.text("/failed/0/code"), "unknown_dead_letter", "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_document_without_pages_for_ai_costs_nothing_to_redrive() {
    let service = Service::new(&[]);
    let mut document = FakeDocument::mixed(2);
    document.pages.truncate(1);
    let id = JobId::new(service.job("", &document).await);
    let app = &service.process.app;
    // A step fails for good after the plan is made.
    service.process.finish(&id).await;
    let job = service.process.job(&id).await;
    assert_eq!(job.plan.as_ref().unwrap().ai_pages, 0);
    add::add(&app.dead_letters, NewDeadLetter::of_job(&job, "it broke".into())).await.unwrap();
    let cost = service.post(operator(), "/v1/dlq/estimate", "{\"all\":true}").await;
    let shown = (cost.at("/dead_letters"), cost.at("/cost_micro_usd"), cost.at("/unknown"));
    assert_eq!(shown, (1.into(), 0.into(), 0.into()), "{cost:?}");
}

#[tokio::test(start_paused = true)]
async fn an_estimate_ends_before_the_gateway_times_out() {
    let (service, _) = with_dead_letters(3).await;
    let api = everypage_api::Api::new(service.process.app.clone()).with_batch_time(Duration::ZERO);
    let service = Service { router: everypage_api::router(api), ..service };
    let cost = service.post(operator(), "/v1/dlq/estimate", "{\"all\":true}").await;
    assert_eq!((cost.at("/dead_letters"), cost.at("/remaining")), (1.into(), 2.into()), "{cost:?}");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_redriven_by_id_or_all_and_only_by_their_tenant() {
    let (service, ids) = with_dead_letters(3).await;
    let dead_letters = service.get(operator(), "/v1/dlq").await;
    let first = dead_letters.text("/items/0/id");
    let body = format!("{{\"ids\":[\"{first}\",\"unknown\"]}}");
    let foreign = service.post(other_tenant(), "/v1/dlq/redrive", &body).await;
    assert_eq!(foreign.at("/redriven"), serde_json::json!([]));
    assert_eq!(foreign.text("/failed/0/code"), "unknown_dead_letter");
    assert_eq!(foreign.text("/failed/0/reason"), foreign.text("/failed/1/reason"));
    assert_eq!(service.post(other_tenant(), "/v1/dlq/redrive", "{\"all\":true}").await.at("/remaining"), 0);
    let one = service.post(operator(), "/v1/dlq/redrive", &body).await;
    assert_eq!(one.at("/redriven"), serde_json::json!([first]), "{one:?}");
    assert_eq!(one.text("/failed/0/id"), "unknown");
    assert_eq!(service.get(operator(), "/v1/dlq").await.items().len(), 2);
    let rest = service.post(operator(), "/v1/dlq/redrive", "{\"all\":true,\"rate\":100}").await;
    assert_eq!((rest.at("/redriven").as_array().unwrap().len(), rest.at("/remaining")), (2, 0.into()));
    service.process.work_for(Duration::from_secs(10)).await;
    for id in ids {
        let healed = service.get(user(), &format!("/v1/jobs/{id}")).await;
        assert_eq!(
            (healed.at("/result/metadata/final_ai_pages"), healed.at("/result/version")),
            (1.into(), 2.into())
        );
    }
    assert_eq!(service.get(operator(), "/v1/dlq").await.items().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_purged_only_when_their_number_is_confirmed() {
    let (service, _) = with_dead_letters(3).await;
    let first = service.get(operator(), "/v1/dlq").await.text("/items/0/id");
    let cost = service.post(operator(), "/v1/dlq/estimate", "{\"all\":true}").await;
    assert_eq!(
        (cost.at("/dead_letters"), cost.at("/pages"), cost.at("/unknown")),
        (3.into(), 3.into(), 0.into())
    );
    assert_eq!(
        service.post(other_tenant(), "/v1/dlq/estimate", "{\"all\":true}").await.at("/dead_letters"),
        0
    );
    for (body, count) in [
        ("{\"all\":true}".to_owned(), 3),
        ("{\"all\":true,\"confirm\":2}".to_owned(), 3),
        (format!("{{\"ids\":[\"{first}\",\"{first}\",\"unknown\"],\"confirm\":2}}"), 1),
    ] {
        let refused = service.post(operator(), "/v1/dlq/purge", &body).await;
        refused.is_problem(409, "not_confirmed").says(&format!("{count} dead letters"));
    }
    let foreign = service.post(other_tenant(), "/v1/dlq/purge", "{\"all\":true,\"confirm\":0}").await;
    assert_eq!(foreign.at("/purged"), 0);
    let one = format!("{{\"ids\":[\"{first}\"],\"confirm\":1}}");
    assert_eq!(service.post(operator(), "/v1/dlq/purge", &one).await.at("/purged"), 1);
    // A purged dead letter does not count any more.
    service.post(operator(), "/v1/dlq/purge", &one).await.is_problem(409, "not_confirmed");
    assert_eq!(service.get(operator(), "/v1/dlq").await.items().len(), 2);
    let rest = service.post(operator(), "/v1/dlq/purge", "{\"all\":true,\"confirm\":2}").await;
    assert_eq!((rest.at("/purged"), service.get(operator(), "/v1/dlq").await.items().len()), (2.into(), 0));
}

#[tokio::test(start_paused = true)]
async fn the_load_has_waiting_pages_and_calls_in_flight() {
    let service = Service::new(&[("HEDGE", "off")]);
    service
        .harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_secs(60), read_by(target, page)));
    let id = service.job("", &FakeDocument::graphics(5)).await;
    service.process.kill_after(&JobId::new(&id), Duration::from_secs(10)).await;
    let load = service.get(operator(), "/v1/load").await;
    let models = load.at("/models").as_array().unwrap().clone();
    let busy: Vec<_> = models.iter().filter(|model| model["in_flight"] != 0).collect();
    assert_eq!(
        (busy.len(), &busy[0]["in_flight"], &busy[0]["limit"]),
        (1, &5.into(), &24.into()),
        "{load:?}"
    );
    let lanes = load.at("/lanes").as_array().unwrap().clone();
    assert_eq!(lanes.iter().find(|lane| lane["priority"] == "normal").unwrap()["waiting"], 5, "{load:?}");
    assert_eq!(load.at("/dead_letters"), 0);
}

#[tokio::test(start_paused = true)]
async fn metrics_are_served_where_they_are_recorded() {
    Service::new(&[]).get(operator(), "/metrics").await.is_problem(404, "no_metrics");
    let recording = |api: everypage_api::Api| api.with_metrics(Arc::new(|| "everypage_x 1\n".to_owned()));
    let service = Service::of(Harness::new(&[]), recording);
    let metrics = service.get(operator(), "/metrics").await;
    assert_eq!((metrics.status.as_u16(), metrics.body.as_slice()), (200, b"everypage_x 1\n".as_slice()));
    assert!(metrics.header("content-type").starts_with("text/plain; version=0.0.4"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_redrive_reports_what_remains() {
    let (service, _) = with_dead_letters(5).await;
    let before = service.harness.clock.now();
    let answer = service.post(operator(), "/v1/dlq/redrive", "{\"all\":true,\"rate\":0.1}").await;
    assert_eq!((answer.at("/redriven").as_array().unwrap().len(), answer.at("/remaining")), (2, 3.into()));
    assert_eq!(service.harness.clock.now().duration_since(before).as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_redrive_needs_ids_or_all_and_a_valid_rate() {
    let service = Service::new(&[]);
    for (body, word) in [
        ("{}", "either"),
        ("", "either"),
        ("{\"all\":true,\"ids\":[\"x\"]}", "either"),
        ("{\"ids\":[]}", "1 to 1000"),
        ("{\"all\":true,\"rate\":0}", "dead letters per second"),
        ("{\"all\":true,\"rate\":-1}", "dead letters per second"),
        ("{\"everything\":true}", "everything"),
        ("{\"ids\":\"x\"}", "sequence"),
    ] {
        service.post(operator(), "/v1/dlq/redrive", body).await.is_problem(422, "bad_options").says(word);
    }
    service.post(operator(), "/v1/dlq/redrive", "nonsense").await.is_problem(400, "bad_request");
    let many = format!("{{\"ids\":[{}]}}", vec!["\"x\""; 1001].join(","));
    service.post(operator(), "/v1/dlq/redrive", &many).await.is_problem(422, "bad_options");
    let huge = format!("{{\"ids\":[\"{}\"]}}", "x".repeat(70_000));
    service.post(operator(), "/v1/dlq/redrive", &huge).await.is_problem(413, "file_too_large");
}

#[tokio::test(start_paused = true)]
async fn a_document_that_failed_without_its_password_is_redriven_with_it() {
    let service = Service::new(&[]);
    let document = FakeDocument { password: Some("sesame".into()), ..FakeDocument::graphics(1) };
    let id = service.finished(&document).await;
    let seen = service.get(user(), &format!("/v1/jobs/{id}")).await;
    assert_eq!(seen.text("/error/code"), "password_needed");
    let redrive = request("POST", "/v1/dlq/redrive", "application/json", b"{\"all\":true}".to_vec());
    let answer = service.send(Some(operator()), with_header(redrive, "everypage-password", "sesame")).await;
    assert_eq!(answer.at("/redriven").as_array().unwrap().len(), 1, "{answer:?}");
    service.process.finish(&JobId::new(&id)).await;
    let seen = service.get(user(), &format!("/v1/jobs/{id}")).await;
    assert_eq!((seen.text("/status"), seen.at("/redrives")), ("success".into(), 1.into()));
}

#[tokio::test(start_paused = true)]
async fn a_redrive_takes_a_password_of_any_characters() {
    let service = Service::new(&[]);
    let document = FakeDocument { password: Some("пароль ü".into()), ..FakeDocument::graphics(1) };
    let id = service.finished(&document).await;
    let body = "{\"all\":true,\"password\":\"пароль ü\"}";
    let both = request("POST", "/v1/dlq/redrive", "application/json", body.as_bytes().to_vec());
    let both = service.send(Some(operator()), with_header(both, "everypage-password", "x")).await;
    both.is_problem(422, "bad_options").says("given twice");
    let answer = service.post(operator(), "/v1/dlq/redrive", body).await;
    assert_eq!(answer.at("/redriven").as_array().unwrap().len(), 1, "{answer:?}");
    service.process.finish(&JobId::new(&id)).await;
    assert_eq!(service.get(user(), &format!("/v1/jobs/{id}")).await.text("/status"), "success");
}

/// Records the jobs that it is to resume.
#[derive(Default)]
struct RecordingWorkers(Mutex<Vec<JobId>>);

impl Workers for RecordingWorkers {
    fn resume(&self, job: &JobId) {
        self.0.lock().expect("no panic while it was locked").push(job.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn workers_resume_jobs_with_new_messages_and_no_others() {
    let workers = Arc::new(RecordingWorkers::default());
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let service = Service::of(harness, |api| api.with_workers(workers.clone()));
    let failed = FakeDocument { password: Some("sesame".into()), ..FakeDocument::graphics(1) };
    let failed = service.finished(&failed).await;
    service.post(user(), &format!("/v1/jobs/{failed}/heal"), "").await.is_problem(409, "nothing_to_heal");
    assert!(workers.0.lock().unwrap().is_empty());
    let id = service.finished(&FakeDocument::graphics(1)).await;
    let answer = service.post(user(), &format!("/v1/jobs/{id}/heal"), "").await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(*workers.0.lock().unwrap(), [JobId::new(&id)]);
}

#[tokio::test(start_paused = true)]
async fn operators_see_the_breakers() {
    let service = Service::new(&[("BREAKER_FAILURE_THRESHOLD", "1"), ("PATIENCE", "0")]);
    service.harness.vision.set_behaviour(|_, _| Reply::down());
    service.finished(&FakeDocument::graphics(1)).await;
    let breakers = service.get(caller("any", Role::Operator), "/v1/breakers").await;
    assert_eq!(breakers.items().len(), 4, "{breakers:?}");
    assert_eq!(breakers.text("/items/0/state"), "open");
    assert!(breakers.text("/items/0/open_until").ends_with('Z'));
    assert_eq!(breakers.at("/items/0/trips"), 1);
    let _: Caller = operator();
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_set_with_a_secret_shown_once() {
    let service = Service::new(&[]);
    service.get(operator(), "/v1/webhook").await.is_problem(404, "no_webhook");
    let put = |body: &str| request("PUT", "/v1/webhook", "application/json", body.as_bytes().to_vec());
    service.send(Some(user()), put("{}")).await.is_problem(403, "forbidden");
    for bad in ["{}", "{\"url\":\"nowhere\"}", &format!("{{\"url\":\"http{}\"}}", "x".repeat(3000))] {
        service.send(Some(operator()), put(bad)).await.is_problem(422, "bad_options");
    }
    let set = service.send(Some(operator()), put("{\"url\":\"https://example.com/hook\"}")).await;
    assert!(set.text("/secret").starts_with("whsec_"), "{set:?}");
    let shown = service.get(operator(), "/v1/webhook").await;
    assert_eq!(
        (shown.text("/url"), shown.at("/secret")),
        ("https://example.com/hook".into(), Default::default())
    );
    service.get(other_tenant(), "/v1/webhook").await.is_problem(404, "no_webhook");
    let unset = service.send(Some(operator()), request("DELETE", "/v1/webhook", "", vec![])).await;
    assert_eq!(unset.status, 204);
    service.get(operator(), "/v1/webhook").await.is_problem(404, "no_webhook");
}
